//! One node as the user wrote it: where it is, which database, with which credentials. Its text
//! form without credentials is canonical: it is what lists are sorted by, so that all hosts break
//! ties alike, and what every message shows.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    os::unix::ffi::OsStrExt as _,
    path::PathBuf,
};

use redis::{ConnectionAddr, IntoConnectionInfo as _};

use super::{
    endpoint_error::{EndpointError, Problem, masked},
    tls::{Peer, TlsClient},
};

/// A node: everything that is needed to connect to it.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    address: Address,
    transport: Transport,
    db: u32,
    login: Login,
    peer: Option<Peer>,
}

/// What a node is to be authenticated with, and where that comes from.
#[derive(Clone, PartialEq, Eq)]
enum Login {
    /// The node's text has all.
    Own(Credentials),
    /// It has a user, or nothing; the rest is what all such nodes share.
    Shared { user: Option<String>, credentials: Option<Credentials> },
}

impl Login {
    const NOTHING: Self = Self::Shared { user: None, credentials: None };
}

/// Where a node listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A literal address, nothing to look up.
    Literal(SocketAddr),
    /// A host name (lower case) that has to be resolved, and the port.
    Name(String, u16),
    /// A socket in the file system.
    Unix(PathBuf),
}

/// What goes between the socket and the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// Nothing.
    Plain,
    /// TLS (`rediss://`).
    Tls,
}

/// What AUTH is sent with. Its debug form hides the password.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The user; the node's default user when absent.
    pub username: Option<String>,
    /// The password, in the clear.
    pub password: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("username", &self.username).finish_non_exhaustive()
    }
}

/// The longest path that fits into a socket address, without its NUL (unix(7)).
const LONGEST_PATH: usize = 107;

impl Endpoint {
    /// Reads one node: `host`, `host:port`, `host:port/db`,
    /// `redis://[user@|[user]:pass@]host[:port][/db]`, `rediss://...`, `unix:///path[?db=N]`; IPv6
    /// in brackets. The port is 6379 unless given.
    pub fn parse(text: &str) -> Result<Self, EndpointError> {
        Self::read(text).map_err(|problem| EndpointError::Malformed { node: masked(text), problem })
    }

    fn read(text: &str) -> Result<Self, Problem> {
        if text.is_empty() {
            return Err(Problem::Empty);
        }
        // The URL parser drops some of these silently.
        if text.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(Problem::WhiteSpace);
        }
        match text.split_once("://") {
            Some((scheme, rest)) => match scheme.to_ascii_lowercase().as_str() {
                "redis" => Self::tcp(rest, Transport::Plain),
                "rediss" => Self::tcp(rest, Transport::Tls),
                "unix" => Self::unix(rest),
                _ => Err(Problem::Scheme),
            },
            None if text.starts_with('/') => Err(Problem::BarePath),
            None if text.contains('@') => Err(Problem::BareCredentials),
            None => Self::tcp(text, Transport::Plain),
        }
    }

    /// Reads what stands behind `redis://`.
    fn tcp(rest: &str, transport: Transport) -> Result<Self, Problem> {
        let (authority, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        if tail.contains('@') {
            return Err(Problem::Unescaped);
        }
        let (user_info, host_port) =
            authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
        check_host_port(host_port)?;
        let url = redis::parse_redis_url(&format!("redis://{rest}")).ok_or(Problem::Url)?;
        if url.fragment().is_some() {
            return Err(Problem::Fragment);
        }
        if let Some((name, value)) = url.query_pairs().next() {
            return Err(parameter(&name, &value));
        }
        let has_password = url.password().is_some_and(|password| !password.is_empty());
        // The redis crate would send no AUTH at all for these.
        if user_info.is_some_and(|text| text.ends_with(':'))
            || (user_info.is_some() && !has_password && url.username().is_empty())
        {
            return Err(Problem::NoPassword);
        }
        let db = match url.path() {
            "" | "/" => 0,
            path => number(&path[1..])?,
        };
        let info = url.into_connection_info().map_err(|_| Problem::Url)?;
        let ConnectionAddr::Tcp(host, port) = info.addr() else {
            return Err(Problem::Url);
        };
        let settings = info.redis_settings();
        let user = settings.username().map(str::to_owned);
        let login = match settings.password().filter(|_| has_password) {
            Some(password) => {
                Login::Own(Credentials { username: user, password: password.to_owned() })
            }
            None => Login::Shared { user, credentials: None },
        };
        Ok(Self { address: address(host, *port)?, transport, db, login, peer: None })
    }

    /// Reads what stands behind `unix://`.
    fn unix(rest: &str) -> Result<Self, Problem> {
        if !rest.starts_with('/') {
            return Err(Problem::UnixHost);
        }
        let url = redis::parse_redis_url(&format!("unix://{rest}")).ok_or(Problem::Url)?;
        if url.fragment().is_some() {
            return Err(Problem::Fragment);
        }
        let mut db = None;
        for (name, value) in url.query_pairs() {
            if name != "db" || db.is_some() {
                return Err(parameter(&name, &value));
            }
            db = Some(number(&value)?);
        }
        let info = url.into_connection_info().map_err(|_| Problem::Url)?;
        let ConnectionAddr::Unix(path) = info.addr() else {
            return Err(Problem::Url);
        };
        // Without doubled and trailing slashes, so that one socket has one name.
        let path: PathBuf = path.components().collect();
        let bytes = path.as_os_str().as_bytes();
        if bytes.len() < 2 || bytes.len() > LONGEST_PATH || bytes.iter().any(u8::is_ascii_control) {
            return Err(Problem::Path);
        }
        Ok(Self {
            address: Address::Unix(path),
            transport: Transport::Plain,
            db: db.unwrap_or(0),
            login: Login::NOTHING,
            peer: None,
        })
    }

    /// Where the node listens. Two endpoints with the same address are the same server.
    pub const fn address(&self) -> &Address {
        &self.address
    }

    /// Whether TLS is spoken.
    pub const fn transport(&self) -> Transport {
        self.transport
    }

    /// The database that the keys live in.
    pub const fn db(&self) -> u32 {
        self.db
    }

    /// What to authenticate with.
    pub const fn credentials(&self) -> Option<&Credentials> {
        match &self.login {
            Login::Own(credentials) => Some(credentials),
            Login::Shared { credentials, .. } => credentials.as_ref(),
        }
    }

    /// With whom TLS is spoken, once that is known.
    pub const fn peer(&self) -> Option<&Peer> {
        self.peer.as_ref()
    }

    /// The same node, reached by `client` where it wants TLS.
    pub fn secured(mut self, client: &TlsClient) -> Result<Self, EndpointError> {
        if self.transport == Transport::Tls {
            let unnamed = |_| EndpointError::Unnamed { node: self.to_string() };
            self.peer = Some(client.peer(&self.address).map_err(unnamed)?);
        }
        Ok(self)
    }

    /// Whether its text has a password in it.
    pub const fn has_own_password(&self) -> bool {
        matches!(self.login, Login::Own(_))
    }

    /// The same node with what `defaults` has and its own text lacks. A user without any password
    /// is an error.
    pub fn or_credentials(mut self, defaults: Option<&Credentials>) -> Result<Self, EndpointError> {
        if let Login::Shared { user, credentials } = &mut self.login {
            *credentials = match (&user, defaults) {
                (Some(_), None) => {
                    let (node, problem) = (self.to_string(), Problem::NoPassword);
                    return Err(EndpointError::Malformed { node, problem });
                }
                (Some(user), Some(Credentials { password, .. })) => {
                    Some(Credentials { username: Some(user.clone()), password: password.clone() })
                }
                (None, defaults) => defaults.cloned(),
            };
        }
        Ok(self)
    }

    /// A text that leads others to the same node, without a password: with its user where that
    /// stood alone.
    pub fn without_password(&self) -> String {
        match &self.login {
            Login::Shared { user: Some(user), .. } => {
                let shown = self.to_string();
                let (scheme, place) = shown.split_once("://").unwrap_or(("redis", &shown));
                format!("{scheme}://{}@{place}", percent_encoded(user.as_bytes(), b"-_.~"))
            }
            _ => self.to_string(),
        }
    }
}

