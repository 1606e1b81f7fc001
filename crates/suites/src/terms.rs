//! Terms and answers as the suites write them: N-Triples, and rows with their hash.

use crate::subject::{AbortedTransaction, EmittedMessage, PushTally};
use crate::suite::ProcedureCall;
use oxrdf::{BlankNode, Literal, NamedNode, Term, Triple};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use somersault_lang::{Argument, CreateProcedure, ParameterKind};
use std::collections::BTreeMap;

/// An answer has its rows up to this number; of more only number and hash.
const SHOWN_ROWS: usize = 400;

/// A term of JSON arguments: plain values, or terms as in SPARQL results.
fn argument(value: &Value, kind: Option<&ParameterKind>) -> Option<Term> {
    Some(match value {
        Value::Bool(value) => Literal::from(*value).into(),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => Literal::from(integer).into(),
            None => Literal::from(number.as_f64()?).into(),
        },
        Value::String(text) if kind == Some(&ParameterKind::Iri) => {
            NamedNode::new(text).ok()?.into()
        }
        Value::String(text) => Literal::new_simple_literal(text).into(),
        Value::Object(term) => {
            let value = term.get("value")?.as_str()?;
            let text = |field: &str| term.get(field).and_then(Value::as_str);
            match text("type")? {
                "uri" => NamedNode::new(value).ok()?.into(),
                "bnode" => BlankNode::new(value).ok()?.into(),
                "literal" | "typed-literal" => match (text("xml:lang"), text("datatype")) {
                    (Some(language), _) => Literal::new_language_tagged_literal(value, language)
                        .ok()?
                        .into(),
                    (None, Some(datatype)) => {
                        Literal::new_typed_literal(value, NamedNode::new(datatype).ok()?).into()
                    }
                    (None, None) => Literal::new_simple_literal(value).into(),
                },
                _ => return None,
            }
        }
        Value::Null | Value::Array(_) => return None,
    })
}

/// The arguments of a call of this procedure, in the order of its parameters; `None` if the call is
/// to be refused.
pub fn arguments(call: &ProcedureCall, procedure: &CreateProcedure) -> Option<Vec<Term>> {
    let mut named: Vec<(String, Argument)> = Vec::new();
    for (name, value) in &call.args {
        let mut parameters = procedure.parameters.iter();
        let kind = parameters.find(|it| it.name == *name).map(|it| &it.kind);
        named.push((name.clone(), Argument::Term(argument(value, kind)?)));
    }
    procedure.named_arguments(named).ok()
}

/// Rows as the format writes them: distinct ones sorted by code points, with their number, their
/// hash, and how often each is there if one repeats.
pub fn of_rows(variables: &[String], rows: impl IntoIterator<Item = Vec<Option<Term>>>) -> Value {
    let text = |term: Option<Term>| term.map(|term| term.to_string());
    let rows = rows.into_iter();
    hashed(
        variables,
        rows.map(|row| row.into_iter().map(text).collect()),
    )
}

/// The answer of an ASK.
pub fn of_boolean(value: bool) -> Value {
    hashed(&[], [vec![Some(value.to_string())]])
}

/// The answer of a CONSTRUCT.
pub fn of_graph<'t>(triples: impl IntoIterator<Item = &'t Triple>) -> Value {
    let parts = triples.into_iter().map(|triple| {
        [
            triple.subject.to_string(),
            triple.predicate.to_string(),
            triple.object.to_string(),
        ]
    });
    let mut parts: Vec<[String; 3]> = parts.collect();
    parts.sort();
    parts.dedup();
    json!({"graph": parts})
}

fn hashed(variables: &[String], rows: impl IntoIterator<Item = Vec<Option<String>>>) -> Value {
    let mut count = 0_usize;
    let mut distinct: BTreeMap<Vec<String>, (Vec<Option<String>>, u64)> = BTreeMap::new();
    for row in rows {
        count += 1;
        let key = row.iter().map(|cell| cell.clone().unwrap_or_default());
        distinct.entry(key.collect()).or_insert((row, 0)).1 += 1;
    }
    let body: Vec<Value> = distinct.values().map(|(row, n)| json!([row, n])).collect();
    let body = Value::Array(body).to_string();
    let mut answer = json!({"vars": variables, "n": count, "sha256": sha256(&body)});
    if distinct.len() <= SHOWN_ROWS {
        let rows: Vec<_> = distinct.values().map(|(row, _)| row).collect();
        answer["rows"] = json!(rows);
        if distinct.values().any(|(_, n)| *n > 1) {
            let times: Vec<u64> = distinct.values().map(|(_, n)| *n).collect();
            answer["mult"] = json!(times);
        }
    }
    answer
}

/// The fields of an answer that count.
const COMPARED: [&str; 13] = [
    "vars", "n", "sha256", "rows", "mult", "graph", "done", "abort", "refused", "state", "taken",
    "repeated", "answers",
];

/// Whether an answer is the expected one. Rows may be left out of what is expected.
pub(crate) fn agrees(actual: &Value, expected: &Value) -> bool {
    COMPARED.iter().all(|field| {
        let (actual, expected) = (actual.get(field), expected.get(field));
        match (*field, actual, expected) {
            ("rows" | "mult", _, None) => true,
            ("graph", Some(actual), Some(expected)) => sorted(actual) == sorted(expected),
            ("answers", Some(Value::Array(actual)), Some(Value::Array(expected))) => {
                let mut pairs = actual.iter().zip(expected);
                actual.len() == expected.len() && pairs.all(|(a, e)| agrees(a, e))
            }
            (_, actual, expected) => actual == expected,
        }
    })
}

fn sorted(list: &Value) -> Vec<String> {
    let items = list.as_array().into_iter().flatten();
    let mut items: Vec<String> = items.map(Value::to_string).collect();
    items.sort();
    items
}

/// What a push is answered.
pub(crate) fn of_push(tally: &PushTally) -> Value {
    json!({
        "taken": tally.taken.len(),
        "repeated": tally.repeated.len(),
        "refused": tally.refused,
    })
}

/// A message as a line of the format.
pub(crate) fn line_of(message: &EmittedMessage) -> String {
    let EmittedMessage {
        place,
        round,
        at_ms,
        statements,
    } = message;
    let statements = json!(statements);
    format!(r#"{{"n":{place},"round":{round},"t_ms":{at_ms},"statements":{statements}}}"#)
}

/// Whether an aborted transaction is the expected one. Without an expected reason, any will do.
pub(crate) fn is_abort(found: &AbortedTransaction, expected: &Value) -> bool {
    expected["procedure"] == found.procedure
        && expected["round"] == found.round
        && match expected["reason"].as_str() {
            Some(reason) => reason == found.reason,
            None => !found.reason.is_empty(),
        }
}

/// The SHA-256 of a text.
pub(crate) fn sha256(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An answer without its rows, short enough for a line of a report.
pub(crate) fn shortened(answer: &Value) -> String {
    const MOST: usize = 600;
    let text = answer.to_string();
    match text.char_indices().nth(MOST) {
        None => text,
        Some((end, _)) => {
            let rest: Map<String, Value> = answer
                .as_object()
                .into_iter()
                .flatten()
                .filter(|(name, _)| *name != "rows")
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect();
            let rest = Value::Object(rest).to_string();
            let rest: String = rest.chars().take(MOST).collect();
            format!("{rest} … {}…", &text[..end.min(200)])
        }
    }
}
