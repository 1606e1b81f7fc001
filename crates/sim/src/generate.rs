//! Draws a scenario from a seed: its streams and steps, at random, but biased towards known
//! mistakes of stream engines: statements at t − R and at t, repeats within and across batches and
//! windows, late data, silent streams, two windows on one stream.

mod queries;
mod register;

use crate::draw::Draw;
use crate::model::{
    Absorbs, FIRST_DERIVED, LONG_MS, Late, PushModel, QueryModel, Scenario, Statement, Step,
    StreamModel, Triple,
};
use somersault_disk::CrashKeep;

/// The number of nodes in the triples; few, so that patterns join.
pub const NODES: u8 = 6;
/// The number of predicates.
pub const PREDICATES: u8 = 3;
/// The number of named graphs.
pub const GRAPHS: u8 = 2;
/// The number of queries that may be registered at once, without those that derive streams.
pub(crate) const QUERIES: u8 = FIRST_DERIVED;
/// A planned crash comes after fewer turns than this.
const MOST_TURNS: u64 = 300;
/// The first event time.
const START_MS: i64 = 10_000;

pub(crate) struct Generator {
    pub(crate) draw: Draw,
    pub(crate) streams: Vec<StreamModel>,
    /// The queries that derive streams.
    pub(crate) deriving: Vec<QueryModel>,
    /// The number of queries drawn so far.
    pub(crate) drawn: usize,
    /// The newest time of each source of each stream.
    sources: Vec<Vec<i64>>,
    /// Recently pushed triples, to be repeated.
    lately: Vec<Triple>,
    /// Whether all streams advance together, as in a replay, or each at its own pace.
    together: bool,
    /// The streams that have stopped.
    silent: Vec<bool>,
    pub(crate) steps: Vec<Step>,
}

/// The scenario of a seed.
pub fn scenario(seed: u64, steps: usize) -> Scenario {
    let mut draw = Draw::new(seed);
    let streams: Vec<StreamModel> = (0..1 + draw.below(3))
        .map(|_| draw_stream(&mut draw))
        .collect();
    let sources = (streams.iter())
        .map(|_| vec![START_MS; 1 + usize::from(draw.chance(30))])
        .collect();
    let mut generator = Generator {
        together: draw.chance(50),
        silent: vec![false; streams.len()],
        draw,
        streams,
        deriving: Vec::new(),
        drawn: 0,
        sources,
        lately: Vec::new(),
        steps: Vec::new(),
    };
    generator.draw_deriving();
    for at in 0..generator.deriving.len() {
        generator.register_deriving(at);
    }
    generator.register();
    generator.register();
    if generator.draw.chance(60) {
        let to = (0..generator.streams.len())
            .map(|stream| (stream, START_MS))
            .collect();
        generator.steps.push(Step::Advance(to));
    }
    while generator.steps.len() < steps {
        generator.step();
    }
    generator.end();
    spread_crashes(seed, &mut generator.steps);
    place_checkpoints(seed, &mut generator.steps);
    Scenario {
        streams: generator.streams,
        steps: generator.steps,
    }
}

fn draw_stream(draw: &mut Draw) -> StreamModel {
    StreamModel {
        batch_ms: *draw.pick(&[50, 100, 200, 400]),
        absorbs: match draw.below(10) {
            0..=2 => Absorbs::Everything,
            3..=4 => Absorbs::AllBut(vec![draw.small(PREDICATES)]),
            _ => Absorbs::Nothing,
        },
        into: draw.chance(40).then(|| draw.small(GRAPHS)),
        lateness_ms: *draw.pick(&[0, 0, 0, 70, 200, 333]),
        late: *draw.pick(&[
            Late::Reject,
            Late::Drop,
            Late::Amend(300),
            Late::Amend(2500),
        ]),
        keep_ms: *draw.pick(&[LONG_MS, LONG_MS, LONG_MS, LONG_MS, LONG_MS, 500, 0]),
    }
}

