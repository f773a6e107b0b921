//! redlock: flock(1) for a fleet.
//!
//! # How a run works
//!
//! `redlock run` has two threads and one helper process. The main thread owns the command, the
//! deadline and every decision about them ([`run`]). The node thread owns the connections to the
//! Redis masters and drives one [`protocol::Session`] over them ([`node`]). The guardian is a forked
//! process that ends the command when redlock itself is killed or stopped ([`child`]).
//!
//! What was typed ([`cli`]) becomes what it means ([`settings`]), checked as a whole before anything
//! is contacted. The guardian, the threads and the signal handlers are made; then the lock is asked
//! for. The session attempts, waits, holds and finally releases; what it finds out comes to the main
//! thread as [`protocol::Event`]s. The main thread starts the command when a quorum is ours, ends it
//! before the validity ends, and tells the session to release only when nothing of the command is
//! left. The exit status is the command's, or one of [`exit::TABLE`]. What people should know
//! leaves as a [`ui::Notice`] and becomes a line on standard error.
//!
//! # The rooms
//!
//! Arrows point down only, which a test checks: `commands` and [`run`] use [`settings`]; these use
//! [`node`], [`child`], [`signal`], [`ui`] and [`cli`]; these use [`protocol`]; below lie [`clock`],
//! [`duration`], [`exit`] and [`wake`].
//!
//! [`protocol`] and `run::machine` are pure: events and the time go in, actions come out. They know
//! no socket, no thread and no clock, so that a simulator can drive them through millions of
//! histories. `redis` is used in [`node`] only, `clap` in [`cli`], printing is [`ui`]'s, `unsafe` is
//! [`child`]'s, and the process is ended in `main` alone.

pub mod child;
pub mod cli;
pub mod clock;
pub mod commands;
pub mod duration;
pub mod exit;
pub mod node;
pub mod protocol;
pub mod run;
pub mod settings;
pub mod signal;
pub mod ui;
pub mod wake;

use std::{ffi::OsString, io};

use crate::{
    cli::{
        AcquireArgs, Cli, Command, DoctorArgs, ExtendArgs, Instead, ReleaseArgs, RunArgs,
        SandboxArgs, StatusArgs,
    },
    exit::{Code, Exit},
    protocol::{Adoption, Session},
    settings::{
        AcquireSettings, DoctorSettings, ExtendSettings, ReleaseSettings, RunSettings,
        SettingsError, StatusSettings,
    },
    ui::Voice,
};

/// Carries out a command line (the first word is the program's name). The process must have one
/// thread when this is called.
pub fn run_command_line(args: impl IntoIterator<Item = OsString>) -> Exit {
    match cli::parse(args) {
        Ok(Cli { command: Command::Run(args) }) => run_under_lock(*args),
        Ok(Cli { command: Command::Acquire(args) }) => acquire(&args),
        Ok(Cli { command: Command::Extend(args) }) => extend(&args),
        Ok(Cli { command: Command::Release(args) }) => release(&args),
        Ok(Cli { command: Command::Status(args) }) => status(&args),
        Ok(Cli { command: Command::Doctor(args) }) => doctor(&args),
        Ok(Cli { command: Command::Sandbox(args) }) => sandbox(&args),
        Err(Instead::Print(text)) => match ui::deliver(&text) {
            Ok(()) => Code::Success.into(),
            // Who has read enough of it (`| head`) is content.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Code::Success.into(),
            Err(error) => failed(Code::Failure, &format!("cannot write to stdout: {error}")),
        },
        Err(Instead::Usage(text)) => failed(Code::Usage, &text),
    }
}

fn run_under_lock(args: RunArgs) -> Exit {
    let format = settings::format(&args);
    match RunSettings::read(args) {
        Ok(RunSettings { fleet, keys, contract, adopted, plan, subject, tone }) => {
            let connect = |events| {
                let nodes = match adopted {
                    None => node::start(fleet, Session::new(contract), &keys, events)?,
                    Some(token) => {
                        let adoption =
                            Adoption::new(fleet.len(), token, contract.holder, contract.timing);
                        node::start(fleet, adoption, &keys, events)?
                    }
                };
                nodes.begin();
                Ok(nodes)
            };
            run::run(&plan, connect, &mut Voice::new(subject, tone))
        }
        Err(SettingsError { code, text }) => {
            ui::exit(format, code.number(), &text);
            code.into()
        }
    }
}

fn acquire(args: &AcquireArgs) -> Exit {
    match AcquireSettings::read(args) {
        Ok(settings) => commands::acquire::run(settings),
        Err(SettingsError { code, text }) => failed(code, &text),
    }
}

fn extend(args: &ExtendArgs) -> Exit {
    match ExtendSettings::read(args) {
        Ok(settings) => commands::extend::run(settings),
        Err(SettingsError { code, text }) => failed(code, &text),
    }
}

fn release(args: &ReleaseArgs) -> Exit {
    match ReleaseSettings::read(args) {
        Ok(settings) => commands::release::run(settings),
        Err(SettingsError { code, text }) => failed(code, &text),
    }
}

fn status(args: &StatusArgs) -> Exit {
    match StatusSettings::read(args) {
        Ok(settings) => commands::status::run(&settings),
        Err(SettingsError { code, text }) => failed(code, &text),
    }
}

fn doctor(args: &DoctorArgs) -> Exit {
    match DoctorSettings::read(args) {
        Ok(settings) => commands::doctor::run(&settings),
        Err(SettingsError { code, text }) => failed(code, &text),
    }
}

fn sandbox(args: &SandboxArgs) -> Exit {
    match commands::sandbox::run(args.count, &args.command, &mut std::io::stdout()) {
        Ok(exit) => exit,
        Err(error) => failed(error.code(), &error.to_string()),
    }
}

/// Says why the exit code is one of ours.
fn failed(code: Code, reason: &str) -> Exit {
    ui::exit_line(code.number(), reason);
    code.into()
}
