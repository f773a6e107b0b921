//! What works and should be mended all the same. `run` and the others say it on a terminal and with
//! `-v`, `doctor` always.

use std::{fmt, path::PathBuf};

/// One thing to be mended. Its text is a whole line for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// A password stands in our argv.
    PasswordInArgv,
    /// Everybody can read the password's file.
    PasswordFileExposed(PathBuf),
    /// Everybody can read the key of our certificate.
    KeyExposed(PathBuf),
    /// Everybody can read the configuration, and there is a password in it.
    ConfigExposed(PathBuf),
}

impl Warning {
    /// A word for it, stable for programs.
    pub const fn check(&self) -> &'static str {
        match self {
            Self::PasswordInArgv => "password-in-argv",
            Self::PasswordFileExposed(_) | Self::KeyExposed(_) | Self::ConfigExposed(_) => {
                "secret-exposed"
            }
        }
    }

    /// What was found.
    pub fn what(&self) -> String {
        match self {
            Self::PasswordInArgv => {
                "a password stands on the command line, which everybody on this machine can read"
                    .to_owned()
            }
            Self::PasswordFileExposed(path) => {
                format!("everybody on this machine can read the password in {}", path.display())
            }
            Self::KeyExposed(path) => {
                format!("everybody on this machine can read the key {}", path.display())
            }
            Self::ConfigExposed(path) => format!(
                "everybody on this machine can read the configuration {}, and there is a password \
                 in it",
                path.display()
            ),
        }
    }

    /// What it endangers.
    pub const fn endangers(&self) -> &'static str {
        match self {
            Self::PasswordInArgv | Self::PasswordFileExposed(_) | Self::ConfigExposed(_) => {
                "the nodes: whoever knows the password can free and forge locks"
            }
            Self::KeyExposed(_) => "the nodes: whoever has the key is taken for us",
        }
    }

    /// What would mend it.
    pub fn mend(&self) -> String {
        match self {
            Self::PasswordInArgv => {
                "use --password-file, REDLOCK_PASSWORD or a configuration file".to_owned()
            }
            Self::PasswordFileExposed(path)
            | Self::KeyExposed(path)
            | Self::ConfigExposed(path) => {
                format!("chmod o-r {}", path.display())
            }
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; to mend it: {}", self.what(), self.mend())
    }
}
