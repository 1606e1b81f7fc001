//! Any text as lines of a recorded stream: one by one with the library, and all in one pass.
#![no_main]

use libfuzzer_sys::fuzz_target;
use somersault::TimedLines;
use somersault::replay::parse_line;

fuzz_target!(|text: &str| {
    if let Ok((at_ms, statement)) = parse_line(text, 0) {
        assert!(at_ms >= 0 && statement.at_ms == Some(at_ms));
    }
    let Some(read) = TimedLines::read(text.as_bytes(), u64::MAX) else {
        return;
    };
    let lines = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
    let lines: Vec<&str> = lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect();
    assert_eq!(read.len(), lines.len());
    for ((at_ms, quad), line) in read.times_ms().zip(read.statements()).zip(lines) {
        // A recorded line names no graph; one that does is refused by the library's reader of
        // N-Triples.
        if quad.graph_name.is_default_graph() {
            let (at, statement) = parse_line(line, i64::MIN).expect("what is read in one pass is right");
            assert_eq!((at, statement.quad.as_ref()), (at_ms, quad));
        }
    }
});
