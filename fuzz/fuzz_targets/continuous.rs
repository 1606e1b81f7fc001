//! Any text as a continuous query, with and without a namespace for bare names (the paper's
//! dialect).
#![no_main]

use libfuzzer_sys::fuzz_target;
use somersault_lang::Parser;

fuzz_target!(|text: &str| {
    for parser in [
        Parser::new(),
        Parser::new().with_default_namespace("http://example.org/"),
    ] {
        if let Err(error) = parser.parse_continuous(text) {
            assert!(error.offset <= text.len() && !error.message.is_empty());
        }
    }
});
