//! Any text as CREATE SOURCE, CREATE SINK, or the text of --sink.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| somersault_connect::any_input::declaration(text));
