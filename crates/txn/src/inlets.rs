//! An inlet: the messages of one stream that one procedure has not consumed, cut into batches.
//!
//! 1. A message is offered to each inlet of its stream.
//! 2. BATCH n: each n messages in the order of the stream are a batch; a shorter rest is open.
//!    BATCH d: the messages of an interval are a batch once the stream is complete through its end.
//! 3. A batch of a pushed stream has the round after those that the inlet has been through; a batch
//!    of an interior stream has the round of its last message.
//! 4. A transaction takes batches. Only then are their messages no longer needed here.
//!
//! Before changing anything here: cutting depends on the order inside one stream alone, never on
//! when a transaction ran, so that replay cuts the same batches.

use crate::event::{Contradiction, Places, Round, contradiction};
use crate::shape::{BatchShape, Place};
use crate::streams::{Arrival, Stream};
use somersault_model::{EventTime, Millis};
use std::collections::{BTreeMap, BTreeSet};

/// An atomic batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Its messages.
    pub places: Places,
    /// Its event time: the greatest of its messages.
    pub at: EventTime,
    /// Windows by time slide up to here: `at`, or the end of the interval.
    pub limit: EventTime,
}

impl Batch {
    /// A batch by number.
    pub(crate) fn of(places: Places, time: impl Fn(u64) -> EventTime) -> Batch {
        let times = places.iter().map(|place| time(place.0));
        let at = times.max().expect("a batch has a message");
        Batch {
            places,
            at,
            limit: at,
        }
    }
}

/// A complete batch, with what orders it.
#[derive(Clone, Debug)]
pub(crate) struct Ready {
    pub(crate) batch: Batch,
    pub(crate) round: Round,
    pub(crate) arrival: Arrival,
}

#[derive(Clone, Debug)]
pub(crate) struct Inlet {
    is_pushed: bool,
    shape: BatchShape,
    /// The rounds of batches that it has been through.
    taken: u64,
    pub(crate) cut: Cut,
}

#[derive(Clone, Debug)]
pub(crate) enum Cut {
    Count {
        /// Messages that are no batch yet.
        open: Vec<u64>,
        /// Complete batches by their first places.
        batches: BTreeMap<u64, Places>,
        /// Their first places by rounds, for interior streams.
        rounds: BTreeSet<(Round, u64)>,
    },
    Span(BTreeMap<i64, Interval>),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Interval {
    pub(crate) places: BTreeSet<u64>,
    /// The number of inputs before the one that completed it.
    pub(crate) complete: Option<u64>,
}

impl Inlet {
    /// Begins with the next message.
    pub(crate) fn new(shape: BatchShape, stream: &Stream, taken: u64) -> Inlet {
        let cut = match shape {
            BatchShape::Messages(_) => Cut::Count {
                open: Vec::new(),
                batches: BTreeMap::new(),
                rounds: BTreeSet::new(),
            },
            BatchShape::Span(_) => Cut::Span(BTreeMap::new()),
        };
        Inlet {
            is_pushed: stream.is_pushed(),
            shape,
            taken,
            cut,
        }
    }

    pub(crate) fn shape(&self) -> BatchShape {
        self.shape
    }

    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    pub(crate) fn is_pushed(&self) -> bool {
        self.is_pushed
    }

    /// Passes over rounds, so that the next batch belongs to the one after them.
    pub(crate) fn pass_rounds(&mut self, rounds: u64) {
        self.taken = self.taken.max(rounds);
    }

    fn size(&self) -> u64 {
        match self.shape {
            BatchShape::Messages(count) => count,
            BatchShape::Span(_) => 0,
        }
    }

    fn span(&self) -> Millis {
        match self.shape {
            BatchShape::Span(span) => span,
            BatchShape::Messages(_) => Millis(1),
        }
    }

    /// Takes the newest message of its stream.
    pub(crate) fn offer(&mut self, stream: &Stream) {
        let place = stream.next() - 1;
        let stamp = match stream.get(place).arrival {
            Arrival::Pushed { stamp } => stamp,
            Arrival::Emitted { .. } => 0,
        };
        self.add(place, stream, stamp);
    }

    /// Cuts one more message. `stamp` is that of an interval which it completes.
    fn add(&mut self, place: u64, stream: &Stream, stamp: u64) {
        let (size, span) = (self.size(), self.span());
        let message = stream.get(place);
        match &mut self.cut {
            Cut::Count {
                open,
                batches,
                rounds,
            } => {
                open.push(place);
                if (open.len() as u64) < size {
                    return;
                }
                let places = Places::of(open);
                let first = open[0];
                open.clear();
                batches.insert(first, places);
                if let Arrival::Emitted { round, .. } = message.arrival {
                    rounds.insert((round, first));
                }
            }
            Cut::Span(intervals) => {
                let number = message.at.0.div_euclid(span.0);
                let interval = intervals.entry(number).or_default();
                interval.places.insert(place);
                if end(number, span) <= stream.through() {
                    interval.complete.get_or_insert(stamp);
                }
            }
        }
    }

