//! Any text as CREATE STREAM, DROP, PAUSE, RESUME or REGISTER.
#![no_main]

use libfuzzer_sys::fuzz_target;
use somersault_lang::Parser;

fuzz_target!(|text: &str| {
    for parser in [
        Parser::new(),
        Parser::new().with_default_namespace("http://example.org/"),
    ] {
        if let Err(error) = parser.parse_statement(text) {
            assert!(error.offset <= text.len() && !error.message.is_empty());
        }
    }
});
