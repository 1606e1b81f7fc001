//! Any bytes as a file of keys of an identity provider, and as a token: both are refused with a
//! sentence, or the keys are read. No token of these bytes opens anything.
#![no_main]

use libfuzzer_sys::fuzz_target;
use somersault_server::{Jwt, JwtOptions};

fuzz_target!(|input: (&[u8], &str)| {
    let (keys, token) = input;
    let path = std::env::temp_dir().join(format!("somersault-fuzz-{}.jwks", std::process::id()));
    std::fs::write(&path, keys).expect("the folder of temporary files takes a file");
    let options = JwtOptions {
        jwks: path,
        issuer: "https://id.example".to_owned(),
        audience: "somersault".to_owned(),
        rights_claim: "rights".to_owned(),
    };
    match Jwt::open(options) {
        Ok(jwt) => {
            let refused = jwt.check(token).expect_err("it has no signature of a key");
            assert!(!refused.is_empty());
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
