//! The callers' reads of the registry. The sequencer answers between two of its steps, in every
//! phase, a portion at a time if the answer is large.

use super::Driver;
use super::handle::Handle;
use super::housekeeping::CLOCK_SLACK;
use crate::checkpoints::CheckpointStatus;
use crate::error::RuntimeError;
use somersault_lang::CreateStream;
use somersault_lang::lift::Shape;
use somersault_model::{Millis, QueryUid, Sn};
use somersault_stream::{Coordinator, NamePosition, QueryStatus, StreamStatus};
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;

/// The number of names that one read looks at.
const NAMES_AT_ONCE: usize = 4096;
/// The number of queries that one read describes.
const QUERIES_AT_ONCE: usize = 256;

/// LaneCounters of the driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriverStatus {
    /// The newest stable SN.
    pub stable: Sn,
    /// SNs that were cut and are not yet stable.
    pub unstable: u64,
    /// Firings that are due and not yet answered.
    pub outstanding: u64,
    /// Closes that are due and wait for their cut; only a jump in time leaves more than a few.
    pub closes_due: u64,
    /// Memory of inputs that are on their way to the shards.
    pub inflight_bytes: u64,
    /// Inputs that have had to wait until there was room for them.
    pub inflight_waits: u64,
}

/// How far the numbered pushes of a source are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceProgress {
    /// Its name.
    pub name: String,
    /// The highest number that was taken.
    pub taken: u64,
    /// The highest number among those that survive a crash; `None` if that is not known, or if
    /// nothing is written.
    pub durable: Option<u64>,
    /// The highest number that the newest checkpoint covers.
    pub checkpointed: Option<u64>,
}

impl Driver {
    /// What is known of checkpoints; `None` where nothing is written to a folder.
    pub fn checkpoints(&self) -> Option<CheckpointStatus> {
        let shared = &self.handle.shared;
        let mut status = shared.checkpoints()?;
        let taken_ms = status.newest.as_ref().and_then(|newest| newest.taken_ms);
        if let Some(taken_ms) = taken_ms.filter(|_| shared.clock.ticks()) {
            let age_ms = shared.clock.now_ms().saturating_sub(taken_ms);
            status.age = Some(Duration::from_millis(u64::try_from(age_ms).unwrap_or(0)));
        }
        Some(status)
    }

    /// The sources of a stream that number their pushes, by name; `None` if there is no such
    /// stream. Waits until what was taken before the call is durable.
    pub fn sources(&self, iri: &str) -> Option<Vec<SourceProgress>> {
        let read = || {
            let iri = iri.to_owned();
            (self.handle).read(move |coordinator| coordinator.source_numbers(&iri))
        };
        let before = read()?;
        let log = &self.handle.shared.log;
        let is_durable = !log.is_volatile() && self.handle.await_durable(log.end()).is_ok();
        let (uid, taken) = read()?;
        let durable = Some(before).filter(|(of, _)| is_durable && *of == uid);
        let checkpointed = self.handle.shared.checkpointed();
        let checkpointed = checkpointed.as_ref().and_then(|it| it.get(&uid));
        let sources = taken.into_iter().map(|(name, taken)| SourceProgress {
            taken,
            durable: (durable.as_ref()).and_then(|(_, numbers)| numbers.get(&name).copied()),
            checkpointed: checkpointed.and_then(|numbers| numbers.get(&name).copied()),
            name,
        });
        Some(sources.collect())
    }

    /// LaneCounters.
    pub fn status(&self) -> DriverStatus {
        let shared = &self.handle.shared;
        let figures = &shared.figures;
        DriverStatus {
            stable: shared.store.snapshots().stable(),
            unstable: figures.unstable(),
            outstanding: figures.outstanding(),
            closes_due: match figures.is_behind() {
                true => self.handle.read(Coordinator::closes_due),
                false => 0,
            },
            inflight_bytes: shared.credit.level_bytes(),
            inflight_waits: shared.credit.waits(),
        }
    }

