//! What `redlock run` is to do.

use std::{
    env,
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use uuid::Uuid;

use super::{
    Conflict, Credentials, Facts, GuardianChoice, Leftover, ParentDeath, RunPlan, SettingsError,
    around, nodes::Nodes, warning::Warning,
};
use crate::{
    child::GroupChoice,
    cli::{GroupArg, LeftoverArg, LogFormatArg, OnLostArg, RunArgs, StrategyArg, WaitArgs},
    duration::show,
    node::Fleet,
    protocol::{
        Contract, Fencing, GuardTerms, Holder, Key, Limits, MinHold, Patience, Strategy, Timing,
        Token, Ttl,
    },
    ui::{self, Format, Hush, OnLost, Sought, Subject, Tone},
};

/// The longest remark, in bytes.
const LABEL_MAX: usize = 200;

/// Where a run's lock comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Root {
    /// It is acquired, and released at the end.
    Own,
    /// `redlock acquire` took it under this token.
    Adopted(Token),
    /// A run around us holds it, under this token or one of the others, of which the last is tried
    /// first.
    Inherited(Token, Vec<Token>),
}

/// Everything about a run, checked.
pub struct RunSettings {
    /// The nodes.
    pub fleet: Fleet,
    /// The keys, sorted and without duplicates.
    pub keys: Vec<Key>,
    /// What is to be had from the nodes.
    pub contract: Contract,
    /// Where the lock comes from.
    pub root: Root,
    /// What is to happen with the command.
    pub plan: RunPlan,
    /// What it is about, for people.
    pub subject: Subject,
    /// How much is said.
    pub tone: Tone,
    /// What works and should be mended all the same.
    pub warnings: Vec<Warning>,
}

impl RunSettings {
    /// Reads and checks everything. Nothing is contacted.
    pub fn read(args: RunArgs) -> Result<Self, SettingsError> {
        let nodes = Nodes::read(&args.nodes)?;
        let keys = match args.slots {
            None => keys(&args.key, &nodes.prefix)?,
            Some(number) => slots(&args.key, number, &nodes.prefix)?,
        };
        let timing = timing(Some(args.ttl), &nodes, args.child.grace, args.child.margin)?;
        let timing = match args.min_hold {
            Some(hold) => timing.keeping(min_hold(hold, &nodes)?),
            None => timing,
        };
        let patience = patience(&args.waiting, args.skip);
        check_label(args.label.as_deref())?;
        let kin = around::held();
        let root = root(&args, &kin)?;
        let prog = args.command.first().and_then(|program| Path::new(program).file_name());
        let holder = Holder {
            every: Some(millis(timing.every)),
            prog: prog.map(|name| name.to_string_lossy().into_owned()),
            ..holder(&nodes, &timing, args.label.clone())
        };
        let sought = if args.slots.is_some() { Sought::Slot } else { Sought::All };
        let subject = subject(&keys, sought, &nodes, patience);
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
            strategy: strategy(args.strategy),
            fencing: fencing(args.fence),
            guard: guard(&nodes, &timing),
            slots: args.slots.map(usize::from),
            kin,
            random: Box::new(|| Uuid::new_v4().as_u128()),
        };
        let hush = match (args.skip, args.quiet) {
            (true, _) => Hush::Skip,
            (false, true) => Hush::Quiet,
            (false, false) => Hush::No,
        };
        let (verbosity, format) = (args.verbose, format(&args));
        let plan = plan(args, facts, timing, patience);
        let terminal = ui::is_terminal();
        let tone = Tone { hush, verbosity, terminal, format, heartbeat: plan.heartbeat };
        Ok(Self {
            fleet: nodes.fleet,
            keys,
            contract,
            root,
            plan,
            subject,
            tone,
            warnings: nodes.warnings,
        })
    }
}

/// How our lines look.
pub fn format(args: &RunArgs) -> Format {
    match args.log_format {
        LogFormatArg::Text => Format::Text,
        LogFormatArg::Json => Format::Json,
    }
}

pub(super) fn keys(names: &[OsString], prefix: &str) -> Result<Vec<Key>, SettingsError> {
    let mut keys: Vec<Key> =
        names.iter().map(|name| key(name, prefix)).collect::<Result<_, _>>()?;
    keys.sort();
    keys.dedup();
    Ok(keys)
}

fn key(name: &OsStr, prefix: &str) -> Result<Key, SettingsError> {
    Key::new(prefix, name.as_bytes())
        .map_err(|error| SettingsError::usage(format!("--key: {error}")))
}

/// The keys of so many slots, the first of which is the plain lock's.
fn slots(names: &[OsString], number: u8, prefix: &str) -> Result<Vec<Key>, SettingsError> {
    let [name] = names else {
        return Err(SettingsError::usage(
            "--slots takes one --key, from which it makes the others",
        ));
    };
    let numbered = (2..=number).map(|slot| {
        let mut key = name.clone();
        key.push(format!("#{slot}"));
        key
    });
    let names = std::iter::once(name.clone()).chain(numbered);
    names.map(|name| key(&name, prefix)).collect()
}

fn root(args: &RunArgs, kin: &[Token]) -> Result<Root, SettingsError> {
    match (&args.token, args.reentrant, kin) {
        (Some(text), ..) => Ok(Root::Adopted(token(text)?)),
        (None, false, _) => Ok(Root::Own),
        (None, true, [others @ .., innermost]) => Ok(Root::Inherited(*innermost, others.to_vec())),
        (None, true, []) => Err(SettingsError::usage(
            "--reentrant: there is no run around this one (REDLOCK_HELD is empty); without it the \
             lock is taken as usual",
        )),
    }
}

