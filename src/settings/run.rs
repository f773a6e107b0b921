//! What `redlock run` is to do.

use std::{
    env,
    ffi::OsString,
    os::unix::ffi::OsStrExt,
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use uuid::Uuid;

use super::{
    Credentials, Facts, GuardianChoice, Leftover, ParentDeath, RunPlan, SettingsError, nodes::Nodes,
};
use crate::{
    child::GroupChoice,
    cli::{GroupArg, GuardArg, LeftoverArg, NodeArgs, OnLostArg, RunArgs, StrategyArg, WaitArgs},
    duration::show,
    node::Fleet,
    protocol::{
        Contract, Fencing, GuardTerms, Holder, Key, Limits, Patience, RestartGuard, Strategy,
        Timing, Ttl,
    },
    ui::{self, OnLost, Subject, Tone},
};

/// The longest remark, in bytes.
const LABEL_MAX: usize = 200;

/// Everything about a run, checked.
pub struct RunSettings {
    /// The nodes.
    pub fleet: Fleet,
    /// The keys, sorted and without duplicates.
    pub keys: Vec<Key>,
    /// What is to be had from the nodes.
    pub contract: Contract,
    /// What is to happen with the command.
    pub plan: RunPlan,
    /// What it is about, for people.
    pub subject: Subject,
    /// How much is said.
    pub tone: Tone,
}

impl RunSettings {
    /// Reads and checks everything. Nothing is contacted.
    pub fn read(args: RunArgs) -> Result<Self, SettingsError> {
        let nodes = Nodes::read(&args.nodes)?;
        let keys = keys(&args.key, &nodes.prefix)?;
        let timing = timing(&args)?;
        let patience = patience(&args.waiting);
        if args.label.as_ref().is_some_and(|label| label.len() > LABEL_MAX) {
            return Err(SettingsError::usage(format!("a label has at most {LABEL_MAX} bytes")));
        }
        let holder = holder(&args, &nodes, &timing);
        let subject = Subject {
            key: keys.iter().map(Key::to_string).collect::<Vec<_>>().join(", "),
            nodes: nodes.names(),
            patience: promise(patience),
        };
        let credentials =
            if args.child.keep_credentials { Credentials::Keep } else { Credentials::Hide };
        let facts = Facts {
            keys: keys.iter().map(|key| key.name().to_vec()).collect(),
            ttl: timing.ttl,
            run: Uuid::new_v4().to_string(),
            reach: nodes.reach(credentials),
            credentials,
        };
        let contract = Contract {
            nodes: nodes.fleet.len(),
            holder,
            timing,
            patience,
            strategy: match args.strategy {
                StrategyArg::Concurrent => Strategy::Concurrent,
                StrategyArg::Sequential => Strategy::Sequential,
            },
            fencing: if args.fence { Fencing::On } else { Fencing::Off },
            guard: guard(&args.nodes, &timing),
            random: Box::new(|| Uuid::new_v4().as_u128()),
        };
        let tone = Tone { quiet: args.quiet, verbosity: args.verbose, terminal: ui::is_terminal() };
        let plan = plan(args, facts, timing);
        Ok(Self { fleet: nodes.fleet, keys, contract, plan, subject, tone })
    }
}

fn keys(names: &[OsString], prefix: &str) -> Result<Vec<Key>, SettingsError> {
    let keys: Result<Vec<Key>, _> =
        names.iter().map(|name| Key::new(prefix, name.as_bytes())).collect();
    let mut keys = keys.map_err(|error| SettingsError::usage(format!("--key: {error}")))?;
    keys.sort();
    keys.dedup();
    Ok(keys)
}

fn timing(args: &RunArgs) -> Result<Timing, SettingsError> {
    let limits = Limits {
        connect_timeout: args.nodes.connect_timeout,
        node_timeout: args.nodes.node_timeout,
        grace: args.child.grace,
        margin: args.child.margin,
    };
    let timeouts =
        [("--connect-timeout", limits.connect_timeout), ("--node-timeout", limits.node_timeout)];
    for (name, value) in timeouts {
        if value.is_some_and(|value| value < Duration::from_millis(1)) {
            return Err(SettingsError::config(format!("{name} must be at least 1ms")));
        }
    }
    let ttl = Ttl::new(args.ttl, Ttl::DEFAULT_MAX).map_err(SettingsError::config)?;
    Timing::new(ttl, &limits).map_err(SettingsError::config)
}

fn guard(args: &NodeArgs, timing: &Timing) -> GuardTerms {
    let rule = match args.restart_guard {
        None | Some(GuardArg::Auto) => RestartGuard::Auto,
        Some(GuardArg::Strict) => RestartGuard::Strict,
        Some(GuardArg::Off) => RestartGuard::Off,
        Some(GuardArg::For(age)) => RestartGuard::For(age),
    };
    GuardTerms { rule, own: timing.ttl, max_ttl: Ttl::DEFAULT_MAX }
}

fn patience(args: &WaitArgs) -> Patience {
    match args.wait {
        _ if args.no_wait => Patience::NoWait,
        Some(Duration::ZERO) => Patience::NoWait,
        Some(limit) => Patience::Within(limit),
        None => Patience::Forever { outage: args.quorum_wait },
    }
}

/// How the wait ends, for the line that announces it.
fn promise(patience: Patience) -> String {
    match patience {
        Patience::NoWait => String::new(),
        Patience::Within(limit) => format!("waiting at most {}", show(limit)),
        Patience::Forever { .. } => "waiting without limit (-n, -w D)".to_owned(),
    }
}

fn holder(args: &RunArgs, nodes: &Nodes, timing: &Timing) -> Holder {
    let millis = |d: Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let prog = args.command.first().and_then(|program| Path::new(program).file_name());
    Holder {
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        pid: std::process::id(),
        user: user(),
        since: millis(since),
        ttl: millis(timing.ttl),
        n: u8::try_from(nodes.fleet.len()).unwrap_or(u8::MAX),
        fleet: nodes.fleet.fingerprint(&nodes.prefix),
        every: Some(millis(timing.every)),
        until: None,
        label: args.label.clone(),
        prog: prog.map(|name| name.to_string_lossy().into_owned()),
    }
}

/// The user's name as the environment has it, else the number: a remark for people, no proof.
fn user() -> String {
    let named = ["LOGNAME", "USER"].into_iter().find_map(|name| env::var(name).ok());
    named
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| format!("uid {}", rustix::process::getuid().as_raw()))
}

