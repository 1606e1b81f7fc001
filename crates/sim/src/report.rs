//! The report of a run: the steps it made, or the failure with the steps that led to it and the
//! command that repeats them.

use crate::model::{PushModel, Scenario, Step, Triple};
use crate::render::{in_graph, query_text, stream_text, triple_text};
use std::fmt::Write;

/// A seed that failed, and where.
#[derive(Debug, thiserror::Error)]
#[error("seed {seed}, step {step}: {what}\nagain: {again}\nall steps of that:\n{history}")]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// The number of the step that was done when it showed.
    pub step: usize,
    /// The failure.
    pub what: String,
    /// The command that runs the seed again.
    pub again: String,
    /// The steps of that run.
    pub history: String,
}

/// The counts of a seed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Summary {
    /// Statements pushed.
    pub statements: u64,
    /// Statements too late, dropped or refused with their push.
    pub late: u64,
    /// Firings compared.
    pub firings: u64,
    /// Rows in them.
    pub rows: u64,
    /// Crashes.
    pub crashes: u64,
    /// Checkpoints that were waited for.
    pub checkpoints: u64,
    /// Restarts that began from a checkpoint.
    pub begun: u64,
    /// Updates.
    pub updates: u64,
    /// Turns of the process.
    pub turns: u64,
    /// The hash of the trace; of several runs, the sum.
    pub trace: u64,
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Summary {
            statements,
            late,
            firings,
            rows,
            crashes,
            checkpoints,
            begun,
            updates,
            turns,
            trace,
        } = self;
        write!(
            f,
            "{firings} firings with {rows} rows compared; {statements} statements, {late} too late; {updates} updates, {checkpoints} checkpoints, {crashes} crashes, {begun} from a checkpoint; {turns} turns, trace {trace:016x}"
        )
    }
}

impl std::ops::AddAssign for Summary {
    fn add_assign(&mut self, other: Summary) {
        self.statements += other.statements;
        self.late += other.late;
        self.firings += other.firings;
        self.rows += other.rows;
        self.crashes += other.crashes;
        self.checkpoints += other.checkpoints;
        self.begun += other.begun;
        self.updates += other.updates;
        self.turns += other.turns;
        self.trace = self.trace.wrapping_add(other.trace);
    }
}

/// The place and the cause of a failed run.
pub(crate) struct Fault {
    pub(crate) step: usize,
    pub(crate) what: String,
}

/// A fault as a person is told it, where those of the steps that are left were done.
pub(crate) fn failure(
    seed: u64,
    steps: usize,
    scenario: &Scenario,
    left: &[usize],
    fault: Fault,
) -> Failure {
    let numbers: Vec<String> = left.iter().map(usize::to_string).collect();
    let mut again = format!("somersault-sim --seed {seed} --steps {steps}");
    if left.len() < scenario.steps.len() {
        let _ = write!(again, " --only {}", numbers.join(","));
    }
    let mut history = String::new();
    for (number, stream) in scenario.streams.iter().enumerate() {
        let _ = writeln!(history, "  {}", stream_text(number, stream));
    }
    for at in left {
        let _ = writeln!(history, "  {at}: {}", describe(&scenario.steps[*at]));
    }
    Failure {
        seed,
        step: fault.step,
        what: fault.what,
        again,
        history,
    }
}

fn describe(step: &Step) -> String {
    match step {
        Step::Push(push) => push_text(push),
        Step::Register(number, query) => query_text(*number, query),
        Step::Replace(number, query) => format!("replace by {}", query_text(*number, query)),
        Step::Update {
            insert,
            graph,
            triple,
        } => update_text(*insert, *graph, *triple),
        other => format!("{other:?}"),
    }
}

fn push_text(push: &PushModel) -> String {
    let listed: Vec<String> = (push.statements.iter())
        .map(|s| {
            let graph = s
                .graph
                .map_or(String::new(), |graph| format!(" in g{graph}"));
            let (subject, predicate, object) = s.triple;
            format!("{} n{subject} p{predicate} n{object}{graph}", s.at_ms)
        })
        .collect();
    let twice = if push.again { " twice" } else { "" };
    format!(
        "push{twice} to stream{} by source {}: {}",
        push.stream,
        push.source,
        listed.join("; ")
    )
}

/// The update of a step.
pub(crate) fn update_text(insert: bool, graph: Option<u8>, triple: Triple) -> String {
    let operation = if insert { "INSERT" } else { "DELETE" };
    format!(
        "{operation} DATA {{ {} }}",
        in_graph(graph, &triple_text(triple))
    )
}
