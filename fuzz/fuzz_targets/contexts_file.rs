//! Any bytes as the file of JSON-LD contexts: they are read or refused in a sentence.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Err(refused) = somersault::contexts_of(bytes) {
        assert!(!refused.is_empty());
    }
});
