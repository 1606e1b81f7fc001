//! Cuts: what an SN holds, what comes between, what is delivered, retired and cancelled; invariants
//! broken on purpose.

use crate::harness::{Driver, amended_stream, number_of, predicate, statement, stream, windows};
use oxrdf::{GraphName, NamedNode};
use somersault_lang::Classification;
use somersault_log::{DeliveredRecord, LoadRecord, LoadSegment, PlanRecord, Position};
use somersault_model::{EventTime, Intern, QuadIds, Sn, TermId};
use somersault_stream::Record;
use somersault_stream::{Coordinator, CutPace, Input, Output};
use std::collections::BTreeSet;

const A: &str = "http://a/";
const B: &str = "http://b/";

fn fact(driver: &mut Driver, stream: &str, at: i64, number: u64) {
    let one = vec![(at, number, "fact")];
    driver.push_from(stream, "", None, one).unwrap();
}

/// The facts of the newest cut.
fn last_facts(driver: &Driver) -> Vec<u64> {
    let Some(Output::Inject(inject)) = driver.decided.last() else {
        panic!("the newest output is a cut");
    };
    let facts = inject.mutations.iter();
    let facts = facts.map(|mutation| number_of(&driver.world, mutation.quad.triple()));
    facts.collect()
}

#[test]
fn a_close_sees_the_facts_before_it_and_no_later_ones() {
    let mut driver = Driver::with_streams(&[A, B]);
    driver.register("q", windows(&[(A, 20, 20)])).unwrap();
    driver.advance(&[(A, 0), (B, 0)]).unwrap();
    for at in 0..6 {
        fact(&mut driver, A, at * 10 + 5, at as u64);
        fact(&mut driver, B, at * 10 + 7, at as u64 + 100);
        driver
            .advance(&[(A, at * 10 + 10), (B, at * 10 + 10)])
            .unwrap();
    }
    for close in [20, 40, 60] {
        let before = 0..close as u64 / 10;
        let expected: BTreeSet<u64> = before.clone().chain(before.map(|n| n + 100)).collect();
        assert_eq!(driver.at("q", close).stored, expected);
    }
}

#[test]
fn one_push_that_makes_several_closes_due_gives_one_cut_for_each() {
    let mut driver = Driver::with_streams(&[A]);
    driver.register("q", windows(&[(A, 20, 20)])).unwrap();
    driver.register("r", windows(&[(A, 40, 20)])).unwrap();
    driver.register("s", windows(&[(A, 30, 30)])).unwrap();
    driver
        .push_from(
            A,
            "",
            None,
            vec![
                (5, 1, "fact"),
                (25, 2, "fact"),
                (35, 3, "fact"),
                (60, 4, "fact"),
            ],
        )
        .unwrap();
    let through: Vec<_> = driver
        .log
        .iter()
        .filter_map(|record| match record {
            Record::Plan(plan) => plan.through.map(|close| (plan.sn.0, close.0)),
            _ => None,
        })
        .collect();
    assert_eq!(through, [(1, 20), (2, 30), (3, 40), (4, 60)]);
    assert_eq!(driver.at("q", 20).firing.sn, driver.at("r", 20).firing.sn);
    assert_eq!(driver.at("s", 30).stored, BTreeSet::from([1, 2]));
    assert_eq!(driver.at("q", 40).stored, BTreeSet::from([1, 2, 3]));
}

#[test]
fn classification_and_into_decide_which_graph_absorbs_a_statement() {
    let mut driver = Driver::new();
    let graph = NamedNode::new("http://g/").unwrap();
    let mut into = stream(A);
    into.into = Some(graph.clone());
    driver.create(into).unwrap();
    let mut timing = stream(B);
    timing.classification = Classification::TimingAll;
    driver.create(timing).unwrap();
    driver
        .push_from(A, "", None, vec![(1, 1, "fact"), (2, 2, "reading")])
        .unwrap();
    fact(&mut driver, B, 3, 3);
    driver.advance(&[(A, 10), (B, 10)]).unwrap();
    driver.freshness_cut().unwrap();
    let Some(Output::Inject(inject)) = driver.decided.last() else {
        panic!("a cut injects");
    };
    let graph = driver.world.intern(graph.as_ref().into());
    let absorbed: Vec<_> = inject
        .mutations
        .iter()
        .map(|mutation| {
            let number = number_of(&driver.world, mutation.quad.triple());
            (mutation.quad.graph == graph, number)
        })
        .collect();
    assert_eq!(absorbed, [(true, 1)]);
    let in_slices: usize = inject
        .slices
        .iter()
        .map(|slice| slice.statements.len())
        .sum();
    assert_eq!(in_slices, 3, "timing and timeless alike");
}

