//! Any text as a SPARQL update: refused at a place within it, or read; never a panic. The short way
//! for plain data gives what the long way gives.
#![no_main]

use libfuzzer_sys::fuzz_target;
use somersault_lang::Parser;

fuzz_target!(|text: &str| {
    let parser = Parser::new();
    let read = parser.parse_update(text);
    if let Err(error) = &read {
        assert!(error.offset <= text.len() && !error.message.is_empty());
    }
    let as_text = |update| format!("{update:?}");
    let the_long_way = parser.parse_update_the_long_way(text);
    assert_eq!(read.map(as_text), the_long_way.map(as_text));
});
