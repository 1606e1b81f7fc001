//! Cuts: plan records, what each SN holds, and which firings become due with it (S3, S4, S5, S15).
//!
//! Before changing anything here: which cut comes next follows from the state alone ([`NextCut`]
//! only reads), and what a plan record takes follows from the state and the record. So a plan
//! record that a crash has lost is simply asked for again. In order of precedence:
//!
//! 1. effects of updates and loads, each an SN of its own, nothing between;
//! 2. what late statements amend;
//! 3. the earliest due close, with the batches that end at or before it;
//! 4. everything closed.
//!
//! Live queries fire with any of these. Where one is due and nothing else, it is the fourth, and
//! may hold nothing.
//!
//! The driver may leave amendments for later, and takes inputs while closes are due (ADR 23).
//! Amendments come before any close that the same record made due, so such a close sees them in its
//! first revision, unless the driver joins amendments: then closes may come first, and the cut
//! amends them. Windows stay as far back as WITHIN and waiting amendments reach
//! (`CloseGroup::earliest_needed`), so an amended firing reads all that its first revision read.

use crate::closes::close_groups::{CloseGroups, GroupId};
use crate::closes::cuts::Cuts;
use crate::closes::unfinished::UnfinishedFirings;
use crate::live::LiveQueries;
use crate::output::Output;
use crate::protocol::firing::{BatchSpan, Firing};
use crate::protocol::inject::Inject;
use crate::queries::Queries;
use crate::streams::home::StreamHome;
use somersault_log::{PlanRecord, Position};
use somersault_model::{EventTime, QueryUid, Sn, StreamUid};
use std::collections::{BTreeMap, BTreeSet};

/// What the next cut leaves for a later one, because its queries cannot keep up.
#[derive(Clone, Debug)]
pub struct CutPace {
    /// Whether the cut shows what late statements amend. Late statements that come before they are
    /// shown join them, and they amend closes that are cut before them.
    pub amends: bool,
    /// The live queries that do not fire with it.
    pub held: BTreeSet<QueryUid>,
}

impl Default for CutPace {
    /// Everything keeps up.
    fn default() -> Self {
        CutPace {
            amends: true,
            held: BTreeSet::new(),
        }
    }
}

/// Says which cut comes next.
pub(super) struct NextCut<'c> {
    pub(super) home: &'c StreamHome,
    pub(super) groups: &'c CloseGroups,
    pub(super) live: &'c LiveQueries,
    pub(super) cuts: &'c Cuts,
}

impl NextCut<'_> {
    /// The cut that must come next.
    pub(super) fn due(&self, log_end: Position, pace: &CutPace) -> Option<PlanRecord> {
        let close = self.groups.next_due();
        let times = match () {
            () if self.home.has_effects() => return Some(self.plan(None, log_end, pace)),
            () if pace.amends && self.home.has_amendments() => {
                return Some(self.plan(None, log_end, pace));
            }
            () if close.is_some() => self.home.stream_times(close),
            () if self.live.is_due(&pace.held) => self.home.stream_times(None),
            () => return None,
        };
        Some(PlanRecord {
            stream_times: times,
            ..self.plan(close, log_end, pace)
        })
    }

    /// The cut that makes everything closed or pending visible; a due cut comes first.
    pub(super) fn fresh(&self, log_end: Position, pace: &CutPace) -> Option<PlanRecord> {
        self.due(log_end, pace).or_else(|| {
            self.home.has_batches().then(|| PlanRecord {
                stream_times: self.home.stream_times(None),
                ..self.plan(None, log_end, pace)
            })
        })
    }

    /// The record of the next cut, without times of streams.
    fn plan(&self, through: Option<EventTime>, log_end: Position, pace: &CutPace) -> PlanRecord {
        PlanRecord {
            sn: self.cuts.next(),
            through,
            log_end,
            stream_times: Vec::new(),
            held: pace.held.iter().copied().collect(),
        }
    }
}

impl NextCut<'_> {
    /// Whether a cut changes the stored graphs by anything but transactions. Says of a plan that
    /// comes next what [`Cutter::cut`] does with it.
    pub(super) fn is_foreign(&self, plan: &PlanRecord) -> bool {
        if plan.through.is_none()
            && let Some(is_of_transactions) = self.home.has_transactions_next()
        {
            return !is_of_transactions;
        }
        let may_amend = plan.through.is_none() && plan.stream_times.is_empty();
        match may_amend && self.home.has_amendments() {
            true => self.home.amends_facts(),
            false => self.home.has_facts(plan.through),
        }
    }
}

/// Applies plan records.
pub(super) struct Cutter<'c> {
    pub(super) home: &'c mut StreamHome,
    pub(super) groups: &'c mut CloseGroups,
    pub(super) live: &'c mut LiveQueries,
    pub(super) queries: &'c mut Queries,
    pub(super) cuts: &'c mut Cuts,
    pub(super) unfinished: &'c mut UnfinishedFirings,
    pub(super) out: &'c mut Vec<Output>,
}

