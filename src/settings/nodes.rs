//! Which nodes, and how to reach them: the options, then the environment, then the configuration
//! file.

use std::{
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    Credentials, SettingsError,
    config::{Config, Entry},
    file::Exposure,
    password::{self, Password},
    tls::TlsSettings,
    warning::Warning,
};
use crate::{
    cli::{GuardArg, NodeArgs, Origin},
    node::{self, Endpoint, Fleet},
    protocol::{RestartGuard, TimingError, Ttl},
};

/// The nodes and what goes for all of them, checked.
pub struct Nodes {
    /// The list.
    pub fleet: Fleet,
    /// What is put before every key.
    pub prefix: String,
    /// What named the nodes.
    pub source: Source,
    /// How long resolving and connecting may take, when that was said.
    pub connect_timeout: Option<Duration>,
    /// How long an answer may take, when that was said.
    pub node_timeout: Option<Duration>,
    /// The longest ttl, when that was said, and where.
    pub max_ttl: Option<Entry<Duration>>,
    /// When a node that restarted may vote.
    pub restart_guard: RestartGuard,
    /// What works and should be mended all the same.
    pub warnings: Vec<Warning>,
    /// The list as it was given, credentials and all.
    raw: String,
    username: Option<String>,
    password_file: Option<PathBuf>,
    config: Option<PathBuf>,
    tls: TlsSettings,
    /// The configuration has a prefix.
    prefixed: bool,
}

/// What named the nodes, in words for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The command line.
    Flag,
    /// The environment.
    Variable,
    /// This file.
    File(PathBuf),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => f.write_str("--nodes"),
            Self::Variable => f.write_str("REDLOCK_NODES"),
            Self::File(path) => write!(f, "configuration file {}", path.display()),
        }
    }
}

impl Nodes {
    /// Reads and checks the list and what goes with it. Nothing is contacted.
    pub fn read(args: &NodeArgs) -> Result<Self, SettingsError> {
        let mut config = Config::find(args)?;
        let tls = TlsSettings::find(args, &mut config);
        let List { items, source, place } = List::find(args, &config)?;
        let mut warnings = Vec::new();
        let password = password::find(args, &config, &mut warnings)?;
        let named = config.username.map(|entry| entry.value);
        let username = args.username.clone().or(named).filter(|name| !name.is_empty());
        let (password, password_file) = match password {
            Some(Password { text, path }) => (Some(text), path),
            None => (None, None),
        };
        let defaults =
            password.map(|password| node::Credentials { username: username.clone(), password });
        let fleet = Fleet::parse(items.iter().map(String::as_str), defaults.as_ref())
            .map_err(|error| SettingsError::config(format!("{place}: {error}")))?;
        let lacks = |node: &Endpoint| node.credentials().is_none();
        if username.is_some() && fleet.iter().any(lacks) {
            return Err(SettingsError::config(
                "a user name needs a password: set REDLOCK_PASSWORD, or name a --password-file",
            ));
        }
        let even_is_fine = config.allow_even_nodes.is_some_and(|entry| entry.value);
        if fleet.len().is_multiple_of(2) && !args.allow_even_nodes && !even_is_fine {
            return Err(SettingsError::config(format!(
                "{place}: {} nodes: an even list tolerates no more failures than one node less, \
                 and its votes can tie; use an odd number (--allow-even-nodes for the time of a \
                 change)",
                fleet.len()
            )));
        }
        if fleet.iter().any(Endpoint::has_own_password) {
            match &source {
                Source::Flag => warnings.push(Warning::PasswordInArgv),
                Source::File(path) if config.exposure == Exposure::Everybody => {
                    warnings.push(Warning::ConfigExposed(path.clone()));
                }
                Source::Variable | Source::File(_) => {}
            }
        }
        let fleet = if fleet.wants_tls() {
            fleet.secured(&tls.client(&mut warnings)?).map_err(SettingsError::config)?
        } else {
            fleet
        };
        let guard = args.restart_guard.or(config.restart_guard.map(|entry| entry.value));
        Ok(Self {
            fleet,
            prefixed: config.prefix.is_some(),
            prefix: args
                .prefix
                .clone()
                .or(config.prefix.map(|entry| entry.value))
                .unwrap_or_default(),
            source,
            connect_timeout: timeout(
                (args.connect_timeout, args.origins.connect_timeout.name("connect-timeout")),
                config.connect_timeout,
            )?,
            node_timeout: timeout(
                (args.node_timeout, args.origins.node_timeout.name("node-timeout")),
                config.node_timeout,
            )?,
            max_ttl: config.max_ttl,
            restart_guard: match guard {
                None | Some(GuardArg::Auto) => RestartGuard::Auto,
                Some(GuardArg::Strict) => RestartGuard::Strict,
                Some(GuardArg::Off) => RestartGuard::Off,
                Some(GuardArg::For(age)) => RestartGuard::For(age),
            },
            warnings,
            raw: items.join(","),
            username,
            password_file,
            config: config.path,
            tls,
        })
    }

