//! Incremental evaluation of registered queries: whether a firing keeps rows, and which firing has
//! them. The one thing to know before changing it: kept rows belong to one firing at a time, in the
//! order of closes. A firing that finds them taken, or ahead of it, evaluates the whole at once:
//! arrival order affects latency, never the answer.

use crate::resources::{DeltaMode, Settings, Stopwatch};
use parking_lot::Mutex;
use somersault_lang::{ContinuousQuery, Extent};
use somersault_model::TermId;
use somersault_query::{
    Answer, Cells, Execution, GroupAnswer, Grouped, Grouping, IncrementalQuery, Invocation, Mode,
    Prepared, QueryError, RetainedRows, SnapshotView,
};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A query that is evaluated in less time is not tried incrementally. It could gain little, and a
/// trial holds up one close by milliseconds, since it makes a plan for each pattern that reads a
/// window.
const WORTH: Duration = Duration::from_micros(250);
/// The number of executions of either kind that are timed, after a first one that is not timed
/// because it makes plans or rows.
const TIMED: usize = 3;
/// The least time that incremental evaluation is given before the whole is evaluated instead; it is
/// given several times what the whole takes if that is more. Keeping rows may mean making far more
/// rows than an answer needs.
const PATIENCE: Duration = Duration::from_millis(20);
/// After this many incremental executions, both kinds are timed again.
const SETTLED: u32 = 4096;
/// After this many executions without kept rows, incremental evaluation is tried again. The pause
/// doubles each time that it is not worth it, and is the longest at once if rows cannot be kept.
const PAUSE: u32 = 64;
const LONGEST_PAUSE: u32 = 1 << 14;

/// A query, or a group of queries, that a firing evaluates.
pub(crate) trait Evaluable {
    type Answer;

    /// Returns the values of its parameters; `None` if it stands for many queries.
    fn ids(&self) -> Option<&[TermId]>;

    /// Takes it apart to keep rows, or returns why that is not possible.
    fn maintained(&self, view: &SnapshotView) -> Result<IncrementalQuery, &'static str>;

    /// Evaluates it as a whole.
    fn whole(&self, view: &SnapshotView, execution: &Execution)
    -> Result<Self::Answer, QueryError>;

    /// Evaluates it from kept rows.
    fn evaluate_kept(
        &self,
        maintained: &IncrementalQuery,
        kept: &mut Option<RetainedRows>,
        view: &mut SnapshotView,
        execution: &Execution,
    ) -> Result<(Self::Answer, Mode), QueryError>;
}

/// One query with the values of its parameters.
pub(crate) struct SingleTarget<'q>(pub(crate) &'q Prepared, pub(crate) &'q [TermId]);

impl Evaluable for SingleTarget<'_> {
    type Answer = Answer;

    fn ids(&self) -> Option<&[TermId]> {
        Some(self.1)
    }

    fn maintained(&self, view: &SnapshotView) -> Result<IncrementalQuery, &'static str> {
        IncrementalQuery::new(self.0, self.1, view)
    }

    fn whole(&self, view: &SnapshotView, execution: &Execution) -> Result<Answer, QueryError> {
        self.0.run(Invocation::new(view, execution).ids(self.1))
    }

    fn evaluate_kept(
        &self,
        maintained: &IncrementalQuery,
        kept: &mut Option<RetainedRows>,
        view: &mut SnapshotView,
        execution: &Execution,
    ) -> Result<(Answer, Mode), QueryError> {
        maintained.run(kept, view, execution)
    }
}

/// All queries of a group at once.
pub(crate) struct GroupTarget<'q>(pub(crate) &'q Grouped, pub(crate) &'q Cells);

impl Evaluable for GroupTarget<'_> {
    type Answer = GroupAnswer;

    fn ids(&self) -> Option<&[TermId]> {
        None
    }

    fn maintained(&self, view: &SnapshotView) -> Result<IncrementalQuery, &'static str> {
        self.0.maintained(view)
    }

    fn whole(&self, view: &SnapshotView, execution: &Execution) -> Result<GroupAnswer, QueryError> {
        self.0.run(self.1, view, execution)
    }

    fn evaluate_kept(
        &self,
        maintained: &IncrementalQuery,
        kept: &mut Option<RetainedRows>,
        view: &mut SnapshotView,
        execution: &Execution,
    ) -> Result<(GroupAnswer, Mode), QueryError> {
        maintained.run_cells(self.1, kept, view, execution)
    }
}

