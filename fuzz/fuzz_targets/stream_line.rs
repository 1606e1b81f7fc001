//! Any text as a line of a recorded stream.
#![no_main]

use libfuzzer_sys::fuzz_target;
use somersault::replay::parse_line;

fuzz_target!(|text: &str| {
    if let Ok((at_ms, statement)) = parse_line(text, 0) {
        assert!(at_ms >= 0 && statement.at_ms == Some(at_ms));
    }
});
