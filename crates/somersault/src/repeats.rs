//! After a restart the first firings that are executed again are those of the last SN of which all were delivered: the next
//! one is compared with the last of them, so that answers are those of a run without the restart (RC-1). They are given to
//! nobody.

/// Tells them.
#[derive(Default)]
pub(crate) struct Repeats {
    has_begun: bool,
    /// The SN whose firings were delivered before the restart.
    of: Option<u64>,
}

impl Repeats {
    /// Whether a firing at this SN was delivered before a restart. Asked of each firing, in their order; `is_first`: the
    /// query has not fired before, since it was registered.
    pub(crate) fn is_one(&mut self, sn: u64, is_first: bool) -> bool {
        if !self.has_begun {
            self.has_begun = true;
            self.of = (!is_first).then_some(sn);
        }
        self.of == Some(sn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_firings_of_the_sn_that_was_delivered_last_are_repeats() {
        let mut repeats = Repeats::default();
        let are = [5, 5, 5, 6, 6].map(|sn| repeats.is_one(sn, false));
        assert_eq!(are, [true, true, true, false, false]);
        // Without a restart there are none.
        let mut repeats = Repeats::default();
        assert!(!repeats.is_one(5, true));
        assert!(!repeats.is_one(5, false));
    }
}
