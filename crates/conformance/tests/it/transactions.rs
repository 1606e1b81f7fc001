//! Suites of transactions on the engine. The runner is tried with planted mistakes first: what it
//! cannot miss is what its "exact" is worth. All suites in all layouts are run by `make txn`.

use crate::public_data;
use somersault_conformance::txn::{self, TxnOptions, TxnReport};
use somersault_suites::{RecoveryText, TransactionSuite};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn suite_in(folder: &str) -> Option<PathBuf> {
    let folder = public_data()?.join("transactions").join(folder);
    folder.is_dir().then(|| folder.join("suite.json"))
}

fn simulated(seed: u64) -> TxnOptions {
    TxnOptions {
        simulated: Some(seed),
        seed,
        ..TxnOptions::default()
    }
}

fn run(path: &Path, options: &TxnOptions) -> TxnReport {
    txn::run_file(path, options).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A copy of a folder in which one file is another.
fn copy_with(folder: &Path, file: &str, change: impl Fn(&str) -> String) -> TempDir {
    fn copy(from: &Path, to: &Path) {
        std::fs::create_dir_all(to).expect("a new folder");
        for entry in std::fs::read_dir(from).expect("the folder can be read") {
            let path = entry.expect("its entries can be read").path();
            let target = to.join(path.file_name().expect("an entry has a name"));
            match path.is_dir() {
                true => copy(&path, &target),
                false => drop(std::fs::copy(&path, &target).expect("a file can be copied")),
            }
        }
    }
    let planted = tempfile::tempdir().expect("a temporary folder");
    copy(folder, planted.path());
    let path = planted.path().join(file);
    let text = std::fs::read_to_string(&path).expect("the file is a text");
    let changed = change(&text);
    assert_ne!(text, changed, "{file} is changed");
    std::fs::write(&path, changed).expect("the copy can be written");
    planted
}

/// Runs `batches/stop` with one of its expected files changed: the differences.
fn differences(file: &str, change: impl Fn(&str) -> String) -> Vec<String> {
    let Some(suite) = suite_in("batches/stop") else {
        return vec!["skipped".to_owned()];
    };
    let folder = suite.parent().expect("a suite is in a folder");
    let planted = copy_with(folder, file, change);
    let report = run(&planted.path().join("suite.json"), &simulated(1));
    assert!(!report.is_exact(), "{report}");
    report.found.differences
}

/// Lines with two of them in the other's place.
fn swapped(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.swap(3, 4);
    lines.join("\n") + "\n"
}

#[test]
fn a_changed_row_is_found() {
    let found = differences("expected/statements.jsonl", |text| {
        let at = text.rfind("\"rows\":[[\"\\\"").expect("an answer has rows");
        let (before, rest) = text.split_at(at + 12);
        format!("{before}9{rest}")
    });
    assert_eq!(found.len(), 1, "{found:?}");
}

#[test]
fn an_abort_that_is_left_out_is_found() {
    let found = differences("expected/aborted-adding.jsonl", |text| {
        let (_, rest) = text.split_once('\n').expect("there are aborts");
        rest.to_owned()
    });
    assert!(!found.is_empty());
}

#[test]
fn a_message_out_of_order_is_found() {
    let found = differences("expected/emitted-passed.jsonl", swapped);
    assert!(found.len() == 2 || found == ["skipped"], "{found:?}");
}

#[test]
fn a_wrong_hash_of_messages_is_found() {
    let found = differences("suite.json", |text| {
        let name = "\"expected\": \"expected/emitted-passed.jsonl\"";
        text.replace(name, &format!("{name}, \"hash\": true"))
    });
    assert!(found.len() == 1, "{found:?}");
}

#[test]
fn a_changed_answer_is_found() {
    let found = differences("expected/answers.jsonl", |text| {
        text.replacen("\"stopped\"", "\"running\"", 1)
    });
    assert!(found.len() == 1, "{found:?}");
}

#[test]
fn a_check_that_never_comes_is_found() {
    let Some(suite) = suite_in("batches/one") else {
        return;
    };
    let folder = suite.parent().expect("a suite is in a folder");
    let planted = copy_with(folder, "suite.json", |text| {
        text.replacen("\"messages\": [0,", "\"messages\": [4000,", 1)
    });
    let report = run(&planted.path().join("suite.json"), &simulated(1));
    assert!(!report.is_exact(), "{report}");
}

/// What is not understood is never passed over.
#[test]
fn an_unknown_field_and_an_unknown_step_end_the_run() {
    let Some(suite) = suite_in("batches/stop") else {
        return;
    };
    let folder = suite.parent().expect("a suite is in a folder");
    for (file, words, others) in [
        ("suite.json", "\"always\"", "\"sometimes\""),
        ("steps.jsonl", "{\"state\"", "{\"mood\""),
    ] {
        let planted = copy_with(folder, file, |text| text.replacen(words, others, 1));
        let error = txn::run_file(&planted.path().join("suite.json"), &simulated(1));
        let error = error
            .expect_err("the suite cannot be understood")
            .to_string();
        assert!(
            error.contains(&others[1..others.len() - 1].replace("{\"", "")),
            "{error}"
        );
    }
}

/// Without its nest, the leaderboard's boards are behind its votes between two transactions, and
/// right again when all has settled: only the reader sees that.
#[test]
fn a_query_that_is_false_for_an_instant_is_found() {
    let Some(path) = suite_in("leaderboard/tiny") else {
        return;
    };
    let suite = TransactionSuite::open(&path).expect("the suite reads");
    let suite = suite
        .planted("NEST { vote, rank, remove }", "vote, rank, remove")
        .expect("the words are there");
    let report = txn::run_suite(&suite, &simulated(1)).expect("it runs");
    let found = &report.found.differences;
    let is_of_reader = |found: &String| found.contains("does not hold in snapshot");
    assert!(found.iter().any(is_of_reader), "{report}");
}

#[test]
fn suites_are_exact_in_simulated_processes() {
    for (seed, folder) in (1..).zip(["batches/refused", "batches/formats", "windows/nest"]) {
        let Some(path) = suite_in(folder) else { return };
        let report = run(&path, &simulated(seed));
        assert!(report.is_exact(), "{report}");
    }
}

/// The same suite with every number of shards, both recoveries, and crashes of its disk.
#[test]
fn a_suite_is_exact_after_crashes() {
    let Some(path) = suite_in("batches/stop") else {
        return;
    };
    let recoveries = [RecoveryText::Strong, RecoveryText::Weak];
    for (seed, shards) in (1..).zip([1, 2, 4]) {
        for recovery in recoveries {
            let options = TxnOptions {
                shards,
                recovery,
                kill_points: 5,
                ..simulated(seed)
            };
            let report = run(&path, &options);
            assert!(report.is_exact() && report.kills == 5, "{report}");
        }
    }
}

/// Each start is from a checkpoint, with another number of shards.
#[test]
fn a_suite_is_exact_from_checkpoints() {
    for folder in ["batches/stop", "windows/time_batched"] {
        let Some(path) = suite_in(folder) else { return };
        for seed in [1, 2] {
            let options = TxnOptions {
                kill_points: 2,
                checkpoint_every: 20,
                ..simulated(seed)
            };
            let report = run(&path, &options);
            assert!(report.is_exact() && report.checkpoints >= 3, "{report}");
        }
    }
}

/// A run that is to take checkpoints and takes none shows nothing about them.
#[test]
fn a_run_without_its_checkpoints_is_not_exact() {
    let Some(path) = suite_in("windows/two") else {
        return;
    };
    let options = TxnOptions {
        checkpoint_every: 100_000,
        ..simulated(1)
    };
    let report = run(&path, &options);
    assert!(!report.is_exact(), "{report}");
}
