//! From a statement to the live queries that read it.
//!
//! The patterns of all queries are entered by their constants. A statement is looked up once for
//! each combination of places in which some pattern has constants, of which there are at most
//! eight; so it costs what it touches, however many queries there are.

use rustc_hash::FxHashMap;
use somersault_model::{QuadIds, QueryUid, TermId};
use std::collections::BTreeSet;

/// A pattern of statements; `None` is any term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ReadPattern {
    /// Their graph; `None` is all named graphs.
    pub(crate) graph: Option<TermId>,
    /// Their subject.
    pub(crate) subject: Option<TermId>,
    /// Their predicate.
    pub(crate) predicate: Option<TermId>,
    /// Their object.
    pub(crate) object: Option<TermId>,
}

/// The constants of a pattern: subject, predicate, object.
type Constants = [Option<TermId>; 3];

/// What the queries read.
#[derive(Debug, Default)]
pub(super) struct Readers {
    /// Looked up only: the order of a hash map is no order.
    by_constants: FxHashMap<Constants, BTreeSet<(Option<TermId>, QueryUid)>>,
    /// The number of entries for each combination of places with constants: a bit for each place.
    combinations: [usize; 8],
    /// The number of patterns for each predicate; looked up only. Most statements have a predicate
    /// that no query reads.
    predicates: FxHashMap<TermId, usize>,
    /// The patterns of all queries, by their graph.
    by_graph: BTreeSet<(Option<TermId>, QueryUid)>,
}

impl ReadPattern {
    fn constants(&self) -> Constants {
        [self.subject, self.predicate, self.object]
    }

    fn reads(graph: Option<TermId>, of: TermId) -> bool {
        match graph {
            Some(graph) => graph == of,
            None => of != TermId::DEFAULT_GRAPH,
        }
    }
}

fn combination(constants: &Constants) -> usize {
    let places = constants.iter().enumerate();
    places.fold(0, |bits, (at, term)| {
        bits | usize::from(term.is_some()) << at
    })
}

impl Readers {
    pub(super) fn is_empty(&self) -> bool {
        self.by_graph.is_empty()
    }

    /// A query reads these patterns.
    pub(super) fn add(&mut self, uid: QueryUid, patterns: &[ReadPattern]) {
        for pattern in patterns {
            let constants = pattern.constants();
            let readers = self.by_constants.entry(constants).or_default();
            self.combinations[combination(&constants)] += usize::from(readers.is_empty());
            readers.insert((pattern.graph, uid));
            if let Some(predicate) = pattern.predicate {
                *self.predicates.entry(predicate).or_default() += 1;
            }
            self.by_graph.insert((pattern.graph, uid));
        }
    }

    /// A query reads these patterns no longer.
    pub(super) fn remove(&mut self, uid: QueryUid, patterns: &[ReadPattern]) {
        for pattern in patterns {
            let constants = pattern.constants();
            if let Some(readers) = self.by_constants.get_mut(&constants) {
                readers.remove(&(pattern.graph, uid));
                if readers.is_empty() {
                    self.by_constants.remove(&constants);
                    self.combinations[combination(&constants)] -= 1;
                }
            }
            if let Some(predicate) = pattern.predicate
                && let Some(patterns) = self.predicates.get_mut(&predicate)
            {
                *patterns -= 1;
                if *patterns == 0 {
                    self.predicates.remove(&predicate);
                }
            }
            self.by_graph.remove(&(pattern.graph, uid));
        }
    }

    /// Adds the queries that read a statement.
    pub(super) fn of(&self, quad: &QuadIds, out: &mut BTreeSet<QueryUid>) {
        // Bit 1 stands for the predicate.
        let any_predicate = [0b000, 0b001, 0b100, 0b101];
        let reads_any = any_predicate
            .iter()
            .any(|bits| self.combinations[*bits] > 0);
        if !reads_any && !self.predicates.contains_key(&quad.predicate) {
            return;
        }
        let terms = [quad.subject, quad.predicate, quad.object];
        for (bits, _) in self
            .combinations
            .iter()
            .enumerate()
            .filter(|(_, n)| **n > 0)
        {
            let mut constants = [None; 3];
            for (at, term) in terms.iter().enumerate() {
                constants[at] = (bits >> at & 1 == 1).then_some(*term);
            }
            let readers = self.by_constants.get(&constants);
            let readers = readers.into_iter().flatten();
            let readers = readers.filter(|(graph, _)| ReadPattern::reads(*graph, quad.graph));
            out.extend(readers.map(|(_, uid)| *uid));
        }
    }

    /// Adds the queries that read a graph.
    pub(super) fn of_graph(&self, graph: TermId, out: &mut BTreeSet<QueryUid>) {
        let readers = self.by_graph.iter();
        let readers = readers.filter(|(read, _)| ReadPattern::reads(*read, graph));
        out.extend(readers.map(|(_, uid)| *uid));
    }
}
