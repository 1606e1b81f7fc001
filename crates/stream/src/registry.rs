//! The registered continuous queries: from a declaration to windows on streams, and from a close to a firing.
//!
//! Before changing anything here: a window's `kept_from` is fixed when the query is registered (or its closes begin),
//! from what the streams *logically* retain then. A firing never reads below it, even where slices happen to be there
//! still, so that its content follows from the log alone.

use crate::adaptor::FARTHEST_MS;
use crate::amend::Amended;
use crate::coordinator::Coordinator;
use crate::declaration::QueryDeclaration;
use crate::derive::Derivation;
use crate::groups::{Group, GroupId, GroupKey, Streams};
use crate::members::Counts;
use crate::output::{BatchShape, Firing, Output, Statements, WindowBatches};
use crate::schedule::{Schedule, Span, WindowShape};
use crate::stream::Stream;
use somersault_lang::{CreateStream, Extent};
use somersault_log::{DeliveredRecord, Resolved};
use somersault_model::{BatchNumber, EventTime, Millis, QueryUid, Sn, StreamUid};
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

/// One registration of a continuous query.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    pub(crate) uid: QueryUid,
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) namespace: Option<String>,
    pub(crate) declaration: Arc<QueryDeclaration>,
    /// Of REGISTER STREAM.
    pub(crate) derives: Option<Derivation>,
    /// In the order of the text.
    windows: Vec<Window>,
    pub(crate) state: State,
    /// The time after which it fires, or did before it was paused.
    pub(crate) base: EventTime,
    pub(crate) firings: u64,
    /// Firings that late statements caused, among them.
    pub(crate) amended: u64,
    pub(crate) last_close: Option<EventTime>,
    pub(crate) passed_in_bulk: u64,
    pub(crate) passed_while_paused: u64,
}

/// Whether a query fires.
#[derive(Clone, Copy, Debug)]
pub(crate) enum State {
    /// For the closes of its group after [`Query::base`].
    Running { group: GroupId },
    /// Not. `next` is the close that it would have fired for next, where its closes had begun.
    Paused { next: Option<EventTime> },
}

/// What is to be done with a firing that is due, at recovery too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// It is executed, and its answer given to everybody.
    Owed,
    /// Its answer was given to everybody before a restart; it is executed for the next one to be compared with.
    Repeated,
    /// Its answer was given to everybody, and it is not executed.
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

/// When the query fires: at every close of any window, or at those of COMPUTED EVERY.
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

/// What a window is on its stream, whose BATCH and KEEP it may hang on.
pub(crate) fn shape_of(extent: Extent, origin: EventTime, stream: &CreateStream) -> WindowShape {
    let batch = stream.batch;
    let (range, until, step) = match extent {
        Extent::Time { range, until, step } => (range, until, step.unwrap_or(batch)),
        Extent::Now => (batch, Millis(0), batch),
        // As far back as KEEP, in whole batches.
        Extent::All => {
            let keep = stream.keep.0.min(FARTHEST_MS);
            (
                Millis((keep - keep % batch.0).max(batch.0)),
                Millis(0),
                batch,
            )
        }
        Extent::Statements { count, step } => return WindowShape::Statements { count, step },
    };
    WindowShape::Span(Span {
        origin,
        range,
        until,
        step,
    })
}

impl Query {
    /// The distinct streams that it windows, ascending.
    pub(crate) fn streams(&self) -> BTreeSet<StreamUid> {
        self.windows.iter().map(|window| window.stream).collect()
    }

    /// What is to be done with a firing, if the answers up to `delivered` were given to everybody.
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

    /// What it has counted so far.
    pub(crate) fn counted(&self) -> Counts {
        Counts {
            firings: self.firings,
            amended: self.amended,
            passed_in_bulk: self.passed_in_bulk,
        }
    }

    pub(crate) fn group_key(&self) -> GroupKey {
        GroupKey {
            streams: self.streams().into_iter().collect(),
            schedule: self.schedule(),
            counts: self.counts(),
        }
    }

