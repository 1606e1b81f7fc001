//! Checkpoints of the coordinator: a restored one decides as the one that it was made from, and a
//! field that a checkpoint forgets is noticed.
//!
//! The one thing to know: a checkpoint is whole once its SN is stable and its firings are done, so
//! the run that it is compared with completes both at the same point, and goes on as it was.

use crate::cohorts;
use crate::harness::{
    Driver, Texts, amended_stream, blank_statement, derived, stream, was_logged, was_repeat,
    windows, written,
};
use crate::laws;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use somersault_lang::{Parser, Statement};
use somersault_log::{AnswerPosition, DeliveredRecord, SubscriptionLimit, SubscriptionTerms};
use somersault_model::{BatchNumber, EventTime, Millis, QueryUid, Sn, StreamUid};
use somersault_stream::{
    BatchKind, Coordinator, CoreRecord, FrozenCore, Input, JoiningMember, LoggedTexts, Output,
    ParsedQuery, Push, PushStatement, QueryChange, QueryEvent, QueryRecord, Record, Repeat,
    RestoreError, SavedBatch, SavedCohort, SavedCounts, SavedDerivation, SavedGroup, SavedStream,
    SavedSubscription, StreamRecord, SubscriptionAsk, SubscriptionRequest,
};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

const A: &str = "http://a/";
const B: &str = "http://b/";

/// An output without what goes on changing behind it.
fn plain(output: &Output) -> String {
    match output {
        Output::StreamCreated { clock } => {
            format!("created {:?} {:?}", clock.uid(), clock.declaration())
        }
        Output::Query(QueryEvent {
            cohort,
            change: QueryChange::Formed { text, derives, .. },
        }) => format!("formed {cohort:?} {text} {derives:?}"),
        other => format!("{other:?}"),
    }
}

/// Whether the output follows from the log alone. When the last firings of a replaced query are
/// done, and it has left, does not; nor does when slices are retired.
fn is_of_the_log(output: &Output) -> bool {
    let change = match output {
        Output::Retire { .. } => return false,
        Output::Query(QueryEvent { change, .. }) => change,
        _ => return true,
    };
    !matches!(
        change,
        QueryChange::Paused { .. } | QueryChange::Left { .. } | QueryChange::Ended
    )
}

fn all_plain(outputs: &[Output]) -> Vec<String> {
    outputs.iter().map(plain).collect()
}

/// All that a run has decided, and what its coordinator shows.
#[derive(PartialEq, Debug)]
struct Decisions {
    log: Vec<String>,
    decided: Vec<String>,
    seen: Vec<String>,
    cancelled: String,
    streams: String,
    queries: String,
    firings: BTreeSet<String>,
}

impl Decisions {
    fn of(driver: &Driver) -> Decisions {
        Decisions {
            log: driver
                .log
                .iter()
                .map(|record| format!("{record:?}"))
                .collect(),
            decided: all_plain(&driver.decided),
            seen: driver.seen.iter().map(|seen| format!("{seen:?}")).collect(),
            cancelled: format!("{:?}", driver.cancelled),
            streams: format!("{:?}", driver.coordinator.streams()),
            queries: format!("{:?}", driver.coordinator.queries()),
            firings: BTreeSet::new(),
        }
    }
}

type Alteration = fn(&mut Vec<CoreRecord>);

/// One run, of streams and windows of all kinds or of cohorts of many members.
#[derive(Clone, Debug)]
enum Case {
    Laws(laws::Shape, Vec<laws::Step>, BTreeSet<usize>),
    Cohorts(Vec<cohorts::Step>, bool, BTreeSet<usize>),
}

impl Case {
    fn run(&self, restores: Option<Alteration>) -> (Driver, Decisions) {
        let mut driver = Driver::new();
        driver.restores = restores;
        driver.world.leases.set(true);
        match self {
            Case::Laws(shape, steps, after) => {
                driver.checkpoint_after = after.clone();
                let driver = laws::run_on(driver, None, *shape, steps);
                let decisions = Decisions::of(&driver);
                (driver, decisions)
            }
            Case::Cohorts(steps, amends, after) => {
                driver.checkpoint_after = after.clone();
                let mut world = cohorts::World::with_driver(driver, cohorts::shaped, *amends);
                steps.iter().for_each(|step| world.take(step));
                world.take(&cohorts::Step::Hold(false));
                world.take(&cohorts::Step::Both(100));
                let decisions = Decisions {
                    firings: world.host.fired,
                    ..Decisions::of(&world.driver)
                };
                (world.driver, decisions)
            }
        }
    }
}

fn case() -> impl Strategy<Value = Case> {
    let after = || prop::collection::btree_set(4..50usize, 1..5);
    let laws_case = (
        laws::shape(),
        prop::collection::vec(laws::managed_step(), 8..60),
        after(),
    );
    let cohorts_case = (
        prop::collection::vec(cohorts::step(), 8..60),
        any::<bool>(),
        after(),
    );
    prop_oneof![
        laws_case.prop_map(|(shape, steps, after)| Case::Laws(shape, steps, after)),
        cohorts_case.prop_map(|(steps, amends, after)| Case::Cohorts(steps, amends, after)),
    ]
}

