//! The runner on our own cases, and on public data where it is present. The long runs are made by
//! the Makefile with the binary.

mod by_name;
mod cases;
mod derived;
mod planted;
mod public;
mod transactions;

use somersault_conformance::rsp::{self, RunOptions, SuiteReport, suite::Suite};
use std::path::{Path, PathBuf};

/// Our own suite of windows.
fn cases() -> Suite {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases/windows/suite.json");
    Suite::read(&path).expect("the suite of this crate reads")
}

fn run(suite: &Suite, options: &RunOptions) -> SuiteReport {
    rsp::run(suite, options).unwrap_or_else(|error| panic!("{}: {error}", suite.name))
}

fn assert_exact(suite: &Suite, options: &RunOptions) {
    let report = run(suite, options);
    assert!(report.is_exact(), "{report}");
}

/// The public test data, if it is here.
fn public_data() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let folder = std::env::var_os("SOMERSAULT_TESTDATA").map_or(beside, PathBuf::from);
    if folder.join("README.md").is_file() {
        return Some(folder);
    }
    println!(
        "skipped: no test data in {}; set SOMERSAULT_TESTDATA",
        folder.display()
    );
    None
}
