//! What the command line, the environment and (later) the configuration mean. Every cross-check
//! happens here, once; nobody below asks what the user typed.

mod nodes;
mod plan;
mod run;
mod scripts;
mod tls;

use std::fmt;

pub use plan::{Conflict, Credentials, Facts, GuardianChoice, Leftover, ParentDeath, RunPlan};
pub use run::{RunSettings, format};
pub use scripts::{
    AcquireSettings, By, DoctorSettings, ExtendSettings, ReleaseSettings, StatusSettings, Target,
};

use crate::exit::Code;

/// Why the settings cannot work: one line for people, and the exit code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsError {
    /// [`Code::Usage`] or [`Code::Config`].
    pub code: Code,
    /// The line, without a secret in it.
    pub text: String,
}

impl SettingsError {
    fn usage(text: impl fmt::Display) -> Self {
        Self { code: Code::Usage, text: text.to_string() }
    }

    fn config(text: impl fmt::Display) -> Self {
        Self { code: Code::Config, text: text.to_string() }
    }
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for SettingsError {}
