//! The public keys of an identity provider: a JSON Web Key Set.
//!
//! The one thing to know before changing it: a key belongs to one algorithm, by its kind. Keys of
//! other kinds, shared secrets among them, are passed over (RFC 7517, section 5), so no token can
//! make the server use them.

use super::Refusal;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Longest name of a key in a sentence, in characters.
const SHOWN: usize = 60;
/// Base64 digits of the shortest modulus of an RSA key, of 2048 bits.
const MODULUS_DIGITS: usize = 342;

/// A key, for one algorithm.
#[derive(Debug, Clone)]
pub(super) struct ProviderKey {
    jwk: Jwk,
    pub(super) algorithm: Algorithm,
    pub(super) decoding: DecodingKey,
    /// Set when the key has left the file.
    pub(super) is_withdrawn: Arc<AtomicBool>,
}

impl ProviderKey {
    /// Takes a key of the file.
    ///
    /// # Errors
    /// Why it is not one for tokens.
    fn of(json: &Value) -> Result<ProviderKey, String> {
        let jwk: Jwk = serde_json::from_value(json.clone()).map_err(|error| error.to_string())?;
        let common = &jwk.common;
        if !matches!(common.public_key_use, None | Some(PublicKeyUse::Signature)) {
            return Err("it is not for signatures".to_owned());
        }
        let verifies = |operations: &Vec<_>| operations.contains(&KeyOperations::Verify);
        if !common.key_operations.as_ref().is_none_or(verifies) {
            return Err("it is not for verifying".to_owned());
        }
        let algorithm = match &jwk.algorithm {
            AlgorithmParameters::RSA(key) if key.n.len() >= MODULUS_DIGITS => Algorithm::RS256,
            AlgorithmParameters::RSA(_) => {
                return Err("it is an RSA key of fewer than 2048 bits".to_owned());
            }
            AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => {
                Algorithm::ES256
            }
            AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => {
                Algorithm::EdDSA
            }
            _ => return Err("it is neither an RSA key, nor one of P-256 or Ed25519".to_owned()),
        };
        let said = common.key_algorithm.map(|said| said.to_string());
        if said
            .as_ref()
            .is_some_and(|said| said.parse() != Ok(algorithm))
        {
            return Err(format!("it is not for {algorithm:?}"));
        }
        let decoding = DecodingKey::from_jwk(&jwk).map_err(|error| error.to_string())?;
        Ok(ProviderKey {
            jwk,
            algorithm,
            decoding,
            is_withdrawn: Arc::default(),
        })
    }

    fn id(&self) -> Option<&str> {
        self.jwk.common.key_id.as_deref()
    }
}

/// The keys of a file, of which there is at least one.
#[derive(Debug)]
pub(super) struct Keys(Vec<ProviderKey>);

impl Keys {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// It is no set of keys, has none that can be used, or has two of one name and kind.
    pub(super) fn parse(text: &str) -> Result<Keys, String> {
        let json: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let list = json.get("keys").and_then(Value::as_array);
        let list = list.ok_or("it has no list \"keys\"")?;
        let mut keys: Vec<ProviderKey> = Vec::new();
        let mut passed_over = Vec::new();
        for (at, json) in list.iter().enumerate() {
            match ProviderKey::of(json) {
                Ok(key) => keys.push(key),
                Err(why) => passed_over.push(format!("key {}: {why}", at + 1)),
            }
        }
        if keys.is_empty() {
            let why = match passed_over.is_empty() {
                true => "it is empty".to_owned(),
                false => passed_over.join("; "),
            };
            return Err(format!("it has no key for RS256, ES256 or EdDSA ({why})"));
        }
        for (at, key) in keys.iter().enumerate() {
            let is_same =
                |other: &ProviderKey| other.id() == key.id() && other.algorithm == key.algorithm;
            if keys[..at].iter().any(is_same) {
                let name = key.id().unwrap_or_default();
                return Err(format!(
                    "it has two keys named \"{name}\" for {:?}; give each a \"kid\" of its own",
                    key.algorithm
                ));
            }
        }
        Ok(Keys(keys))
    }

