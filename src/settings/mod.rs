//! What the command line, the environment and the configuration file mean. Every cross-check
//! happens here, once; nobody below asks what the user typed.

mod around;
mod config;
mod file;
mod nodes;
mod password;
mod plan;
mod report;
mod run;
mod scripts;
mod tls;
mod warning;

use std::{fmt, io};

pub use around::HELD;
pub use nodes::Source;
pub use plan::{Conflict, Credentials, Facts, GuardianChoice, Leftover, ParentDeath, RunPlan};
pub use report::{ReportTo, Reporting};
pub use run::{Root, RunSettings, format};
pub use scripts::{
    AcquireSettings, By, DoctorSettings, ExtendSettings, ReleaseSettings, StatusSettings, Target,
};
pub use warning::Warning;

use crate::exit::Code;

/// The system's words without its number.
pub fn words(error: &io::Error) -> String {
    let text = error.to_string();
    let words = text.split(" (os error").next().unwrap_or_default();
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

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
