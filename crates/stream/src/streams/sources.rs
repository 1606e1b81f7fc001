//! The sources of a stream, as the stream itself knows them: the numbers of their pushes, and the
//! least of their times. Their times are in the stream's clock, where others read them.
//!
//! Before changing anything here: a stream's watermark is the least of its sources' times. `times`
//! counts the sources at each time, so that a push finds the least without a walk over them.

use super::adaptor::BlankScope;
use super::clock::StreamClock;
use super::taken::{Sequence, TakenNumbers};
use crate::protocol::input::PushHead;
use crate::protocol::refusal::Refusal;
use crate::protocol::status::SourceNumbers;
use crate::saved::streams::SavedSource;
use crate::saved::{RestoreError, contradiction};
use somersault_model::EventTime;
use std::collections::BTreeMap;

/// The sources of a stream.
#[derive(Debug, Default)]
pub(super) struct Sources {
    /// The sequence numbers of each source's pushes.
    taken: BTreeMap<String, TakenNumbers>,
    /// The number of sources that are at each time.
    times: BTreeMap<EventTime, usize>,
    /// Pushes and messages so far; names the blank nodes of those that have no sequence number.
    pushes: u64,
}

impl Sources {
    /// Records a push or a message of a source. Returns the scope of its blank nodes.
    pub(super) fn note(
        &mut self,
        clock: &StreamClock,
        (name, received_ms): (&str, i64),
        seq: Option<u64>,
    ) -> BlankScope {
        let source = clock.hear(name, received_ms);
        self.pushes += 1;
        let stream = clock.uid();
        match seq {
            Some(seq) => {
                source.use_number(seq);
                match self.taken.get_mut(name) {
                    Some(taken) => taken.take(seq),
                    None => {
                        let mut taken = TakenNumbers::default();
                        taken.take(seq);
                        self.taken.insert(name.to_owned(), taken);
                    }
                }
                let source = source.number();
                BlankScope::OfNumber {
                    stream,
                    source,
                    seq,
                }
            }
            None => BlankScope::OfPush {
                stream,
                push: self.pushes,
            },
        }
    }

    /// Moves the time of a source on.
    pub(super) fn set_time(&mut self, clock: &StreamClock, source: &str, time: EventTime) {
        let Some(source) = clock.source(source) else {
            return;
        };
        let before = source.time();
        if before == Some(time) {
            return;
        }
        if let Some(before) = before {
            self.leave(before);
        }
        *self.times.entry(time).or_default() += 1;
        clock.set_source_time(source, time);
    }

    fn leave(&mut self, time: EventTime) {
        if let Some(count) = self.times.get_mut(&time) {
            *count -= 1;
            if *count == 0 {
                self.times.remove(&time);
            }
        }
    }

    /// Takes a sign of life of all sources that are not past this time: they are at it now.
    pub(super) fn advance(&mut self, clock: &StreamClock, to: EventTime, received_ms: i64) {
        for source in clock.sources() {
            if source.time().is_some_and(|time| time <= to) {
                clock.set_source_time(source, to);
                source.set_heard(received_ms);
            }
        }
        let mut there = 0;
        while let Some(first) = self.times.first_entry().filter(|it| *it.key() <= to) {
            there += first.remove();
        }
        if there > 0 {
            self.times.insert(to, there);
        }
    }

    /// The least of the sources' times.
    pub(super) fn least(&self) -> Option<EventTime> {
        self.times.keys().next().copied()
    }

    /// The least of the sources' times, if this source were at `time`.
    pub(super) fn least_with(
        &self,
        clock: &StreamClock,
        source: &str,
        time: Option<EventTime>,
    ) -> Option<EventTime> {
        let own = clock.source(source).and_then(|source| source.time());
        let mut others = self.times.iter();
        let least = others.find(|(at, count)| **count > 1 || Some(**at) != own);
        least.map(|(at, _)| *at).into_iter().chain(time).min()
    }

    /// Whether a push with this (stream, source, seq) was taken before.
    pub(super) fn is_repeat(&self, head: &PushHead) -> Result<bool, Refusal> {
        let taken = self.taken.get(&head.source);
        let Some((taken, seq)) = taken.zip(head.seq) else {
            return Ok(false);
        };
        match taken.find(seq) {
            Sequence::Free => Ok(false),
            Sequence::Taken => Ok(true),
            Sequence::Forgotten => Err(Refusal::SequenceForgotten {
                stream: head.stream.clone(),
                source_name: head.source.clone(),
                seq,
                floor: taken.floor(),
            }),
        }
    }

    /// The highest sequence number of each source that has used one.
    pub(super) fn numbers(&self) -> SourceNumbers {
        let numbers = self.taken.iter();
        let numbers = numbers.filter_map(|(name, taken)| Some((name.clone(), taken.highest()?)));
        numbers.collect()
    }

    /// The number of pushes and messages so far.
    pub(super) fn pushes(&self) -> u64 {
        self.pushes
    }

    /// The sources as a checkpoint holds them, in the order of their numbers.
    pub(super) fn save(&self, clock: &StreamClock) -> Vec<SavedSource> {
        let sources = clock.sources_by_number().into_iter().map(|source| {
            let taken = self.taken.get(source.name());
            SavedSource {
                name: source.name().to_owned(),
                time: source.time(),
                heard_ms: source.heard_ms(),
                floor: taken.map_or(0, TakenNumbers::floor),
                taken: taken.into_iter().flat_map(TakenNumbers::runs).collect(),
            }
        });
        sources.collect()
    }

    /// The sources of a stream that had this many pushes, for [`Sources::add_saved`].
    pub(super) fn restore(pushes: u64) -> Sources {
        Sources {
            pushes,
            ..Sources::default()
        }
    }

    /// Adds saved sources, after those with lower numbers.
    pub(super) fn add_saved(
        &mut self,
        clock: &StreamClock,
        saved: Vec<SavedSource>,
    ) -> Result<(), RestoreError> {
        for source in saved {
            let SavedSource { name, taken, .. } = source;
            if clock.source(&name).is_some() {
                return contradiction(format!(
                    "source {name:?} of <{}> is there twice",
                    clock.iri()
                ));
            }
            let added = clock.hear(&name, source.heard_ms);
            if let Some(time) = source.time {
                *self.times.entry(time).or_default() += 1;
                clock.set_source_time(added, time);
            }
            let Some(taken) = TakenNumbers::restore(source.floor, taken) else {
                let iri = clock.iri();
                return contradiction(format!(
                    "the numbers of source {name:?} of <{iri}> are none"
                ));
            };
            if let Some(highest) = taken.highest() {
                added.use_number(highest);
                self.taken.insert(name, taken);
            }
        }
        Ok(())
    }

    /// The sources of the stream's next life, with their numbers and without times. `clock` is that
    /// of the life before.
    pub(super) fn begin_again(self, clock: &StreamClock, next: &StreamClock) -> Sources {
        for source in clock.sources_by_number() {
            next.hear(source.name(), source.heard_ms())
                .use_numbers_of(source);
        }
        Sources {
            times: BTreeMap::new(),
            ..self
        }
    }
}