#[test]
fn s15_an_updates_effects_are_the_next_sn_with_nothing_between() {
    let mut driver = Driver::with_streams(&[A]);
    driver.register("q", windows(&[(A, 20, 20)])).unwrap();
    fact(&mut driver, A, 5, 1);
    // Closes 20 and 40 are due with the next push, and batches are closed: the update's SN holds
    // its effects only.
    let update = Record::Update(somersault_log::UpdateRecord {
        clears: Vec::new(),
        received_ms: 0,
        deletes: vec![statement(7, "fact")],
        inserts: vec![statement(8, "fact")],
    });
    let mut out = Vec::new();
    let push = driver.coordinator.admit(Input::Advance {
        received_ms: 0,
        to: vec![(A.to_owned(), EventTime(45))],
    });
    let Ok(somersault_stream::Admission::Record(advance)) = push else {
        panic!("an advance is logged");
    };
    for record in [&update, &advance] {
        driver
            .coordinator
            .apply(record, &driver.world, &mut out)
            .unwrap();
    }
    let plan = driver
        .coordinator
        .next_due_cut(Position(9), &CutPace::default())
        .unwrap();
    assert_eq!((plan.sn, plan.through), (Sn(1), None));
    driver
        .coordinator
        .apply(&Record::Plan(plan), &driver.world, &mut out)
        .unwrap();
    let Some(Output::Inject(inject)) = out.last() else {
        panic!("a cut injects");
    };
    assert_eq!((inject.mutations.len(), inject.slices.len()), (2, 0));
    let next = driver
        .coordinator
        .next_due_cut(Position(10), &CutPace::default())
        .unwrap();
    assert_eq!((next.sn, next.through), (Sn(2), Some(EventTime(20))));
}

#[test]
fn a_load_has_its_own_sn_and_a_lost_segment_is_an_error() {
    let mut driver = Driver::new();
    let quad = QuadIds {
        graph: TermId::DEFAULT_GRAPH,
        subject: driver
            .world
            .intern(statement(1, "fact").subject.as_ref().into()),
        predicate: driver.world.intern(predicate("fact").as_ref().into()),
        object: TermId::DEFAULT_GRAPH,
    };
    let segments = &driver.world.segments;
    segments
        .borrow_mut()
        .insert("one".to_owned(), [quad].into());
    let segment = |name: &str| LoadSegment {
        name: name.to_owned(),
        hash: [0; 32],
        statements: 1,
    };
    driver
        .input(Input::Load {
            received_ms: 0,
            segment: segment("one"),
            clears: Vec::new(),
        })
        .unwrap();
    let Some(Output::Inject(inject)) = driver.decided.last() else {
        panic!("a load is cut at once");
    };
    assert_eq!((inject.sn, inject.loads.len()), (Sn(1), 1));
    assert!(inject.clears.is_empty());
    driver
        .input(Input::Load {
            received_ms: 0,
            segment: segment("one"),
            clears: vec![GraphName::DefaultGraph],
        })
        .unwrap();
    let Some(Output::Inject(inject)) = driver.decided.last() else {
        panic!("a load is cut at once");
    };
    assert_eq!((inject.sn, inject.loads.len()), (Sn(2), 1));
    assert_eq!(*inject.clears, [TermId::DEFAULT_GRAPH]);
    let lost = Record::Load(LoadRecord {
        received_ms: 0,
        segment: segment("lost"),
        clears: Vec::new(),
    });
    let error = driver
        .coordinator
        .apply(&lost, &driver.world, &mut Vec::new())
        .unwrap_err();
    assert!(error.to_string().contains("load segment lost"), "{error}");
    assert_eq!(
        driver
            .coordinator
            .next_due_cut(Position(1), &CutPace::default()),
        None
    );
}

#[test]
fn dropping_a_stream_keeps_its_facts_even_of_open_batches() {
    let mut driver = Driver::with_streams(&[A]);
    fact(&mut driver, A, 5, 1);
    fact(&mut driver, A, 15, 2);
    driver.drop_stream(A).unwrap();
    let Some(Output::Inject(inject)) = driver.decided.last() else {
        panic!("the facts are cut at once");
    };
    assert_eq!((inject.mutations.len(), inject.slices.len()), (2, 0));
    assert!(driver.push(A, &[(20, 3)]).is_err());
    driver.create(stream(A)).unwrap();
    driver.push(A, &[(1, 3)]).unwrap();
}