/// The incremental evaluation of one registered query, or of a group.
pub(crate) struct Incremental {
    mode: DeltaMode,
    stopwatch: Stopwatch,
    /// Why rows are not kept over its windows.
    obstacle: Option<&'static str>,
    /// `None` before the first execution.
    state: Mutex<Option<Box<State>>>,
    kept_bytes: AtomicU64,
    /// Set when kept rows are no longer wanted; the thread that has them drops them.
    forgets: AtomicBool,
}

#[derive(Default)]
struct State {
    maintained: Option<Decomposition>,
    kept: Option<RetainedRows>,
    pace: Pace,
}

/// The query or group, taken apart; or why that is not possible.
struct Decomposition {
    /// The [`Evaluable::ids`] at the time.
    ids: Option<Vec<TermId>>,
    outcome: Result<IncrementalQuery, &'static str>,
}

impl Incremental {
    pub(crate) fn new(settings: &Settings, query: &ContinuousQuery) -> Incremental {
        let mode = settings.delta;
        Incremental {
            mode,
            stopwatch: settings.stopwatch.clone(),
            obstacle: obstacle(mode, query),
            state: Mutex::default(),
            kept_bytes: AtomicU64::new(0),
            forgets: AtomicBool::new(false),
        }
    }

    /// Returns the memory of the kept rows and of their groups, in bytes.
    pub(crate) fn kept_bytes(&self) -> u64 {
        self.kept_bytes.load(Ordering::Relaxed)
    }

    /// Drops the kept rows, which hold statements of the windows that they were found in.
    pub(crate) fn forget(&self) {
        self.forgets.store(true, Ordering::SeqCst);
        self.forget_where_asked();
    }

    fn forget_where_asked(&self) {
        // A thread that has the rows also calls this when it returns them.
        if self.forgets.load(Ordering::SeqCst)
            && let Some(mut state) = self.state.try_lock()
        {
            self.forgets.store(false, Ordering::SeqCst);
            if let Some(state) = state.as_mut() {
                state.kept = None;
            }
            self.kept_bytes.store(0, Ordering::Relaxed);
        }
    }

    /// Returns lines of EXPLAIN that say whether a query or a group is evaluated incrementally, and
    /// what is kept.
    pub(crate) fn explain(&self, evaluable: &impl Evaluable, view: &SnapshotView) -> String {
        let maintained = (self.obstacle).map_or_else(|| evaluable.maintained(view), Err);
        let grouping = match maintained {
            Ok(maintained) => maintained.grouping(),
            Err(obstacle) => return format!("evaluated as a whole at each close: {obstacle}\n"),
        };
        let when = match self.mode {
            DeltaMode::Auto => " when faster",
            DeltaMode::Always | DeltaMode::Never => "",
        };
        let groups = match grouping {
            Grouping::None => String::new(),
            Grouping::Retained => {
                "groups are retained too: only groups that gained or lost rows are updated\n"
                    .to_owned()
            }
            Grouping::Rebuilt(why) => {
                format!("groups are rebuilt from all retained rows at each close: {why}\n")
            }
        };
        let members = match evaluable.ids() {
            Some(_) => "",
            None => ", when a combination of constants is added or removed",
        };
        format!(
            "incremental{when}: join rows are retained between closes and updated from arrived and expired statements; as a whole at \
             the first close{members}, and when its part of the stored graphs has changed or a window has not merely slid\n{groups}"
        )
    }

    /// Evaluates a query, or a group, for a firing.
    pub(crate) fn execute<E: Evaluable>(
        &self,
        evaluable: &E,
        view: &mut SnapshotView,
        execution: &Execution,
    ) -> Result<E::Answer, QueryError> {
        if self.obstacle.is_some() {
            return evaluable.whole(view, execution);
        }
        let locked = self.state.try_lock().filter(|state| {
            let kept = state.as_ref().and_then(|state| state.kept.as_ref());
            !kept.is_some_and(|kept| kept.is_ahead_of(execution.close, view))
        });
        let Some(mut locked) = locked else {
            return evaluable.whole(view, execution);
        };
        let state = locked.get_or_insert_default();
        let answer = state.execute(evaluable, view, execution, (self.mode, &self.stopwatch));
        let bytes = state.kept.as_ref().map_or(0, |kept| kept.bytes() as u64);
        self.kept_bytes.store(bytes, Ordering::Relaxed);
        drop(locked);
        self.forget_where_asked();
        answer
    }
}

