//! Small public suites, in every `cargo test`.

use crate::{public_data, run};
use somersault_conformance::rsp::expected::Kind;
use somersault_conformance::rsp::{RunOptions, dialect::Dialect, suite::Suite};
use somersault_conformance::w3c::{self, skips::Skips, subject::EngineSubject};

/// The public suites, with the continuous queries that each has.
const SUITES: [(&str, &[&str]); 5] = [
    ("lsbench/fig1/suite.json", &["QC", "QC"]),
    (
        "lsbench/gen200/suite.json",
        &["L1", "L1G", "L2", "L3", "L4", "L5", "L6", "E1", "E2", "E3"],
    ),
    ("citybench/suite.json", &C1_TO_C6),
    ("citybench/suite-graph.json", &C1_TO_C6),
    ("csrbench/suite.json", &["Q1", "Q2", "Q3", "Q4"]),
];
const C1_TO_C6: [&str; 6] = ["C1", "C2", "C3", "C4", "C5", "C6"];

/// Runs every public suite, and looks at what was compared: nothing may be left out unnoticed.
fn assert_all_exact_in(dialect: Dialect) {
    let Some(data) = public_data() else { return };
    for (path, names) in SUITES {
        let suite = Suite::read(&data.join(path)).expect("the suite reads");
        let options = RunOptions {
            dialect,
            ..RunOptions::default()
        };
        let report = run(&suite, &options);
        assert!(report.is_exact(), "{dialect:?}: {report}");
        assert_eq!(report.left_out, [], "{dialect:?}: {path}");
        let compared = report.compared(Kind::Closes);
        assert_eq!(compared, names, "{dialect:?}: {path}");
        let one_shot = report.compared(Kind::Snapshots);
        assert_eq!(one_shot.len(), suite.oneshot.len(), "{dialect:?}: {path}");
    }
}

#[test]
fn all_public_queries_are_exact_in_c_sparql() {
    assert_all_exact_in(Dialect::CSparql);
}

#[test]
fn all_public_queries_are_exact_in_rsp_ql() {
    assert_all_exact_in(Dialect::RspQl);
}

#[test]
fn all_public_queries_are_exact_in_cqels_ql() {
    assert_all_exact_in(Dialect::CqelsQl);
}

#[test]
fn aggregates_of_sparql_11() {
    let Some(data) = public_data() else { return };
    let skips = Skips::of_this_crate().expect("the skip list reads");
    let mut subject = EngineSubject::open().expect("an engine");
    let mut lines = Vec::new();
    let report = w3c::run(
        &data.join("w3c"),
        "sparql11/aggregates",
        &mut subject,
        &skips,
        &mut |suite| {
            lines.push(suite.to_string());
        },
    )
    .expect("the suite reads");
    assert!(report.is_clean(), "{lines:?}");
}

#[test]
fn a_skip_that_is_not_needed_is_a_surprise() {
    let Some(data) = public_data() else { return };
    let id = "http://www.w3.org/2009/sparql/docs/tests/data-sparql11/aggregates/manifest#agg01";
    let skips = Skips::parse(&format!("{id}\tplanted\n")).expect("a good list");
    let mut subject = EngineSubject::open().expect("an engine");
    let report = w3c::run(
        &data.join("w3c"),
        "sparql11/aggregates",
        &mut subject,
        &skips,
        &mut |_| {},
    )
    .expect("the suite reads");
    assert!(
        report.suites[0]
            .surprises
            .iter()
            .any(|(test, _)| test == id)
    );
}