fn frozen(coordinator: &Coordinator) -> Vec<CoreRecord> {
    written(coordinator.freeze().unwrap().records())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn a_restored_coordinator_goes_on_as_the_one_that_was_saved(case in case()) {
        let (mut driver, decisions) = case.run(None);
        let (restored, same) = case.run(Some(|_| ()));
        prop_assert_eq!(&decisions, &same);
        prop_assert_eq!(frozen(&driver.coordinator), frozen(&restored.coordinator));
        // From each checkpoint, the log after it leads to the same state by the same outputs.
        for checkpoint in std::mem::take(&mut driver.checkpoints) {
            let mut coordinator = driver.restored(checkpoint.records.clone()).unwrap();
            prop_assert_eq!(frozen(&coordinator), checkpoint.records.clone());
            let mut decided = Vec::new();
            for record in &driver.log[checkpoint.log..] {
                coordinator.apply(record, &driver.world, &mut decided).unwrap();
            }
            decided.retain(is_of_the_log);
            let mut live = driver.decided[checkpoint.decided..].to_vec();
            live.retain(is_of_the_log);
            prop_assert_eq!(all_plain(&decided), all_plain(&live));
            prop_assert_eq!(frozen(&coordinator), frozen(&driver.coordinator));
            // What was shared has not changed.
            prop_assert_eq!(written(checkpoint.frozen.records()), checkpoint.records);
        }
    }
}

/// Changes each record of streams.
fn streams(records: &mut [CoreRecord], change: impl Fn(&mut SavedStream)) {
    for record in records {
        if let CoreRecord::Stream(StreamRecord::Stream(stream)) = record {
            change(stream);
        }
    }
}

fn cohort_records(records: &mut [CoreRecord], change: impl Fn(&mut SavedCohort)) {
    for record in records {
        if let CoreRecord::Query(QueryRecord::Cohort(cohort)) = record {
            change(cohort);
        }
    }
}

fn groups(records: &mut [CoreRecord], change: impl Fn(&mut SavedGroup)) {
    for record in records {
        if let CoreRecord::Group(group) = record {
            change(group);
        }
    }
}

fn without_batches(records: &mut Vec<CoreRecord>, kind: BatchKind) {
    records.retain(|record| {
        !matches!(record, CoreRecord::Stream(StreamRecord::Batch(batch)) if batch.kind == kind)
    });
}

fn batches(records: &mut [CoreRecord], change: impl Fn(&mut SavedBatch)) {
    for record in records {
        if let CoreRecord::Stream(StreamRecord::Batch(batch)) = record {
            change(batch);
        }
    }
}

const ZERO: SavedCounts = SavedCounts {
    firings: 0,
    amended: 0,
    skipped_empty: 0,
};

/// What a checkpoint could forget of streams.
const OF_STREAMS: &[(&str, Alteration)] = &[
    ("the times of sources", |records| {
        for record in records {
            if let CoreRecord::Stream(StreamRecord::Sources(_, sources)) = record {
                sources.iter_mut().for_each(|source| source.time = None);
            }
        }
    }),
    ("the watermark", |records| {
        streams(records, |stream| stream.watermark = None);
    }),
    ("the stream's beginning", |records| {
        streams(records, |stream| stream.begin = None);
    }),
    ("when the watermark moved", |records| {
        streams(records, |stream| stream.moved_ms = None);
    }),
    ("what was cut", |records| {
        streams(records, |stream| stream.planned = None);
    }),
    ("what is retained", |records| {
        let from = BatchNumber(i64::MIN);
        streams(records, |stream| stream.retained_from = from);
    }),
    ("the count of numbered statements", |records| {
        streams(records, |stream| stream.numbered += 1);
    }),
    ("the counts of a stream", |records| {
        streams(records, |stream| stream.totals.statements = 0);
    }),
    ("which batches hold statements", |records| {
        records.retain(|it| !matches!(it, CoreRecord::Stream(StreamRecord::Held(..))));
    }),
    ("which statement begins a batch", |records| {
        records.retain(|it| !matches!(it, CoreRecord::Stream(StreamRecord::Numbered(..))));
    }),
    ("open batches", |records| {
        without_batches(records, BatchKind::Open)
    }),
    ("closed batches", |records| {
        without_batches(records, BatchKind::Closed)
    }),
    ("facts of batches", |records| {
        batches(records, |batch| batch.facts.clear())
    }),
    ("leases", |records| {
        batches(records, |batch| batch.epoch = None)
    }),
    ("the newest stream", |records| {
        if let Some(CoreRecord::Counters(counters)) = records.first_mut() {
            counters.newest_stream = 0;
        }
        streams(records, |stream| assert!(stream.uid.0 > 0));
    }),
];

/// What a checkpoint could forget of queries.
const OF_QUERIES: &[(&str, Alteration)] = &[
    ("the next uid", |records| {
        if let Some(CoreRecord::Counters(counters)) = records.first_mut() {
            counters.next_query = 1;
        }
    }),
    ("where ALL begins", |records| {
        cohort_records(records, |cohort| {
            cohort
                .windows
                .iter_mut()
                .for_each(|window| window.since = None);
        });
    }),
    ("which cohort takes members", |records| {
        cohort_records(records, |cohort| {
            cohort.takes_members = !cohort.takes_members
        });
    }),
    ("the base of a cohort", |records| {
        cohort_records(records, |cohort| cohort.base = EventTime::MIN);
    }),
    ("the counts of a cohort", |records| {
        cohort_records(records, |cohort| cohort.counts = ZERO);
    }),
    ("the last close", |records| {
        cohort_records(records, |cohort| cohort.last_close = None);
    }),
    ("the counts at the first close", |records| {
        for record in records {
            if let CoreRecord::Query(QueryRecord::Waves(_, waves)) = record {
                waves.iter_mut().for_each(|wave| wave.before = None);
            }
        }
    }),
    ("when members joined", |records| {
        for record in records {
            if let CoreRecord::Query(QueryRecord::Waves(_, waves)) = record {
                waves.truncate(1);
            }
        }
    }),
    (
        "the close that a paused query would have fired for",
        |records| {
            for record in records {
                if let CoreRecord::Query(QueryRecord::Histories(_, histories)) = record {
                    histories
                        .iter_mut()
                        .for_each(|it| it.paused = it.paused.map(|_| None));
                }
            }
        },
    ),
    ("what a query passed while it was paused", |records| {
        for record in records {
            if let CoreRecord::Query(QueryRecord::Histories(_, histories)) = record {
                histories
                    .iter_mut()
                    .for_each(|it| it.passed_while_paused = 0);
            }
        }
    }),
    ("the next close of a group", |records| {
        groups(records, |group| {
            group.next = group.next.map(|next| EventTime(next.0 + 10));
        });
    }),
    ("the first close of a group", |records| {
        groups(records, |group| group.first = group.next);
    }),
    ("which stream a group waits for", |records| {
        groups(records, |group| {
            group.waits_for = group.waits_for.filter(|_| group.next.is_none());
        });
    }),
    ("what a group needs", |records| {
        groups(records, |group| group.needs.clear())
    }),
];