    /// Its stream is complete through a later time.
    pub(crate) fn complete(&mut self, through: EventTime, stamp: u64) {
        let span = self.span();
        // Rounds order the batches of interior streams.
        let stamp = if self.is_pushed { stamp } else { 0 };
        if let Cut::Span(intervals) = &mut self.cut {
            let due = intervals
                .iter_mut()
                .take_while(|(number, _)| end(**number, span) <= through);
            for (_, interval) in due {
                interval.complete.get_or_insert(stamp);
            }
        }
    }

    /// Whether a batch may be complete.
    pub(crate) fn has_batch(&self) -> bool {
        match &self.cut {
            Cut::Count { batches, .. } => !batches.is_empty(),
            Cut::Span(intervals) => !intervals.is_empty(),
        }
    }

    /// The first complete batch in the order of the stream.
    pub(crate) fn first(&self, stream: &Stream) -> Option<Ready> {
        match &self.cut {
            Cut::Count { batches, .. } => {
                let (_, places) = batches.first_key_value()?;
                Some(self.counted(places, stream))
            }
            Cut::Span(_) => self.complete_intervals(stream).next(),
        }
    }

    /// The complete batches of a round, in the order of the stream.
    pub(crate) fn of_round(&self, round: Round, stream: &Stream) -> Vec<Ready> {
        if self.is_pushed {
            let first = self.first(stream).filter(|first| first.round == round);
            return first.into_iter().collect();
        }
        match &self.cut {
            Cut::Count {
                rounds, batches, ..
            } => {
                let those = rounds.range((round, 0)..=(round, u64::MAX));
                let places = those.map(|(_, first)| &batches[first]);
                places.map(|places| self.counted(places, stream)).collect()
            }
            Cut::Span(_) => {
                let those = self.complete_intervals(stream);
                those.filter(|ready| ready.round == round).collect()
            }
        }
    }

    /// The least round from `round` on that has a complete batch.
    pub(crate) fn least_round(&self, round: Round, stream: &Stream) -> Option<Round> {
        if self.is_pushed {
            let first = self.first(stream)?.round;
            return (first >= round).then_some(first);
        }
        match &self.cut {
            Cut::Count { rounds, .. } => rounds.range((round, 0)..).next().map(|(least, _)| *least),
            Cut::Span(_) => {
                let rounds = self.complete_intervals(stream).map(|ready| ready.round);
                rounds.filter(|found| *found >= round).min()
            }
        }
    }

    /// Consumes a batch. `in_order` says that no batch may be passed over.
    pub(crate) fn take(
        &mut self,
        places: &Places,
        in_order: bool,
        stream: &Stream,
    ) -> Result<Round, Contradiction> {
        let first = places.first().map_or(0, |place| place.0);
        let is_first = self
            .first(stream)
            .is_some_and(|next| next.batch.places == *places);
        if (in_order || self.is_pushed) && !is_first {
            return contradiction(format!("a batch at message {first} is not the next one"));
        }
        let is_same = match &self.cut {
            Cut::Count { batches, .. } => batches.get(&first) == Some(places),
            Cut::Span(_) => self.interval_of(places).is_some(),
        };
        let Some(last) = places.last().filter(|_| is_same) else {
            return contradiction(format!("no batch at message {first} waits"));
        };
        let round = self.round_of(stream.get(last.0).arrival, 0);
        let interval = self.interval_of(places);
        match &mut self.cut {
            Cut::Count {
                batches, rounds, ..
            } => {
                batches.remove(&first);
                rounds.remove(&(round, first));
            }
            Cut::Span(intervals) => _ = interval.and_then(|number| intervals.remove(&number)),
        }
        self.taken += 1;
        Ok(round)
    }

    /// The complete batch of these messages.
    pub(crate) fn find(&self, places: &Places, stream: &Stream) -> Option<Ready> {
        match &self.cut {
            Cut::Count { batches, .. } => {
                let found = batches.get(&places.first()?.0)?;
                (found == places).then(|| self.counted(found, stream))
            }
            Cut::Span(_) => {
                let mut all = self.complete_intervals(stream);
                all.find(|ready| ready.batch.places == *places)
            }
        }
    }

    fn interval_of(&self, places: &Places) -> Option<i64> {
        let Cut::Span(intervals) = &self.cut else {
            return None;
        };
        let wanted = || places.iter().map(|place| place.0);
        let mut all = intervals.iter();
        let found = all.find(|(_, interval)| interval.places.iter().copied().eq(wanted()));
        found.map(|(number, _)| *number)
    }

    /// The places that were not consumed, ascending for BATCH n of a plain procedure.
    pub(crate) fn waiting(&self) -> Box<dyn Iterator<Item = u64> + '_> {
        match &self.cut {
            Cut::Count { open, batches, .. } => {
                let complete = batches.values().flat_map(Places::iter).map(|place| place.0);
                Box::new(complete.chain(open.iter().copied()))
            }
            Cut::Span(intervals) => {
                let places = intervals.values().flat_map(|interval| &interval.places);
                Box::new(places.copied())
            }
        }
    }