/// Makes some of the crashes that are planned for a sync come between two turns of the process.
/// They have draws of their own, so the rest of a seed's scenario does not depend on them.
fn spread_crashes(seed: u64, steps: &mut [Step]) {
    let mut draw = Draw::new(!seed);
    for step in steps {
        if let Step::PlanCrash(_, keep) = step
            && draw.chance(50)
        {
            *step = Step::CrashAtTurn(draw.below(MOST_TURNS), *keep);
        }
    }
}

/// Two of three seeds take checkpoints, before one of ten steps. They have draws of their own too.
fn place_checkpoints(seed: u64, steps: &mut Vec<Step>) {
    if seed.is_multiple_of(3) {
        return;
    }
    let mut draw = Draw::new(seed.rotate_left(17));
    for step in std::mem::take(steps) {
        if draw.chance(10) {
            let waits = draw.chance(40);
            steps.push(Step::Checkpoint { waits });
        }
        steps.push(step);
    }
}

impl Generator {
    fn step(&mut self) {
        let number = self.draw_number();
        let step = match self.draw.below(100) {
            0..=69 => return self.round(),
            70..=75 => return self.heartbeat(),
            76..=81 => Step::Update {
                insert: self.draw.chance(65),
                graph: self.draw_graph(),
                triple: self.draw_triple(),
            },
            82..=87 => return self.register(),
            88 => Step::Drop(number),
            89..=90 => Step::Pause(number),
            91..=93 => Step::Resume(number),
            94..=95 => Step::Crash(self.draw_keep()),
            // A crash within a push may come before or after the statements derived from it.
            96 if self.deriving.is_empty() => {
                Step::PlanCrash(self.draw.below(12), self.draw_keep())
            }
            96 => return self.register_deriving(0),
            97 => {
                // A stream pauses or resumes.
                let stream = self.draw_stream_number();
                self.silent[stream] = !self.silent[stream];
                return;
            }
            _ => Step::Look,
        };
        self.steps.push(step);
    }

    /// The number of a query that may exist.
    fn draw_number(&mut self) -> u8 {
        let deriving = u8::try_from(self.deriving.len()).unwrap_or(0);
        match deriving > 0 && self.draw.chance(10) {
            true => FIRST_DERIVED + self.draw.small(deriving),
            false => self.draw.small(QUERIES),
        }
    }

    /// Draws some pushes; if all streams advance together, a heartbeat of all follows.
    fn round(&mut self) {
        let span_ms = i64::from(1 + self.draw.small(150));
        let end_ms = self.newest() + span_ms;
        for stream in 0..self.streams.len() {
            if self.silent[stream] || (!self.together && self.draw.chance(40)) {
                continue;
            }
            for source in 0..self.sources[stream].len() {
                if self.draw.chance(85) {
                    self.push(stream, source, span_ms);
                }
            }
        }
        if self.together {
            self.advance_all(end_ms);
        }
    }

    fn push(&mut self, stream: usize, source: usize, span_ms: i64) {
        let StreamModel {
            lateness_ms, late, ..
        } = self.streams[stream];
        let from_ms = self.sources[stream][source];
        let mut times: Vec<i64> = (0..self.draw.below(6))
            .map(|_| self.draw_time(from_ms, span_ms))
            .collect();
        times.sort_unstable();
        for time in &mut times {
            // Within LATENESS, event times go back and forth.
            if lateness_ms > 0 && self.draw.chance(40) {
                *time -= i64::try_from(self.draw.below(lateness_ms.unsigned_abs())).unwrap_or(0);
            }
        }
        let often = if matches!(late, Late::Amend(_)) {
            30
        } else {
            6
        };
        if self.draw.chance(often) && !times.is_empty() {
            // Mostly too late, sometimes just in time; statements that may amend go back further.
            let far_ms = *self.draw.pick(&[120, 120, 1200]);
            let back_ms = i64::try_from(self.draw.below(far_ms)).unwrap_or(0);
            times[0] = from_ms - lateness_ms - back_ms;
        }
        let statements: Vec<Statement> = times
            .iter()
            .map(|at_ms| self.draw_statement(*at_ms))
            .collect();
        let newest = times.iter().copied().max().unwrap_or(from_ms);
        self.sources[stream][source] = newest.max(from_ms);
        if !statements.is_empty() {
            self.steps.push(Step::Push(PushModel {
                stream,
                source: u8::try_from(source).unwrap_or(u8::MAX),
                statements,
                again: self.draw.chance(8),
            }));
        }
    }

