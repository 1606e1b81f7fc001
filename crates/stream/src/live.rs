//! Live queries: which of them a cut makes fire.
//!
//! A live query has no window. It fires with an SN that changes something it may read, unless it
//! has just fired (EVERY) or cannot keep up (the plan record holds it back); then what has changed
//! joins a later firing. Its close is the time of the SN: that of the newest record in it.
//!
//! 1. [`LiveQueries::reach`] takes the time of each record.
//! 2. [`LiveQueries::touch`] looks the changes of an SN up in [`Readers`].
//! 3. [`LiveQueries::take_due`] gives the firings with it, and which statements changed for them.
//!
//! Before changing anything here: all of it follows from the records, or a restart would fire for
//! other SNs. That a change has no effect (RDF is a set) is not known here: such a firing finds the
//! answer of the one before, and is not reported.

mod readers;
mod saved;

use crate::protocol::declaration::{LiveDeclaration, Resolve};
use crate::protocol::firing::ChangedStatements;
use crate::protocol::inject::Inject;
pub(crate) use readers::ReadPattern;
use readers::Readers;
use somersault_lang::ReadGraphs;
use somersault_model::{EventTime, Intern, Millis, QuadIds, QueryUid, Sn, TermId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// All live queries, and which of them are due.
#[derive(Debug)]
pub(crate) struct LiveQueries {
    /// The time of the newest record. It never goes back while there are queries.
    now: EventTime,
    queries: BTreeMap<QueryUid, LiveQuery>,
    /// What the running ones read.
    readers: Readers,
    /// The queries that fire with the next cut, unless it holds them back.
    due: BTreeSet<QueryUid>,
    /// The queries for which something has changed, by the time from which they may fire again.
    resting: BTreeSet<(EventTime, QueryUid)>,
    /// For the queries for which the cut at hand changes something, and for which nothing had
    /// changed before: what it changes.
    changed: BTreeMap<QueryUid, Vec<QuadIds>>,
}

/// A live query.
#[derive(Debug)]
struct LiveQuery {
    patterns: Box<[ReadPattern]>,
    every: Option<Millis>,
    is_running: bool,
    /// The close and the ordinal of its newest firing.
    newest: Option<(EventTime, u32)>,
    /// The SN of that firing; `None` if it was before a restart.
    newest_sn: Option<Sn>,
}

/// A firing of a live query.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LiveFiring {
    pub(crate) query: QueryUid,
    /// Counts its firings at one close from 0.
    pub(crate) ordinal: u32,
    pub(crate) changed: Option<Arc<ChangedStatements>>,
}

/// A firing for which more statements have changed is not told which.
const MOST_CHANGED: usize = 1 << 14;

impl Default for LiveQueries {
    fn default() -> Self {
        LiveQueries {
            now: EventTime::MIN,
            queries: BTreeMap::new(),
            readers: Readers::default(),
            due: BTreeSet::new(),
            resting: BTreeSet::new(),
            changed: BTreeMap::new(),
        }
    }
}

/// The patterns that a declaration reads, as ids.
fn patterns(declaration: &LiveDeclaration, terms: &(impl Intern + ?Sized)) -> Box<[ReadPattern]> {
    let patterns = declaration.reads.iter().map(|pattern| ReadPattern {
        graph: match &pattern.graphs {
            ReadGraphs::Default => Some(TermId::DEFAULT_GRAPH),
            ReadGraphs::Named(name) => Some(terms.intern(name.as_ref().into())),
            ReadGraphs::AllNamed => None,
        },
        subject: pattern
            .subject
            .as_ref()
            .map(|term| terms.intern(term.as_ref())),
        predicate: (pattern.predicate.as_ref()).map(|name| terms.intern(name.as_ref().into())),
        object: pattern
            .object
            .as_ref()
            .map(|term| terms.intern(term.as_ref())),
    });
    patterns.collect()
}

impl LiveQueries {
    /// The time of the newest record.
    pub(crate) fn now(&self) -> EventTime {
        self.now
    }

    /// A record of this time comes.
    pub(crate) fn reach(&mut self, time: EventTime) {
        self.now = match self.queries.is_empty() {
            // A checkpoint without live queries does not hold it.
            true => time,
            false => self.now.max(time),
        };
        while let Some((from, uid)) = self.resting.first().copied()
            && from <= self.now
        {
            self.resting.pop_first();
            self.due.insert(uid);
        }
    }

    /// The time from which a query may fire for which something has changed.
    pub(crate) fn rests_until(&self) -> Option<EventTime> {
        self.resting.first().map(|(from, _)| *from)
    }

    /// Whether a query is due that is not held back.
    pub(crate) fn is_due(&self, held: &BTreeSet<QueryUid>) -> bool {
        self.due.iter().any(|uid| !held.contains(uid))
    }

