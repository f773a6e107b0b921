//! Something else that speaks TLS before a server that does not, as stunnel and load balancers do:
//! it remembers how connections ended.

use std::{
    fs,
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use rustls::{
    ServerConfig, ServerConnection,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};

use super::tls::Issued;

/// A TLS end in front of a plain server. Its threads end with their connections.
pub struct Terminator {
    address: SocketAddr,
    ends: Arc<Ends>,
}

#[derive(Default)]
struct Ends {
    /// With the word that TLS has for it.
    clean: AtomicUsize,
    /// Without.
    cut: AtomicUsize,
}

impl Terminator {
    /// Shows `issued` and passes on to `server`.
    pub fn to(server: SocketAddr, issued: &Issued) -> Self {
        let chain = vec![CertificateDer::from_pem_slice(&fs::read(&issued.cert).unwrap()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(&fs::read(&issued.key).unwrap()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let ends = Arc::new(Ends::default());
        let told = Arc::clone(&ends);
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, ends, config) =
                    (client.unwrap(), Arc::clone(&told), Arc::clone(&config));
                thread::spawn(move || {
                    let tls = ServerConnection::new(config).unwrap();
                    let end = match serve(client, tls, server) {
                        Ok(()) => &ends.clean,
                        Err(_) => &ends.cut,
                    };
                    end.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        Self { address, ends }
    }

    /// The node, by its address.
    pub fn url(&self) -> String {
        format!("rediss://{}", self.address)
    }

    /// How many connections have ended as TLS wants it, and how many otherwise.
    pub fn ends(&self) -> (usize, usize) {
        (self.ends.clean.load(Ordering::SeqCst), self.ends.cut.load(Ordering::SeqCst))
    }
}

/// Passes bytes both ways until the client has ended; an error when it did so without a word.
fn serve(mut client: TcpStream, mut tls: ServerConnection, server: SocketAddr) -> io::Result<()> {
    let mut server = TcpStream::connect(server)?;
    // Not busy, and never stuck: each side is looked at in turn.
    let patience = Some(Duration::from_millis(1));
    client.set_read_timeout(patience)?;
    server.set_read_timeout(patience)?;
    let mut buffer = vec![0; 64 * 1024];
    let nothing = |error: &io::Error| {
        matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
    };
    loop {
        match tls.read_tls(&mut client) {
            Ok(_) => {
                tls.process_new_packets().map_err(io::Error::other)?;
            }
            Err(error) if nothing(&error) => {}
            Err(error) => return Err(error),
        }
        match tls.reader().read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => server.write_all(&buffer[..count])?,
            Err(error) if nothing(&error) => {}
            Err(error) => return Err(error),
        }
        match server.read(&mut buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => tls.writer().write_all(&buffer[..count])?,
            Err(error) if nothing(&error) => {}
            Err(error) => return Err(error),
        }
        while tls.wants_write() {
            tls.write_tls(&mut client)?;
        }
    }
}
