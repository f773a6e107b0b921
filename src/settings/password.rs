//! The password for nodes whose URL has none: where it is, and what it is.

use std::{
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
};

use super::{
    SettingsError,
    config::Config,
    file::{self, Exposure},
    warning::Warning,
};
use crate::{child, cli::NodeArgs};

/// The variable that holds the password. It has no option: what is in argv is seen by everybody on
/// the machine.
const PASSWORD: &str = "REDLOCK_PASSWORD";

/// A longer file is no password.
const LONGEST: u64 = 64 * 1024;

/// Descriptors below this are stdin, stdout and stderr, which are the command's.
const FIRST: u32 = 3;

/// A password and where it came from.
pub struct Password {
    /// The password, in the clear.
    pub text: String,
    /// The file that holds it, absolute; none for the variable and for descriptors.
    pub path: Option<PathBuf>,
}

/// Finds the password: the file that was named on the command line or in the environment, else the
/// variable, else the file that the configuration names.
pub fn find(
    args: &NodeArgs,
    config: &Config,
    warnings: &mut Vec<Warning>,
) -> Result<Option<Password>, SettingsError> {
    if let Some(file) = &args.password_file {
        let place = args.origins.password_file.name("password-file");
        return read(file, Path::new(""), &place, warnings).map(Some);
    }
    if let Some(text) = env::var_os(PASSWORD).filter(|text| !text.is_empty()) {
        let text = text
            .into_string()
            .map_err(|_| SettingsError::config("REDLOCK_PASSWORD is not valid UTF-8"))?;
        return Ok(Some(Password { text, path: None }));
    }
    let Some(entry) = &config.password_file else { return Ok(None) };
    read(OsStr::new(&entry.value), config.directory(), &entry.place, warnings).map(Some)
}

/// Reads what `place` says: a file, below `directory` unless absolute, or `fd:N`.
fn read(
    named: &OsStr,
    directory: &Path,
    place: &str,
    warnings: &mut Vec<Warning>,
) -> Result<Password, SettingsError> {
    if named == "-" || named.is_empty() {
        return Err(SettingsError::usage(format!(
            "{place}: name a file or fd:N; standard input is the command's"
        )));
    }
    if let Some(number) = named.to_str().and_then(|text| text.strip_prefix("fd:")) {
        let number = number.parse().ok().filter(|number| *number >= FIRST).ok_or_else(|| {
            SettingsError::usage(format!(
                "{place}: fd:N takes a number from 3 on; 0, 1 and 2 are the command's"
            ))
        })?;
        let failed =
            |text| SettingsError::config(format!("{place}: cannot read fd:{number}: {text}"));
        let fd = child::take_descriptor(number).map_err(|error| failed(super::words(&error)))?;
        let (bytes, _) = file::read_descriptor(fd, LONGEST).map_err(failed)?;
        return Ok(Password { text: password(bytes).map_err(failed)?, path: None });
    }
    let path = directory.join(named);
    let failed =
        |text| SettingsError::config(format!("{place}: cannot read {}: {text}", path.display()));
    let path = std::path::absolute(&path).map_err(|error| failed(super::words(&error)))?;
    let (bytes, exposure) = file::read(&path, LONGEST).map_err(failed)?;
    let text = password(bytes).map_err(failed)?;
    if exposure == Exposure::Everybody {
        warnings.push(Warning::PasswordFileExposed(path.clone()));
    }
    Ok(Password { text, path: Some(path) })
}

/// The password in a file: all of it, without one newline at the end.
fn password(mut bytes: Vec<u8>) -> Result<String, String> {
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
    }
    match String::from_utf8(bytes) {
        Ok(text) if text.is_empty() => Err("there is no password in it".to_owned()),
        Ok(text) => Ok(text),
        Err(_) => Err("it is not valid UTF-8".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_newline_at_the_end_is_dropped_and_nothing_else() {
        for (bytes, text) in
            [(&b"pw"[..], "pw"), (b"pw\n", "pw"), (b"pw\n\n", "pw\n"), (b" p w ", " p w ")]
        {
            assert_eq!(password(bytes.to_vec()).as_deref(), Ok(text));
        }
        for bytes in [&b""[..], b"\n", b"\xff"] {
            assert!(password(bytes.to_vec()).is_err());
        }
    }
}
