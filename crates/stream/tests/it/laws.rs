//! Laws over random streams, steps, pushes, advances and registrations: WI-1, WI-2, VT-1, and
//! determinism (S2, S6).
//!
//! The one thing to know: a law here is only worth something because the tests at the end break
//! what it watches.

use crate::harness::{Driver, World, derived, over, span, statement, stream, windows};
use crate::twin::{Late, Twin};
use proptest::prelude::*;
use somersault_lang::{Extent, LatePolicy};
use somersault_log::Position;
use somersault_model::{EventTime, Millis, StreamUid};
use somersault_stream::{
    Admission, Coordinator, CutPace, Input, Output, QueryChange, QueryDeclaration, QueryEvent,
};
use somersault_stream::{PushedQuad, Record};

const STREAMS: [&str; 3] = ["http://a/", "http://b/", "http://c/"];

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Push {
        stream: usize,
        source: bool,
        /// Steps of event time, which also go back a little.
        gaps: Vec<i64>,
        timeless: bool,
    },
    Advance {
        streams: Vec<bool>,
        by: i64,
    },
    Register {
        windows: Vec<(usize, Extent)>,
        computed_every: Option<i64>,
        origin: i64,
        derives: bool,
    },
    Freshness,
    Stabilise,
    Finish,
    /// Steps outside the twin's model: pausing, resuming or dropping a query, or an update.
    Manage {
        query: usize,
        what: u8,
    },
}

pub(crate) fn managed_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => step(),
        1 => (0..60usize, 0u8..4).prop_map(|(query, what)| Step::Manage { query, what }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let gap = prop_oneof![8 => 0i64..12, 2 => -8i64..0, 1 => -90i64..-8, 1 => 20i64..90];
    let by = prop_oneof![8 => 0i64..60, 1 => 1000i64..6000];
    let window = (0..3usize, extent());
    prop_oneof![
        6 => (0..3usize, any::<bool>(), prop::collection::vec(gap, 1..8), any::<bool>())
            .prop_map(|(stream, source, gaps, timeless)| Step::Push { stream, source, gaps, timeless }),
        4 => (prop::collection::vec(any::<bool>(), 3), by)
            .prop_map(|(streams, by)| Step::Advance { streams, by }),
        2 => (prop::collection::vec(window, 1..4), prop::option::weighted(0.3, 1i64..6), -3i64..4, any::<bool>())
            .prop_map(|(windows, computed_every, origin, derives)| Step::Register {
                derives,
                windows,
                computed_every: computed_every.map(|every| every * 10),
                origin: origin * 10,
            }),
        1 => Just(Step::Freshness),
        2 => Just(Step::Stabilise),
        1 => Just(Step::Finish),
    ]
}

fn extent() -> impl Strategy<Value = Extent> {
    let past = prop_oneof![3 => Just(0i64), 1 => 1i64..5];
    let step = prop::option::weighted(0.9, 1i64..7);
    prop_oneof![
        10 => (1i64..7, past, step).prop_map(|(range, until, step)| Extent::Time {
            range: Millis(range * 10),
            until: Millis(until * 10),
            step: step.map(|step| Millis(step * 10)),
        }),
        1 => Just(Extent::Now),
        2 => Just(Extent::All),
        4 => (1u64..9, 1u64..6).prop_map(|(count, step)| Extent::Statements { count, step }),
    ]
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    lateness: i64,
    late: Late,
    two_sources: bool,
    at_once: bool,
}

pub(crate) fn shape() -> impl Strategy<Value = Shape> {
    (
        prop_oneof![Just(0i64), Just(5), Just(23)],
        prop_oneof![
            Just(Late::Reject),
            Just(Late::Drop),
            (10i64..250).prop_map(Late::Amend)
        ],
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(lateness, late, two_sources, at_once)| Shape {
            lateness,
            late,
            two_sources,
            at_once,
        })
}

fn declaration(
    windows: &[(usize, Extent)],
    computed_every: Option<i64>,
    origin: i64,
) -> QueryDeclaration {
    let windows = windows
        .iter()
        .map(|(stream, extent)| (STREAMS[*stream], *extent));
    QueryDeclaration {
        computed_every: computed_every.map(Millis),
        starting_at: EventTime(origin),
        ..over(windows)
    }
}

/// Runs the steps on the coordinator and on the twin.
fn run(shape: Shape, steps: &[Step]) -> (Driver, Twin) {
    let mut twin = Twin::default();
    let driver = run_on(Driver::new(), Some(&mut twin), shape, steps);
    (driver, twin)
}

