//! The trace of a run: each turn of the process, each write to the disk, each answer, in order. A
//! run is a function of its seed, so two runs of one seed have one trace, and the first difference
//! between two traces is where something beside the seed decided.

use somersault::process_simulation::{Part, Turn};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// An event of a run. Texts and bytes are kept as hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceEvent {
    /// A step of the scenario begins.
    Step(usize),
    /// A part of the process had its turn.
    Turn(Turn),
    /// This number of bytes, with this hash, went to the disk.
    Write(usize, u64),
    /// A request had an answer, or a subscriber was given a firing, with this hash.
    Answer(u64),
    /// The machine crashed.
    Crash,
}

impl TraceEvent {
    /// Five numbers that distinguish it from all other events.
    fn words(self) -> [u64; 5] {
        match self {
            TraceEvent::Step(step) => [1, step as u64, 0, 0, 0],
            TraceEvent::Turn(turn) => {
                let part = match turn.part {
                    Part::Driver => 0,
                    Part::Log => 1,
                    // Bit 1 tells any choice from the parts before.
                    Part::Pool(choice) => choice | 2,
                };
                [2, turn.number, part, turn.appended, turn.durable]
            }
            TraceEvent::Write(bytes, hash) => [3, bytes as u64, hash, 0, 0],
            TraceEvent::Answer(hash) => [4, hash, 0, 0, 0],
            TraceEvent::Crash => [5, 0, 0, 0, 0],
        }
    }
}

impl fmt::Display for TraceEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TraceEvent::Step(step) => write!(f, "step {step}"),
            TraceEvent::Turn(turn) => {
                let Turn {
                    number,
                    appended,
                    durable,
                    ..
                } = turn;
                let part = match turn.part {
                    Part::Driver => "the driver".to_owned(),
                    Part::Log => "the log".to_owned(),
                    Part::Pool(choice) => format!("the pool, choice {choice:016x}"),
                };
                write!(
                    f,
                    "turn {number}: {part}; record {appended} appended, {durable} durable"
                )
            }
            TraceEvent::Write(bytes, hash) => write!(f, "{bytes} bytes written, hash {hash:016x}"),
            TraceEvent::Answer(hash) => write!(f, "an answer, hash {hash:016x}"),
            TraceEvent::Crash => write!(f, "the machine crashes"),
        }
    }
}

/// The events of a run so far. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Trace(Arc<Mutex<Vec<TraceEvent>>>);

impl Trace {
    /// Adds an event.
    pub fn note(&self, event: TraceEvent) {
        self.with(|events| events.push(event));
    }

    /// Adds an answer by its text.
    pub fn note_answer(&self, text: &str) {
        self.note(TraceEvent::Answer(hash_of(text.as_bytes())));
    }

    /// One number for all events.
    pub fn hash(&self) -> u64 {
        self.with(|events| {
            let mut hash = START;
            for event in events {
                for word in event.words() {
                    hash = mix(hash, word);
                }
            }
            hash
        })
    }

    /// A line for each event.
    pub fn lines(&self) -> Vec<String> {
        self.with(|events| events.iter().map(TraceEvent::to_string).collect())
    }

    /// The first event at which another run of the same seed differs; `None` if none does.
    pub fn difference(&self, other: &Trace) -> Option<String> {
        let (one, other) = (self.with(|it| it.clone()), other.with(|it| it.clone()));
        let pairs = one.iter().zip(&other);
        let same = pairs.take_while(|(one, other)| one == other).count();
        if same == one.len() && same == other.len() {
            return None;
        }
        let last = |is: fn(&TraceEvent) -> bool| {
            let found = one[..same].iter().rev().find(|event| is(event));
            found.map_or("the beginning".to_owned(), TraceEvent::to_string)
        };
        let next = |events: &[TraceEvent]| {
            let next = events.get(same);
            next.map_or("the end".to_owned(), TraceEvent::to_string)
        };
        Some(format!(
            "two runs of the seed differ from event {same} on, in {}, after {}:\n  first:  {}\n  second: {}",
            last(|event| matches!(event, TraceEvent::Step(_))),
            last(|event| matches!(event, TraceEvent::Turn(_))),
            next(&one),
            next(&other)
        ))
    }

    fn with<T>(&self, act: impl FnOnce(&mut Vec<TraceEvent>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The offset basis and the prime of FNV-1a with 64 bits (Fowler, Noll, Vo), here over words.
const START: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

/// Takes one more word, or one more byte, into a hash.
fn mix(hash: u64, word: u64) -> u64 {
    // The rotation takes the upper half of a word, which a product leaves there, down again.
    (hash.rotate_left(32) ^ word).wrapping_mul(PRIME)
}

/// The hash of some bytes.
pub fn hash_of(bytes: &[u8]) -> u64 {
    let mut hash = START;
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        let word = word.try_into().expect("a chunk has eight bytes");
        hash = mix(hash, u64::from_le_bytes(word));
    }
    for byte in words.remainder() {
        hash = mix(hash, u64::from(*byte));
    }
    mix(hash, bytes.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(events: &[TraceEvent]) -> Trace {
        let trace = Trace::default();
        events.iter().for_each(|event| trace.note(*event));
        trace
    }

    #[test]
    fn the_first_difference_is_named_with_its_turn() {
        let turn = |number, part| {
            TraceEvent::Turn(Turn {
                number,
                part,
                appended: 3,
                durable: 2,
            })
        };
        let before = [TraceEvent::Step(4), turn(1, Part::Driver)];
        let one = trace(&[&before[..], &[turn(2, Part::Log)]].concat());
        let other = trace(&[&before[..], &[turn(2, Part::Pool(9))]].concat());
        assert_eq!(one.difference(&one.clone()), None);
        assert_ne!(one.hash(), other.hash());
        let said = one.difference(&other).unwrap();
        for part in [
            "event 2",
            "step 4",
            "turn 1: the driver",
            "turn 2: the log",
            "turn 2: the pool, choice 0000000000000009",
        ] {
            assert!(said.contains(part), "{part} in {said}");
        }
        let shorter = trace(&before);
        assert!(one.difference(&shorter).unwrap().ends_with("the end"));
    }
}
