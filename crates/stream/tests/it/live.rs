//! Live queries: which SNs they fire with, in one run, in a replay, and from a checkpoint.

use crate::harness::{Driver, over, predicate, statement, stream};
use somersault_lang::{ReadGraphs, Report, StoredPattern};
use somersault_model::{EventTime, Millis, Sn};
use somersault_stream::{
    CoreRecord, Input, LiveDeclaration, QueryDeclaration, Refusal, SavedLiveQuery,
};

/// A query that reads statements with this predicate of the default graph.
fn reading(name: &str, every: Option<i64>) -> QueryDeclaration {
    QueryDeclaration {
        report: Report {
            on_change: true,
            non_empty: false,
        },
        live: Some(Box::new(LiveDeclaration {
            reads: vec![StoredPattern {
                graphs: ReadGraphs::Default,
                subject: None,
                predicate: Some(predicate(name)),
                object: None,
            }],
            every: every.map(Millis),
        })),
        ..over([])
    }
}

fn update(driver: &mut Driver, at: i64, number: u64, name: &str) {
    driver.now_ms = at;
    let update = Input::Update {
        received_ms: at,
        evaluated_at: None,
        clears: Vec::new(),
        deletes: Vec::new(),
        inserts: vec![statement(number, name)],
    };
    driver.input(update).unwrap();
}

/// The firings of a query so far: close, ordinal, SN, and the statements that are stored then.
fn firings(driver: &Driver, name: &str) -> Vec<(i64, u32, Sn, Vec<u64>)> {
    let uid = driver.coordinator.query(name).unwrap().uid;
    let of_query = driver.seen.iter().filter(|seen| seen.firing.query == uid);
    let firings = of_query.map(|seen| {
        let firing = &seen.firing;
        let stored = seen.stored.iter().copied().collect();
        (firing.close.0, firing.ordinal, firing.sn, stored)
    });
    firings.collect()
}

#[test]
fn a_query_fires_at_its_registration_and_with_each_change() {
    let mut driver = Driver::new();
    update(&mut driver, 5, 1, "fact");
    driver.now_ms = 10;
    driver.register("q", reading("fact", None)).unwrap();
    update(&mut driver, 20, 2, "fact");
    update(&mut driver, 20, 3, "other");
    update(&mut driver, 20, 4, "fact");
    assert_eq!(
        firings(&driver, "q"),
        [
            (10, 0, Sn(2), vec![1]),
            (20, 0, Sn(3), vec![1, 2]),
            (20, 1, Sn(5), vec![1, 2, 3, 4]),
        ]
    );
    let status = driver.coordinator.query("q").unwrap();
    assert_eq!(
        (status.firings, status.last_close),
        (3, Some(EventTime(20)))
    );
    assert_eq!(status.next_close, None);
}

#[test]
fn facts_of_streams_are_changes_too() {
    let mut driver = Driver::new();
    driver.create(stream("http://a/")).unwrap();
    driver.register("q", reading("fact", None)).unwrap();
    driver.now_ms = 7;
    let pushed = vec![(100, 1, "fact"), (100, 2, "reading")];
    driver.push_from("http://a/", "", None, pushed).unwrap();
    driver.advance(&[("http://a/", 200)]).unwrap();
    driver.freshness_cut().unwrap();
    let found = firings(&driver, "q");
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!((found[1].0, &found[1].3[..]), (7, &[1][..]));
}

#[test]
fn a_paused_query_fires_when_it_is_resumed() {
    let mut driver = Driver::new();
    driver.register("q", reading("fact", None)).unwrap();
    driver.pause("q");
    update(&mut driver, 20, 1, "fact");
    assert_eq!(firings(&driver, "q").len(), 1);
    driver.resume("q");
    update(&mut driver, 30, 2, "fact");
    let closes: Vec<i64> = firings(&driver, "q").iter().map(|it| it.0).collect();
    assert_eq!(closes, [0, 20, 30]);
    driver.drop_query("q");
    update(&mut driver, 40, 3, "fact");
    assert_eq!(driver.seen.len(), 3);
}

