//! The registered continuous queries: from a declaration to windows on streams, and from a close to a firing.
//!
//! Before changing anything here: a window's `kept_from` is fixed when the query is registered (or its closes begin),
//! from what the streams *logically* retain then. A firing never reads below it, even where slices happen to be there
//! still, so that its content follows from the log alone.

use crate::coordinator::Coordinator;
use crate::declaration::QueryDeclaration;
use crate::groups::{Group, GroupId, GroupKey, Streams};
use crate::output::{Firing, Output, WindowBatches};
use crate::schedule::{Schedule, WindowShape};
use somersault_log::Resolved;
use somersault_model::{BatchNumber, EventTime, Millis, QueryUid, Sn, StreamUid};
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
    /// In the order of the text.
    windows: Vec<Window>,
    pub(crate) state: State,
    pub(crate) firings: u64,
    pub(crate) last_close: Option<EventTime>,
    pub(crate) passed_in_bulk: u64,
    pub(crate) passed_while_paused: u64,
}

/// Whether a query fires.
#[derive(Clone, Copy, Debug)]
pub(crate) enum State {
    /// For the closes of its group after `base`.
    Running { group: GroupId, base: EventTime },
    /// Not. `next` is the close that it would have fired for next, where its closes had begun.
    Paused { next: Option<EventTime> },
}

/// One window of a query.
#[derive(Clone, Copy, Debug)]
struct Window {
    stream: StreamUid,
    shape: WindowShape,
    /// The first batch that the stream retained when the query was registered or resumed.
    kept_from: BatchNumber,
}

/// When the query fires: at every close of any window, or at those of COMPUTED EVERY.
pub(crate) fn schedule_of(declaration: &QueryDeclaration) -> Schedule {
    match declaration.computed_every {
        Some(every) => Schedule::new(declaration.starting_at, [every]),
        None => Schedule::new(
            declaration.starting_at,
            declaration.windows.iter().map(|window| window.step),
        ),
    }
}

impl Query {
    /// The distinct streams that it windows, ascending.
    pub(crate) fn streams(&self) -> BTreeSet<StreamUid> {
        self.windows.iter().map(|window| window.stream).collect()
    }

    pub(crate) fn group_key(&self) -> GroupKey {
        GroupKey {
            streams: self.streams().into_iter().collect(),
            schedule: schedule_of(&self.declaration),
        }
    }

    /// The first close of this query at or after `close`, a close of its group.
    pub(crate) fn first_close_from(&self, close: EventTime, schedule: &Schedule) -> EventTime {
        match self.state {
            State::Running { base, .. } => schedule.first_after(base).max(close),
            State::Paused { .. } => close,
        }
    }

    fn window_shapes(&self) -> Vec<(StreamUid, WindowShape)> {
        self.windows
            .iter()
            .map(|window| (window.stream, window.shape))
            .collect()
    }

    /// The firing of this query for a close of its group.
    pub(crate) fn firing(
        &self,
        streams: &Streams,
        group: &Group,
        close: EventTime,
        sn: Sn,
    ) -> Firing {
        let mut complete_from = None;
        let windows = self.windows.iter().map(|window| {
            let stream = &streams[&window.stream];
            let (from, to) = window.shape.span_at(close);
            let kept_with_group = group.kept_from.get(&window.stream);
            let kept = window
                .kept_from
                .max(kept_with_group.copied().unwrap_or(window.kept_from));
            let seen_from = stream
                .begin
                .unwrap_or(EventTime::MIN)
                .max(kept.start(stream.interval()));
            if from < seen_from {
                complete_from = complete_from.max(Some(seen_from));
            }
            let hi = stream.batch_of(to);
            WindowBatches {
                stream: window.stream,
                lo: stream.batch_of(from).max(kept).min(hi),
                hi,
                range_batches: window.shape.range.0 / stream.interval().0,
                step_batches: window.shape.step.0 / stream.interval().0,
            }
        });
        let windows = windows.collect();
        Firing {
            query: self.uid,
            close,
            ordinal: 0,
            revision: 0,
            sn,
            windows,
            complete_from,
        }
    }
}

impl Coordinator {
    /// The latest of the times that a command resolved to: no close at or before it fires.
    fn base_of(resolved: &Resolved) -> EventTime {
        let times = resolved.stream_times.iter().map(|(_, time)| *time);
        times.max().unwrap_or(EventTime::MIN)
    }

