//! Any text as the file of declared sources and sinks.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| somersault_connect::any_input::file(text));
