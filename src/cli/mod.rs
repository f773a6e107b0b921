//! What the user typed, and nothing else. The doc comments are the manual: the first line is what
//! `-h` shows, the rest comes with `--help` and in the man pages. What it all means is decided in
//! `settings`.

#![expect(clippy::doc_markdown, reason = "doc comments here are text for the terminal")]
#![allow(
    rustdoc::bare_urls,
    rustdoc::broken_intra_doc_links,
    rustdoc::invalid_html_tags,
    reason = "the same"
)]

mod environment;
mod later;
mod nodes;
mod operators;
mod run;
mod tokens;

use std::ffi::OsString;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use self::later::Later;
pub use self::{
    nodes::{GuardArg, NodeArgs, Origin, Origins, restart_guard},
    operators::{ColorArg, DoctorArgs, SandboxArgs, StatusArgs},
    run::{
        ChildArgs, GroupArg, LeftoverArg, LogFormatArg, OnLostArg, RunArgs, StrategyArg, WaitArgs,
    },
    tokens::{AcquireArgs, ExtendArgs, ReleaseArgs},
};

use crate::exit::{Code, Row};

/// flock(1) for a fleet: run a command while holding a lock on a majority of Redis masters.
#[derive(Debug, Parser)]
#[command(name = "redlock", version, disable_help_subcommand = true, max_term_width = 100)]
#[command(after_help = "First minute: redlock sandbox -- redlock run --key hello -- echo it works")]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a command while holding a lock.
    ///
    /// Takes the lock on a majority of the nodes, runs the command, extends the lock while it
    /// runs, makes sure that nothing of the command is alive when the lock could pass on, and
    /// gives the lock back. stdin, stdout and stderr are the command's own; the exit status is the
    /// command's, or one of the codes below.
    Run(Later<RunArgs>),
    /// Take a lock and print its token, for scripts
    ///
    /// Prints the token alone on standard output and leaves the lock on the nodes, where it ends
    /// after --ttl unless it is extended. For jobs of one command `redlock run` is safer: it
    /// extends by itself and ends the command when the lock is lost.
    ///
    /// A deploy of several steps, which gives the lock back whatever happens:
    ///
    ///   token=$(redlock acquire -k deploy -t 15m -w 1m) || exit
    ///   trap 'redlock release -k deploy --token "$token"' EXIT
    ///   trap 'exit 130' INT; trap 'exit 143' TERM
    ///   redlock run -k deploy --token "$token" -t 15m -- ./step1 || exit
    ///   redlock extend -k deploy --token "$token" -t 15m >/dev/null || exit
    ///   redlock run -k deploy --token "$token" -t 15m -- ./step2
    ///
    /// `redlock run --token` extends the lock while the step runs and leaves a full ttl behind.
    #[command(verbatim_doc_comment)]
    Acquire(Later<AcquireArgs>),
    /// Prolong a lock held under a token.
    ///
    /// On every node that carries the token the expiry becomes --ttl from now, and never less than
    /// it is. Prints how long the lock is certain from now on. Exit 79 says that the lock is not
    /// held any more: stop what it protects.
    ///
    /// Inside of `redlock run` key, token and ttl are the run's unless given.
    Extend(Later<ExtendArgs>),
    /// Give a lock back, by its token or by --force.
    ///
    /// By token: removes the lock where it carries that token, and tells those who wait. Twice is
    /// harmless: the second time exits 79, as does a token that has run out meanwhile. A newer
    /// holder's lock is never touched.
    ///
    /// By --force: looks, shows who holds the lock, asks, and frees exactly what it has shown. A
    /// running holder finds out at its next extension at the latest and ends its command.
    #[command(visible_alias = "unlock")]
    Release(Later<ReleaseArgs>),
    /// Who holds which locks, node by node.
    ///
    /// Without keys: the nodes, and every lock on them. With keys: these locks in full, what each
    /// node shows, what can be done about it, and the line that frees it.
    ///
    /// held: one holder is on a quorum of nodes. unknown: too few nodes answer to exclude that.
    /// partial: nobody can hold it, and something is left on some node. free: nothing is there.
    ///
    /// life: alive (extended in time), late (not extended in time, ends by itself), acquired (taken
    /// by `redlock acquire`, nobody extends it by itself), finished (kept by --min-hold), leftover
    /// (nobody holds it), foreign (another client's value), endless (somebody took its expiry
    /// away).
    Status(Later<StatusArgs>),
    /// Can these nodes keep the lock's promise? What to fix.
    ///
    /// Asks every node who it is and whether it would take, extend and release a lock of ours, and
    /// watches its clock for a second. Rights are tried with a key of its own (it is named in the
    /// output), which is removed again. Prints one line per finding: what, where, what it
    /// endangers, and the line that would mend it; then a verdict.
    ///
    /// Findings: nodes that cannot be reached or refuse locks, replicas, members of a cluster,
    /// Sentinels, the same server twice, shared replication histories, missing rights (with the
    /// ACL rule), eviction, no persistence while the restart guard is off, young nodes, clocks
    /// that differ or run differently, certificates that end within 14 days or are not checked,
    /// ports that speak TLS or do not, slow answers, old versions, an even list, a single node, all
    /// nodes on this machine, locks taken with another list.
    Doctor(Later<DoctorArgs>),
    /// Start throw-away Redis masters on this machine, for trying out and for tests.
    ///
    /// Starts real redis-server (or valkey-server) processes from PATH on free loopback ports, in
    /// a private temporary directory, without persistence. Runs COMMAND with `REDLOCK_NODES` set to
    /// them, and removes everything at the end. Without a command it prints the lines that a shell
    /// needs, and stays until interrupted.
    Sandbox(Later<SandboxArgs>),
}

