//! Compares the firings of a registered query with those that the twin says are due.

use crate::algebra::Bag;
use crate::engine::ALL_FIRINGS;
use crate::model::{FIRST_DERIVED, QueryModel};
use crate::render::{bag_of_answer, iri, query_text, rows_of, stream_iri};
use crate::report::Summary;
use crate::trace::Trace;
use crate::twin::{Due, Plant, Twin};
use somersault::{
    DurableOptions, DurableStart, Engine, FiringId, FiringResult, RecvTimeoutError,
    SubscribeOptions, Subscription, SubscriptionEvent, WhenFull,
};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// A registered query.
pub(crate) struct Registered {
    pub(crate) number: u8,
    pub(crate) name: String,
    pub(crate) text: String,
    subscription: Option<Subscription>,
    /// Events that had arrived but were not yet compared when the engine went down.
    left: VecDeque<SubscriptionEvent>,
    /// Whether a restart answered more firings than are kept before the next subscription: then the
    /// firings that arrived can no longer be matched with those due.
    has_missed: bool,
    /// Whether a restart may answer more firings than are kept.
    keeps_few: bool,
    last: Option<FiringId>,
    /// The newest revision of each close and ordinal.
    revisions: BTreeMap<(i64, u32), u32>,
    /// The number of firings that it was given.
    given: u64,
    /// Whether it has the durable subscription [`LATE`].
    pub(crate) is_late: bool,
}

/// The name of a durable subscription without a reader, so that each answer is let go at its
/// deadline.
pub(crate) const LATE: &str = "late";
/// Its deadline, after which some dozens of turns have been taken.
const DEADLINE: Duration = Duration::from_millis(5);

/// The numbers of firings and rows read.
#[derive(Default)]
pub(crate) struct Read {
    pub(crate) firings: u64,
    pub(crate) rows: u64,
}

impl Read {
    pub(crate) fn add_to(&self, summary: &mut Summary) {
        summary.firings += self.firings;
        summary.rows += self.rows;
    }
}

/// The name that a query is registered under; for a query that derives a stream, the stream's name.
pub(crate) fn name_of(number: u8) -> String {
    match number >= FIRST_DERIVED {
        true => stream_iri(number.into()),
        false => format!("q{number}"),
    }
}

impl Registered {
    pub(crate) fn new(number: u8, model: &QueryModel) -> Self {
        let name = name_of(number);
        Self {
            number,
            text: query_text(number, model),
            name,
            subscription: None,
            left: VecDeque::new(),
            has_missed: false,
            keeps_few: false,
            last: None,
            revisions: BTreeMap::new(),
            given: 0,
            is_late: false,
        }
    }

    /// The terms of [`LATE`], for all answers from the first on.
    pub(crate) fn late_terms() -> DurableOptions {
        DurableOptions {
            start: DurableStart::Kept,
            answers: u64::MAX,
            bytes: u64::MAX,
            deadline: Some(DEADLINE),
            empties: true,
            when_full: WhenFull::SkipOldest,
        }
    }

    /// Whether each answer that was given to the subscriber was let go by [`LATE`], once, and was
    /// counted. Some may still wait.
    pub(crate) fn has_let_go(&self, engine: &Engine) -> Result<bool, String> {
        let info = engine.durable_subscription(&self.name, LATE);
        let info = info.map_err(|error| error.to_string())?;
        match info.missed + info.waiting == self.given && info.ended.is_none() {
            true => Ok(info.waiting == 0),
            false => Err(format!(
                "{}: of {} answers {} wait for an acknowledgement and {} were let go: {:?}\n{}",
                self.name, self.given, info.waiting, info.missed, info.ended, self.text
            )),
        }
    }

    /// Continues after the newest firing that was read, also on a restarted engine.
    pub(crate) fn subscribe(&mut self, engine: &Engine) -> Result<(), String> {
        // An engine that has been closed has delivered all of its answers.
        let came =
            std::iter::from_fn(|| self.subscription.as_ref().and_then(Subscription::try_recv));
        self.left.extend(came);
        let newest = self.left.iter().rev().find_map(|event| match event {
            SubscriptionEvent::Firing(firing) => Some(firing.id()),
            _ => None,
        });
        let options = SubscribeOptions {
            after: newest.or(self.last),
            empties: true,
            capacity: 1 << 16,
            ..SubscribeOptions::default()
        };
        // A subscriber that has seen no firing is not told of missed ones.
        self.keeps_few = engine.config().kept_firings < ALL_FIRINGS;
        let is_fresh = self.subscription.is_some() && options.after.is_none();
        self.has_missed |= is_fresh && self.keeps_few;
        let subscription = engine
            .subscribe(&self.name, options)
            .map_err(|error| format!("{}: {error}", self.name))?;
        self.subscription = Some(subscription);
        Ok(())
    }

