//! The verdict of a stream's clock against that of admission, on generated pushes.
//!
//! The one thing to know: nothing runs between the two verdicts, so they must be equal. What a
//! clock leaves to the sequencer is named in [`is_left_to_the_sequencer`].

use crate::harness::{Driver, derived, statement, stream, windows};
use proptest::prelude::*;
use somersault_lang::{AheadLimit, CreateStream, LatePolicy, TimeDomain};
use somersault_model::{EventTime, Millis};
use somersault_stream::{
    Admission, Input, Push, PushHead, PushStatement, Refusal, StreamClock, StreamLimits,
};
use std::collections::BTreeMap;
use std::sync::Arc;

const STREAMS: [&str; 5] = [
    "http://a/",
    "http://b/",
    "http://c/",
    "http://small/",
    "http://fed/",
];
/// The bytes that a statement counts for, and a BUDGET of twenty of them.
const STATEMENT: u64 = 80;
const SMALL: u64 = 20 * STATEMENT;

#[derive(Clone, Debug)]
enum Step {
    Push {
        stream: usize,
        source: usize,
        seq: Option<u64>,
        /// Steps of event time; `None` is a statement without a time.
        gaps: Vec<Option<i64>>,
    },
    Advance {
        stream: usize,
        by: i64,
    },
    Clock(i64),
    Reset(usize),
    Pause(bool),
    Finish,
}

fn step() -> impl Strategy<Value = Step> {
    let gap = prop_oneof![8 => 0i64..12, 3 => -40i64..0, 1 => 20i64..90, 1 => 900i64..3000];
    let gap = prop_oneof![30 => gap.prop_map(Some), 1 => Just(None)];
    let gaps = prop::collection::vec(gap, 0..9);
    let seq = prop::option::of(0u64..12);
    prop_oneof![
        12 => (0..STREAMS.len(), 0..4usize, seq, gaps)
            .prop_map(|(stream, source, seq, gaps)| Step::Push { stream, source, seq, gaps }),
        3 => (0..STREAMS.len(), 0i64..60).prop_map(|(stream, by)| Step::Advance { stream, by }),
        2 => (1i64..400).prop_map(Step::Clock),
        1 => (0..STREAMS.len()).prop_map(Step::Reset),
        1 => any::<bool>().prop_map(Step::Pause),
        1 => Just(Step::Finish),
    ]
}

fn declarations() -> [CreateStream; 5] {
    let of = STREAMS.map(stream);
    let [mut a, mut b, mut c, mut small, fed] = of;
    a.idle = Some(Millis(50));
    a.ahead = AheadLimit::Within(Millis(2_000));
    b.time = TimeDomain::Arrival;
    c.lateness = Millis(15);
    c.late_policy = LatePolicy::Drop;
    small.budget_bytes = SMALL;
    [a, b, c, small, fed]
}

/// Everything that a driver does for pushes, with the clocks that it was handed.
struct Judged {
    driver: Driver,
    /// The highest number that each source of each stream has used.
    highest: BTreeMap<(usize, usize), u64>,
    last: [i64; 5],
    refused: usize,
}

impl Judged {
    fn new() -> Judged {
        let mut driver = Driver::limited(StreamLimits {
            ahead: Some(Millis(500)),
            ..StreamLimits::default()
        });
        driver.fired_at_once = false;
        for declaration in declarations() {
            driver.create(declaration).unwrap();
        }
        // Holds the slices of the small stream while the other has not reached its closes.
        let both = windows(&[("http://small/", 200, 50), ("http://a/", 50, 50)]);
        driver.register("holds", both).unwrap();
        let mut derives = windows(&[("http://fed/", 50, 10)]);
        let mut below = derived("http://below/");
        below.budget_bytes = SMALL;
        derives.derives = Some(below);
        driver.register("feeds", derives).unwrap();
        let both = windows(&[("http://below/", 200, 50), ("http://a/", 50, 50)]);
        driver.register("holds below", both).unwrap();
        Judged {
            driver,
            highest: BTreeMap::new(),
            last: [0; 5],
            refused: 0,
        }
    }

