//! Rows that come in portions and are needed sorted at the end: each portion is sorted as it comes,
//! so that little is left to do.
//!
//! Before changing anything here: each stretch is longer than the one after it. So there are only a
//! logarithmic number of them, and a row is merged a logarithmic number of times.

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

impl<T: Ord> Stretches<T> {
    /// Adds rows, which come in any order.
    pub(crate) fn add(&mut self, rows: impl IntoIterator<Item = T>) {
        let start = self.rows.len();
        self.rows.extend(rows);
        if self.rows.len() == start {
            return;
        }
        self.rows[start..].sort_unstable();
        self.starts.push(start);
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

    /// The rows, in ascending stretches.
    pub(crate) fn rows(&self) -> &[T] {
        &self.rows
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

    proptest! {
        #[test]
        fn rows_in_portions_are_sorted_as_rows_at_once(
            portions in proptest::collection::vec(proptest::collection::vec(0u8..50, 0..40), 0..20)
        ) {
            let mut stretches = Stretches::default();
            for portion in &portions {
                stretches.add(portion.iter().copied());
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
