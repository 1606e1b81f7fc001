//! Any text as messages, in each syntax: the pieces in which it comes make no difference, and places
//! lie in the text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use somersault_lines::{MessageLimits, MessageReader, MessageSyntax};
use std::io::Read;

const LIMITS: MessageLimits = MessageLimits {
    bytes: 4096,
    statements: 64,
};

struct Bytewise<'t>(&'t [u8]);

impl Read for Bytewise<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = self.0.len().min(buffer.len()).min(3);
        buffer[..length].copy_from_slice(&self.0[..length]);
        self.0 = &self.0[length..];
        Ok(length)
    }
}

fuzz_target!(|text: &[u8]| {
    let lines = text.split(|byte| *byte == b'\n').count() as u64;
    for syntax in MessageSyntax::ALL {
        let read = |message: std::io::Result<somersault_lines::Message>| {
            let message = message.expect("a text in memory is readable");
            assert!(message.line >= 1 && message.line <= lines);
            let statements = message.statements.map(|quads| quads.len());
            statements.map_err(|refused| (refused.line, refused.column, refused.reason))
        };
        let whole = MessageReader::new(text, syntax, LIMITS).map(read);
        let pieces = MessageReader::new(Bytewise(text), syntax, LIMITS).map(read);
        assert!(whole.eq(pieces));
    }
});
