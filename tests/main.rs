//! The integration tests: one target, one module per topic.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test that cannot go on ends here, and says why on its standard error"
)]
#![allow(dead_code, reason = "the harness has rooms for topics to come")]

mod acquire;
mod bad_input;
mod cancel;
mod chaos;
mod child;
mod clocks;
mod color;
mod config;
mod conventions;
mod cron;
mod deploy;
mod doctor;
mod documents;
mod endurance;
mod exit_codes;
mod faults;
mod fence;
mod fence_model;
mod harness;
mod hold;
mod house;
mod interop;
mod keys;
mod label;
mod loss;
mod min_hold;
mod nested;
mod premises;
mod reach;
mod recipes;
mod report;
mod sandbox;
mod scripts;
mod secrets;
mod sim;
mod slots;
mod status;
mod stress;
mod supervision;
mod tls;
mod tokens;
mod track_record;
mod waiting;
