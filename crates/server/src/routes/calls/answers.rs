//! What calls are answered, in the formats of queries, and as lines of JSON.
//!
//! Before changing anything here: a call has committed when its answer is written, so an answer for
//! which the client accepts no format is sent in another format, and never as an error.

use crate::http::error::{ApiError, ApiResult};
use crate::http::negotiate::{Accept, Offer, RDF_OFFERS, RESULT_OFFERS, ResultFormat};
use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use oxrdfio::{RdfFormat, RdfSerializer};
use serde_json::{Value, json};
use somersault::oxrdf::{Term, Triple, Variable};
use somersault::{CallAnswer, CallOutcome, QueryResultsFormat};
use sparesults::QueryResultsSerializer;
use std::io;

/// Returns the answer of one call, in the format that the client prefers.
///
/// # Errors
/// 409 for an abort.
pub(crate) fn answer(outcome: CallOutcome, accept: &Accept) -> ApiResult {
    let answer = match outcome {
        CallOutcome::Answered(answer) => answer,
        CallOutcome::Aborted { reason } => return Err(aborted(&reason)),
    };
    let written = match &answer {
        CallAnswer::Rows { .. } | CallAnswer::Boolean(_) => {
            let offer = offered(accept, RESULT_OFFERS);
            let write = |offer: Offer<ResultFormat>| {
                let text = match offer.format {
                    ResultFormat::Sparql(format) => results(&answer, format),
                    ResultFormat::Lines => lines(&answer),
                };
                (text, offer.content_type())
            };
            or_first(write(offer), || write(RESULT_OFFERS[0]))
        }
        CallAnswer::Graph(triples) => {
            let offer = offered(accept, RDF_OFFERS);
            let write =
                |offer: Offer<RdfFormat>| (graph(triples, offer.format), offer.content_type());
            or_first(write(offer), || write(RDF_OFFERS[0]))
        }
        CallAnswer::Done | CallAnswer::NotKept => {
            return Ok(Json(done(&answer)).into_response());
        }
    };
    match written {
        (Ok(text), content_type) => Ok(response(text, content_type)),
        (Err(error), _) => Err(ApiError::internal(error)),
    }
}

/// The first format serves where the client accepts none.
fn offered<F: Copy>(accept: &Accept, offers: &[Offer<F>]) -> Offer<F> {
    accept.choose(offers, "the answer").unwrap_or(offers[0])
}

type WrittenAnswer = (io::Result<Vec<u8>>, HeaderValue);

/// The first format serves where another one cannot express the answer.
fn or_first(written: WrittenAnswer, first: impl FnOnce() -> WrittenAnswer) -> WrittenAnswer {
    match written {
        (Err(_), _) => first(),
        written => written,
    }
}

fn response(text: Vec<u8>, content_type: HeaderValue) -> Response {
    let mut response = text.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, content_type);
    headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    response
}

fn aborted(reason: &str) -> ApiError {
    let sentence = format!("The procedure aborted, and nothing of the call remains: {reason}");
    ApiError::new(StatusCode::CONFLICT, "aborted", sentence).detail("reason", reason)
}

/// The answer of a call without RETURN; `kept` is false if the call was answered before, with more
/// than is remembered.
fn done(answer: &CallAnswer) -> Value {
    match answer {
        CallAnswer::NotKept => json!({ "done": true, "kept": false }),
        _ => json!({ "done": true }),
    }
}

fn results(answer: &CallAnswer, format: QueryResultsFormat) -> io::Result<Vec<u8>> {
    let serializer = QueryResultsSerializer::from_format(format);
    match answer {
        CallAnswer::Rows { variables, rows } => {
            let variable = |name: &String| Variable::new_unchecked(name.clone());
            let variables: Vec<Variable> = variables.iter().map(variable).collect();
            let mut writer =
                serializer.serialize_solutions_to_writer(Vec::new(), variables.clone())?;
            for row in rows {
                let cells = variables.iter().zip(row);
                let bound = cells.filter_map(|(variable, term)| {
                    Some((variable.as_ref(), term.as_ref().map(Term::as_ref)?))
                });
                writer.serialize(bound)?;
            }
            writer.finish()
        }
        answer => {
            let is_true = matches!(answer, CallAnswer::Boolean(true));
            serializer.serialize_boolean_to_writer(Vec::new(), is_true)
        }
    }
}

/// Rows, or a boolean, a line of JSON each.
fn lines(answer: &CallAnswer) -> io::Result<Vec<u8>> {
    let json: Value = serde_json::from_slice(&results(answer, QueryResultsFormat::Json)?)?;
    let mut text = Vec::new();
    let mut line = |value: &Value| {
        serde_json::to_writer(&mut text, value)?;
        text.push(b'\n');
        Ok::<(), io::Error>(())
    };
    match json["results"]["bindings"].as_array() {
        Some(rows) => rows.iter().try_for_each(&mut line)?,
        None => line(&json!({ "boolean": json["boolean"] }))?,
    }
    Ok(text)
}

fn graph(triples: &[Triple], format: RdfFormat) -> io::Result<Vec<u8>> {
    let mut writer = RdfSerializer::from_format(format).for_writer(Vec::new());
    for triple in triples {
        writer.serialize_triple(triple)?;
    }
    writer.finish()
}

/// Appends the line of a call: what it was answered, its abort, or why it was refused.
pub(crate) fn append_line(
    outcome: Result<CallOutcome, ApiError>,
    line: u64,
    text: &mut Vec<u8>,
) -> io::Result<()> {
    let json = match outcome {
        Err(refusal) => {
            let mut json = refusal.to_json();
            json["line"] = json!(line);
            json
        }
        Ok(CallOutcome::Aborted { reason }) => json!({ "aborted": reason }),
        Ok(CallOutcome::Answered(CallAnswer::Graph(triples))) => {
            let triples = graph(&triples, RdfFormat::NTriples)?;
            json!({ "graph": String::from_utf8_lossy(&triples) })
        }
        Ok(CallOutcome::Answered(answer @ (CallAnswer::Done | CallAnswer::NotKept))) => {
            done(&answer)
        }
        Ok(CallOutcome::Answered(answer)) => {
            text.extend(results(&answer, QueryResultsFormat::Json)?);
            text.push(b'\n');
            return Ok(());
        }
    };
    text.extend(json.to_string().into_bytes());
    text.push(b'\n');
    Ok(())
}
