//! Entry points for fuzzing: whatever text or bytes are given, they return, and say what is wrong
//! in words.

use crate::declared;
use crate::source_spec::SourceSpec;
use crate::spec::SinkSpec;
use crate::tail::lines::LineCutter;
use somersault_lang::{Parser, Statement};

/// Reads a text as a declaration of a source or a sink, and as a `--sink`.
pub fn declaration(text: &str) {
    let refused = match Parser::new().parse_statement(text) {
        Ok(Statement::CreateSource(source)) => SourceSpec::of(&source).err(),
        Ok(Statement::CreateSink(sink)) => SinkSpec::of(&sink).err(),
        _ => None,
    };
    let of_text = text.parse::<SinkSpec>().err();
    for sentence in [refused, of_text].into_iter().flatten() {
        assert!(!sentence.is_empty());
    }
}

/// Reads a text as the file of declarations.
pub fn file(text: &str) {
    if let Err(sentence) = declared::read(text) {
        assert!(!sentence.is_empty());
    }
}

/// Cuts bytes into lines, in two pieces and in one: the lines are the same.
pub fn lines(bytes: &[u8], cut: usize) {
    let (first, second) = bytes.split_at(cut.min(bytes.len()));
    let (mut whole, mut pieces) = (Vec::new(), Vec::new());
    let mut cutter = LineCutter::at(0);
    cutter.cut(bytes, &mut whole);
    cutter.end(&mut whole);
    let mut cutter = LineCutter::at(0);
    cutter.cut(first, &mut pieces);
    cutter.cut(second, &mut pieces);
    cutter.end(&mut pieces);
    assert_eq!(whole, pieces);
}
