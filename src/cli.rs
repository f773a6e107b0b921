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

use std::{ffi::OsString, time::Duration};

use clap::{ArgAction, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use crate::duration;

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
    Run(Box<RunArgs>),
    /// Start throw-away Redis masters on this machine, for trying out and for tests.
    ///
    /// Starts real redis-server (or valkey-server) processes from PATH on free loopback ports, in
    /// a private temporary directory, without persistence. Runs COMMAND with `REDLOCK_NODES` set to
    /// them, and removes everything at the end. Without a command it prints the lines that a shell
    /// needs, and stays until interrupted.
    Sandbox(SandboxArgs),
}

/// Where the lock lives.
#[derive(Debug, Args)]
#[command(next_help_heading = "Nodes")]
pub struct NodeArgs {
    /// The Redis masters, comma separated; repeatable [env: REDLOCK_NODES].
    ///
    /// Forms: host, host:port, redis://[user[:password]@]host[:port][/db],
    /// unix:///path/to.sock[?db=N]; IPv6 addresses in brackets. An odd number, 1 to 15; every host
    /// must use the same list. Its order means nothing.
    #[arg(long, value_name = "URL[,URL...]", env = "REDLOCK_NODES", hide_env = true)]
    pub nodes: Vec<OsString>,
    /// User for nodes whose URL names none [env: REDLOCK_USERNAME].
    ///
    /// The password comes from the environment variable REDLOCK_PASSWORD.
    #[arg(long, value_name = "NAME", env = "REDLOCK_USERNAME", hide_env = true)]
    pub username: Option<String>,
    /// Put this before every key [env: REDLOCK_PREFIX].
    ///
    /// Without it the Redis key is the given key, so that the lock is shared with other Redlock
    /// clients that use the same key.
    #[arg(long, value_name = "STR", env = "REDLOCK_PREFIX", hide_env = true)]
    pub prefix: Option<String>,
    /// How long resolving and connecting may take [default: ttl/5 in 20ms..1s].
    #[arg(long, value_name = "D", value_parser = duration::parse, env = "REDLOCK_CONNECT_TIMEOUT", hide_env = true)]
    pub connect_timeout: Option<Duration>,
    /// How long an answer may take [default: ttl/20 in 20ms..500ms].
    #[arg(long, value_name = "D", value_parser = duration::parse, env = "REDLOCK_NODE_TIMEOUT", hide_env = true)]
    pub node_timeout: Option<Duration>,
    /// When a node that restarted may vote: auto, strict, off, or an age
    /// [env: REDLOCK_RESTART_GUARD] [default: auto].
    ///
    /// A node that restarted without its memory could give away a lock that is held. So its vote
    /// for a new lock does not count before it is older than every lock that is known of. auto:
    /// unless all nodes are of one age, as in a new fleet. strict: always, also where a node does
    /// not tell its age. off: for nodes that never forget (appendfsync always).
    #[arg(long, value_name = "RULE", value_parser = guard, env = "REDLOCK_RESTART_GUARD", hide_env = true)]
    pub restart_guard: Option<GuardArg>,
    /// Accept an even number of nodes, for the time of a change of the list.
    #[arg(long)]
    pub allow_even_nodes: bool,
}

