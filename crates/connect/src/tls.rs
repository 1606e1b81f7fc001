//! https in the clients of this program: whose certificates they trust, and which certificate they
//! show.
//!
//! The one thing to know before changing it: without the feature `tls` nothing here reads a file,
//! and an https address cannot be reached. [`is_reachable`] says which addresses can.

#[cfg(feature = "tls")]
mod pem;

#[cfg(feature = "tls")]
pub use pem::{PemError, authorities, certificates, check_pair, private_key};

use ureq::config::ConfigBuilder;
use ureq::typestate::AgentScope;

/// Whether clients of this program can reach an address: `http://…`, and `https://…` if it was
/// built with TLS.
pub fn is_reachable(address: &str) -> bool {
    address.starts_with("http://") || (cfg!(feature = "tls") && address.starts_with("https://"))
}

/// What a client trusts at https addresses, and what it shows there. By default it trusts the
/// public authorities (the list of Mozilla, as built in) and shows nothing.
#[derive(Debug, Clone, Default)]
pub struct ClientTls {
    #[cfg(feature = "tls")]
    config: ureq::tls::TlsConfig,
}

impl ClientTls {
    /// Reads the files that a client was given: certificates of authorities that it trusts in place
    /// of the public ones, and its own certificate with the key that belongs to it.
    ///
    /// # Errors
    /// A file cannot be read or used, or certificate and key do not belong together.
    #[cfg(feature = "tls")]
    pub fn read(
        authorities_file: Option<&std::path::Path>,
        identity: Option<(&std::path::Path, &std::path::Path)>,
    ) -> Result<ClientTls, PemError> {
        use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};
        let mut config = TlsConfig::builder();
        if let Some(file) = authorities_file {
            authorities(file)?;
            let trusted = certificates(file)?.into_iter();
            let trusted = trusted.map(|der| Certificate::from_der(&der).to_owned());
            config = config.root_certs(RootCerts::from(trusted));
        }
        if let Some((certificate, key)) = identity {
            check_pair(certificate, key)?;
            let chain = certificates(certificate)?.into_iter();
            let chain = chain.map(|der| Certificate::from_der(&der).to_owned());
            let pem = pem::text(key)?;
            let secret = PrivateKey::from_pem(&pem).map_err(|error| PemError::Unusable {
                path: key.to_owned(),
                problem: error.to_string(),
            })?;
            let chain = chain.collect::<Vec<_>>();
            config = config.client_cert(Some(ClientCert::new_with_certs(&chain, secret)));
        }
        Ok(ClientTls {
            config: config.build(),
        })
    }

    /// Begins the configuration of an agent that trusts and shows this.
    pub fn agent(&self) -> ConfigBuilder<AgentScope> {
        let builder = ureq::Agent::config_builder();
        #[cfg(feature = "tls")]
        let builder = builder.tls_config(self.config.clone());
        builder
    }
}

/// Whether a request failed because the certificate of the other side was not trusted.
pub fn is_distrust(error: &ureq::Error) -> bool {
    #[cfg(feature = "tls")]
    {
        let inside = match error {
            ureq::Error::Rustls(inside) => Some(inside),
            ureq::Error::Io(error) => error.get_ref().and_then(|inside| inside.downcast_ref()),
            _ => None,
        };
        matches!(inside, Some(rustls::Error::InvalidCertificate(_)))
    }
    #[cfg(not(feature = "tls"))]
    {
        let _ = error;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_web_are_reachable() {
        for (address, is_reached) in [
            ("http://e.org/", true),
            ("https://e.org/", cfg!(feature = "tls")),
            ("file:///etc/passwd", false),
            ("ftp://e.org/", false),
            ("httpx://e.org/", false),
            ("e.org", false),
        ] {
            assert_eq!(is_reachable(address), is_reached, "{address}");
        }
    }

    #[cfg(feature = "tls")]
    #[test]
    fn files_of_a_client_are_checked_before_anything_is_sent() {
        let folder = tempfile::tempdir().unwrap();
        let pair = |name: &str| {
            let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
            let (certificate, key) = (
                folder.path().join(format!("{name}.crt")),
                folder.path().join(format!("{name}.key")),
            );
            std::fs::write(&certificate, made.cert.pem()).unwrap();
            std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
            (certificate, key)
        };
        let (one, other) = (pair("one"), pair("other"));
        ClientTls::read(Some(&one.0), Some((&other.0, &other.1))).unwrap();
        let mixed = ClientTls::read(None, Some((&one.0, &other.1))).unwrap_err();
        assert!(mixed.to_string().contains("other.key"), "{mixed}");
        let no_authority = ClientTls::read(Some(&one.1), None).unwrap_err();
        assert!(
            no_authority.to_string().contains("no certificate"),
            "{no_authority}"
        );
    }
}