    /// How a command that runs under the lock reaches the nodes itself.
    pub fn reach(&self, credentials: Credentials) -> Vec<(&'static str, Option<OsString>)> {
        let nodes = match credentials {
            Credentials::Keep => self.raw.clone(),
            Credentials::Hide => {
                self.fleet.iter().map(Endpoint::without_password).collect::<Vec<_>>().join(",")
            }
        };
        // An empty prefix has to be said where the configuration has another one.
        let prefix = Some(&self.prefix).filter(|prefix| self.prefixed || !prefix.is_empty());
        let path = |path: &Option<PathBuf>| path.as_deref().map(Path::as_os_str).map(Into::into);
        let mut reach = vec![
            ("REDLOCK_NODES", Some(nodes.into())),
            ("REDLOCK_PREFIX", prefix.map(OsString::from)),
            ("REDLOCK_CONFIG", path(&self.config)),
            ("REDLOCK_USERNAME", self.username.as_ref().map(OsString::from)),
            ("REDLOCK_PASSWORD_FILE", path(&self.password_file)),
        ];
        reach.extend(self.tls.reach());
        reach
    }

    /// No lock is longer.
    pub fn longest(&self) -> Duration {
        self.max_ttl.as_ref().map_or(Ttl::DEFAULT_MAX, |entry| entry.value)
    }

    /// The error, with the place of a limit that was set.
    pub fn refuse(&self, error: &TimingError) -> SettingsError {
        match (&self.max_ttl, error) {
            (Some(limit), TimingError::TooLong { .. } | TimingError::HeldTooLong { .. }) => {
                SettingsError::config(format!("{error} ({})", limit.place))
            }
            _ => SettingsError::config(error),
        }
    }

    /// The nodes as they are written, without credentials, in canonical order.
    pub fn names(&self) -> Vec<String> {
        self.fleet.iter().map(Endpoint::to_string).collect()
    }
}

/// A time-out: the one that was given and how that is called, else the file's.
fn timeout(
    (given, place): (Option<Duration>, String),
    file: Option<Entry<Duration>>,
) -> Result<Option<Duration>, SettingsError> {
    match given.map(|value| Entry { value, place }).or(file) {
        Some(Entry { value, place }) if value < Duration::from_millis(1) => {
            Err(SettingsError::config(format!("{place}: it must be at least 1ms")))
        }
        entry => Ok(entry.map(|entry| entry.value)),
    }
}

/// The list as it was given.
struct List {
    items: Vec<String>,
    source: Source,
    /// What to call it in an error.
    place: String,
}

impl List {
    fn find(args: &NodeArgs, config: &Config) -> Result<Self, SettingsError> {
        let place = args.origins.nodes.name("nodes");
        let mut items = Vec::new();
        for list in &args.nodes {
            let list = list
                .to_str()
                .ok_or_else(|| SettingsError::config(format!("{place} is not valid UTF-8")))?;
            items.extend(split(list));
        }
        if !args.nodes.is_empty() {
            let source = match args.origins.nodes {
                Origin::Typed => Source::Flag,
                Origin::Environment => Source::Variable,
            };
            return Self { items, source, place }.unless_empty();
        }
        match (&config.nodes, &config.path) {
            (Some(Entry { value, place }), Some(path)) => Self {
                items: value.iter().flat_map(|text| split(text)).collect(),
                source: Source::File(path.clone()),
                place: place.clone(),
            }
            .unless_empty(),
            _ => Self { items, source: Source::Flag, place }.unless_empty(),
        }
    }

    fn unless_empty(self) -> Result<Self, SettingsError> {
        if self.items.is_empty() {
            return Err(SettingsError::config(
                "no nodes: name them by --nodes, by REDLOCK_NODES or in a configuration file; to \
                 try it out: redlock sandbox -- redlock run --key hello -- echo it works",
            ));
        }
        Ok(self)
    }
}

fn split(list: &str) -> impl Iterator<Item = String> {
    list.split(|c: char| c == ',' || c.is_whitespace())
        .filter(|item| !item.is_empty())
        .map(str::to_owned)
}
