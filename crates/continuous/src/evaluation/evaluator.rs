//! Evaluates the queries of a cohort for a firing: all cells together where constants of the shape
//! can become variables, and otherwise one by one.
//!
//! Before changing anything here: a firing is evaluated for the cells that existed when it began.
//! Members join and leave meanwhile, so nothing here asks the cohort for its members.

use super::firing;
use super::incremental::{GroupTarget, Incremental, SingleTarget};
use super::outcome::Outcome;
use crate::resources::Resources;
use parking_lot::{Mutex, RwLock};
use rustc_hash::FxHashMap;
use somersault_lang::Parser;
use somersault_query::{
    Answer as Evaluated, Cells, Execution, GroupAnswer, Grouped, Invocation, Prepared, QueryError,
    SnapshotView,
};
use somersault_results::Answer;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// The number of cells that a helping thread takes at a time, where cells are evaluated one by one.
const CELLS_AT_ONCE: usize = 8;

/// The evaluation of queries of the shape.
pub(crate) enum Evaluator {
    /// One prepared query; all cells are evaluated together where that means the same.
    Shared {
        single: Prepared,
        together: Together,
        /// The incremental evaluation of a single cell, or of all together.
        delta: Incremental,
    },
    /// The shape cannot have parameters: each cell has its own query.
    Each {
        parser: Parser,
        prepared: RwLock<Arc<OwnQueries>>,
    },
    /// The text does not parse; holds the reason.
    Broken(String),
}

/// The query of all cells at once. Most cohorts only ever have one cell, so it is made when it is
/// first asked for.
pub(crate) struct Together {
    is_possible: bool,
    made: OnceLock<Grouped>,
}

impl Together {
    /// For a query with parameters, if constants of its shape can become variables.
    pub(crate) fn new(single: &Prepared, is_shared: bool) -> Together {
        Together {
            is_possible: is_shared && Grouped::new(single).is_some(),
            made: OnceLock::new(),
        }
    }

    /// Whether several cells are evaluated together.
    pub(crate) fn is_possible(&self) -> bool {
        self.is_possible
    }

    /// Returns the query; `None` where each cell is evaluated by itself.
    pub(crate) fn query(&self, single: &Prepared) -> Option<&Grouped> {
        if !self.is_possible || self.made.get().is_some() {
            return self.made.get();
        }
        let grouped = Grouped::new(single)?;
        Some(self.made.get_or_init(|| grouped))
    }
}

/// The queries of cells that have their own.
pub(crate) type OwnQueries = FxHashMap<u32, Result<Prepared, String>>;

impl Evaluator {
    /// Evaluates cells; `own` holds the queries of cells that have their own.
    pub(crate) fn evaluate(
        &self,
        (cells, own): (&Cells, &OwnQueries),
        view: &mut SnapshotView,
        execution: &Execution,
        resources: &Resources,
    ) -> Outcome {
        let mut outcome = Outcome::new(resources.environment().limits().result_rows);
        match self {
            Evaluator::Broken(error) => return Outcome::failed(error.clone()),
            Evaluator::Shared { single, delta, .. } if cells.len() == 1 => {
                for cell in cells.numbers() {
                    let query = SingleTarget(single, cells.get(cell));
                    let answer = delta.execute(&query, view, execution);
                    let answer = answer.map_err(firing::sentence);
                    outcome.add_one(cell, wrap(answer, resources));
                }
            }
            Evaluator::Shared {
                single,
                together,
                delta,
            } => {
                let several = (cells.len() > 1).then_some(together);
                let Some(grouped) = several.and_then(|it| it.query(single)) else {
                    delta.forget();
                    let view = &*view;
                    let one = |cell: u32, execution: &Execution| {
                        single
                            .run(Invocation::new(view, execution).ids(cells.get(cell)))
                            .map_err(firing::sentence)
                    };
                    each(cells, execution, resources, &one, &mut outcome);
                    return outcome;
                };
                // One firing's time for all together, and as much again for the halves if that
                // fails.
                let until = Instant::now() + 2 * execution.limits.query_time;
                let within = until_half_of(until, execution);
                let answer = delta.execute(&GroupTarget(grouped, cells), view, &within);
                add_or_halve(
                    answer,
                    (grouped, single),
                    cells,
                    view,
                    (execution, until),
                    resources,
                    &mut outcome,
                );
            }
            Evaluator::Each { .. } => {
                let view = &*view;
                let one = |cell: u32, execution: &Execution| {
                    let own = own.get(&cell).cloned();
                    let own = own.unwrap_or_else(|| Err("the query is not prepared".to_owned()))?;
                    own.run(Invocation::new(view, execution))
                        .map_err(firing::sentence)
                };
                each(cells, execution, resources, &one, &mut outcome);
            }
        }
        outcome
    }
}

