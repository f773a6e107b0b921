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

use crate::{
    duration,
    exit::{Code, Row},
};

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
    /// Take a lock and print its token, for scripts.
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
    ///   redlock run -k deploy --token "$token" -t 15m -- ./step1
    ///   redlock extend -k deploy --token "$token" -t 15m
    ///
    /// `redlock run --token` extends the lock while the step runs and leaves a full ttl behind.
    #[command(verbatim_doc_comment)]
    Acquire(Box<AcquireArgs>),
    /// Prolong a lock held under a token.
    ///
    /// On every node that carries the token the expiry becomes --ttl from now, and never less than
    /// it is. Prints how long the lock is certain from now on. Exit 79 says that the lock is not
    /// held any more: stop what it protects.
    ///
    /// Inside of `redlock run` key, token and ttl are the run's unless given.
    Extend(ExtendArgs),
    /// Give a lock back, by its token or by --force.
    ///
    /// By token: removes the lock where it carries that token, and tells those who wait. Twice is
    /// harmless: the second time exits 79, as does a token that has run out meanwhile. A newer
    /// holder's lock is never touched.
    ///
    /// By --force: looks, shows who holds the lock, asks, and frees exactly what it has shown. A
    /// running holder finds out at its next extension at the latest and ends its command.
    #[command(visible_alias = "unlock")]
    Release(ReleaseArgs),
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
    Status(StatusArgs),
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
    /// that differ or run differently, slow answers, old versions, an even list, a single node,
    /// all nodes on this machine, locks taken with another list.
    Doctor(DoctorArgs),
    /// Start throw-away Redis masters on this machine, for trying out and for tests.
    ///
    /// Starts real redis-server (or valkey-server) processes from PATH on free loopback ports, in
    /// a private temporary directory, without persistence. Runs COMMAND with `REDLOCK_NODES` set to
    /// them, and removes everything at the end. Without a command it prints the lines that a shell
    /// needs, and stays until interrupted.
    Sandbox(SandboxArgs),
}

/// Where the lock lives.
#[derive(Clone, Debug, Args)]
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
    /// Adopt a lock that `redlock acquire` took, for one step of a pipeline.
    ///
    /// Checks that the token holds the lock on a quorum of nodes (else 79), extends it while the
    /// command runs, ends the command when it is lost, and leaves a full ttl behind instead of
    /// releasing it.
    #[arg(long, value_name = "TOKEN", conflicts_with_all = ["no_wait", "wait", "quorum_wait", "conflict_exit_code", "skip", "heartbeat", "fence"])]
    pub token: Option<String>,
    /// What runs under the lock, with its arguments, byte for byte; no shell.
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
    #[command(flatten)]
    #[expect(missing_docs, reason = "a doc comment here would become the command's help")]
    pub waiting: WaitArgs,
    /// For cron: when it is held, exit 0 without a byte of output.
    ///
    /// Means -n -q -E 0; with -w it waits first, silently. Errors are said all the same, and so is
    /// a lock that nobody really holds (leftovers of the dead: exit 75).
    #[arg(long, help_heading = "Waiting", conflicts_with = "conflict_exit_code")]
    pub skip: bool,
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
    /// How our own lines look: text, or one JSON object a line.
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    pub log_format: LogFormatArg,
}

/// The options of `redlock acquire`.
#[derive(Debug, Args)]
#[command(override_usage = "redlock acquire --key K --ttl D [options]")]
pub struct AcquireArgs {
    /// The lock's name; repeatable: all or nothing.
    ///
    /// Any non-empty bytes up to 512.
    #[arg(short, long, value_name = "K", required = true)]
    pub key: Vec<OsString>,
    /// When the lock ends by itself, unless it is extended or released before.
    #[arg(short, long, value_name = "D", value_parser = duration::parse)]
    pub ttl: Duration,
    /// Print one JSON object instead of the token.
    ///
    /// v (1), key, token, validity_ms, fencing_token (null without --fence), nodes (that carry the lock), of (all
    /// nodes).
    #[arg(long)]
    pub json: bool,
    /// Compute a fencing token too, which --json shows: larger for every later holder.
    ///
    /// Costs one more round trip; see run.
    #[arg(long)]
    pub fence: bool,
    /// Write the token to this file as well (mode 0600), before anything is printed.
    ///
    /// The file is replaced as a whole. When it cannot be written, the lock is released and the
    /// exit code is 125.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<std::path::PathBuf>,
    #[command(flatten)]
    #[expect(missing_docs, reason = "a doc comment here would become the command's help")]
    pub waiting: WaitArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "a doc comment here would become the command's help")]
    pub nodes: NodeArgs,
    /// A remark for everybody who finds the lock held, at most 200 bytes [env: REDLOCK_LABEL].
    #[arg(long, value_name = "TEXT", env = "REDLOCK_LABEL", hide_env = true)]
    pub label: Option<String>,
    /// How the nodes are asked.
    #[arg(long, value_enum, default_value_t)]
    pub strategy: StrategyArg,
    /// Say nothing about waiting or a busy lock; errors are said all the same.
    #[arg(short, long)]
    pub quiet: bool,
    /// Say more: once per acquisition, twice per node.
    #[arg(short, long, action = ArgAction::Count)]
    pub verbose: u8,
}

/// The options of `redlock extend`.
#[derive(Debug, Args)]
pub struct ExtendArgs {
    /// The lock's name; repeatable [default inside of a run: the run's].
    #[arg(short, long, value_name = "K")]
    pub key: Vec<OsString>,
    /// The token that `redlock acquire` printed [default inside of a run: the run's].
    #[arg(long, value_name = "TOKEN")]
    pub token: Option<String>,
    /// The lock is to last at least so long from now on [default inside of a run: the run's].
    #[arg(short, long, value_name = "D", value_parser = duration::parse)]
    pub ttl: Option<Duration>,
    /// Print one JSON object: v (1), key, validity_ms, nodes (that were extended), of (all nodes).
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    #[expect(missing_docs, reason = "a doc comment here would become the command's help")]
    pub nodes: NodeArgs,
}

