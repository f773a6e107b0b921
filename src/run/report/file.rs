//! Writing a report: whole or not at all, with nothing left behind, and never for long.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::OpenOptionsExt as _,
    },
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use anyhow::Context as _;
use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::{FlockOperation, OFlags, flock},
    time::Timespec,
};

use crate::clock::{BootClock, Clock as _};

/// How long a full pipe, or another run that writes about its lock, is waited for.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often to look whether the other run is done.
const LOOK: Duration = Duration::from_millis(5);

/// Writes `text` behind what was written before.
///
/// # Errors
/// Whatever the system says, or nobody reads it.
pub fn append(to: impl AsFd, text: &str) -> anyhow::Result<()> {
    let until = BootClock.now().after(PATIENCE);
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        let left = Timespec::try_from(until.since(BootClock.now())).unwrap_or_default();
        let mut fds = [PollFd::new(&to, PollFlags::OUT)];
        match poll(&mut fds, Some(&left)) {
            Ok(0) => anyhow::bail!("nobody reads it"),
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        // A pipe with room takes a part of this size without blocking.
        let part = rest.get(..4096).unwrap_or(rest);
        match rustix::io::write(&to, part) {
            Ok(count) => rest = rest.get(count..).unwrap_or_default(),
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Puts `text` in the place of what `path` was. What is no regular file (a pipe, a device), and what
/// only names a descriptor (`/dev/stdout`), is written to.
///
/// # Errors
/// Whatever the system says; the old file is still there.
pub fn replace(path: &Path, text: &str) -> anyhow::Result<()> {
    match place(path)? {
        Place::File(path) => swap(&path, text),
        Place::Special => {
            // Neither waits for a reader nor takes a terminal for ours.
            let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
            let flags = i32::try_from(flags.bits()).unwrap_or(0);
            let file = OpenOptions::new().append(true).custom_flags(flags).open(path);
            append(file.with_context(|| named("cannot open", path))?, text)
        }
    }
}

/// The same with what `make` makes of the old text. Runs that do so at the same time come one after
/// the other, so that none loses what another has written.
///
/// # Errors
/// As above, or the others take too long.
pub fn update(path: &Path, make: impl FnOnce(&str) -> String) -> anyhow::Result<()> {
    let Place::File(path) = place(path)? else {
        anyhow::bail!("{} is no regular file", path.display());
    };
    // The directory is what they have in common: the file itself is another one each time.
    let _lock = lock(directory(&path))?;
    let old = match fs::read(&path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error).with_context(|| named("cannot read", &path)),
    };
    swap(&path, &make(&old))
}

/// What is to be written to.
enum Place {
    /// A regular file, or one that is not there yet; where a link led to it, this is its own name.
    File(PathBuf),
    Special,
}

fn place(path: &Path) -> anyhow::Result<Place> {
    // Whoever opened what is behind these goes on to write there.
    let descriptors = ["/dev/stdout", "/dev/stderr", "/dev/fd", "/proc"];
    if descriptors.iter().any(|name| path.starts_with(name)) {
        return Ok(Place::Special);
    }
    match fs::metadata(path) {
        Ok(meta) if meta.is_file() => {
            let own = fs::canonicalize(path);
            Ok(Place::File(own.with_context(|| named("cannot resolve", path))?))
        }
        Ok(meta) if meta.is_dir() => anyhow::bail!("{} is a directory", path.display()),
        Ok(_) => Ok(Place::Special),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Place::File(path.to_owned())),
        Err(error) => Err(error).with_context(|| named("cannot look at", path)),
    }
}

/// Writes a new file beside the old one and gives it its name, which readers see at once or not at
/// all.
fn swap(path: &Path, text: &str) -> anyhow::Result<()> {
    let Some(name) = path.file_name() else {
        anyhow::bail!("{} is no name of a file", path.display());
    };
    let mut beside = OsString::from(".");
    beside.push(name);
    beside.push(format!(".{}.{}", std::process::id(), BootClock.now().since_boot().as_nanos()));
    let beside = path.with_file_name(beside);
    // With the usual rights, as the umask cuts them.
    let file = OpenOptions::new().write(true).create_new(true).open(&beside);
    let mut file = file.with_context(|| named("cannot write into", directory(path)))?;
    let written = file.write_all(text.as_bytes()).and_then(|()| fs::rename(&beside, path));
    written.with_context(|| named("cannot write", path)).inspect_err(|_| {
        let _ = fs::remove_file(&beside);
    })
}

fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Waits until nobody else updates a file in `directory`; others do while what is returned lives.
fn lock(directory: &Path) -> anyhow::Result<OwnedFd> {
    let open = File::open(directory);
    let open = OwnedFd::from(open.with_context(|| named("cannot open", directory))?);
    let until = BootClock.now().after(PATIENCE);
    loop {
        match flock(&open, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(open),
            Err(rustix::io::Errno::AGAIN) if BootClock.now() < until => thread::sleep(LOOK),
            Err(rustix::io::Errno::AGAIN) => {
                anyhow::bail!("{} is locked by somebody else", directory.display())
            }
            Err(error) => {
                return Err(error).with_context(|| named("cannot lock", directory));
            }
        }
    }
}

fn named(what: &str, path: &Path) -> String {
    format!("{what} {}", path.display())
}
