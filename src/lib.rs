//! redlock: flock(1) for a fleet.
pub mod clock;
pub mod exit;
pub mod node;
pub mod protocol;
pub mod wake;
