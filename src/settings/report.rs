//! Where it is reported what became of a run, and what is known of it beforehand.

use std::{
    ffi::{OsStr, OsString},
    os::{fd::OwnedFd, unix::ffi::OsStrExt as _},
    path::PathBuf,
    time::SystemTime,
};

use super::SettingsError;
use crate::{child, cli::RunArgs};

/// Where a report goes (`--report`).
#[derive(Debug)]
pub enum ReportTo {
    /// It is put in the place of this file; one that ends in `.prom` is the Prometheus text format.
    File(PathBuf),
    /// It is written behind what was written before.
    Descriptor(OwnedFd),
}

/// What a report says beside what became of the run. Nothing in it is secret.
#[derive(Debug)]
pub struct Reporting {
    /// Where it goes.
    pub to: ReportTo,
    /// The lock's name; several are joined by a comma.
    pub key: String,
    /// The remark.
    pub label: Option<String>,
    /// Our host.
    pub host: String,
    /// When we began.
    pub began: SystemTime,
    /// How many nodes the list has and what its fingerprint is, where there is a list.
    pub fleet: Option<(usize, String)>,
}

/// The first descriptor that is not the command's.
const FIRST: u32 = 3;

impl Reporting {
    /// What the command line says about it. A descriptor is ours from now on.
    ///
    /// # Errors
    /// A descriptor that is not open, or not ours to use.
    pub fn read(args: &RunArgs) -> Result<Option<Self>, SettingsError> {
        let Some(place) = &args.report else { return Ok(None) };
        let mut keys: Vec<&OsString> = args.key.iter().collect();
        keys.sort();
        keys.dedup();
        let keys: Vec<_> = keys.into_iter().map(|key| key.to_string_lossy()).collect();
        Ok(Some(Self {
            to: to(place)?,
            key: keys.join(", "),
            label: args.label.clone().filter(|label| !label.is_empty()),
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            began: SystemTime::now(),
            fleet: None,
        }))
    }
}

fn to(place: &OsStr) -> Result<ReportTo, SettingsError> {
    let Some(number) = place.as_bytes().strip_prefix(b"fd:") else {
        if place.is_empty() {
            return Err(SettingsError::usage("--report: the name of the file is empty"));
        }
        return Ok(ReportTo::File(place.into()));
    };
    let number = std::str::from_utf8(number).ok().and_then(|number| number.parse().ok());
    let Some(number) = number.filter(|number| *number >= FIRST) else {
        return Err(SettingsError::usage(
            "--report: fd:N takes a number from 3 on; 0, 1 and 2 are the command's; for example: \
             --report fd:3 3>FILE",
        ));
    };
    let descriptor = child::take_descriptor(number).map_err(|_| {
        let open = format!("--report: fd:{number} is not open; for example: --report fd:3 3>FILE");
        SettingsError::usage(open)
    })?;
    Ok(ReportTo::Descriptor(descriptor))
}
