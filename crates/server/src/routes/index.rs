//! `GET /`: a page that lists the addresses, for people who open the server in a browser.

use crate::http::negotiate::Accept;
use crate::routes::openapi;
use crate::state::App;
use axum::extract::Request;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use std::fmt::Write as _;

pub(crate) async fn index(app: App, request: Request) -> Response {
    let accept = Accept::from_headers(request.headers());
    let url = app.public_url(request.headers(), "");
    if accept.quality("text/html") > accept.quality("text/plain") {
        return (
            [(header::CONTENT_TYPE, "text/html; charset=utf-8")],
            html(&url),
        )
            .into_response();
    }
    (
        [(header::CONTENT_TYPE, "text/plain; charset=utf-8")],
        plain(&url),
    )
        .into_response()
}

const WHAT: &str = "Somersault: continuous queries over streams and an evolving RDF graph, and SPARQL on consistent snapshots of it.";

fn plain(url: &str) -> String {
    let mut text = format!("{WHAT}\n\n");
    for (method, path, summary) in openapi::summaries() {
        let _ = writeln!(text, "{method:<7}{path:<28}{summary}");
    }
    let _ = write!(
        text,
        "\n{url}/openapi.json describes them.\n\n  curl '{url}/query?query=ASK%7B%7D'\n"
    );
    text
}

fn html(url: &str) -> String {
    let mut rows = String::new();
    for (method, path, summary) in openapi::summaries() {
        let _ = writeln!(
            rows,
            "<tr><td>{method}</td><td><code>{path}</code></td><td>{summary}</td></tr>"
        );
    }
    // `url` holds only characters that a host name may have, or what the operator configured.
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Somersault</title>\
         <style>body{{font-family:sans-serif;margin:2em}}td{{padding:.2em 1em .2em 0}}</style></head><body>\n\
         <h1>Somersault</h1>\n<p>{WHAT}</p>\n<table>\n{rows}</table>\n\
         <p><a href=\"/openapi.json\">openapi.json</a> describes them. <a href=\"/health\">health</a>, \
         <a href=\"/metrics\">metrics</a>, <a href=\"/streams\">streams</a>, <a href=\"/queries\">queries</a></p>\n\
         <pre>curl '{url}/query?query=ASK%7B%7D'</pre>\n</body></html>\n"
    )
}