/// A parameter that means nothing here, by its name; what has no value is no name, but something
/// that went astray.
fn parameter(name: &str, value: &str) -> Problem {
    Problem::Parameter(if value.is_empty() { "***" } else { name }.to_owned())
}

/// Everything but letters, digits and `plain` as `%XX`.
fn percent_encoded(bytes: &[u8], plain: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || plain.contains(&byte) {
            text.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

/// Finds what the URL parser would refuse without a reason.
fn check_host_port(text: &str) -> Result<(), Problem> {
    let port = if let Some(literal) = text.strip_prefix('[') {
        let (ip, behind) = literal.split_once(']').ok_or(Problem::Brackets)?;
        ip.parse::<Ipv6Addr>().map_err(|_| Problem::Brackets)?;
        behind
    } else {
        if text.matches(':').count() > 1 {
            return Err(Problem::Brackets);
        }
        let (host, port) = text.split_at(text.find(':').unwrap_or(text.len()));
        if host.is_empty() {
            return Err(Problem::NoHost);
        }
        port
    };
    match port.strip_prefix(':') {
        None if port.is_empty() => Ok(()),
        Some(digits)
            if digits.bytes().all(|b| b.is_ascii_digit())
                && digits.parse::<u16>().is_ok_and(|port| port != 0) =>
        {
            Ok(())
        }
        _ => Err(Problem::Port),
    }
}

/// The address of `host`: literal where it is one.
fn address(host: &str, port: u16) -> Result<Address, Problem> {
    if let Ok(ip) = host.parse::<IpAddr>() {
        // ::ffff:192.0.2.1 is 192.0.2.1, and one node must have one name.
        let ip = ip.to_canonical();
        return if ip.is_unspecified() {
            Err(Problem::Wildcard)
        } else {
            Ok(Address::Literal(SocketAddr::new(ip, port)))
        };
    }
    let usable = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    // The C library reads 127.1 and 0x7f000001 as addresses, which would give a node two names.
    let last = host.trim_end_matches('.').rsplit('.').next().unwrap_or("");
    let numeric = last.bytes().all(|b| b.is_ascii_digit()) || last.starts_with("0x");
    if !host.bytes().all(usable) || numeric {
        return Err(Problem::Host);
    }
    Ok(Address::Name(host.to_ascii_lowercase(), port))
}

/// A database number.
fn number(text: &str) -> Result<u32, Problem> {
    if text.bytes().all(|b| b.is_ascii_digit()) {
        text.parse().map_err(|_| Problem::Db)
    } else {
        Err(Problem::Db)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(address) => address.fmt(f),
            Self::Name(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(path) => {
                let path = path.as_os_str().as_bytes();
                write!(f, "unix://{}", percent_encoded(path, b"/-_.~@:+="))
            }
        }
    }
}

/// The canonical form, without credentials.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.transport == Transport::Tls {
            f.write_str("rediss://")?;
        }
        self.address.fmt(f)?;
        match (&self.address, self.db) {
            (_, 0) => Ok(()),
            (Address::Unix(_), db) => write!(f, "?db={db}"),
            (_, db) => write!(f, "/{db}"),
        }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({self})")
    }
}

#[cfg(test)]
mod tests;