/// Runs with their decisions, the same ones each time.
fn cases(count: usize) -> Vec<(Case, Decisions)> {
    let mut runner = TestRunner::deterministic();
    let strategy = case();
    let cases = std::iter::repeat_with(|| {
        let case = strategy.new_tree(&mut runner).unwrap().current();
        let (_, decisions) = case.run(None);
        (case, decisions)
    });
    cases.take(count).collect()
}

fn forgotten_is_noticed(omissions: &[(&str, Alteration)]) {
    let cases = cases(120);
    let mut unnoticed = Vec::new();
    for (name, alter) in omissions {
        let is_noticed = cases.iter().any(|(case, decisions)| {
            // A run that breaks an invariant notices too.
            let run = catch_unwind(AssertUnwindSafe(|| case.run(Some(*alter)).1));
            run.map_or(true, |altered| altered != *decisions)
        });
        if !is_noticed {
            unnoticed.push(*name);
        }
    }
    assert!(unnoticed.is_empty(), "{unnoticed:?}");
}

#[test]
fn what_a_checkpoint_forgets_of_streams_is_noticed() {
    forgotten_is_noticed(OF_STREAMS);
}

#[test]
fn what_a_checkpoint_forgets_of_queries_is_noticed() {
    forgotten_is_noticed(OF_QUERIES);
}

/// The driver, going on with what a checkpoint of it gives back.
fn restart(driver: &mut Driver, alter: Alteration) {
    let mut records = frozen(&driver.coordinator);
    alter(&mut records);
    recount(&mut records);
    driver.coordinator = driver.restored(records).unwrap();
}

#[test]
fn a_number_that_was_taken_stays_taken() {
    let with_numbers = || {
        let mut driver = Driver::with_streams(&[A]);
        for seq in [3, 4, 9] {
            driver
                .push_from(A, "s", Some(seq), vec![(10, seq, "reading")])
                .unwrap();
        }
        driver
    };
    let mut driver = with_numbers();
    restart(&mut driver, |_| ());
    for seq in [3, 4, 9] {
        let again = driver.push_from(A, "s", Some(seq), vec![(10, seq, "reading")]);
        assert!(was_repeat(&again.unwrap(), Repeat::Push));
    }
    let gap = driver.push_from(A, "s", Some(5), vec![(10, 5, "reading")]);
    assert!(was_logged(&gap.unwrap()));
    // The clock knows the numbers too: a thread that judges before leaves repeats to the sequencer.
    let mut forgetful = with_numbers();
    restart(&mut forgetful, |records| {
        for record in records {
            if let CoreRecord::Stream(StreamRecord::Sources(_, sources)) = record {
                sources.iter_mut().for_each(|source| source.taken.clear());
            }
        }
    });
    let again = forgetful.push_from(A, "s", Some(9), vec![(10, 9, "reading")]);
    assert!(was_logged(&again.unwrap()), "the omission is noticed");
}

#[test]
fn blank_nodes_of_later_pushes_have_names_of_their_own() {
    let subjects = |restarts: Option<Alteration>| {
        let mut driver = Driver::with_streams(&[A]);
        for at in [1, 2] {
            let push = Push {
                stream: A.to_owned(),
                source: String::new(),
                seq: None,
                received_ms: 0,
                statements: vec![PushStatement {
                    at: Some(EventTime(at)),
                    quad: blank_statement("b"),
                }],
            };
            driver.input(Input::Push(push)).unwrap();
            if let Some(alter) = restarts.filter(|_| at == 1) {
                restart(&mut driver, alter);
            }
        }
        driver.advance(&[(A, 10)]).unwrap();
        driver.freshness_cut().unwrap();
        let slices = driver.decided.iter().filter_map(|output| match output {
            Output::Inject(inject) => inject.slices.first(),
            _ => None,
        });
        let statements = slices.flat_map(|slice| &slice.statements);
        let subjects: BTreeSet<_> = statements.map(|it| it.triple.subject).collect();
        subjects.len()
    };
    assert_eq!(subjects(None), 2);
    assert_eq!(subjects(Some(|_| ())), 2);
    let forgets: Alteration = |records| streams(records, |stream| stream.pushes = 0);
    assert_eq!(subjects(Some(forgets)), 1, "the omission is noticed");
}

