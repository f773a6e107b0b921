//! The options of the commands for operators, and of the sandbox.

use std::{ffi::OsString, time::Duration};

use clap::{Args, ValueEnum};

use super::NodeArgs;
use crate::duration;

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
    /// since_ms, ttl_ms, every_ms, until_ms, other_list), foreign, advice, release, nodes (each:
    /// node, shows, what, expires_in_ms).
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
    /// When words are coloured: auto (on a terminal, unless NO_COLOR is set), always, never.
    #[arg(long, value_name = "WHEN", value_enum, default_value_t, hide_possible_values = true)]
    pub color: ColorArg,
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
    /// When words are coloured: auto (on a terminal, unless NO_COLOR is set), always, never.
    #[arg(long, value_name = "WHEN", value_enum, default_value_t, hide_possible_values = true)]
    pub color: ColorArg,
    #[command(flatten)]
    #[expect(missing_docs, reason = "a doc comment here would become the command's help")]
    pub nodes: NodeArgs,
}

/// `--color`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
#[expect(missing_docs, reason = "the option's help says what each does")]
pub enum ColorArg {
    #[default]
    Auto,
    Always,
    Never,
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
