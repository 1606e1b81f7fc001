//! Any bytes as lines of a file that grows: cut anywhere, they are the same lines.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (usize, &[u8])| somersault_connect::any_input::lines(input.1, input.0));