/// Adds the answer of all these cells. If they hit a limit together that one cell alone might not,
/// they are evaluated in halves: the first may take half of the time that is left, the second the
/// rest.
fn add_or_halve(
    answer: Result<GroupAnswer, QueryError>,
    (grouped, single): (&Grouped, &Prepared),
    cells: &Cells,
    view: &SnapshotView,
    (execution, until): (&Execution, Instant),
    resources: &Resources,
    outcome: &mut Outcome,
) {
    match answer {
        Ok(answer) => outcome.add(answer),
        Err(error @ (QueryError::Cancelled | QueryError::PinExpired)) => {
            *outcome = Outcome::failed(error.to_string());
        }
        Err(error) => {
            let numbers: Vec<u32> = cells.numbers().collect();
            if let [cell] = numbers[..] {
                let alone = Execution {
                    deadline: Some(until),
                    ..execution.clone()
                };
                let alone = Invocation::new(view, &alone).ids(cells.get(cell));
                let answer = single.run(alone);
                outcome.add_one(cell, wrap(answer.map_err(firing::sentence), resources));
                return;
            }
            if Instant::now() >= until {
                let error = firing::sentence(error);
                (numbers.iter()).for_each(|cell| outcome.add_one(*cell, Err(error.clone())));
                return;
            }
            let (first, second) = numbers.split_at(numbers.len() / 2);
            for (half, until) in [(first, half_of_the_time(until)), (second, until)] {
                let part = cells.part(half);
                let answer = grouped.run(&part, view, &until_half_of(until, execution));
                add_or_halve(
                    answer,
                    (grouped, single),
                    &part,
                    view,
                    (execution, until),
                    resources,
                    outcome,
                );
            }
        }
    }
}

/// Returns an execution that has half of the time left until `until`.
fn until_half_of(until: Instant, execution: &Execution) -> Execution {
    Execution {
        deadline: Some(half_of_the_time(until)),
        ..execution.clone()
    }
}

fn half_of_the_time(until: Instant) -> Instant {
    let now = Instant::now();
    now + until.saturating_duration_since(now) / 2
}

/// Evaluates the cells one by one, on all free threads if there are many cells.
fn each(
    cells: &Cells,
    execution: &Execution,
    resources: &Resources,
    one: &(dyn Fn(u32, &Execution) -> Result<Evaluated, String> + Sync),
    outcome: &mut Outcome,
) {
    let numbers: Vec<u32> = cells.numbers().collect();
    let workers = execution.workers.as_deref();
    let Some(workers) =
        workers.filter(|workers| workers.limit() > 1 && numbers.len() > CELLS_AT_ONCE)
    else {
        for cell in numbers {
            outcome.add_one(cell, wrap(one(cell, execution), resources));
        }
        return;
    };
    // Threads help with cells here, not within one cell.
    let alone = Execution {
        workers: None,
        ..execution.clone()
    };
    let next = AtomicUsize::new(0);
    let all = Mutex::new(outcome);
    workers.for_each_share(workers.limit(), &|_| {
        loop {
            let from = next.fetch_add(CELLS_AT_ONCE, Ordering::Relaxed);
            let Some(part) = numbers.get(from..) else {
                return;
            };
            for cell in part.iter().take(CELLS_AT_ONCE) {
                let answer = wrap(one(*cell, &alone), resources);
                all.lock().add_one(*cell, answer);
            }
        }
    });
}

fn wrap(answer: Result<Evaluated, String>, resources: &Resources) -> Result<Answer, String> {
    answer.map(|answer| Answer::new(answer, Arc::clone(resources.decoder())))
}

pub(crate) fn own(parser: &Parser, text: &str) -> Result<Prepared, String> {
    let query = parser.parse_continuous(text);
    query
        .map(|query| Prepared::new(query.query))
        .map_err(|error| error.to_string())
}
