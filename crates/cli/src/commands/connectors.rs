//! `sources`, `sinks`, and the statements about them that `register` sends.

use crate::args::ConnectorsArgs;
use crate::client::{Client, json_of, segment};
use crate::error::CliError;
use crate::target::client_for;
use serde_json::Value;
use somersault_lang::{ConnectorCommand, ManageConnector, ScriptStatement, Statement};
use std::fmt::Write as _;
use std::io::{self, Write as _};

/// Prints all sources or all sinks of a server, a line each.
///
/// # Errors
/// When the server cannot be reached, or refuses.
pub(crate) fn list(which: &str, args: &ConnectorsArgs) -> Result<(), CliError> {
    let client = client_for(&args.server)?;
    let json = json_of(client.get(&format!("/{which}"), &[])?.body_mut())?;
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{json:#}")?;
        return Ok(());
    }
    for one in json[which].as_array().map_or(&[][..], Vec::as_slice) {
        let line = match which {
            "sources" => source_line(one),
            _ => sink_line(one),
        };
        writeln!(out, "{line}")?;
    }
    Ok(out.flush()?)
}

/// Sends a statement about a source or a sink. Returns whether it is one.
///
/// # Errors
/// When the server refuses.
pub(crate) fn send(client: &Client, statement: &ScriptStatement) -> Result<bool, CliError> {
    let (sort, name, text) = match &statement.statement {
        Statement::CreateSource(source) => ("source", &source.name, &source.text),
        Statement::CreateSink(sink) => ("sink", &sink.name, &sink.text),
        Statement::ManageConnector(what) => return manage(client, what).map(|()| true),
        _ => return Ok(false),
    };
    client.put(&format!("/{sort}s/{}", segment(name)), text)?;
    println!("{sort} {name} declared");
    Ok(true)
}

fn manage(client: &Client, what: &ManageConnector) -> Result<(), CliError> {
    let (sort, name) = (what.sort.as_str(), &what.name);
    let path = format!("/{sort}s/{}", segment(name));
    let done = match what.command {
        ConnectorCommand::Drop => {
            client.delete(&path)?;
            "dropped"
        }
        ConnectorCommand::Pause => {
            client.command(&format!("{path}/pause"))?;
            "paused"
        }
        ConnectorCommand::Resume => {
            client.command(&format!("{path}/resume"))?;
            "resumed"
        }
    };
    println!("{sort} {name} {done}");
    Ok(())
}

fn name(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

/// A source as a line for people.
pub(crate) fn source_line(source: &Value) -> String {
    let mut line = format!(
        "source {} into <{}>: {}, {} messages taken, {} repeats, {} refused",
        name(&source["name"]),
        name(&source["stream"]),
        name(&source["state"]),
        source["taken"],
        source["repeated"],
        source["refused"],
    );
    if let Some(lag) = source["lag"].as_u64() {
        let _ = write!(line, ", {lag} behind");
    }
    let refused = &source["last_refused"];
    if let Some(reason) = refused["reason"].as_str() {
        let _ = write!(
            line,
            "; the newest refused one is {} of {}: {reason}",
            refused["position"],
            name(&refused["partition"])
        );
    }
    if let Some(error) = source["last_error"].as_str() {
        let _ = write!(line, "; the newest attempt failed: {error}");
    }
    line
}

/// A sink as a line for people.
pub(crate) fn sink_line(sink: &Value) -> String {
    let mut line = format!(
        "sink {} of query {}: {}, {} answers delivered, {} attempts failed",
        name(&sink["name"]),
        name(&sink["query"]),
        name(&sink["state"]),
        sink["delivered"],
        sink["failures"]
    );
    if let Some(error) = sink["last_error"].as_str() {
        let _ = write!(line, "; the newest failed: {error}");
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_line_says_what_a_source_has_refused() {
        let mut source = json!({
            "name": "m", "stream": "urn:s", "state": "running", "taken": 3, "repeated": 1, "refused": 0,
            "lag": null, "last_refused": null, "last_error": null,
        });
        let line = "source m into <urn:s>: running, 3 messages taken, 1 repeats, 0 refused";
        assert_eq!(source_line(&source), line);
        source["lag"] = 7.into();
        source["last_refused"] =
            json!({ "partition": "m/0", "position": 4, "reason": "it is late" });
        source["last_error"] = "no route".into();
        assert_eq!(
            source_line(&source),
            format!(
                "{line}, 7 behind; the newest refused one is 4 of m/0: it is late; the newest attempt failed: no route"
            )
        );
    }
}
