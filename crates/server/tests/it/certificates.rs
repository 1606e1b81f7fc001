//! Authorities and certificates for one test.

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use std::path::{Path, PathBuf};

/// An authority, which signs certificates.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its certificate.
    pub(crate) pem: String,
}

/// A certificate with its key, and the files that hold them.
pub(crate) struct Identity {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

fn params(name: &str, hosts: &[&str]) -> CertificateParams {
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    let mut params = CertificateParams::new(hosts).expect("hosts");
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

impl Authority {
    pub(crate) fn new(name: &str) -> Authority {
        let mut params = params(name, &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Authority {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    /// Writes a new certificate for these hosts, and its key, into files of this name.
    pub(crate) fn issue(&self, folder: &Path, name: &str, hosts: &[&str]) -> Identity {
        let key = KeyPair::generate().expect("a key");
        let certificate = params(name, hosts).signed_by(&key, &self.issuer);
        let identity = Identity {
            certificate: folder.join(format!("{name}.crt")),
            key: folder.join(format!("{name}.key")),
        };
        let pem = certificate.expect("a certificate").pem();
        std::fs::write(&identity.certificate, pem).expect("written");
        std::fs::write(&identity.key, key.serialize_pem()).expect("written");
        identity
    }

    /// Writes the authority's own certificate.
    pub(crate) fn write(&self, folder: &Path, name: &str) -> PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, &self.pem).expect("written");
        path
    }
}
