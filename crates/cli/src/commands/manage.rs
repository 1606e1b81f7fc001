//! `drop`, `pause`, `resume` and `advance`: what manages streams and continuous queries on a
//! server.

use crate::args::{AdvanceArgs, Declared, DropArgs, QueryNameArgs};
use crate::client::{Client, segment};
use crate::error::CliError;
use crate::target::client_for;
use crate::times;
use serde_json::{Value, json};

/// Drops a continuous query, or a stream that no query windows.
///
/// # Errors
/// When there is no such thing, or the server refuses.
pub(crate) fn drop(args: &DropArgs) -> Result<(), CliError> {
    drop_declared(&client_for(&args.server)?, args.kind, &args.name)
}

/// The same, of a server that is known.
///
/// # Errors
/// When there is no such thing, or the server refuses.
pub(crate) fn drop_declared(client: &Client, kind: Declared, name: &str) -> Result<(), CliError> {
    let (path, kind) = match kind {
        Declared::Query => ("queries", "query"),
        Declared::Stream => ("streams", "stream"),
    };
    client.delete(&format!("/{path}/{}", segment(name)))?;
    println!("{kind} {name} dropped");
    Ok(())
}

/// Stops a continuous query until it is resumed.
///
/// # Errors
/// When there is no such query, or the server refuses.
pub(crate) fn pause(args: &QueryNameArgs) -> Result<(), CliError> {
    command(&client_for(&args.server)?, &args.query, "pause")
}

/// Lets a paused query go on.
///
/// # Errors
/// When there is no such query, or the server refuses.
pub(crate) fn resume(args: &QueryNameArgs) -> Result<(), CliError> {
    command(&client_for(&args.server)?, &args.query, "resume")
}

/// Pauses or resumes a continuous query.
///
/// # Errors
/// When there is no such query, or the server refuses.
pub(crate) fn command(client: &Client, query: &str, word: &str) -> Result<(), CliError> {
    client.command(&format!("/queries/{}/{word}", segment(query)))?;
    println!("query {query} {word}d");
    Ok(())
}

/// Moves the time of streams on, so that the closes before it become due.
///
/// # Errors
/// When there is no such stream, the time would go back, or the server refuses.
pub(crate) fn advance(args: &AdvanceArgs) -> Result<(), CliError> {
    let client = client_for(&args.server)?;
    let body = match args.streams.is_empty() {
        true => json!({ "to_ms": args.to }),
        false => {
            let streams = args
                .streams
                .iter()
                .map(|iri| (iri.clone(), Value::from(args.to)));
            json!({ "streams": streams.collect::<serde_json::Map<_, _>>() })
        }
    };
    let headers = [("Content-Type", "application/json")];
    client.post("/advance", &headers, body.to_string().as_bytes())?;
    let which = match args.streams.len() {
        0 => "all streams".to_owned(),
        1 => format!("stream {}", args.streams[0]),
        several => format!("{several} streams"),
    };
    println!("{which} advanced to {}", times::shown(args.to));
    Ok(())
}
