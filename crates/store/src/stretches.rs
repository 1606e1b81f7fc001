//! Rows that come in portions and are needed sorted at the end: each portion is sorted as it comes,
//! so that little is left to do.
//!
//! Before changing anything here: each stretch is longer than the one after it. So there are only a
//! logarithmic number of them, and a row is merged a logarithmic number of times.

use crate::spread::{Spread, append_sorted};

/// Rows in ascending stretches.
#[derive(Debug, Clone)]
pub(crate) struct Stretches<T> {
    rows: Vec<T>,
    /// The start of each stretch.
    starts: Vec<usize>,
}

impl<T> Default for Stretches<T> {
    fn default() -> Stretches<T> {
        Stretches {
            rows: Vec::new(),
            starts: Vec::new(),
        }
    }
}

impl<T: Spread> Stretches<T> {
    /// Adds rows, which come in any order.
    pub(crate) fn add(&mut self, rows: &[T]) {
        if rows.is_empty() {
            return;
        }
        self.starts.push(self.rows.len());
        append_sorted(rows, &mut self.rows);
        while let [.., left, right] = self.starts[..]
            && self.rows.len() - right >= right - left
        {
            self.starts.pop();
            // Two ascending stretches: the stable sort merges them.
            self.rows[left..].sort();
        }
    }

    /// The number of rows.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// All rows, ascending.
    pub(crate) fn into_sorted(mut self) -> Vec<T> {
        if self.starts.len() > 1 {
            self.rows.sort();
        }
        self.rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use somersault_model::TermId;

    impl Spread for u8 {
        fn lead(&self) -> (TermId, TermId) {
            (TermId::UNBOUND, TermId::from_raw((*self).into()))
        }
    }

    proptest! {
        #[test]
        fn rows_in_portions_are_sorted_as_rows_at_once(
            portions in proptest::collection::vec(proptest::collection::vec(0u8..50, 0..40), 0..20)
        ) {
            let mut stretches = Stretches::default();
            for portion in &portions {
                stretches.add(portion);
                let ends = stretches.starts.iter().copied().skip(1).chain([stretches.len()]);
                let lengths: Vec<usize> = (stretches.starts.iter().zip(ends))
                    .map(|(start, end)| end - start)
                    .collect();
                prop_assert!(lengths.is_sorted_by(|a, b| a > b), "{lengths:?}");
            }
            let mut all: Vec<u8> = portions.into_iter().flatten().collect();
            all.sort_unstable();
            prop_assert_eq!(stretches.into_sorted(), all);
        }
    }
}
