//! The coordinator in a checkpoint: frozen between two records, written later, and restored before
//! the log is replayed from there.
//!
//! Before changing anything here: a checkpoint is whole when its SN is stable and all firings that
//! became due with it or before are done, their derived statements logged. So nothing that is
//! waiting for that is saved, and a restored coordinator is as if all of it had happened.
//!
//! 1. [`Coordinator::freeze`] copies what streams hold and shares the cohorts.
//! 2. [`FrozenCore::records`] makes the records, one at a time, while the coordinator goes on.
//! 3. [`Coordinator::restore`] takes them in the same order, and reckons the indexes again.

use super::{Coordinator, Planner};
use crate::closes::cuts::Cuts;
use crate::output::{Output, QueryChange};
use crate::protocol::command::ReadTexts;
use crate::protocol::declaration::RestoredTerms;
use crate::queries::FrozenQueries;
use crate::saved::queries::{QueryRecord, SavedGroup};
use crate::saved::streams::ShownBatches;
use crate::saved::{
    CoreRecord, RestoreError, SavedCounters, SavedSubscription, VERSION, contradiction, portions,
};
use somersault_model::{Lease, QueryUid, Sn};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The coordinator at one position of the log, for a checkpoint.
#[derive(Debug)]
pub struct FrozenCore {
    sn: Sn,
    shown: Vec<ShownBatches>,
    /// The records before those of the queries, and those after them.
    before: Vec<CoreRecord>,
    queries: FrozenQueries,
    after: Vec<CoreRecord>,
    leases: Vec<Lease>,
}

impl FrozenCore {
    /// The newest SN that was cut.
    pub fn sn(&self) -> Sn {
        self.sn
    }

    /// The leases on the terms of statements among the records: keep them until the terms are
    /// written, because the statements may be retired before.
    pub fn leases(&self) -> &[Lease] {
        &self.leases
    }

    /// The batches of the streams that are slices at this SN, or were retired.
    pub fn shown(&self) -> &[ShownBatches] {
        &self.shown
    }

    /// The records, in the order in which [`Coordinator::restore`] takes them.
    pub fn records(self) -> impl Iterator<Item = CoreRecord> {
        let queries = self.queries.records().map(CoreRecord::Query);
        let mut records = self.before.into_iter().chain(queries).chain(self.after);
        let mut count = Some(0);
        std::iter::from_fn(move || match records.next() {
            Some(record) => {
                count = count.map(|count| count + 1);
                Some(record)
            }
            None => count.take().map(CoreRecord::End),
        })
    }
}

/// Checkpoints.
impl Coordinator {
    /// The state after the records so far, at the newest SN. `None` while effects of updates and
    /// loads wait for the SN of their own, which is due at once ([`Coordinator::next_due_cut`]).
    ///
    /// It costs a pointer for each cohort, and a copy of what streams have open. Until the result
    /// is dropped, the first change of a cohort copies it without its members, and the first change
    /// of a thousand members copies those.
    pub fn freeze(&self) -> Option<FrozenCore> {
        if self.home.has_effects() {
            return None;
        }
        let planner = &self.planner;
        let sn = planner.cuts.last();
        let counters = SavedCounters {
            version: VERSION,
            sn,
            newest_stream: self.home.streams().newest(),
            next_query: planner.queries.next_uid().0,
            groups: planner.groups.created(),
        };
        let mut before = vec![CoreRecord::Counters(counters)];
        self.home.save(&mut before);
        let mut after = Vec::new();
        planner.groups.save(&mut after);
        let answered = portions(planner.replacements.answered_before());
        after.extend(answered.map(CoreRecord::AnsweredBefore));
        let subscriptions = planner.subscriptions.values().map(SavedSubscription::new);
        let subscriptions = portions(subscriptions);
        after.extend(subscriptions.map(CoreRecord::Subscriptions));
        planner.live.save(&mut after);
        Some(FrozenCore {
            sn,
            shown: self.home.shown(),
            before,
            queries: planner.queries.freeze(),
            after,
            leases: self.home.leases(),
        })
    }

    /// Whether a replaced query has firings under way. The driver still knows that query, and
    /// [`Coordinator::freeze`] does not: a checkpoint of both is made once this is over.
    pub fn has_retiring_queries(&self) -> bool {
        self.planner.replacements.are_retiring()
    }

    /// The coordinator that [`Coordinator::freeze`] has saved, after the checkpoint became whole.
    /// The dictionary must be restored before. Limits are set afterwards.
    ///
    /// # Errors
    /// The first error of `records`, or why they make no coordinator.
    pub fn restore<E: From<RestoreError>>(
        records: impl IntoIterator<Item = Result<CoreRecord, E>>,
        texts: &mut dyn ReadTexts,
        terms: &dyn RestoredTerms,
    ) -> Result<Coordinator, E> {
        let mut restorer = Restorer::default();
        for record in records {
            restorer.take(record?, texts, terms)?;
        }
        Ok(restorer.finish()?)
    }

