//! Cuts: plan records, what each SN holds, and which firings it releases (S3, S4, S5, S15).
//!
//! Before changing anything here: which cut comes next follows from the state alone
//! ([`Coordinator::next_due_cut`] is pure), and what a plan record takes follows from the state and
//! the record, so that a plan record lost in a crash is simply asked for again. In order of
//! precedence: effects of updates and loads (each an SN of its own, nothing between), then what
//! late statements amend, then the earliest due close (only batches that end at or before it), then
//! everything closed. The driver may leave amendments for later, and takes inputs while closes are
//! due (ADR 23).
//! due (ADR 23).

use crate::coordinator::{Coordinator, Cut, Effects, Lagging};
use crate::output::{Output, QueryChange};
use crate::protocol::firing::{Firing, FiringKey};
use crate::protocol::inject::{ClosedBatch, Inject};
use crate::queries::Delivery;
use somersault_log::{PlanRecord, Position};
use somersault_model::{BatchNumber, EventTime, Sn, StreamUid};
use std::collections::BTreeSet;

impl Coordinator {
    /// The cut that must come next: append it to the log, apply it, and call again, until the
    /// result is `None`. `log_end` is the position of the newest record in the log.
    pub fn next_due_cut(&self, log_end: Position) -> Option<PlanRecord> {
        self.next_due_cut_amending(log_end, true)
    }

    /// The same, but `amends` = `false` leaves amendments for a later cut. Late statements that
    /// come meanwhile join them, and they amend closes that are cut before them.
    pub fn next_due_cut_amending(&self, log_end: Position, amends: bool) -> Option<PlanRecord> {
        if !self.effects.is_empty() || (amends && !self.amendments.is_empty()) {
            return Some(self.plan(None, log_end, Vec::new()));
        }
        let close = self.groups.next_due()?;
        let times = self.stream_times(Some(close));
        Some(self.plan(Some(close), log_end, times))
    }

    /// The cut that makes everything closed or pending visible; a due cut comes first. None if
    /// nothing has changed since the last cut.
    pub fn freshness_cut(&self, log_end: Position) -> Option<PlanRecord> {
        self.freshness_cut_amending(log_end, true)
    }

    /// The same, but `amends` = `false` leaves amendments for a later cut.
    pub fn freshness_cut_amending(&self, log_end: Position, amends: bool) -> Option<PlanRecord> {
        self.next_due_cut_amending(log_end, amends).or_else(|| {
            self.has_batches()
                .then(|| self.plan(None, log_end, self.stream_times(None)))
        })
    }

    /// Whether anything waits for a cut: closed batches, effects, or only an advance of a stream's
    /// time.
    pub fn has_pending(&self) -> bool {
        !self.effects.is_empty() || self.has_amendments() || self.has_batches()
    }

    /// Whether late statements wait for the cut that shows them.
    pub fn has_amendments(&self) -> bool {
        !self.amendments.is_empty()
    }

    /// Whether closed batches, or an advance of a stream's time, wait for a cut.
    fn has_batches(&self) -> bool {
        !(self.closed.is_empty() && self.moved.is_empty())
    }

    /// The newest SN that was cut.
    pub fn last_cut(&self) -> Sn {
        self.last_cut
    }

    fn plan(
        &self,
        through: Option<EventTime>,
        log_end: Position,
        stream_times: Vec<(StreamUid, EventTime)>,
    ) -> PlanRecord {
        PlanRecord {
            sn: self.last_cut.next(),
            through,
            log_end,
            stream_times,
        }
    }

    /// For each stream that has moved: the end of the last batch that a cut through this close
    /// takes.
    fn stream_times(&self, through: Option<EventTime>) -> Vec<(StreamUid, EventTime)> {
        let moved = self.moved.iter().filter_map(|uid| {
            let stream = &self.streams[uid];
            let complete = stream.watermark()?;
            let end =
                stream.batch_end_before(through.map_or(complete, |close| close.min(complete)));
            (Some(end) > stream.planned).then_some((*uid, end))
        });
        moved.collect()
    }

