//! The patterns of REGEX and REPLACE. A constant one is compiled with its query, any other when its
//! function is called; both use this function, so that they have the same flags and the same bound.

use regex::{Regex, RegexBuilder};

/// The most bytes that one compiled pattern may take.
const REGEX_BYTES: usize = 1_000_000;

/// Compiles a pattern of REGEX and REPLACE with its flags; `None` if either is invalid.
pub(crate) fn regex(pattern: &str, flags: &str) -> Option<Regex> {
    let literal;
    let pattern = if flags.contains('q') {
        literal = ::regex::escape(pattern);
        &literal
    } else {
        pattern
    };
    let mut builder = RegexBuilder::new(pattern);
    builder.size_limit(REGEX_BYTES);
    for flag in flags.chars() {
        match flag {
            's' => builder.dot_matches_new_line(true),
            'm' => builder.multi_line(true),
            'i' => builder.case_insensitive(true),
            'x' => builder.ignore_whitespace(true),
            'q' => &mut builder,
            _ => return None,
        };
    }
    builder.build().ok()
}