    /// Lets a query fire from now on, first with its answer as it is now.
    pub(crate) fn start(
        &mut self,
        uid: QueryUid,
        declaration: &LiveDeclaration,
        resolve: &dyn Resolve,
    ) {
        let query = self.queries.entry(uid).or_insert_with(|| LiveQuery {
            patterns: patterns(declaration, resolve),
            every: declaration.every,
            is_running: false,
            newest: None,
            newest_sn: None,
        });
        if !std::mem::replace(&mut query.is_running, true) {
            self.readers.add(uid, &query.patterns);
        }
        self.note_change(uid);
    }

    /// Stops a query until it is started again.
    pub(crate) fn stop(&mut self, uid: QueryUid) {
        let Some(query) = self.queries.get_mut(&uid) else {
            return;
        };
        if std::mem::replace(&mut query.is_running, false) {
            self.readers.remove(uid, &query.patterns);
        }
        self.due.remove(&uid);
        if let Some(from) = query.rests_until() {
            self.resting.remove(&(from, uid));
        }
        // While it is stopped, changes are not noted.
        query.newest_sn = None;
    }

    /// Ends a query.
    pub(crate) fn end(&mut self, uid: QueryUid) {
        self.stop(uid);
        self.queries.remove(&uid);
    }

    /// Finds the queries that read something of what an SN changes.
    pub(crate) fn touch(&mut self, inject: &Inject) {
        if self.readers.is_empty() {
            return;
        }
        let mut readers = BTreeSet::new();
        for graph in inject.clears.iter() {
            self.readers.of_graph(*graph, &mut readers);
        }
        let cleared = std::mem::take(&mut readers);
        let mut changed: BTreeMap<QueryUid, Vec<QuadIds>> = BTreeMap::new();
        let loaded = inject.loads.iter().flat_map(|load| load.iter());
        let quads = inject.mutations.iter().map(|mutation| &mutation.quad);
        for quad in quads.chain(loaded) {
            self.readers.of(quad, &mut readers);
            while let Some(uid) = readers.pop_first() {
                let of_query = changed.entry(uid).or_default();
                if of_query.len() <= MOST_CHANGED {
                    of_query.push(*quad);
                }
            }
        }
        let touched = cleared.iter().chain(changed.keys());
        let is_known = |uid: &QueryUid| self.is_touched(*uid) || cleared.contains(uid);
        let unknown: BTreeSet<QueryUid> = changed.keys().copied().filter(is_known).collect();
        let touched: Vec<QueryUid> = touched.copied().collect();
        touched.into_iter().for_each(|uid| self.note_change(uid));
        changed.retain(|uid, quads| !unknown.contains(uid) && quads.len() <= MOST_CHANGED);
        self.changed = changed;
    }

    /// Whether something has changed for a query since it fired.
    fn is_touched(&self, uid: QueryUid) -> bool {
        let rests_until = self.queries.get(&uid).and_then(LiveQuery::rests_until);
        self.due.contains(&uid)
            || rests_until.is_some_and(|from| self.resting.contains(&(from, uid)))
    }

    /// Lets a query fire as soon as it may: something that it reads has changed.
    fn note_change(&mut self, uid: QueryUid) {
        let rests_until = self.queries.get(&uid).and_then(LiveQuery::rests_until);
        match rests_until.filter(|from| *from > self.now) {
            Some(from) => _ = self.resting.insert((from, uid)),
            None => _ = self.due.insert(uid),
        }
    }

    /// Takes the firings of a cut that holds these queries back.
    pub(crate) fn take_due(&mut self, sn: Sn, held: &[QueryUid]) -> Vec<LiveFiring> {
        let mut due = std::mem::take(&mut self.due);
        let held = held.iter().filter(|uid| due.remove(uid));
        self.due = held.copied().collect();
        let mut changed = std::mem::take(&mut self.changed);
        let mut firings = Vec::with_capacity(due.len());
        for uid in due {
            let Some(query) = self.queries.get_mut(&uid) else {
                continue;
            };
            let ordinal = match query.newest {
                Some((close, ordinal)) if close == self.now => ordinal + 1,
                _ => 0,
            };
            query.newest = Some((self.now, ordinal));
            let since = query.newest_sn.replace(sn);
            let changed = changed.remove(&uid).zip(since);
            let changed = changed.map(|(mut statements, since)| {
                statements.sort_unstable();
                statements.dedup();
                Arc::new(ChangedStatements { since, statements })
            });
            firings.push(LiveFiring {
                query: uid,
                ordinal,
                changed,
            });
        }
        firings
    }
}

impl LiveQuery {
    /// The time from which it may fire again; `None` at any time.
    fn rests_until(&self) -> Option<EventTime> {
        let (every, (close, _)) = self.every.zip(self.newest)?;
        Some(close.plus(every))
    }
}

#[cfg(test)]
mod tests;
