//! redlock: flock(1) for a fleet.
pub mod child;
pub mod clock;
pub mod commands;
pub mod exit;
pub mod protocol;
pub mod wake;
