//! The addresses of the server: their table, and one file per address for its handlers.

pub(crate) mod batch;
pub(crate) mod calls;
pub(crate) mod checkpoint;
pub(crate) mod copies;
pub(crate) mod dataflows;
pub(crate) mod declarations;
pub(crate) mod events;
pub(crate) mod exposition;
pub(crate) mod graph_store;
pub(crate) mod health;
pub(crate) mod index;
pub(crate) mod message_feed;
pub(crate) mod messages;
pub(crate) mod metrics;
pub(crate) mod openapi;
pub(crate) mod procedures;
pub(crate) mod push;
pub(crate) mod queries;
pub(crate) mod results;
pub(crate) mod sparql;
pub(crate) mod streams;
pub(crate) mod subscriptions;

use crate::state::App;
use axum::routing::{MethodRouter, delete, get, post, put};
use dataflows::Dataflows;
use procedures::Procedures;
use queries::Queries;
use streams::Streams;

/// An address with its methods and handlers.
type AddressRoute = (&'static str, &'static [&'static str], MethodRouter<App>);

/// Returns every address with its methods. The OpenAPI description is checked against this table.
pub(crate) fn routes() -> Vec<AddressRoute> {
    let mut all: Vec<AddressRoute> = vec![
        ("/", &["GET"], get(index::index)),
        (
            "/query",
            &["GET", "POST"],
            get(sparql::query).post(sparql::query),
        ),
        ("/update", &["POST"], post(sparql::update)),
        (
            "/sparql",
            &["GET", "POST"],
            get(sparql::sparql).post(sparql::sparql),
        ),
        (
            "/sparql/",
            &["GET", "POST"],
            get(sparql::sparql).post(sparql::sparql),
        ),
        (
            "/explain",
            &["GET", "POST"],
            get(sparql::explain).post(sparql::explain),
        ),
        ("/store", GRAPH_METHODS, graph_methods()),
        ("/store/{*path}", GRAPH_METHODS, graph_methods()),
        ("/streams", &["GET"], get(streams::list)),
        (
            "/streams/{name}",
            &["GET", "PUT", "POST", "DELETE"],
            get(declarations::show::<Streams>)
                .put(declarations::declare::<Streams>)
                .post(push::push)
                .delete(declarations::drop::<Streams>),
        ),
        (
            "/streams/{name}/advance",
            &["POST"],
            post(streams::advance_one),
        ),
        (
            "/streams/{name}/reset-time",
            &["POST"],
            post(streams::reset),
        ),
        ("/advance", &["POST"], post(streams::advance_several)),
        ("/queries", &["GET"], get(queries::list)),
        ("/queries:batch", &["PUT"], put(batch::register)),
        (
            "/queries/{name}",
            &["GET", "PUT", "DELETE"],
            get(declarations::show::<Queries>)
                .put(queries::register)
                .delete(declarations::drop::<Queries>),
        ),
        ("/queries/{name}/pause", &["POST"], post(queries::pause)),
        ("/queries/{name}/resume", &["POST"], post(queries::resume)),
        ("/queries/{name}/results", &["GET"], get(events::results)),
        ("/backup", &["POST"], post(copies::backup)),
        ("/dump/statements", &["GET"], get(copies::statements)),
        ("/dump/declarations", &["GET"], get(copies::declarations)),
        ("/checkpoint", &["POST"], post(checkpoint::take)),
        (HEALTH, &["GET"], get(health::health)),
        ("/metrics", &["GET"], get(metrics::metrics)),
        ("/openapi.json", &["GET"], get(openapi::openapi)),
    ];
    all.extend(of_subscriptions());
    all.extend(of_transactions());
    all
}

fn of_transactions() -> Vec<AddressRoute> {
    vec![
        (
            "/streams/{name}/messages",
            &["GET"],
            get(message_feed::messages),
        ),
        ("/procedures", &["GET"], get(procedures::list)),
        (
            "/procedures/{name}",
            &["GET", "PUT", "DELETE"],
            get(declarations::show::<Procedures>)
                .put(declarations::declare::<Procedures>)
                .delete(procedures::drop),
        ),
        (
            "/procedures/{name}/aborted",
            &["GET"],
            get(procedures::aborted),
        ),
        (
            "/procedures/{name}/explain",
            &["GET"],
            get(procedures::explain),
        ),
        ("/procedures/{name}/call", &["POST"], post(calls::call)),
        (
            "/procedures/{name}/calls",
            &["POST"],
            post(calls::pipeline::calls),
        ),
        ("/calls", &["POST"], post(calls::pipeline::calls)),
        ("/dataflows", &["GET"], get(dataflows::list)),
        (
            "/dataflows/{name}",
            &["GET", "PUT", "DELETE"],
            get(declarations::show::<Dataflows>)
                .put(declarations::declare::<Dataflows>)
                .delete(declarations::drop::<Dataflows>),
        ),
        ("/dataflows/{name}/pause", &["POST"], post(dataflows::pause)),
        (
            "/dataflows/{name}/resume",
            &["POST"],
            post(dataflows::resume),
        ),
        (
            "/dataflows/{name}/explain",
            &["GET"],
            get(dataflows::explain),
        ),
        (
            "/dataflows/{name}/aborted",
            &["GET"],
            get(dataflows::aborted),
        ),
    ]
}

fn of_subscriptions() -> Vec<AddressRoute> {
    vec![
        (
            "/queries/{name}/subscriptions",
            &["GET"],
            get(subscriptions::list),
        ),
        (
            "/queries/{name}/subscriptions/{who}",
            &["GET", "PUT", "DELETE"],
            get(subscriptions::show)
                .put(subscriptions::create)
                .delete(subscriptions::delete),
        ),
        (
            "/queries/{name}/subscriptions/{who}/results",
            &["GET"],
            get(subscriptions::results),
        ),
        (
            "/queries/{name}/subscriptions/{who}/answers",
            &["GET"],
            get(subscriptions::answers),
        ),
        (
            "/queries/{name}/subscriptions/{who}/ack",
            &["POST"],
            post(subscriptions::acknowledge),
        ),
    ]
}

/// This address is answered even if all connections are in use.
pub(crate) const HEALTH: &str = "/health";
const GRAPH_METHODS: &[&str] = &["GET", "HEAD", "PUT", "POST", "DELETE"];

fn graph_methods() -> MethodRouter<App> {
    let handler = graph_store::graph_store;
    put(handler)
        .merge(get(handler))
        .merge(post(handler))
        .merge(delete(handler))
}