    fn clock(&self, stream: usize) -> Arc<StreamClock> {
        self.driver.coordinator.clock_of(STREAMS[stream]).unwrap()
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Push {
                stream,
                source,
                seq,
                gaps,
            } => self.push((stream, source, seq), &gaps),
            Step::Advance { stream, by } => {
                self.last[stream] += by;
                let _ = self.driver.advance(&[(STREAMS[stream], self.last[stream])]);
            }
            Step::Clock(by) => self.driver.tick(self.driver.now_ms + by),
            Step::Reset(stream) => {
                let _ = self.driver.input(Input::ResetStream {
                    received_ms: self.driver.now_ms,
                    iri: STREAMS[stream].to_owned(),
                });
            }
            Step::Pause(true) => {
                if !self.driver.coordinator.query("holds").unwrap().paused {
                    self.driver.pause("holds");
                }
            }
            Step::Pause(false) => {
                if self.driver.coordinator.query("holds").unwrap().paused {
                    self.driver.resume("holds");
                }
            }
            Step::Finish => self.driver.finish(),
        }
        for (at, iri) in STREAMS.iter().enumerate() {
            let status = self.driver.coordinator.stream(iri).unwrap();
            let clock = self.clock(at);
            assert_eq!(clock.uid(), status.uid);
            assert_eq!(clock.watermark(), status.watermark);
            assert_eq!(clock.held_statements(), status.held_statements);
        }
    }

    fn push(&mut self, (stream, source, seq): (usize, usize, Option<u64>), gaps: &[Option<i64>]) {
        let head = PushHead {
            stream: STREAMS[stream].to_owned(),
            source: format!("source {source}"),
            seq,
        };
        let mut last = self.last[stream];
        let times: Vec<Option<EventTime>> = gaps
            .iter()
            .map(|gap| {
                last += (*gap)?;
                Some(EventTime(last))
            })
            .collect();
        let now_ms = self.driver.now_ms;
        let statements = times.iter().map(|at| PushStatement {
            at: *at,
            quad: statement(1, "reading"),
        });
        let push = Input::Push(Push {
            stream: head.stream.clone(),
            source: head.source.clone(),
            seq,
            received_ms: now_ms,
            statements: statements.collect(),
        });
        let admission = self.driver.coordinator.admit(push.clone());
        let clock = self.clock(stream);
        check_room(&clock, times.len(), &admission);
        let admission = admission.map(drop);
        let of_clock = clock
            .judge(&head, now_ms, times.iter().copied())
            .map_err(|it| it.about(|_| statement(1, "reading").to_string()));
        if admission != of_clock {
            let highest = self.highest.get(&(stream, source)).copied();
            let refusal = admission.clone().unwrap_err();
            assert_eq!(of_clock, Ok(()), "admission says {admission:?}");
            assert!(
                is_left_to_the_sequencer(&clock, seq.zip(highest), times.len(), &refusal),
                "the clock lets {head:?} pass, and admission says: {refusal}"
            );
        }
        self.refused += usize::from(of_clock.is_err());
        let pushed = self.driver.input(push);
        assert_eq!(pushed.as_ref().err(), admission.err().as_ref());
        if pushed.is_ok() && !times.is_empty() {
            self.last[stream] = last.max(self.last[stream]);
            if let Some(seq) = seq {
                let highest = self.highest.entry((stream, source)).or_default();
                *highest = seq.max(*highest);
            }
        }
    }
}

/// A push for which a clock has room is not refused for BUDGET. One for which it has none is not
/// taken, unless it is larger than half of BUDGET.
fn check_room(clock: &StreamClock, statements: usize, admission: &Result<Admission, Refusal>) {
    let is_large = statements as u64 * STATEMENT > clock.declaration().budget_bytes / 2;
    match clock.has_room(statements) {
        true => assert!(!matches!(admission, Err(Refusal::OverBudget { .. }))),
        false => assert!(is_large || !matches!(admission, Ok(Admission::Record(_)))),
    }
}

/// Why a clock may let a push pass that admission refuses: its number lies below another one of its
/// source, so it may be a repeat; or it is larger than half of BUDGET.
fn is_left_to_the_sequencer(
    clock: &StreamClock,
    seq_and_highest: Option<(u64, u64)>,
    statements: usize,
    refusal: &Refusal,
) -> bool {
    let may_be_repeat = seq_and_highest.is_some_and(|(seq, highest)| seq <= highest);
    let is_large = statements as u64 * STATEMENT >= clock.declaration().budget_bytes / 2;
    may_be_repeat || (is_large && matches!(refusal, Refusal::OverBudget { .. }))
}

proptest! {
    #[test]
    fn a_clock_judges_a_push_as_admission_does(
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut judged = Judged::new();
        for step in steps {
            judged.step(step);
        }
    }
}

#[test]
fn clocks_refuse_what_is_late_too_far_ahead_over_budget_or_derived() {
    let mut judged = Judged::new();
    let push = |stream, gaps: &[i64]| Step::Push {
        stream,
        source: 0,
        seq: None,
        gaps: gaps.iter().copied().map(Some).collect(),
    };
    let refused = |judged: &mut Judged, step| {
        let before = judged.refused;
        judged.step(step);
        judged.refused - before
    };
    assert_eq!(refused(&mut judged, push(0, &[10])), 0);
    assert_eq!(refused(&mut judged, push(0, &[-5])), 1);
    assert_eq!(refused(&mut judged, push(0, &[2_900])), 1);
    for time in 0..3 {
        let full = usize::from(time == 2);
        assert_eq!(refused(&mut judged, push(3, &[60; 9])), full);
    }
    // Each firing of the derived stream's query holds the statements of five batches.
    let mut times = 0;
    while refused(&mut judged, push(4, &[2; 5])) == 0 {
        judged.step(Step::Finish);
        times += 1;
        assert!(times < 50, "the derived stream fills up");
    }
    let derived = judged.driver.coordinator.clock_of("http://below/").unwrap();
    let head = PushHead {
        stream: "http://below/".to_owned(),
        source: String::new(),
        seq: None,
    };
    let refusal = derived.judge(&head, 0, [Some(EventTime(1))].into_iter());
    assert!(matches!(refusal, Err(Refusal::Derived { .. })));
    assert_eq!(derived.derived_by(), Some("feeds"));
}

#[test]
fn a_clock_knows_when_windows_need_slices_no_longer() {
    let mut judged = Judged::new();
    judged.driver.push(STREAMS[0], &[(10, 1)]).unwrap();
    let many: Vec<(i64, u64)> = (0..9).map(|number| (60, number)).collect();
    judged.driver.push(STREAMS[3], &many).unwrap();
    judged.driver.push(STREAMS[3], &many).unwrap();
    judged.driver.advance(&[(STREAMS[3], 100)]).unwrap();
    judged.driver.freshness_cut().unwrap();
    let head = PushHead {
        stream: STREAMS[3].to_owned(),
        source: String::new(),
        seq: None,
    };
    let clock = judged.clock(3);
    let judge = || clock.judge(&head, 0, [Some(EventTime(100)); 9].into_iter());
    let refusal = judge().unwrap_err().to_string();
    assert!(refusal.contains("query holds holds them"), "{refusal}");
    // Nothing happens to the stream itself.
    judged.driver.pause("holds");
    assert_eq!(judge(), Ok(()));
}
