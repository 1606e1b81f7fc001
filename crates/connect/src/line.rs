//! A firing as one line of JSON: its key and its answer, and nothing that differs when it is
//! executed again.

use crate::error::SinkError;
use serde_json::{Value, json};
use somersault::{AnswerKind, FiringResult, QueryResultsFormat, RdfFormat};

/// The key of an answer among those of its query. Keys ascend in the order of delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AnswerKey {
    /// The query's uid: a query that is registered later has a higher one.
    pub uid: u64,
    /// The snapshot number that the firing saw.
    pub sn: u64,
    /// The close, in milliseconds.
    pub close_ms: i64,
    /// Counts the firings at one close from 0.
    pub ordinal: u32,
    /// 0, and more for amended firings.
    pub revision: u32,
}

impl AnswerKey {
    /// Returns the key of a firing.
    pub fn of(firing: &FiringResult) -> AnswerKey {
        AnswerKey {
            uid: firing.uid,
            sn: firing.sn.0,
            close_ms: firing.close.0,
            ordinal: firing.ordinal,
            revision: firing.revision,
        }
    }

    /// Returns the key in a line of JSON that a sink or the server wrote.
    pub(crate) fn read(line: &[u8]) -> Option<AnswerKey> {
        AnswerKey::of_json(&serde_json::from_slice(line).ok()?)
    }

    /// Returns the key among the members of a firing; `None` if one of them is absent.
    pub fn of_json(line: &Value) -> Option<AnswerKey> {
        let number = |member: &str| line[member].as_u64();
        Some(AnswerKey {
            uid: number("uid")?,
            sn: number("sn")?,
            close_ms: line["close_ms"].as_i64()?,
            ordinal: number("ordinal")?.try_into().ok()?,
            revision: number("revision")?.try_into().ok()?,
        })
    }
}

/// Returns the JSON members of a firing that are its identity: all but its answer, and nothing that
/// differs when it is executed again.
pub fn members(firing: &FiringResult) -> Value {
    let mut members = json!({
        "id": firing.id().to_string(),
        "query": firing.query,
        "uid": firing.uid,
        "close_ms": firing.close,
        "revision": firing.revision,
        "ordinal": firing.ordinal,
        "sn": firing.sn,
    });
    if let Some(complete_from) = firing.complete_from {
        members["complete_from_ms"] = complete_from.0.into();
    }
    members
}

/// Returns a firing as one line of JSON, with its line break. The answer is SPARQL JSON for SELECT
/// and ASK, and for CONSTRUCT and DESCRIBE a string of N-Triples, or of N-Quads if the template
/// names graphs.
pub(crate) fn line(firing: &FiringResult) -> Result<Vec<u8>, SinkError> {
    let unwritable = |cause: String| SinkError::Unwritable {
        key: firing.id().to_string(),
        cause,
    };
    let mut line = members(firing);
    match &firing.answer {
        Err(sentence) => line["error"] = sentence.as_str().into(),
        Ok(answer) => {
            let mut text = Vec::new();
            let written = match answer.kind() {
                AnswerKind::Graph => answer.write_graph(RdfFormat::NTriples, &mut text),
                AnswerKind::Dataset => answer.write_graph(RdfFormat::NQuads, &mut text),
                AnswerKind::Solutions | AnswerKind::Boolean => {
                    answer.write_results(QueryResultsFormat::Json, &mut text)
                }
            };
            written.map_err(|error| unwritable(error.to_string()))?;
            line["results"] = match answer.kind() {
                AnswerKind::Graph | AnswerKind::Dataset => String::from_utf8(text)
                    .map_err(|error| unwritable(error.to_string()))?
                    .into(),
                AnswerKind::Solutions | AnswerKind::Boolean => {
                    serde_json::from_slice(&text).map_err(|error| unwritable(error.to_string()))?
                }
            };
        }
    }
    let mut bytes = line.to_string().into_bytes();
    bytes.push(b'\n');
    Ok(bytes)
}
