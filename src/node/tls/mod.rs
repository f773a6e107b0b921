//! TLS: what a process knows about it, made once and only when a node of the list wants it, and
//! what each connection makes of it.
//!
//! rustls does the cryptography with *ring*; the sockets, the time-outs and the poll loop stay ours.

mod failure;
mod session;
mod validity;
mod verifier;

use std::{fmt, sync::Arc};

use rustls::{
    ClientConfig, RootCertStore,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
};

pub use session::{Session, Shaken};

use super::endpoint::Address;

/// Whose certificates are trusted.
pub enum Roots {
    /// Those that the system trusts (`SSL_CERT_FILE` and `SSL_CERT_DIR` name others).
    System,
    /// Those in this PEM text.
    Pem(Vec<u8>),
    /// Anybody's: whoever answers is taken for the node.
    Anybody,
}

/// Who we are, to nodes that ask.
pub struct Identity {
    /// Our certificate and those between it and its CA, in PEM.
    pub certificate: Vec<u8>,
    /// Its key, in PEM.
    pub key: Vec<u8>,
}

/// Why TLS cannot be spoken: a fragment for people, about the text it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsError {
    /// The system trusts nobody, for all that can be found out.
    NoSystemRoots,
    /// No certificate in the roots.
    NoRoot,
    /// A root that is none; rustls' words.
    BadRoot(String),
    /// No certificate in the identity.
    NoCertificate,
    /// The certificate cannot be used; rustls' words.
    BadCertificate(String),
    /// No key in the identity.
    NoKey,
    /// The key needs a passphrase.
    EncryptedKey,
    /// The key cannot be used; rustls' words.
    BadKey(String),
    /// The key belongs to another certificate.
    OtherKey,
    /// No name that a certificate could carry.
    ServerName,
    /// rustls has no way to begin; its words.
    Unusable(String),
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSystemRoots => f.write_str(
                "this system has no trusted CA certificates: install them (ca-certificates), or \
                 name your own by --tls-ca FILE",
            ),
            Self::NoRoot | Self::NoCertificate => {
                f.write_str("there is no certificate in it (PEM, -----BEGIN CERTIFICATE-----)")
            }
            Self::BadRoot(words) | Self::BadCertificate(words) => {
                write!(f, "a certificate in it cannot be used: {words}")
            }
            Self::NoKey => f.write_str("there is no private key in it (PEM, unencrypted)"),
            Self::EncryptedKey => f.write_str(
                "the key is encrypted, and nobody is there to type its passphrase: store it \
                 unencrypted, readable for this user alone (openssl pkey -in OLD -out NEW)",
            ),
            Self::BadKey(words) => write!(f, "the key cannot be used: {words}"),
            Self::OtherKey => f.write_str("the key belongs to another certificate"),
            Self::ServerName => f.write_str("that is no host name or address"),
            Self::Unusable(words) => write!(f, "TLS cannot be used: {words}"),
        }
    }
}

impl std::error::Error for TlsError {}

/// Everything that all connections of this process share.
#[derive(Clone)]
pub struct TlsClient {
    config: Arc<ClientConfig>,
    name: Option<ServerName<'static>>,
    trust: Trust,
}

/// Whether certificates are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// They are.
    Checked,
    /// They are not (`--tls-insecure`).
    Blind,
}

impl TlsClient {
    /// Checks all of it. Nodes have to carry `server_name` instead of the name in the list when it
    /// is given.
    pub fn new(
        roots: Roots,
        identity: Option<Identity>,
        server_name: Option<&str>,
    ) -> Result<Self, TlsError> {
        let name = server_name.map(name).transpose()?;
        let trust = if matches!(roots, Roots::Anybody) { Trust::Blind } else { Trust::Checked };
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::Unusable(error.to_string()))?;
        let builder = match roots {
            Roots::System => builder.with_root_certificates(system_roots()?),
            Roots::Pem(text) => builder.with_root_certificates(pem_roots(&text)?),
            Roots::Anybody => builder
                .dangerous()
                .with_custom_certificate_verifier(verifier::anybody(Arc::clone(&provider))),
        };
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let (chain, key) = read(&identity, &provider)?;
                builder
                    .with_client_auth_cert(chain, key)
                    .map_err(|error| TlsError::BadCertificate(error.to_string()))?
            }
        };
        // Names are checked all the same; there is only no point in asking for one by address.
        config.enable_sni = true;
        Ok(Self { config: Arc::new(config), name, trust })
    }

    /// Whether certificates are checked.
    pub const fn trust(&self) -> Trust {
        self.trust
    }

    /// What connections to the node at `address` need.
    pub fn peer(&self, address: &Address) -> Result<Peer, TlsError> {
        let name = match (&self.name, address) {
            (Some(name), _) => name.clone(),
            (None, Address::Literal(address)) => ServerName::from(address.ip()),
            // Certificates carry no final dot.
            (None, Address::Name(host, _)) => name(host.trim_end_matches('.'))?,
            (None, Address::Unix(_)) => return Err(TlsError::ServerName),
        };
        Ok(Peer { config: Arc::clone(&self.config), name })
    }
}

impl fmt::Debug for TlsClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsClient").field("trust", &self.trust).finish_non_exhaustive()
    }
}

/// Whom a connection has to find at its other end.
#[derive(Clone)]
pub struct Peer {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl PartialEq for Peer {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.config, &other.config) && self.name == other.name
    }
}

impl Eq for Peer {}

fn name(text: &str) -> Result<ServerName<'static>, TlsError> {
    ServerName::try_from(text.to_owned()).map_err(|_| TlsError::ServerName)
}

fn system_roots() -> Result<RootCertStore, TlsError> {
    let mut store = RootCertStore::empty();
    // Some of them may be of a kind that nobody uses any more: the others still serve.
    store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if store.is_empty() { Err(TlsError::NoSystemRoots) } else { Ok(store) }
}

fn pem_roots(text: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut store = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(text) {
        let certificate = certificate.map_err(|error| TlsError::BadRoot(error.to_string()))?;
        store.add(certificate).map_err(|error| TlsError::BadRoot(error.to_string()))?;
    }
    if store.is_empty() { Err(TlsError::NoRoot) } else { Ok(store) }
}

/// Reads our certificate and its key, and sees whether they belong together.
fn read(
    identity: &Identity,
    provider: &CryptoProvider,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&identity.certificate).collect();
    let chain = chain.map_err(|error| TlsError::BadCertificate(error.to_string()))?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate);
    }
    let encrypted = |text: &[u8]| text.windows(9).any(|part| part == b"ENCRYPTED");
    let key = PrivateKeyDer::from_pem_slice(&identity.key);
    let key = match key {
        _ if encrypted(&identity.key) => return Err(TlsError::EncryptedKey),
        Ok(key) => key,
        Err(rustls::pki_types::pem::Error::NoItemsFound) => return Err(TlsError::NoKey),
        Err(error) => return Err(TlsError::BadKey(error.to_string())),
    };
    let ours = rustls::sign::CertifiedKey::from_der(chain.clone(), key.clone_key(), provider);
    match ours {
        Ok(_) => Ok((chain, key)),
        Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::KeyMismatch)) => {
            Err(TlsError::OtherKey)
        }
        Err(rustls::Error::InvalidCertificate(error)) => {
            Err(TlsError::BadCertificate(error.to_string()))
        }
        Err(error) => Err(TlsError::BadKey(error.to_string())),
    }
}

#[cfg(test)]
mod tests;
