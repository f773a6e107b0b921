//! The options about the nodes, which all commands but the sandbox share.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{ArgMatches, Args, parser::ValueSource};

use crate::duration;

/// Where the lock lives.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Nodes")]
pub struct NodeArgs {
    /// The Redis masters, comma separated; repeatable [env: REDLOCK_NODES].
    ///
    /// Forms: host, host:port, redis://[user[:password]@]host[:port][/db],
    /// rediss://... (TLS), unix:///path/to.sock[?db=N]; IPv6 addresses in brackets. An odd number,
    /// 1 to 15; every host must use the same list. Its order means nothing.
    #[arg(long, value_name = "URL[,URL...]", env = "REDLOCK_NODES", hide_env = true)]
    pub nodes: Vec<OsString>,
    /// Read this file instead of the usual ones [env: REDLOCK_CONFIG].
    ///
    /// Without it the first that exists of $XDG_CONFIG_HOME/redlock/config.toml (or
    /// ~/.config/redlock/config.toml) and /etc/redlock/config.toml is read; they are not merged.
    /// TOML with the keys nodes (a list), username, password-file, tls-ca, tls-cert, tls-key,
    /// tls-server-name, prefix, connect-timeout, node-timeout, max-ttl (the longest ttl or min-hold
    /// that is accepted, 24h unless it says otherwise), restart-guard, allow-even-nodes. Options
    /// come first, then the environment, then the file; a variable that is set and empty says
    /// nothing, but for REDLOCK_PREFIX. Relative paths in the file start at its own directory.
    /// /dev/null is an empty file.
    #[arg(long, value_name = "FILE", env = "REDLOCK_CONFIG", hide_env = true)]
    pub config: Option<PathBuf>,
    /// User for nodes whose URL has neither user nor password [env: REDLOCK_USERNAME].
    #[arg(long, value_name = "NAME", env = "REDLOCK_USERNAME", hide_env = true)]
    pub username: Option<String>,
    /// Where the password is for nodes whose URL has none: a file, or fd:N
    /// [env: REDLOCK_PASSWORD_FILE].
    ///
    /// The file's whole text without one newline at its end. fd:N is a descriptor that the caller
    /// opened (3 or more); it is read to its end and closed. Without this the environment variable
    /// REDLOCK_PASSWORD is the password, and else what the configuration file's password-file says.
    /// There is no option for the password itself: what is in argv can be read by everybody on this
    /// machine.
    #[arg(long, value_name = "FILE|fd:N", env = "REDLOCK_PASSWORD_FILE", hide_env = true)]
    pub password_file: Option<OsString>,
    /// Trust these CAs for rediss:// nodes, instead of the system's (PEM) [env: REDLOCK_TLS_CA].
    ///
    /// The system's are found as OpenSSL finds them; SSL_CERT_FILE and SSL_CERT_DIR name others.
    /// A node whose certificate is wrong is as one that is down: it does not vote, the message says
    /// why, and too many of them are exit 69.
    #[arg(long, value_name = "FILE", env = "REDLOCK_TLS_CA", hide_env = true)]
    pub tls_ca: Option<PathBuf>,
    /// Our own certificate, for nodes that ask for one (PEM, with --tls-key)
    /// [env: REDLOCK_TLS_CERT].
    #[arg(long, value_name = "FILE", env = "REDLOCK_TLS_CERT", hide_env = true)]
    pub tls_cert: Option<PathBuf>,
    /// The key of --tls-cert (PEM, unencrypted) [env: REDLOCK_TLS_KEY].
    #[arg(long, value_name = "FILE", env = "REDLOCK_TLS_KEY", hide_env = true)]
    pub tls_key: Option<PathBuf>,
    /// The name that the nodes' certificates carry, where it is not the one in the list
    /// [env: REDLOCK_TLS_SERVER_NAME].
    ///
    /// For nodes that are listed by address, or by a short name. It holds for every rediss:// node.
    #[arg(long, value_name = "NAME", env = "REDLOCK_TLS_SERVER_NAME", hide_env = true)]
    pub tls_server_name: Option<String>,
    /// Do not check the nodes' certificates at all; said on standard error at every use.
    ///
    /// For finding out what is wrong, on a network that you trust: whoever stands between here and
    /// the nodes can read the password and answer in their place. The warning is written even
    /// where a run that works says nothing (cron), and no variable switches this on.
    #[arg(long)]
    pub tls_insecure: bool,
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
    #[arg(long, value_name = "RULE", value_parser = restart_guard, env = "REDLOCK_RESTART_GUARD", hide_env = true)]
    pub restart_guard: Option<GuardArg>,
    /// Accept an even number of nodes, for the time of a change of the list.
    #[arg(long)]
    pub allow_even_nodes: bool,
    /// Where some of these came from.
    #[arg(skip)]
    pub origins: Origins,
}

/// Where the options came from that people want to be told about.
#[derive(Clone, Copy, Debug, Default)]
pub struct Origins {
    /// `--nodes`.
    pub nodes: Origin,
    /// `--connect-timeout`.
    pub connect_timeout: Origin,
    /// `--node-timeout`.
    pub node_timeout: Origin,
    /// `--config`.
    pub config: Origin,
    /// `--password-file`.
    pub password_file: Origin,
    /// `--tls-ca`.
    pub tls_ca: Origin,
    /// `--tls-cert`.
    pub tls_cert: Origin,
    /// `--tls-key`.
    pub tls_key: Origin,
    /// `--tls-server-name`.
    pub tls_server_name: Origin,
}

/// Where an option came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// The command line.
    #[default]
    Typed,
    /// The environment.
    Environment,
}

impl Origins {
    pub(super) fn of(matches: &ArgMatches) -> Self {
        let of = |id| match matches.value_source(id) {
            Some(ValueSource::EnvVariable) => Origin::Environment,
            _ => Origin::Typed,
        };
        Self {
            nodes: of("nodes"),
            connect_timeout: of("connect_timeout"),
            node_timeout: of("node_timeout"),
            config: of("config"),
            password_file: of("password_file"),
            tls_ca: of("tls_ca"),
            tls_cert: of("tls_cert"),
            tls_key: of("tls_key"),
            tls_server_name: of("tls_server_name"),
        }
    }
}

impl Origin {
    /// How the user knows `option`: by its name, or by that of its variable.
    pub fn name(self, option: &str) -> String {
        match self {
            Self::Typed => format!("--{option}"),
            Self::Environment => {
                format!("REDLOCK_{}", option.replace('-', "_").to_ascii_uppercase())
            }
        }
    }
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

/// Reads the rule as it is typed.
pub fn restart_guard(text: &str) -> Result<GuardArg, String> {
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