    /// Applies a plan record: one SN, with what it holds and the firings that it is cut for.
    pub(crate) fn cut(&mut self, plan: &PlanRecord, out: &mut Vec<Output>) {
        assert!(
            plan.sn == self.last_cut.next(),
            "VT-1: snapshot numbers are dense; SN {} cannot follow SN {}",
            plan.sn,
            self.last_cut
        );
        assert!(
            plan.through.is_none()
                || (self.effects.is_empty() && plan.through == self.groups.next_due()),
            "WI-2: closes are cut in order, and after effects"
        );
        self.last_cut = plan.sn;
        let mut inject = Inject {
            sn: plan.sn,
            ..Inject::default()
        };
        let mut firings = Vec::new();
        match (plan.through, self.effects.pop_front()) {
            (None, Some(Effects::Mutations(mutations))) => inject.mutations = mutations,
            (None, Some(Effects::Clearing(clears, mutations))) => {
                (inject.clears, inject.mutations) = (clears, mutations);
            }
            (None, Some(Effects::Load(statements))) => inject.loads.push(statements),
            // A cut that moves a stream on is one for its batches, and leaves amendments for a
            // later one.
            (None, None) if !self.amendments.is_empty() && plan.stream_times.is_empty() => {
                self.amend(&mut inject, &mut firings, out);
            }
            (through, _) => self.take_closed(through, &mut inject),
        }
        out.push(Output::Inject(inject));
        self.announce(&firings, out);

        let mut touched: BTreeSet<StreamUid> = self.note_planned(&plan.stream_times);
        if let Some(close) = plan.through {
            self.make_due(close, plan.sn, &mut firings, &mut touched, out);
        }
        self.cuts.push_back(Cut {
            sn: plan.sn,
            stream_times: plan.stream_times.clone(),
            firings,
        });
        for uid in &touched {
            if let Some(stream) = self.streams.get_mut(uid) {
                stream.let_go();
            }
        }
        self.retire(touched, out);
    }

    /// Moves the closed batches that end at or before `through` (or all) into the SN.
    fn take_closed(&mut self, through: Option<EventTime>, inject: &mut Inject) {
        while let Some(entry) = self.closed.first_entry() {
            let (end, stream, number) = *entry.key();
            if through.is_some_and(|close| end > close) {
                break;
            }
            let mut batch = entry.remove();
            if inject.mutations.is_empty() {
                inject.mutations = batch.absorbed;
            } else {
                inject.mutations.append(&mut batch.absorbed);
            }
            inject.slices.push(ClosedBatch {
                stream,
                batch: number,
                statements: batch.statements,
                lease: batch.lease,
            });
        }
    }

    /// Records through which time each stream's batches are cut.
    fn note_planned(&mut self, stream_times: &[(StreamUid, EventTime)]) -> BTreeSet<StreamUid> {
        for (uid, time) in stream_times {
            let Some(stream) = self.streams.get_mut(uid) else {
                continue;
            };
            assert!(
                stream.planned < Some(*time) && Some(*time) <= stream.watermark(),
                "VT-1: the time of stream <{}> in a plan record goes on, and never past what was seen",
                stream.iri()
            );
            stream.planned = Some(*time);
            let over = stream
                .watermark()
                .map(|complete| stream.batch_end_before(complete));
            if over <= Some(*time) {
                self.moved.remove(uid);
            }
        }
        stream_times.iter().map(|(uid, _)| *uid).collect()
    }

    /// Makes the firings of all groups that are due at this close, and moves the groups to their
    /// next close.
    fn make_due(
        &mut self,
        close: EventTime,
        sn: Sn,
        firings: &mut Vec<Firing>,
        touched: &mut BTreeSet<StreamUid>,
        out: &mut Vec<Output>,
    ) {
        let mut passed = Vec::new();
        for id in self.groups.due_at(close) {
            let group = self.groups.get(id);
            touched.extend(group.key.streams.iter().copied());
            for uid in group.members_at(close) {
                let Some(query) = self.queries.get_mut(uid) else {
                    continue;
                };
                let ordinals = group.firings_at(&self.streams, close);
                query.on_close(close, ordinals);
                let delivery = query.delivery((close, sn), self.delivered.get(&uid));
                if delivery == Delivery::Done {
                    let key = FiringKey {
                        query: uid,
                        close,
                        ordinal: ordinals.saturating_sub(1),
                        revision: 0,
                    };
                    out.push(Output::query(uid, QueryChange::Delivered { key, sn }));
                } else {
                    let of_query = (0..ordinals).map(|ordinal| Firing {
                        repeated: delivery == Delivery::Repeated,
                        ..query.firing(&self.streams, group, (close, ordinal, 0), sn)
                    });
                    firings.extend(of_query);
                }
            }
            self.groups.fired(&mut self.streams, id, close, &mut passed);
        }
        self.announce(firings, out);
        self.report_passed(&passed, out);
    }