    /// A time in a span, often where windows begin and end, or next to it.
    fn draw_time(&mut self, from_ms: i64, span_ms: i64) -> i64 {
        let at_ms = from_ms + i64::try_from(self.draw.below(span_ms.unsigned_abs())).unwrap_or(0);
        let boundary_ms = at_ms.div_euclid(50) * 50;
        match self.draw.below(10) {
            0..=2 => boundary_ms.max(from_ms),
            3 => (boundary_ms - 1).max(from_ms),
            4 => (boundary_ms + 1).max(from_ms),
            _ => at_ms,
        }
    }

    fn draw_statement(&mut self, at_ms: i64) -> Statement {
        let triple = match self.lately.is_empty() || self.draw.chance(65) {
            true => self.draw_triple(),
            false => *self.draw.pick(&self.lately),
        };
        self.lately.push(triple);
        if self.lately.len() > 6 {
            self.lately.remove(0);
        }
        Statement {
            at_ms,
            triple,
            graph: self.draw_graph(),
        }
    }

    fn draw_triple(&mut self) -> Triple {
        (
            self.draw.small(NODES),
            self.draw.small(PREDICATES),
            self.draw.small(NODES),
        )
    }

    fn draw_graph(&mut self) -> Option<u8> {
        self.draw.chance(30).then(|| self.draw.small(GRAPHS))
    }

    pub(crate) fn draw_stream_number(&mut self) -> usize {
        usize::from(
            self.draw
                .small(u8::try_from(self.streams.len()).unwrap_or(1)),
        )
    }

    fn draw_keep(&mut self) -> CrashKeep {
        match self.draw.below(3) {
            0 => CrashKeep::Synced,
            1 => CrashKeep::Written,
            _ => CrashKeep::Seeded(self.draw.below(u64::MAX)),
        }
    }

    fn newest(&self) -> i64 {
        self.sources
            .iter()
            .flatten()
            .copied()
            .max()
            .unwrap_or(START_MS)
    }

    fn advance_all(&mut self, to_ms: i64) {
        let to = (0..self.streams.len())
            .map(|stream| (stream, to_ms))
            .collect();
        self.steps.push(Step::Advance(to));
        for source in self.sources.iter_mut().flatten() {
            *source = (*source).max(to_ms);
        }
    }

    /// A heartbeat of one stream or all; at times it is a long jump, or repeats a time.
    fn heartbeat(&mut self) {
        let jump_ms = *self.draw.pick(&[-100, 0, 50, 130, 400, 1500, 9000]);
        if self.together || self.draw.chance(40) {
            return self.advance_all(self.newest() + jump_ms);
        }
        let stream = self.draw_stream_number();
        let to_ms = self.sources[stream]
            .iter()
            .copied()
            .max()
            .unwrap_or(START_MS)
            + jump_ms;
        self.steps.push(Step::Advance(vec![(stream, to_ms)]));
        for source in &mut self.sources[stream] {
            *source = (*source).max(to_ms);
        }
    }

    /// Makes everything due: all streams advance to one time, with a last statement on its
    /// boundary.
    fn end(&mut self) {
        let end_ms = (self.newest() + 2000).div_euclid(400) * 400;
        for stream in 0..self.streams.len() {
            let statements = vec![self.draw_statement(end_ms - 1), self.draw_statement(end_ms)];
            self.steps.push(Step::Push(PushModel {
                stream,
                source: 0,
                statements,
                again: false,
            }));
        }
        self.advance_all(end_ms + 400);
        self.steps.push(Step::Look);
    }
}