/// Runs the steps on this driver, and on the twin if there is one.
pub(crate) fn run_on(
    mut driver: Driver,
    mut twin: Option<&mut Twin>,
    shape: Shape,
    steps: &[Step],
) -> Driver {
    driver.stable_at_once = shape.at_once;
    driver.fired_at_once = shape.at_once;
    for iri in STREAMS {
        let mut declaration = stream(iri);
        declaration.lateness = Millis(shape.lateness);
        declaration.late_policy = match shape.late {
            Late::Reject => LatePolicy::Reject,
            Late::Drop => LatePolicy::Drop,
            Late::Amend(within) => LatePolicy::Amend {
                within: Millis(within),
            },
        };
        driver.create(declaration).unwrap();
        if let Some(twin) = &mut twin {
            twin.create(iri, shape.lateness, 100, shape.late);
        }
    }
    let mut number = 0;
    for (at, step) in steps.iter().enumerate() {
        match step {
            Step::Push {
                stream,
                source,
                gaps,
                timeless,
            } => {
                let iri = STREAMS[*stream];
                let status = driver.coordinator.stream(iri).unwrap();
                let mut time = status.watermark.map_or(100, |time| time.0);
                let statements: Vec<(i64, u64)> = gaps
                    .iter()
                    .map(|gap| {
                        time += gap;
                        number += 1;
                        (time, number)
                    })
                    .collect();
                let source = if *source && shape.two_sources {
                    "two"
                } else {
                    ""
                };
                let name = if *timeless { "fact" } else { "reading" };
                let pushed = statements.iter().map(|(at, number)| (*at, *number, name));
                let refused = driver
                    .push_from(iri, source, Some(at as u64 + 1), pushed.collect())
                    .is_err();
                if let Some(twin) = &mut twin {
                    let expected = twin.push(iri, source, &statements);
                    assert_eq!(refused, expected.is_err(), "{statements:?}");
                }
            }
            Step::Advance { streams, by } => {
                let chosen = STREAMS.iter().zip(streams).filter(|(_, chosen)| **chosen);
                let to: Vec<(&str, i64)> = chosen
                    .map(|(iri, _)| {
                        let status = driver.coordinator.stream(iri).unwrap();
                        (*iri, status.watermark.map_or(90, |time| time.0) + by)
                    })
                    .collect();
                driver.advance(&to).unwrap();
                if let Some(twin) = &mut twin {
                    twin.advance(&to);
                }
            }
            Step::Register {
                windows,
                computed_every,
                origin,
                derives,
            } => {
                let mut declaration = declaration(windows, *computed_every, *origin);
                let iri = format!("http://derived/{at}");
                declaration.derives = derives.then(|| derived(&iri));
                let name = format!("q{at}");
                let registered = driver.register(&name, declaration.clone());
                let counts =
                    (windows.iter()).any(|(_, extent)| matches!(extent, Extent::Statements { .. }));
                // Statements that are amended are not numbered, and a derived stream has closes of
                // its own.
                let has_closes = computed_every.is_some();
                if counts && (matches!(shape.late, Late::Amend(_)) || (*derives && !has_closes)) {
                    assert!(registered.is_err(), "{declaration:?}");
                    continue;
                }
                registered.unwrap();
                let uid = driver.coordinator.query(&name).unwrap().uid;
                if let Some(twin) = &mut twin {
                    twin.register(uid, &declaration);
                }
            }
            Step::Freshness => {
                driver.freshness_cut();
            }
            Step::Stabilise => driver.stabilise(),
            Step::Finish => driver.finish(),
            Step::Manage { query, what } => manage(&mut driver, *query, *what),
        }
    }
    driver.stabilise();
    driver.finish();
    driver
}

fn manage(driver: &mut Driver, query: usize, what: u8) {
    let queries = driver.coordinator.queries();
    let Some(query) = queries.get(query % queries.len().max(1)) else {
        return;
    };
    match what {
        0 => driver.pause(&query.name),
        1 => driver.resume(&query.name),
        2 => driver.drop_query(&query.name),
        _ => {
            let number = driver.log.len() as u64;
            let update = Input::Update {
                clears: Vec::new(),
                received_ms: 0,
                evaluated_at: Some(driver.coordinator.last_cut()),
                deletes: vec![statement(number / 2, "fact")],
                inserts: vec![statement(number, "fact")],
            };
            driver.input(update).unwrap();
        }
    }
}

/// Applies a log as recovery does: nothing becomes stable before its end.
fn replay(world: &World, log: &[Record]) -> (Coordinator, Vec<Output>) {
    let mut coordinator = Coordinator::new();
    let mut out = Vec::new();
    let world = world.after_restart();
    for record in log {
        coordinator.apply(record, &world, &mut out).unwrap();
    }
    out.retain(|output| !matches!(output, Output::Retire { .. }));
    (coordinator, out)
}