#[test]
fn dropping_a_stream_keeps_late_facts_that_wait_for_their_cut() {
    let mut driver = Driver::new();
    driver.create(amended_stream(A, 100)).unwrap();
    fact(&mut driver, A, 5, 1);
    fact(&mut driver, A, 55, 2);
    driver.freshness_cut().expect("a batch has closed");
    driver.joins_amendments = true;
    fact(&mut driver, A, 15, 3);
    assert!(driver.coordinator.has_amendments());
    driver.drop_stream(A).unwrap();
    assert_eq!(BTreeSet::from_iter(last_facts(&driver)), [2, 3].into());
    assert!(!driver.coordinator.has_amendments());
}

#[test]
fn a_cut_for_batches_leaves_amendments_that_wait() {
    let mut driver = Driver::new();
    driver.create(amended_stream(A, 100)).unwrap();
    fact(&mut driver, A, 5, 1);
    fact(&mut driver, A, 25, 2);
    driver.freshness_cut().expect("a batch has closed");
    driver.joins_amendments = true;
    fact(&mut driver, A, 7, 3);
    fact(&mut driver, A, 45, 4);
    driver.freshness_cut().expect("a batch has closed");
    assert_eq!(last_facts(&driver), [2]);
    assert!(driver.coordinator.has_amendments());
    driver.joins_amendments = false;
    driver.cut_slice();
    assert_eq!(last_facts(&driver), [3]);
    assert!(!driver.coordinator.has_amendments());
}

#[test]
fn nothing_fires_before_its_sn_is_stable() {
    let mut driver = Driver::with_streams(&[A]);
    driver.stable_at_once = false;
    driver.register("q", windows(&[(A, 20, 20)])).unwrap();
    driver.push(A, &[(1, 1), (45, 2)]).unwrap();
    let due = driver.decided.iter();
    assert_eq!(
        due.filter(|output| matches!(output, Output::Due(_)))
            .count(),
        2
    );
    assert!(driver.seen.is_empty());
    let mut out = Vec::new();
    driver.coordinator.on_stable(Sn(1), &mut out);
    assert_eq!(out.len(), 1);
    assert!(matches!(&out[0], Output::Fire(firing) if firing.close == EventTime(20)));
    let status = driver.coordinator.stream(A).unwrap();
    assert_eq!(status.stable_time, Some(EventTime(20)));
    assert_eq!(status.watermark, Some(EventTime(45)));
}

#[test]
fn slices_stay_until_the_firing_that_reads_them_is_done() {
    let mut driver = Driver::with_streams(&[A]);
    driver.fired_at_once = false;
    driver.register("q", windows(&[(A, 20, 20)])).unwrap();
    driver.push(A, &[(1, 1)]).unwrap();
    for at in 1..100 {
        driver.push(A, &[(at * 10, at as u64 + 1)]).unwrap();
    }
    assert!(driver.retired.is_empty(), "the firing at 20 is not done");
    driver.finish();
    assert!(!driver.retired.is_empty());
    assert_eq!(driver.content("q", 20), [[1, 2]]);
    // KEEP is 100ms, a window needs 20ms: not much more than that is held.
    assert!(driver.coordinator.stream(A).unwrap().held_statements < 15);
}

#[test]
fn a_firing_whose_query_was_dropped_is_cancelled() {
    let mut driver = Driver::with_streams(&[A]);
    driver.stable_at_once = false;
    driver.register("q", windows(&[(A, 20, 20)])).unwrap();
    driver.push(A, &[(1, 1), (25, 2)]).unwrap();
    driver.drop_query("q");
    driver.stabilise();
    assert!(driver.seen.is_empty());
    assert_eq!(driver.cancelled.len(), 1);
}

#[test]
fn recovery_does_not_repeat_delivered_firings() {
    let mut driver = Driver::with_streams(&[A]);
    driver.register("q", windows(&[(A, 20, 20)])).unwrap();
    driver.push(A, &[(1, 1), (65, 2)]).unwrap();
    let query = driver.coordinator.query("q").unwrap().uid;
    let delivered = DeliveredRecord {
        query,
        close: EventTime(40),
        sn: None,
    };
    driver.record(Record::Delivered(delivered));

    let released = |expected_before: bool| {
        let mut coordinator = Coordinator::new();
        let (world, mut out) = (driver.world.after_restart(), Vec::new());
        if expected_before {
            coordinator.expect_delivered(&delivered);
        }
        for record in &driver.log {
            coordinator.apply(record, &world, &mut out).unwrap();
        }
        let due = out.iter().filter(|output| matches!(output, Output::Due(_)));
        let due = due.count();
        out.clear();
        coordinator.on_stable(coordinator.last_cut(), &mut out);
        let fired = out.iter().filter_map(|output| match output {
            Output::Fire(firing) => Some(firing.close.0),
            _ => None,
        });
        assert_eq!(coordinator.query("q").unwrap().firings, 3);
        (due, fired.collect::<Vec<_>>())
    };
    assert_eq!(released(true), (1, vec![60]));
    assert_eq!(released(false), (3, vec![60]));
}

