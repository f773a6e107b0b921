//! What can be wrong with a list of nodes, in words that never contain a password.

use std::fmt;

/// Why a list of nodes cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndpointError {
    /// This one is no node.
    Malformed {
        /// The node's text without anything that may be secret.
        node: String,
        /// What is wrong with it.
        problem: Problem,
    },
    /// The same server stands in the list twice; its two votes would be one.
    Twice {
        /// How it is written.
        node: String,
        /// How it is written the other time.
        also: String,
    },
    /// TLS is wanted, and no certificate could carry the host's name.
    Unnamed {
        /// Which node wants it.
        node: String,
    },
    /// There are too many.
    TooMany {
        /// So many.
        count: usize,
        /// The most there may be.
        max: usize,
    },
    /// There are none.
    None,
}

/// What can be wrong with one node's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// There is nothing.
    Empty,
    /// White space or control characters in it.
    WhiteSpace,
    /// Not `redis`, `rediss` or `unix`.
    Scheme,
    /// A path without `unix://`.
    BarePath,
    /// Credentials without `redis://`.
    BareCredentials,
    /// A user, and no password anywhere: that sends no AUTH.
    NoPassword,
    /// A user or password that hides the `@` behind one of its own characters.
    Unescaped,
    /// No host name.
    NoHost,
    /// The host name is none.
    Host,
    /// `0.0.0.0` or `::`.
    Wildcard,
    /// IPv6 without brackets, or something else in them.
    Brackets,
    /// The port is none.
    Port,
    /// The database is no number.
    Db,
    /// A query parameter that means nothing here.
    Parameter(String),
    /// A `#fragment`.
    Fragment,
    /// `unix://` and no absolute path.
    UnixHost,
    /// A path that no socket can have.
    Path,
    /// No URL for another reason.
    Url,
}

impl fmt::Display for EndpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed { node, problem } => write!(f, "node '{node}': {problem}"),
            Self::Twice { node, also } if node == also => {
                write!(f, "node '{node}' is in the list twice; each server has one vote")
            }
            Self::Twice { node, also } => write!(
                f,
                "nodes '{node}' and '{also}' are the same server; each server has one vote"
            ),
            Self::Unnamed { node } => write!(
                f,
                "node '{node}': no certificate can carry that name; say by --tls-server-name which \
                 one it carries"
            ),
            Self::TooMany { count, max } => {
                write!(f, "{count} nodes are too many, a list has at most {max}")
            }
            Self::None => write!(f, "the list of nodes is empty"),
        }
    }
}

impl std::error::Error for EndpointError {}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "there is nothing in it",
            Self::WhiteSpace => "white space or a control character stands in it",
            Self::Scheme => "unknown scheme (known: redis, rediss, unix; or just host:port)",
            Self::BarePath => "a socket is written unix:///path/to.sock",
            Self::BareCredentials => "credentials need the form redis://USER:PASSWORD@host",
            Self::NoPassword => {
                "a user without a password (REDLOCK_PASSWORD or --password-file has it for all \
                 nodes; a password alone is redis://:PASSWORD@host)"
            }
            Self::Unescaped => {
                "the characters / ? # in a user or password must be percent-encoded (%2F %3F %23)"
            }
            Self::NoHost => "the host is missing",
            Self::Host => "that is no host name or address (other scripts in their xn-- form)",
            Self::Wildcard => "nobody can connect to a wildcard address",
            Self::Brackets => {
                "an IPv6 address stands in brackets, as in [::1]:6379, without a zone"
            }
            Self::Port => "a port is a number from 1 to 65535",
            Self::Db => "a database is a number, as in redis://host/1 or unix:///path?db=1",
            Self::Parameter(name) => {
                return write!(f, "unknown or repeated parameter '{}'", name.escape_debug());
            }
            Self::Fragment => "a # has no meaning here",
            Self::UnixHost => "a socket has an absolute path: unix:///path/to.sock",
            Self::Path => "that is no path of a socket (at most 107 bytes)",
            Self::Url => "that is no URL",
        })
    }
}

/// `text` as it may be shown: without credentials, parameters, and whatever else could be the
/// remains of a mistyped password.
pub fn masked(text: &str) -> String {
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) => (Some(scheme), rest),
        None => (None, text),
    };
    let unix = scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("unix"));
    let (secret, visible) = match rest.rfind('@') {
        // An @ in a path is a character like any other, but only in a path.
        Some(_) if unix && rest.starts_with('/') => ("", rest),
        Some(at) => ("***@", &rest[at + 1..]),
        None => ("", rest),
    };
    let end = visible.find(['?', '#']).unwrap_or(visible.len());
    let (visible, tail) = visible.split_at(end);
    let mut shown = String::new();
    if let Some(scheme) = scheme.filter(|scheme| scheme.len() <= 10 && !scheme.contains('@')) {
        shown = format!("{scheme}://");
    }
    shown.push_str(secret);
    if unix {
        shown.push_str(visible);
    } else {
        // `user:password` with the host forgotten looks like a host with a strange port.
        let (authority, path) = visible.split_at(visible.find('/').unwrap_or(visible.len()));
        let colon = authority.rfind(':').filter(|_| !authority.ends_with(']'));
        match colon {
            Some(at) if !authority[at + 1..].bytes().all(|b| b.is_ascii_digit()) => {
                shown.push_str(&authority[..at]);
                shown.push_str(":***");
            }
            _ => {
                shown.push_str(authority);
                shown.push_str(path);
            }
        }
    }
    if !tail.is_empty() {
        shown.push_str(&tail[..1]);
        shown.push_str("...");
    }
    let shown: String = shown.chars().take(120).collect();
    shown.escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_may_be_secret_survives_masking() {
        for (text, shown) in [
            ("redis://user:pw@db1:7000/1", "redis://***@db1:7000/1"),
            ("redis://:p@w@db1", "redis://***@db1"),
            ("redis://:a/b@db1", "redis://***@db1"),
            ("user:pw@db1", "***@db1"),
            ("redis://user:pw", "redis://user:***"),
            ("redis://:pw", "redis://:***"),
            ("redis://:pw/x", "redis://:***"),
            ("unix:///run/a@b.sock?pass=pw", "unix:///run/a@b.sock?..."),
            ("db1:7000", "db1:7000"),
            ("[::1]", "[::1]"),
            ("[::1]:7000/1#x", "[::1]:7000/1#..."),
        ] {
            assert_eq!(masked(text), shown);
        }
    }
}
