//! The certificate and key of a server, and the authorities of its clients' certificates.
//!
//! 1. A server that starts refuses files that cannot be used.
//! 2. A running server reads them again when they change, at most once a second, and at once when
//!    it is told to ([`Tls::reload`]).
//! 3. New files count for new connections. Files that cannot be used change nothing: the server
//!    goes on with what it has, and says so in its log and in `/health`.

use crate::tls::Wire;
use crate::watch::Watch;
use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::server::WebPkiClientVerifier;
use rustls::sign::SingleCertAndKey;
use somersault_connect::tls::{PemError, authorities, check_pair};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;

/// The protocols that clients may ask for (ALPN).
const PROTOCOLS: [&[u8]; 1] = [b"http/1.1"];

/// Where the certificates of a server are, in the form PEM.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The certificate of the server, and behind it those that lead to an authority.
    pub certificate: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
    /// The authorities of clients' certificates. With it, each client must show a certificate.
    pub client_authorities: Option<PathBuf>,
}

impl TlsFiles {
    fn paths(&self) -> Vec<PathBuf> {
        let two = [self.certificate.clone(), self.key.clone()];
        two.into_iter()
            .chain(self.client_authorities.clone())
            .collect()
    }

    /// Reads the files.
    fn read(&self) -> Result<Arc<ServerConfig>, PemError> {
        let pair = check_pair(&self.certificate, &self.key)?;
        let provider = Arc::new(default_provider());
        let clients = match &self.client_authorities {
            None => WebPkiClientVerifier::no_client_auth(),
            Some(path) => {
                let roots = Arc::new(authorities(path)?);
                WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider))
                    .build()
                    .expect("there is an authority, and no list of revoked ones")
            }
        };
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("ring has what TLS 1.2 and 1.3 need")
            .with_client_cert_verifier(clients)
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(pair)));
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        Ok(Arc::new(config))
    }
}

/// The certificates of a running server.
#[derive(Debug)]
pub struct Tls {
    files: TlsFiles,
    current: Mutex<Current>,
}

#[derive(Debug)]
struct Current {
    watch: Watch,
    config: Arc<ServerConfig>,
}

impl Tls {
    /// Reads the files for a server that starts.
    ///
    /// # Errors
    /// A file cannot be read or used, or certificate and key do not belong together.
    pub fn open(files: TlsFiles) -> Result<Tls, PemError> {
        let remains = "New connections get the certificate that was read before";
        let watch = Watch::new(files.paths(), remains);
        let config = files.read()?;
        Ok(Tls {
            files,
            current: Mutex::new(Current { watch, config }),
        })
    }

    /// Reads the files again, whether they have changed or not.
    pub fn reload(&self) {
        let current = &mut *self.current.lock();
        if let Some(config) = current.watch.read_again(|| self.files.read()) {
            current.config = config;
            tracing::info!("the certificate was read again");
        }
    }

    /// Why the files cannot be used at present.
    pub(crate) fn trouble(&self) -> Option<String> {
        let current = &mut *self.current.lock();
        self.look(current);
        current.watch.trouble().map(str::to_owned)
    }

    /// Carries out the handshake of a connection.
    ///
    /// # Errors
    /// It fails: the client trusts no certificate of the server, shows none of its own, or breaks
    /// off.
    pub(super) async fn accept<S>(&self, socket: S) -> io::Result<Wire<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let config = {
            let current = &mut *self.current.lock();
            self.look(current);
            Arc::clone(&current.config)
        };
        let stream = TlsAcceptor::from(config).accept(socket).await?;
        Ok(Wire::Secure(Box::new(stream)))
    }

    fn look(&self, current: &mut Current) {
        if let Some(config) = current.watch.look(|| self.files.read()) {
            current.config = config;
            tracing::info!("the certificate has changed, and was read again");
        }
    }
}
