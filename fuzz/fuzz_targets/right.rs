//! Any text as a right: what is read is written and read again as the same, and allows something.
#![no_main]

use libfuzzer_sys::fuzz_target;
use somersault::{Access, Right};

fuzz_target!(|text: &str| {
    if let Ok(right) = text.parse::<Right>() {
        let again: Right = right.to_string().parse().expect("what was written can be read");
        assert!(again == right);
        let access = Access::of(&[right.clone()]);
        assert!(access.allows_some(right.kind()));
    }
});
