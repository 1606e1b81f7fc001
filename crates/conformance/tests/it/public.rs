//! Small public suites, in every `cargo test`.

use crate::{assert_exact, public_data};
use somersault_conformance::rsp::{RunOptions, suite::Suite};
use somersault_conformance::w3c::{self, skips::Skips, subject::EngineSubject};

#[test]
fn the_worked_example_of_the_paper() {
    let Some(data) = public_data() else { return };
    let suite = Suite::read(&data.join("lsbench/fig1/suite.json")).expect("the suite reads");
    assert_exact(&suite, &RunOptions::default());
}

#[test]
fn the_social_network() {
    let Some(data) = public_data() else { return };
    let suite = Suite::read(&data.join("lsbench/gen200/suite.json")).expect("the suite reads");
    assert_exact(&suite, &RunOptions::default());
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