/// The stored graph that a firing sees: of its streams' facts at least those before its close, and
/// nothing that the dull order of events forbids.
fn check_stored(driver: &Driver) -> Result<(), String> {
    for seen in &driver.seen {
        for window in seen.firing.windows.iter() {
            let stream = driver
                .coordinator
                .streams()
                .into_iter()
                .find(|status| status.uid == window.stream)
                .unwrap();
            let close = seen.firing.close.0;
            for record in &driver.log {
                let Record::Push(push) = record else { continue };
                if push.stream != stream.declaration.iri.as_str() {
                    continue;
                }
                for (at, quad) in push.statements.iter() {
                    let PushedQuad::Terms(quad) = quad else {
                        panic!("the harness pushes terms");
                    };
                    let number: u64 = match &quad.subject {
                        oxrdf::NamedOrBlankNode::NamedNode(node) => {
                            node.as_str()["http://s/".len()..].parse().unwrap()
                        }
                        other @ oxrdf::NamedOrBlankNode::BlankNode(_) => panic!("{other}"),
                    };
                    let fact = quad.predicate.as_str().ends_with("fact");
                    let stored = seen.stored.contains(&number);
                    let batch_end = (at.0.div_euclid(10) + 1) * 10;
                    let was_late = !window_had(driver, stream.uid, number);
                    if stored && !fact {
                        return Err(format!("timing statement {number} was absorbed"));
                    }
                    if fact && batch_end <= close && !stored && !was_late {
                        return Err(format!("fact {number} is missing at close {close}"));
                    }
                }
            }
        }
    }
    Ok(())
}

/// Whether a statement was taken into a batch of its stream before that closed (and neither dropped
/// nor amended as late).
fn window_had(driver: &Driver, stream: StreamUid, number: u64) -> bool {
    let injected = driver.decided.iter().filter_map(|output| match output {
        Output::Inject(inject) => Some(inject),
        _ => None,
    });
    let mut statements = injected
        .flat_map(|inject| &inject.slices)
        .filter(|slice| slice.stream == stream)
        .flat_map(|slice| &slice.statements);
    statements.any(|timed| crate::harness::number_of(&driver.world, timed.triple) == number)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn firings_equal_those_of_the_dull_twin(
        shape in shape(),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let (driver, twin) = run(shape, &steps);
        prop_assert_eq!(twin.check(&driver), Ok(()));
    }

    #[test]
    fn a_firing_sees_the_facts_before_its_close(
        shape in shape(),
        steps in prop::collection::vec(step(), 1..30),
    ) {
        let (driver, _) = run(shape, &steps);
        prop_assert_eq!(check_stored(&driver), Ok(()));
    }

    #[test]
    fn a_replay_of_the_log_decides_the_same(
        shape in shape(),
        steps in prop::collection::vec(managed_step(), 1..60),
        lost in 0usize..4,
    ) {
        let (driver, _) = run(shape, &steps);
        let (coordinator, decided) = replay(&driver.world, &driver.log);
        prop_assert_eq!(&decided, &driver.decided);
        prop_assert_eq!(coordinator.last_cut(), driver.coordinator.last_cut());

        // Plan records at the end of the log that were not durable are asked for again, the same
        // ones.
        let plans = driver.log.iter().rev().take_while(|record| {
            // A freshness cut is the driver's choice and is not asked for by itself.
            matches!(record, Record::Plan(plan) if plan.through.is_some())
        });
        let lost = lost.min(plans.count());
        let kept = driver.log.len() - lost;
        let (mut coordinator, mut decided) = replay(&driver.world, &driver.log[..kept]);
        let world = driver.world.after_restart();
        for record in &driver.log[kept..] {
            let Record::Plan(plan) = record else { continue };
            let again = coordinator.next_due_cut(plan.log_end, &CutPace::default());
            prop_assert_eq!(again.as_ref(), Some(plan));
            coordinator.apply(record, &world, &mut decided).unwrap();
        }
        decided.retain(|output| !matches!(output, Output::Retire { .. }));
        prop_assert_eq!(&decided, &driver.decided);
        prop_assert_eq!(coordinator.next_due_cut(Position(0), &CutPace::default()), None);
    }

    #[test]
    fn how_statements_are_grouped_into_pushes_does_not_matter(
        gaps in prop::collection::vec(prop_oneof![9 => 0i64..9, 1 => 30i64..200], 1..40),
        cuts in prop::collection::vec(any::<bool>(), 40),
    ) {
        let mut time = 0;
        let statements: Vec<(i64, u64)> = gaps.iter().zip(1u64..).map(|(gap, number)| {
            time += gap;
            (time, number)
        }).collect();
        let fed = |cuts: &dyn Fn(usize) -> bool| {
            let mut driver = Driver::with_streams(&STREAMS[..1]);
            driver.register("q", windows(&[(STREAMS[0], 40, 20), (STREAMS[0], 30, 30)])).unwrap();
            let mut from = 0;
            for to in 1..=statements.len() {
                if to == statements.len() || cuts(to) {
                    driver.push(STREAMS[0], &statements[from..to]).unwrap();
                    from = to;
                }
            }
            driver.advance(&[(STREAMS[0], time + 100)]).unwrap();
            driver.seen.into_iter().map(|seen| (seen.firing.close, seen.windows)).collect::<Vec<_>>()
        };
        prop_assert_eq!(fed(&|_| false), fed(&|at| cuts[at - 1]));
    }
}

