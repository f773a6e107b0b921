//! Files that say what only we should know.

use std::{
    fs::File,
    io::Read as _,
    os::{fd::OwnedFd, unix::fs::MetadataExt as _},
    path::Path,
};

use super::words;

/// Whether everybody on this machine can read a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exposure {
    /// Not everybody.
    #[default]
    Limited,
    /// Everybody.
    Everybody,
}

/// The permission of others to read.
const OTHERS_READ: u32 = 0o004;

/// The whole file, when it has no more than `longest` bytes; else why not.
pub fn read(path: &Path, longest: u64) -> Result<(Vec<u8>, Exposure), String> {
    let file = File::open(path).map_err(|error| words(&error))?;
    contents(&file, longest)
}

/// The same for a descriptor.
pub fn read_descriptor(fd: OwnedFd, longest: u64) -> Result<(Vec<u8>, Exposure), String> {
    contents(&File::from(fd), longest)
}

fn contents(file: &File, longest: u64) -> Result<(Vec<u8>, Exposure), String> {
    let about = file.metadata().map_err(|error| words(&error))?;
    let mut bytes = Vec::new();
    file.take(longest + 1).read_to_end(&mut bytes).map_err(|error| words(&error))?;
    if bytes.len() as u64 > longest {
        return Err(format!("it has more than {longest} bytes"));
    }
    let exposed = about.is_file() && about.mode() & OTHERS_READ != 0;
    Ok((bytes, if exposed { Exposure::Everybody } else { Exposure::Limited }))
}