    /// Emits `Due` for the firings and holds their slices.
    fn announce(&mut self, firings: &[Firing], out: &mut Vec<Output>) {
        for firing in firings {
            self.hold(firing);
            out.push(Output::Due(firing.clone()));
        }
    }

    /// Holds the slices of a firing until it is done.
    fn hold(&mut self, firing: &Firing) {
        let lagging: &mut Lagging = self.lagging.entry(firing.sn).or_default();
        lagging.firings += 1;
        for window in firing.windows.iter() {
            let Some(stream) = self.streams.get_mut(&window.stream) else {
                continue;
            };
            let held = lagging.holds.get(&window.stream).copied();
            if held.is_none_or(|held| window.lo < held) {
                if let Some(held) = held {
                    stream.lagging.remove(&(held, firing.sn));
                }
                stream.lagging.insert((window.lo, firing.sn));
                lagging.holds.insert(window.stream, window.lo);
            }
        }
        self.unfinished.insert(firing.key(), firing.sn);
    }

    /// Every shard has applied all SNs up to this one, and they are durable: releases their firings
    /// in the order in which they became due, hence in close order per query (S5).
    ///
    /// # Panics
    /// If the SN goes back or was never cut (VT-1).
    pub fn on_stable(&mut self, sn: Sn, out: &mut Vec<Output>) {
        assert!(
            sn >= self.stable && sn <= self.last_cut,
            "VT-1: the stable SN goes on from {} and not past the last cut {}, but came as {sn}",
            self.stable,
            self.last_cut
        );
        self.stable = sn;
        while self.cuts.front().is_some_and(|cut| cut.sn <= sn) {
            let Some(cut) = self.cuts.pop_front() else {
                break;
            };
            for (uid, time) in cut.stream_times {
                if let Some(stream) = self.streams.get_mut(&uid) {
                    assert!(
                        stream.stable < Some(time),
                        "VT-1: the stable time of stream <{}> never goes back",
                        stream.iri()
                    );
                    stream.stable = Some(time);
                }
            }
            for firing in cut.firings {
                let mark = self.delivered.get(&firing.query);
                let query = self.queries.get(firing.query);
                let this = (firing.close, firing.sn);
                let is_done = match query {
                    Some(query) => query.delivery(this, mark) == Delivery::Done,
                    // The query was dropped; the last firings of a replaced query still run.
                    None => !self.retiring.contains_key(&firing.query),
                };
                if is_done {
                    let key = firing.key();
                    out.push(Output::Cancelled(firing));
                    self.finish(key, out);
                } else {
                    out.push(Output::Fire(firing));
                }
            }
        }
        self.publish_clocks();
    }

    /// A firing has been executed (or has failed) and no longer needs its slices. Returns the SN
    /// that it became due with; a second call changes nothing and returns `None`.
    pub fn on_fired(&mut self, key: FiringKey, out: &mut Vec<Output>) -> Option<Sn> {
        let sn = self.finish(key, out);
        self.publish_clocks();
        sn
    }

    fn finish(&mut self, key: FiringKey, out: &mut Vec<Output>) -> Option<Sn> {
        let sn = self.unfinished.remove(&key)?;
        self.note_done(key.query, sn, out);
        let lagging = self.lagging.get_mut(&sn)?;
        lagging.firings -= 1;
        if lagging.firings > 0 {
            return Some(sn);
        }
        let holds = std::mem::take(&mut lagging.holds);
        self.lagging.remove(&sn);
        for (uid, batch) in &holds {
            if let Some(stream) = self.streams.get_mut(uid) {
                stream.lagging.remove(&(*batch, sn));
            }
        }
        self.retire(holds.into_keys(), out);
        Some(sn)
    }

    fn retire(&mut self, streams: impl IntoIterator<Item = StreamUid>, out: &mut Vec<Output>) {
        for uid in streams {
            let below: Option<BatchNumber> = self
                .streams
                .get_mut(&uid)
                .and_then(|stream| stream.retire());
            if let Some(below) = below {
                out.push(Output::Retire { stream: uid, below });
            }
        }
    }
}
