//! What a registered query owes: its firings are read and compared with those that are due by the twin.

use crate::algebra::Bag;
use crate::model::QueryModel;
use crate::render::{bag_of_answer, iri, query_text};
use crate::twin::{Due, Plant, Twin};
use somersault::{
    Engine, FiringId, FiringResult, SubscribeOptions, Subscription, SubscriptionEvent,
};
use std::collections::BTreeMap;

/// A registered query.
pub(crate) struct Registered {
    pub(crate) number: u8,
    pub(crate) name: String,
    pub(crate) text: String,
    subscription: Option<Subscription>,
    last: Option<FiringId>,
    /// The newest revision of each close.
    revisions: BTreeMap<i64, u32>,
}

/// What was read.
#[derive(Default)]
pub(crate) struct Read {
    pub(crate) firings: u64,
    pub(crate) rows: u64,
}

/// The name that a query is registered under.
pub(crate) fn name_of(number: u8) -> String {
    format!("q{number}")
}

impl Registered {
    pub(crate) fn new(number: u8, model: &QueryModel) -> Self {
        let name = name_of(number);
        Self {
            number,
            text: query_text(&name, model),
            name,
            subscription: None,
            last: None,
            revisions: BTreeMap::new(),
        }
    }

    /// Reads on from the newest firing that was read, at a new engine too.
    pub(crate) fn subscribe(&mut self, engine: &Engine) -> Result<(), String> {
        let options = SubscribeOptions {
            after: self.last,
            empties: true,
            capacity: 1 << 16,
            ..SubscribeOptions::default()
        };
        let subscription = engine
            .subscribe(&self.name, options)
            .map_err(|error| format!("{}: {error}", self.name))?;
        self.subscription = Some(subscription);
        Ok(())
    }

    /// Compares all that has come.
    pub(crate) fn read(&mut self, twin: &mut Twin, plant: Option<Plant>) -> Result<Read, String> {
        let mut read = Read::default();
        while let Some(event) = self.subscription.as_ref().and_then(Subscription::try_recv) {
            let SubscriptionEvent::Firing(firing) = event else {
                return Err(format!("{} lost firings: {event:?}", self.name));
            };
            read.firings += 1;
            let times = 1 + usize::from(plant == Some(Plant::RepeatedFiring));
            for _ in 0..times {
                read.rows += self.take(&firing, twin).map_err(|what| {
                    format!(
                        "{} at close {}: {what}\n{}",
                        self.name, firing.close_ms, self.text
                    )
                })?;
            }
        }
        Ok(read)
    }

    /// Checks a firing against what is due; returns how many rows it has.
    fn take(&mut self, firing: &FiringResult, twin: &mut Twin) -> Result<u64, String> {
        let revision = self.revisions.insert(firing.close_ms, firing.revision);
        if revision.is_some_and(|before| before >= firing.revision) {
            return Err(format!(
                "revision {} comes after {revision:?}",
                firing.revision
            ));
        }
        self.last = Some(firing.id());
        let due = self.next_due(twin, firing)?;
        let answer = firing.answer.as_ref().map_err(Clone::clone)?;
        let found = bag_of_answer(answer)?;
        match twin.answer(self.number, &due, firing.complete_from_ms)? {
            Some(expected) if expected != found => Err(difference(&expected, &found)),
            _ => Ok(answer.len() as u64),
        }
    }

    /// What is due for a firing. What is due before it and has not come was passed in bulk, or lost.
    fn next_due(&self, twin: &mut Twin, firing: &FiringResult) -> Result<Due, String> {
        let query = twin.queries.get_mut(&self.number);
        let due = &mut query.ok_or("nobody registered it")?.due;
        while let Some(next) = due.pop_front() {
            if (next.close_ms, next.is_amended) == (firing.close_ms, firing.revision > 0) {
                return Ok(next);
            }
            if !next.may_be_passed {
                let again = if next.is_amended { ", once more," } else { "" };
                return Err(format!(
                    "{} is due{again} before revision {} of this",
                    next.close_ms, firing.revision
                ));
            }
        }
        Err(format!("revision {} is not due", firing.revision))
    }

    /// The first close that is due and has not come, at the end.
    pub(crate) fn owes(&self, twin: &Twin) -> Option<i64> {
        let query = twin.queries.get(&self.number)?;
        query.due.front().map(|due| due.close_ms)
    }
}

/// What differs between two bags.
fn difference(expected: &Bag, found: &Bag) -> String {
    let mut lines = String::new();
    let rows: std::collections::BTreeSet<_> = expected.keys().chain(found.keys()).collect();
    for row in rows {
        let [due, come] = [expected, found].map(|bag| bag.get(row).copied().unwrap_or(0));
        if due != come {
            let terms: Vec<String> = (row.iter())
                .map(|value| value.map_or("nothing".to_owned(), iri))
                .collect();
            lines.push_str(&format!(
                "\n  {due} times expected, {come} times found: {}",
                terms.join(" ")
            ));
        }
    }
    lines
}
