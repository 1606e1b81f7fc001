//! The rows of a slice, sorted in both directions as the statements of its batch arrive. While a
//! batch is open, its first statements are sorted ahead; its slice is made of them and the rest.

use crate::spread::Spread;
use crate::stretches::Stretches;
use somersault_model::{TermId, TimedTriple, TripleIds};

/// A statement by predicate, subject and object, with its number in the order of arrival.
pub(crate) type OutRow = (TermId, TermId, TermId, u32);
/// A statement by predicate, object and subject.
pub(crate) type IntoRow = (TermId, TermId, TermId);

impl Spread for OutRow {
    #[inline]
    fn lead(&self) -> (TermId, TermId) {
        (self.0, self.1)
    }
}

impl Spread for IntoRow {
    #[inline]
    fn lead(&self) -> (TermId, TermId) {
        (self.0, self.1)
    }
}

/// The statements of a batch so far, sorted; repeats are kept.
#[derive(Debug, Default)]
pub struct SliceRows {
    out: Stretches<OutRow>,
    into: Stretches<IntoRow>,
}

impl SliceRows {
    /// Adds the next statements of the batch, in the order of arrival.
    pub fn add(&mut self, statements: &[TimedTriple]) {
        self.add_triples(statements.iter().map(|statement| statement.triple));
    }

    pub(crate) fn add_triples(&mut self, triples: impl Iterator<Item = TripleIds> + Clone) {
        let number = |at: usize| u32::try_from(at).expect("a batch has fewer than 2^32 statements");
        let first = self.len();
        let numbered = triples.clone().enumerate();
        let rows = numbered.map(|(at, triple)| {
            let TripleIds {
                subject,
                predicate,
                object,
            } = triple;
            (predicate, subject, object, number(first + at))
        });
        self.out.add(&rows.collect::<Vec<OutRow>>());
        let turned = triples.map(|triple| (triple.predicate, triple.object, triple.subject));
        self.into.add(&turned.collect::<Vec<IntoRow>>());
    }

    /// The number of statements.
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// Whether there is no statement.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rows in both directions, ascending.
    pub(crate) fn into_sorted(self) -> (Vec<OutRow>, Vec<IntoRow>) {
        (self.out.into_sorted(), self.into.into_sorted())
    }
}
