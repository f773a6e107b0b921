//! The files of TLS: paths in, a checked client out. They are read only when a node of the list
//! wants TLS.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use super::SettingsError;
use crate::{
    cli::NodeArgs,
    node::{Identity, Roots, TlsClient, TlsError},
};

/// What was said about TLS, by flags, the environment or a configuration file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsSettings {
    /// Whom to trust; the system's CAs when absent.
    pub ca: Option<PathBuf>,
    /// Our certificate.
    pub cert: Option<PathBuf>,
    /// Its key.
    pub key: Option<PathBuf>,
    /// What the nodes' certificates have to carry instead of the names in the list.
    pub server_name: Option<String>,
    /// Trust everybody.
    pub insecure: bool,
}

impl TlsSettings {
    /// What the command line and the environment say.
    pub fn of(args: &NodeArgs) -> Self {
        // An empty variable is as one that is not there.
        let path = |given: &Option<OsString>| {
            given.as_ref().filter(|path| !path.is_empty()).map(PathBuf::from)
        };
        Self {
            ca: path(&args.tls_ca),
            cert: path(&args.tls_cert),
            key: path(&args.tls_key),
            server_name: args.tls_server_name.clone().filter(|name| !name.is_empty()),
            insecure: args.tls_insecure,
        }
    }

    /// Reads the files and checks everything.
    pub fn client(&self) -> Result<TlsClient, SettingsError> {
        let roots = match &self.ca {
            _ if self.insecure => Roots::Anybody,
            Some(path) => Roots::Pem(read("tls-ca", path)?),
            None => Roots::System,
        };
        let identity = match (&self.cert, &self.key) {
            (None, None) => None,
            (Some(cert), Some(key)) => {
                Some(Identity { certificate: read("tls-cert", cert)?, key: read("tls-key", key)? })
            }
            (Some(_), None) => {
                return Err(SettingsError::config("tls-cert needs its key: --tls-key FILE"));
            }
            (None, Some(_)) => {
                return Err(SettingsError::config(
                    "tls-key needs its certificate: --tls-cert FILE",
                ));
            }
        };
        let name = self.server_name.as_deref();
        TlsClient::new(roots, identity, name).map_err(|error| self.named(&error))
    }

    /// The error, with what it is about.
    fn named(&self, error: &TlsError) -> SettingsError {
        let about = |what: &str, path: Option<&PathBuf>| {
            let path = path.map_or_else(String::new, |path| format!(" {}", path.display()));
            SettingsError::config(format!("{what}{path}: {error}"))
        };
        match error {
            TlsError::NoSystemRoots | TlsError::Unusable(_) => SettingsError::config(error),
            TlsError::NoRoot | TlsError::BadRoot(_) => about("tls-ca", self.ca.as_ref()),
            TlsError::NoCertificate | TlsError::BadCertificate(_) => {
                about("tls-cert", self.cert.as_ref())
            }
            TlsError::NoKey | TlsError::EncryptedKey | TlsError::BadKey(_) | TlsError::OtherKey => {
                about("tls-key", self.key.as_ref())
            }
            TlsError::ServerName => {
                let name = self.server_name.as_deref().unwrap_or_default();
                SettingsError::config(format!("tls-server-name '{name}': {error}"))
            }
        }
    }

    /// How a command under the lock finds the same: absolute, since it may change its directory.
    pub fn reach(&self) -> Vec<(&'static str, Option<OsString>)> {
        let path = |path: &Option<PathBuf>| {
            let path = path.as_ref()?;
            Some(std::path::absolute(path).unwrap_or_else(|_| path.clone()).into_os_string())
        };
        vec![
            ("REDLOCK_TLS_CA", path(&self.ca)),
            ("REDLOCK_TLS_CERT", path(&self.cert)),
            ("REDLOCK_TLS_KEY", path(&self.key)),
            ("REDLOCK_TLS_SERVER_NAME", self.server_name.as_ref().map(OsString::from)),
        ]
    }
}

fn read(what: &str, path: &Path) -> Result<Vec<u8>, SettingsError> {
    fs::read(path).map_err(|error| {
        let text = error.to_string();
        let words = text.split(" (os error").next().unwrap_or(&text).to_lowercase();
        SettingsError::config(format!("{what} {}: {words}", path.display()))
    })
}