#[test]
fn the_clock_goes_on_from_the_last_sign_of_life() {
    let advances = |alter: Alteration| {
        let mut driver = Driver::new();
        for iri in [A, B] {
            let mut idle = stream(iri);
            idle.idle = Some(Millis(50));
            driver.create(idle).unwrap();
        }
        driver
            .register("q", windows(&[(A, 10, 10), (B, 10, 10)]))
            .unwrap();
        driver.now_ms = 1_000;
        driver.push(A, &[(100, 1)]).unwrap();
        driver.advance(&[(B, 90)]).unwrap();
        restart(&mut driver, alter);
        driver.tick(1_080);
        let mut records = driver.log.iter().filter_map(|record| match record {
            Record::Advance(advance) => Some(advance.to.clone()),
            _ => None,
        });
        records.next_back()
    };
    // A's source and B, which has none, have been silent for 30 ms longer than IDLE.
    let to = [(A, 130), (B, 120)].map(|(iri, time)| (iri.to_owned(), EventTime(time)));
    let to = Some(to.to_vec());
    assert_eq!(advances(|_| ()), to);
    assert_ne!(
        advances(|all| streams(all, |stream| stream.heartbeat = None)),
        to
    );
    let unheard: Alteration = |records| {
        for record in records {
            if let CoreRecord::Stream(StreamRecord::Sources(_, sources)) = record {
                sources.iter_mut().for_each(|source| source.heard_ms = 0);
            }
        }
    };
    assert_ne!(advances(unheard), to, "the omission is noticed");
}

/// Recovery reads marks ahead of the records that they speak of; a checkpoint may lie between.
#[test]
fn what_was_delivered_is_not_executed_again() {
    let fired = |alter: Alteration| {
        let mut driver = Driver::with_streams(&[A]);
        driver.register("q", windows(&[(A, 10, 10)])).unwrap();
        driver.coordinator.expect_delivered(&DeliveredRecord {
            query: QueryUid(1),
            close: EventTime(30),
            sn: Some(Sn(2)),
        });
        driver.push(A, &[(5, 1)]).unwrap();
        restart(&mut driver, alter);
        for time in [20, 30, 40] {
            driver.advance(&[(A, time)]).unwrap();
        }
        driver.closes("q")
    };
    assert_eq!(fired(|_| ()), [30, 40]);
    let forgets: Alteration = |records| {
        records.retain(|it| !matches!(it, CoreRecord::Query(QueryRecord::Delivered(_))));
    };
    assert_eq!(fired(forgets), [10, 20, 30, 40], "the omission is noticed");
}

/// A run that calls its second argument where it restarts.
type Restarting = fn(&mut Driver, &dyn Fn(&mut Driver));

/// A run with a restart in it, which decides the same as without, and something else where the
/// checkpoint forgets.
#[track_caller]
fn only_forgetting_changes(run: Restarting, forgets: &[Alteration]) {
    let decisions = |alter: Option<Alteration>| {
        let mut driver = Driver::new();
        run(&mut driver, &|driver| {
            if let Some(alter) = alter {
                restart(driver, alter);
            }
        });
        Decisions::of(&driver)
    };
    let without = decisions(None);
    assert_eq!(decisions(Some(|_| ())), without);
    for forgets in forgets {
        // A run that breaks an invariant notices too.
        let run = catch_unwind(AssertUnwindSafe(|| decisions(Some(*forgets))));
        assert!(run.map_or(true, |run| run != without), "it is not noticed");
    }
}

#[test]
fn a_query_reads_what_was_kept_when_it_was_registered() {
    let run = |driver: &mut Driver, restart: &dyn Fn(&mut Driver)| {
        driver.create(stream(A)).unwrap();
        driver.register("q", windows(&[(A, 40, 10)])).unwrap();
        (0..40).for_each(|at| _ = driver.push(A, &[(at * 10, at as u64)]).unwrap());
        // It joins the group of the other, which has begun with the stream.
        driver.register("r", windows(&[(A, 500, 10)])).unwrap();
        restart(driver);
        driver.advance(&[(A, 420)]).unwrap();
    };
    only_forgetting_changes(
        run,
        &[|records| {
            cohort_records(records, |cohort| {
                let windows = cohort.windows.iter_mut();
                windows.for_each(|window| window.kept_from = BatchNumber(i64::MIN));
            });
        }],
    );
}

#[test]
fn a_query_reads_what_was_kept_when_its_last_stream_began() {
    let run = |driver: &mut Driver, restart: &dyn Fn(&mut Driver)| {
        driver.create(stream(A)).unwrap();
        driver.create(stream(B)).unwrap();
        driver
            .register("q", windows(&[(A, 500, 10), (B, 10, 10)]))
            .unwrap();
        (0..40).for_each(|at| _ = driver.push(A, &[(at * 10, at as u64)]).unwrap());
        driver.freshness_cut().unwrap();
        driver.push(B, &[(400, 50)]).unwrap();
        restart(driver);
        driver.advance(&[(A, 420), (B, 420)]).unwrap();
    };
    only_forgetting_changes(
        run,
        &[|records| groups(records, |group| group.kept_from.clear())],
    );
}

/// Gives the answer of an earlier firing to its derived stream a second time.
fn derive_again(driver: &mut Driver, close: i64, revision: u32) {
    let mut seen = driver.seen.iter().map(|seen| seen.firing.key());
    let key = seen.find(|key| (key.close.0, key.revision) == (close, revision));
    let again = Input::Derived {
        received_ms: 0,
        key: key.unwrap(),
        statements: Vec::new(),
    };
    driver.input(again).unwrap();
}

fn derivations(records: &mut [CoreRecord], change: impl Fn(&mut SavedDerivation)) {
    cohort_records(records, |cohort| {
        cohort.derives.iter_mut().for_each(&change)
    });
}

/// A derived stream whose query has fired, and has amended that.
fn derive_and_amend(driver: &mut Driver) {
    driver.create(amended_stream(A, 60)).unwrap();
    let mut deriving = windows(&[(A, 40, 10)]);
    deriving.derives = Some(derived("http://d/"));
    driver.register("http://d/", deriving).unwrap();
    driver.push(A, &[(12, 1), (55, 2)]).unwrap();
    driver.push(A, &[(21, 3)]).unwrap();
}

