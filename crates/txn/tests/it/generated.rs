//! Generated histories: graphs, nests, windows, batches by number and time, joins, calls, pauses,
//! replacements, drops.

use crate::driver::*;
use somersault_model::{SeededRandom, StreamUid};
use somersault_txn::{BatchShape, Command, Extent, OnAbort, Part, ProcedureShape};

/// Streams 1 and 2 are pushed, 3 to 6 are interior. A procedure emits into streams above those that
/// it consumes, so that there is no cycle.
const STREAMS: u64 = 6;

pub(crate) struct Generated {
    random: SeededRandom,
    /// The event times of the pushed streams.
    clocks: [i64; 2],
    through: [i64; 2],
    names: Vec<String>,
    pub(crate) acts: Vec<Act>,
}

impl Generated {
    pub(crate) fn new(seed: u64, length: u64) -> Generated {
        let mut generated = Generated {
            random: SeededRandom::new(seed),
            clocks: [0; 2],
            through: [i64::MIN; 2],
            names: Vec::new(),
            acts: vec![pushed(1), pushed(2)],
        };
        generated.acts.extend((3..=STREAMS as u32).map(interior));
        for number in 0..2 + generated.random.below(4) {
            let name = format!("p{number}");
            let shape = generated.procedure(&name, number == 0);
            generated.names.push(name);
            generated.acts.push(create(shape));
        }
        for number in 0..generated.random.below(2) + 1 {
            let name = format!("c{number}");
            let emits: Vec<u32> = (3..=STREAMS as u32)
                .filter(|_| generated.chance(30))
                .collect();
            generated.acts.push(create(procedure(&name, &[], &emits)));
        }
        if generated.chance(70) {
            generated.dataflow();
        }
        for _ in 0..length {
            generated.act();
        }
        generated
            .acts
            .extend([resume("d"), Act::Settle, Act::Advance, Act::Settle]);
        generated
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.random.below(100) < percent
    }

    fn procedure(&mut self, name: &str, is_border: bool) -> ProcedureShape {
        let mut streams: Vec<u32> = Vec::new();
        for _ in 0..1 + u64::from(self.chance(35)) {
            let highest = if is_border { 2 } else { STREAMS - 1 };
            let stream = self.random.below(highest) as u32 + 1;
            if !streams.contains(&stream) {
                streams.push(stream);
            }
        }
        let consumes: Vec<(u32, BatchShape)> = streams
            .iter()
            .map(|stream| (*stream, self.batch()))
            .collect();
        let highest = streams.iter().copied().max().unwrap_or(0).max(2);
        let emits: Vec<u32> = (highest + 1..=STREAMS as u32)
            .filter(|_| self.chance(45))
            .collect();
        let mut shape = procedure(name, &consumes, &emits);
        for number in 0..self.random.below(3) {
            let extent = self.extent();
            let stream = streams[self.random.below(streams.len() as u64) as usize];
            let into: Vec<u32> = emits.iter().copied().filter(|_| self.chance(40)).collect();
            shape = owning(shape, &format!("w{number}-{name}"), stream, extent, &into);
        }
        shape
    }

    fn batch(&mut self) -> BatchShape {
        match self.chance(25) {
            true => span([5, 10, 30][self.random.below(3) as usize]),
            false => messages([1, 1, 1, 2, 3][self.random.below(5) as usize]),
        }
    }

    fn extent(&mut self) -> Extent {
        let small = |random: &mut SeededRandom| random.below(6) as i64 + 1;
        match self.chance(50) {
            true => last(
                small(&mut self.random) as u64,
                small(&mut self.random) as u64,
            ),
            false => range(5 * small(&mut self.random), 5 * small(&mut self.random)),
        }
    }

    fn dataflow(&mut self) {
        let mut names = self.names.clone();
        names.retain(|_| self.random.below(100) < 80);
        let mut parts: Vec<Part> = Vec::new();
        while !names.is_empty() {
            let count = (1 + self.random.below(3)).min(names.len() as u64) as usize;
            let some: Vec<String> = names.drain(..count).collect();
            let some: Vec<&str> = some.iter().map(String::as_str).collect();
            match (self.chance(60), some.as_slice()) {
                (true, [first, .., second]) if self.chance(30) => {
                    parts.push(nest(&some, &[(first, second)]));
                }
                (true, some) => parts.push(nest(some, &[])),
                (false, some) => parts.extend(some.iter().map(|name| one(name))),
            }
        }
        let on_abort = if self.chance(30) {
            OnAbort::Stop
        } else {
            OnAbort::Skip
        };
        self.acts.push(dataflow("d", parts, on_abort));
    }

    fn act(&mut self) {
        let act = match self.random.below(100) {
            0..50 => self.message(),
            50..60 => {
                let stream = self.random.below(2) as usize;
                self.clocks[stream] += self.random.below(12) as i64;
                let through = self.clocks[stream];
                self.through[stream] = self.through[stream].max(through);
                Act::Complete(stream as u32 + 1, through)
            }
            60..72 => Act::Run,
            72..82 => Act::Settle,
            82..87 => {
                let received = self.clocks[0] + self.random.below(10) as i64 - 5;
                Act::Call("c0".to_owned(), received)
            }
            87..92 => Act::Advance,
            92..94 => pause("d"),
            94..96 => resume("d"),
            96..98 => self.replacement(),
            98 => {
                self.dataflow();
                return;
            }
            _ => match self.chance(50) {
                true => Act::Command(Command::DropDataflow {
                    name: "d".to_owned(),
                }),
                false => Act::Command(Command::DropProcedure {
                    name: self.name(),
                    discard: true,
                }),
            },
        };
        self.acts.push(act);
    }

    fn name(&mut self) -> String {
        let at = self.random.below(self.names.len() as u64) as usize;
        self.names[at].clone()
    }

    /// Another message, in the order of time or, where the stream is not complete yet, before it.
    fn message(&mut self) -> Act {
        let stream = self.random.below(2) as usize;
        let step = [0, 1, 2, 3, 5, 40][self.random.below(6) as usize];
        self.clocks[stream] += step;
        let early = self.random.below(8) as i64 * i64::from(self.chance(20));
        let at = (self.clocks[stream] - early).max(self.through[stream]);
        Act::Message(stream as u32 + 1, at)
    }

    fn replacement(&mut self) -> Act {
        let name = self.name();
        let shape = self.procedure(&name, name == "p0");
        replace(shape)
    }
}

/// The uids of all streams.
pub(crate) fn streams() -> impl Iterator<Item = StreamUid> {
    (1..=STREAMS as u32).map(StreamUid)
}