    /// Finds the key of a token, whose signature is not yet verified.
    ///
    /// # Errors
    /// The token is none, or its key is not known or not for its algorithm.
    pub(super) fn key_of(&self, token: &str) -> Result<&ProviderKey, Refusal> {
        let header = jsonwebtoken::decode_header(token).map_err(|_| Refusal::Form)?;
        if header.crit.is_some() {
            return Err(Refusal::Critical);
        }
        let named: Vec<&ProviderKey> = match (&header.kid, self.0.as_slice()) {
            (None, [only]) => vec![only],
            (None, _) => return Err(Refusal::NoKey),
            (Some(id), keys) => keys.iter().filter(|key| key.id() == Some(id)).collect(),
        };
        if named.is_empty() {
            let id = header.kid.unwrap_or_default();
            let shown = id.chars().filter(|c| !c.is_control()).take(SHOWN).collect();
            return Err(Refusal::UnknownKey(shown));
        }
        let of_algorithm = named.into_iter().find(|key| key.algorithm == header.alg);
        of_algorithm.ok_or(Refusal::Algorithm(header.alg))
    }

    /// Takes the keys of the changed file. Those that it no longer has are withdrawn.
    pub(super) fn replace(&mut self, new: Keys) {
        let old = std::mem::replace(&mut self.0, new.0);
        for was in old {
            match self.0.iter_mut().find(|key| key.jwk == was.jwk) {
                Some(key) => key.is_withdrawn = was.is_withdrawn,
                None => was.is_withdrawn.store(true, Ordering::Relaxed),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The key of RFC 8037, appendix A.2.
    const POINT: &str = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";

    fn okp(id: &str) -> Value {
        json!({ "kty": "OKP", "crv": "Ed25519", "kid": id, "x": POINT })
    }

    fn parse(keys: &[Value]) -> Result<Keys, String> {
        Keys::parse(&json!({ "keys": keys }).to_string())
    }

    #[test]
    fn keys_of_other_kinds_are_passed_over() {
        let secret = json!({ "kty": "oct", "kid": "s", "k": "c2VjcmV0" });
        let unknown = json!({ "kty": "AKP", "alg": "ML-DSA-44", "pub": "x" });
        let for_encryption = json!({ "kty": "OKP", "crv": "Ed25519", "use": "enc", "x": POINT });
        let for_signing =
            json!({ "kty": "OKP", "crv": "Ed25519", "key_ops": ["sign"], "x": POINT });
        let short = json!({ "kty": "RSA", "n": "AQAB", "e": "AQAB" });
        let other_curve = json!({ "kty": "EC", "crv": "P-384", "x": "AA", "y": "AA" });
        let other_algorithm = json!({ "kty": "OKP", "crv": "Ed25519", "alg": "RS256", "x": POINT });
        let others = [
            secret,
            unknown,
            for_encryption,
            for_signing,
            short,
            other_curve,
            other_algorithm,
        ];
        for other in &others {
            let said = parse(std::slice::from_ref(other)).unwrap_err();
            assert!(
                said.contains("no key for") && said.contains("key 1"),
                "{said}"
            );
        }
        let mut all = others.to_vec();
        all.push(okp("a"));
        let keys = parse(&all).unwrap().0;
        assert_eq!(keys.len(), 1);
        assert_eq!(keys[0].algorithm, Algorithm::EdDSA);
    }

    #[test]
    fn a_file_that_is_no_set_of_keys_says_why() {
        for (text, said) in [
            ("", "EOF"),
            ("{}", "no list"),
            ("{\"keys\": {}}", "no list"),
            ("{\"keys\": []}", "it is empty"),
            ("{\"keys\": [7]}", "key 1"),
        ] {
            let problem = Keys::parse(text).unwrap_err();
            assert!(problem.contains(said), "{text}: {problem}");
        }
        let twice = parse(&[okp("a"), okp("a")]).unwrap_err();
        assert!(twice.contains("two keys named \"a\""), "{twice}");
    }

    #[test]
    fn a_key_that_leaves_the_file_is_withdrawn_and_one_that_stays_is_not() {
        let mut keys = parse(&[okp("a"), okp("b")]).unwrap();
        let flags: Vec<_> = keys
            .0
            .iter()
            .map(|key| Arc::clone(&key.is_withdrawn))
            .collect();
        keys.replace(parse(&[okp("c"), okp("b")]).unwrap());
        let set: Vec<bool> = flags.iter().map(|it| it.load(Ordering::Relaxed)).collect();
        assert_eq!(set, [true, false]);
        keys.replace(parse(&[okp("c")]).unwrap());
        assert!(flags[1].load(Ordering::Relaxed));
    }
}
