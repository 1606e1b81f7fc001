//! Answers as JSON lines: `{query, close_ms | snapshot_ms, vars, n, sha256, rows, mult}`, with
//! terms in N-Triples syntax, distinct rows sorted by code point, and the hash over the compact
//! JSON of `[[row, count], …]`. The spelling must not change: stored answers are compared by hash.

use crate::answer::{Answer, AnswerKind};
use oxrdf::GraphName;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use somersault_model::EventTime;
use std::fmt::Write;

/// One row: terms in N-Triples syntax, `None` = unbound.
pub type AnswerRow = Vec<Option<String>>;

/// The kind and time of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AnswerTime {
    /// A firing, for this close.
    Close(EventTime),
    /// A one-shot query at this event time.
    Snapshot(EventTime),
}

impl AnswerTime {
    /// Returns the close, or the time of the snapshot.
    ///
    /// ```
    /// use somersault::EventTime;
    /// use somersault::answer_format::AnswerTime;
    /// assert_eq!(AnswerTime::Close(EventTime(1_000)).time(), EventTime(1_000));
    /// ```
    pub fn time(self) -> EventTime {
        match self {
            AnswerTime::Close(time) | AnswerTime::Snapshot(time) => time,
        }
    }

    fn member(self) -> &'static str {
        match self {
            AnswerTime::Close(_) => "close_ms",
            AnswerTime::Snapshot(_) => "snapshot_ms",
        }
    }
}

/// One line of an answer file.
///
/// ```
/// use somersault::EventTime;
/// use somersault::answer_format::{AnswerLine, AnswerTime};
/// let rows = vec![vec![Some("\"b\"".to_owned())], vec![Some("\"b\"".to_owned())]];
/// let close = AnswerTime::Close(EventTime(1_000));
/// let line = AnswerLine::from_rows("Q", close, vec!["x".into()], rows, true);
/// assert_eq!((line.n, &line.mult), (2, &Some(vec![2])));
/// assert_eq!(AnswerLine::parse(&line.to_json()).unwrap(), line);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerLine {
    /// The query's name.
    pub query: String,
    /// The time of the answer.
    pub time: AnswerTime,
    /// The columns, without `?`; empty for ASK.
    pub vars: Vec<String>,
    /// Number of rows, repeats counted.
    pub n: u64,
    /// Hex SHA-256 of the compact JSON of `[[row, multiplicity], …]`.
    pub sha256: String,
    /// Distinct rows in code point order; `None` if the line gives only `n` and `sha256`.
    pub rows: Option<Vec<AnswerRow>>,
    /// Multiplicities of `rows`; `None` if none repeats.
    pub mult: Option<Vec<u64>>,
    /// Further members of the line, for example `stored_triples`.
    pub extra: Map<String, Value>,
}