impl Cutter<'_> {
    /// Applies a plan record: one SN, with what it holds and the firings that it is cut for.
    pub(super) fn cut(&mut self, plan: &PlanRecord) {
        self.cuts.begin(plan);
        assert!(
            plan.through.is_none()
                || (!self.home.has_effects() && plan.through == self.groups.next_due()),
            "WI-2: closes are cut in order, and after effects"
        );
        let mut inject = Inject {
            sn: plan.sn,
            ..Inject::default()
        };
        let mut firings = Vec::new();
        // A cut that moves a stream on is one for its batches, and leaves amendments for a later
        // one.
        let may_amend = plan.through.is_none() && plan.stream_times.is_empty();
        if plan.through.is_some() || !self.home.take_effects(&mut inject) {
            match may_amend && self.home.has_amendments() {
                true => firings = self.amend(&mut inject),
                false => self.home.take_closed(plan.through, &mut inject),
            }
        }
        self.live.touch(&inject);
        self.out.push(Output::Inject(inject));
        self.announce(&firings);

        self.home.plan_through(&plan.stream_times);
        let cut = plan.stream_times.iter().map(|(uid, _)| *uid);
        let mut touched: BTreeSet<StreamUid> = cut.collect();
        if let Some(close) = plan.through {
            firings = self.make_due(close, plan.sn, &mut touched);
        }
        firings.extend(self.fire_live(plan));
        self.cuts.end(plan, firings);
        for uid in touched.iter().copied() {
            let needed_from = self.groups.first_need(uid).map(|(from, _)| from);
            self.home.release_unneeded(uid, needed_from);
        }
        for stream in touched {
            let first_read = self.unfinished.first_read(stream);
            if let Some(below) = self.home.retire(stream, first_read) {
                self.out.push(Output::Retire { stream, below });
            }
        }
    }

    /// Makes the firings of all groups that are due at this close, and moves the groups to their
    /// next close.
    fn make_due(
        &mut self,
        close: EventTime,
        sn: Sn,
        touched: &mut BTreeSet<StreamUid>,
    ) -> Vec<Firing> {
        let streams = self.home.streams();
        let mut firings = Vec::new();
        let mut skipped = Vec::new();
        for id in self.groups.due_at(close) {
            let group = self.groups.get(id);
            touched.extend(group.streams().iter().copied());
            for uid in group.members_at(close) {
                let of_query = self
                    .queries
                    .fire(uid, (group, close, sn), streams, self.out);
                firings.extend(of_query);
            }
            self.groups.fired(streams, id, close, &mut skipped);
        }
        self.announce(&firings);
        self.queries.report_skipped(self.groups, &skipped, self.out);
        firings
    }

    /// Makes the firings of the live queries due that this cut does not hold back.
    fn fire_live(&mut self, plan: &PlanRecord) -> Vec<Firing> {
        let mut firings = Vec::new();
        let close = self.live.now();
        for live in self.live.take_due(plan.sn, &plan.held) {
            firings.extend(self.queries.fire_live(live, (close, plan.sn), self.out));
        }
        self.announce(&firings);
        firings
    }

    /// The closes of groups that have fired and have one of these batches in a window, each with
    /// those batches.
    fn amended_closes(
        &self,
        batches: Vec<BatchSpan>,
    ) -> BTreeMap<(EventTime, GroupId), Vec<BatchSpan>> {
        let mut closes: BTreeMap<(EventTime, GroupId), Vec<BatchSpan>> = BTreeMap::new();
        for batch in batches {
            for id in self.groups.readers_of(batch.stream) {
                for close in self.groups.get(id).closes_with(&batch) {
                    closes.entry((close, id)).or_default().push(batch);
                }
            }
        }
        closes
    }

    /// Shows all amendments with this SN. Returns the firings whose windows they change, which are
    /// due again.
    fn amend(&mut self, inject: &mut Inject) -> Vec<Firing> {
        let batches = self.home.take_amendments(inject);
        let streams = self.home.streams();
        let mut firings = Vec::new();
        let mut amended = BTreeSet::new();
        for ((close, id), batches) in self.amended_closes(batches) {
            let revision = self.groups.amend(id, close);
            amended.insert(id);
            let group = self.groups.get(id);
            for uid in group.members_at(close) {
                let of_close = (group, close, revision, inject.sn);
                let to = (streams, &mut *self.out);
                firings.extend(self.queries.fire_again(uid, of_close, &batches, to));
            }
        }
        for id in amended {
            self.groups.forget_revisions(streams, id);
        }
        firings
    }

    /// Emits `Due` for the firings and holds their slices.
    fn announce(&mut self, firings: &[Firing]) {
        for firing in firings {
            self.unfinished.hold(firing);
            self.out.push(Output::Due(firing.clone()));
        }
    }
}
