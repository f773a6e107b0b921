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
//! leaves as a [`ui::Notice`] and becomes a line on standard error; what became of the run can be
//! reported to a file at its end.
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
    node::{Fleet, Trust},
    protocol::{Adoption, Contract, Session},
    settings::{
        AcquireSettings, DoctorSettings, ExtendSettings, ReleaseSettings, Reporting, Root,
        RunSettings, SettingsError, StatusSettings,
    },
    ui::{Format, Voice},
};

/// Carries out a command line (the first word is the program's name). The process must have one
/// thread when this is called.
pub fn run_command_line(args: impl IntoIterator<Item = OsString>) -> Exit {
    match cli::parse(args) {
        Ok(Cli { command: Command::Run(args) }) => run_under_lock(*args.0),
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
    let refuse = |SettingsError { code, text }| {
        ui::exit(format, code.number(), &text);
        code.into()
    };
    let report = match Reporting::read(&args) {
        Ok(report) => report,
        Err(error) => return refuse(error),
    };
    match RunSettings::read(args) {
        Ok(RunSettings { fleet, keys, contract, root, mut plan, subject, tone, warnings }) => {
            warn(&fleet, format);
            let list = (contract.nodes, contract.holder.fleet.clone());
            plan.report = report.map(|report| Reporting { fleet: Some(list), ..report });
            let connect = |events| {
                let Contract { nodes, timing, .. } = contract;
                let nodes = match root {
                    Root::Own => node::start(fleet, Session::new(contract), &keys, events)?,
                    Root::Adopted(token) => {
                        let lock = Adoption::of_token(nodes, token, contract.holder, timing);
                        node::start(fleet, lock, &keys, events)?
                    }
                    Root::Inherited(token, others) => {
                        let lock = Adoption::of_kin(nodes, token, others, timing);
                        node::start(fleet, lock, &keys, events)?
                    }
                };
                nodes.begin();
                Ok(nodes)
            };
            let mut voice = Voice::new(subject, tone);
            voice.warn(&warnings);
            run::run(&plan, connect, &mut voice)
        }
        Err(error) => {
            if let Some(report) = &report {
                run::report_refusal(report, error.code);
            }
            refuse(error)
        }
    }
}

fn acquire(args: &AcquireArgs) -> Exit {
    match AcquireSettings::read(args) {
        Ok(settings) => {
            warn(&settings.fleet, Format::Text);
            commands::acquire::run(settings)
        }
        Err(SettingsError { code, text }) => failed(code, &text),
    }
}

fn extend(args: &ExtendArgs) -> Exit {
    match ExtendSettings::read(args) {
        Ok(settings) => {
            warn(&settings.target.fleet, Format::Text);
            commands::extend::run(settings)
        }
        Err(SettingsError { code, text }) => failed(code, &text),
    }
}

fn release(args: &ReleaseArgs) -> Exit {
    match ReleaseSettings::read(args) {
        Ok(settings) => {
            warn(&settings.target.fleet, Format::Text);
            commands::release::run(settings)
        }
        Err(SettingsError { code, text }) => failed(code, &text),
    }
}

fn status(args: &StatusArgs) -> Exit {
    match StatusSettings::read(args) {
        Ok(settings) => {
            warn(&settings.target.fleet, Format::Text);
            commands::status::run(&settings)
        }
        Err(SettingsError { code, text }) => failed(code, &text),
    }
}

fn doctor(args: &DoctorArgs) -> Exit {
    match DoctorSettings::read(args) {
        Ok(settings) => {
            warn(&settings.target.fleet, Format::Text);
            commands::doctor::run(&settings)
        }
        Err(SettingsError { code, text }) => failed(code, &text),
    }
}

fn sandbox(args: &SandboxArgs) -> Exit {
    match commands::sandbox::run(args.count, &args.command, &mut std::io::stdout()) {
        Ok(exit) => exit,
        Err(error) => failed(error.code(), &error.to_string()),
    }
}

/// Says, always, what nobody should do without knowing it.
fn warn(fleet: &Fleet, format: Format) {
    if fleet.wants_tls() && fleet.trust() == Trust::Blind {
        ui::warning(
            format,
            "--tls-insecure: the nodes' certificates are not checked; whoever stands between here \
             and them can read the password and answer in their place",
        );
    }
}

/// Says why the exit code is one of ours.
fn failed(code: Code, reason: &str) -> Exit {
    ui::exit_line(code.number(), reason);
    code.into()
}