impl AnswerLine {
    /// Returns the line of an answer; the rows are left out unless `full` is set.
    ///
    /// ```
    /// use somersault::answer_format::{AnswerLine, AnswerTime};
    /// use somersault::{Engine, EngineConfig, EventTime};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.update("INSERT DATA { <urn:a> <urn:p> 1, 2 }").run()?;
    /// let found = engine.query("SELECT ?o { ?s ?p ?o }").run()?;
    /// let time = AnswerTime::Snapshot(EventTime(1_000));
    /// let line = AnswerLine::new("all", time, &found.answer, true);
    /// assert_eq!((line.n, line.vars), (2, vec!["o".to_owned()]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(query: &str, time: AnswerTime, answer: &Answer, full: bool) -> AnswerLine {
        let vars = match answer.kind() {
            AnswerKind::Boolean => Vec::new(),
            _ => answer.variables().to_vec(),
        };
        Self::from_rows(query, time, vars, answer_rows(answer), full)
    }

    /// Returns the line of rows in any order, with repeats given as often as they occur.
    ///
    /// ```
    /// use somersault::EventTime;
    /// use somersault::answer_format::{AnswerLine, AnswerTime};
    /// let close = AnswerTime::Close(EventTime(1_000));
    /// let line = AnswerLine::from_rows("Q", close, vec!["x".into()], vec![vec![None]], false);
    /// assert_eq!((line.n, line.rows), (1, None));
    /// ```
    pub fn from_rows(
        query: &str,
        time: AnswerTime,
        vars: Vec<String>,
        rows: Vec<AnswerRow>,
        full: bool,
    ) -> AnswerLine {
        let n = rows.len() as u64;
        let (rows, counts) = distinct(rows);
        let repeats = counts.iter().any(|count| *count > 1);
        AnswerLine {
            query: query.to_owned(),
            time,
            vars,
            n,
            sha256: hash(&rows, &counts),
            rows: full.then_some(rows),
            mult: (full && repeats).then_some(counts),
            extra: Map::new(),
        }
    }

    /// Reads a line.
    ///
    /// ```
    /// use somersault::answer_format::AnswerLine;
    /// let line = r#"{"query":"Q","close_ms":1000,"vars":[],"n":0,"sha256":""}"#;
    /// assert_eq!(AnswerLine::parse(line).unwrap().query, "Q");
    /// assert!(AnswerLine::parse("{}").is_err());
    /// ```
    ///
    /// # Errors
    /// A sentence that says which member is missing or of the wrong type.
    pub fn parse(line: &str) -> Result<AnswerLine, String> {
        let value: Value =
            serde_json::from_str(line).map_err(|e| format!("the line is not JSON: {e}"))?;
        let Value::Object(mut members) = value else {
            return Err("the line is not a JSON object".to_owned());
        };
        let time = match (members.remove("close_ms"), members.remove("snapshot_ms")) {
            (Some(close), None) => AnswerTime::Close(EventTime(integer(&close, "close_ms")?)),
            (None, Some(at)) => AnswerTime::Snapshot(EventTime(integer(&at, "snapshot_ms")?)),
            _ => return Err("the line needs either \"close_ms\" or \"snapshot_ms\"".to_owned()),
        };
        Ok(AnswerLine {
            query: member(&mut members, "query")?,
            time,
            vars: member(&mut members, "vars")?,
            n: member(&mut members, "n")?,
            sha256: member(&mut members, "sha256")?,
            rows: optional(&mut members, "rows")?,
            mult: optional(&mut members, "mult")?,
            extra: members,
        })
    }

    /// Returns the line as compact JSON, without a line end, in the member order of the format.
    ///
    /// ```
    /// use somersault::EventTime;
    /// use somersault::answer_format::{AnswerLine, AnswerTime};
    /// let close = AnswerTime::Close(EventTime(1_000));
    /// let line = AnswerLine::from_rows("Q", close, vec![], vec![], true);
    /// assert!(line.to_json().starts_with(r#"{"query":"Q","close_ms":1000,"#));
    /// ```
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        let _ = write!(
            out,
            "{{\"query\":{},\"{}\":{},\"vars\":{},\"n\":{},\"sha256\":\"{}\"",
            quoted(&self.query),
            self.time.member(),
            self.time.time().0,
            Value::from(self.vars.clone()),
            self.n,
            self.sha256
        );
        if let Some(rows) = &self.rows {
            out.push_str(",\"rows\":[");
            for (index, row) in rows.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_row(&mut out, row);
            }
            out.push(']');
        }
        if let Some(mult) = &self.mult {
            let _ = write!(out, ",\"mult\":{}", Value::from(mult.clone()));
        }
        for (name, value) in &self.extra {
            let _ = write!(out, ",{}:{value}", quoted(name));
        }
        out.push('}');
        out
    }
}

/// Returns the rows of an answer as the format spells them (ASK: one row `true` or `false`), in no
/// particular order.
///
/// ```
/// use somersault::answer_format::answer_rows;
/// use somersault::{Engine, EngineConfig};
/// # fn main() -> Result<(), somersault::EngineError> {
/// # let engine = Engine::open(EngineConfig::default())?;
/// # engine.update("INSERT DATA { <urn:a> <urn:p> 1, 2 }").run()?;
/// let found = engine.query("ASK { ?s ?p ?o }").run()?;
/// assert_eq!(answer_rows(&found.answer), [[Some("true".to_owned())]]);
/// # Ok(())
/// # }
/// ```
pub fn answer_rows(answer: &Answer) -> Vec<AnswerRow> {
    match answer.kind() {
        AnswerKind::Boolean => {
            let yes = answer.boolean().unwrap_or_default();
            vec![vec![Some(yes.to_string())]]
        }
        AnswerKind::Solutions => answer
            .rows()
            .map(|row| {
                row.into_iter()
                    .map(|cell| cell.map(|term| term.to_string()))
                    .collect()
            })
            .collect(),
        AnswerKind::Graph => answer
            .triples()
            .map(|triple| {
                vec![
                    Some(triple.subject.to_string()),
                    Some(triple.predicate.to_string()),
                    Some(triple.object.to_string()),
                ]
            })
            .collect(),
        AnswerKind::Dataset => answer
            .quads()
            .iter()
            .map(|quad| {
                let graph = match &quad.graph_name {
                    GraphName::DefaultGraph => None,
                    name => Some(name.to_string()),
                };
                let triple = [
                    quad.subject.to_string(),
                    quad.predicate.to_string(),
                    quad.object.to_string(),
                ];
                triple.into_iter().map(Some).chain([graph]).collect()
            })
            .collect(),
    }
}