impl State {
    fn execute<E: Evaluable>(
        &mut self,
        evaluable: &E,
        view: &mut SnapshotView,
        execution: &Execution,
        (mode, stopwatch): (DeltaMode, &Stopwatch),
    ) -> Result<E::Answer, QueryError> {
        let keeps = mode == DeltaMode::Always || self.pace.keeps();
        if !keeps {
            self.kept = None;
            let started = stopwatch.now();
            let answer = evaluable.whole(view, execution)?;
            self.pace.took(None, stopwatch.now() - started);
            return Ok(answer);
        }
        let ids = evaluable.ids();
        let is_of_it = |taken: &Decomposition| taken.ids.as_deref() == ids;
        if !self.maintained.as_ref().is_some_and(is_of_it) {
            self.kept = None;
            self.maintained = Some(Decomposition {
                ids: ids.map(<[TermId]>::to_vec),
                outcome: evaluable.maintained(view),
            });
        }
        let taken = self.maintained.as_ref();
        let Some(Ok(maintained)) = taken.map(|taken| &taken.outcome) else {
            self.pace.stop();
            return evaluable.whole(view, execution);
        };
        let mut limited = execution.clone();
        let time = execution.limits.query_time;
        let patience = match stopwatch.stops_executions() {
            true => time.min(self.pace.patience(mode)),
            false => time,
        };
        let patience = Instant::now() + patience;
        limited.deadline = Some(execution.deadline.map_or(patience, |own| own.min(patience)));
        let started = stopwatch.now();
        match evaluable.evaluate_kept(maintained, &mut self.kept, view, &limited) {
            Ok((answer, way)) => {
                self.pace.took(Some(way), stopwatch.now() - started);
                Ok(answer)
            }
            // An evaluation that keeps no rows may need less: it may not need all of them.
            Err(QueryError::Memory { .. } | QueryError::TableRows | QueryError::Time { .. }) => {
                self.pace.stop();
                evaluable.whole(view, execution)
            }
            Err(error) => Err(error),
        }
    }
}

/// Decides from execution times whether rows are kept. It affects how an answer is found, never
/// what it is.
#[derive(Default)]
struct Pace {
    phase: Phase,
    /// The usual time of the whole when it was last timed.
    whole: Duration,
    times: Vec<Duration>,
    last_pause: u32,
}

#[derive(Default)]
enum Phase {
    /// The whole is evaluated and timed.
    #[default]
    Whole,
    /// Rows are kept and executions are timed.
    Trial,
    /// Rows are kept for another `left` executions; `rebuilt` executions had to rebuild them.
    Kept { left: u32, rebuilt: u32 },
    /// No rows are kept for another `left` executions.
    Pause { left: u32 },
}

impl Pace {
    fn keeps(&self) -> bool {
        matches!(self.phase, Phase::Trial | Phase::Kept { .. })
    }

    /// Returns how long an execution that keeps rows may take before the whole is evaluated
    /// instead.
    fn patience(&self, mode: DeltaMode) -> Duration {
        match mode {
            DeltaMode::Auto => PATIENCE.max(8 * self.whole),
            DeltaMode::Always | DeltaMode::Never => Duration::MAX,
        }
    }

    /// Notes how long an execution took, with kept rows or without.
    fn took(&mut self, way: Option<Mode>, time: Duration) {
        match &mut self.phase {
            Phase::Whole | Phase::Trial => self.times.push(time),
            Phase::Kept { left, rebuilt } => {
                *left = left.saturating_sub(1);
                *rebuilt += u32::from(way == Some(Mode::Rebuilt));
                // Rows that are rebuilt every other time cost more than they save.
                if *left == 0 || *rebuilt > (SETTLED - *left) / 2 + TIMED as u32 {
                    self.begin(Phase::Whole);
                }
            }
            Phase::Pause { left } => {
                *left = left.saturating_sub(1);
                if *left == 0 {
                    self.begin(Phase::Whole);
                }
            }
        }
        if self.times.len() <= TIMED {
            return;
        }
        // The first execution made a plan, or the rows.
        self.times.remove(0);
        self.times.sort_unstable();
        let usual = self.times[TIMED / 2];
        match self.phase {
            Phase::Whole if usual < WORTH => self.pause(),
            Phase::Whole => {
                self.whole = usual;
                self.begin(Phase::Trial);
            }
            _ if usual * 10 < self.whole * 9 => {
                self.last_pause = 0;
                self.begin(Phase::Kept {
                    left: SETTLED,
                    rebuilt: 0,
                });
            }
            _ => self.pause(),
        }
    }

