//! A checker is trusted once it has seen a bug: each test plants one and expects the suite to fail
//! at the right query.

use crate::{cases, run};
use somersault_conformance::rsp::{RunOptions, dialect::Dialect, suite::Suite};

/// The names of the queries whose answers differ when the suite is run as it is, on the engine and
/// on its twin alike.
fn differing(suite: &Suite) -> Vec<String> {
    let [engine, twin] = [false, true].map(|twin| {
        let options = RunOptions {
            twin,
            ..RunOptions::default()
        };
        let differing = run(suite, &options)
            .queries
            .into_iter()
            .filter(|query| query.differing > 0);
        differing.map(|query| query.name).collect::<Vec<_>>()
    });
    // The twin knows nothing of derived streams.
    let is_derived = |name: &String| {
        let mut entries = suite.continuous.iter();
        entries.any(|entry| entry.over.is_some() && entry.name == *name)
    };
    let of_both: Vec<&String> = engine.iter().filter(|name| !is_derived(name)).collect();
    assert_eq!(
        of_both,
        twin.iter().collect::<Vec<_>>(),
        "the engine and its twin differ from the answers in other places"
    );
    engine
}

/// The suite with the text of one query changed.
fn with_query(name: &str, from: &str, to: &str) -> (Suite, tempfile::TempDir) {
    let mut suite = cases();
    let folder = tempfile::tempdir().expect("a folder for the altered query");
    let entry = suite
        .continuous
        .iter_mut()
        .find(|entry| entry.name == name)
        .expect("the query is in the suite");
    let text = std::fs::read_to_string(suite.folder.join(&entry.query)).expect("the query reads");
    assert!(text.contains(from), "{name} has no {from}");
    let altered = folder.path().join("altered.csparql");
    std::fs::write(&altered, text.replace(from, to)).expect("the altered query is written");
    entry.query = altered.to_string_lossy().into_owned();
    (suite, folder)
}

#[test]
fn a_planted_distinct_is_seen() {
    let (suite, _folder) = with_query("multiplicity", "SELECT", "SELECT DISTINCT");
    assert_eq!(differing(&suite), ["multiplicity"]);
}

#[test]
fn a_shared_window_is_seen() {
    let (suite, _folder) = with_query("unequal-ranges", "RANGE 5s", "RANGE 1s");
    assert_eq!(differing(&suite), ["unequal-ranges"]);
}

#[test]
fn one_step_for_all_windows_is_seen() {
    let (suite, _folder) = with_query("unequal-steps", "STEP 3s", "STEP 2s");
    assert_eq!(differing(&suite), ["unequal-steps"]);
}

#[test]
fn an_absorbed_timing_statement_is_seen() {
    let mut suite = cases();
    let moves = suite
        .streams
        .iter_mut()
        .find(|stream| stream.timing.is_some())
        .expect("a stream in two parts");
    moves.timing = None;
    moves.timeless = Some(true);
    assert!(differing(&suite).contains(&"stored-positions".to_owned()));
}

#[test]
fn a_lost_timeless_statement_is_seen() {
    let mut suite = cases();
    let likes = suite
        .streams
        .iter_mut()
        .find(|stream| stream.timeless == Some(true))
        .expect("a timeless stream");
    likes.timeless = Some(false);
    assert_eq!(differing(&suite), ["labels"]);
}

#[test]
fn a_window_that_is_closed_on_the_right_is_seen() {
    let mut suite = cases();
    // Shifting the recording by a millisecond puts the statements of each boundary into the window
    // before.
    let folder = tempfile::tempdir().expect("a folder for the altered stream");
    let readings = suite
        .streams
        .iter_mut()
        .find(|stream| stream.file == "readings.tsv")
        .expect("the stream is in the suite");
    let text =
        std::fs::read_to_string(suite.folder.join(&readings.file)).expect("the stream reads");
    let mut altered = String::new();
    for line in text.lines() {
        let (time, triple) = line.split_once('\t').expect("a time and a triple");
        let time: i64 = time.parse().expect("a time in ms");
        altered.push_str(&format!("{}\t{triple}\n", (time - 1).max(0)));
    }
    let path = folder.path().join("readings.tsv");
    std::fs::write(&path, altered).expect("the altered stream is written");
    readings.file = path.to_string_lossy().into_owned();
    assert!(differing(&suite).contains(&"tumbling".to_owned()));
}

/// A translation that mended a query, or that none was made of, would hide this.
#[test]
fn a_shared_window_is_seen_in_each_dialect() {
    let (suite, _folder) = with_query("unequal-ranges", "RANGE 5s", "RANGE 1s");
    for dialect in [Dialect::CSparql, Dialect::RspQl, Dialect::CqelsQl] {
        let options = RunOptions {
            dialect,
            ..RunOptions::default()
        };
        let queries = run(&suite, &options).queries.into_iter();
        let differing: Vec<String> = queries
            .filter(|query| query.differing > 0)
            .map(|query| query.name)
            .collect();
        assert_eq!(differing, ["unequal-ranges"], "{dialect:?}");
    }
}
