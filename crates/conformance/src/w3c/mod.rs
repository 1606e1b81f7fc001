//! The W3C suites: finds the manifests, runs each test, and reports a line per suite. A surprise is
//! a failure that the skip list does not name, or a pass of a test that it does.

pub mod evaluation;
pub mod http;
pub mod manifest;
pub mod outcome;
pub mod rdf_syntax;
pub mod skips;
pub mod subject;
pub mod twin;

use crate::error::ConformanceError;
use evaluation::Language;
use http::Endpoint;
use manifest::{Folder, Manifest, Test};
use skips::Skips;
use std::collections::{BTreeMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::path::Path;
use subject::Subject;

/// The result of a run.
#[derive(Debug, Default)]
pub struct Report {
    /// One per manifest, in the order of their paths.
    pub suites: Vec<W3cReport>,
    /// Tests that the skip list names and that no manifest has (only looked for when all suites are
    /// run).
    pub unmet: Vec<String>,
}

/// The result of one suite.
#[derive(Debug, Default)]
pub struct W3cReport {
    /// The folder below the root.
    pub suite: String,
    /// Tests that passed and were expected to.
    pub passed: usize,
    /// Tests that are skipped.
    pub skipped: usize,
    /// Why, where the whole suite is skipped.
    pub reason: Option<String>,
    /// Unexpected results: the test and its outcome.
    pub surprises: Vec<(String, String)>,
}

impl Report {
    /// Whether nothing was unexpected.
    pub fn is_clean(&self) -> bool {
        self.unmet.is_empty() && self.suites.iter().all(|suite| suite.surprises.is_empty())
    }

    /// Passed, failed and skipped tests of each group of suites, such as `sparql/sparql11`.
    pub fn totals(&self) -> BTreeMap<String, (usize, usize, usize)> {
        let mut totals: BTreeMap<String, (usize, usize, usize)> = BTreeMap::new();
        for suite in &self.suites {
            let group: Vec<&str> = suite.suite.split('/').take(2).collect();
            let total = totals.entry(group.join("/")).or_default();
            total.0 += suite.passed;
            total.1 += suite.surprises.len();
            total.2 += suite.skipped;
        }
        totals
    }
}

impl std::fmt::Display for W3cReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            suite,
            passed,
            skipped,
            surprises,
            reason,
        } = self;
        write!(
            f,
            "{suite:<50} passed {passed:>4}  failed {:>3}  skipped {skipped:>3}",
            surprises.len()
        )?;
        if let Some(reason) = reason {
            write!(f, "  ({reason})")?;
        }
        for (test, what) in surprises {
            write!(f, "\n  {test}\n    {what}")?;
        }
        Ok(())
    }
}

/// Runs the suites whose name contains `only` (all when it is empty); `on_suite` sees each report
/// as it is made.
pub fn run(
    root: &Path,
    only: &str,
    subject: &mut dyn Subject,
    skips: &Skips,
    on_suite: &mut dyn FnMut(&W3cReport),
) -> Result<Report, ConformanceError> {
    let folder = Folder::new(root);
    let mut report = Report::default();
    let mut met = HashSet::new();
    let mut system = SystemUnderTest {
        subject,
        endpoint: None,
    };
    for path in folder.manifests()? {
        let manifest = Manifest::read(&folder, &path)?;
        if manifest.tests.is_empty() || !manifest.suite.contains(only) {
            continue;
        }
        met.extend(manifest.tests.iter().map(|test| test.id.clone()));
        let suite = run_suite(&folder, &manifest, &mut system, skips);
        on_suite(&suite);
        report.suites.push(suite);
    }
    if report.suites.is_empty() {
        return Err(ConformanceError::broken(
            root,
            "holds no manifest of tests; give the folder that holds sparql/ and rdf/",
        ));
    }
    if only.is_empty() {
        report.unmet = skips.unmet(&met).into_iter().map(str::to_owned).collect();
    }
    Ok(report)
}

fn run_suite(
    folder: &Folder,
    manifest: &Manifest,
    system: &mut SystemUnderTest<'_>,
    skips: &Skips,
) -> W3cReport {
    let mut report = W3cReport {
        suite: manifest.suite.clone(),
        ..W3cReport::default()
    };
    if let Some(reason) = skips.suite(&manifest.suite) {
        report.skipped = manifest.tests.len();
        report.reason = Some(reason.to_owned());
        return report;
    }
    for test in &manifest.tests {
        let verdict = std::panic::catch_unwind(AssertUnwindSafe(|| run_test(folder, test, system)))
            .unwrap_or_else(|_| Err("panicked".to_owned()));
        match (verdict, skips.test(&test.id)) {
            (Ok(()), None) => report.passed += 1,
            (Err(_), Some(_)) => report.skipped += 1,
            (Ok(()), Some(reason)) => report.surprises.push((
                test.id.clone(),
                format!("passes, though the skip list says: {reason}"),
            )),
            (Err(what), None) => report.surprises.push((test.id.clone(), what)),
        }
    }
    report
}

/// The systems that the tests run on: the engine, and its server once a test needs it.
struct SystemUnderTest<'a> {
    subject: &'a mut dyn Subject,
    endpoint: Option<Endpoint>,
}

impl SystemUnderTest<'_> {
    fn endpoint(&mut self) -> Result<&mut Endpoint, String> {
        let endpoint = match self.endpoint.take() {
            Some(endpoint) => endpoint,
            None => Endpoint::start()?,
        };
        Ok(self.endpoint.insert(endpoint))
    }
}

fn run_test(folder: &Folder, test: &Test, system: &mut SystemUnderTest<'_>) -> Result<(), String> {
    if let Some(verdict) = rdf_syntax::run(folder, test) {
        return verdict;
    }
    let subject = &mut *system.subject;
    match test.kind.trim_end_matches("11") {
        "QueryEvaluationTest" if http::is_federated(test) => {
            http::federated_query(folder, test, subject)
        }
        "QueryEvaluationTest" | "CSVResultFormatTest" => {
            evaluation::query_evaluation(folder, test, subject, &|text| text)
        }
        "UpdateEvaluationTest" => evaluation::update_evaluation(folder, test, subject),
        "PositiveSyntaxTest" => evaluation::syntax(folder, test, subject, Language::Query, true),
        "NegativeSyntaxTest" => evaluation::syntax(folder, test, subject, Language::Query, false),
        "PositiveUpdateSyntaxTest" => {
            evaluation::syntax(folder, test, subject, Language::Update, true)
        }
        "NegativeUpdateSyntaxTest" => {
            evaluation::syntax(folder, test, subject, Language::Update, false)
        }
        "ProtocolTest" | "GraphStoreProtocolTest" => system.endpoint()?.run(folder, test),
        other => Err(format!("no runner for tests of the class {other}")),
    }
}
