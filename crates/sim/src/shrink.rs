//! Looks for fewer steps of a scenario that still fail: leaves out halves, quarters and so on, as
//! long as time allows. Any part of a scenario is a scenario, since the twin decides the outcome of
//! each step, also of a step whose precondition was left out.

use crate::report::Fault;
use std::time::{Duration, Instant};

/// The time limit of the search.
const TIME: Duration = Duration::from_secs(20);

/// The fault of the fewest of `steps` steps that were found, and those. `run` runs some of them.
pub(crate) fn shrink(
    steps: usize,
    fault: Fault,
    run: impl Fn(&[usize]) -> Result<(), Fault>,
) -> (Fault, Vec<usize>) {
    let until = Instant::now() + TIME;
    let mut left: Vec<usize> = (0..steps).collect();
    let mut fault = fault;
    let mut part = left.len();
    while part > 1 && Instant::now() < until {
        part = part.div_ceil(2);
        let mut from = 0;
        while from < left.len() && Instant::now() < until {
            let to = (from + part).min(left.len());
            let fewer = [&left[..from], &left[to..]].concat();
            match run(&fewer) {
                Err(again) => (fault, left) = (again, fewer),
                Ok(()) => from = to,
            }
        }
    }
    (fault, left)
}