    /// The streams and STEPs of the windows of a number of statements, where those say when the query fires.
    fn counts(&self) -> Vec<(StreamUid, u64)> {
        if self.declaration.computed_every.is_some() {
            return Vec::new();
        }
        let steps = self.windows.iter().filter_map(|window| match window.shape {
            WindowShape::Statements { step, .. } => Some((window.stream, step)),
            WindowShape::Span(_) => None,
        });
        steps.collect::<BTreeSet<_>>().into_iter().collect()
    }

    pub(crate) fn schedule(&self) -> Schedule {
        let shapes = self.windows.iter().map(|window| window.shape);
        schedule_of(&self.declaration, shapes)
    }

    /// The first close of this query at or after `close`, a close of its group.
    pub(crate) fn first_close_from(&self, close: EventTime, schedule: &Schedule) -> EventTime {
        match self.state {
            State::Running { .. } => schedule.first_after(self.base).max(close),
            State::Paused { .. } => close,
        }
    }

    fn window_shapes(&self) -> Vec<(StreamUid, WindowShape)> {
        self.windows
            .iter()
            .map(|window| (window.stream, window.shape))
            .collect()
    }

    /// Whether a window of this query holds one of these batches at a close.
    pub(crate) fn shows(&self, close: EventTime, batches: &[Amended]) -> bool {
        self.windows.iter().any(|window| {
            let mut of_stream = batches.iter().filter(|it| it.stream == window.stream);
            of_stream.any(|batch| {
                let began = window.since.is_none_or(|since| batch.number >= since);
                began && batch.is_in(&window.shape, close)
            })
        })
    }

