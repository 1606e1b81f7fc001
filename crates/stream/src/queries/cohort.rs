//! A cohort is the unit that fires. This file leads from the declaration that its members share to
//! windows on streams, and from a close to a firing.
//!
//! Before changing anything here: a window's `kept_from` is fixed when the cohort starts (at its
//! first registration, and whenever it goes on after all its members were paused), from what the
//! streams *logically* retain then. A firing never reads below it, even where slices happen to be
//! there still, so that its content follows from the log alone.

mod saved;

pub(crate) use saved::FrozenCohort;

use super::derive::Derivation;
use super::members::{Counts, Members};
use crate::closes::close_group::{CloseGroup, GroupKey};
use crate::closes::close_groups::{GroupId, SkippedCloses};
use crate::closes::schedule::{Schedule, Span, WindowShape};
use crate::live::LiveFiring;
use crate::protocol::cohort_view::CohortView;
use crate::protocol::declaration::{LiveDeclaration, QueryDeclaration};
use crate::protocol::firing::{BatchShape, BatchSpan, Firing, Statements, WindowBatches};
use crate::streams::Streams;
use crate::streams::stream::Stream;
use somersault_lang::Extent;
use somersault_lang::lift::Shape;
use somersault_log::{DeliveredRecord, Resolved};
use somersault_model::{BatchNumber, EventTime, QueryUid, Sn, StreamUid};
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Queries of one shape, which fire together; or one query without a shape.
#[derive(Clone, Debug)]
pub(crate) struct Cohort {
    /// The uid of its first member.
    pub(super) uid: QueryUid,
    namespace: Option<String>,
    shape: Arc<Shape>,
    pub(super) declaration: Arc<QueryDeclaration>,
    /// For REGISTER STREAM: the derivation.
    pub(super) derives: Option<Box<Derivation>>,
    /// In the order of the text.
    windows: Box<[Window]>,
    pub(super) members: Members,
    /// What other threads may know of it.
    view: Arc<CohortView>,
    /// The group for whose closes it fires; `None` while no member runs, and for a live query.
    pub(super) group: Option<GroupId>,
    /// The time after which its eldest running member fires.
    pub(super) base: EventTime,
    counts: Counts,
    last_close: Option<EventTime>,
}

/// The treatment of a firing that is due, at recovery too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// Execute it, and deliver its answer to all subscribers.
    Owed,
    /// Its answer was delivered before a restart; execute it to compare the next answer with it.
    Repeated,
    /// Its answer was delivered; do not execute it.
    Done,
}

/// One window of a query.
#[derive(Clone, Copy, Debug)]
struct Window {
    stream: StreamUid,
    shape: WindowShape,
    /// For ALL: the batch that was open when the query was registered.
    since: Option<BatchNumber>,
    /// The first batch that the stream retained when the query was registered or resumed.
    kept_from: BatchNumber,
}

/// The closes of the query: every close of any window, or those of COMPUTED EVERY.
fn schedule_of(
    declaration: &QueryDeclaration,
    shapes: impl Iterator<Item = WindowShape>,
) -> Schedule {
    match declaration.computed_every {
        Some(every) => Schedule::new(declaration.starting_at, [every]),
        None => Schedule::new(
            declaration.starting_at,
            shapes.filter_map(|shape| shape.span().map(|span| span.step)),
        ),
    }
}

impl Cohort {
    /// A cohort without members, not running.
    pub(super) fn new(
        (uid, namespace, shape): (QueryUid, Option<&str>, &Arc<Shape>),
        (declaration, derives): (Arc<QueryDeclaration>, Option<Derivation>),
        resolved: &Resolved,
        streams: &Streams,
    ) -> Cohort {
        let windows = declaration.windows.iter().map(|window| {
            let stream = streams
                .find(window.stream.as_str())
                .expect("admission refuses windows on unknown streams");
            let uid = stream.uid();
            let since = || {
                let times = resolved.stream_times.iter();
                let time = times
                    .filter(|(of, _)| *of == uid)
                    .map(|(_, time)| *time)
                    .max();
                stream.batch_of(time.unwrap_or(EventTime::MIN))
            };
            Window {
                stream: uid,
                shape: WindowShape::new(
                    window.extent,
                    declaration.starting_at,
                    stream.declaration(),
                ),
                since: (window.extent == Extent::All).then(since),
                kept_from: BatchNumber(i64::MIN),
            }
        });
        Cohort {
            uid,
            namespace: namespace.map(str::to_owned),
            shape: Arc::clone(shape),
            windows: windows.collect(),
            declaration,
            derives: derives.map(Box::new),
            members: Members::new(),
            view: Arc::new(CohortView::new("", 0)),
            group: None,
            base: EventTime::MIN,
            counts: Counts::default(),
            last_close: None,
        }
    }

    /// What its members' texts say about windows and closes.
    pub(crate) fn declaration(&self) -> &Arc<QueryDeclaration> {
        &self.declaration
    }