    /// The number of complete batches that were not consumed.
    pub(crate) fn complete_batches(&self) -> u64 {
        let count = match &self.cut {
            Cut::Count { batches, .. } => batches.len(),
            Cut::Span(intervals) => {
                let complete = intervals.values();
                complete.take_while(|it| it.complete.is_some()).count()
            }
        };
        count as u64
    }

    /// The first place that was not consumed.
    pub(crate) fn least(&self) -> Option<u64> {
        match &self.cut {
            Cut::Count { open, batches, .. } => {
                let complete = batches.first_key_value().map(|(first, _)| *first);
                let open = open.first().copied();
                complete.into_iter().chain(open).min()
            }
            Cut::Span(_) => self.waiting().min(),
        }
    }

    /// The least time of a message that was not consumed.
    pub(crate) fn least_time(&self, stream: &Stream) -> Option<EventTime> {
        if stream.is_in_time_order() {
            return self.least().map(|place| stream.get(place).at);
        }
        self.waiting().map(|place| stream.get(place).at).min()
    }

    /// The batches that a transaction completes by itself with messages that it emits: places from
    /// `from` to `end`.
    pub(crate) fn inner(&self, from: u64, end: u64, time: impl Fn(u64) -> EventTime) -> Vec<Batch> {
        let Cut::Count { open, .. } = &self.cut else {
            return Vec::new();
        };
        let places: Vec<u64> = open.iter().copied().chain(from..end).collect();
        let size = usize::try_from(self.size()).unwrap_or(usize::MAX);
        let batches = places.chunks_exact(size).map(Places::of);
        batches.map(|places| Batch::of(places, &time)).collect()
    }

    /// The same messages for another batch clause. Nothing that was consumed comes again. Intervals
    /// that are over are complete as of `stamp`.
    pub(crate) fn recut(&self, shape: BatchShape, stream: &Stream, stamp: u64) -> Inlet {
        let mut inlet = Inlet::new(shape, stream, self.taken);
        let stamp = if self.is_pushed { stamp } else { 0 };
        let places: BTreeSet<u64> = self.waiting().collect();
        for place in places {
            inlet.add(place, stream, stamp);
        }
        inlet
    }

    pub(crate) fn restore(shape: BatchShape, is_pushed: bool, taken: u64, cut: Cut) -> Inlet {
        Inlet {
            is_pushed,
            shape,
            taken,
            cut,
        }
    }

    fn round_of(&self, arrival: Arrival, index: u64) -> Round {
        match arrival {
            Arrival::Emitted { round, .. } => round,
            Arrival::Pushed { .. } => Round::Batch(self.taken + 1 + index),
        }
    }

    /// A complete batch of BATCH n. Of a pushed stream it is the first one.
    fn counted(&self, places: &Places, stream: &Stream) -> Ready {
        let last = places.last().expect("a batch has a message");
        let arrival = stream.get(last.0).arrival;
        Ready {
            batch: Batch::of(places.clone(), |place| stream.get(place).at),
            round: self.round_of(arrival, 0),
            arrival,
        }
    }

    fn complete_intervals<'a>(&'a self, stream: &'a Stream) -> impl Iterator<Item = Ready> + 'a {
        let intervals = match &self.cut {
            Cut::Span(intervals) => Some(intervals),
            Cut::Count { .. } => None,
        };
        let span = self.span();
        let all = intervals.into_iter().flatten().enumerate();
        all.map_while(move |(index, (number, interval))| {
            let stamp = interval.complete?;
            let last = *interval.places.last().expect("an interval has a message");
            let arrival = match stream.get(last).arrival {
                Arrival::Pushed { .. } => Arrival::Pushed { stamp },
                emitted @ Arrival::Emitted { .. } => emitted,
            };
            let times = interval.places.iter().map(|place| stream.get(*place).at);
            let batch = Batch {
                places: Places::of(&interval.places.iter().copied().collect::<Vec<_>>()),
                at: times.max().expect("an interval has a message"),
                limit: end(*number, span),
            };
            Some(Ready {
                batch,
                round: self.round_of(arrival, index as u64),
                arrival,
            })
        })
    }
}

/// The end of an interval; the end of time where there is none.
pub(crate) fn end(number: i64, span: Millis) -> EventTime {
    EventTime(number.saturating_add(1).saturating_mul(span.0))
}

impl Places {
    /// The shortest form of these places, which ascend.
    pub(crate) fn of(places: &[u64]) -> Places {
        let count = places.len() as u64;
        match (places.first(), places.last()) {
            (Some(first), Some(last)) if last - first + 1 == count => Places::Run {
                first: Place(*first),
                count,
            },
            _ => Places::List(places.iter().copied().map(Place).collect()),
        }
    }
}
