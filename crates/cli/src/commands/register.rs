//! `register`: continuous queries and stream declarations from files to a server.

use crate::args::{Declared, RegisterArgs};
use crate::client::{Client, segment};
use crate::commands::{connectors, manage, transactions};
use crate::error::CliError;
use crate::files;
use crate::script::{self, refused};
use crate::target::client_for;
use serde_json::Value;
use somersault_lang::{ScriptStatement, Statement};
use std::path::Path;
use ureq::Body;
use ureq::http::Response;

/// Sends the statements of each file, in order. All files are read before the first is sent.
///
/// # Errors
/// Names the place of the statement that was refused; what was sent before it stays.
pub(crate) fn run(args: &RegisterArgs) -> Result<(), CliError> {
    let client = client_for(&args.server)?;
    if args.batch {
        return args
            .files
            .iter()
            .try_for_each(|path| register_lines(&client, path));
    }
    let mut files = Vec::new();
    for path in &args.files {
        files.push((path, script::read(path, args.namespace.as_deref())?));
    }
    let statements = files.iter().flat_map(|(_, statements)| statements);
    let queries = statements
        .filter(|it| matches!(it.statement, Statement::Register(_)))
        .count();
    if args.name.is_some() && queries != 1 {
        return Err(CliError::Usage(format!(
            "--name names one query, but the files hold {queries}; register one of them at a time"
        )));
    }
    let settings = Settings {
        name: args.name.as_deref(),
        replace: args.replace,
        url: &args.server.url,
    };
    for (path, statements) in &files {
        for statement in statements {
            send(&client, &settings, path, statement)?;
        }
    }
    Ok(())
}

/// Sends the statements of a file, in order.
///
/// # Errors
/// Names the place of the statement that was refused; what was sent before it stays.
pub(crate) fn send_file(
    client: &Client,
    path: &Path,
    namespace: Option<&str>,
) -> Result<(), CliError> {
    let settings = Settings::default();
    let statements = script::read(path, namespace)?;
    let mut all = statements.iter();
    all.try_for_each(|statement| send(client, &settings, path, statement))
}

/// What holds for the queries of a file.
#[derive(Default)]
struct Settings<'a> {
    name: Option<&'a str>,
    replace: bool,
    url: &'a str,
}

/// Sends one statement.
fn send(
    client: &Client,
    args: &Settings<'_>,
    path: &Path,
    statement: &ScriptStatement,
) -> Result<(), CliError> {
    let failed = |error: CliError| refused(path, statement, error);
    match &statement.statement {
        Statement::CreateStream(stream) => {
            let iri = stream.iri.as_str();
            let address = format!("/streams/{}", segment(iri));
            client.put(&address, &statement.text).map_err(failed)?;
            println!("stream {iri} declared");
        }
        Statement::Register(query) => {
            let Some(name) = args.name.or(query.name.as_deref()) else {
                return Err(CliError::Usage(format!(
                    "{}: this query has no name; begin it with REGISTER QUERY name AS, or give one with --name",
                    script::place(path, statement)
                )));
            };
            let replace = if args.replace { "?replace=true" } else { "" };
            let address = format!("/queries/{}{replace}", segment(name));
            let answer = client.put(&address, &statement.text).map_err(failed)?;
            let what = match args.replace && has_replaced(answer)? {
                true => "replaced",
                false => "registered",
            };
            println!(
                "query {name} {what}; its answers: somersault subscribe {} --server {}",
                quoted(name),
                args.url
            );
        }
        Statement::DropStream(iri) => {
            manage::drop_declared(client, Declared::Stream, iri.as_str()).map_err(failed)?;
        }
        Statement::DropQuery(name) => {
            manage::drop_declared(client, Declared::Query, name).map_err(failed)?;
        }
        Statement::PauseQuery(name) => {
            manage::command(client, name, "pause").map_err(failed)?;
        }
        Statement::ResumeQuery(name) => {
            manage::command(client, name, "resume").map_err(failed)?;
        }
        _ => {
            let sent = connectors::send(client, statement).map_err(failed)?
                || send_of_transactions(client, statement).map_err(failed)?;
            if !sent {
                let kind = script::kind(&statement.statement);
                let place = script::place(path, statement);
                let said = format!("{place}: register does not send {kind}");
                return Err(CliError::Failed(said));
            }
        }
    }
    Ok(())
}

/// Sends a statement about procedures or dataflows. Whether it is one.
fn send_of_transactions(client: &Client, statement: &ScriptStatement) -> Result<bool, CliError> {
    let text = &statement.text;
    match &statement.statement {
        Statement::CreateProcedure(procedure) => {
            transactions::create(client, false, &procedure.name, text)?;
        }
        Statement::CreateDataflow(dataflow) => {
            transactions::create(client, true, &dataflow.name, text)?;
        }
        Statement::DropProcedure(drop) => {
            transactions::drop_procedure(client, &drop.name, drop.discard)?;
        }
        Statement::DropDataflow(name) => transactions::drop_dataflow(client, name)?,
        Statement::PauseDataflow(name) => transactions::hold(client, name, "pause")?,
        Statement::ResumeDataflow(name) => transactions::hold(client, name, "resume")?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// A name as a shell takes it.
fn quoted(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:".contains(c);
    match name.chars().all(is_plain) {
        true => name.to_owned(),
        false => format!("'{}'", name.replace('\'', r"'\''")),
    }
}

/// Whether a server's answer says that the query took another's place.
fn has_replaced(mut answer: Response<Body>) -> Result<bool, CliError> {
    let text = answer.body_mut().read_to_string();
    let text = text.map_err(|error| CliError::failed("the server's answer", error))?;
    let json: Value = serde_json::from_str(&text)
        .map_err(|error| CliError::failed("the server's answer", error))?;
    Ok(!json["replaced"].is_null())
}

/// Sends a file of lines, each a query with its name.
fn register_lines(client: &Client, path: &Path) -> Result<(), CliError> {
    let failed = |error: &dyn std::fmt::Display| CliError::failed(path.display(), error);
    let input = files::open(path, &files::byte_bar())?;
    let mut response = client
        .put_lines("/queries:batch", input.reader)
        .map_err(|error| failed(&error))?;
    let summary = response
        .body_mut()
        .read_to_string()
        .map_err(|error| failed(&error))?;
    let summary: Value = serde_json::from_str(&summary).map_err(|error| failed(&error))?;
    println!(
        "{}: {} queries registered, {} were before, {} refused",
        path.display(),
        summary["registered"],
        summary["unchanged"],
        summary["refused"]
    );
    let refused = summary["errors"].as_array().map_or(&[][..], Vec::as_slice);
    for error in refused {
        let sentence = error["error"].as_str().unwrap_or_default();
        println!("line {}: {sentence}", error["line"]);
    }
    match refused.is_empty() {
        true => Ok(()),
        false => Err(CliError::failed(path.display(), "lines were refused")),
    }
}
