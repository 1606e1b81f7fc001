//! Runs scenarios: a seed, a part of one, one with a bug planted, one twice.

use crate::draw::Draw;
use crate::generate;
use crate::model::Scenario;
use crate::report::{Failure, Fault, Summary, failure};
use crate::shrink;
use crate::simulation::Simulation;
use crate::trace::{Trace, TraceEvent};
use crate::twin::Plant;
use std::panic::resume_unwind;

/// Runs a seed for `steps` steps; if it fails, looks for fewer steps that fail too.
///
/// # Errors
/// The failure, and the command that repeats it.
pub fn run(seed: u64, steps: usize) -> Result<Summary, Failure> {
    let scenario = generate::scenario(seed, steps);
    let all: Vec<usize> = (0..scenario.steps.len()).collect();
    execute(seed, &scenario, &all, None, &Trace::default()).map_err(|fault| {
        let run =
            |fewer: &[usize]| execute(seed, &scenario, fewer, None, &Trace::default()).map(drop);
        let (fault, left) = shrink::shrink(scenario.steps.len(), fault, run);
        failure(seed, steps, &scenario, &left, fault)
    })
}

/// Runs some steps of a seed only, by number.
///
/// # Errors
/// As [`run`].
pub fn run_part(seed: u64, steps: usize, only: &[usize]) -> Result<Summary, Failure> {
    let scenario = generate::scenario(seed, steps);
    let only: Vec<usize> = (only.iter().copied())
        .filter(|at| *at < scenario.steps.len())
        .collect();
    execute(seed, &scenario, &only, None, &Trace::default())
        .map_err(|fault| failure(seed, steps, &scenario, &only, fault))
}

/// Runs a seed with a bug planted.
///
/// # Errors
/// As [`run`]: what a run that sees the bug says.
pub fn run_planted(seed: u64, steps: usize, plant: Plant) -> Result<Summary, Failure> {
    let scenario = generate::scenario(seed, steps);
    let all: Vec<usize> = (0..scenario.steps.len()).collect();
    execute(seed, &scenario, &all, Some(plant), &Trace::default())
        .map_err(|fault| failure(seed, steps, &scenario, &[], fault))
}

/// Runs a seed and returns its trace, whether it passes or not.
pub fn trace_of(seed: u64, steps: usize) -> Trace {
    let scenario = generate::scenario(seed, steps);
    let all: Vec<usize> = (0..scenario.steps.len()).collect();
    let trace = Trace::default();
    if let Err(fault) = execute(seed, &scenario, &all, None, &trace) {
        trace.note_answer(&fault.what);
    }
    trace
}

/// Runs a seed twice: both runs must do the same to the byte.
///
/// # Errors
/// As [`run`], and where the runs first differ.
pub fn run_twice(seed: u64, steps: usize) -> Result<Summary, Failure> {
    let scenario = generate::scenario(seed, steps);
    let all: Vec<usize> = (0..scenario.steps.len()).collect();
    let (first, second) = (Trace::default(), Trace::default());
    let run = |trace: &Trace| execute(seed, &scenario, &all, None, trace);
    let [outcome, _] = [run(&first), run(&second)];
    let difference = first
        .difference(&second)
        .map(|what| Fault { step: 0, what });
    let outcome = difference.map_or(outcome, Err);
    outcome.map_err(|fault| failure(seed, steps, &scenario, &all, fault))
}

/// The stack of a run: deeply nested patterns are evaluated by recursion.
const STACK_BYTES: usize = 16 << 20;

/// Does the given steps of a scenario, on a thread of their own.
pub(crate) fn execute(
    seed: u64,
    scenario: &Scenario,
    steps: &[usize],
    plant: Option<Plant>,
    trace: &Trace,
) -> Result<Summary, Fault> {
    let run = || execute_here(seed, scenario, steps, plant, trace);
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
        let thread = thread.spawn_scoped(scope, run).map_err(|error| Fault {
            step: 0,
            what: format!("its thread cannot be started: {error}"),
        })?;
        thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

fn execute_here(
    seed: u64,
    scenario: &Scenario,
    steps: &[usize],
    plant: Option<Plant>,
    trace: &Trace,
) -> Result<Summary, Fault> {
    let mut at = 0;
    let mut run = || -> Result<Summary, String> {
        let mut simulation = Simulation::open(seed, scenario, plant, trace)?;
        for step in steps {
            at = *step;
            trace.note(TraceEvent::Step(at));
            // The same whichever steps are left out.
            let mut draw = Draw::new(seed.rotate_left(32) ^ at as u64);
            simulation.step(&scenario.steps[*step])?;
            simulation.derive()?;
            simulation.pass_time(&mut draw)?;
            simulation.read(&mut draw)?;
        }
        simulation.heal()
    };
    run().map_err(|what| Fault { step: at, what })
}
