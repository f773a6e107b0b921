//! Servers that speak TLS, and the certificates for it: a CA of the test's own, whatever it issues,
//! and files that OpenSSL and we can read.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, SystemTime},
};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use redlock::commands::sandbox::{
    launcher::{Launcher, Port},
    servers::Server,
};

/// Whether the servers here can speak TLS: some are built without.
pub fn is_spoken() -> bool {
    static SPOKEN: OnceLock<bool> = OnceLock::new();
    *SPOKEN.get_or_init(|| {
        let launcher = Launcher::new().unwrap();
        Server::start(&launcher, ["--tls-port", "0"]).is_ok()
    })
}

/// A CA, with a directory for what it issues.
pub struct Authority {
    place: tempfile::TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// Files of a certificate.
#[derive(Clone, Debug)]
pub struct Issued {
    pub cert: PathBuf,
    pub key: PathBuf,
}

/// A day.
pub const DAY: Duration = Duration::from_secs(86_400);

impl Authority {
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(1);
        Self::named(&format!("test CA {}", COUNT.fetch_add(1, Ordering::Relaxed)))
    }

    pub fn named(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let place = tempfile::Builder::new().prefix("redlock-test-").tempdir().unwrap();
        fs::write(place.path().join("ca.pem"), issuer.pem()).unwrap();
        Self { place, issuer }
    }

    /// The directory.
    pub fn place(&self) -> &Path {
        self.place.path()
    }

    /// The CA's own certificate.
    pub fn ca(&self) -> PathBuf {
        self.place.path().join("ca.pem")
    }

    /// A certificate for these names and addresses, with nothing special about it.
    pub fn issue(&self, names: &[&str]) -> Issued {
        self.issue_as(names, |_| {})
    }

    /// A certificate that ends so long from now on.
    pub fn issue_until(&self, names: &[&str], rest: Duration) -> Issued {
        self.issue_as(names, |params| params.not_after = (SystemTime::now() + rest).into())
    }

    /// A certificate with something special about it.
    pub fn issue_as(&self, names: &[&str], adjust: impl FnOnce(&mut CertificateParams)) -> Issued {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        // One that is named as its CA would be taken for self-signed.
        params.distinguished_name.push(DnType::CommonName, "test");
        adjust(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let (_, file) = tempfile::Builder::new().tempfile_in(self.place()).unwrap().keep().unwrap();
        let issued = Issued { cert: file.with_extension("crt"), key: file.with_extension("key") };
        fs::write(&issued.cert, certificate.pem()).unwrap();
        fs::write(&issued.key, key.serialize_pem()).unwrap();
        issued
    }

    /// A server that shows `issued` on its TLS port and asks for no certificate.
    pub fn server(&self, issued: &Issued, options: &[&str]) -> TlsServer {
        TlsServer::start(&self.ca(), issued, &[&["--tls-auth-clients", "no"], options].concat())
    }

    /// Servers for 127.0.0.1 and localhost.
    pub fn fleet(&self, count: usize) -> Vec<TlsServer> {
        let issued = self.issue(&["localhost", "127.0.0.1"]);
        (0..count).map(|_| self.server(&issued, &[])).collect()
    }
}

/// A server that speaks TLS on one port, and in the clear on another, for the test itself.
pub struct TlsServer {
    pub server: Server,
    port: Port,
}

impl TlsServer {
    /// A server that shows `issued` and trusts clients that `ca` has issued.
    pub fn start(ca: &Path, issued: &Issued, options: &[&str]) -> Self {
        let launcher = Launcher::new().unwrap();
        let port = Port::reserve().unwrap();
        let number = port.number().to_string();
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let (ca, cert, key) = (text(ca), text(&issued.cert), text(&issued.key));
        let tls = [
            ["--tls-port", &number],
            ["--tls-ca-cert-file", &ca],
            ["--tls-cert-file", &cert],
            ["--tls-key-file", &key],
        ];
        let options = tls.concat().into_iter().chain(options.iter().copied());
        let server = Server::start(&launcher, options).unwrap();
        Self { server, port }
    }

    /// The TLS port.
    pub const fn port(&self) -> u16 {
        self.port.number()
    }

    /// The node, by its address.
    pub fn url(&self) -> String {
        format!("rediss://127.0.0.1:{}", self.port())
    }
}

/// A list of nodes.
pub fn list(servers: &[TlsServer]) -> String {
    servers.iter().map(TlsServer::url).collect::<Vec<_>>().join(",")
}