/// Sorts by code point (UTF-8 keeps that order), unbound as '', and counts repeats.
fn distinct(mut rows: Vec<AnswerRow>) -> (Vec<AnswerRow>, Vec<u64>) {
    rows.sort_by(|a, b| {
        let left = a.iter().map(|cell| cell.as_deref().unwrap_or(""));
        let right = b.iter().map(|cell| cell.as_deref().unwrap_or(""));
        left.cmp(right)
    });
    let mut counts: Vec<u64> = Vec::new();
    let mut kept: Vec<AnswerRow> = Vec::new();
    for row in rows {
        if kept.last() == Some(&row) {
            if let Some(count) = counts.last_mut() {
                *count += 1;
            }
        } else {
            kept.push(row);
            counts.push(1);
        }
    }
    (kept, counts)
}

fn hash(rows: &[AnswerRow], counts: &[u64]) -> String {
    let mut digest = Sha256::new();
    digest.update(b"[");
    let mut piece = String::new();
    for (index, (row, count)) in rows.iter().zip(counts).enumerate() {
        piece.clear();
        piece.push_str(if index == 0 { "[" } else { ",[" });
        write_row(&mut piece, row);
        let _ = write!(piece, ",{count}]");
        digest.update(piece.as_bytes());
    }
    digest.update(b"]");
    let mut hex = String::with_capacity(64);
    for byte in digest.finalize() {
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

fn write_row(out: &mut String, row: &AnswerRow) {
    out.push('[');
    for (index, cell) in row.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        match cell {
            Some(term) => out.push_str(&quoted(term)),
            None => out.push_str("null"),
        }
    }
    out.push(']');
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("a string always has a JSON form")
}

fn member<T: serde::de::DeserializeOwned>(
    members: &mut Map<String, Value>,
    name: &str,
) -> Result<T, String> {
    optional(members, name)?.ok_or_else(|| format!("the line has no \"{name}\""))
}

fn optional<T: serde::de::DeserializeOwned>(
    members: &mut Map<String, Value>,
    name: &str,
) -> Result<Option<T>, String> {
    match members.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => serde_json::from_value(value)
            .map(Some)
            .map_err(|e| format!("\"{name}\" is not as expected: {e}")),
    }
}

fn integer(value: &Value, name: &str) -> Result<i64, String> {
    value
        .as_i64()
        .ok_or_else(|| format!("\"{name}\" is not a whole number of milliseconds"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn empty_answer_has_the_hash_of_an_empty_array() {
        let line = AnswerLine::from_rows(
            "C4",
            AnswerTime::Close(EventTime(1000)),
            vec![],
            vec![],
            true,
        );
        assert_eq!(
            line.sha256,
            "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"
        );
        assert_eq!(line.n, 0);
    }

    #[test]
    fn unbound_sorts_first_and_repeats_are_counted() {
        let a = vec![Some("<b>".to_owned()), None];
        let b = vec![None, Some("\"é\\n\"".to_owned())];
        let line = AnswerLine::from_rows(
            "Q",
            AnswerTime::Snapshot(EventTime(-5)),
            vec!["x".into(), "y".into()],
            vec![a.clone(), b.clone(), a.clone()],
            true,
        );
        assert_eq!(line.rows, Some(vec![b, a]));
        assert_eq!(line.mult, Some(vec![1, 2]));
        assert!(
            line.to_json()
                .starts_with(r#"{"query":"Q","snapshot_ms":-5,"vars":["x","y"],"n":3,"sha256":""#)
        );
        assert_eq!(AnswerLine::parse(&line.to_json()), Ok(line));
    }

    #[test]
    fn a_missing_member_is_named() {
        let error = AnswerLine::parse(r#"{"query":"Q","close_ms":1,"vars":[]}"#);
        assert_eq!(error, Err("the line has no \"n\"".to_owned()));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".*") {
            let _ = AnswerLine::parse(&text);
        }

        #[test]
        fn any_members_are_read_or_refused(members in prop::collection::vec(member_text(), 0..8)) {
            let text = format!("{{{}}}", members.join(","));
            if let Ok(line) = AnswerLine::parse(&text) {
                prop_assert_eq!(AnswerLine::parse(&line.to_json()), Ok(line));
            }
        }
    }

    /// A member that lines have, with a value that it may or may not have.
    fn member_text() -> impl Strategy<Value = String> {
        let names = [
            "query",
            "close_ms",
            "snapshot_ms",
            "vars",
            "n",
            "sha256",
            "rows",
            "mult",
        ];
        let values = [
            "\"Q\"",
            "5",
            "-1",
            "[]",
            "[\"x\"]",
            "[[\"1\",null]]",
            "[2]",
            "null",
            "{}",
        ];
        let (name, value) = (
            prop::sample::select(names.to_vec()),
            prop::sample::select(values.to_vec()),
        );
        (name, value).prop_map(|(name, value)| format!("\"{name}\":{value}"))
    }
}
