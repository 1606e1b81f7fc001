//! The expected answers of one query, and the verdict on each answer that the engine gives. Answers
//! may arrive in any order of closes. A missing answer is compared as an empty one at the end.

use super::suite::{Suite, computed_variables, open};
use crate::bag::{Numbers, Row, same_bag};
use crate::error::ConformanceError;
use oxrdf::Term;
use somersault::answer_format::{AnswerLine, AnswerRow, AnswerTime};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::str::FromStr;

/// An answer as a host hands it over: columns and rows in the spelling of the answer format, or why
/// there is none.
pub type Given = Result<(Vec<String>, Vec<AnswerRow>), String>;

/// Whether a query is asked at closes or at snapshots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Continuous: one answer for each close.
    Closes,
    /// One-shot: one answer for each snapshot.
    Snapshots,
}

/// The expected answers of one query, and the verdicts so far.
pub struct Judge {
    /// The entry's name.
    pub name: String,
    /// Closes or snapshots.
    pub kind: Kind,
    expected: BTreeMap<i64, AnswerLine>,
    computed: Vec<String>,
    seen: BTreeSet<i64>,
    compared: usize,
    differing: usize,
    first_difference: Option<String>,
}

/// The result of one query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryReport {
    /// The entry's name.
    pub name: String,
    /// The kind of comparison.
    pub kind: Kind,
    /// The number of firings that were compared.
    pub compared: usize,
    /// The number of them that differ.
    pub differing: usize,
    /// The first difference in full.
    pub first_difference: Option<String>,
}

/// A query that was not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// The entry's name.
    pub name: String,
    /// Why.
    pub reason: String,
}

impl std::fmt::Display for LeftOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "  {:<12} left out: {}", self.name, self.reason)
    }
}

impl std::fmt::Display for QueryReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            name,
            kind,
            compared,
            differing,
            ..
        } = self;
        let unit = match kind {
            Kind::Closes => "closes",
            Kind::Snapshots => "snapshots",
        };
        write!(
            f,
            "  {name:<12} {compared:>5} {unit:<9} compared  {differing:>4} differing"
        )?;
        if let Some(difference) = &self.first_difference {
            write!(f, "\n    first difference: {difference}")?;
        }
        Ok(())
    }
}

impl Judge {
    /// Reads the answers of a query from its file, which may hold those of other queries too.
    pub fn read(
        suite: &Suite,
        name: &str,
        kind: Kind,
        query_text: &str,
        file: &str,
    ) -> Result<Self, ConformanceError> {
        let path = suite.path(file);
        let mut expected = BTreeMap::new();
        for (at, line) in BufReader::new(open(&path)?).lines().enumerate() {
            let line = line.map_err(|source| ConformanceError::Unreadable {
                path: path.clone(),
                source,
            })?;
            if line.trim().is_empty() {
                continue;
            }
            let broken = |reason: String| {
                ConformanceError::broken(&path, format!("line {}: {reason}", at + 1))
            };
            let answer = AnswerLine::parse(&line).map_err(broken)?;
            let time = match (answer.time, kind) {
                (AnswerTime::Close(time), Kind::Closes)
                | (AnswerTime::Snapshot(time), Kind::Snapshots) => time.0,
                _ => continue,
            };
            if answer.query == name && expected.insert(time, answer).is_some() {
                return Err(broken(format!("a second answer of {name} for {time}")));
            }
        }
        if expected.is_empty() {
            return Err(ConformanceError::broken(
                &path,
                format!("holds no answer of the query {name}"),
            ));
        }
        Ok(Self {
            name: name.to_owned(),
            kind,
            expected,
            computed: computed_variables(query_text),
            seen: BTreeSet::new(),
            compared: 0,
            differing: 0,
            first_difference: None,
        })
    }

