//! EXPLAIN: the steps of a plan as text.

use std::fmt;

/// The steps of a plan; [`fmt::Display`] writes them one per line, sub-plans indented.
#[derive(Debug, Clone)]
pub struct Explanation {
    pub(crate) text: String,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
