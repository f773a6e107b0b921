//! The options of the commands for scripts.

use std::{ffi::OsString, time::Duration};

use clap::{ArgAction, Args};

use super::{NodeArgs, StrategyArg, WaitArgs};
use crate::duration;

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
    /// The file is replaced as a whole; a device, a pipe or a link is refused. When it cannot be
    /// written, the lock is released and the exit code is 125.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<std::path::PathBuf>,
    /// A remark for everybody who finds the lock held, at most 200 bytes [env: REDLOCK_LABEL].
    #[arg(long, value_name = "TEXT", env = "REDLOCK_LABEL", hide_env = true)]
    pub label: Option<String>,
    /// Say nothing about waiting or a busy lock; errors are said all the same.
    #[arg(short, long)]
    pub quiet: bool,
    /// Say more: once per acquisition, twice per node.
    #[arg(short, long, action = ArgAction::Count)]
    pub verbose: u8,
    /// How the nodes are asked.
    #[arg(long, value_enum, default_value_t)]
    pub strategy: StrategyArg,
    #[command(flatten)]
    #[expect(missing_docs, reason = "a doc comment here would become the command's help")]
    pub waiting: WaitArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "a doc comment here would become the command's help")]
    pub nodes: NodeArgs,
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
