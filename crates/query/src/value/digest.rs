//! MD5 and the SHA family, as SPARQL has them: of the UTF-8 of a simple literal, in lower-case
//! hexadecimal (SPARQL 1.1, section 17.4.6).

use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha384, Sha512};
use somersault_lang::Function;

/// The digest of a text by a hash function; `None` for any other function.
pub(crate) fn digest(function: &Function, text: &str) -> Option<String> {
    Some(match function {
        Function::Md5 => hexadecimal(&Md5::digest(text)),
        Function::Sha1 => hexadecimal(&Sha1::digest(text)),
        Function::Sha256 => hexadecimal(&Sha256::digest(text)),
        Function::Sha384 => hexadecimal(&Sha384::digest(text)),
        Function::Sha512 => hexadecimal(&Sha512::digest(text)),
        _ => return None,
    })
}

fn hexadecimal(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| char::from(DIGITS[usize::from(value)]);
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digests_of_the_standards_examples() {
        let expected = [
            (Function::Md5, "900150983cd24fb0d6963f7d28e17f72"),
            (Function::Sha1, "a9993e364706816aba3e25717850c26c9cd0d89d"),
            (
                Function::Sha256,
                "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            ),
        ];
        for (function, hash) in expected {
            assert_eq!(digest(&function, "abc").as_deref(), Some(hash));
        }
        let length = |function| digest(&function, "").map(|hash| hash.len());
        assert_eq!(length(Function::Sha384), Some(96));
        assert_eq!(length(Function::Sha512), Some(128));
        assert_eq!(length(Function::Str), None);
    }
}
