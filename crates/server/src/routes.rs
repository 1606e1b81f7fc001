//! The addresses of the server: their table, and one file per address for its handlers.

pub(crate) mod batch;
pub(crate) mod calls;
pub(crate) mod checkpoint;
pub(crate) mod connectors;
pub(crate) mod contexts;
pub(crate) mod copies;
pub(crate) mod dataflows;
pub(crate) mod declarations;
pub(crate) mod description;
pub(crate) mod events;
pub(crate) mod exposition;
pub(crate) mod firing_messages;
pub(crate) mod graph_store;
pub(crate) mod health;
pub(crate) mod index;
pub(crate) mod message_feed;
pub(crate) mod message_forms;
pub(crate) mod messages;
pub(crate) mod metrics;
pub(crate) mod needs;
pub(crate) mod openapi;
pub(crate) mod procedures;
pub(crate) mod push;
pub(crate) mod queries;
pub(crate) mod ready;
pub(crate) mod results;
pub(crate) mod sparql;
pub(crate) mod streams;
pub(crate) mod subscriptions;
pub(crate) mod tickets;
pub(crate) mod tokens;

use crate::http::probe;
use crate::state::Service;
use axum::http::Method;
use axum::routing::{MethodRouter, delete, get, post, put};
use dataflows::Dataflows;
use needs::{
    ADMIN, CALL, MONITOR, Needs, PUSH, REGISTER, SEE_DATAFLOW, SEE_PROCEDURE, SEE_QUERY,
    SEE_STREAM, SUBSCRIBE, WINDOW,
};
use procedures::Procedures;
use queries::Queries;
use streams::Streams;

/// An address with its methods, what each of them needs, and handlers.
type AddressRoute = (
    &'static str,
    &'static [(&'static str, Needs)],
    MethodRouter<Service>,
);

/// Returns every address with its methods. The OpenAPI description is checked against this table.
pub(crate) fn routes() -> Vec<AddressRoute> {
    let mut all: Vec<AddressRoute> = vec![
        ("/", &[("GET", Needs::Nothing)], get(index::index)),
        (
            "/query",
            &[("GET", Needs::Token), ("POST", Needs::Token)],
            get(sparql::query)
                .post(sparql::query)
                .fallback(sparql::by_method_query),
        ),
        ("/update", &[("POST", Needs::Token)], post(sparql::update)),
        (
            "/sparql",
            &[("GET", Needs::Token), ("POST", Needs::Token)],
            get(sparql::sparql)
                .post(sparql::sparql)
                .fallback(sparql::by_method_query),
        ),
        (
            "/sparql/",
            &[("GET", Needs::Token), ("POST", Needs::Token)],
            get(sparql::sparql)
                .post(sparql::sparql)
                .fallback(sparql::by_method_query),
        ),
        (
            "/explain",
            &[("GET", Needs::Token), ("POST", Needs::Token)],
            get(sparql::explain).post(sparql::explain),
        ),
        ("/store", GRAPH_METHODS, graph_methods()),
        ("/store/{*path}", GRAPH_METHODS, graph_methods()),
        ("/backup", &[("POST", ADMIN)], post(copies::backup)),
        (
            "/dump/statements",
            &[("GET", ADMIN)],
            get(copies::statements),
        ),
        (
            "/dump/declarations",
            &[("GET", ADMIN)],
            get(copies::declarations),
        ),
        ("/checkpoint", &[("POST", ADMIN)], post(checkpoint::take)),
        (HEALTH, &[("GET", Needs::Nothing)], get(health::health)),
        (LIVE, &[("GET", Needs::Nothing)], get(probe::live)),
        (READY, &[("GET", Needs::Nothing)], get(ready::ready)),
        ("/metrics", &[("GET", MONITOR)], get(metrics::metrics)),
        (
            "/tokens",
            &[("GET", ADMIN), ("POST", ADMIN)],
            get(tokens::list).post(tokens::create),
        ),
        ("/tokens/{id}", &[("DELETE", ADMIN)], delete(tokens::revoke)),
        ("/tickets", &[("POST", Needs::Token)], post(tickets::create)),
        (
            "/openapi.json",
            &[("GET", Needs::Nothing)],
            get(openapi::openapi),
        ),
    ];
    all.extend(of_descriptions());
    all.extend(of_streams_and_queries());
    all.extend(of_subscriptions());
    all.extend(of_transactions());
    all.extend(of_dataflows());
    all.extend(of_connectors());
    all
}

