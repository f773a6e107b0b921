//! The options of `redlock run`, and those it shares with `redlock acquire`.

use std::{ffi::OsString, time::Duration};

use clap::{ArgAction, Args, ValueEnum};

use super::NodeArgs;
use crate::duration;

/// The options of `redlock run`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag that can be given")]
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
    #[arg(long, value_name = "TOKEN", conflicts_with_all = ["no_wait", "wait", "quorum_wait", "conflict_exit_code", "skip", "heartbeat", "min_hold", "fence", "slots"])]
    pub token: Option<String>,
    /// Run the command under the lock of a run around this one.
    ///
    /// That run must hold all the keys under one token, on a quorum of nodes (else 79), and keeps
    /// looking after the lock; this one releases nothing. When the lock is lost, the command ends
    /// with 79. Without a run around this one it is a usage error; for a script that is used both
    /// ways: redlock run -k K ${REDLOCK_HELD:+--reentrant} ...
    ///
    /// Without this option a run that asks for a lock of a run around it is refused at once (78),
    /// since it would wait for itself.
    #[arg(long, conflicts_with_all = ["token", "no_wait", "wait", "quorum_wait", "conflict_exit_code", "skip", "heartbeat", "min_hold", "fence", "slots"])]
    pub reentrant: bool,
    /// Compute a fencing token too: REDLOCK_FENCING_TOKEN, larger for every later holder.
    ///
    /// Costs one more round trip. A resource that keeps the largest number it has seen, and refuses
    /// smaller ones, is safe also from a holder that was stopped for longer than its lock lasted.
    #[arg(long)]
    pub fence: bool,
    /// A remark for everybody who finds the lock held, at most 200 bytes [env: REDLOCK_LABEL].
    #[arg(long, value_name = "TEXT", env = "REDLOCK_LABEL", hide_env = true)]
    pub label: Option<String>,
    /// Write what became of the run, as one JSON object, when it is over.
    ///
    /// FILE is replaced as a whole; fd:N is appended to, and closed in the command. On every outcome
    /// but a mistake in the command line; a report that cannot be written is a warning.
    ///
    /// v (1), outcome (ran, busy, timed-out, skipped, unavailable, refused, lost, max-runtime,
    /// not-started, cancelled), exit (128 and the signal's number where the command died of one),
    /// source of the exit code (command or redlock), key, label, host, start and end (RFC 3339,
    /// UTC), wait_ms (for the lock), held_ms, extensions, failed_rounds (extensions that missed
    /// their quorum), min_margin_ms (the least that was left of the lock's validity), nodes_ok
    /// (those that took part the last time) of nodes, fingerprint (of the list of nodes). What does
    /// not apply is null. New fields may come; v grows when one changes or goes.
    ///
    /// A FILE that ends in .prom becomes, for Prometheus's node_exporter, gauges with the label
    /// key: redlock_last_start_timestamp_seconds, redlock_last_success_timestamp_seconds,
    /// redlock_last_skip_timestamp_seconds, redlock_last_wait_seconds, redlock_last_held_seconds,
    /// redlock_last_exit_code. What it says of other keys stays.
    #[arg(long, value_name = "FILE|fd:N")]
    pub report: Option<OsString>,
    /// Say nothing about waiting or a busy lock; errors are said all the same.
    #[arg(short, long)]
    pub quiet: bool,
    /// Say more: once per acquisition and extension, twice per node.
    #[arg(short, long, action = ArgAction::Count)]
    pub verbose: u8,
    /// How our own lines look: text, or one JSON object a line.
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    pub log_format: LogFormatArg,
    /// How the nodes are asked.
    #[arg(long, value_enum, default_value_t)]
    pub strategy: StrategyArg,
    /// What runs under the lock, with its arguments, byte for byte; no shell.
    ///
    /// redlock stays its parent: somebody has to extend the lock, so the command cannot take
    /// redlock's place as it does with flock -F or env.
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
    /// For cron: keep the lock at least so long from its acquisition, also when the command is done.
    ///
    /// Hosts whose clocks differ start the same job at different moments: with --skip and a min-hold
    /// that is longer than their difference it runs once. The lock is kept whatever the command's
    /// status, and also when redlock is killed; not when the command could not be executed. Until
    /// then others find it "finished, held until HH:MM:SSZ".
    #[arg(long, value_name = "D", value_parser = duration::parse)]
    pub min_hold: Option<Duration>,
    /// A semaphore: run while fewer than N others do, 1 to 64.
    ///
    /// The lock is one of K, K#2 ... K#N, any one that is free, chosen at random; REDLOCK_SLOT says
    /// which (1 to N), and REDLOCK_KEY is that lock's name. It is busy when every one of them is
    /// held. Give the same N everywhere: whoever gives a smaller one uses fewer of the same slots.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub slots: Option<u8>,
    #[command(flatten)]
    #[expect(missing_docs, reason = "a doc comment here would become the command's help")]
    pub child: ChildArgs,
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
    #[arg(long, env = "REDLOCK_DIE_WITH_PARENT", hide_env = true, value_parser = clap::builder::BoolishValueParser::new())]
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