impl Command {
    /// The options about the nodes, where there are some.
    fn nodes(&mut self) -> Option<&mut NodeArgs> {
        match self {
            Self::Run(args) => Some(&mut args.nodes),
            Self::Acquire(args) => Some(&mut args.nodes),
            Self::Extend(args) => Some(&mut args.nodes),
            Self::Release(args) => Some(&mut args.nodes),
            Self::Status(args) => Some(&mut args.nodes),
            Self::Doctor(args) => Some(&mut args.nodes),
            Self::Sandbox(_) => None,
        }
    }
}

/// What parsing led to, when it is not a command to carry out.
#[derive(Debug)]
pub enum Instead {
    /// `--help` or `--version`: this text, on standard output.
    Print(String),
    /// The command line is wrong; one line, without a final stop.
    Usage(String),
}

/// Reads the command line, and what the environment says in place of missing options.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Cli, Instead> {
    let args: Vec<OsString> = args.into_iter().collect();
    let known = || environment::without_empty(command());
    let matches = known()
        .try_get_matches_from(&args)
        .map_err(|error| instead(&error, environment::culprit(known(), &args, &error)))?;
    let mut cli = Cli::from_arg_matches(&matches).map_err(|error| instead(&error, None))?;
    if let (Some(nodes), Some((_, command))) = (cli.command.nodes(), matches.subcommand()) {
        nodes.origins = Origins::of(command);
    }
    Ok(cli)
}

/// The whole command line as clap knows it, with the table of exit codes in its place.
pub fn command() -> clap::Command {
    let ours = |row: &Row| row.code != Code::Warning;
    let mut cli = Cli::command().mut_subcommand("run", |run| {
        run.after_help(codes("Exit codes (any other is the command's own):\n", ours))
    });
    for (name, wanted) in CODES {
        let text = codes("Exit codes:\n", |row| wanted.contains(&row.code));
        cli = cli.mut_subcommand(name, |command| command.after_help(text));
    }
    cli
}

/// The exit codes of the commands that run nothing.
const CODES: [(&str, &[Code]); 5] = [
    ("acquire", &VERDICT),
    ("extend", &ERRAND),
    ("release", &ERRAND),
    (
        "doctor",
        &[
            Code::Success,
            Code::Warning,
            Code::Usage,
            Code::Unavailable,
            Code::Refused,
            Code::Config,
            Code::Failure,
        ],
    ),
    ("status", &VERDICT),
];

/// The exit codes of who asks whether a lock is free.
const VERDICT: [Code; 7] = [
    Code::Success,
    Code::Usage,
    Code::Unavailable,
    Code::Busy,
    Code::Refused,
    Code::Config,
    Code::Failure,
];