fn of_descriptions() -> Vec<AddressRoute> {
    vec![
        (
            "/.well-known/void",
            &[("GET", Needs::Token)],
            get(description::dataset),
        ),
        ("/contexts", &[("GET", Needs::Token)], get(contexts::list)),
        (
            "/contexts/{name}",
            &[("GET", Needs::Token), ("PUT", ADMIN), ("DELETE", ADMIN)],
            get(contexts::show)
                .put(contexts::put)
                .delete(contexts::delete),
        ),
    ]
}

fn of_streams_and_queries() -> Vec<AddressRoute> {
    vec![
        ("/streams", &[("GET", Needs::Token)], get(streams::list)),
        (
            "/streams/{name}",
            &[
                ("GET", SEE_STREAM),
                ("PUT", REGISTER),
                ("POST", PUSH),
                ("DELETE", REGISTER),
            ],
            get(declarations::show::<Streams>)
                .put(declarations::declare::<Streams>)
                .post(push::push)
                .delete(declarations::drop::<Streams>),
        ),
        (
            "/streams/{name}/advance",
            &[("POST", PUSH)],
            post(streams::advance_one),
        ),
        (
            "/streams/{name}/reset-time",
            &[("POST", REGISTER)],
            post(streams::reset),
        ),
        (
            "/advance",
            &[("POST", Needs::Token)],
            post(streams::advance_several),
        ),
        ("/queries", &[("GET", Needs::Token)], get(queries::list)),
        (
            "/queries:batch",
            &[("PUT", Needs::Token)],
            put(batch::register),
        ),
        (
            "/queries/{name}",
            &[("GET", SEE_QUERY), ("PUT", REGISTER), ("DELETE", REGISTER)],
            get(declarations::show::<Queries>)
                .put(queries::register)
                .delete(declarations::drop::<Queries>),
        ),
        (
            "/queries/{name}/pause",
            &[("POST", REGISTER)],
            post(queries::pause),
        ),
        (
            "/queries/{name}/resume",
            &[("POST", REGISTER)],
            post(queries::resume),
        ),
        (QUERY_RESULTS, &[("GET", SUBSCRIBE)], get(events::results)),
    ]
}

fn of_transactions() -> Vec<AddressRoute> {
    vec![
        (
            STREAM_MESSAGES,
            &[("GET", WINDOW)],
            get(message_feed::messages),
        ),
        (
            "/procedures",
            &[("GET", Needs::Token)],
            get(procedures::list),
        ),
        (
            "/procedures/{name}",
            &[
                ("GET", SEE_PROCEDURE),
                ("PUT", REGISTER),
                ("DELETE", REGISTER),
            ],
            get(declarations::show::<Procedures>)
                .put(declarations::declare::<Procedures>)
                .delete(procedures::drop),
        ),
        (
            "/procedures/{name}/aborted",
            &[("GET", SEE_PROCEDURE)],
            get(procedures::aborted),
        ),
        (
            "/procedures/{name}/explain",
            &[("GET", SEE_DATAFLOW)],
            get(procedures::explain),
        ),
        (
            "/procedures/{name}/call",
            &[("POST", CALL)],
            post(calls::call),
        ),
        (
            "/procedures/{name}/calls",
            &[("POST", CALL)],
            post(calls::pipeline::calls),
        ),
        (
            "/calls",
            &[("POST", Needs::Token)],
            post(calls::pipeline::calls),
        ),
    ]
}

fn of_dataflows() -> Vec<AddressRoute> {
    vec![
        ("/dataflows", &[("GET", Needs::Token)], get(dataflows::list)),
        (
            "/dataflows/{name}",
            &[
                ("GET", SEE_DATAFLOW),
                ("PUT", REGISTER),
                ("DELETE", REGISTER),
            ],
            get(declarations::show::<Dataflows>)
                .put(declarations::declare::<Dataflows>)
                .delete(declarations::drop::<Dataflows>),
        ),
        (
            "/dataflows/{name}/pause",
            &[("POST", REGISTER)],
            post(dataflows::pause),
        ),
        (
            "/dataflows/{name}/resume",
            &[("POST", REGISTER)],
            post(dataflows::resume),
        ),
        (
            "/dataflows/{name}/explain",
            &[("GET", SEE_DATAFLOW)],
            get(dataflows::explain),
        ),
        (
            "/dataflows/{name}/aborted",
            &[("GET", SEE_DATAFLOW)],
            get(dataflows::aborted),
        ),
    ]
}

