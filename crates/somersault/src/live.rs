//! Playing statements in real time, for the demo and the bench.
//!
//! Event time runs with the clock. Statements are pushed in small steps as their time comes. At the
//! end of each batch all streams advance in one record, unless only their statements are to tell
//! their time. A player that falls behind continues without pause and reports by how much.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::push::{Push, StreamStatement};
use oxrdf::{GraphName, Triple};
use somersault_model::EventTime;
use std::iter::Peekable;
use std::time::{Duration, Instant};

/// Event time of one step, in milliseconds: how finely pushes are spread over a batch.
const STEP_MS: i64 = 10;

/// A statement to be played.
#[derive(Clone, Debug)]
pub struct LiveStatement {
    /// Index into [`LivePlan::streams`].
    pub stream: usize,
    /// Its event time; never less than that of the previous statement.
    pub at: EventTime,
    /// The statement's triple.
    pub triple: Triple,
}

/// The streams and the time span of a play.
#[derive(Clone, Debug)]
pub struct LivePlan {
    /// IRIs of declared streams.
    pub streams: Vec<String>,
    /// The interval at which all streams advance, in milliseconds: the batch of the streams, or a
    /// divisor of it.
    pub batch_ms: i64,
    /// Event time at which the play starts: 0, or the end of an earlier play. A multiple of the
    /// batch.
    pub from: EventTime,
    /// Event time at which it ends; later statements are left in the iterator.
    pub until: EventTime,
    /// Whether all streams advance at the end of each interval, which makes their statements
    /// visible. If not, their times follow their statements, and they advance only at the end of
    /// the play.
    pub advances: bool,
    /// Whether event time follows the clock; if not, it runs as fast as the engine takes it.
    pub paced: bool,
}

/// The progress of a play.
#[derive(Clone, Copy, Debug, Default)]
pub struct LiveProgress {
    /// Event time reached.
    pub at: EventTime,
    /// Statements acknowledged.
    pub statements: u64,
    /// The distance of event time behind the clock.
    pub behind: Duration,
    /// Time spent in the engine's push and advance calls.
    pub in_engine: Duration,
}

/// Plays statements into an engine. `on_step` is called after each step; the play ends when it
/// returns false.
///
/// ```
/// use somersault::live::{self, LivePlan, LiveStatement};
/// use somersault::oxrdf::{NamedNode, Triple};
/// use somersault::{Engine, EngineConfig, EventTime};
/// # fn main() -> Result<(), somersault::EngineError> {
/// # let engine = Engine::open(EngineConfig::default())?;
/// # engine.create_stream(None, "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER")?;
/// let plan = LivePlan {
///     streams: vec!["urn:s".to_owned()],
///     batch_ms: 1_000,
///     from: EventTime(0),
///     until: EventTime(2_000),
///     advances: true,
///     paced: false,
/// };
/// let node = |name: &str| NamedNode::new_unchecked(name);
/// let mut statements = [500, 1_500]
///     .map(|at| LiveStatement {
///         stream: 0,
///         at: EventTime(at),
///         triple: Triple::new(node("urn:a"), node("urn:p"), node("urn:b")),
///     })
///     .into_iter()
///     .peekable();
/// let progress = live::play(&engine, &plan, &mut statements, &mut |_| true)?;
/// assert_eq!((progress.at, progress.statements), (EventTime(2_000), 2));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// The first refusal of the engine.
pub fn play(
    engine: &Engine,
    plan: &LivePlan,
    statements: &mut Peekable<impl Iterator<Item = LiveStatement>>,
    on_step: &mut dyn FnMut(LiveProgress) -> bool,
) -> Result<LiveProgress, EngineError> {
    let mut progress = LiveProgress::default();
    let mut pending: Vec<Vec<StreamStatement>> = plan.streams.iter().map(|_| Vec::new()).collect();
    let step_ms = STEP_MS.min(plan.batch_ms.max(1));
    let start = Instant::now();
    let mut boundary_ms = plan.from.0;
    while boundary_ms < plan.until.0 {
        // A step never crosses the end of a batch, so that a batch is closed as soon as its last
        // statement is in.
        let batch_end_ms = (boundary_ms.div_euclid(plan.batch_ms) + 1) * plan.batch_ms;
        boundary_ms = (boundary_ms + step_ms).min(batch_end_ms).min(plan.until.0);
        while let Some(statement) = statements.next_if(|statement| statement.at.0 < boundary_ms) {
            pending[statement.stream].push(StreamStatement {
                at: Some(statement.at),
                quad: statement.triple.in_graph(GraphName::DefaultGraph),
            });
        }
        if plan.paced {
            progress.behind = wait_until(
                start + Duration::from_millis((boundary_ms - plan.from.0).unsigned_abs()),
            );
        }
        let entered = Instant::now();
        for (iri, batch) in plan.streams.iter().zip(&mut pending) {
            if !batch.is_empty() {
                let push = Push {
                    statements: std::mem::take(batch),
                    ..Push::default()
                };
                progress.statements += engine.push(iri, push)?.accepted;
            }
        }
        if (plan.advances && boundary_ms == batch_end_ms) || boundary_ms == plan.until.0 {
            let to = EventTime(boundary_ms);
            engine.advance(plan.streams.iter().map(|iri| (iri, to)))?;
        }
        progress.in_engine += entered.elapsed();
        progress.at = EventTime(boundary_ms);
        if !on_step(progress) {
            break;
        }
    }
    Ok(progress)
}

/// Sleeps until `due`; returns how late it was already, which is zero if it had to sleep.
fn wait_until(due: Instant) -> Duration {
    let now = Instant::now();
    match due.checked_duration_since(now) {
        Some(left) => {
            std::thread::sleep(left);
            Duration::ZERO
        }
        None => now - due,
    }
}
