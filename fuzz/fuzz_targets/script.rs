//! Any text as a script: statements with their places in the text, or refused at a place within it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use somersault_lang::Parser;

fuzz_target!(|text: &str| {
    for parser in [
        Parser::new(),
        Parser::new().with_default_namespace("http://example.org/"),
    ] {
        match parser.parse_script(text) {
            Ok(statements) => {
                let lines = text.split('\n').count();
                let is_inside = |line: u32| line >= 1 && line as usize <= lines;
                assert!(statements.iter().all(|one| is_inside(one.place.line)));
            }
            Err(error) => assert!(error.offset <= text.len() && !error.message.is_empty()),
        }
    }
});
