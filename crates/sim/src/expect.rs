//! What a registered query owes: the answers that are due by the twin, and what is wrong about those that come.

use crate::scenario::node_of;
use crate::twin::{Bag, QueryModel};
use somersault::oxrdf::Term;
use somersault::{Answer, FiringResult, Subscription};
use std::collections::BTreeMap;

/// A registered query.
pub(crate) struct Registered {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) model: QueryModel,
    pub(crate) subscription: Option<Subscription>,
    /// The answers that are due and have not come.
    pub(crate) due: BTreeMap<i64, Bag>,
    pub(crate) last_close_ms: Option<i64>,
}

impl Registered {
    /// Checks a firing against what is due; returns its rows.
    pub(crate) fn take(&mut self, firing: &FiringResult) -> Result<u64, String> {
        let close_ms = firing.close_ms;
        let place = format!("{} at close {close_ms}", self.name);
        if self.last_close_ms.is_some_and(|last| close_ms <= last) {
            return Err(format!("{place}: comes after {:?}", self.last_close_ms));
        }
        self.last_close_ms = Some(close_ms);
        if let Some((passed_ms, bag)) = self.due.range(..close_ms).next() {
            return Err(format!(
                "{place}: {passed_ms} was passed over, where {bag:?} is due:\n{}",
                self.text
            ));
        }
        let expected = self
            .due
            .remove(&close_ms)
            .ok_or_else(|| format!("{place}: is not due:\n{}", self.text))?;
        let answer = firing
            .answer
            .as_ref()
            .map_err(|error| format!("{place}: {error}"))?;
        let found = bag_of(answer).map_err(|error| format!("{place}: {error}"))?;
        if found != expected {
            return Err(format!(
                "{place}: expected {expected:?}, found {found:?}:\n{}",
                self.text
            ));
        }
        Ok(answer.len() as u64)
    }
}

fn bag_of(answer: &Answer) -> Result<Bag, String> {
    let mut bag = Bag::new();
    for row in answer.rows() {
        let nodes: Option<Vec<u8>> = row
            .iter()
            .map(|term| match term {
                Some(Term::NamedNode(node)) => node_of(node.as_str()),
                _ => None,
            })
            .collect();
        let nodes =
            nodes.ok_or_else(|| format!("the row {row:?} has a term that nobody stored"))?;
        *bag.entry(nodes).or_insert(0) += 1;
    }
    Ok(bag)
}
