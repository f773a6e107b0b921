//! redlock: flock(1) for a fleet.
pub mod child;
pub mod cli;
pub mod clock;
pub mod duration;
pub mod commands;
pub mod exit;
pub mod node;
pub mod protocol;
pub mod run;
pub mod settings;
pub mod signal;
pub mod ui;
pub mod wake;
