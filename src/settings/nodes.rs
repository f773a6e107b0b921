//! Which nodes, and how to reach them.

use std::{env, ffi::OsString};

use super::{Credentials, SettingsError, tls::TlsSettings};
use crate::{
    cli::NodeArgs,
    node::{self, Endpoint, Fleet},
};

/// The variable that holds the password for nodes whose URL carries none. It has no flag: what is
/// in argv is seen by everybody on the machine.
const PASSWORD: &str = "REDLOCK_PASSWORD";

/// The nodes, checked.
#[derive(Debug)]
pub struct Nodes {
    /// The list.
    pub fleet: Fleet,
    /// What is put before every key.
    pub prefix: String,
    /// The list as it was given, credentials and all.
    raw: String,
    tls: TlsSettings,
}

impl Nodes {
    /// Reads and checks the list. Nothing is contacted.
    pub fn read(args: &NodeArgs) -> Result<Self, SettingsError> {
        let mut items: Vec<&str> = Vec::new();
        for list in &args.nodes {
            let list = list
                .to_str()
                .ok_or_else(|| SettingsError::config("the list of nodes is not valid UTF-8"))?;
            items.extend(list.split([',', ' ', '\t', '\n']).filter(|item| !item.is_empty()));
        }
        if items.is_empty() {
            return Err(SettingsError::config(
                "no nodes: name them by --nodes, by REDLOCK_NODES or in a configuration file; to \
                 try it out: redlock sandbox -- redlock run --key hello -- echo it works",
            ));
        }
        let raw = items.join(",");
        let defaults = defaults(args)?;
        let fleet = Fleet::parse(items, defaults.as_ref()).map_err(SettingsError::config)?;
        if fleet.len().is_multiple_of(2) && !args.allow_even_nodes {
            return Err(SettingsError::config(format!(
                "{} nodes: an even list tolerates no more failures than one node less, and its \
                 votes can tie; use an odd number (--allow-even-nodes for the time of a change)",
                fleet.len()
            )));
        }
        let tls = TlsSettings::of(args);
        let fleet = if fleet.wants_tls() {
            fleet.secured(&tls.client()?).map_err(SettingsError::config)?
        } else {
            fleet
        };
        let prefix = args.prefix.clone().unwrap_or_default();
        Ok(Self { fleet, prefix, raw, tls })
    }

    /// How a command that runs under the lock reaches the nodes itself.
    pub fn reach(&self, credentials: Credentials) -> Vec<(&'static str, Option<OsString>)> {
        let nodes = match credentials {
            Credentials::Keep => self.raw.clone(),
            Credentials::Hide => self.names().join(","),
        };
        let prefix = Some(&self.prefix).filter(|prefix| !prefix.is_empty());
        let mut reach = vec![
            ("REDLOCK_NODES", Some(nodes.into())),
            ("REDLOCK_PREFIX", prefix.map(OsString::from)),
        ];
        reach.extend(self.tls.reach());
        reach
    }

    /// The nodes as they are written, without credentials, in canonical order.
    pub fn names(&self) -> Vec<String> {
        self.fleet.iter().map(Endpoint::to_string).collect()
    }
}

/// The credentials for nodes that carry none.
fn defaults(args: &NodeArgs) -> Result<Option<node::Credentials>, SettingsError> {
    let Some(password) = env::var_os(PASSWORD).filter(|text| !text.is_empty()) else {
        return match &args.username {
            Some(_) => {
                Err(SettingsError::config("a user name needs a password: set REDLOCK_PASSWORD"))
            }
            None => Ok(None),
        };
    };
    let password = password
        .into_string()
        .map_err(|_| SettingsError::config("REDLOCK_PASSWORD is not valid UTF-8"))?;
    Ok(Some(node::Credentials { username: args.username.clone(), password }))
}
