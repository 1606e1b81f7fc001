//! The text of a token and its hash.
//!
//! The one thing to know before changing it: the secret of a token has 160 random bits, so trying
//! words does not find it. Argon2 is set to a low cost for that reason: it keeps a stolen file
//! useless, and a request with a wrong token cheap.

use argon2::{Algorithm, Argon2, Params, Version};
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use std::io;

/// The beginning of each token, by which scanners of published texts find it.
const PREFIX: &str = "smr_";
const ID_BYTES: usize = 6;
const SECRET_BYTES: usize = 20;
const SALT_BYTES: usize = 16;
const HASH_BYTES: usize = 32;
/// Memory of one hash, in KiB.
const MEMORY_KIB: u32 = 512;
/// Passes over that memory.
const PASSES: u32 = 2;

/// A token's text, taken apart: `smr_`, its id, `_`, its secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TokenText<'t> {
    pub(crate) id: &'t str,
    secret: &'t str,
}

impl<'t> TokenText<'t> {
    /// Takes a text apart; `None` if it is not that of a token.
    pub(crate) fn parse(text: &'t str) -> Option<TokenText<'t>> {
        let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
        let is_hex = |text: &str, bytes: usize| {
            text.len() == 2 * bytes
                && (text.bytes()).all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
        };
        (is_hex(id, ID_BYTES) && is_hex(secret, SECRET_BYTES)).then_some(TokenText { id, secret })
    }
}

/// The text of a new token.
///
/// # Errors
/// The system gives no random bytes.
pub(crate) fn new_token() -> io::Result<String> {
    Ok(format!(
        "{PREFIX}{}_{}",
        hex(&random::<ID_BYTES>()?),
        hex(&random::<SECRET_BYTES>()?)
    ))
}

/// Random bytes of the system.
///
/// # Errors
/// It gives none.
pub(crate) fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|error| io::Error::other(format!("the system gives no random bytes: {error}")))?;
    Ok(bytes)
}

/// What stands for the text of a token that was verified.
pub(crate) type TokenKey = [u8; 32];

/// Hashes of texts under a key that this process alone knows. Without the key nothing can be aimed
/// at an entry of a table by the time that a look takes.
#[derive(Debug)]
pub(crate) struct KeyedHash(TokenKey);

impl KeyedHash {
    /// One under a new key.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub(crate) fn new() -> io::Result<KeyedHash> {
        random().map(KeyedHash)
    }

    pub(crate) fn of(&self, text: &str) -> TokenKey {
        let hasher = Sha256::new().chain_update(self.0);
        hasher.chain_update(text.as_bytes()).finalize().into()
    }
}

/// A secret as the file keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SecretHash {
    pub(crate) salt: String,
    pub(crate) hash: String,
    pub(crate) memory_kib: u32,
    pub(crate) passes: u32,
}

impl SecretHash {
    /// The hash of a token's secret under a new salt.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub(crate) fn of(token: TokenText<'_>) -> io::Result<SecretHash> {
        let salt = hex(&random::<SALT_BYTES>()?);
        let hash = argon2(token.secret, &salt, MEMORY_KIB, PASSES).map_err(io::Error::other)?;
        Ok(SecretHash {
            salt,
            hash,
            memory_kib: MEMORY_KIB,
            passes: PASSES,
        })
    }

    /// Whether it is the hash of this token's secret. Takes about a millisecond.
    pub(crate) fn is_of(&self, token: TokenText<'_>) -> bool {
        let found = argon2(token.secret, &self.salt, self.memory_kib, self.passes);
        found.is_ok_and(|found| {
            let pairs = found.bytes().zip(self.hash.bytes());
            // All bytes are compared, so that the time tells nothing about them.
            found.len() == self.hash.len() && pairs.fold(0, |all, (a, b)| all | (a ^ b)) == 0
        })
    }
}

fn argon2(secret: &str, salt: &str, memory_kib: u32, passes: u32) -> Result<String, String> {
    let params = Params::new(memory_kib, passes, 1, Some(HASH_BYTES));
    let params = params.map_err(|error| error.to_string())?;
    let mut hash = [0; HASH_BYTES];
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into(secret.as_bytes(), salt.as_bytes(), &mut hash)
        .map_err(|error| error.to_string())?;
    Ok(hex(&hash))
}

/// Bytes as lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes everything");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_as_it_is_made() {
        let text = new_token().expect("random bytes");
        let token = TokenText::parse(&text).expect("a token");
        assert!(text.starts_with(&format!("smr_{}_", token.id)), "{text}");
        for bad in [
            "",
            "smr_",
            "smr_00_00",
            &text[1..],
            &text[..text.len() - 1],
            &text.to_uppercase(),
            &format!("{text}0"),
        ] {
            assert_eq!(TokenText::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn only_the_secret_itself_has_its_hash() {
        let (one, other) = (new_token().expect("random"), new_token().expect("random"));
        assert_ne!(one, other);
        let (one, other) = (TokenText::parse(&one), TokenText::parse(&other));
        let (one, other) = (one.expect("a token"), other.expect("a token"));
        let hash = SecretHash::of(one).expect("random bytes");
        assert!(hash.is_of(one) && !hash.is_of(other));
        assert_ne!(
            hash,
            SecretHash::of(one).expect("random"),
            "the salt is new"
        );
        let cut = SecretHash {
            hash: String::new(),
            ..hash
        };
        assert!(!cut.is_of(one));
    }
}