    /// After a restore: the outputs that make a driver know the streams and queries that exist, as
    /// if they had been created and registered now. Their statements and answers are not among
    /// them.
    pub fn announce(&self, out: &mut Vec<Output>) {
        for stream in self.home.streams().values() {
            let clock = Arc::clone(stream.clock());
            out.push(Output::StreamCreated { clock });
        }
        let planner = &self.planner;
        planner.queries.announce(planner.cuts.last(), out);
        for (name, close) in planner.replacements.answered_before() {
            if let Some(member) = planner.queries.find(&name) {
                let slot = member.id.slot;
                let answered_before = QueryChange::AnsweredBefore { slot, close };
                out.push(Output::query(member.id.cohort, answered_before));
            }
        }
        for subscription in planner.subscriptions.values() {
            if let Some(member) = planner.queries.find(&subscription.query) {
                let subscribed = QueryChange::Subscribed {
                    slot: member.id.slot,
                    subscription: subscription.clone(),
                };
                out.push(Output::query(member.id.cohort, subscribed));
            }
        }
    }
}

/// A coordinator while its records are read.
#[derive(Debug, Default)]
struct Restorer {
    coordinator: Coordinator,
    /// The records so far.
    count: u64,
    is_ended: bool,
    /// For each group: the cohorts that fire for its closes.
    cohorts_of: BTreeMap<u64, Vec<QueryUid>>,
}

impl Restorer {
    fn take(
        &mut self,
        record: CoreRecord,
        texts: &mut dyn ReadTexts,
        terms: &dyn RestoredTerms,
    ) -> Result<(), RestoreError> {
        let is_first = matches!(record, CoreRecord::Counters(_));
        if self.is_ended || is_first != (self.count == 0) {
            return contradiction("its records are not in their order");
        }
        let Coordinator { home, planner } = &mut self.coordinator;
        match record {
            CoreRecord::Counters(counters) => self.take_counters(counters)?,
            CoreRecord::Stream(record) => home.restore(record, texts, terms)?,
            CoreRecord::Query(record) => {
                if let QueryRecord::Cohort(saved) = &record
                    && let Some(group) = saved.group
                {
                    self.cohorts_of.entry(group).or_default().push(saved.uid);
                }
                planner.queries.restore(record, texts, home.streams())?;
            }
            CoreRecord::Group(saved) => self.take_group(&saved)?,
            CoreRecord::AnsweredBefore(answered) => planner.replacements.add_answered(answered),
            CoreRecord::Subscriptions(saved) => planner.subscriptions.add(saved),
            CoreRecord::Live(now, saved) => {
                let Planner { queries, live, .. } = planner;
                let declaration = |uid| queries.get(uid)?.live();
                live.restore((now, saved), declaration, terms)?;
            }
            CoreRecord::End(count) if count == self.count => self.is_ended = true,
            CoreRecord::End(count) => {
                let found = self.count;
                return contradiction(format!("it has {found} of {count} records"));
            }
        }
        self.count += 1;
        Ok(())
    }

    fn take_counters(&mut self, counters: SavedCounters) -> Result<(), RestoreError> {
        if counters.version > VERSION {
            return Err(RestoreError::Newer {
                found: counters.version,
                known: VERSION,
            });
        }
        let Coordinator { home, planner } = &mut self.coordinator;
        home.streams_mut().set_newest(counters.newest_stream);
        planner.queries.set_next_uid(counters.next_query);
        planner.groups.set_created(counters.groups);
        planner.cuts = Cuts::restore(counters.sn);
        Ok(())
    }

    fn take_group(&mut self, saved: &SavedGroup) -> Result<(), RestoreError> {
        let Coordinator { home, planner } = &mut self.coordinator;
        let cohorts = self.cohorts_of.remove(&saved.id).unwrap_or_default();
        let (key, members) = planner.queries.restored_group(saved.id, &cohorts)?;
        (planner.groups).restore(home.streams(), saved, key, members)
    }

    fn finish(mut self) -> Result<Coordinator, RestoreError> {
        if !self.is_ended {
            return contradiction("its last record is missing");
        }
        if let Some(group) = self.cohorts_of.keys().next() {
            return contradiction(format!("group {group} is missing"));
        }
        let Coordinator { home, planner } = &mut self.coordinator;
        planner.queries.finish_restoring(&planner.live)?;
        for (derived, sources) in planner.queries.derivations() {
            for source in sources {
                home.streams_mut().set_feeds(source, derived, true);
            }
        }
        self.coordinator.publish_clocks();
        Ok(self.coordinator)
    }
}
