//! Files of certificates and keys in PEM (RFC 7468), read and checked.
//!
//! The one thing to know before changing it: a sentence about such a file never shows what is in
//! it, because it may hold a secret.

use rustls::RootCertStore;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::{Error, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use std::path::{Path, PathBuf};

/// Why a file of certificates or keys cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PemError {
    /// The system cannot read it.
    #[error("the file {} cannot be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// It does not hold what it should.
    #[error("the file {} cannot be used: {problem}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The key is that of another certificate.
    #[error(
        "the key in {} is not that of the certificate in {}: the first certificate of the file must be the one that belongs to the key",
        key.display(),
        certificate.display()
    )]
    Mismatch {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
    },
}

/// Returns the bytes of a file.
pub(super) fn text(path: &Path) -> Result<Vec<u8>, PemError> {
    std::fs::read(path).map_err(|source| PemError::Unreadable {
        path: path.to_owned(),
        source,
    })
}

fn unusable(path: &Path, problem: impl Into<String>) -> PemError {
    PemError::Unusable {
        path: path.to_owned(),
        problem: problem.into(),
    }
}

/// What is wrong with the form of a file.
fn form(error: &Error) -> &'static str {
    match error {
        Error::MissingSectionEnd { .. } => "a section of it has no END line",
        Error::IllegalSectionStart { .. } => "the BEGIN line of a section is malformed",
        Error::Base64Decode(_) => "a section of it is not Base64",
        _ => "it is not PEM",
    }
}

/// Returns the certificates of a file, in their order.
///
/// # Errors
/// The file cannot be read, is not PEM, or holds no certificate.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, PemError> {
    let pem = text(path)?;
    let found = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>();
    let found = found.map_err(|error| unusable(path, form(&error)))?;
    if found.is_empty() {
        return Err(unusable(
            path,
            "it holds no certificate (BEGIN CERTIFICATE); it must be in the form PEM",
        ));
    }
    Ok(found)
}

/// Returns the private key of a file.
///
/// # Errors
/// The file cannot be read, is not PEM, or holds no key that can be read without a password.
pub fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, PemError> {
    let pem = text(path)?;
    PrivateKeyDer::from_pem_slice(&pem).map_err(|error| match error {
        Error::NoItemsFound if is_encrypted(&pem) => unusable(
            path,
            "its key is encrypted, and there is no way to give its password; write it without one with `openssl pkey -in FILE -out FILE`",
        ),
        Error::NoItemsFound => unusable(
            path,
            "it holds no private key (BEGIN PRIVATE KEY); it must be in the form PEM",
        ),
        error => unusable(path, form(&error)),
    })
}

fn is_encrypted(pem: &[u8]) -> bool {
    const MARK: &[u8] = b"BEGIN ENCRYPTED PRIVATE KEY";
    pem.windows(MARK.len()).any(|text| text == MARK)
}

/// Returns the certificates of a file as authorities.
///
/// # Errors
/// As [`certificates`], or one of them is not understood.
pub fn authorities(path: &Path) -> Result<RootCertStore, PemError> {
    let mut store = RootCertStore::empty();
    for (at, certificate) in certificates(path)?.into_iter().enumerate() {
        store.add(certificate).map_err(|error| {
            unusable(
                path,
                format!("its certificate {} is not understood: {error}", at + 1),
            )
        })?;
    }
    Ok(store)
}

/// Returns the certificates of one file with the key of another, if they belong together.
///
/// # Errors
/// As [`certificates`] and [`private_key`]; the key is of an unknown kind, or of another
/// certificate.
pub fn check_pair(certificate: &Path, key: &Path) -> Result<CertifiedKey, PemError> {
    let (chain, secret) = (certificates(certificate)?, private_key(key)?);
    CertifiedKey::from_der(chain, secret, &default_provider()).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => PemError::Mismatch {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
        },
        rustls::Error::InvalidCertificate(error) => unusable(
            certificate,
            format!("its first certificate is not understood: {error}"),
        ),
        _ => unusable(
            key,
            "its key is of a kind that is not known; use RSA (2048 bits or more), ECDSA (P-256, P-384) or Ed25519",
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_that_cannot_be_used_is_named_with_what_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let good = file("good.crt", &made.cert.pem());
        let key = file("good.key", &made.signing_key.serialize_pem());
        assert!(check_pair(&good, &key).is_ok());
        let secret = "QUJDREVGR0g=";
        for (text, word) in [
            ("", "no certificate"),
            ("hello", "no certificate"),
            ("-----BEGIN CERTIFICATE-----\nAAAA\n", "no END line"),
            (
                "-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n",
                "not Base64",
            ),
            (
                "-----BEGIN CERTIFICATE-----\nQUJDREVGR0g=\n-----END CERTIFICATE-----\n",
                "not understood",
            ),
        ] {
            let bad = file("bad.crt", text);
            let said = check_pair(&bad, &key).unwrap_err().to_string();
            assert!(said.contains("bad.crt") && said.contains(word), "{said}");
            let said = authorities(&bad).unwrap_err().to_string();
            assert!(said.contains("bad.crt") && said.contains(word), "{said}");
        }
        for (label, word) in [
            ("CERTIFICATE", "no private key"),
            ("ENCRYPTED PRIVATE KEY", "encrypted"),
            ("PRIVATE KEY", "RSA"),
        ] {
            let bad = format!("-----BEGIN {label}-----\n{secret}\n-----END {label}-----\n");
            let said = check_pair(&good, &file("bad.key", &bad))
                .unwrap_err()
                .to_string();
            assert!(said.contains("bad.key") && said.contains(word), "{said}");
            assert!(!said.contains(secret), "{said}");
        }
        let gone = folder.path().join("gone.crt");
        assert!(matches!(
            certificates(&gone),
            Err(PemError::Unreadable { .. })
        ));
        let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let other = file("other.key", &other.signing_key.serialize_pem());
        let said = check_pair(&good, &other).unwrap_err();
        assert!(matches!(said, PemError::Mismatch { .. }), "{said}");
    }
}
