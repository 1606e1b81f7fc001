//! Any text as a SPARQL query: refused at a place within it, or read; never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use somersault_lang::Parser;

fuzz_target!(|text: &str| {
    if let Err(error) = Parser::new().parse_query(text) {
        assert!(error.offset <= text.len() && !error.message.is_empty());
    }
});
