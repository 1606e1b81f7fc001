//! Any bytes as a `suite.json`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use somersault_conformance::rsp::suite::Suite;

fuzz_target!(|bytes: &[u8]| {
    let _ = serde_json::from_slice::<Suite>(bytes);
});