    /// The number of its members, including paused ones.
    pub(crate) fn size(&self) -> usize {
        self.members.len()
    }

    /// What other threads may know of it.
    pub(super) fn view(&self) -> &Arc<CohortView> {
        &self.view
    }

    /// Shows its members on its view.
    pub(super) fn publish(&self) {
        self.view
            .show(self.members.names().next(), self.members.len());
    }

    /// What it reads, if it is live.
    pub(crate) fn live(&self) -> Option<&LiveDeclaration> {
        self.declaration.live.as_deref()
    }

    /// The stream that it derives.
    pub(crate) fn derived(&self) -> Option<StreamUid> {
        Some(self.derives.as_ref()?.stream)
    }

    pub(crate) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// The key of cohorts that a query may join: the default namespace, and the key of the shape.
    pub(super) fn shape_key(&self) -> (Option<&str>, &str) {
        (self.namespace(), self.shape.key())
    }

    /// Whether queries of its shape may join it.
    pub(crate) fn is_shared(&self) -> bool {
        self.shape.is_shared()
    }

    /// The cohort's counts so far.
    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    /// The newest close that it fired for.
    pub(crate) fn last_close(&self) -> Option<EventTime> {
        self.last_close
    }

    /// From now on, reads what the streams retain now.
    pub(super) fn keep_from_now(&mut self, streams: &Streams) {
        for window in &mut self.windows {
            window.kept_from = streams[&window.stream].retained_from();
        }
    }

    /// Counts the firings for a close, one for each window that closes then.
    pub(crate) fn on_close(&mut self, close: EventTime, ordinals: u32) {
        assert!(
            self.last_close < Some(close),
            "WI-2: the closes of query {} fire once, in order",
            self.members.names().next().unwrap_or_default()
        );
        self.last_close = Some(close);
        self.members.on_close(close, self.counts);
        self.counts.firings += u64::from(ordinals);
    }

    /// Counts a firing of a live query, of which a close may have several.
    pub(crate) fn on_change(&mut self, close: EventTime) {
        if self.last_close < Some(close) {
            self.last_close = Some(close);
            self.members.on_close(close, self.counts);
        }
        self.counts.firings += 1;
    }

    /// Counts one more firing for a close that late statements amended.
    pub(crate) fn on_amended(&mut self, close: EventTime) {
        self.members.on_amended(close);
        self.counts.firings += 1;
        self.counts.amended += 1;
    }

    /// Counts a run of empty closes that its group passed without a firing. Returns the first of
    /// them that is its own, and their number.
    pub(crate) fn on_skipped(
        &mut self,
        run: &SkippedCloses,
        schedule: &Schedule,
    ) -> (EventTime, u64) {
        let first = self.first_close_from(run.first, schedule);
        let count = schedule.count(first, run.last);
        self.counts.skipped_empty += count;
        self.members.on_skipped(run.last, self.counts, |base| {
            schedule.count(first.max(schedule.first_after(base)), run.last)
        });
        (first, count)
    }

    /// The distinct streams that it windows, ascending.
    pub(crate) fn streams(&self) -> BTreeSet<StreamUid> {
        self.windows.iter().map(|window| window.stream).collect()
    }

    /// The treatment of a firing, if the answers up to `delivered` were delivered to all
    /// subscribers.
    pub(crate) fn delivery(
        &self,
        (close, sn): (EventTime, Sn),
        delivered: Option<&DeliveredRecord>,
    ) -> Delivery {
        let Some(mark) = delivered else {
            return Delivery::Owed;
        };
        let order = match mark.sn {
            Some(through) => sn.cmp(&through),
            None => close.cmp(&mark.close),
        };
        match order {
            Ordering::Greater => Delivery::Owed,
            Ordering::Equal if self.declaration.compares() => Delivery::Repeated,
            Ordering::Less | Ordering::Equal => Delivery::Done,
        }
    }

    pub(super) fn group_key(&self) -> GroupKey {
        GroupKey::new(self.streams(), self.schedule(), self.steps())
    }

    /// The streams and STEPs of the windows of a number of statements, where those say when the
    /// query fires.
    fn steps(&self) -> BTreeSet<(StreamUid, u64)> {
        if self.declaration.computed_every.is_some() {
            return BTreeSet::new();
        }
        let steps = self.windows.iter().filter_map(|window| match window.shape {
            WindowShape::Statements { step, .. } => Some((window.stream, step)),
            WindowShape::Span(_) => None,
        });
        steps.collect()
    }

    pub(crate) fn schedule(&self) -> Schedule {
        let shapes = self.windows.iter().map(|window| window.shape);
        schedule_of(&self.declaration, shapes)
    }

    /// The first close of this cohort at or after `close`, a close of its group.
    fn first_close_from(&self, close: EventTime, schedule: &Schedule) -> EventTime {
        match self.group {
            Some(_) => schedule.first_after(self.base).max(close),
            None => close,
        }
    }