/// A run with several firings of several queries, to be broken.
fn sound() -> (Driver, Twin) {
    let push = |stream, gaps: &[i64]| Step::Push {
        stream,
        source: false,
        gaps: gaps.to_vec(),
        timeless: false,
    };
    let register = |windows: &[(usize, i64, i64)]| Step::Register {
        windows: windows
            .iter()
            .map(|(stream, range, step)| (*stream, span(*range, *step)))
            .collect(),
        computed_every: None,
        origin: 0,
        derives: false,
    };
    let steps = [
        register(&[(0, 40, 20), (1, 30, 10)]),
        push(0, &[1, 2, 30, 4]),
        push(1, &[10, 12, 9]),
        register(&[(0, 20, 10)]),
        push(0, &[11, 25]),
        push(1, &[60]),
        Step::Advance {
            streams: vec![true, true, false],
            by: 2000,
        },
    ];
    let shape = Shape {
        lateness: 0,
        late: Late::Reject,
        two_sources: false,
        at_once: true,
    };
    let (driver, twin) = run(shape, &steps);
    assert_eq!(twin.check(&driver), Ok(()));
    assert!(driver.seen.len() > 10);
    (driver, twin)
}

#[track_caller]
fn broken(break_it: impl FnOnce(&mut Driver), invariant: &str) {
    let (mut driver, twin) = sound();
    break_it(&mut driver);
    let error = twin.check(&driver).expect_err("the twin notices");
    assert!(error.starts_with(invariant), "{error}");
}

fn index_with_content(driver: &Driver) -> usize {
    let mut seen = driver.seen.iter();
    seen.position(|seen| !seen.windows[0].is_empty() && seen.firing.complete_from.is_none())
        .unwrap()
}

#[test]
fn wi1_a_missing_statement_is_noticed() {
    broken(
        |driver| {
            let at = index_with_content(driver);
            driver.seen[at].windows[0].pop();
        },
        "WI-1",
    );
}

#[test]
fn wi1_an_extra_statement_is_noticed() {
    broken(
        |driver| {
            let at = index_with_content(driver);
            let again = driver.seen[at].windows[0][0];
            driver.seen[at].windows[0].push(again);
        },
        "WI-1",
    );
}

#[test]
fn wi1_a_window_of_another_close_is_noticed() {
    broken(
        |driver| {
            let at = index_with_content(driver);
            driver.seen[at].firing.complete_from = None;
            driver.seen[at].windows.iter_mut().for_each(Vec::clear);
        },
        "WI-1",
    );
}

#[test]
fn wi2_a_missing_firing_is_noticed() {
    broken(
        |driver| {
            driver.seen.remove(3);
        },
        "WI-2",
    );
}

#[test]
fn wi2_a_repeated_firing_is_noticed() {
    broken(
        |driver| {
            let again = driver.seen[3].clone();
            driver.seen.insert(4, again);
        },
        "WI-2",
    );
}

#[test]
fn wi2_firings_out_of_order_are_noticed() {
    broken(|driver| driver.seen.reverse(), "WI-2");
}

#[test]
fn wi2_passing_a_close_that_holds_something_is_noticed() {
    broken(
        |driver| {
            let at = index_with_content(driver);
            let firing = driver.seen.remove(at).firing;
            driver.decided.push(Output::Query(QueryEvent {
                cohort: firing.query,
                change: QueryChange::Passed {
                    first: firing.close,
                    last: firing.close,
                    count: 1,
                },
            }));
        },
        "WI-2",
    );
}

#[test]
fn a_repeated_push_is_not_logged_again() {
    let (driver, _) = sound();
    let Some(Record::Push(push)) = driver
        .log
        .iter()
        .find(|record| matches!(record, Record::Push(_)))
    else {
        panic!("the run pushes");
    };
    let admission =
        driver
            .coordinator
            .admit(somersault_stream::Input::Push(somersault_stream::Push {
                stream: push.stream.clone(),
                source: push.source.clone(),
                seq: push.seq,
                received_ms: 0,
                statements: Vec::new(),
            }));
    assert!(matches!(admission, Ok(Admission::Repeat(_))));
}