#[test]
fn quiet_streams_and_empty_batches_cost_no_cut() {
    let mut driver = Driver::with_streams(&[A, B]);
    assert_eq!(driver.freshness_cut(), None);
    driver.advance(&[(A, 0)]).unwrap();
    driver.freshness_cut().unwrap();
    driver.push(A, &[(1, 1)]).unwrap();
    assert_eq!(driver.freshness_cut(), None, "the batch is open");
    driver.advance(&[(A, 1_000)]).unwrap();
    let plan = driver.freshness_cut().unwrap();
    assert_eq!(plan.stream_times.len(), 1);
    assert_eq!(driver.freshness_cut(), None);
    assert!(!driver.coordinator.has_pending());
}

fn plan(sn: u64, through: Option<i64>) -> PlanRecord {
    PlanRecord {
        sn: Sn(sn),
        through: through.map(EventTime),
        log_end: Position(0),
        stream_times: Vec::new(),
        held: Vec::new(),
    }
}

/// A driver with closes 20 and 40 due and not cut.
fn two_due() -> Driver {
    let mut driver = Driver::with_streams(&[A]);
    driver.register("q", windows(&[(A, 20, 20)])).unwrap();
    driver.advance(&[(A, 0)]).unwrap();
    let Ok(somersault_stream::Admission::Record(record)) =
        driver.coordinator.admit(Input::Advance {
            received_ms: 0,
            to: vec![(A.to_owned(), EventTime(45))],
        })
    else {
        panic!("an advance is logged");
    };
    driver.record(record);
    driver
}

#[test]
#[should_panic(expected = "VT-1: snapshot numbers are dense")]
fn vt1_a_plan_record_out_of_order_is_caught() {
    two_due().record(Record::Plan(plan(2, Some(20))));
}

#[test]
#[should_panic(expected = "WI-2: closes are cut in order")]
fn wi2_a_plan_record_that_leaves_out_a_close_is_caught() {
    two_due().record(Record::Plan(plan(1, Some(40))));
}

#[test]
#[should_panic(expected = "VT-1: the time of stream <http://a/> in a plan record")]
fn vt1_a_plan_record_beyond_what_was_seen_is_caught() {
    let mut driver = two_due();
    let mut beyond = driver
        .coordinator
        .next_due_cut(Position(0), &CutPace::default())
        .unwrap();
    beyond.stream_times[0].1 = EventTime(50);
    driver.record(Record::Plan(beyond));
}

#[test]
#[should_panic(expected = "VT-1: the stable SN goes on")]
fn vt1_a_stable_sn_that_goes_back_is_caught() {
    let mut driver = two_due();
    let first = driver
        .coordinator
        .next_due_cut(Position(0), &CutPace::default())
        .unwrap();
    driver.record(Record::Plan(first));
    driver.coordinator.on_stable(Sn(0), &mut Vec::new());
}

#[test]
#[should_panic(expected = "VT-1: the stable SN goes on")]
fn vt1_a_stable_sn_that_was_never_cut_is_caught() {
    two_due().coordinator.on_stable(Sn(7), &mut Vec::new());
}

#[test]
fn the_stable_time_of_a_stream_never_goes_back_or_past_what_is_cut() {
    let mut driver = Driver::with_streams(&[A, B]);
    driver.stable_at_once = false;
    driver
        .register("q", windows(&[(A, 20, 20), (B, 20, 20)]))
        .unwrap();
    let mut last = None;
    for at in 0..50 {
        driver.push(A, &[(at * 7, at as u64)]).unwrap();
        driver.push(B, &[(at * 5, at as u64)]).unwrap();
        if at % 3 == 0 {
            driver.freshness_cut();
        }
        if at % 4 == 0 {
            driver.stabilise();
        }
        let status = driver.coordinator.stream(A).unwrap();
        assert!(status.stable_time >= last && status.stable_time <= status.watermark);
        last = status.stable_time;
    }
    assert!(last.is_some());
}
