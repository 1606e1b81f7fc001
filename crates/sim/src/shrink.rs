//! Looks for fewer steps of a scenario that fail too: halves, quarters and so on are left out, as
//! long as time allows. A part of a scenario is a scenario, since the twin says of each step what
//! becomes of it, also where something that it builds on was left out.

use crate::model::Scenario;
use crate::report::Fault;
use crate::run::execute;
use std::time::{Duration, Instant};

/// The time limit of shrinking.
const TIME: Duration = Duration::from_secs(20);

/// The fault of the fewest steps that were found, and those.
pub(crate) fn shrink(seed: u64, scenario: &Scenario, fault: Fault) -> (Fault, Vec<usize>) {
    let until = Instant::now() + TIME;
    let mut left: Vec<usize> = (0..scenario.steps.len()).collect();
    let mut fault = fault;
    let mut part = left.len();
    while part > 1 && Instant::now() < until {
        part = part.div_ceil(2);
        let mut from = 0;
        while from < left.len() && Instant::now() < until {
            let to = (from + part).min(left.len());
            let fewer = [&left[..from], &left[to..]].concat();
            match execute(seed, scenario, &fewer, None) {
                Err(again) => (fault, left) = (again, fewer),
                Ok(_) => from = to,
            }
        }
    }
    (fault, left)
}
