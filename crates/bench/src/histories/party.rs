//! What a history is made with: an engine of this process, or a server.

use crate::figures::parts::Failure;
use crate::harness::http::{Client, Style, put};
use serde_json::{Map, Value, json};
use somersault::oxrdf::Term;
use somersault::{CallAnswer, CallOutcome, Engine};
use somersault_suites::histories::{ReplyRows, TransactionRequest, Workload, reply_row};
use std::time::Duration;

/// The time limit of a request.
const LIMIT: Duration = Duration::from_secs(30);

/// An engine, or the connections of one client.
pub(super) enum HistoryParty {
    Engine(Engine),
    Server(Box<Connections>),
}

/// The connections of a client to a server.
pub(super) struct Connections {
    url: String,
    calls: Client,
    queries: Client,
    updates: Client,
}

/// What became of a request.
pub(super) enum PartyReply {
    /// It was carried out; no row for a call without RETURN.
    Rows(ReplyRows),
    /// It was not carried out, for this reason.
    Failed(String),
    /// Nobody knows, for this reason.
    Unanswered(String),
}

impl HistoryParty {
    pub(super) fn server(url: &str) -> Result<HistoryParty, Failure> {
        let url = url.trim_end_matches('/');
        Ok(HistoryParty::Server(Box::new(Connections {
            url: url.to_owned(),
            calls: Client::new(url, "/calls", Style::Lines)?,
            queries: Client::new(url, "/query", Style::Direct)?,
            updates: Client::new(url, "/update", Style::Update)?,
        })))
    }

    /// One more like this one, for another client.
    pub(super) fn another(&self) -> HistoryParty {
        match self {
            HistoryParty::Engine(engine) => HistoryParty::Engine(engine.clone()),
            HistoryParty::Server(to) => HistoryParty::Server(Box::new(Connections {
                url: to.url.clone(),
                calls: to.calls.another(),
                queries: to.queries.another(),
                updates: to.updates.another(),
            })),
        }
    }

    /// Carries an update out, and declares a procedure.
    pub(super) fn prepare(&mut self, workload: Workload) -> Result<(), Failure> {
        let (update, procedure) = (&workload.opening(), &workload.procedure());
        let name = workload.procedure_name();
        match self {
            HistoryParty::Engine(engine) => {
                engine.update(update).run()?;
                engine.declare(procedure)?;
            }
            HistoryParty::Server(to) => {
                let Connections { url, updates, .. } = &mut **to;
                let request = updates.request(update);
                let asked = updates.ask(&request, LIMIT);
                asked.map_err(|error| format!("the server refused {update}: {error}"))?;
                let path = format!("/procedures/{name}");
                let text = std::iter::once(procedure.as_bytes().to_vec());
                put(url, &path, "text/plain", text)?;
            }
        }
        Ok(())
    }

    /// Sends a request, and waits for its answer.
    pub(super) fn ask(&mut self, request: &TransactionRequest) -> PartyReply {
        match self {
            HistoryParty::Engine(engine) => ask_engine(engine, request),
            HistoryParty::Server(to) => to.ask(request),
        }
    }
}

impl Connections {
    fn ask(&mut self, request: &TransactionRequest) -> PartyReply {
        let Connections { calls, queries, .. } = self;
        match request {
            TransactionRequest::Call {
                procedure,
                arguments,
            } => {
                let arguments = arguments
                    .iter()
                    .map(|(name, term)| (name.clone(), json_of(term)));
                let arguments: Map<String, Value> = arguments.collect();
                let line = json!({ "call": procedure, "args": arguments }).to_string();
                let request = calls.request(&line);
                match calls.ask(&request, LIMIT) {
                    Ok(_) => reply(calls.body()),
                    Err(error) => PartyReply::Unanswered(error.to_string()),
                }
            }
            TransactionRequest::Query(text) => {
                let request = queries.request(text);
                match queries.ask(&request, LIMIT) {
                    Ok(_) => reply(queries.body()),
                    // A query changes nothing.
                    Err(error) => PartyReply::Failed(error.to_string()),
                }
            }
        }
    }
}

fn ask_engine(engine: &Engine, request: &TransactionRequest) -> PartyReply {
    match request {
        TransactionRequest::Call {
            procedure,
            arguments,
        } => {
            let arguments = arguments.iter().map(|(_, term)| term.clone());
            match engine.call(procedure).arguments(arguments).run() {
                Ok(CallOutcome::Aborted { reason, .. }) => PartyReply::Failed(reason),
                Ok(CallOutcome::Answered(CallAnswer::Rows { rows, .. })) => {
                    PartyReply::Rows(rows.into_iter().map(reply_row).collect())
                }
                Ok(CallOutcome::Answered(_)) => PartyReply::Rows(Vec::new()),
                Err(error) => PartyReply::Unanswered(error.to_string()),
            }
        }
        TransactionRequest::Query(text) => match engine.query(text).run() {
            Ok(found) => PartyReply::Rows(found.answer.rows().map(reply_row).collect()),
            Err(error) => PartyReply::Failed(error.to_string()),
        },
    }
}

fn json_of(term: &Term) -> Value {
    match term {
        Term::Literal(literal) => json!({
            "type": "literal", "value": literal.value(), "datatype": literal.datatype().as_str(),
        }),
        Term::NamedNode(node) => json!({ "type": "uri", "value": node.as_str() }),
        other => json!(other.to_string()),
    }
}

/// The answer of a server: SPARQL JSON of a query or a line of a call.
fn reply(body: &[u8]) -> PartyReply {
    let answer: Value = match serde_json::from_slice(body) {
        Ok(answer) => answer,
        Err(error) => return PartyReply::Unanswered(format!("the answer is no JSON: {error}")),
    };
    for word in ["aborted", "error"] {
        if let Some(reason) = answer[word].as_str() {
            return PartyReply::Failed(reason.to_owned());
        }
    }
    let names = answer["head"]["vars"].as_array();
    let rows = answer["results"]["bindings"].as_array();
    let (Some(names), Some(rows)) = (names, rows) else {
        return match answer["done"].as_bool() {
            Some(true) => PartyReply::Rows(Vec::new()),
            _ => PartyReply::Unanswered(format!("the answer has no rows: {answer}")),
        };
    };
    let cell = |row: &Value, name: &Value| {
        let value = row[name.as_str()?]["value"].as_str();
        value.map(str::to_owned)
    };
    let rows = rows
        .iter()
        .map(|row| names.iter().map(|name| cell(row, name)).collect());
    PartyReply::Rows(rows.collect())
}
