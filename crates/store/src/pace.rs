//! The extent of a walk along edges: it ends at enough edges, or when a callback says to stop.

use std::ops::ControlFlow;

/// The limit of a walk along edges, and the callback that it reports to on the way.
pub struct Pace<'p> {
    end: usize,
    next: usize,
    look: &'p mut dyn FnMut(usize) -> ControlFlow<()>,
}

impl<'p> Pace<'p> {
    /// The number of edges that are walked between two calls of the callback, besides those of one
    /// more vertex.
    pub const BETWEEN_LOOKS: usize = 1 << 16;

    /// A walk that goes on until at least `wanted` edges have come to the `held` ones. Now and then
    /// `look` is told how many there are, and says whether to go on.
    pub fn new(
        held: usize,
        wanted: usize,
        look: &'p mut dyn FnMut(usize) -> ControlFlow<()>,
    ) -> Pace<'p> {
        let end = held.saturating_add(wanted);
        Pace {
            end,
            next: end.min(held.saturating_add(Pace::BETWEEN_LOOKS)),
            look,
        }
    }

    /// Whether the walk ends here, before a further vertex, where there are `edges`.
    #[inline]
    pub fn ends(&mut self, edges: usize) -> bool {
        edges >= self.next && self.ends_at_look(edges)
    }

    #[cold]
    fn ends_at_look(&mut self, edges: usize) -> bool {
        self.next = self.end.min(edges.saturating_add(Pace::BETWEEN_LOOKS));
        edges >= self.end || (self.look)(edges).is_break()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_looks_now_and_then_and_ends_where_enough_has_come() {
        const STEP: usize = Pace::BETWEEN_LOOKS;
        let looks = |wanted: usize, last: usize| {
            let mut seen = Vec::new();
            let mut look = |edges| {
                seen.push(edges);
                match edges {
                    edges if edges < last => ControlFlow::Continue(()),
                    _ => ControlFlow::Break(()),
                }
            };
            let mut pace = Pace::new(5, wanted, &mut look);
            let end = (0..).map(|n| 5 + n * 100).find(|edges| pace.ends(*edges));
            (end.expect("a walk ends"), seen)
        };
        let first = 5 + STEP.next_multiple_of(100);
        let second = first + STEP.next_multiple_of(100);
        assert_eq!(looks(0, usize::MAX), (5, vec![]));
        assert_eq!(looks(1_001, usize::MAX), (1_105, vec![]));
        assert_eq!(looks(second, usize::MAX).1, [first, second]);
        assert_eq!(looks(usize::MAX, second), (second, vec![first, second]));
    }
}