/// Reads a token as `acquire` prints it.
pub(super) fn token(text: &str) -> Result<Token, SettingsError> {
    Token::parse(text.trim()).ok_or_else(|| {
        SettingsError::usage("--token: not a token; it is the 36 characters that acquire printed")
    })
}

pub(super) fn check_label(label: Option<&str>) -> Result<(), SettingsError> {
    if label.is_some_and(|label| label.len() > LABEL_MAX) {
        return Err(SettingsError::usage(format!(
            "a label has at most {LABEL_MAX} bytes (--label, REDLOCK_LABEL)"
        )));
    }
    Ok(())
}

pub(super) fn strategy(arg: StrategyArg) -> Strategy {
    match arg {
        StrategyArg::Concurrent => Strategy::Concurrent,
        StrategyArg::Sequential => Strategy::Sequential,
    }
}

/// Time-outs where no ttl is given are those of the default ttl.
const USUAL_TTL: Duration = Duration::from_secs(30);

/// The durations of a lock with this ttl; of a usual one where none is given.
pub(super) fn timing(
    ttl: Option<Duration>,
    nodes: &Nodes,
    grace: Option<Duration>,
    margin: Option<Duration>,
) -> Result<Timing, SettingsError> {
    let limits = Limits {
        connect_timeout: nodes.connect_timeout,
        node_timeout: nodes.node_timeout,
        grace,
        margin,
    };
    let ttl = match ttl {
        Some(ttl) => Ttl::new(ttl, nodes.longest()),
        // Nobody asked for it: no limit is for it.
        None => Ttl::new(USUAL_TTL, Ttl::DEFAULT_MAX),
    };
    let ttl = ttl.map_err(|error| nodes.refuse(&error))?;
    Timing::new(ttl, &limits).map_err(SettingsError::config)
}

/// Nobody keeps a lock for longer than nodes may have to remember one.
fn min_hold(hold: Duration, nodes: &Nodes) -> Result<MinHold, SettingsError> {
    MinHold::new(hold, nodes.longest()).map_err(|error| nodes.refuse(&error))
}

pub(super) fn fencing(wanted: bool) -> Fencing {
    if wanted { Fencing::On } else { Fencing::Off }
}

pub(super) fn guard(nodes: &Nodes, timing: &Timing) -> GuardTerms {
    let limit = nodes.max_ttl.as_ref().map(|entry| entry.value);
    GuardTerms {
        rule: nodes.restart_guard,
        own: timing.longest().max(limit.unwrap_or_default()),
        max_ttl: nodes.longest(),
    }
}

pub(super) fn patience(args: &WaitArgs, skip: bool) -> Patience {
    match args.wait {
        None if skip => Patience::NoWait,
        _ if args.no_wait => Patience::NoWait,
        Some(Duration::ZERO) => Patience::NoWait,
        Some(limit) => Patience::Within(limit),
        None => Patience::Forever { outage: args.quorum_wait },
    }
}

/// What it is about, for people.
pub(super) fn subject(keys: &[Key], sought: Sought, nodes: &Nodes, patience: Patience) -> Subject {
    let keys: Vec<String> = keys.iter().map(Key::to_string).collect();
    Subject {
        key: match sought {
            Sought::All => keys.join(", "),
            Sought::Slot => keys[..1].concat(),
        },
        keys,
        sought,
        nodes: nodes.names(),
        fleet: nodes.fleet.fingerprint(&nodes.prefix),
        patience: promise(patience),
        endurance: match patience {
            Patience::Forever { outage } => {
                format!("giving up after {} of it (--quorum-wait)", show(outage))
            }
            Patience::NoWait | Patience::Within(_) => promise(patience),
        },
        limit: match patience {
            Patience::Within(limit) => Some(limit),
            Patience::NoWait | Patience::Forever { .. } => None,
        },
    }
}

/// How the wait ends, for the line that announces it.
fn promise(patience: Patience) -> String {
    match patience {
        Patience::NoWait => String::new(),
        Patience::Within(limit) => format!("waiting at most {}", show(limit)),
        Patience::Forever { .. } => "waiting without limit (-n, -w D, --skip)".to_owned(),
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

pub(super) fn holder(nodes: &Nodes, timing: &Timing, label: Option<String>) -> Holder {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Holder {
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        pid: std::process::id(),
        user: user(),
        since: millis(since),
        ttl: millis(timing.ttl),
        n: u8::try_from(nodes.fleet.len()).unwrap_or(u8::MAX),
        fleet: nodes.fleet.fingerprint(&nodes.prefix),
        every: None,
        until: None,
        label: label.filter(|label| !label.is_empty()),
        prog: None,
    }
}

/// The user's name as the environment has it, else the number: a remark for people, no proof.
fn user() -> String {
    let named = ["LOGNAME", "USER"].into_iter().find_map(|name| env::var(name).ok());
    named
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| format!("uid {}", rustix::process::getuid().as_raw()))
}

fn plan(args: RunArgs, facts: Facts, timing: Timing, patience: Patience) -> RunPlan {
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
        heartbeat: Some(args.waiting.heartbeat).filter(|first| !first.is_zero()),
        guardian: if child.no_guardian { GuardianChoice::Off } else { GuardianChoice::On },
        parent_death: if child.die_with_parent {
            ParentDeath::Terminate
        } else {
            ParentDeath::Ignore
        },
        wait: match patience {
            Patience::Within(limit) => Some(limit),
            Patience::NoWait | Patience::Forever { .. } => None,
        },
        report: None,
        conflict: if args.skip {
            Conflict::Skip
        } else {
            Conflict::Exit(args.waiting.conflict_exit_code)
        },
    }
}
