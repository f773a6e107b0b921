//! The files of TLS: paths in, a checked client out. They are read only when a node of the list
//! wants TLS.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use super::{
    SettingsError,
    config::{Config, Entry},
    file::{self, Exposure},
    warning::Warning,
};
use crate::{
    cli::{NodeArgs, Origin},
    node::{Identity, Roots, TlsClient, TlsError},
};

/// A longer file is none of these.
const LONGEST: u64 = 4 * 1024 * 1024;

/// What was said about TLS, by options, the environment or the configuration file.
#[derive(Debug)]
pub struct TlsSettings {
    ca: Option<Entry<PathBuf>>,
    cert: Option<Entry<PathBuf>>,
    key: Option<Entry<PathBuf>>,
    server_name: Option<Entry<String>>,
    trust_everybody: bool,
}

impl TlsSettings {
    /// Finds it; what it takes from the configuration is missing there afterwards.
    pub fn find(args: &NodeArgs, config: &mut Config) -> Self {
        let directory = config.directory().to_owned();
        let path = |given: &Option<PathBuf>, origin: Origin, name, entry: Option<Entry<String>>| {
            let given = given.clone().map(|value| Entry { value, place: origin.name(name) });
            let beside = |Entry { value, place }| Entry { value: directory.join(value), place };
            given.or_else(|| entry.map(beside))
        };
        let origins = &args.origins;
        let name = args.tls_server_name.clone();
        let named = origins.tls_server_name.name("tls-server-name");
        Self {
            ca: path(&args.tls_ca, origins.tls_ca, "tls-ca", config.tls_ca.take()),
            cert: path(&args.tls_cert, origins.tls_cert, "tls-cert", config.tls_cert.take()),
            key: path(&args.tls_key, origins.tls_key, "tls-key", config.tls_key.take()),
            server_name: name
                .map(|value| Entry { value, place: named })
                .or(config.tls_server_name.take()),
            trust_everybody: args.tls_insecure,
        }
    }

    /// Reads the files and checks everything.
    pub fn client(&self, warnings: &mut Vec<Warning>) -> Result<TlsClient, SettingsError> {
        let roots = match &self.ca {
            _ if self.trust_everybody => Roots::Anybody,
            Some(entry) => Roots::Pem(read(entry)?.0),
            None => Roots::System,
        };
        let identity = match (&self.cert, &self.key) {
            (None, None) => None,
            (Some(cert), Some(key)) => {
                let (certificate, _) = read(cert)?;
                let (pem, exposure) = read(key)?;
                if exposure == Exposure::Everybody {
                    warnings.push(Warning::KeyExposed(key.value.clone()));
                }
                Some(Identity { certificate, key: pem })
            }
            (Some(Entry { place, .. }), None) => {
                return Err(SettingsError::config(format!("{place} needs --tls-key FILE as well")));
            }
            (None, Some(Entry { place, .. })) => {
                return Err(SettingsError::config(format!(
                    "{place} needs --tls-cert FILE as well"
                )));
            }
        };
        let name = self.server_name.as_ref().map(|entry| entry.value.as_str());
        TlsClient::new(roots, identity, name).map_err(|error| self.named(&error))
    }

    /// The error, with what it is about.
    fn named(&self, error: &TlsError) -> SettingsError {
        let file = match error {
            TlsError::NoSystemRoots | TlsError::Unusable(_) => None,
            TlsError::NoRoot | TlsError::BadRoot(_) => self.ca.as_ref(),
            TlsError::NoCertificate | TlsError::BadCertificate(_) => self.cert.as_ref(),
            TlsError::NoKey | TlsError::EncryptedKey | TlsError::BadKey(_) | TlsError::OtherKey => {
                self.key.as_ref()
            }
            TlsError::ServerName => {
                let place = self.server_name.as_ref().map_or("", |entry| &entry.place);
                return SettingsError::config(format!("{place}: {error}"));
            }
        };
        SettingsError::config(match file {
            Some(Entry { value, place }) => format!("{place}: {}: {error}", value.display()),
            None => error.to_string(),
        })
    }

    /// How a command under the lock finds the same: absolute, since it may change its directory.
    pub fn reach(&self) -> Vec<(&'static str, Option<OsString>)> {
        let path = |entry: &Option<Entry<PathBuf>>| {
            let path = &entry.as_ref()?.value;
            Some(std::path::absolute(path).unwrap_or_else(|_| path.clone()).into_os_string())
        };
        vec![
            ("REDLOCK_TLS_CA", path(&self.ca)),
            ("REDLOCK_TLS_CERT", path(&self.cert)),
            ("REDLOCK_TLS_KEY", path(&self.key)),
            (
                "REDLOCK_TLS_SERVER_NAME",
                self.server_name.as_ref().map(|entry| (&entry.value).into()),
            ),
        ]
    }
}

fn read(
    Entry { value: path, place }: &Entry<PathBuf>,
) -> Result<(Vec<u8>, Exposure), SettingsError> {
    let failed = |words| {
        SettingsError::config(format!("{place}: cannot read {}: {words}", Path::display(path)))
    };
    file::read(path, LONGEST).map_err(failed)
}