/// The options of `redlock run`.
#[derive(Debug, Args)]
#[command(override_usage = "redlock run --key K [--ttl 30s] [options] [--] COMMAND [ARG]...")]
pub struct RunArgs {
    /// The lock's name; repeatable: all or nothing.
    ///
    /// Any non-empty bytes up to 512.
    #[arg(short, long, value_name = "K", required = true)]
    pub key: Vec<OsString>,
    /// How long the lock survives us.
    ///
    /// It is extended every third of it, at most 30 s apart, while the command runs. A ttl of 30s
    /// survives cuts of about 10 s, one of 5m cuts of about 4 min; after a crash of this machine
    /// others wait up to the ttl. For long jobs: 5m.
    #[arg(short, long, value_name = "D", value_parser = duration::parse, default_value = "30s")]
    pub ttl: Duration,
    /// What runs under the lock, with its arguments, byte for byte; no shell.
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
    #[command(flatten)]
    #[expect(missing_docs, reason = "a doc comment here would become the command's help")]
    pub waiting: WaitArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "a doc comment here would become the command's help")]
    pub child: ChildArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "a doc comment here would become the command's help")]
    pub nodes: NodeArgs,
    /// A remark for everybody who finds the lock held, at most 200 bytes [env: REDLOCK_LABEL].
    #[arg(long, value_name = "TEXT", env = "REDLOCK_LABEL", hide_env = true)]
    pub label: Option<String>,
    /// Compute a fencing token too: REDLOCK_FENCING_TOKEN, larger for every later holder.
    ///
    /// Costs one more round trip. A resource that keeps the largest number it has seen, and refuses
    /// smaller ones, is safe also from a holder that was stopped for longer than its lock lasted.
    #[arg(long)]
    pub fence: bool,
    /// How the nodes are asked.
    #[arg(long, value_enum, default_value_t)]
    pub strategy: StrategyArg,
    /// Say nothing about waiting or a busy lock; errors are said all the same.
    #[arg(short, long)]
    pub quiet: bool,
    /// Say more: once per acquisition and extension, twice per node.
    #[arg(short, long, action = ArgAction::Count)]
    pub verbose: u8,
}

/// What to do when the lock is held.
#[derive(Debug, Args)]
#[command(next_help_heading = "Waiting")]
pub struct WaitArgs {
    /// One true verdict now: run, or exit 75.
    #[arg(short, long, visible_alias = "nonblock", conflicts_with = "wait")]
    pub no_wait: bool,
    /// Wait at most so long; without -n or -w: without limit.
    #[arg(short, long, value_name = "D", value_parser = duration::parse)]
    pub wait: Option<Duration>,
    /// While waiting without limit, give up after so much continuous outage.
    #[arg(long, value_name = "D", value_parser = duration::parse, default_value = "1m")]
    pub quorum_wait: Duration,
    /// The exit code for "held by somebody else", 0 to 255.
    #[arg(short = 'E', long, value_name = "N", default_value_t = 75)]
    pub conflict_exit_code: u8,
}

/// How the command is run, and how it ends.
#[derive(Debug, Args)]
#[command(next_help_heading = "Command")]
pub struct ChildArgs {
    /// End the command after so long: TERM, then KILL after --kill-after; exit 124 (137).
    #[arg(long, value_name = "D", value_parser = duration::parse)]
    pub max_runtime: Option<Duration>,
    /// How long after TERM the command gets KILL [default: 10s].
    ///
    /// Given explicitly it also bounds a relayed HUP, INT or TERM, which otherwise may take the
    /// command as long as it likes.
    #[arg(long, value_name = "D", value_parser = duration::parse)]
    pub kill_after: Option<Duration>,
    /// What becomes of the command when the lock is lost for certain.
    ///
    /// kill: KILL at once, since somebody else may already run. term: TERM now, KILL after
    /// --grace. continue: it runs on without a lock, and the exit code is 79.
    #[arg(long, value_enum, default_value_t, value_name = "POLICY")]
    pub on_lost: OnLostArg,
    /// How long before KILL the command gets TERM [default: ttl/6, at most 5s].
    #[arg(long, value_name = "D", value_parser = duration::parse)]
    pub grace: Option<Duration>,
    /// KILL so long before the validity ends [default: ttl/30 in 200ms..1s].
    ///
    /// Raise it for commands of several GiB: ending them takes the kernel up to a second.
    #[arg(long, value_name = "D", value_parser = duration::parse)]
    pub margin: Option<Duration>,
    /// What becomes of descendants that outlive the command.
    ///
    /// wait: the lock is kept until the last is gone. kill: TERM, KILL after --grace. ignore: they
    /// run on without a lock.
    #[arg(long, value_enum, default_value_t, value_name = "POLICY")]
    pub leftover: LeftoverArg,
    /// The process group of the command.
    ///
    /// auto: its own where there is no terminal, ours in the terminal's foreground. handover: its
    /// own, and the terminal is handed to it.
    #[arg(long, value_enum, default_value_t, value_name = "MODE")]
    pub group: GroupArg,
    /// Treat the death of our parent as TERM, then KILL after --kill-after.
    ///
    /// For CI runners that kill only the step's shell [env: REDLOCK_DIE_WITH_PARENT=1].
    #[arg(long, env = "REDLOCK_DIE_WITH_PARENT", hide_env = true, value_parser = clap::builder::FalseyValueParser::new())]
    pub die_with_parent: bool,
    /// KILL a command that is stopped for so long [default: 10 x ttl].
    #[arg(long, value_name = "D", value_parser = duration::parse)]
    pub max_stopped: Option<Duration>,
    /// Run without the second process that ends the command when redlock itself is killed.
    #[arg(long)]
    pub no_guardian: bool,
    /// Leave passwords in the command's environment.
    #[arg(long)]
    pub keep_credentials: bool,
}

