//! The public suites of transactions on the serial twin: every answer, every emitted message and
//! every abort, however the inputs go in and whenever effects reach the store.

use somersault_sim::transactions::{Snapshots, TwinPace, run_suite};
use somersault_suites::TransactionSuite;
use std::path::{Path, PathBuf};

fn suites(of: &str) -> Vec<PathBuf> {
    let named = std::env::var_os("SOMERSAULT_TESTDATA").map(PathBuf::from);
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().skip(3);
    let beside = beside
        .map(|up| up.join("shared/data"))
        .find(|path| path.is_dir());
    let Some(data) = named.filter(|path| path.is_dir()).or(beside) else {
        println!("skipped: no test data ($SOMERSAULT_TESTDATA names no folder)");
        return Vec::new();
    };
    let mut found = Vec::new();
    let mut folders = vec![data.join("transactions").join(of)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("the folder can be read") {
            let path = entry.expect("its entries can be read").path();
            let name = path.file_name().map(|name| name.to_string_lossy());
            let is_suite =
                name.is_some_and(|name| name.starts_with("suite") && name.ends_with(".json"));
            if path.is_dir() {
                folders.push(path);
            } else if is_suite {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn run(paths: &[PathBuf], pace: TwinPace) {
    let mut failed = Vec::new();
    for path in paths {
        let suite = TransactionSuite::open(path).expect("a suite");
        match run_suite(&suite, pace) {
            Ok(report) if report.differences.is_empty() => {
                println!("{}: {} answers equal", suite.name(), report.compared)
            }
            Ok(report) => {
                let first: Vec<String> = report.differences.iter().take(3).cloned().collect();
                let count = report.differences.len();
                failed.push(format!(
                    "{}: {count} differ: {}",
                    path.display(),
                    first.join("\n  ")
                ));
            }
            Err(error) => failed.push(format!("{}: {error}", path.display())),
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Nothing waits, and all that commits stays in one layer.
const AT_ONCE: TwinPace = TwinPace {
    snapshots: Snapshots::Never,
    settles_always: true,
    seed: 1,
    asks_always: false,
};
/// Inputs run ahead, and each few commits become a snapshot.
const AHEAD: TwinPace = TwinPace {
    snapshots: Snapshots::Every(3),
    settles_always: false,
    seed: 2,
    asks_always: true,
};

/// A mistake in a declaration is a difference: the comparison is not blind.
#[test]
fn planted_mistakes_are_found() {
    for (folder, words, others) in [
        (
            "batches/foreach",
            "ORDER BY DESC(?wanted)",
            "ORDER BY ?wanted",
        ),
        (
            "batches/foreach",
            "WHERE { BATCH { ?claim t:quantity ?q } } {",
            "WHERE { BATCH { ?claim t:quantity ?q } } ORDER BY DESC(?claim) {",
        ),
        (
            "windows/abort",
            "IF ASK { FILTER(?worst < 0) } { ABORT",
            "IF ASK { FILTER(?worst < -1000000) } { ABORT",
        ),
        ("windows/abort", "\"value \"", "\"another value \""),
        ("chains/ee3", "FILTER(?v > 2)", "FILTER(?v >= 2)"),
    ] {
        for path in suites(folder) {
            let suite = TransactionSuite::open(&path).expect("a suite");
            let suite = suite.planted(words, others).expect("the words are there");
            let report = run_suite(&suite, AT_ONCE).expect("it runs");
            assert!(!report.differences.is_empty(), "{folder}: {words}");
        }
    }
}

#[test]
fn batches() {
    run(&suites("batches"), AT_ONCE);
}

#[test]
fn batches_ahead() {
    run(&suites("batches"), AHEAD);
}

#[test]
fn chains() {
    run(&suites("chains"), AT_ONCE);
}

#[test]
fn chains_ahead() {
    run(&suites("chains"), AHEAD);
}

#[test]
fn windows() {
    run(&suites("windows"), AT_ONCE);
}

#[test]
fn windows_ahead() {
    run(&suites("windows"), AHEAD);
}

#[test]
fn the_tiny_leaderboard() {
    run(&suites("leaderboard/tiny"), AT_ONCE);
}

#[test]
fn the_tiny_leaderboard_ahead() {
    run(&suites("leaderboard/tiny"), AHEAD);
}

#[test]
fn the_small_leaderboard() {
    let nested: Vec<PathBuf> = suites("leaderboard/small");
    let pace = TwinPace {
        snapshots: Snapshots::Every(7),
        ..AT_ONCE
    };
    run(&nested, pace);
}

#[test]
fn routing() {
    let pace = TwinPace {
        asks_always: false,
        ..AHEAD
    };
    run(&suites("routing"), pace);
}