    /// The times that have answers.
    pub fn times(&self) -> impl Iterator<Item = i64> + '_ {
        self.expected.keys().copied()
    }

    /// The times in a range that have answers.
    pub fn times_in(&self, range: std::ops::Range<i64>) -> impl Iterator<Item = i64> + '_ {
        self.expected.range(range).map(|(time, _)| *time)
    }

    /// The newest time that an answer has come for.
    pub fn last_seen(&self) -> Option<i64> {
        self.seen.last().copied()
    }

    /// Judges the answer for a close or snapshot; one that the file has no answer for is passed
    /// over.
    pub fn judge(&mut self, time: i64, given: &Given) {
        if !self.seen.insert(time) {
            self.differ(time, "was answered twice");
            return;
        }
        let Some(expected) = self.expected.get(&time) else {
            if let Err(error) = given {
                self.differ(time, &format!("failed: {error}"));
            }
            return;
        };
        self.compared += 1;
        if let Err(difference) = compare(expected, &self.computed, given) {
            self.differ(time, &difference);
        }
    }

    fn differ(&mut self, time: i64, difference: &str) {
        self.differing += 1;
        let unit = match self.kind {
            Kind::Closes => "close",
            Kind::Snapshots => "snapshot",
        };
        self.first_difference
            .get_or_insert_with(|| format!("{unit} {time}: {difference}"));
    }

    /// Counts what never came as empty, and sums up.
    pub fn finish(mut self) -> QueryReport {
        let missing: Vec<(i64, u64)> = self
            .expected
            .iter()
            .filter(|(time, _)| !self.seen.contains(time))
            .map(|(time, line)| (*time, line.n))
            .collect();
        for (time, n) in missing {
            self.compared += 1;
            if n > 0 {
                self.differ(time, &format!("expected {n} rows, and no answer arrived"));
            }
        }
        QueryReport {
            name: self.name,
            kind: self.kind,
            compared: self.compared,
            differing: self.differing,
            first_difference: self.first_difference,
        }
    }
}

/// Compares by hash where that settles it, and row by row where blank nodes or computed numbers may
/// be written differently.
fn compare(expected: &AnswerLine, computed: &[String], given: &Given) -> Result<(), String> {
    let (variables, rows) = given.as_ref().map_err(|error| format!("failed: {error}"))?;
    let rows = in_columns(&expected.vars, variables, rows)?;
    let n = rows.len() as u64;
    let found = AnswerLine::from_rows(
        &expected.query,
        expected.time,
        expected.vars.clone(),
        rows,
        true,
    );
    if found.n == expected.n && found.sha256 == expected.sha256 {
        return Ok(());
    }
    let found_rows =
        bag_of(&found).map_err(|error| format!("the answer cannot be read back: {error}"))?;
    if expected.rows.is_none() {
        let has_blank_nodes = found_rows
            .iter()
            .flatten()
            .flatten()
            .any(Term::is_blank_node);
        return match (n == expected.n, has_blank_nodes) {
            (true, true) => Ok(()),
            (true, false) => Err(format!(
                "{n} rows as expected, but their hash is {} instead of {}",
                found.sha256, expected.sha256
            )),
            (false, _) => Err(format!("expected {} rows, found {n}", expected.n)),
        };
    }
    let expected_rows =
        bag_of(expected).map_err(|error| format!("the expected answer cannot be read: {error}"))?;
    if expected_rows.len() as u64 != expected.n {
        return Err(format!(
            "the expected answer has {} rows and says n = {}",
            expected_rows.len(),
            expected.n
        ));
    }
    let numbers: Vec<Numbers> = expected
        .vars
        .iter()
        .map(|name| {
            if computed.contains(name) {
                Numbers::ByValue
            } else {
                Numbers::BySpelling
            }
        })
        .collect();
    same_bag(&expected_rows, &found_rows, &numbers)
}

/// The rows with their columns in the expected order: `SELECT *` has none of its own.
fn in_columns(
    expected: &[String],
    found: &[String],
    rows: &[AnswerRow],
) -> Result<Vec<AnswerRow>, String> {
    if expected == found {
        return Ok(rows.to_vec());
    }
    let columns: Option<Vec<usize>> = expected
        .iter()
        .map(|name| found.iter().position(|other| other == name))
        .collect();
    match columns {
        Some(columns) if columns.len() == found.len() => Ok(rows
            .iter()
            .map(|row| columns.iter().map(|column| row[*column].clone()).collect())
            .collect()),
        _ => Err(format!(
            "expected the columns {expected:?}, found {found:?}"
        )),
    }
}

/// The rows of a line, each as often as it occurs.
fn bag_of(line: &AnswerLine) -> Result<Vec<Row>, String> {
    let mut bag = Vec::new();
    for (at, row) in line.rows.iter().flatten().enumerate() {
        let row = row
            .iter()
            .map(|cell| term_of(cell.as_deref(), line.vars.is_empty()))
            .collect::<Result<Row, String>>()?;
        let times = line.mult.as_ref().map_or(1, |mult| mult[at]);
        bag.extend(std::iter::repeat_n(
            row,
            usize::try_from(times).map_err(|error| error.to_string())?,
        ));
    }
    Ok(bag)
}

fn term_of(cell: Option<&str>, is_ask: bool) -> Result<Option<Term>, String> {
    match cell {
        None => Ok(None),
        Some(yes_or_no) if is_ask => Ok(Some(oxrdf::Literal::from(yes_or_no == "true").into())),
        Some(text) => Term::from_str(text)
            .map(Some)
            .map_err(|error| format!("{text}: {error}")),
    }
}