    pub(crate) fn register_query(
        &mut self,
        (name, text, namespace): (&str, &str, Option<&str>),
        declaration: QueryDeclaration,
        resolved: &Resolved,
        out: &mut Vec<Output>,
    ) {
        let uid = resolved
            .query
            .expect("a registration is logged with the query's uid");
        let windows = declaration.windows.iter().map(|window| Window {
            stream: *self
                .by_iri
                .get(window.stream.as_str())
                .expect("admission refuses windows on unknown streams"),
            shape: WindowShape {
                origin: declaration.starting_at,
                range: window.range,
                step: window.step,
            },
            kept_from: BatchNumber(i64::MIN),
        });
        let query = Query {
            uid,
            name: name.to_owned(),
            text: text.to_owned(),
            namespace: namespace.map(str::to_owned),
            windows: windows.collect(),
            declaration: Arc::new(declaration),
            state: State::Paused { next: None },
            firings: 0,
            last_close: None,
            passed_in_bulk: 0,
            passed_while_paused: 0,
        };
        for window in &query.windows {
            if let Some(stream) = self.streams.get_mut(&window.stream) {
                *stream.windowed_by.entry(query.name.clone()).or_default() += 1;
            }
        }
        self.next_query = self.next_query.max(uid.0 + 1);
        self.by_name.insert(query.name.clone(), uid);
        self.queries.insert(uid, query);
        out.push(Output::QueryRegistered {
            uid,
            name: name.to_owned(),
            text: text.to_owned(),
            namespace: namespace.map(str::to_owned),
            first_close: resolved.first_close,
        });
        self.start_query(uid, resolved, out);
    }

    /// Puts a query into its group, to fire for the closes after the times that the command resolved to.
    fn start_query(&mut self, uid: QueryUid, resolved: &Resolved, out: &mut Vec<Output>) {
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
        query.state = State::Running { group, base };
        let first_close = resolved.first_close;
        assert!(
            first_close.is_none() || self.groups.get(group).next_of(base) == first_close,
            "S5: query {} first fires at the close that its command resolved to",
            query.name
        );
        self.report_passed(&passed, out);
    }

    /// Takes a query out of its group. Returns the close that it would have fired for next.
    fn stop_query(&mut self, uid: QueryUid, out: &mut Vec<Output>) -> Option<EventTime> {
        let query = self.queries.get(&uid)?;
        let State::Running { group, base } = query.state else {
            return None;
        };
        let next = self.groups.get(group).next_of(base);
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
            query.passed_while_paused += schedule_of(&query.declaration).count(next, base);
        }
        out.push(Output::QueryResumed {
            uid,
            first_close: resolved.first_close,
        });
        self.start_query(uid, resolved, out);
    }

    pub(crate) fn drop_query(&mut self, uid: QueryUid, out: &mut Vec<Output>) {
        self.stop_query(uid, out);
        let Some(query) = self.queries.remove(&uid) else {
            return;
        };
        self.by_name.remove(&query.name);
        self.delivered.remove(&uid);
        for window in &query.windows {
            let Some(stream) = self.streams.get_mut(&window.stream) else {
                continue;
            };
            if let Some(count) = stream.windowed_by.get_mut(&query.name) {
                *count -= 1;
                if *count == 0 {
                    stream.windowed_by.remove(&query.name);
                }
            }
        }
        out.push(Output::QueryDropped {
            uid,
            name: query.name,
        });
    }
}

impl QueryDeclaration {
    /// When the query fires and what its windows then hold, in sentences, for EXPLAIN.
    pub fn explain(&self) -> String {
        use std::fmt::Write;
        let mut text = String::new();
        let since = match self.starting_at.0 {
            0 => String::new(),
            origin => format!("{origin} ms + "),
        };
        for window in &self.windows {
            let (range, step) = (window.range.0, window.step.0);
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "window on <{}>: closes at c = {since}k·{step} ms; holds c − {range} ms ≤ event time < c, each triple once",
                window.stream.as_str()
            );
        }
        let _ = match self.computed_every {
            Some(Millis(every)) => writeln!(
                text,
                "fires at t = {since}k·{every} ms (COMPUTED EVERY); each window shows its latest close ≤ t"
            ),
            None => writeln!(
                text,
                "fires at every close of any window; each window shows its latest close ≤ t"
            ),
        };
        let _ = writeln!(
            text,
            "a close is due when every stream is complete through it, and is reported empty or not; of more than {} consecutive closes due at once \
             whose windows hold nothing only the last fires, even if the stored graph alone would have given rows at the others",
            crate::groups::BULK_RUN
        );
        text
    }
}