    /// A firing of this query for a close of its group.
    pub(crate) fn firing(
        &self,
        streams: &Streams,
        group: &Group,
        (close, ordinal, revision): (EventTime, u32, u32),
        sn: Sn,
    ) -> Firing {
        let mut complete_from = None;
        let windows = self.windows.iter().map(|window| {
            let stream = &streams[&window.stream];
            let kept_with_group = group.kept_from.get(&window.stream);
            let kept = window
                .kept_from
                .max(kept_with_group.copied().unwrap_or(window.kept_from));
            let (content, from) = match window.shape {
                WindowShape::Span(span) => window.over_span(span, stream, kept, close),
                WindowShape::Statements { count, step } => {
                    // Windows that do not say when the query fires show their latest close.
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
            members: 0,
            ordinal,
            revision,
            repeated: false,
            sn,
            windows,
            complete_from,
        }
    }
}

impl Window {
    /// The window over a span of time at a close of its query, and from when on it is complete if it is not.
    fn over_span(
        &self,
        span: Span,
        stream: &Stream,
        kept: BatchNumber,
        close: EventTime,
    ) -> (WindowBatches, Option<EventTime>) {
        let mut complete_from = None;
        let (mut from, to) = span.span_at(close);
        let begin = stream.begin.unwrap_or(EventTime::MIN);
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

    /// The window of a number of statements at one of its closes, and from when on it is complete if it is not.
    fn over_statements(
        &self,
        count_and_step: (u64, u64),
        stream: &Stream,
        kept: BatchNumber,
        (close, ordinal): (EventTime, u32),
    ) -> (WindowBatches, Option<EventTime>) {
        let end = stream.batch_of(close);
        let stretch = (stream.numbered).content(end, ordinal, count_and_step, kept);
        let kept_from = || {
            let begin = stream.begin.unwrap_or(EventTime::MIN);
            kept.start(stream.interval()).max(begin)
        };
        let content = WindowBatches {
            stream: self.stream,
            lo: stretch.lo,
            hi: stretch.hi,
            shape: BatchShape::default(),
            statements: Some(Statements {
                skip: stretch.skip,
                upto: stretch.upto,
            }),
        };
        (content, stretch.is_cut.then(kept_from))
    }
}

impl Coordinator {
    /// No close at or before this fires: where the query that is replaced has been, else the latest of the times that a
    /// command resolved to.
    pub(crate) fn base_of(resolved: &Resolved) -> EventTime {
        if let Some(replaced) = resolved.replaced {
            return replaced.after;
        }
        let times = resolved.stream_times.iter().map(|(_, time)| *time);
        times.max().unwrap_or(EventTime::MIN)
    }

    /// When a query with this declaration fires, on the streams that there are.
    pub(crate) fn schedule_of(&self, declaration: &QueryDeclaration) -> Schedule {
        let shapes = declaration.windows.iter().filter_map(|window| {
            let uid = self.by_iri.get(window.stream.as_str())?;
            let stream = &self.streams.get(uid)?.declaration;
            Some(shape_of(window.extent, declaration.starting_at, stream))
        });
        schedule_of(declaration, shapes)
    }

    /// Adds what fires for a query, or for a cohort; it does not run yet.
    pub(crate) fn add_query(
        &mut self,
        uid: QueryUid,
        (name, text, namespace): (&str, &str, Option<&str>),
        (declaration, derives): (QueryDeclaration, Option<Derivation>),
        resolved: &Resolved,
    ) {
        let windows = declaration.windows.iter().map(|window| {
            let uid = *self
                .by_iri
                .get(window.stream.as_str())
                .expect("admission refuses windows on unknown streams");
            let stream = &self.streams[&uid];
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
                shape: shape_of(window.extent, declaration.starting_at, &stream.declaration),
                since: (window.extent == Extent::All).then(since),
                kept_from: BatchNumber(i64::MIN),
            }
        });
        let query = Query {
            uid,
            name: name.to_owned(),
            text: text.to_owned(),
            namespace: namespace.map(str::to_owned),
            windows: windows.collect(),
            declaration: Arc::new(declaration),
            derives,
            state: State::Paused { next: None },
            base: EventTime::MIN,
            firings: 0,
            amended: 0,
            last_close: None,
            passed_in_bulk: 0,
            passed_while_paused: 0,
        };
        for window in &query.windows {
            if let Some(stream) = self.streams.get_mut(&window.stream) {
                *stream.windowed_by.entry(uid).or_default() += 1;
            }
        }
        self.queries.insert(uid, query);
    }

    /// Registers a query that stands alone.
    pub(crate) fn register_query(
        &mut self,
        named: (&str, &str, Option<&str>),
        declared: (QueryDeclaration, Option<Derivation>),
        resolved: &Resolved,
        out: &mut Vec<Output>,
    ) {
        let uid = resolved
            .query
            .expect("a registration is logged with the query's uid");
        let derives = declared.1.as_ref().map(|it| it.stream);
        self.add_query(uid, named, declared, resolved);
        let (name, text, namespace) = named;
        self.next_query = self.next_query.max(uid.0 + 1);
        self.by_name.insert(name.to_owned(), uid);
        out.push(Output::QueryRegistered {
            uid,
            name: name.to_owned(),
            text: text.to_owned(),
            namespace: namespace.map(str::to_owned),
            derives,
            first_close: resolved.first_close,
        });
        self.start_query(uid, resolved, out);
    }

    /// Puts a query into its group, to fire for the closes after the times that the command resolved to.
    pub(crate) fn start_query(
        &mut self,
        uid: QueryUid,
        resolved: &Resolved,
        out: &mut Vec<Output>,
    ) {
        let base = Self::base_of(resolved);
        let Some(query) = self.queries.get_mut(&uid) else {
            return;
        };
        for window in &mut query.windows {
            window.kept_from = self.streams[&window.stream].retained_from;
        }
        let (key, shapes) = (query.group_key(), query.window_shapes());
        let mut passed = Vec::new();
        let group = self
            .groups
            .join(&mut self.streams, key, (base, uid), &shapes, &mut passed);
        query.state = State::Running { group };
        query.base = base;
        self.assert_first_close(uid, group, resolved);
        self.report_passed(&passed, out);
    }

    /// A query of a group fires first for the close that its command resolved to (S5).
    pub(crate) fn assert_first_close(&self, uid: QueryUid, group: GroupId, resolved: &Resolved) {
        let fires_at = |base| self.groups.get(group).next_of(&self.streams, base);
        assert!(
            resolved.first_close.is_none()
                || fires_at(Self::base_of(resolved)) == resolved.first_close,
            "S5: query {} first fires at the close that its command resolved to",
            self.shown_name(uid)
        );
    }

    /// Takes a query out of its group. Returns the close that it would have fired for next.
    pub(crate) fn stop_query(&mut self, uid: QueryUid, out: &mut Vec<Output>) -> Option<EventTime> {
        let query = self.queries.get(&uid)?;
        let State::Running { group } = query.state else {
            return None;
        };
        let base = query.base;
        let next = self.groups.get(group).next_of(&self.streams, base);
        let shapes = query.window_shapes();
        let mut passed = Vec::new();
        self.groups
            .leave(&mut self.streams, group, (base, uid), &shapes, &mut passed);
        self.report_passed(&passed, out);
        next
    }

    pub(crate) fn pause_query(&mut self, uid: QueryUid, out: &mut Vec<Output>) {
        let next = self.stop_query(uid, out);
        if let Some(query) = self.queries.get_mut(&uid) {
            query.state = State::Paused { next };
        }
        out.push(Output::QueryPaused { uid });
    }

    pub(crate) fn resume_query(
        &mut self,
        uid: QueryUid,
        resolved: &Resolved,
        out: &mut Vec<Output>,
    ) {
        let base = Self::base_of(resolved);
        if let Some(query) = self.queries.get_mut(&uid)
            && let State::Paused { next: Some(next) } = query.state
        {
            query.passed_while_paused += query.schedule().count(next, base);
        }
        out.push(Output::QueryResumed {
            uid,
            first_close: resolved.first_close,
        });
        self.start_query(uid, resolved, out);
    }

    /// Lets a query that runs fire for no close up to `base`, which is later than its present one.
    pub(crate) fn begin_later(&mut self, uid: QueryUid, base: EventTime, out: &mut Vec<Output>) {
        let Some(query) = self.queries.get_mut(&uid) else {
            return;
        };
        let State::Running { group } = query.state else {
            return;
        };
        let before = std::mem::replace(&mut query.base, base);
        let (key, shapes) = (query.group_key(), query.window_shapes());
        let mut passed = Vec::new();
        // Joins first: the group goes on as it is.
        let streams = &mut self.streams;
        self.groups
            .join(streams, key, (base, uid), &shapes, &mut passed);
        self.groups
            .leave(streams, group, (before, uid), &shapes, &mut passed);
        self.report_passed(&passed, out);
    }

    pub(crate) fn drop_query(&mut self, uid: QueryUid, out: &mut Vec<Output>) {
        self.stop_query(uid, out);
        if let Some(query) = self.remove_query(uid) {
            self.by_name.remove(&query.name);
            self.end_derived(&query, out);
            out.push(Output::QueryDropped {
                uid,
                name: query.name,
            });
        }
    }

    /// With a query ends the stream that it derives.
    fn end_derived(&mut self, query: &Query, out: &mut Vec<Output>) {
        let Some(derived) = &query.derives else {
            return;
        };
        for window in &query.windows {
            if let Some(stream) = self.streams.get_mut(&window.stream) {
                stream.feeds.remove(&derived.stream);
            }
        }
        if let Some(stream) = self.streams.get(&derived.stream) {
            let iri = stream.iri().to_owned();
            self.drop_stream(&iri, out);
        }
    }

    /// Takes away what fires, once it has been stopped.
    pub(crate) fn remove_query(&mut self, uid: QueryUid) -> Option<Query> {
        let query = self.queries.remove(&uid)?;
        self.delivered.remove(&uid);
        for window in &query.windows {
            let Some(stream) = self.streams.get_mut(&window.stream) else {
                continue;
            };
            if let Some(count) = stream.windowed_by.get_mut(&uid) {
                *count -= 1;
                if *count == 0 {
                    stream.windowed_by.remove(&uid);
                }
            }
        }
        Some(query)
    }
}