fn plan(args: RunArgs, facts: Facts, timing: Timing) -> RunPlan {
    let child = args.child;
    RunPlan {
        command: args.command,
        facts,
        timing,
        group: match child.group {
            GroupArg::Auto => GroupChoice::Auto,
            GroupArg::Own => GroupChoice::Own,
            GroupArg::Shared => GroupChoice::Shared,
            GroupArg::Handover => GroupChoice::Handover,
        },
        on_lost: match child.on_lost {
            OnLostArg::Kill => OnLost::Kill,
            OnLostArg::Term => OnLost::Term,
            OnLostArg::Continue => OnLost::Continue,
        },
        leftover: match child.leftover {
            LeftoverArg::Wait => Leftover::Wait,
            LeftoverArg::Kill => Leftover::Kill,
            LeftoverArg::Ignore => Leftover::Ignore,
        },
        max_runtime: child.max_runtime,
        kill_after: child.kill_after,
        max_stopped: child.max_stopped,
        heartbeat: Some(Duration::from_secs(30)),
        guardian: if child.no_guardian { GuardianChoice::Off } else { GuardianChoice::On },
        parent_death: if child.die_with_parent {
            ParentDeath::Terminate
        } else {
            ParentDeath::Ignore
        },
        conflict_exit_code: args.waiting.conflict_exit_code,
    }
}
