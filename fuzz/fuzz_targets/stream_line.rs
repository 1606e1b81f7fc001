//! Any text as lines of a recorded stream: one by one with the library, and all in one pass.
#![no_main]

use libfuzzer_sys::fuzz_target;
use somersault::replay::parse_line;
use somersault::{EventTime, TimedLines};

fuzz_target!(|text: &str| {
    if let Ok((at, statement)) = parse_line(text, EventTime(0)) {
        assert!(at >= EventTime(0) && statement.at == Some(at));
    }
    let Some(read) = TimedLines::read(text.as_bytes(), u64::MAX) else {
        return;
    };
    let lines = text
        .split('\n')
        .map(|line| line.strip_suffix('\r').unwrap_or(line));
    let lines: Vec<&str> = lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect();
    assert_eq!(read.len(), lines.len());
    for ((time, quad), line) in read.times().zip(read.statements()).zip(lines) {
        // A recorded line names no graph; one that does is refused by the library's reader of
        // N-Triples.
        if quad.graph_name.is_default_graph() {
            let (at, statement) =
                parse_line(line, EventTime::MIN).expect("what is read in one pass is right");
            assert_eq!((at, statement.quad.as_ref()), (time, quad));
        }
    }
});
