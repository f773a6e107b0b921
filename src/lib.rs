//! redlock: flock(1) for a fleet.
pub mod cli;
pub mod clock;
pub mod duration;
pub mod exit;
pub mod protocol;
pub mod wake;
