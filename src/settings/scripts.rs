//! What `acquire`, `extend` and `release` are to do. Inside of a run, key, token and ttl of the
//! last two are the run's, as its environment says them.

use std::{env, ffi::OsString, path::PathBuf, time::Duration};

use uuid::Uuid;

use super::{
    SettingsError, around,
    nodes::{Nodes, Source},
    run::{check_label, fencing, guard, holder, keys, patience, strategy, subject, timing, token},
    warning::Warning,
};
use crate::{
    child::RUN_VARIABLE,
    cli::{AcquireArgs, ColorArg, DoctorArgs, ExtendArgs, NodeArgs, ReleaseArgs, StatusArgs},
    node::Fleet,
    protocol::{Contract, GuardTerms, Holder, Key, Timing, Token, Wanted},
    ui::{self, Color, Format, Hush, Palette, Sought, Subject, Tone},
};

/// Locks on nodes.
pub struct Target {
    /// The nodes.
    pub fleet: Fleet,
    /// The nodes as they are written.
    pub names: Vec<String>,
    /// The keys, sorted and without duplicates.
    pub keys: Vec<Key>,
    /// What is put before every key.
    pub prefix: String,
    /// What named the nodes, for people.
    pub source: Source,
    /// Time-outs, and the ttl where one is needed.
    pub timing: Timing,
    /// The restart guard, where nothing is seen that lasts longer.
    pub guard: GuardTerms,
    /// What works and should be mended all the same.
    pub warnings: Vec<Warning>,
}

impl Target {
    /// Reads and checks the nodes and the keys.
    pub(super) fn read(
        args: &NodeArgs,
        names: &[OsString],
        ttl: Option<Duration>,
    ) -> Result<Self, SettingsError> {
        let nodes = Nodes::read(args)?;
        let keys = keys(names, &nodes.prefix)?;
        let timing = timing(ttl, &nodes, None, None)?;
        let guard = guard(&nodes, &timing);
        Ok(Self {
            names: nodes.names(),
            fleet: nodes.fleet,
            keys,
            prefix: nodes.prefix,
            source: nodes.source,
            timing,
            guard,
            warnings: nodes.warnings,
        })
    }

    /// The keys as people read them.
    pub fn key(&self) -> String {
        self.keys.iter().map(Key::to_string).collect::<Vec<_>>().join(", ")
    }
}

/// What `redlock acquire` is to do.
pub struct AcquireSettings {
    /// The nodes.
    pub fleet: Fleet,
    /// The keys, sorted and without duplicates.
    pub keys: Vec<Key>,
    /// What is to be had from the nodes.
    pub contract: Contract,
    /// What it is about, for people.
    pub subject: Subject,
    /// How much is said.
    pub tone: Tone,
    /// What works and should be mended all the same.
    pub warnings: Vec<Warning>,
    /// One JSON object instead of the token.
    pub json: bool,
    /// Where the token goes besides.
    pub token_file: Option<PathBuf>,
    /// The exit code for "held by somebody else"; never 0.
    pub conflict_exit_code: u8,
}

impl AcquireSettings {
    /// Reads and checks everything. Nothing is contacted.
    pub fn read(args: &AcquireArgs) -> Result<Self, SettingsError> {
        if args.waiting.conflict_exit_code == 0 {
            return Err(SettingsError::usage(
                "-E 0 with acquire: an empty token must not look like success",
            ));
        }
        check_label(args.label.as_deref())?;
        let nodes = Nodes::read(&args.nodes)?;
        let keys = keys(&args.key, &nodes.prefix)?;
        let timing = timing(Some(args.ttl), &nodes, None, None)?;
        let patience = patience(&args.waiting, false);
        let mut subject = subject(&keys, Sought::All, &nodes, patience);
        // It has no --skip.
        subject.patience = subject.patience.replace(", --skip", "");
        let contract = Contract {
            nodes: nodes.fleet.len(),
            holder: Holder {
                // We are gone in a moment; whoever called us is not.
                pid: rustix::process::getppid().map_or_else(std::process::id, |parent| {
                    parent.as_raw_nonzero().get().unsigned_abs()
                }),
                ..holder(&nodes, &timing, args.label.clone())
            },
            timing,
            patience,
            strategy: strategy(args.strategy),
            fencing: fencing(args.fence),
            guard: guard(&nodes, &timing),
            slots: None,
            kin: around::held(),
            random: Box::new(|| Uuid::new_v4().as_u128()),
        };
        Ok(Self {
            subject,
            tone: Tone {
                hush: if args.quiet { Hush::Quiet } else { Hush::No },
                verbosity: args.verbose,
                terminal: ui::is_terminal(),
                format: Format::Text,
                heartbeat: Some(args.waiting.heartbeat).filter(|first| !first.is_zero()),
            },
            fleet: nodes.fleet,
            warnings: nodes.warnings,
            keys,
            contract,
            json: args.json,
            token_file: args.token_file.clone(),
            conflict_exit_code: args.waiting.conflict_exit_code,
        })
    }
}

/// What `redlock extend` is to do.
pub struct ExtendSettings {
    /// Which locks where, and for how long.
    pub target: Target,
    /// Whose they are.
    pub token: Token,
    /// One JSON object instead of the validity.
    pub json: bool,
}