fn of_connectors() -> Vec<AddressRoute> {
    const ONE: &[(&str, Needs)] = &[("GET", MONITOR), ("PUT", ADMIN), ("DELETE", ADMIN)];
    vec![
        (
            "/sources",
            &[("GET", MONITOR)],
            get(connectors::list_sources),
        ),
        (
            "/sources/{name}",
            ONE,
            get(connectors::show_source)
                .put(connectors::create_source)
                .delete(connectors::drop_source),
        ),
        (
            "/sources/{name}/pause",
            &[("POST", ADMIN)],
            post(connectors::pause_source),
        ),
        (
            "/sources/{name}/resume",
            &[("POST", ADMIN)],
            post(connectors::resume_source),
        ),
        ("/sinks", &[("GET", MONITOR)], get(connectors::list_sinks)),
        (
            "/sinks/{name}",
            ONE,
            get(connectors::show_sink)
                .put(connectors::create_sink)
                .delete(connectors::drop_sink),
        ),
        (
            "/sinks/{name}/pause",
            &[("POST", ADMIN)],
            post(connectors::pause_sink),
        ),
        (
            "/sinks/{name}/resume",
            &[("POST", ADMIN)],
            post(connectors::resume_sink),
        ),
    ]
}

fn of_subscriptions() -> Vec<AddressRoute> {
    vec![
        (
            "/queries/{name}/subscriptions",
            &[("GET", SUBSCRIBE)],
            get(subscriptions::list),
        ),
        (
            "/queries/{name}/subscriptions/{who}",
            &[
                ("GET", SUBSCRIBE),
                ("PUT", SUBSCRIBE),
                ("DELETE", SUBSCRIBE),
            ],
            get(subscriptions::show)
                .put(subscriptions::create)
                .delete(subscriptions::delete),
        ),
        (
            SUBSCRIPTION_RESULTS,
            &[("GET", SUBSCRIBE)],
            get(subscriptions::results),
        ),
        (
            "/queries/{name}/subscriptions/{who}/answers",
            &[("GET", SUBSCRIBE)],
            get(subscriptions::answers),
        ),
        (
            "/queries/{name}/subscriptions/{who}/ack",
            &[("POST", SUBSCRIBE)],
            post(subscriptions::acknowledge),
        ),
    ]
}

/// What the method of an address needs; the methods that it does not have need a token.
pub(crate) fn needs_of(methods: &[(&str, Needs)], method: &Method) -> Needs {
    // An address that answers GET answers HEAD.
    let wanted = |name: &str| name == method.as_str() || (name == "GET" && method == Method::HEAD);
    let found = methods.iter().find(|(name, _)| wanted(name));
    found.map_or(Needs::Token, |(_, needs)| *needs)
}

const QUERY_RESULTS: &str = "/queries/{name}/results";
const SUBSCRIPTION_RESULTS: &str = "/queries/{name}/subscriptions/{who}/results";
const STREAM_MESSAGES: &str = "/streams/{name}/messages";

/// Whether a request to an address may have a ticket in place of a token: those whose answer is an
/// event stream.
pub(crate) fn takes_ticket(address: &str) -> bool {
    [QUERY_RESULTS, SUBSCRIPTION_RESULTS, STREAM_MESSAGES].contains(&address)
}

/// Whether requests to an address count as queries of their sender.
pub(crate) fn is_query(address: &str) -> bool {
    ["/query", "/sparql", "/sparql/", "/explain"].contains(&address)
}

const HEALTH: &str = "/health";
const LIVE: &str = "/livez";
const READY: &str = "/ready";

/// Whether an address is answered even if all connections are in use.
pub(crate) fn is_always_answered(address: &str) -> bool {
    [HEALTH, LIVE, READY].contains(&address)
}

const GRAPH_METHODS: &[(&str, Needs)] = &[
    ("GET", Needs::Token),
    ("HEAD", Needs::Token),
    ("PUT", Needs::Token),
    ("POST", Needs::Token),
    ("DELETE", Needs::Token),
];

fn graph_methods() -> MethodRouter<Service> {
    let handler = graph_store::graph_store;
    put(handler)
        .merge(get(handler))
        .merge(post(handler))
        .merge(delete(handler))
}