    pub(super) fn window_shapes(&self) -> Vec<(StreamUid, WindowShape)> {
        self.windows
            .iter()
            .map(|window| (window.stream, window.shape))
            .collect()
    }

    /// Whether a window of this query holds one of these batches at a close.
    pub(crate) fn shows(&self, close: EventTime, batches: &[BatchSpan]) -> bool {
        self.windows.iter().any(|window| {
            let mut of_stream = batches.iter().filter(|it| it.stream == window.stream);
            of_stream.any(|batch| {
                let began = window.since.is_none_or(|since| batch.number >= since);
                began && window.shape.holds(batch, close)
            })
        })
    }

    /// A firing of this query, which is live.
    pub(crate) fn live_firing(&self, live: LiveFiring, (close, sn): (EventTime, Sn)) -> Firing {
        Firing {
            query: self.uid,
            close,
            members: self.members.firing_at(close),
            ordinal: live.ordinal,
            revision: 0,
            repeated: false,
            sn,
            windows: Arc::default(),
            changed: live.changed,
            complete_from: None,
        }
    }

    /// A firing of this query for a close of its group.
    pub(crate) fn firing(
        &self,
        streams: &Streams,
        group: &CloseGroup,
        (close, ordinal, revision): (EventTime, u32, u32),
        sn: Sn,
    ) -> Firing {
        let mut complete_from = None;
        let windows = self.windows.iter().map(|window| {
            let stream = &streams[&window.stream];
            let kept_with_group = group.kept_from(window.stream);
            let kept = window
                .kept_from
                .max(kept_with_group.unwrap_or(window.kept_from));
            let (content, from) = match window.shape {
                WindowShape::Span(span) => window.over_span(span, stream, kept, close),
                WindowShape::Statements { count, step } => {
                    // Windows that do not decide when the query fires show their latest close.
                    let says = self.declaration.computed_every.is_none()
                        && stream.batch_end_before(close) == close;
                    let ordinal = if says { ordinal } else { u32::MAX };
                    window.over_statements((count, step), stream, kept, (close, ordinal))
                }
            };
            complete_from = complete_from.max(from);
            content
        });
        let windows = windows.collect();
        Firing {
            query: self.uid,
            close,
            members: self.members.firing_at(close),
            ordinal,
            revision,
            repeated: false,
            sn,
            windows,
            changed: None,
            complete_from,
        }
    }
}

impl Window {
    /// The window over a span of time at a close of its query, and the time from which it is
    /// complete, if it is incomplete.
    fn over_span(
        &self,
        span: Span,
        stream: &Stream,
        kept: BatchNumber,
        close: EventTime,
    ) -> (WindowBatches, Option<EventTime>) {
        let mut complete_from = None;
        let (mut from, to) = span.span_at(close);
        let begin = stream.begin().unwrap_or(EventTime::MIN);
        if let Some(since) = self.since {
            let since = since.start(stream.interval()).max(begin);
            complete_from = (from > since).then_some(from);
            from = from.max(since);
        }
        let seen_from = begin.max(kept.start(stream.interval()));
        if from < seen_from {
            complete_from = complete_from.max(Some(seen_from));
        }
        let hi = stream.batch_of(to);
        let content = WindowBatches {
            stream: self.stream,
            lo: stream.batch_of(from).max(kept).min(hi),
            hi,
            shape: span.in_batches(stream.interval()),
            statements: None,
        };
        (content, complete_from)
    }

    /// The window of a number of statements at one of its closes, and the time from which it is
    /// complete, if it is incomplete.
    fn over_statements(
        &self,
        count_and_step: (u64, u64),
        stream: &Stream,
        kept: BatchNumber,
        (close, ordinal): (EventTime, u32),
    ) -> (WindowBatches, Option<EventTime>) {
        let end = stream.batch_of(close);
        let range = stream
            .numbered()
            .content(end, ordinal, count_and_step, kept);
        let kept_from = || {
            let begin = stream.begin().unwrap_or(EventTime::MIN);
            kept.start(stream.interval()).max(begin)
        };
        let content = WindowBatches {
            stream: self.stream,
            lo: range.lo,
            hi: range.hi,
            shape: BatchShape::default(),
            statements: Some(Statements {
                skip: range.skip,
                upto: range.upto,
            }),
        };
        (content, range.is_cut.then(kept_from))
    }
}

/// The closes of a query with this declaration, on the streams that exist.
pub(crate) fn schedule_on(declaration: &QueryDeclaration, streams: &Streams) -> Schedule {
    let shapes = declaration.windows.iter().filter_map(|window| {
        let stream = streams.find(window.stream.as_str())?.declaration();
        Some(WindowShape::new(
            window.extent,
            declaration.starting_at,
            stream,
        ))
    });
    schedule_of(declaration, shapes)
}