/// The exit codes of an errand with a token.
const ERRAND: [Code; 7] = [
    Code::Success,
    Code::Usage,
    Code::Unavailable,
    Code::Refused,
    Code::Config,
    Code::Lost,
    Code::Failure,
];

fn codes(title: &str, wanted: impl Fn(&Row) -> bool) -> String {
    use std::fmt::Write as _;
    let mut codes = title.to_owned();
    for row in crate::exit::TABLE.iter().filter(|row| wanted(row)) {
        // Writing to a String cannot fail.
        let _ = writeln!(codes, "  {:>3}  {}", row.code.number(), row.meaning);
    }
    codes
}

fn instead(error: &clap::Error, variable: Option<String>) -> Instead {
    use clap::error::ErrorKind;
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Instead::Print(error.to_string()),
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            Instead::Usage("a command is missing; see redlock --help".to_owned())
        }
        _ => {
            let place = variable.map_or_else(String::new, |name| format!("{name}: "));
            Instead::Usage(format!("{place}{}", one_line(&error.to_string())))
        }
    }
}

/// clap's error without its usage block, as one line.
fn one_line(text: &str) -> String {
    let told = text.lines().take_while(|line| !line.starts_with("Usage:"));
    let parts: Vec<&str> = told.map(str::trim).filter(|line| !line.is_empty()).collect();
    let joined = parts.join(" ").replace(" tip: ", "; ");
    let line = joined.strip_prefix("error: ").unwrap_or(&joined);
    let line = line.split("For more information").next().unwrap_or(line).trim();
    format!("{}; see redlock --help", without_passwords(line))
}

/// `line` without what stands between `://` and `@`: a URL in a wrong place is repeated by clap.
fn without_passwords(line: &str) -> String {
    let mask = |word: &str| match (word.split_once("://"), word.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, place))) => format!("{scheme}://***@{place}"),
        _ => word.to_owned(),
    };
    line.split(' ').map(mask).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(args: &[&str]) -> Result<RunArgs, Instead> {
        let all = ["redlock", "run"].iter().chain(args).map(OsString::from);
        match parse(all)?.command {
            Command::Run(run) => Ok(*run.0),
            _ => panic!("not a run"),
        }
    }

    fn usage(args: &[&str]) -> String {
        match run(args) {
            Err(Instead::Usage(line)) => line,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn definitions_are_consistent() {
        command().debug_assert();
    }

    #[test]
    fn first_operand_starts_the_command_byte_for_byte() {
        for args in [
            &["-k", "K", "--", "sh", "--help", "--", "-n"][..],
            &["-k", "K", "sh", "--help", "--", "-n"][..],
        ] {
            assert_eq!(run(args).unwrap().command, ["sh", "--help", "--", "-n"]);
        }
        assert_eq!(run(&["-k", "K", "--", "--", "x"]).unwrap().command, ["--", "x"]);
    }

    #[test]
    fn usage_errors_are_one_line_that_names_the_next_step() {
        for (args, part) in [
            (&["-k", "K"][..], "<COMMAND>..."),
            (&["true"][..], "--key"),
            (&["-k", "K", "-t", "10", "true"][..], "did you mean 10s?"),
            (&["-k", "K", "-E", "600", "true"][..], "600"),
            (&["-k", "K", "-n", "-w", "1s", "true"][..], "--wait"),
            (&["-k", "K", "--skip", "-E", "3", "true"][..], "--skip"),
            (&["-k", "K", "-E", "75", "--skip", "true"][..], "--skip"),
            (&["-k", "K", "--tll", "3s", "true"][..], "'--ttl'"),
        ] {
            let line = usage(args);
            assert!(line.contains(part), "{part} in {line}");
            assert!(!line.contains('\n') && line.ends_with("see redlock --help"), "{line}");
        }
    }

    #[test]
    fn help_shows_the_table_of_exit_codes() {
        let Err(Instead::Print(text)) = run(&["--help"]) else { panic!("no help") };
        for row in crate::exit::TABLE {
            let ours = row.code != Code::Warning;
            assert_eq!(text.contains(row.meaning), ours, "{}", row.meaning);
        }
    }
}
