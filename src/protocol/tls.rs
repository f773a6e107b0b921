//! Why TLS with a node came to nothing, as data: the words are made in `ui`.

/// What went wrong between the TCP connection and the first request, or later in TLS itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TlsTrouble {
    /// The handshake was not answered in time. A plain Redis port is as silent: it waits for the
    /// end of a line.
    Unanswered,
    /// The node closed the connection instead of answering.
    HungUp,
    /// What it answered is no TLS.
    Plain,
    /// Its certificate is for other names.
    WrongName {
        /// The name it was to carry.
        wanted: String,
        /// Those that it carries.
        carries: Vec<String>,
    },
    /// Its certificate (or one between it and the CA) has ended, seconds since 1970.
    Expired(u64),
    /// Its certificate (or one between it and the CA) has not begun, seconds since 1970.
    NotYetValid(u64),
    /// Its certificate comes from nobody we trust.
    UnknownAuthority,
    /// Its certificate is one of a CA, which may not be a server's.
    Authority,
    /// Its certificate cannot be used for another reason.
    Unusable(String),
    /// It wants a certificate of ours, and we have none.
    CertificateWanted,
    /// It does not accept our certificate.
    CertificateRefused(String),
    /// There is no version or cipher that both speak.
    Incompatible(String),
    /// Anything else.
    Broken(String),
}
