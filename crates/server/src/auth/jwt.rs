//! Tokens of an identity provider: signed claims (JWT, RFC 7519), verified with the keys that the
//! provider publishes as a file (JWKS, RFC 7517).
//!
//! 1. The header names a key. A key of the file belongs to one algorithm, and a token that says
//!    another algorithm is refused: a public key is never taken for a shared secret.
//! 2. The signature is verified, then the claims: the issuer, the audience, the times.
//! 3. Rights are in a claim, in the words of other tokens.
//! 4. A verified token is known by a keyed hash of its text until it ends. When a key leaves the
//!    file, the senders whose tokens it signed are revoked, and their event streams end.
//!
//! The one thing to know before changing it: nothing of a token counts before its signature is
//! verified. Sentences about claims may only be said afterwards.

mod crypto;
mod keys;

use crate::auth::principal::Principal;
use crate::auth::secret::{KeyedHash, TokenKey};
use crate::watch::Watch;
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::{Algorithm, Validation};
use keys::{Keys, ProviderKey};
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Map, Value};
use somersault::{Access, Right};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Seconds by which the clocks of the provider and of this server may differ.
const LEEWAY_S: u64 = 60;
/// Longest text of a token, in bytes.
const LONGEST_TOKEN: usize = 16 * 1024;
/// Longest name of a sender, in bytes.
const LONGEST_NAME: usize = 256;
/// Verified tokens that are remembered.
const REMEMBERED: usize = 4096;

/// The tokens that a server takes.
#[derive(Debug, Clone)]
pub struct JwtOptions {
    /// The file of the provider's public keys, a JSON Web Key Set.
    pub jwks: PathBuf,
    /// The issuer (`iss`) that tokens must name.
    pub issuer: String,
    /// The audience (`aud`) that must be among those of a token.
    pub audience: String,
    /// The claim that has the rights: a list of texts, or a text with blanks between them, of which
    /// the words that are no rights are passed over.
    pub rights_claim: String,
}

/// Why the tokens of a provider cannot be verified.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JwtError {
    /// The file of keys cannot be read.
    #[error("the file of keys {} cannot be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file has no key that can be used.
    #[error("the file of keys {} cannot be used: {problem}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
}

/// Why a token is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error(
        "The token is not a signed JWT, or names an algorithm that is not known. This server takes tokens of an identity provider, signed with RS256, ES256 or EdDSA."
    )]
    Form,
    #[error(
        "The token says that it is signed with {0:?}, and its key is not for that algorithm. This server takes RS256, ES256 and EdDSA, each with a key of its kind."
    )]
    Algorithm(Algorithm),
    #[error(
        "The token has the header \"crit\", which asks for extensions that this server does not know."
    )]
    Critical,
    #[error(
        "The token does not say which key it is signed with (\"kid\"), and this server knows several."
    )]
    NoKey,
    #[error("The token is signed with the key \"{0}\", which this server does not know.")]
    UnknownKey(String),
    #[error("The signature of the token is not that of its key.")]
    Signature,
    #[error("The token has expired. Get another one from the identity provider.")]
    Expired,
    #[error(
        "The token is not valid yet. If it was issued just now, the clock of this server may be slow."
    )]
    NotYet,
    #[error("The token is of another issuer (\"iss\") than this server trusts.")]
    Issuer,
    #[error("The token is for another audience (\"aud\") than this server.")]
    Audience,
    #[error("The claim \"{0}\" of the token is missing, or is not what it should be.")]
    Claim(String),
    #[error("The claim \"{claim}\" of the token has no rights for this server: {problem}.")]
    Rights { claim: String, problem: String },
}

/// The keys of an identity provider, with which a running server verifies tokens.
#[derive(Debug)]
pub struct Jwt {
    options: JwtOptions,
    hash: KeyedHash,
    known: Mutex<KnownKeys>,
}

#[derive(Debug)]
struct KnownKeys {
    watch: Watch,
    keys: Keys,
    verified: HashMap<TokenKey, Arc<Principal>>,
}

impl Jwt {
    /// Reads the file of keys for a server.
    ///
    /// # Errors
    /// It cannot be read or has no key that can be used, or the system gives no random bytes.
    pub fn open(options: JwtOptions) -> Result<Jwt, JwtError> {
        crypto::install();
        let remains = "Tokens are verified with the keys that were read before";
        let watch = Watch::new(vec![options.jwks.clone()], remains);
        let keys = read(&options.jwks)?;
        let hash = KeyedHash::new().map_err(|source| JwtError::Unreadable {
            path: options.jwks.clone(),
            source,
        })?;
        Ok(Jwt {
            options,
            hash,
            known: Mutex::new(KnownKeys {
                watch,
                keys,
                verified: HashMap::new(),
            }),
        })
    }

    /// Returns the holder of a token.
    ///
    /// # Errors
    /// The token is not valid.
    pub(crate) fn holder(&self, text: &str) -> Result<Arc<Principal>, Refusal> {
        if text.len() > LONGEST_TOKEN {
            return Err(Refusal::Form);
        }
        let id = self.hash.of(text);
        let mut known = self.current();
        match known.verified.get(&id) {
            Some(holder) if holder.is_current() => return Ok(Arc::clone(holder)),
            Some(_) => _ = known.verified.remove(&id),
            None => {}
        }
        let key = known.keys.key_of(text)?.clone();
        // Other senders do not wait while the signature is verified.
        drop(known);
        let holder = Arc::new(self.verify(text, &key)?);
        if !holder.is_current() {
            return Err(Refusal::Expired);
        }
        self.known.lock().remember(id, &holder);
        Ok(holder)
    }