    /// Reads the registry, and waits until the commands that made it are durable: what a list shows
    /// must survive a crash.
    fn listed<T: Send + 'static>(&self, of: impl FnOnce(&Coordinator) -> T + Send + 'static) -> T {
        let listed = self.handle.read(of);
        self.handle.await_commands();
        listed
    }

    /// All streams, by IRI.
    pub fn streams(&self) -> Vec<StreamStatus> {
        self.listed(Coordinator::streams)
    }

    /// One stream.
    pub fn stream(&self, iri: &str) -> Option<StreamStatus> {
        let iri = iri.to_owned();
        self.listed(move |coordinator| coordinator.stream(&iri))
    }

    /// The declaration of a stream: the same value as long as the stream has it.
    ///
    /// # Errors
    /// There is no such stream.
    pub fn declaration(&self, iri: &str) -> Result<Arc<CreateStream>, RuntimeError> {
        let clock = self.known_clock(iri)?;
        Ok(Arc::clone(clock.declaration()))
    }

    /// Whether a stream, and those derived from it, surely have room for this many more statements;
    /// `true` for an unknown stream.
    pub fn has_room(&self, iri: &str, statements: usize) -> bool {
        let clock = self.handle.shared.directory.find(iri);
        clock.is_none_or(|clock| clock.has_room(statements))
    }

    /// The ARRIVAL TIME streams whose time is far ahead of the clock, and by how much.
    pub fn ahead_of_clock(&self) -> Vec<(String, Millis)> {
        self.handle.ahead_of_clock()
    }

    /// All continuous queries, by name.
    pub fn queries(&self) -> Vec<QueryStatus> {
        let mut queries: Vec<QueryStatus> = Vec::new();
        let mut from = Some(NamePosition::default());
        while let Some(position) = from {
            let (portion, next) = self.handle.read(move |coordinator| {
                let mut names = Vec::new();
                let mut add = |name: &str| names.push(name.to_owned());
                let next = coordinator.names_from(position, QUERIES_AT_ONCE, &mut add);
                let found = names.iter().filter_map(|name| coordinator.query(name));
                (found.collect::<Vec<QueryStatus>>(), next)
            });
            queries.extend(portion);
            from = next;
        }
        self.handle.await_commands();
        queries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        queries
    }

    /// The first `most` names of continuous queries after this one, ascending.
    pub fn query_names(&self, after: Option<&str>, most: usize) -> Vec<String> {
        // A heap with the last name on top.
        let mut first: BinaryHeap<String> = BinaryHeap::new();
        let mut from = Some(NamePosition::default());
        while let Some(position) = from {
            let after = after.map(str::to_owned);
            let (names, next) = self.handle.read(move |coordinator| {
                let mut keep = |name: &str| {
                    let is_full = first.len() >= most;
                    let is_late = is_full && first.peek().is_none_or(|last| name >= last.as_str());
                    if is_late || after.as_deref().is_some_and(|after| name <= after) {
                        return;
                    }
                    if is_full {
                        first.pop();
                    }
                    first.push(name.to_owned());
                };
                let next = coordinator.names_from(position, NAMES_AT_ONCE, &mut keep);
                (first, next)
            });
            (first, from) = (names, next);
        }
        self.handle.await_commands();
        first.into_sorted_vec()
    }

    /// The number of continuous queries that are registered.
    pub fn query_count(&self) -> usize {
        self.handle.shared.figures.queries()
    }

    /// The cohort of the registered queries that have this shape, and their number.
    pub fn group_of(&self, shape: Shape, namespace: Option<&str>) -> Option<(QueryUid, usize)> {
        let namespace = namespace.map(str::to_owned);
        self.handle
            .read(move |coordinator| coordinator.group_of(&shape, namespace.as_deref()))
    }

    /// The continuous queries that have durable subscriptions.
    pub fn subscribed_queries(&self) -> Vec<QueryStatus> {
        self.handle.read(Coordinator::subscribed_queries)
    }

    /// One continuous query.
    pub fn query(&self, name: &str) -> Option<QueryStatus> {
        let name = name.to_owned();
        self.listed(move |coordinator| coordinator.query(&name))
    }
}

impl Handle {
    /// The ARRIVAL TIME streams whose time is far ahead of the clock, and by how much. A clock that
    /// stands still is behind none.
    pub(super) fn ahead_of_clock(&self) -> Vec<(String, Millis)> {
        let clock = &self.shared.clock;
        if !clock.ticks() {
            return Vec::new();
        }
        let directory = &self.shared.directory;
        directory.ahead_of_clock(clock.now_ms(), CLOCK_SLACK)
    }
}
