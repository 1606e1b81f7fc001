//! Any text as a line of an answer file: what is read is written and read again as the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use somersault::answer_format::AnswerLine;

fuzz_target!(|text: &str| {
    if let Ok(mut line) = AnswerLine::parse(text) {
        // Members of other tools may hold numbers that JSON libraries round.
        line.extra.clear();
        let again = AnswerLine::parse(&line.to_json()).expect("what was written can be read");
        assert!(again == line);
    }
});