#[test]
fn the_answer_of_a_firing_goes_into_its_stream_once() {
    let run = |driver: &mut Driver, restart: &dyn Fn(&mut Driver)| {
        derive_and_amend(driver);
        restart(driver);
        derive_again(driver, 40, 0);
        derive_again(driver, 40, 1);
    };
    only_forgetting_changes(
        run,
        &[
            |records| derivations(records, |it| it.through = None),
            |records| derivations(records, |it| it.revisions.clear()),
        ],
    );
    let later = |driver: &mut Driver, restart: &dyn Fn(&mut Driver)| {
        derive_and_amend(driver);
        // The first amendment is forgotten with the second, and known to be over.
        driver.push(A, &[(200, 4), (255, 5)]).unwrap();
        driver.push(A, &[(221, 6)]).unwrap();
        restart(driver);
        derive_again(driver, 40, 1);
    };
    only_forgetting_changes(
        later,
        &[|records| derivations(records, |it| it.settled_before = EventTime::MIN)],
    );
}

#[test]
fn closes_that_may_be_amended_keep_their_slices() {
    let waiting = |driver: &mut Driver, restart: &dyn Fn(&mut Driver)| {
        driver.joins_amendments = true;
        driver.create(amended_stream(A, 60)).unwrap();
        driver.register("q", windows(&[(A, 40, 10)])).unwrap();
        driver.push(A, &[(12, 1), (55, 2)]).unwrap();
        driver.push(A, &[(21, 3)]).unwrap();
        restart(driver);
        driver.advance(&[(A, 300)]).unwrap();
        driver.joins_amendments = false;
        driver.cut_slice();
    };
    only_forgetting_changes(
        waiting,
        &[|records| streams(records, |stream| stream.amended_from = None)],
    );
    let derived_later = |driver: &mut Driver, restart: &dyn Fn(&mut Driver)| {
        driver.create(amended_stream(A, 60)).unwrap();
        let mut deriving = windows(&[(A, 40, 10)]);
        let mut stream = derived("http://d/");
        stream.keep = Millis(10);
        deriving.derives = Some(stream);
        driver.register("http://d/", deriving).unwrap();
        driver
            .register("q", windows(&[("http://d/", 20, 10)]))
            .unwrap();
        driver.push(A, &[(12, 1), (55, 2)]).unwrap();
        restart(driver);
        driver.advance(&[(A, 80)]).unwrap();
        driver.advance(&[(A, 100)]).unwrap();
        driver.push(A, &[(51, 3)]).unwrap();
    };
    only_forgetting_changes(
        derived_later,
        &[|records| {
            streams(records, |stream| {
                let derived = stream.derived.iter_mut();
                derived.for_each(|derived| derived.within = None);
            });
        }],
    );
}

#[test]
fn a_successor_knows_what_its_predecessors_answered() {
    let run = |driver: &mut Driver, restart: &dyn Fn(&mut Driver)| {
        driver.create(stream(A)).unwrap();
        driver.register("q", windows(&[(A, 10, 10)])).unwrap();
        driver.push(A, &[(5, 1), (25, 2)]).unwrap();
        driver.replace("q", windows(&[(A, 20, 10)])).unwrap();
        restart(driver);
        driver.replace("q", windows(&[(A, 30, 10)])).unwrap();
    };
    let forgets: Alteration =
        |records| records.retain(|record| !matches!(record, CoreRecord::AnsweredBefore(_)));
    only_forgetting_changes(run, &[forgets]);
}

fn subscriptions(records: &mut [CoreRecord], change: impl Fn(&mut SavedSubscription)) {
    for record in records {
        if let CoreRecord::Subscriptions(saved) = record {
            saved.iter_mut().for_each(&change);
        }
    }
}

#[test]
fn durable_subscriptions_have_their_place_and_terms() {
    let run = |driver: &mut Driver, restart: &dyn Fn(&mut Driver)| {
        driver.create(stream(A)).unwrap();
        driver.register("q", windows(&[(A, 10, 10)])).unwrap();
        let durable = |skips| terms(skips, 7);
        driver
            .input(subscribe("q", "skips", durable(true)))
            .unwrap();
        driver
            .input(subscribe("q", "ends", durable(false)))
            .unwrap();
        driver.input(acknowledge("q", "skips", at(2, 20))).unwrap();
        let_go(driver, "skips", at(3, 30));
        let_go(driver, "ends", at(3, 30));
        restart(driver);
        // The old place goes back to nothing.
        driver.input(acknowledge("q", "skips", at(2, 20))).unwrap();
        let_go(driver, "skips", at(4, 40));
        // It has ended.
        let_go(driver, "ends", at(4, 40));
        // The same terms again change nothing.
        _ = driver.input(subscribe("q", "skips", durable(true)));
        _ = driver.input(Input::DropQuery {
            received_ms: 0,
            name: "q".to_owned(),
        });
        let kept = driver.coordinator.subscriptions_of("q");
        let shown = kept.iter().map(|it| format!("{it:?}"));
        let shown = shown.collect::<String>();
        driver.push(A, &[(shown_number(&shown), 1)]).unwrap();
    };
    only_forgetting_changes(
        run,
        &[
            |records| records.retain(|it| !matches!(it, CoreRecord::Subscriptions(_))),
            |records| subscriptions(records, |it| it.after = (Sn(0), EventTime(0), 0, 0)),
            |records| subscriptions(records, |it| it.missed = 0),
            |records| subscriptions(records, |it| it.ended = None),
            |records| subscriptions(records, |it| it.answers = 1),
            |records| subscriptions(records, |it| it.bytes = 1),
            |records| subscriptions(records, |it| it.deadline_ms = None),
            |records| subscriptions(records, |it| it.empties = false),
            |records| subscriptions(records, |it| it.skips_oldest ^= true),
        ],
    );
}

