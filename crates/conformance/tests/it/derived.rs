//! Derived streams, with the engine killed and restarted on the way: a window over a stream that is
//! made of a tumbling window's statements holds what a window of the past over the source does,
//! close by close, and no firing comes twice.

use crate::cases;
use somersault::EventTime;
use somersault::replay::{ReplayPlan, Step, Steps, StreamFile};
use somersault_conformance::rsp::child::{ChildHost, KillPlan};
use somersault_conformance::rsp::host::{Firing, Host, HostOptions, InProcess};
use std::collections::BTreeMap;
use std::path::PathBuf;

const SECONDS: &str = "REGISTER STREAM :seconds AS CONSTRUCT { ?s ?p ?o }
    FROM NAMED STREAM :readings [RANGE 1s TUMBLING] WHERE { GRAPH :readings { ?s ?p ?o } }";
const OVER_SECONDS: &str = "SELECT ?s ?v FROM NAMED STREAM :seconds [RANGE 3s STEP 1s] WHERE { GRAPH :seconds { ?s :value ?v } }";
const OVER_THE_PAST: &str =
    "SELECT ?s ?v FROM NAMED WINDOW :past ON :readings [FROM NOW-4s TO NOW-1s STEP 1s]
    WHERE { WINDOW :past { ?s :value ?v } }";
const UNTIL_MS: i64 = 12_000;

fn steps() -> Vec<Step> {
    let suite = cases();
    let readings = suite
        .streams
        .iter()
        .find(|stream| stream.iri.ends_with("readings"));
    let readings = readings.expect("the suite has readings");
    let plan = ReplayPlan {
        files: vec![StreamFile {
            stream: readings.iri.clone(),
            path: suite.path(&readings.file),
        }],
        batch_ms: suite.batch_ms,
        until: Some(EventTime(UNTIL_MS)),
        snapshots: Vec::new(),
    };
    let steps = Steps::open(&plan).expect("the recording is there");
    steps
        .map(|step| step.expect("the recording reads"))
        .collect()
}

/// Plays the recording; all firings, in the order in which they came.
fn play(host: &mut dyn Host, steps: Vec<Step>) -> Vec<Firing> {
    let readings = "http://example.org/cases/readings";
    host.create_stream(&format!(
        "CREATE STREAM <{readings}> BATCH 500ms IDLE NEVER"
    ))
    .expect("the stream is declared");
    let queries = [
        (None, SECONDS),
        (Some("derived"), OVER_SECONDS),
        (Some("past"), OVER_THE_PAST),
    ];
    for (number, (name, text)) in queries.into_iter().enumerate() {
        let text = format!("PREFIX : <http://example.org/cases/> {text}");
        host.register(number, name, &text)
            .expect("the query is registered");
    }
    let mut firings = Vec::new();
    for step in steps {
        match step {
            Step::Push {
                stream,
                seq,
                statements,
            } => host
                .push(&stream, seq, statements)
                .expect("the push is taken"),
            Step::Advance { to } => {
                let to = [(readings.to_owned(), to.0)];
                host.advance(&to).expect("the stream advances");
                firings.extend(host.firings(false).expect("firings are read"));
            }
            Step::Snapshot { .. } => {}
        }
    }
    firings.extend(host.firings(true).expect("firings are read"));
    host.close().expect("the engine closes");
    firings
}

/// The rows of a query's closes; each close once, in order.
fn rows_of(firings: &[Firing], query: usize) -> BTreeMap<i64, Vec<Vec<Option<String>>>> {
    let firings: Vec<&Firing> = firings.iter().filter(|it| it.query == query).collect();
    let closes: Vec<i64> = firings.iter().map(|firing| firing.close_ms).collect();
    assert!(
        closes.is_sorted_by(|a, b| a < b),
        "query {query} fired for {closes:?}"
    );
    let rows = firings.iter().map(|firing| {
        let (_, mut rows) = firing.answer.clone().expect("an answer");
        rows.sort();
        (firing.close_ms, rows)
    });
    rows.collect()
}

fn assert_same(firings: &[Firing], when: &str) {
    let (derived, past) = (rows_of(firings, 1), rows_of(firings, 2));
    let closes: Vec<i64> = (2..=UNTIL_MS / 1000).map(|second| second * 1000).collect();
    for close in &closes {
        assert_eq!(derived.get(close), past.get(close), "{when}, close {close}");
    }
    let with_rows = closes.iter().filter(|close| !derived[close].is_empty());
    assert!(with_rows.count() >= 8, "{when}");
}

fn options(data: Option<PathBuf>) -> HostOptions {
    HostOptions {
        shards: 2,
        simulated: None,
        data,
        default_namespace: None,
        delta: true,
        checkpoint_every: 0,
    }
}

#[test]
fn a_window_over_a_derived_stream_is_a_window_of_the_past() {
    let mut host = InProcess::open(&options(None)).expect("an engine");
    let firings = play(&mut host, steps());
    assert_same(&firings, "without a kill");
    assert_eq!(rows_of(&firings, 0).len(), 12);
}

#[test]
fn the_same_when_the_engine_is_killed() {
    let steps = steps();
    // A stream and three queries, and for each advance a look at the firings.
    let asked = 4
        + steps.len()
        + steps
            .iter()
            .filter(|it| matches!(it, Step::Advance { .. }))
            .count();
    for seed in 1..=3 {
        let folder = tempfile::tempdir().expect("a folder");
        let plan = KillPlan {
            points: 12,
            seed,
            program: PathBuf::from(env!("CARGO_BIN_EXE_somersault-conformance")),
        };
        let mut host = ChildHost::start(plan, options(Some(folder.path().to_owned())), asked)
            .expect("the child starts");
        let firings = play(&mut host, steps.clone());
        assert_eq!(host.kills(), 12);
        assert_same(&firings, &format!("killed with seed {seed}"));
    }
}