/// The options of `redlock release`.
#[derive(Debug, Args)]
pub struct ReleaseArgs {
    /// The lock's name; repeatable [default inside of a run: the run's].
    #[arg(short, long, value_name = "K")]
    pub key: Vec<OsString>,
    /// The token that `redlock acquire` printed, or that `redlock status` shows.
    ///
    /// Inside of a run it must be given, since the lock of the run is the run's to release.
    #[arg(long, value_name = "TOKEN")]
    pub token: Option<String>,
    /// Free the lock whoever holds it: look, show, ask, then free exactly what was shown.
    ///
    /// A value that changed meanwhile is left alone (79), and so is what is no string with an
    /// expiry (78, with the line for redis-cli).
    #[arg(long, conflicts_with = "token")]
    pub force: bool,
    /// Do not ask; needed where there is no terminal to ask on.
    #[arg(long, requires = "force")]
    pub yes: bool,
    #[command(flatten)]
    #[expect(missing_docs, reason = "a doc comment here would become the command's help")]
    pub nodes: NodeArgs,
}

/// The options of `redlock status`.
#[derive(Debug, Args)]
#[command(override_usage = "redlock status [KEY]... [options]")]
pub struct StatusArgs {
    /// The locks' names; none: all locks.
    #[arg(value_name = "KEY")]
    pub operands: Vec<OsString>,
    /// A lock's name; repeatable.
    #[arg(short, long, value_name = "K")]
    pub key: Vec<OsString>,
    /// Print one JSON object; with --watch one a line.
    ///
    /// v (1), source, prefix, quorum, nodes, locks, gaps. Times are in milliseconds where the name
    /// ends in _ms and in seconds where it ends in _s; what is not known is null.
    ///
    /// Each of nodes: node, reachable, reason, latency_ms, version, uptime_s, votes_in_s.
    ///
    /// Each of locks: key, state (held, unknown, partial, free), on and of (nodes), expires_in_ms,
    /// held_for_ms, waiters, life, extended_ago_ms, token, holder (host, pid, user, label, prog,
    /// since_ms, ttl_ms, every_ms, other_list), foreign, advice, release, nodes (each: node, shows,
    /// what, expires_in_ms).
    ///
    /// Each of gaps: node, reason: its locks could not all be listed. New fields may come; v grows
    /// when one changes or goes.
    #[arg(long)]
    pub json: bool,
    /// Look again every D [1s] until ^C; off a terminal each look is appended.
    #[arg(long, value_name = "D", num_args = 0..=1, value_parser = duration::parse)]
    pub watch: Option<Option<Duration>>,
    /// Exit 0 when all of the keys are free, 75 when one is held or partial, 69 when that is not
    /// known.
    #[arg(long)]
    pub exit_code: bool,
    /// List all strings with an expiry, not only redlock's: locks of other clients.
    #[arg(long)]
    pub all: bool,
    #[command(flatten)]
    #[expect(missing_docs, reason = "a doc comment here would become the command's help")]
    pub nodes: NodeArgs,
}

/// The options of `redlock doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Print one JSON object.
    ///
    /// v (1), source, quorum, probe_key, nodes (each: node, votes, role, version, uptime_s,
    /// latency_ms, user), findings (each: gravity (warning, node: it does not vote, list: the list
    /// is wrong), check, nodes, what, endangers, mend), locks_not_on_all_nodes, verdict, exit.
    #[arg(long)]
    pub json: bool,
    /// Exit 1 when there is any finding, also when one node only is missing.
    #[arg(long)]
    pub strict: bool,
    /// Wait until every node votes and every held lock is on all nodes, at most so long.
    ///
    /// For rolling restarts: restart one node, wait, restart the next.
    #[arg(long, value_name = "D", value_parser = duration::parse)]
    pub wait: Option<Duration>,
    #[command(flatten)]
    #[expect(missing_docs, reason = "a doc comment here would become the command's help")]
    pub nodes: NodeArgs,
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
    /// Repeat the line about waiting after so long, doubling up to 5 min; 0s: never.
    #[arg(long, value_name = "D", value_parser = duration::parse_or_zero, default_value = "30s")]
    pub heartbeat: Duration,
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

/// `--log-format`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
#[expect(missing_docs, reason = "the option's help says what each does")]
pub enum LogFormatArg {
    #[default]
    Text,
    Json,
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
    let all = |_: &Row| true;
    let mut cli = Cli::command().mut_subcommand("run", |run| {
        run.after_help(codes("Exit codes (any other is the command's own):\n", all))
    });
    for (name, wanted) in CODES {
        let text = codes("Exit codes:\n", |row| wanted.contains(&row.code));
        cli = cli.mut_subcommand(name, |command| command.after_help(text));
    }
    cli
}

/// The exit codes of the commands that run nothing.
const CODES: [(&str, &[Code]); 5] = [
    (
        "acquire",
        &[
            Code::Success,
            Code::Usage,
            Code::Unavailable,
            Code::Busy,
            Code::Refused,
            Code::Config,
            Code::Failure,
        ],
    ),
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
    (
        "status",
        &[
            Code::Success,
            Code::Usage,
            Code::Unavailable,
            Code::Busy,
            Code::Refused,
            Code::Config,
            Code::Failure,
        ],
    ),
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
            assert!(text.contains(row.meaning), "{}", row.meaning);
        }
    }
}