#[test]
fn every_waits_for_the_clock() {
    let mut driver = Driver::new();
    driver.register("q", reading("fact", Some(100))).unwrap();
    update(&mut driver, 20, 1, "fact");
    update(&mut driver, 30, 2, "fact");
    driver.tick(99);
    assert_eq!(firings(&driver, "q").len(), 1);
    driver.tick(100);
    let found = firings(&driver, "q");
    assert_eq!((found[1].0, &found[1].3[..]), (100, &[1, 2][..]));
    driver.tick(500);
    assert_eq!(firings(&driver, "q").len(), 2, "nothing has changed since");
}

#[test]
fn a_query_that_is_replaced_fires_at_once() {
    let mut driver = Driver::new();
    driver.register("q", reading("fact", None)).unwrap();
    update(&mut driver, 20, 1, "fact");
    driver.replace("q", reading("other", None)).unwrap();
    update(&mut driver, 20, 2, "fact");
    update(&mut driver, 20, 3, "other");
    let found: Vec<_> = firings(&driver, "q").into_iter().map(|it| it.3).collect();
    assert_eq!(found, [vec![1], vec![1, 2, 3]]);
}

#[test]
fn a_span_out_of_range_is_refused() {
    let mut driver = Driver::new();
    let refused = driver.register("q", reading("fact", Some(i64::MAX)));
    assert!(matches!(
        refused,
        Err(Refusal::SpanOutOfRange {
            clause: "EVERY",
            ..
        })
    ));
}

type Seen = Vec<(i64, u32, Sn, Vec<u64>)>;

/// Runs inputs with a checkpoint after one of them, from whose records the coordinator goes on, and
/// gives what the queries saw.
fn run(checkpoint_after: Option<usize>, alter: fn(&mut Vec<CoreRecord>)) -> Seen {
    let mut driver = Driver::new();
    driver.checkpoint_after = checkpoint_after.into_iter().collect();
    driver.restores = Some(alter);
    driver.register("often", reading("fact", None)).unwrap();
    driver
        .register("rarely", reading("fact", Some(50)))
        .unwrap();
    for at in 1..12 {
        let name = ["fact", "other"][usize::from(at % 3 == 0)];
        update(&mut driver, 10 * (at as i64 / 2), at, name);
        if at == 6 {
            driver.pause("often");
        }
        if at == 8 {
            driver.resume("often");
        }
    }
    driver.tick(1_000);
    let mut all = firings(&driver, "often");
    all.extend(firings(&driver, "rarely"));
    all
}

#[test]
fn a_restored_coordinator_fires_as_the_other_would() {
    let whole = run(None, |_| ());
    assert!(whole.len() > 8, "{whole:?}");
    for after in 1..16 {
        assert_eq!(
            run(Some(after), |_| ()),
            whole,
            "a checkpoint after input {after}"
        );
    }
}

/// The live queries of a checkpoint.
fn saved(records: &mut [CoreRecord]) -> impl Iterator<Item = &mut SavedLiveQuery> {
    let queries = records.iter_mut().filter_map(|record| match record {
        CoreRecord::Live(_, queries) => Some(queries),
        _ => None,
    });
    queries.flatten()
}

#[test]
fn each_field_of_a_live_query_is_needed() {
    let whole = run(None, |_| ());
    let forgets: [fn(&mut Vec<CoreRecord>); 4] = [
        |records| saved(records).for_each(|query| query.newest = None),
        |records| saved(records).for_each(|query| query.is_touched = false),
        |records| saved(records).for_each(|query| query.is_touched = true),
        |records| {
            for record in records {
                if let CoreRecord::Live(now, _) = record {
                    *now = EventTime(1_000);
                }
            }
        },
    ];
    for (at, forget) in forgets.into_iter().enumerate() {
        let noticed = (1..16).any(|after| run(Some(after), forget) != whole);
        assert!(noticed, "field {at}");
    }
}
