//! Any bytes as files of certificates and keys: they are refused with a sentence that names the
//! file, or read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use somersault_connect::tls::{authorities, certificates, check_pair};

fuzz_target!(|input: (&[u8], &[u8])| {
    let (certificate_pem, key_pem) = input;
    let name = |kind: &str| {
        std::env::temp_dir().join(format!("somersault-fuzz-{}.{kind}", std::process::id()))
    };
    let (certificate, key) = (name("crt"), name("key"));
    std::fs::write(&certificate, certificate_pem).expect("a file is taken");
    std::fs::write(&key, key_pem).expect("a file is taken");
    if let Err(error) = check_pair(&certificate, &key) {
        assert!(error.to_string().contains("somersault-fuzz-"));
    }
    if authorities(&certificate).is_ok() {
        let found = certificates(&certificate).expect("what is understood is read");
        assert!(!found.is_empty());
    }
});
