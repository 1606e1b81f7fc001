//! Any text as documents, in each syntax: the pieces in which it comes make no difference, and
//! places lie in the text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use somersault_lines::{Document, DocumentReader, DocumentSyntax, MessageLimits};
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
    for syntax in DocumentSyntax::ALL {
        let read = |document: std::io::Result<Document>| {
            let document = document.expect("a text in memory is readable");
            assert!(document.line >= 1 && document.line <= lines);
            let mut triples = Vec::new();
            let read = document.triples(LIMITS.statements, |it| triples.push(it.quad()));
            let read = read.map_err(|refused| (refused.line, refused.column, refused.reason));
            read.map(|()| triples)
        };
        let whole = DocumentReader::new(text, syntax, LIMITS).map(read);
        let pieces = DocumentReader::new(Bytewise(text), syntax, LIMITS).map(read);
        assert!(whole.eq(pieces));
    }
});
