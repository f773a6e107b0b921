//! What servers are started with: a program found on PATH, a private directory to run it in, and a
//! free port.

use std::{
    env,
    ffi::OsStr,
    fmt,
    fs::{self, DirBuilder, File},
    io,
    net::{Ipv4Addr, SocketAddr, SocketAddrV4},
    os::{
        fd::OwnedFd,
        unix::fs::{DirBuilderExt, PermissionsExt},
    },
    path::{Path, PathBuf},
    process::ExitStatus,
    sync::Arc,
    time::Duration,
};

use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt::set_socket_reuseaddr,
};
use uuid::Uuid;

/// The programs that can serve, in order of preference.
const PROGRAMS: [&str; 2] = ["redis-server", "valkey-server"];

/// Where execvp(3) looks when there is no PATH.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// How long a server may take until it answers. It takes about 10 ms; this is for machines in
/// distress.
pub(super) const START_LIMIT: Duration = Duration::from_secs(20);

/// Why there is no server.
#[derive(Debug)]
#[non_exhaustive]
pub enum ServerError {
    /// Neither program is on PATH.
    Missing,
    /// The temporary directory could not be made.
    Directory(PathBuf, io::Error),
    /// The program could not be started, or not be watched.
    Spawn(PathBuf, io::Error),
    /// The program ended instead of serving; with the last line that it said.
    Ended(PathBuf, ExitStatus, String),
    /// The program runs and does not answer.
    Silent(PathBuf, u16),
    /// Every port that was tried was taken by somebody else meanwhile.
    NoPort,
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => write!(
                f,
                "no {} and no {} on PATH: install one of them \
                 (Debian, Ubuntu: apt install redis-server)",
                PROGRAMS[0], PROGRAMS[1]
            ),
            Self::Directory(path, error) => {
                write!(f, "cannot make the directory {}: {error}", path.display())
            }
            Self::Spawn(program, error) => write!(f, "cannot run {}: {error}", program.display()),
            Self::Ended(program, status, said) => {
                write!(f, "{} did not start: {status}", program.display())?;
                if said.is_empty() { Ok(()) } else { write!(f, ": {said}") }
            }
            Self::Silent(program, port) => write!(
                f,
                "{} on port {port} does not answer after {} s",
                program.display(),
                START_LIMIT.as_secs()
            ),
            Self::NoPort => write!(f, "no free port found on 127.0.0.1"),
        }
    }
}

impl std::error::Error for ServerError {}

/// A program on PATH and a private directory to run it in: what servers are started with.
#[derive(Clone, Debug)]
pub struct Launcher {
    program: PathBuf,
    directory: Arc<Directory>,
}

impl Launcher {
    /// Finds a server program on PATH and makes the directory.
    pub fn new() -> Result<Self, ServerError> {
        Self::of(find_program(&env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into()))?)
    }

    /// Makes the directory for this program.
    pub fn of(program: PathBuf) -> Result<Self, ServerError> {
        let directory = Arc::new(Directory::new()?);
        Ok(Self { program, directory })
    }

    /// The program that was found.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The directory that the servers run in. It goes away with the last of them.
    pub fn directory(&self) -> &Path {
        &self.directory.0
    }

    /// Removes the directory at once.
    pub(super) fn drop_directory(&self) {
        self.directory.remove();
    }
}

/// The first of [`PROGRAMS`] that lies in a directory of `path` and may be executed.
fn find_program(path: &OsStr) -> Result<PathBuf, ServerError> {
    let directories: Vec<PathBuf> = env::split_paths(path).collect();
    PROGRAMS
        .iter()
        .flat_map(|name| directories.iter().map(move |place| place.join(name)))
        .find(|candidate| {
            fs::metadata(candidate)
                .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
        })
        // The servers change their directory before they are executed.
        .map(|found| std::path::absolute(&found).unwrap_or(found))
        .ok_or(ServerError::Missing)
}

/// A directory that only we can enter, removed on drop.
#[derive(Debug)]
struct Directory(PathBuf);

impl Directory {
    fn new() -> Result<Self, ServerError> {
        // Absolute, since the servers change into it and the caller may change out of it.
        let place = std::path::absolute(env::temp_dir()).unwrap_or_else(|_| env::temp_dir());
        let path = place.join(format!("redlock-sandbox-{}", Uuid::new_v4().simple()));
        // Fails when the name exists already, whoever made it.
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => Ok(Self(path)),
            Err(error) => Err(ServerError::Directory(path, error)),
        }
    }

    fn remove(&self) {
        // Nothing can be done about a directory that cannot be removed, and nothing is in it.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        self.remove();
    }
}

/// A port of 127.0.0.1 that is ours while this lives, whether or not anybody listens on it.
///
/// It is bound and does not listen, so connections are refused. A server that sets `SO_REUSEADDR`,
/// as all do, can bind it beside us (ip(7), socket(7)); another reservation cannot. Without it the
/// port of a server that is down could become somebody else's.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _hold: OwnedFd,
}

impl Port {
    /// Takes a port that nobody has.
    ///
    /// It lies below the range that systems give to outgoing connections (ip(7),
    /// `ip_local_port_range`): a connection to a port of that range without a server can end up
    /// connected to itself.
    pub fn reserve() -> Result<Self, ServerError> {
        (0..10_000)
            .find_map(|_| {
                let [high, low, ..] = Uuid::new_v4().into_bytes();
                Self::take(0x4000 | (u16::from_be_bytes([high, low]) & 0x3fff)).ok()
            })
            .ok_or(ServerError::NoPort)
    }

    fn take(number: u16) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        let hold = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
        // In this order: the bind has to fail when anybody else has the port, whatever he allows.
        bind(&hold, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, number))?;
        set_socket_reuseaddr(&hold, true)?;
        Ok(Self { number, _hold: hold })
    }

    /// The port's number.
    pub const fn number(&self) -> u16 {
        self.number
    }

    /// Where the port is.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.number).into()
    }
}

/// A file that exists only as long as it is open.
pub(super) fn nameless_file() -> io::Result<File> {
    use rustix::fs::{MemfdFlags, memfd_create};
    Ok(memfd_create("redlock-sandbox-log", MemfdFlags::CLOEXEC)?.into())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn reserved_port_is_ours_alone_and_refuses_until_somebody_listens() {
        let port = Port::reserve().unwrap();
        assert!(Port::take(port.number()).is_err());
        assert!(TcpStream::connect(port.address()).is_err());
        for _ in 0..2 {
            let listener = TcpListener::bind(port.address()).unwrap();
            let client = TcpStream::connect(port.address()).unwrap();
            // Ours closes first: its end of the connection lingers on the port.
            drop(listener.accept().unwrap());
            drop((listener, client));
            assert!(TcpStream::connect(port.address()).is_err());
            assert!(Port::take(port.number()).is_err());
        }
    }

    #[test]
    fn port_that_somebody_listens_on_is_not_to_be_had() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert!(Port::take(listener.local_addr().unwrap().port()).is_err());
    }

    #[test]
    fn missing_program_says_what_to_install() {
        let error = find_program(OsStr::new("/nonexistent:/dev")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "no redis-server and no valkey-server on PATH: install one of them \
             (Debian, Ubuntu: apt install redis-server)"
        );
    }

    #[test]
    fn file_that_may_not_be_executed_is_no_program() {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("redis-server"), "").unwrap();
        let valkey = place.path().join("valkey-server");
        fs::write(&valkey, "").unwrap();
        fs::set_permissions(&valkey, PermissionsExt::from_mode(0o755)).unwrap();
        assert_eq!(find_program(place.path().as_os_str()).unwrap(), valkey);
    }
}