impl ExtendSettings {
    /// Reads and checks everything. Nothing is contacted.
    pub fn read(args: &ExtendArgs) -> Result<Self, SettingsError> {
        let ttl = match args.ttl {
            Some(ttl) => ttl,
            None => surrounding_ttl()?,
        };
        let names = if args.key.is_empty() { surrounding_keys()? } else { args.key.clone() };
        let token = match &args.token {
            Some(text) => token(text)?,
            None => surrounding_token()?,
        };
        let target = Target::read(&args.nodes, &names, Some(ttl))?;
        Ok(Self { target, token, json: args.json })
    }
}

/// By what `release` knows what to free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The token.
    Token(Token),
    /// A look and a person's consent.
    Force {
        /// The consent was given on the command line.
        yes: bool,
    },
}

/// What `redlock release` is to do.
pub struct ReleaseSettings {
    /// Which locks where.
    pub target: Target,
    /// By what.
    pub by: By,
}

impl ReleaseSettings {
    /// Reads and checks everything. Nothing is contacted.
    pub fn read(args: &ReleaseArgs) -> Result<Self, SettingsError> {
        let by = match &args.token {
            Some(text) => By::Token(token(text)?),
            None if args.force => By::Force { yes: args.yes },
            None if env::var_os(RUN_VARIABLE).is_some() => {
                return Err(SettingsError::usage(
                    "inside of a run the lock is the run's, which releases it when the command \
                     ends; to release another one, name its --token",
                ));
            }
            None => By::Token(surrounding_token()?),
        };
        let names = if args.key.is_empty() { surrounding_keys()? } else { args.key.clone() };
        Ok(Self { target: Target::read(&args.nodes, &names, None)?, by })
    }
}

/// What `redlock status` is to do.
pub struct StatusSettings {
    /// Which locks where; all of them without keys.
    pub target: Target,
    /// Which keys are locks.
    pub wanted: Wanted,
    /// JSON instead of tables.
    pub json: bool,
    /// Whether the tables have colours.
    pub palette: Palette,
    /// Again and again, with such a pause.
    pub watch: Option<Duration>,
    /// The exit code says whether a lock is held.
    pub exit_code: bool,
}

impl StatusSettings {
    /// Reads and checks everything. Nothing is contacted.
    pub fn read(args: &StatusArgs) -> Result<Self, SettingsError> {
        let names: Vec<OsString> = args.operands.iter().chain(&args.key).cloned().collect();
        if args.exit_code && names.is_empty() {
            return Err(SettingsError::usage("--exit-code needs keys to judge"));
        }
        Ok(Self {
            target: Target::read(&args.nodes, &names, None)?,
            wanted: if args.all { Wanted::AllThatExpire } else { Wanted::Ours },
            json: args.json,
            palette: palette(args.color),
            watch: args.watch.map(|pause| pause.unwrap_or(Duration::from_secs(1))),
            exit_code: args.exit_code,
        })
    }
}

/// What `redlock doctor` is to do.
pub struct DoctorSettings {
    /// The nodes.
    pub target: Target,
    /// JSON instead of lines.
    pub json: bool,
    /// Whether the lines have colours.
    pub palette: Palette,
    /// Warnings are an error.
    pub strict: bool,
    /// Until all is whole, but no longer.
    pub wait: Option<Duration>,
}

impl DoctorSettings {
    /// Reads and checks everything. Nothing is contacted.
    pub fn read(args: &DoctorArgs) -> Result<Self, SettingsError> {
        // An even list is a finding here, no refusal.
        let nodes = NodeArgs { allow_even_nodes: true, ..args.nodes.clone() };
        Ok(Self {
            target: Target::read(&nodes, &[], None)?,
            json: args.json,
            palette: palette(args.color),
            strict: args.strict,
            wait: args.wait,
        })
    }
}

fn palette(arg: ColorArg) -> Palette {
    Palette::of_stdout(match arg {
        ColorArg::Auto => Color::Auto,
        ColorArg::Always => Color::Always,
        ColorArg::Never => Color::Never,
    })
}

fn surrounding(name: &str) -> Option<String> {
    env::var(name).ok().filter(|text| !text.is_empty())
}

fn surrounding_token() -> Result<Token, SettingsError> {
    let text = surrounding("REDLOCK_TOKEN").ok_or_else(|| {
        SettingsError::usage(
            "--token is needed (it is known only inside of a run); redlock status KEY shows it",
        )
    })?;
    token(&text)
}

fn surrounding_ttl() -> Result<Duration, SettingsError> {
    let text = surrounding("REDLOCK_TTL_MS").ok_or_else(|| {
        SettingsError::usage("--ttl is needed (it is known only inside of a run)")
    })?;
    let millis = text.parse().map_err(|_| SettingsError::usage("REDLOCK_TTL_MS is no number"))?;
    Ok(Duration::from_millis(millis))
}

/// The run's key. Several are percent-encoded with spaces between them, which cannot be told from
/// one key with spaces.
fn surrounding_keys() -> Result<Vec<OsString>, SettingsError> {
    let key = env::var_os("REDLOCK_KEY").filter(|key| !key.is_empty());
    let key = key.ok_or_else(|| {
        SettingsError::usage("--key is needed (it is known only inside of a run)")
    })?;
    if key.as_encoded_bytes().contains(&b' ') {
        return Err(SettingsError::usage(
            "REDLOCK_KEY names several keys, or one with a space in it: name them by --key",
        ));
    }
    Ok(vec![key])
}