    /// Compares all events that have arrived.
    pub(crate) fn read(
        &mut self,
        twin: &mut Twin,
        plant: Option<Plant>,
        trace: &Trace,
    ) -> Result<Read, String> {
        let mut read = Read::default();
        while let Some(event) = self.next_event() {
            trace.note_answer(&text_of(&event));
            let firing = match event {
                SubscriptionEvent::Firing(firing) => firing,
                SubscriptionEvent::Lagged { missed: None } if self.keeps_few => {
                    self.has_missed = true;
                    continue;
                }
                lost => return Err(format!("{} lost firings: {lost:?}", self.name)),
            };
            if self.has_missed {
                twin.forgive(self.number);
                continue;
            }
            if plant == Some(Plant::NewestSkipped) && twin.skips_newest(self.number) {
                continue;
            }
            read.firings += 1;
            let times = 1 + usize::from(plant == Some(Plant::RepeatedFiring));
            for _ in 0..times {
                read.rows += self.take(&firing, twin).map_err(|what| {
                    format!(
                        "{} at close {}: {what}\n{}",
                        self.name, firing.close.0, self.text
                    )
                })?;
            }
        }
        Ok(read)
    }

    fn next_event(&mut self) -> Option<SubscriptionEvent> {
        let subscription = self.subscription.as_ref();
        (self.left.pop_front()).or_else(|| subscription.and_then(Subscription::try_recv))
    }

    /// Checks a firing against what is due; returns how many rows it has.
    fn take(&mut self, firing: &FiringResult, twin: &mut Twin) -> Result<u64, String> {
        let FiringResult {
            close,
            ordinal,
            revision,
            ..
        } = *firing;
        let before = self.revisions.insert((close.0, ordinal), revision);
        if before.is_some_and(|before| before >= revision) {
            return Err(format!("revision {revision} comes after {before:?}"));
        }
        self.last = Some(firing.id());
        let due = self.next_due(twin, firing)?;
        self.given += 1;
        let answer = firing.answer.as_ref().map_err(Clone::clone)?;
        let found = bag_of_answer(answer)?;
        match twin.answer(self.number, &due, firing.complete_from.map(|from| from.0))? {
            Some(expected) if expected != found => Err(difference(&expected, &found)),
            _ => Ok(answer.len() as u64),
        }
    }

    /// The firing of the twin that corresponds to `firing`. Earlier due firings that did not arrive
    /// were rightly left out, or lost.
    fn next_due(&self, twin: &mut Twin, firing: &FiringResult) -> Result<Due, String> {
        let this = (firing.close.0, firing.ordinal, firing.revision > 0);
        while let Some(next) = twin.take_due(self.number)? {
            if (next.close_ms, next.ordinal, next.is_amended) == this {
                return Ok(next);
            }
            if !twin.may_be_left_out(self.number, &next) {
                let again = if next.is_amended { ", once more," } else { "" };
                return Err(format!(
                    "{}.{} is due{again} before ordinal {}, revision {} of this",
                    next.close_ms, next.ordinal, firing.ordinal, firing.revision
                ));
            }
        }
        Err(format!(
            "ordinal {}, revision {} is not due",
            firing.ordinal, firing.revision
        ))
    }

    /// At the end, everything that is due has arrived.
    pub(crate) fn owes_nothing(&self, twin: &mut Twin) -> Result<(), String> {
        if self.has_missed {
            twin.forgive(self.number);
        }
        while let Some(next) = twin.take_due(self.number)? {
            if !twin.may_be_left_out(self.number, &next) {
                return Err(format!(
                    "{} never fired for {}, which is due\n{}",
                    self.name, next.close_ms, self.text
                ));
            }
        }
        Ok(())
    }

    /// Waits for the last events of the subscription, which are still to be read.
    pub(crate) fn await_end(&mut self, patience: Duration) -> Result<(), String> {
        let Some(subscription) = self.subscription.take() else {
            return Ok(());
        };
        loop {
            match subscription.recv_timeout(patience) {
                Ok(Some(event)) => self.left.push_back(event),
                Ok(None) => return Ok(()),
                Err(RecvTimeoutError) => {
                    return Err(format!(
                        "{} was dropped, and its subscription does not end",
                        self.name
                    ));
                }
            }
        }
    }
}

/// An event as text, with everything that the seed decides: the rows in their order, but no
/// durations.
fn text_of(event: &SubscriptionEvent) -> String {
    let SubscriptionEvent::Firing(firing) = event else {
        return format!("{event:?}");
    };
    let FiringResult {
        query,
        uid,
        close,
        ordinal,
        revision,
        sn,
        complete_from,
        ..
    } = &**firing;
    let answer = firing.answer.as_ref().map(rows_of);
    let (close_ms, from_ms) = (close.0, complete_from.map(|from| from.0));
    format!("{query} {uid} {close_ms} {ordinal} {revision} {sn} {from_ms:?} {answer:?}")
}

/// The difference between two bags.
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