/// A number that differs for texts that differ.
fn shown_number(text: &str) -> i64 {
    let digest = text
        .bytes()
        .fold(7_i64, |sum, byte| (sum * 31 + i64::from(byte)) % 1_000_003);
    1_000 + digest
}

#[test]
fn a_query_with_durable_subscriptions_stays() {
    let mut driver = Driver::new();
    driver.create(stream(A)).unwrap();
    driver.register("q", windows(&[(A, 10, 10)])).unwrap();
    driver
        .input(subscribe("q", "bill", terms(true, 7)))
        .unwrap();
    let drop_query = || Input::DropQuery {
        received_ms: 0,
        name: "q".to_owned(),
    };
    let refused = driver.input(drop_query()).unwrap_err().to_string();
    assert!(refused.contains("durable subscriptions: bill"), "{refused}");
    let refused = driver.replace("q", windows(&[(A, 20, 10)])).unwrap_err();
    assert!(refused.to_string().contains("bill"), "{refused}");
    let other = driver.input(subscribe("q", "bill", terms(true, 8)));
    assert!(other.unwrap_err().to_string().contains("other terms"));
    let unknown = driver.input(acknowledge("q", "will", at(1, 10)));
    assert!(
        unknown
            .unwrap_err()
            .to_string()
            .contains("no durable subscription will")
    );
    let unsubscribe = asks("q", "bill", SubscriptionAsk::Unsubscribe);
    driver.input(unsubscribe).unwrap();
    driver.input(drop_query()).unwrap();
}

fn at(sn: u64, close: i64) -> AnswerPosition {
    AnswerPosition {
        sn: Sn(sn),
        close: EventTime(close),
        ordinal: 0,
        revision: 0,
    }
}

fn terms(skips_oldest: bool, answers: u64) -> SubscriptionTerms {
    SubscriptionTerms {
        after: AnswerPosition::START,
        answers,
        bytes: 1_000,
        deadline_ms: Some(9),
        empties: true,
        skips_oldest,
    }
}

fn asks(query: &str, name: &str, ask: SubscriptionAsk) -> Input {
    Input::Subscription(SubscriptionRequest {
        received_ms: 0,
        query: query.to_owned(),
        name: name.to_owned(),
        ask,
    })
}

fn subscribe(query: &str, name: &str, terms: SubscriptionTerms) -> Input {
    let from_now = true;
    asks(query, name, SubscriptionAsk::Subscribe { terms, from_now })
}

fn acknowledge(query: &str, name: &str, through: AnswerPosition) -> Input {
    asks(query, name, SubscriptionAsk::Acknowledge(through))
}

/// Answers of a subscription to `q` are let go.
fn let_go(driver: &mut Driver, name: &str, through: AnswerPosition) {
    let all = driver.coordinator.subscriptions_of("q");
    let place = all.iter().find(|it| it.name == name);
    let let_go = SubscriptionAsk::LetGo {
        after: place.map_or(AnswerPosition::START, |it| it.terms.after),
        through,
        answers: 2,
        why: SubscriptionLimit::Bytes,
    };
    driver.input(asks("q", name, let_go)).unwrap();
}

#[test]
fn revisions_of_a_close_are_counted_on() {
    let run = |driver: &mut Driver, restart: &dyn Fn(&mut Driver)| {
        driver.create(amended_stream(A, 60)).unwrap();
        driver.register("q", windows(&[(A, 40, 10)])).unwrap();
        driver.push(A, &[(12, 1), (55, 2)]).unwrap();
        driver.push(A, &[(21, 3)]).unwrap();
        restart(driver);
        driver.push(A, &[(33, 4)]).unwrap();
    };
    only_forgetting_changes(
        run,
        &[|records| groups(records, |group| group.revisions.clear())],
    );
}

fn recount(records: &mut [CoreRecord]) {
    let before = records.len() as u64 - 1;
    if let Some(CoreRecord::End(count)) = records.last_mut() {
        *count = before;
    }
}

#[test]
fn late_statements_and_facts_wait_in_a_checkpoint() {
    let run = |alter: Option<Alteration>| {
        let mut driver = Driver::new();
        driver.joins_amendments = true;
        driver.create(amended_stream(A, 60)).unwrap();
        driver.register("q", windows(&[(A, 40, 10)])).unwrap();
        driver
            .push_from(A, "", None, vec![(12, 1, "fact"), (55, 2, "fact")])
            .unwrap();
        driver
            .push_from(A, "", None, vec![(21, 3, "fact"), (33, 4, "reading")])
            .unwrap();
        assert!(driver.coordinator.has_amendments());
        if let Some(alter) = alter {
            restart(&mut driver, alter);
        }
        driver.joins_amendments = false;
        driver.cut_slice();
        driver.advance(&[(A, 90)]).unwrap();
        Decisions::of(&driver)
    };
    assert_eq!(run(None), run(Some(|_| ())));
    let forgets: [Alteration; 2] = [
        |records| {
            without_batches(records, BatchKind::Late);
        },
        |records| {
            records.retain(|it| !matches!(it, CoreRecord::Stream(StreamRecord::Facts(_))));
        },
    ];
    for forgets in forgets {
        assert_ne!(run(None), run(Some(forgets)), "the omission is noticed");
    }
}

/// A thread of its own writes a checkpoint.
const fn may_be_written_elsewhere<T: Send>() {}
const _: () = may_be_written_elsewhere::<FrozenCore>();