    /// Checks a token, and returns the name of its holder.
    ///
    /// # Errors
    /// A sentence that says why the token is not valid.
    pub fn check(&self, token: &str) -> Result<String, String> {
        let holder = self.holder(token).map_err(|refusal| refusal.to_string())?;
        Ok(holder.name().to_owned())
    }

    /// Why the file of keys cannot be used at present.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.current().watch.trouble().map(str::to_owned)
    }

    /// The keys, after a look at the file if one is due.
    fn current(&self) -> MutexGuard<'_, KnownKeys> {
        let mut known = self.known.lock();
        if let Some(keys) = known.watch.look(|| read(&self.options.jwks)) {
            known.keys.replace(keys);
        }
        known
    }

    /// Verifies the signature of a token, then its claims.
    fn verify(&self, text: &str, key: &ProviderKey) -> Result<Principal, Refusal> {
        let mut validation = Validation::new(key.algorithm);
        validation.leeway = LEEWAY_S;
        validation.validate_nbf = true;
        validation.set_issuer(&[&self.options.issuer]);
        validation.set_audience(&[&self.options.audience]);
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        let decoded = jsonwebtoken::decode::<Map<String, Value>>(text, &key.decoding, &validation);
        let claims = decoded.map_err(|error| refusal(&error))?.claims;
        let missing = |claim: &str| Refusal::Claim(claim.to_owned());
        let ends = claims.get("exp").and_then(seconds);
        let ends = ends.ok_or_else(|| missing("exp"))?;
        let name = claims.get("sub").and_then(Value::as_str);
        let is_name = |name: &&str| {
            !name.is_empty() && name.len() <= LONGEST_NAME && !name.chars().any(char::is_control)
        };
        let name = name.filter(is_name).ok_or_else(|| missing("sub"))?;
        let access = Access::of(&self.rights(&claims)?);
        let ends_ms = ends.saturating_add(LEEWAY_S).saturating_mul(1_000);
        let withdrawn = Arc::clone(&key.is_withdrawn);
        Ok(Principal::under(name, access, Some(ends_ms), withdrawn))
    }

    /// The rights that a token claims.
    fn rights(&self, claims: &Map<String, Value>) -> Result<Vec<Right>, Refusal> {
        let claim = &self.options.rights_claim;
        let none = |problem: String| Refusal::Rights {
            claim: claim.clone(),
            problem,
        };
        match claims.get(claim) {
            None => Err(none("there is no such claim".to_owned())),
            // As OAuth writes scopes; others than this server have words among them.
            Some(Value::String(words)) => {
                let rights = words.split(' ').filter_map(|word| word.parse().ok());
                let rights: Vec<Right> = rights.collect();
                match rights.is_empty() {
                    true => Err(none("none of its words is a right".to_owned())),
                    false => Ok(rights),
                }
            }
            Some(Value::Array(list)) => list
                .iter()
                .map(|word| {
                    let word = word.as_str();
                    let word = word.ok_or_else(|| none("one of them is no text".to_owned()))?;
                    word.parse().map_err(none)
                })
                .collect(),
            Some(_) => Err(none("it is neither a list nor a text".to_owned())),
        }
    }
}

impl KnownKeys {
    /// Remembers a verified token until it ends.
    fn remember(&mut self, id: TokenKey, holder: &Arc<Principal>) {
        if self.verified.len() >= REMEMBERED {
            self.verified.retain(|_, holder| holder.is_current());
            if self.verified.len() >= REMEMBERED {
                // They are verified again with their next requests.
                self.verified.clear();
            }
        }
        self.verified.insert(id, Arc::clone(holder));
    }
}

fn read(path: &Path) -> Result<Keys, JwtError> {
    let text = std::fs::read_to_string(path).map_err(|source| JwtError::Unreadable {
        path: path.to_owned(),
        source,
    })?;
    Keys::parse(&text).map_err(|problem| JwtError::Unusable {
        path: path.to_owned(),
        problem,
    })
}

/// A time in whole seconds since 1970, of a number that the validation has let pass.
fn seconds(value: &Value) -> Option<u64> {
    let whole = |value: f64| (value >= 0.0).then(|| value.round() as u64);
    value.as_u64().or_else(|| value.as_f64().and_then(whole))
}

/// The sentence for an error of the library.
fn refusal(error: &Error) -> Refusal {
    match error.kind() {
        ErrorKind::InvalidSignature => Refusal::Signature,
        ErrorKind::ExpiredSignature => Refusal::Expired,
        ErrorKind::ImmatureSignature => Refusal::NotYet,
        ErrorKind::InvalidIssuer => Refusal::Issuer,
        ErrorKind::InvalidAudience => Refusal::Audience,
        ErrorKind::MissingRequiredClaim(claim) | ErrorKind::InvalidClaimFormat(claim) => {
            Refusal::Claim(claim.clone())
        }
        _ => Refusal::Form,
    }
}
