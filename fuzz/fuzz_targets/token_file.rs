//! Any bytes as a file of tokens: it is refused with a sentence, or all of its tokens are listed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use somersault_server::TokenFile;

fuzz_target!(|bytes: &[u8]| {
    let path = std::env::temp_dir().join(format!("somersault-fuzz-{}.json", std::process::id()));
    std::fs::write(&path, bytes).expect("the folder of temporary files takes a file");
    match TokenFile::at(&path).list() {
        Ok(tokens) => assert!(tokens.iter().all(|token| token.to_json()["rights"].is_array())),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