#[test]
fn statements_keep_their_leases() {
    let mut driver = Driver::with_streams(&[A]);
    driver.world.leases.set(true);
    driver.push(A, &[(12, 1), (55, 2)]).unwrap();
    let frozen = driver.coordinator.freeze().unwrap();
    // Closed batches that wait for their cut, and the open one.
    let epochs = frozen.leases().iter().map(|lease| lease.epoch().number());
    assert_eq!(epochs.collect::<Vec<_>>(), [71, 71]);
    let records: Vec<CoreRecord> = frozen.records().collect();
    assert!(driver.restored(records.clone()).is_ok());
    driver.world.leases.set(false);
    let error = driver.restored(records).unwrap_err().to_string();
    assert!(error.contains("has no terms of epoch 71"), "{error}");
}

#[test]
fn effects_are_waited_for() {
    let mut driver = Driver::with_streams(&[A]);
    let update = driver.coordinator.admit(Input::Update {
        received_ms: 0,
        evaluated_at: None,
        clears: Vec::new(),
        deletes: Vec::new(),
        inserts: vec![blank_statement("b")],
    });
    let somersault_stream::Admission::Record(record) = update.unwrap() else {
        panic!("an update is logged");
    };
    driver.record(record);
    assert!(driver.coordinator.freeze().is_none());
    driver.cut_slice();
    assert_eq!(driver.coordinator.freeze().unwrap().sn(), Sn(1));
}

#[test]
fn records_that_contradict_each_other_are_refused() {
    let mut driver = Driver::with_streams(&[A, B]);
    driver
        .register("q", windows(&[(A, 10, 10), (B, 20, 20)]))
        .unwrap();
    driver.register("r", windows(&[(A, 10, 10)])).unwrap();
    driver
        .push_from(A, "s", Some(1), vec![(10, 1, "reading")])
        .unwrap();
    driver
        .push_from(B, "s", Some(1), vec![(35, 1, "fact")])
        .unwrap();
    let records = frozen(&driver.coordinator);
    assert!(driver.restored(records.clone()).is_ok());
    for at in 0..records.len() {
        let mut missing = records.clone();
        missing.remove(at);
        assert!(
            driver.restored(missing.clone()).is_err(),
            "{:?}",
            records[at]
        );
        if at + 1 < records.len() {
            recount(&mut missing);
            // The count fits. What is named and missing is noticed all the same.
            _ = driver.restored(missing);
        }
        let mut twice = records.clone();
        twice.insert(at, records[at].clone());
        assert!(driver.restored(twice).is_err(), "{:?}", records[at]);
        let mut last = records.clone();
        last.swap(0, at);
        assert!(
            at == 0 || driver.restored(last).is_err(),
            "{:?}",
            records[at]
        );
    }
    let mut newer = records;
    if let Some(CoreRecord::Counters(counters)) = newer.first_mut() {
        counters.version += 1;
    }
    let error = driver.restored(newer).unwrap_err();
    assert!(matches!(error, RestoreError::Newer { .. }), "{error}");
    assert!(CoreRecord::from_bytes(&[]).is_err() && CoreRecord::from_bytes(&[9, 9]).is_err());
}

/// A driver with real texts, read by the parser, and a stream that a query derives.
fn with_texts() -> Driver {
    let mut driver = Driver::new();
    let text =
        "CREATE STREAM <http://a/> TIMING (<http://p/reading>) BATCH 10ms IDLE NEVER KEEP 1s";
    let Ok(Statement::CreateStream(declaration)) = Parser::new().parse_statement(text) else {
        panic!("{text} declares a stream");
    };
    driver.create(declaration).unwrap();
    let derive = "REGISTER STREAM <http://d/> KEEP 1s AS CONSTRUCT { ?s <http://p/fact> ?o } \
                  FROM STREAM <http://a/> [RANGE 40ms STEP 20ms] WHERE { ?s <http://p/reading> ?o }";
    let one = "REGISTER QUERY one AS SELECT ?s FROM STREAM <http://d/> [RANGE 40ms STEP 20ms] \
               WHERE { ?s ?p <http://o/1> }";
    let two = "REGISTER QUERY two  AS SELECT ?s FROM STREAM <http://d/> [RANGE 40ms STEP 20ms] \
               WHERE { ?s ?p <http://o/2> }";
    for (name, text) in [("http://d/", derive), ("one", one), ("two", two)] {
        let parsed = Parser::new().parse_continuous(text).unwrap();
        let input = Input::RegisterQuery {
            received_ms: 0,
            name: name.to_owned(),
            text: text.to_owned(),
            namespace: None,
            query: ParsedQuery::of(text, (&parsed).into()),
            replaces: false,
        };
        driver.input(input).unwrap();
    }
    driver.push(A, &[(5, 1), (27, 2), (63, 3)]).unwrap();
    driver
}

#[test]
fn texts_are_read_again() {
    let driver = with_texts();
    let records = frozen(&driver.coordinator);
    let restored = Coordinator::restore(
        records.iter().cloned().map(Ok::<_, RestoreError>),
        &mut LoggedTexts::new(),
        &driver.world,
    );
    let restored = restored.unwrap();
    assert_eq!(frozen(&restored), records);
    let show = |coordinator: &Coordinator| {
        let streams = coordinator.streams().into_iter();
        let streams: Vec<_> = streams.map(|it| (it.declaration, it.derived_by)).collect();
        let queries = coordinator.queries().into_iter();
        let queries: Vec<_> = queries
            .map(|it| (it.name, it.text, it.member, it.group))
            .collect();
        (streams, queries)
    };
    assert_eq!(show(&restored), show(&driver.coordinator));
    let unknown = Coordinator::restore(
        records.into_iter().map(Ok::<_, RestoreError>),
        &mut Texts::default(),
        &driver.world,
    );
    assert!(matches!(unknown, Err(RestoreError::Text(_))));
}