/// `--strategy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum StrategyArg {
    /// All at once.
    #[default]
    Concurrent,
    /// One after the other, as Redlock was first published.
    Sequential,
}

/// `--restart-guard`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the option's help says what each does")]
pub enum GuardArg {
    Auto,
    Strict,
    Off,
    For(Duration),
}

fn guard(text: &str) -> Result<GuardArg, String> {
    match text {
        "auto" => Ok(GuardArg::Auto),
        "strict" => Ok(GuardArg::Strict),
        "off" => Ok(GuardArg::Off),
        _ => match duration::parse(text) {
            Ok(age) => Ok(GuardArg::For(age)),
            Err(error) => Err(format!("not auto, strict or off, and {error}")),
        },
    }
}

/// `--on-lost`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
#[expect(missing_docs, reason = "the option's help says what each does")]
pub enum OnLostArg {
    #[default]
    Kill,
    Term,
    Continue,
}

/// `--leftover`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
#[expect(missing_docs, reason = "the option's help says what each does")]
pub enum LeftoverArg {
    #[default]
    Wait,
    Kill,
    Ignore,
}

/// `--group`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
#[expect(missing_docs, reason = "the option's help says what each does")]
pub enum GroupArg {
    #[default]
    Auto,
    Own,
    Shared,
    Handover,
}

/// The options of `redlock sandbox`.
#[derive(Debug, Args)]
pub struct SandboxArgs {
    /// How many masters, 1 to 15.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=15))]
    pub count: u8,
    /// What to run with them.
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// What parsing led to, when it is not a command to carry out.
#[derive(Debug)]
pub enum Instead {
    /// `--help` or `--version`: this text, on standard output.
    Print(String),
    /// The command line is wrong; one line, without a final stop.
    Usage(String),
}

/// Reads the command line.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Cli, Instead> {
    let matches = command().try_get_matches_from(args).map_err(|error| instead(&error))?;
    Cli::from_arg_matches(&matches).map_err(|error| instead(&error))
}

/// The whole command line as clap knows it, with the table of exit codes in its place.
pub fn command() -> clap::Command {
    use std::fmt::Write as _;
    let mut codes = String::from("Exit codes (any other is the command's own):\n");
    for row in crate::exit::TABLE {
        // Writing to a String cannot fail.
        let _ = writeln!(codes, "  {:>3}  {}", row.code.number(), row.meaning);
    }
    Cli::command().mut_subcommand("run", |run| run.after_help(codes))
}

fn instead(error: &clap::Error) -> Instead {
    use clap::error::ErrorKind;
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Instead::Print(error.to_string()),
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            Instead::Usage("a command is missing; see redlock --help".to_owned())
        }
        _ => Instead::Usage(one_line(&error.to_string())),
    }
}

/// clap's error without its usage block, as one line.
fn one_line(text: &str) -> String {
    let told = text.lines().take_while(|line| !line.starts_with("Usage:"));
    let parts: Vec<&str> = told.map(str::trim).filter(|line| !line.is_empty()).collect();
    let joined = parts.join(" ").replace(" tip: ", "; ");
    let line = joined.strip_prefix("error: ").unwrap_or(&joined);
    let line = line.split("For more information").next().unwrap_or(line).trim();
    format!("{line}; see redlock --help")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(args: &[&str]) -> Result<RunArgs, Instead> {
        let all = ["redlock", "run"].iter().chain(args).map(OsString::from);
        match parse(all)?.command {
            Command::Run(run) => Ok(*run),
            Command::Sandbox(_) => panic!("not a run"),
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
            assert!(text.contains(row.meaning), "{}", row.meaning);
        }
    }
}