    /// Pauses for the longest time, since rows cannot be kept.
    fn stop(&mut self) {
        self.last_pause = LONGEST_PAUSE;
        self.pause();
    }

    fn pause(&mut self) {
        let pause = (2 * self.last_pause).clamp(PAUSE, LONGEST_PAUSE);
        self.last_pause = pause;
        self.begin(Phase::Pause { left: pause });
    }

    fn begin(&mut self, phase: Phase) {
        self.phase = phase;
        self.times.clear();
    }
}

/// Returns why rows are not kept over the windows of a query, or `None` if they may be.
fn obstacle(mode: DeltaMode, query: &ContinuousQuery) -> Option<&'static str> {
    if mode == DeltaMode::Never {
        return Some("the engine's setting forbids incremental evaluation");
    }
    if query.is_live() {
        // What it can keep is another thing (`live`).
        return Some("it has no window");
    }
    let mut extents = query.windows.iter().map(|window| window.extent);
    if extents.any(|extent| matches!(extent, Extent::Statements { .. })) {
        return Some("it has a window of a number of statements");
    }
    let overlaps = |extent: Extent| match extent {
        Extent::Time { range, step, .. } => step.is_none_or(|step| range.0 >= 2 * step.0),
        Extent::All => true,
        Extent::Now | Extent::Statements { .. } => false,
    };
    let mut extents = query.windows.iter().map(|window| window.extent);
    let gains = mode == DeltaMode::Always || extents.any(overlaps);
    (!gains).then_some(
        "none of its windows has a RANGE of at least twice its STEP, so little stays from close to close",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const MICROS: Duration = Duration::from_micros(1);

    /// Plays executions that take `whole` or `delta` microseconds, and returns which of them kept
    /// rows.
    fn play(pace: &mut Pace, executions: usize, (whole, delta): (u32, u32)) -> Vec<bool> {
        let one = |_| {
            let keeps = pace.keeps();
            match keeps {
                true => pace.took(Some(Mode::Incremental), delta * MICROS),
                false => pace.took(None, whole * MICROS),
            }
            keeps
        };
        (0..executions).map(one).collect()
    }

    #[test]
    fn the_quicker_way_is_kept() {
        let round = TIMED + 1;
        let mut pace = Pace::default();
        let kept = play(&mut pace, 100, (900, 300));
        assert!(kept[..round].iter().all(|kept| !kept));
        assert!(kept[round..].iter().all(|kept| *kept));
        let mut pace = Pace::default();
        let kept = play(&mut pace, 60, (900, 850));
        let tried = kept.iter().filter(|kept| **kept).count();
        assert_eq!(tried, round, "{kept:?}");
        let mut pace = Pace::default();
        assert_eq!(play(&mut pace, 100, (200, 1)), [false; 100]);
    }

    #[test]
    fn the_slower_way_is_tried_ever_more_rarely() {
        let mut pace = Pace::default();
        let kept = play(&mut pace, 10_000, (400, 800));
        let tried = kept.iter().filter(|kept| **kept).count();
        assert_eq!(tried % (TIMED + 1), 0);
        assert!((2..10).contains(&(tried / (TIMED + 1))), "{tried}");
    }

    #[test]
    fn rows_that_are_always_rebuilt_are_no_longer_kept() {
        let mut pace = Pace::default();
        play(&mut pace, 20, (900, 300));
        assert!(pace.keeps());
        for _ in 0..100 {
            pace.took(Some(Mode::Rebuilt), 1200 * MICROS);
        }
        assert!(!matches!(pace.phase, Phase::Kept { .. }));
    }
}