proptest! {
    /// Bytes of records with some changed, and any bytes: refused, or a record that is written as
    /// it was read.
    #[test]
    fn bytes_are_refused_or_a_record(
        case in case(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        any_bytes in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let (driver, _) = case.run(None);
        let mut inputs = vec![any_bytes];
        for record in frozen(&driver.coordinator) {
            let mut bytes = record.to_bytes();
            for (at, byte) in &changes {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            inputs.push(bytes);
        }
        for bytes in inputs {
            if let Ok(record) = CoreRecord::from_bytes(&bytes) {
                let again = CoreRecord::from_bytes(&record.to_bytes());
                prop_assert_eq!(again.unwrap(), record);
            }
        }
    }
}

/// The members that a host knows of, by cohort and slot.
#[derive(Debug, Default, PartialEq)]
struct Known {
    streams: BTreeSet<String>,
    cohorts: BTreeMap<QueryUid, (String, Option<StreamUid>)>,
    /// Uid, base, words, the next close while it is paused, and what was answered before.
    members: BTreeMap<(QueryUid, u32), Member>,
}

#[derive(Debug, PartialEq)]
struct Member {
    joined: (EventTime, JoiningMember),
    paused: Option<Option<EventTime>>,
    answered_before: Option<EventTime>,
}

impl Known {
    fn of(outputs: &[Output]) -> Known {
        let mut known = Known::default();
        for output in outputs {
            match output {
                Output::StreamCreated { clock } => {
                    known.streams.insert(plain(output));
                    assert!(clock.uid().0 > 0);
                }
                Output::StreamDropped { uid, .. } => {
                    let name = format!("created {uid:?} ");
                    known.streams.retain(|created| !created.starts_with(&name));
                }
                Output::Query(event) => known.hear(event),
                _ => {}
            }
        }
        known
    }

    fn hear(&mut self, QueryEvent { cohort, change }: &QueryEvent) {
        let mut join = |base: EventTime, member: &JoiningMember| {
            let member = Member {
                joined: (base, member.clone()),
                paused: None,
                answered_before: None,
            };
            let slot = member.joined.1.slot;
            assert!(self.members.insert((*cohort, slot), member).is_none());
        };
        match change {
            QueryChange::Formed { shape, derives, .. } => {
                let shape = (shape.key().to_owned(), *derives);
                self.cohorts.insert(*cohort, shape);
            }
            QueryChange::Joined { base, members } => {
                members.iter().for_each(|member| join(*base, member));
            }
            QueryChange::Resumed {
                base,
                member,
                before,
            } => {
                join(*base, member);
                let before = self.members.remove(&(*cohort, *before)).unwrap();
                let resumed = self.members.get_mut(&(*cohort, member.slot)).unwrap();
                resumed.answered_before = before.answered_before;
            }
            QueryChange::Paused { slot, pause } => {
                let member = self.members.get_mut(&(*cohort, *slot)).unwrap();
                member.paused = Some(pause.next);
            }
            QueryChange::AnsweredBefore { slot, close } => {
                let member = self.members.get_mut(&(*cohort, *slot)).unwrap();
                member.answered_before = Some(*close);
            }
            QueryChange::Left { slot } => {
                self.members.remove(&(*cohort, *slot));
            }
            QueryChange::Ended => {
                self.cohorts.remove(cohort);
                assert!(!self.members.keys().any(|(of, _)| of == cohort));
            }
            _ => {}
        }
    }
}

proptest! {
    /// A host that hears of all queries at once knows what one knows that heard of each change.
    #[test]
    fn a_restored_coordinator_announces_what_exists(case in case()) {
        let (mut driver, _) = case.run(None);
        let records = frozen(&driver.coordinator);
        let restored = driver.restored(records).unwrap();
        let mut announced = Vec::new();
        restored.announce(&mut announced);
        prop_assert_eq!(Known::of(&announced), Known::of(&driver.decided));
    }
}

/// The records of a driver with real texts, as this version writes them: each with its length
/// before it.
fn golden() -> (Driver, Vec<u8>) {
    let mut driver = with_texts();
    driver.pause("two");
    driver
        .push_from(A, "s", Some(7), vec![(70, 4, "fact"), (95, 5, "reading")])
        .unwrap();
    driver
        .push_from(A, "t", None, vec![(91, 6, "reading")])
        .unwrap();
    let mut bytes = Vec::new();
    for record in driver.coordinator.freeze().unwrap().records() {
        let record = record.to_bytes();
        bytes.extend((record.len() as u32).to_le_bytes());
        bytes.extend(record);
    }
    (driver, bytes)
}

/// `UPDATE_EXPECT=1` writes the file again. That is right only before a version is released: then
/// its records stay readable, and a change of them gets a file of its own.
#[test]
fn records_of_version_1_are_read() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/core-1.records");
    let (mut driver, now) = golden();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(path, &now).unwrap();
    }
    let bytes = std::fs::read(path).unwrap();
    let mut rest = &bytes[..];
    let mut records = Vec::new();
    while let Some((length, after)) = rest.split_first_chunk() {
        let (record, after) = after.split_at(u32::from_le_bytes(*length) as usize);
        records.push(CoreRecord::from_bytes(record).unwrap());
        rest = after;
    }
    assert_eq!(
        frozen(&driver.coordinator),
        records,
        "the format has changed"
    );
    let read = records.iter().cloned().map(Ok::<_, RestoreError>);
    let restored = Coordinator::restore(read, &mut LoggedTexts::new(), &driver.world).unwrap();
    assert_eq!(frozen(&restored), records);
    driver.coordinator = restored;
    driver.resume("two");
    driver.advance(&[(A, 200)]).unwrap();
    assert!(driver.closes("one").contains(&200));
}
