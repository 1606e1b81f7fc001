//! Any text as a statement or a script of the language; the steps of what it accepts
//! lie in the text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use somersault_lang::{Parser, Statement};

fuzz_target!(|text: &str| {
    for parser in [
        Parser::new(),
        Parser::new().with_default_namespace("http://example.org/"),
    ] {
        match parser.parse_statement(text) {
            Ok(Statement::CreateProcedure(procedure)) => {
                for step in &procedure.steps {
                    assert!(text.get(step.span.clone()).is_some_and(|words| !words.is_empty()));
                }
            }
            Ok(_) => {}
            Err(error) => assert!(error.offset <= text.len() && !error.message.is_empty()),
        }
        if let Err(error) = parser.parse_script(text) {
            assert!(error.offset <= text.len() && !error.message.is_empty());
        }
    }
});
