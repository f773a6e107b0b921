//! redlock: flock(1) for a fleet.
pub mod child;
pub mod cli;
pub mod clock;
pub mod duration;
pub mod exit;
pub mod protocol;
pub mod run;
pub mod signal;
pub mod wake;
