//! `/openapi.json`: the description of every address, as OpenAPI 3.1. One entry of [`operations`]
//! is one operation; a test compares them with the router's table.

use crate::http::negotiate::{JSON_LINES, Offer, PUSH_INPUT, RDF_INPUT, RDF_OFFERS, RESULT_OFFERS};
use crate::routes;
use crate::routes::batch::LINES;
use crate::routes::needs::Needs;
use crate::routes::push::TIMED_LINES;
use axum::Json;
use axum::http::Method;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use somersault::{DocumentSyntax, MessageSyntax};
use std::collections::HashMap;

mod schemas;

/// One method of one address.
struct OperationDoc {
    method: &'static str,
    path: &'static str,
    id: &'static str,
    tag: &'static str,
    summary: &'static str,
    description: &'static str,
    /// Names in `components.parameters`.
    parameters: &'static [&'static str],
    body: Body,
    /// Status, description and content of each successful answer.
    success: &'static [(&'static str, &'static str, Content)],
    /// The errors beyond those that any address may answer.
    errors: &'static [&'static str],
}

/// The body of a request.
#[derive(Clone, Copy)]
enum Body {
    None,
    Query,
    Update,
    QueryOrUpdate,
    Rdf,
    Push,
    /// A text in the query language, whatever its Content-Type.
    Text(&'static str),
    Json(&'static str),
    /// Any number of lines of JSON.
    Lines(&'static str),
}

/// The content of an answer.
#[derive(Clone, Copy)]
enum Content {
    None,
    Json(&'static str),
    /// An answer of SELECT or ASK, or a graph.
    Answer,
    /// An answer, or a report of what an update did.
    AnswerOrUpdate,
    Graph,
    Text,
    Html,
    Events,
    /// Events, or a line of JSON for each.
    EventsOrLines,
    /// RDF Messages, lines of JSON-LD, or events.
    Messages,
    /// All statements as N-Quads.
    Quads,
    /// A tar archive.
    Archive,
    /// A JSON-LD context.
    Context,
}

const DATASET: &[&str] = &["default-graph-uri", "named-graph-uri", "timeout_ms"];
const QUERY_GET: &[&str] = &[
    "query",
    "default-graph-uri",
    "named-graph-uri",
    "timeout_ms",
];
const EXPLAIN_GET: &[&str] = &["query", "analyze", "default-graph-uri", "named-graph-uri"];
const EXPLAIN_POST: &[&str] = &["analyze", "default-graph-uri", "named-graph-uri"];
const USING: &[&str] = &["using-graph-uri", "using-named-graph-uri", "timeout_ms"];
const BOTH: &[&str] = &[
    "default-graph-uri",
    "named-graph-uri",
    "using-graph-uri",
    "using-named-graph-uri",
    "timeout_ms",
];
const GRAPH: &[&str] = &["graph", "default"];
const DIRECT: &[&str] = &["path"];
const STREAM: &[&str] = &["stream"];
const QUERY_NAME: &[&str] = &["name"];
const QUERY_PUT: &[&str] = &["name", "replace"];
const PUSH: &[&str] = &[
    "stream",
    "Event-Time-Ms",
    "Event-Time",
    "Push-Source",
    "Push-Sequence",
    "event_time_ms",
    "source",
    "seq",
];
const WHO: &[&str] = &["name", "who"];
const NEXT_ANSWERS: &[&str] = &["name", "who", "answers", "wait_ms"];
const QUERY_PAGE: &[&str] = &["after", "limit"];
const PROCEDURE: &[&str] = &["procedure"];
const DISCARD: &[&str] = &["procedure", "discard"];
const FOLLOW: &[&str] = &[
    "stream",
    "ticket",
    "Last-Event-ID",
    "lastEventId",
    "message-from",
    "count",
];
const CALL: &[&str] = &["procedure", "Idempotency-Key", "timeout_ms", "analyze"];
const CALLS: &[&str] = &["procedure", "timeout_ms"];
const DATAFLOW: &[&str] = &["dataflow"];
const CONTEXT: &[&str] = &["context"];
const SUBSCRIBE: &[&str] = &[
    "name",
    "ticket",
    "Last-Event-ID",
    "lastEventId",
    "from",
    "empties",
];
const READ: &[&str] = &["name", "who", "ticket"];
const SOURCE: &[&str] = &["source_name"];
const SINK: &[&str] = &["sink_name"];

const WRITTEN: &[(&str, &str, Content)] = &[
    (
        "200",
        "The graph held something before.",
        Content::Json("GraphWrite"),
    ),
    ("201", "The graph is new.", Content::Json("GraphWrite")),
];

const fn op(
    method: &'static str,
    path: &'static str,
    id: &'static str,
    tag: &'static str,
    summary: &'static str,
) -> OperationDoc {
    OperationDoc {
        method,
        path,
        id,
        tag,
        summary,
        description: "",
        parameters: &[],
        body: Body::None,
        success: &[],
        errors: &[],
    }
}

#[rustfmt::skip]
fn operations() -> Vec<OperationDoc> {
    let mut all = vec![
        OperationDoc { success: &[("200", "The page.", Content::Html)], ..op("get", "/", "index", "server", "List the addresses") },
        OperationDoc { parameters: QUERY_GET, success: &[("200", "The answer.", Content::Answer)], errors: &["406", "422"],
            description: "SPARQL 1.1 Protocol. The HTTP method QUERY is answered as POST is, for queries alone. The query sees the snapshot that is stable at its start, and no later change. The header Somersault-Sn has the number of the snapshot.",
            ..op("get", "/query", "queryGet", "SPARQL", "Answer a SPARQL query") },
        OperationDoc { parameters: DATASET, body: Body::Query, success: &[("200", "The answer.", Content::Answer)], errors: &["406", "413", "415", "422"],
            ..op("post", "/query", "queryPost", "SPARQL", "Answer a SPARQL query") },
        OperationDoc { parameters: USING, body: Body::Update, success: &[("200", "The update is stable: every later query sees it.", Content::Json("UpdateSummary"))], errors: &["413", "415", "422"],
            ..op("post", "/update", "update", "SPARQL", "Carry out a SPARQL update") },
        OperationDoc { parameters: EXPLAIN_GET, success: &[("200", "The plan.", Content::Text)], errors: &["422"],
            ..op("get", "/explain", "explainGet", "SPARQL", "Explain how a query or a CALL would run") },
        OperationDoc { parameters: EXPLAIN_POST, body: Body::Query, success: &[("200", "The plan.", Content::Text)], errors: &["413", "415", "422"],
            ..op("post", "/explain", "explainPost", "SPARQL", "Explain how a query or a CALL would run") },
        OperationDoc { success: &[("200", "The streams.", Content::Json("StreamList"))],
            ..op("get", "/streams", "listStreams", "streams", "List the streams") },
        OperationDoc { parameters: STREAM, success: &[("200", "The stream.", Content::Json("Stream"))], errors: &["404"],
            ..op("get", "/streams/{name}", "showStream", "streams", "Show a stream") },
        OperationDoc { parameters: STREAM, body: Body::Text("A CREATE STREAM text whose IRI is the URL's name."), errors: &["409", "413"],
            success: &[("200", "The same text had declared it before.", Content::Json("Stream")), ("201", "It is declared.", Content::Json("Stream"))],
            ..op("put", "/streams/{name}", "createStream", "streams", "Declare a stream") },
        OperationDoc { parameters: PUSH, body: Body::Push, errors: &["404", "409", "413", "415", "429"],
            success: &[("200", "The push is durable, or it was a repeat and was dropped; or what became of each message.", Content::Json("PushOrMessagesReceipt"))],
            description: "A body of messages (a media type with version=1.2-messages, or application/x-ld+ndjson), or of documents for a stream that is declared with MAPPED BY (application/json, application/x-ndjson, text/csv), is read while it comes, and each message is taken or refused by itself: the answer is a MessagesReceipt. Of any other body all is taken or nothing. A header gives the event time of the whole body, or each line of text/tab-separated-values gives its own: `t_ms<TAB>statement .`, one statement in N-Triples or N-Quads a line. A push to a stream declared ARRIVAL TIME gives none. Event times must not go back. A push whose (stream, source, sequence number) was taken before is dropped, and acknowledged with `repeated`.",
            ..op("post", "/streams/{name}", "push", "streams", "Push statements into a stream") },
        OperationDoc { parameters: STREAM, success: &[("204", "It is dropped.", Content::None)], errors: &["404", "409"],
            ..op("delete", "/streams/{name}", "dropStream", "streams", "Drop a stream that no query windows") },
        OperationDoc { parameters: STREAM, body: Body::Json("AdvanceOne"), success: &[("200", "The stream is complete through this time.", Content::Json("Advanced"))], errors: &["404", "413"],
            description: "An event-time heartbeat: every statement with an earlier event time has been sent. Closes that become due by it fire.",
            ..op("post", "/streams/{name}/advance", "advanceStream", "streams", "Move a stream's time") },
        OperationDoc { parameters: STREAM, success: &[("200", "The stream has no time until its next statement or advance.", Content::Json("Reset"))], errors: &["404", "409"],
            description: "For a stream that a wrong time, or a clock that was set back, has carried away. Its declaration, its absorbed facts and the sequence numbers of its sources stay. Statements that only windows could still show are lost. Refused while a query windows the stream.",
            ..op("post", "/streams/{name}/reset-time", "resetStream", "streams", "Let a stream start again") },
        OperationDoc { body: Body::Json("AdvanceSeveral"), success: &[("200", "The streams are complete through these times.", Content::Json("Advanced"))], errors: &["404", "413"],
            description: "All streams advance in one log record, hence in one snapshot.",
            ..op("post", "/advance", "advanceStreams", "streams", "Move the time of several streams at once") },
        OperationDoc { parameters: QUERY_PAGE, success: &[("200", "A page of the queries.", Content::Json("QueryList"))],
            description: "In the order of their names. `next` is the address of the next page; it is null on the last.",
            ..op("get", "/queries", "listQueries", "continuous queries", "List the continuous queries") },
        OperationDoc { body: Body::Lines("NewQuery"), success: &[("200", "The outcome of the lines.", Content::Json("BatchSummary"))], errors: &["413", "415"],
            description: "Registers many queries: one JSON object a line. Each line is taken or refused on its own, in order, as if it had been sent alone; the same text under the same name changes nothing. The body is read as it arrives and may have any length. Queries that differ only in names and constants form one group, and are evaluated together.",
            ..op("put", "/queries:batch", "registerQueries", "continuous queries", "Register many continuous queries") },
        OperationDoc { parameters: QUERY_NAME, success: &[("200", "The query.", Content::Json("Query"))], errors: &["404"],
            ..op("get", "/queries/{name}", "showQuery", "continuous queries", "Show a continuous query") },
        OperationDoc { parameters: QUERY_PUT, body: Body::Text("A C-SPARQL query. The URL's name is the query's; a REGISTER header must not say another."), errors: &["404", "409", "413"],
            success: &[("200", "The same text was registered before, or with `replace` it replaced another text.", Content::Json("Query")), ("201", "It is registered.", Content::Json("Query"))],
            description: "With `replace` it replaces the query of this name in one step, so that exactly one of them answers each close. If it is refused, the old query stays as it was. `replaced` in the answer identifies the old query.",
            ..op("put", "/queries/{name}", "registerQuery", "continuous queries", "Register a continuous query") },
        OperationDoc { parameters: QUERY_NAME, success: &[("204", "It is dropped; its event streams end.", Content::None)], errors: &["404", "409"],
            ..op("delete", "/queries/{name}", "dropQuery", "continuous queries", "Drop a continuous query") },
        OperationDoc { parameters: QUERY_NAME, success: &[("204", "It is paused.", Content::None)], errors: &["404", "409"],
            ..op("post", "/queries/{name}/pause", "pauseQuery", "continuous queries", "Stop a query from firing") },
        OperationDoc { parameters: QUERY_NAME, success: &[("204", "It is resumed.", Content::None)], errors: &["404", "409"],
            ..op("post", "/queries/{name}/resume", "resumeQuery", "continuous queries", "Let a paused query fire again") },
        OperationDoc { parameters: SUBSCRIBE, success: &[("200", "One event for each firing.", Content::EventsOrLines)], errors: &["404", "406"],
            description: "Server-Sent Events, or lines of JSON where Accept prefers application/x-ndjson; there other events are lines with the member event, and blank lines keep the connection open. A firing is an event without a name. Its id is the query's uid, a colon and the close time, and its data is a Firing. The event `gap` says that firings after the given id are no longer kept, or that the id belongs to another query. The event `slow` says that the client reads too slowly, and that the firings that waited for it are dropped. The event `end` is the last and gives the reason: the query was dropped, the server is stopping, or the client is too slow. Comments keep the connection open. Answers of CONSTRUCT and DESCRIBE are also available as RDF Messages, by the media types of messages.",
            ..op("get", "/queries/{name}/results", "subscribe", "continuous queries", "Follow a query's answers") },
    ];
    all.extend(copies().into_iter().chain([checkpoint()]).chain(tokens()));
    all.extend(contexts().into_iter().chain(connectors()).chain(watching()));
    all.extend(subscriptions().into_iter().chain(transactions()));
    all.extend(sparql_aliases());
    all.extend(graph_store());
    all
}

#[rustfmt::skip]
fn watching() -> Vec<OperationDoc> {
    vec![
        OperationDoc { success: &[("200", "The server works.", Content::Json("Health")), ("503", "Something is wrong, as the message says; queries may still be answered.", Content::Json("Health"))],
            ..op("get", "/health", "health", "server", "Tell whether the server works") },
        OperationDoc { success: &[("200", "The process works.", Content::Json("Probe"))],
            description: "For programs that start a process again when it no longer answers. It says nothing about the data.",
            ..op("get", "/livez", "livez", "server", "Tell whether the process answers") },
        OperationDoc { success: &[("200", "Requests can be sent.", Content::Json("Probe")), ("503", "The data is being read (recovering), the server is stopping, or it has failed.", Content::Json("Probe"))],
            description: "For balancers. A server whose disk is full is ready, because it answers queries.",
            ..op("get", "/ready", "ready", "server", "Tell whether requests can be sent") },
        OperationDoc { success: &[("200", "Counters in the Prometheus text format.", Content::Text)],
            ..op("get", "/metrics", "metrics", "server", "Show counters for Prometheus") },
        OperationDoc { success: &[("200", "This description.", Content::Json("Anything"))],
            ..op("get", "/openapi.json", "openapi", "server", "Describe the addresses") },
    ]
}

#[rustfmt::skip]
fn copies() -> Vec<OperationDoc> {
    vec![
        OperationDoc { success: &[("200", "The files of a data folder.", Content::Archive)], errors: &["409"],
            description: "Takes a checkpoint. The answer is a tar archive of it and of the log behind it, through what was durable then. The server goes on meanwhile, and removes none of these files until the answer is sent. The header Somersault-Position has the position of the last record. An archive that ends without two blocks of zeros was cut.",
            ..op("post", "/backup", "backup", "copies", "Back up the data folder") },
        OperationDoc { success: &[("200", "All stored statements.", Content::Quads)],
            description: "All stored statements at one snapshot, whose number is in the header Somersault-Sn. Blank nodes have the labels by which the server knows them.",
            ..op("get", "/dump/statements", "dumpStatements", "copies", "Read all stored statements") },
        OperationDoc { success: &[("200", "The statements that declare them.", Content::Text)],
            description: "CREATE STREAM, REGISTER and PAUSE statements, separated by `;`, each behind those that it needs.",
            ..op("get", "/dump/declarations", "dumpDeclarations", "copies", "Read all declarations of streams and continuous queries") },
    ]
}

#[rustfmt::skip]
fn subscriptions() -> Vec<OperationDoc> {
    vec![
        OperationDoc { parameters: QUERY_NAME, success: &[("200", "The subscriptions.", Content::Json("SubscriptionList"))], errors: &["404"],
            ..op("get", "/queries/{name}/subscriptions", "listSubscriptions", "continuous queries", "List the durable subscriptions to a query") },
        OperationDoc { parameters: WHO, success: &[("200", "The subscription.", Content::Json("Subscription"))], errors: &["404"],
            ..op("get", "/queries/{name}/subscriptions/{who}", "showSubscription", "continuous queries", "Show a durable subscription") },
        OperationDoc { parameters: WHO, body: Body::Json("SubscriptionTerms"), errors: &["404", "409", "413"],
            success: &[("200", "It was there with the same terms.", Content::Json("Subscription")), ("201", "It is created.", Content::Json("Subscription"))],
            description: "A named place among the query's answers, which the engine keeps. Answers are kept for it, also over a restart, until they are acknowledged or one of its limits is reached.",
            ..op("put", "/queries/{name}/subscriptions/{who}", "createSubscription", "continuous queries", "Create a durable subscription") },
        OperationDoc { parameters: WHO, success: &[("204", "It is deleted; nothing is kept for it any more.", Content::None)], errors: &["404"],
            ..op("delete", "/queries/{name}/subscriptions/{who}", "deleteSubscription", "continuous queries", "Delete a durable subscription") },
        OperationDoc { parameters: READ, success: &[("200", "One event for each firing.", Content::Events)], errors: &["404", "406"],
            description: "As the results of the query, from the first answer on that is not acknowledged. `Last-Event-ID` is ignored. The event `gap` says how many answers were let go since the last acknowledgement. The event `end` with the reason `ended` says that the subscription has reached a limit, or was deleted.",
            ..op("get", "/queries/{name}/subscriptions/{who}/results", "readSubscription", "continuous queries", "Read a durable subscription") },
        OperationDoc { parameters: NEXT_ANSWERS, success: &[("200", "The next answers.", Content::Json("NextAnswers"))], errors: &["404"],
            description: "The oldest answers that are not acknowledged, as many as are ready. The same ones come again until they are acknowledged.",
            ..op("get", "/queries/{name}/subscriptions/{who}/answers", "nextAnswers", "continuous queries", "Read the next answers of a durable subscription") },
        OperationDoc { parameters: WHO, body: Body::Json("Acknowledgement"), success: &[("200", "The acknowledgement is durable.", Content::Json("Subscription"))], errors: &["404", "413"],
            description: "All answers up to this one are not sent again. An answer that was acknowledged before changes nothing.",
            ..op("post", "/queries/{name}/subscriptions/{who}/ack", "acknowledge", "continuous queries", "Acknowledge answers of a durable subscription") },
    ]
}

#[rustfmt::skip]
fn transactions() -> Vec<OperationDoc> {
    const TAG: &str = "transactions";
    vec![
        OperationDoc { parameters: FOLLOW, success: &[("200", "The messages as they are emitted.", Content::Messages)], errors: &["404", "406", "410"],
            description: "The messages of an interior stream, each once by its place, in the order of emission. The header `message-place` gives the place of the first; the others follow it. As an event stream, each is an event `message` whose id is its place.",
            ..op("get", "/streams/{name}/messages", "followMessages", "streams", "Follow the messages of an interior stream") },
        OperationDoc { success: &[("200", "The procedures.", Content::Json("ProcedureList"))], ..op("get", "/procedures", "listProcedures", TAG, "List the procedures") },
        OperationDoc { parameters: PROCEDURE, success: &[("200", "The procedure.", Content::Json("Procedure"))], errors: &["404"],
            ..op("get", "/procedures/{name}", "showProcedure", TAG, "Show a procedure") },
        OperationDoc { parameters: PROCEDURE, body: Body::Text("A CREATE PROCEDURE or CREATE OR REPLACE PROCEDURE text."), errors: &["404", "409", "413"],
            success: &[("200", "It was there, with this text or another.", Content::Json("Procedure")), ("201", "It is declared.", Content::Json("Procedure"))],
            ..op("put", "/procedures/{name}", "createProcedure", TAG, "Declare a procedure") },
        OperationDoc { parameters: DISCARD, success: &[("204", "It is dropped.", Content::None)], errors: &["404", "409"],
            ..op("delete", "/procedures/{name}", "dropProcedure", TAG, "Drop a procedure") },
        OperationDoc { parameters: PROCEDURE, success: &[("200", "The newest, at most 1,000, oldest first.", Content::Json("AbortList"))], errors: &["404"],
            ..op("get", "/procedures/{name}/aborted", "abortedByProcedure", TAG, "List the transactions that a procedure aborted on batches") },
        OperationDoc { parameters: PROCEDURE, success: &[("200", "The steps.", Content::Text)], errors: &["404"],
            ..op("get", "/procedures/{name}/explain", "explainProcedure", TAG, "Describe the steps of a procedure, with the plans of their queries") },
        OperationDoc { parameters: &["dataflow", "format"], success: &[("200", "The drawing.", Content::Text)], errors: &["404"],
            ..op("get", "/dataflows/{name}/explain", "explainDataflow", TAG, "Draw the graph of a dataflow") },
        OperationDoc { parameters: CALL, body: Body::Json("Anything"), success: &[("200", "What RETURN gives; without RETURN `{\"done\": true}`.", Content::Answer)], errors: &["404", "406", "409", "413", "415"],
            description: "The body has a member for each parameter: a JSON value, or a term as in SPARQL 1.1 Query Results JSON. 409 with `aborted` and `reason` if the procedure aborts. With `analyze=true` the call is undone, and the answer is a text that describes each step.",
            ..op("post", "/procedures/{name}/call", "callProcedure", TAG, "Call a procedure") },
        OperationDoc { parameters: CALLS, body: Body::Lines("CallLine"), success: &[("200", "A line for each call, in their order.", Content::Text)], errors: &["415"],
            description: "Lines are answered as they come. An abort or a refusal is a line and stops nothing.",
            ..op("post", "/procedures/{name}/calls", "callProcedureManyTimes", TAG, "Call a procedure many times") },
        OperationDoc { parameters: &["timeout_ms"], body: Body::Lines("CallLine"), success: &[("200", "A line for each call, in their order.", Content::Text)], errors: &["415"],
            ..op("post", "/calls", "callProcedures", TAG, "Call procedures many times") },
        OperationDoc { success: &[("200", "The dataflows.", Content::Json("DataflowList"))], ..op("get", "/dataflows", "listDataflows", TAG, "List the dataflows") },
        OperationDoc { parameters: DATAFLOW, success: &[("200", "The dataflow.", Content::Json("Dataflow"))], errors: &["404"],
            ..op("get", "/dataflows/{name}", "showDataflow", TAG, "Show a dataflow") },
        OperationDoc { parameters: DATAFLOW, body: Body::Text("A CREATE DATAFLOW or CREATE OR REPLACE DATAFLOW text."), errors: &["404", "409", "413"],
            success: &[("200", "It was there, with this text or another.", Content::Json("Dataflow")), ("201", "It is declared.", Content::Json("Dataflow"))],
            ..op("put", "/dataflows/{name}", "createDataflow", TAG, "Declare a dataflow") },
        OperationDoc { parameters: DATAFLOW, success: &[("204", "It is dropped; its procedures stay.", Content::None)], errors: &["404", "409"],
            ..op("delete", "/dataflows/{name}", "dropDataflow", TAG, "Drop a dataflow") },
        OperationDoc { parameters: DATAFLOW, success: &[("204", "No round begins from now on.", Content::None)], errors: &["404"],
            ..op("post", "/dataflows/{name}/pause", "pauseDataflow", TAG, "Pause a dataflow") },
        OperationDoc { parameters: DATAFLOW, success: &[("204", "It goes on.", Content::None)], errors: &["404"],
            ..op("post", "/dataflows/{name}/resume", "resumeDataflow", TAG, "Resume a dataflow that is paused or stopped") },
        OperationDoc { parameters: DATAFLOW, success: &[("200", "The newest, at most 1,000, oldest first.", Content::Json("AbortList"))], errors: &["404"],
            ..op("get", "/dataflows/{name}/aborted", "abortedInDataflow", TAG, "List the transactions of a dataflow that aborted") },
    ]
}

#[rustfmt::skip]
fn checkpoint() -> OperationDoc {
    OperationDoc { success: &[("200", "It is written.", Content::Json("Checkpoint"))], errors: &["409", "507"],
        description: "Queries and inputs go on meanwhile. A server takes checkpoints by itself, too (`serve --recovery-target`, `--checkpoint-every`).",
        ..op("post", "/checkpoint", "takeCheckpoint", "server", "Take a checkpoint") }
}

#[rustfmt::skip]
fn connectors() -> Vec<OperationDoc> {
    const TAG: &str = "connectors";
    vec![
        OperationDoc { success: &[("200", "The sources.", Content::Json("SourceList"))], ..op("get", "/sources", "listSources", TAG, "List the sources") },
        OperationDoc { parameters: SOURCE, success: &[("200", "The source.", Content::Json("Source"))], errors: &["404"],
            ..op("get", "/sources/{name}", "showSource", TAG, "Show a source") },
        OperationDoc { parameters: SOURCE, body: Body::Text("A CREATE SOURCE or CREATE OR REPLACE SOURCE text."), errors: &["404", "409", "413"],
            success: &[("200", "It was there, with this text or another.", Content::Json("Source")), ("201", "It is declared.", Content::Json("Source"))],
            ..op("put", "/sources/{name}", "createSource", TAG, "Declare a source, which feeds a stream") },
        OperationDoc { parameters: SOURCE, success: &[("204", "It is dropped. Its stream keeps its positions.", Content::None)], errors: &["404"],
            ..op("delete", "/sources/{name}", "dropSource", TAG, "Drop a source") },
        OperationDoc { parameters: SOURCE, success: &[("204", "It brings nothing from now on.", Content::None)], errors: &["404"],
            ..op("post", "/sources/{name}/pause", "pauseSource", TAG, "Pause a source") },
        OperationDoc { parameters: SOURCE, success: &[("204", "It goes on where it stopped.", Content::None)], errors: &["404"],
            ..op("post", "/sources/{name}/resume", "resumeSource", TAG, "Resume a source") },
        OperationDoc { success: &[("200", "The sinks.", Content::Json("SinkList"))], ..op("get", "/sinks", "listSinks", TAG, "List the sinks") },
        OperationDoc { parameters: SINK, success: &[("200", "The sink.", Content::Json("Sink"))], errors: &["404"],
            ..op("get", "/sinks/{name}", "showSink", TAG, "Show a sink") },
        OperationDoc { parameters: SINK, body: Body::Text("A CREATE SINK or CREATE OR REPLACE SINK text."), errors: &["409", "413"],
            success: &[("200", "It was there, with this text or another.", Content::Json("Sink")), ("201", "It is declared.", Content::Json("Sink"))],
            ..op("put", "/sinks/{name}", "createSink", TAG, "Declare a sink, which takes the answers of a query") },
        OperationDoc { parameters: SINK, success: &[("204", "It is dropped, and its subscription with it.", Content::None)], errors: &["404", "409"],
            ..op("delete", "/sinks/{name}", "dropSink", TAG, "Drop a sink") },
        OperationDoc { parameters: SINK, success: &[("204", "It delivers nothing from now on; answers are kept for it.", Content::None)], errors: &["404", "409"],
            ..op("post", "/sinks/{name}/pause", "pauseSink", TAG, "Pause a sink") },
        OperationDoc { parameters: SINK, success: &[("204", "It delivers what was kept, and goes on.", Content::None)], errors: &["404", "409"],
            ..op("post", "/sinks/{name}/resume", "resumeSink", TAG, "Resume a sink") },
    ]
}

#[rustfmt::skip]
fn tokens() -> Vec<OperationDoc> {
    const TAG: &str = "tokens";
    vec![
        OperationDoc { success: &[("200", "The tokens, without their secrets.", Content::Json("TokenList"))], errors: &["409"],
            ..op("get", "/tokens", "listTokens", TAG, "List the tokens") },
        OperationDoc { body: Body::Json("NewToken"), success: &[("201", "It is made. This answer is the only one that has its text.", Content::Json("MadeToken"))], errors: &["409", "413"],
            ..op("post", "/tokens", "createToken", TAG, "Make a token") },
        OperationDoc { success: &[("201", "It is made, with the rights of the token of the request.", Content::Json("Ticket"))], errors: &["429"],
            description: "For web pages: a browser sends no Authorization header where an event stream begins. A ticket is used once, within a minute, as the parameter `ticket` of the URL of an event stream.",
            ..op("post", "/tickets", "createTicket", TAG, "Get a ticket for the URL of an event stream") },
        OperationDoc { parameters: &["id"], success: &[("204", "It is revoked; its event streams end.", Content::None)], errors: &["404", "409"],
            ..op("delete", "/tokens/{id}", "revokeToken", TAG, "Revoke a token") },
    ]
}

#[rustfmt::skip]
fn contexts() -> Vec<OperationDoc> {
    const TAG: &str = "JSON-LD contexts";
    vec![
        OperationDoc { success: &[("200", "The description.", Content::Graph)], errors: &["406"],
            ..op("get", "/.well-known/void", "describeDataset", "SPARQL", "Describe the dataset (VoID)") },
        OperationDoc { success: &[("200", "The contexts.", Content::Json("ContextList"))],
            ..op("get", "/contexts", "listContexts", TAG, "List the JSON-LD contexts") },
        OperationDoc { parameters: CONTEXT, success: &[("200", "The context, as it was registered.", Content::Context)], errors: &["404"],
            ..op("get", "/contexts/{name}", "showContext", TAG, "Read a JSON-LD context") },
        OperationDoc { parameters: CONTEXT, body: Body::Text("A JSON document with the member @context."), errors: &["409", "413"],
            success: &[("200", "It takes the place of another one.", Content::Json("Context")), ("201", "It is registered.", Content::Json("Context"))],
            description: "Documents of JSON-LD that name this URL as their context, and are read later, see it. The server fetches no context.",
            ..op("put", "/contexts/{name}", "putContext", TAG, "Register a JSON-LD context") },
        OperationDoc { parameters: CONTEXT, success: &[("204", "It is taken away.", Content::None)], errors: &["404"],
            ..op("delete", "/contexts/{name}", "deleteContext", TAG, "Take a JSON-LD context away") },
    ]
}

#[rustfmt::skip]
fn sparql_aliases() -> Vec<OperationDoc> {
    [("/sparql", ["sparqlGet", "sparqlPost"]), ("/sparql/", ["sparqlSlashGet", "sparqlSlashPost"])].into_iter().flat_map(|(path, [get, post])| [
        OperationDoc { parameters: QUERY_GET, success: &[("200", "The answer; without parameters, the service description.", Content::Answer)], errors: &["406", "422"],
            ..op("get", path, get, "SPARQL", "As /query; without a query, describe the service") },
        OperationDoc { parameters: BOTH, body: Body::QueryOrUpdate, success: &[("200", "The answer, or what the update did.", Content::AnswerOrUpdate)], errors: &["406", "413", "415", "422"],
            ..op("post", path, post, "SPARQL", "As /query or /update, by what is sent") },
    ]).collect()
}

#[rustfmt::skip]
fn graph_store() -> Vec<OperationDoc> {
    let of_path = |path, parameters, ids: [&'static str; 5], put_note, post_note| vec![
        OperationDoc { parameters, success: &[("200", "The graph.", Content::Graph)], errors: &["404", "406"],
            ..op("get", path, ids[0], "graph store", "Read a graph") },
        OperationDoc { parameters, success: &[("200", "The graph is there.", Content::None)], errors: &["404", "406"],
            ..op("head", path, ids[1], "graph store", "Tell whether a graph is there") },
        OperationDoc { parameters, body: Body::Rdf, success: WRITTEN, errors: &["413", "415"], description: put_note,
            ..op("put", path, ids[2], "graph store", "Replace a graph") },
        OperationDoc { parameters, body: Body::Rdf, success: WRITTEN, errors: &["413", "415"], description: post_note,
            ..op("post", path, ids[3], "graph store", "Add to a graph, or load graphs") },
        OperationDoc { parameters, success: &[("200", "It was there, and is deleted.", Content::Json("GraphWrite"))], errors: &["404"],
            ..op("delete", path, ids[4], "graph store", "Delete a graph") },
    ];
    let mut all = of_path("/store", GRAPH, ["getGraph", "headGraph", "putGraph", "postGraph", "deleteGraph"],
        "SPARQL 1.1 Graph Store Protocol. Without graph and default, the whole dataset: GET answers in TriG or N-Quads, and PUT replaces it (the answer is an UpdateSummary).",
        "Without graph and default: N-Quads and TriG are loaded into the graphs that they name (the answer is a LoadSummary); any other syntax makes a new graph, whose IRI is in the Location header.");
    all.extend(of_path("/store/{path}", DIRECT, ["getGraphByUrl", "headGraphByUrl", "putGraphByUrl", "postGraphByUrl", "deleteGraphByUrl"],
        "The graph whose IRI is this URL.", "The graph whose IRI is this URL."));
    all
}

/// Returns method, path and summary of every operation, for the index page.
pub(crate) fn summaries() -> Vec<(String, &'static str, &'static str)> {
    let shown = |operation: &OperationDoc| operation.path != "/sparql/" && operation.path != "/";
    operations()
        .iter()
        .filter(|operation| shown(operation))
        .map(|operation| {
            (
                operation.method.to_uppercase(),
                operation.path,
                operation.summary,
            )
        })
        .collect()
}

pub(crate) async fn openapi() -> Response {
    Json(document()).into_response()
}

fn document() -> Value {
    let needs: HashMap<_, _> = routes::routes()
        .into_iter()
        .map(|(path, methods, _)| (path.replace("{*path}", "{path}"), methods))
        .collect();
    let mut paths: Map<String, Value> = Map::new();
    for operation in operations() {
        let methods = needs.get(operation.path).copied().unwrap_or_default();
        let method = Method::from_bytes(operation.method.to_uppercase().as_bytes());
        let needs = method.map_or(Needs::Token, |method| routes::needs_of(methods, &method));
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[operation.method] = operation_json(&operation, needs);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Somersault",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Continuous queries over streams and an evolving RDF graph, and SPARQL on consistent snapshots of it.",
            "license": { "name": "Apache-2.0 OR MIT", "identifier": "Apache-2.0 OR MIT" },
        },
        "servers": [{ "url": "/" }],
        "paths": paths,
        "components": {
            "securitySchemes": { "token": {
                "type": "http",
                "scheme": "bearer",
                "description": "A token of the server (`somersault token create`), or of an identity provider, where the server asks for them (`serve --auth tokens`, `serve --auth jwt`).",
            } },
            "schemas": schemas::schemas(),
            "parameters": schemas::parameters(),
            "responses": schemas::errors(),
        },
    })
}

fn operation_json(operation: &OperationDoc, needs: Needs) -> Value {
    let mut responses = Map::new();
    for (status, description, content) in operation.success {
        let mut response = json!({ "description": description });
        if let Some(content) = content_json(*content) {
            response["content"] = content;
        }
        responses.insert((*status).to_owned(), response);
    }
    // Any request can fail with 400, 408, 500 or 503, and one that writes with 507. A server that
    // asks for tokens refuses wrong ones with 401, and what they do not allow with 403.
    let is_reading =
        matches!(operation.method, "get" | "head") || matches!(operation.body, Body::Query);
    let of_writes = (!is_reading).then_some(&"507");
    let of_senders: &[&str] = match needs {
        Needs::Nothing => &["401"],
        _ => &["401", "403"],
    };
    let of_any = ["400", "408", "500", "503"].iter().chain(of_writes);
    let of_any = of_any.chain(of_senders);
    for status in of_any.chain(operation.errors) {
        responses
            .entry(*status)
            .or_insert_with(|| json!({ "$ref": format!("#/components/responses/{status}") }));
    }
    let parameters: Vec<Value> = operation
        .parameters
        .iter()
        .map(|name| json!({ "$ref": format!("#/components/parameters/{name}") }))
        .collect();
    let mut object = json!({
        "operationId": operation.id,
        "tags": [operation.tag],
        "summary": operation.summary,
        "responses": responses,
        "x-needs": needs.words(),
        "security": match needs {
            Needs::Nothing => json!([]),
            _ => json!([{ "token": [] }]),
        },
    });
    if !operation.description.is_empty() {
        object["description"] = operation.description.into();
    }
    if !parameters.is_empty() {
        object["parameters"] = parameters.into();
    }
    if let Some(body) = body_json(operation.body) {
        object["requestBody"] = body;
    }
    object
}

fn media_types<F>(offers: &[Offer<F>]) -> Map<String, Value> {
    offers
        .iter()
        .map(|offer| (offer.media_type.to_owned(), text_schema()))
        .collect()
}

fn text_schema() -> Value {
    json!({ "schema": { "type": "string" } })
}

fn schema_ref(name: &str) -> Value {
    json!({ "schema": { "$ref": format!("#/components/schemas/{name}") } })
}

fn content_json(content: Content) -> Option<Value> {
    let answers = || {
        let mut types = media_types(RESULT_OFFERS);
        types.extend(media_types(RDF_OFFERS));
        types
    };
    Some(match content {
        Content::None => return None,
        Content::Json(schema) => json!({ "application/json": schema_ref(schema) }),
        Content::Answer | Content::AnswerOrUpdate => Value::Object(answers()),
        Content::Graph => Value::Object(media_types(RDF_OFFERS)),
        Content::Text => json!({ "text/plain": text_schema() }),
        Content::Html => json!({ "text/html": text_schema(), "text/plain": text_schema() }),
        Content::Events => json!({ "text/event-stream": schema_ref("Firing") }),
        Content::EventsOrLines => {
            json!({ "text/event-stream": schema_ref("Firing"), JSON_LINES: schema_ref("Firing") })
        }
        Content::Messages => {
            let messages = MessageSyntax::ALL
                .map(MessageSyntax::media_type)
                .into_iter();
            let all = messages.chain(["text/event-stream"]);
            let content: Map<String, Value> =
                all.map(|it| (it.to_owned(), text_schema())).collect();
            content.into()
        }
        Content::Quads => json!({ "application/n-quads": text_schema() }),
        Content::Archive => json!({ "application/x-tar": text_schema() }),
        Content::Context => json!({ "application/ld+json": schema_ref("Anything") }),
    })
}

fn body_json(body: Body) -> Option<Value> {
    let form = |members: &[&str]| {
        let properties: Map<String, Value> = members
            .iter()
            .map(|name| ((*name).to_owned(), json!({ "type": "string" })))
            .collect();
        json!({ "schema": { "type": "object", "properties": properties } })
    };
    let content = match body {
        Body::None => return None,
        Body::Query => {
            json!({ "application/sparql-query": text_schema(), "application/x-www-form-urlencoded": form(&["query"]) })
        }
        Body::Update => {
            json!({ "application/sparql-update": text_schema(), "application/x-www-form-urlencoded": form(&["update"]) })
        }
        Body::QueryOrUpdate => json!({
            "application/sparql-query": text_schema(),
            "application/sparql-update": text_schema(),
            "application/x-www-form-urlencoded": form(&["query", "update"]),
        }),
        Body::Rdf => {
            let mut types = media_types(RDF_INPUT);
            types.insert(
                "multipart/form-data".to_owned(),
                json!({ "schema": { "type": "object" } }),
            );
            Value::Object(types)
        }
        Body::Push => {
            let mut types = media_types(PUSH_INPUT);
            types.insert(TIMED_LINES.to_owned(), text_schema());
            let messages = MessageSyntax::ALL.map(MessageSyntax::media_type);
            types.extend(messages.map(|it| (it.to_owned(), text_schema())));
            let documents = DocumentSyntax::ALL.map(DocumentSyntax::media_type);
            types.extend(documents.map(|it| (it.to_owned(), text_schema())));
            Value::Object(types)
        }
        Body::Text(description) => {
            return Some(
                json!({ "required": true, "description": description, "content": { "text/plain": text_schema() } }),
            );
        }
        Body::Json(schema) => json!({ "application/json": schema_ref(schema) }),
        Body::Lines(schema) => {
            let lines = LINES.iter();
            let types = lines.map(|media_type| ((*media_type).to_owned(), schema_ref(schema)));
            Value::Object(types.collect())
        }
    };
    Some(json!({ "required": true, "content": content }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn refs<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(object) => {
                for (key, value) in object {
                    match value.as_str() {
                        Some(target) if key == "$ref" => found.push(target),
                        _ => refs(value, found),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| refs(item, found)),
            _ => {}
        }
    }

    #[test]
    fn every_route_is_described_and_nothing_else() {
        let served: BTreeSet<(String, String)> = crate::routes::routes()
            .into_iter()
            .flat_map(|(path, methods, _)| {
                methods.iter().map(move |(method, _)| {
                    (path.replace("{*path}", "{path}"), method.to_lowercase())
                })
            })
            .collect();
        let described: BTreeSet<(String, String)> = operations()
            .iter()
            .map(|operation| (operation.path.to_owned(), operation.method.to_owned()))
            .collect();
        assert_eq!(served, described);
    }

    /// The sections of `docs/http.md` with the operations in their headings.
    fn documented() -> Vec<(BTreeSet<(String, String)>, &'static str)> {
        let page = include_str!("../../../../docs/http.md");
        let mut sections = Vec::new();
        for section in page.split("\n### ").skip(1) {
            let section = section.split("\n## ").next().unwrap_or_default();
            let heading = section.lines().next().unwrap_or_default();
            let code = heading.split('`').skip(1).step_by(2);
            let operations = code.filter_map(|code| {
                let (method, path) = code.split_once(' ')?;
                Some((path.to_owned(), method.to_lowercase()))
            });
            sections.push((operations.collect(), section));
        }
        sections
    }

    #[test]
    fn the_manual_has_a_section_for_every_operation_and_no_other() {
        let mut in_manual = Vec::new();
        for (operations, _) in documented() {
            in_manual.extend(operations);
        }
        let described: BTreeSet<(String, String)> = operations()
            .iter()
            .map(|operation| (operation.path.to_owned(), operation.method.to_owned()))
            .collect();
        let all: BTreeSet<(String, String)> = in_manual.iter().cloned().collect();
        assert_eq!(all, described);
        assert_eq!(in_manual.len(), all.len(), "an operation has two sections");
    }

    #[test]
    fn the_manual_names_parameters_statuses_and_a_command_for_each_operation() {
        let document = document();
        let sections = documented();
        for operation in operations() {
            let key = (operation.path.to_owned(), operation.method.to_owned());
            let found = sections.iter().find(|(all, _)| all.contains(&key));
            let (_, section) = found.expect("a section");
            assert!(section.contains("\ncurl "), "no command for {key:?}");
            for parameter in operation.parameters {
                let name = &document["components"]["parameters"][*parameter]["name"];
                let name = name.as_str().expect("a name");
                let is_in_path = key.0.contains(&format!("{{{name}}}"));
                let is_named = is_in_path || section.contains(&format!("`{name}`"));
                assert!(is_named, "{key:?} does not name {name}");
            }
            let successes = operation.success.iter().map(|(status, _, _)| *status);
            for status in successes.chain(operation.errors.iter().copied()) {
                assert!(section.contains(status), "{key:?} does not name {status}");
            }
        }
    }

    /// The codes in the sources: the string after the status of an error.
    fn codes(source: &str, found: &mut BTreeSet<String>) {
        let source = source.split("#[cfg(test)]").next().unwrap_or_default();
        for start in ["ApiError::new(", "ApiError::bad_request(", "StatusCode::"] {
            for call in source.split(start).skip(1) {
                let arguments = call.split(['{', ';']).next().unwrap_or_default();
                let first = arguments.split('"').nth(1).unwrap_or_default();
                let before = arguments.split('"').next().unwrap_or_default();
                let is_code = !first.is_empty()
                    && (first.bytes()).all(|byte| byte.is_ascii_lowercase() || byte == b'_');
                // Only a status may stand before it.
                let is_near = before.matches(',').count() <= 1 && !before.contains("=>");
                if is_code && is_near {
                    found.insert(first.to_owned());
                }
            }
        }
    }

    #[test]
    fn the_manual_lists_every_error_code() {
        let mut found = BTreeSet::new();
        for folder in ["src/http", "src/routes", "src/serve"] {
            let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
            for file in std::fs::read_dir(folder).expect("a folder") {
                let path = file.expect("an entry").path();
                if path.extension().is_some_and(|end| end == "rs") {
                    codes(
                        &std::fs::read_to_string(path).expect("a source"),
                        &mut found,
                    );
                }
            }
        }
        assert!(found.len() > 40, "{found:?}");
        let page = include_str!("../../../../docs/http.md");
        let listed: BTreeSet<&str> = page
            .split("\n```\n")
            .step_by(2)
            .flat_map(|prose| prose.split(['`', '"']))
            .collect();
        let missing: Vec<&String> = (found.iter())
            .filter(|code| !listed.contains(code.as_str()))
            .collect();
        assert!(missing.is_empty(), "docs/http.md does not list {missing:?}");
    }

    #[test]
    fn references_resolve_and_ids_are_unique() {
        let document = document();
        let mut found = Vec::new();
        refs(&document, &mut found);
        assert!(found.len() > 50);
        for target in &found {
            let pointer = target.strip_prefix('#').expect("local references only");
            assert!(document.pointer(pointer).is_some(), "{target}");
        }
        let ids: BTreeSet<&str> = operations().iter().map(|operation| operation.id).collect();
        assert_eq!(ids.len(), operations().len());
        for (kind, prefix) in [
            ("schemas", "#/components/schemas/"),
            ("parameters", "#/components/parameters/"),
            ("responses", "#/components/responses/"),
        ] {
            for name in document["components"][kind]
                .as_object()
                .expect("an object")
                .keys()
            {
                assert!(
                    found.contains(&format!("{prefix}{name}").as_str()),
                    "{kind} {name} is used nowhere"
                );
            }
        }
    }

    #[test]
    fn path_parameters_are_declared() {
        let document = document();
        for operation in operations() {
            let declared: Vec<&str> = operation
                .parameters
                .iter()
                .filter_map(|name| {
                    let parameter = &document["components"]["parameters"][*name];
                    (parameter["in"] == "path").then(|| parameter["name"].as_str().expect("a name"))
                })
                .collect();
            let in_path: Vec<&str> = operation
                .path
                .split('/')
                .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
                .collect();
            assert_eq!(declared, in_path, "{}", operation.path);
        }
    }
}
