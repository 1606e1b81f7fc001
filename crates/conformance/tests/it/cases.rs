//! Our own cases: repeats, unbound values, unequal steps, boundaries, every form of query.

use crate::{assert_exact, cases, run};
use somersault_conformance::rsp::child::KillPlan;
use somersault_conformance::rsp::dialect::Dialect;
use somersault_conformance::rsp::expected::Kind;
use somersault_conformance::rsp::{RunOptions, SuiteReport};
use std::path::PathBuf;

#[test]
fn answers_are_exact_whatever_the_number_of_shards() {
    for shards in [1, 2, 4] {
        assert_exact(
            &cases(),
            &RunOptions {
                shards,
                ..RunOptions::default()
            },
        );
    }
}

#[test]
fn the_dull_twin_gives_the_same_answers() {
    let options = RunOptions {
        twin: true,
        ..RunOptions::default()
    };
    assert_exact(&cases(), &options);
}

#[test]
fn answers_are_exact_by_delta() {
    for shards in [1, 3] {
        let options = RunOptions {
            shards,
            delta: true,
            ..RunOptions::default()
        };
        assert_exact(&cases(), &options);
    }
}

#[test]
fn answers_are_exact_on_the_simulated_fabric() {
    for seed in 1..=3 {
        let options = RunOptions {
            shards: 3,
            simulated: Some(seed),
            ..RunOptions::default()
        };
        assert_exact(&cases(), &options);
    }
}

#[test]
fn answers_are_exact_when_the_engine_is_killed() {
    for seed in 1..=2 {
        let kill = KillPlan {
            points: 8,
            seed,
            program: PathBuf::from(env!("CARGO_BIN_EXE_somersault-conformance")),
        };
        let options = RunOptions {
            kill: Some(kill),
            ..RunOptions::default()
        };
        let report = run(&cases(), &options);
        assert!(report.is_exact(), "seed {seed}: {report}");
        assert_eq!(report.kills, 8);
    }
}

#[test]
fn every_query_has_its_answers_compared() {
    let report = run(&cases(), &RunOptions::default());
    for query in &report.queries {
        assert!(query.compared > 0, "nothing of {} was compared", query.name);
    }
    assert!(report.queries.len() >= 26);
}

fn in_dialect(dialect: Dialect) -> RunOptions {
    RunOptions {
        dialect,
        ..RunOptions::default()
    }
}

fn left_out(report: &SuiteReport) -> Vec<&str> {
    let left_out = report.left_out.iter();
    left_out.map(|query| query.name.as_str()).collect()
}

/// A run in a dialect leaves out exactly the queries that the dialect cannot express.
#[test]
fn answers_are_exact_in_each_dialect() {
    let suite = cases();
    for (dialect, unsaid) in [
        (Dialect::CSparql, &[] as &[&str]),
        (Dialect::RspQl, &["now", "all"]),
        (
            Dialect::CqelsQl,
            &["past", "past-and-present", "elements", "triples"],
        ),
    ] {
        let report = run(&suite, &in_dialect(dialect));
        assert!(report.is_exact(), "{dialect:?}: {report}");
        assert_eq!(left_out(&report), unsaid, "{dialect:?}");
        let said: Vec<&str> = (suite.continuous.iter())
            .map(|entry| entry.name.as_str())
            .filter(|name| !unsaid.contains(name))
            .collect();
        assert_eq!(report.compared(Kind::Closes), said, "{dialect:?}");
    }
}

#[test]
fn the_report_names_skipped_queries_with_the_reason() {
    let report = run(&cases(), &in_dialect(Dialect::RspQl));
    let said = report.to_string();
    assert!(
        said.contains("\n  now          left out: RSP-QL has no window [NOW]"),
        "{said}"
    );
    let twin = RunOptions {
        twin: true,
        ..RunOptions::default()
    };
    assert_eq!(left_out(&run(&cases(), &twin)), ["derived"]);
}

#[test]
fn a_run_that_compares_nothing_is_not_exact() {
    let mut suite = cases();
    suite.continuous.retain(|entry| entry.name == "now");
    assert_exact(&suite, &in_dialect(Dialect::CqelsQl));
    // Its one-shot queries are compared all the same, and say nothing of the dialect.
    let report = run(&suite, &in_dialect(Dialect::RspQl));
    assert!(!report.is_exact(), "{report}");
    assert!(report.to_string().contains("DIFFERS"), "{report}");
    let mut nothing = cases();
    nothing.continuous.clear();
    assert_exact(&nothing, &RunOptions::default());
    nothing.oneshot.clear();
    assert!(!run(&nothing, &RunOptions::default()).is_exact());
}
