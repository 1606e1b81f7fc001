//! `procedures` and `dataflows`: what is declared on a server for transactions, and what aborted.

use crate::args::{
    DataflowsCommand, DeclareArgs, NamedArgs, ProceduresCommand, ShowNamedArgs, WholeArgs,
};
use crate::client::{Client, json_of, segment};
use crate::commands::register;
use crate::error::CliError;
use crate::target::client_for;
use crate::times;
use serde_json::Value;
use std::io::{self, Write};

/// The kinds of things that are declared for transactions.
#[derive(Clone, Copy)]
enum Kind {
    Procedure,
    Dataflow,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Kind::Procedure => "procedure",
            Kind::Dataflow => "dataflow",
        }
    }

    fn path(self, name: &str, more: &str) -> String {
        format!("/{}s/{}{more}", self.word(), segment(name))
    }
}

/// Carries out a subcommand of `procedures`.
///
/// # Errors
/// When there is no such procedure, or the server refuses.
pub(crate) fn procedures(command: &ProceduresCommand) -> Result<(), CliError> {
    let kind = Kind::Procedure;
    match command {
        ProceduresCommand::List(args) => list(kind, args),
        ProceduresCommand::Show(args) => show(kind, args),
        ProceduresCommand::Declare(args) => declare(args),
        ProceduresCommand::Drop(args) => {
            let more = if args.discard { "?discard=true" } else { "" };
            drop(kind, &args.of, more)
        }
        ProceduresCommand::Explain(args) => explain(kind, args, ""),
        ProceduresCommand::Aborted(args) => aborted(kind, args),
    }
}

/// Carries out a subcommand of `dataflows`.
///
/// # Errors
/// When there is no such dataflow, or the server refuses.
pub(crate) fn dataflows(command: &DataflowsCommand) -> Result<(), CliError> {
    let kind = Kind::Dataflow;
    match command {
        DataflowsCommand::List(args) => list(kind, args),
        DataflowsCommand::Show(args) => show(kind, args),
        DataflowsCommand::Declare(args) => declare(args),
        DataflowsCommand::Drop(args) => drop(kind, args, ""),
        DataflowsCommand::Pause(args) => hold(&client_for(&args.server)?, &args.name, "pause"),
        DataflowsCommand::Resume(args) => hold(&client_for(&args.server)?, &args.name, "resume"),
        DataflowsCommand::Explain(args) => {
            let more = if args.dot { "?format=dot" } else { "" };
            explain(kind, &args.of, more)
        }
        DataflowsCommand::Aborted(args) => aborted(kind, args),
    }
}

fn get(client: &Client, path: &str) -> Result<Value, CliError> {
    json_of(client.get(path, &[])?.body_mut())
}

fn list(kind: Kind, args: &WholeArgs) -> Result<(), CliError> {
    let client = client_for(&args.server)?;
    let member = format!("{}s", kind.word());
    let all = get(&client, &format!("/{member}"))?;
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{all}")?;
        return Ok(());
    }
    for one in all[&member].as_array().into_iter().flatten() {
        match kind {
            Kind::Procedure => writeln!(out, "{}", procedure_line(one))?,
            Kind::Dataflow => writeln!(out, "{}", dataflow_line(one))?,
        }
    }
    Ok(out.flush()?)
}

fn text<'v>(value: &'v Value, member: &str) -> &'v str {
    value[member].as_str().unwrap_or("?")
}

fn procedure_line(procedure: &Value) -> String {
    let members = |list: &str| procedure[list].as_array().cloned().unwrap_or_default();
    let parameters = members("parameters");
    let parameters = parameters.iter();
    let parameters = parameters.map(|it| format!("?{} {}", text(it, "name"), text(it, "kind")));
    let streams = members("streams");
    let streams = streams.iter().map(|it| {
        let (stream, batch) = (text(it, "stream"), text(it, "batch"));
        let (done, waiting) = (&it["batches"], &it["waiting_messages"]);
        format!("  on {stream} {batch}: {done} batches consumed, {waiting} messages wait")
    });
    let name = text(procedure, "name");
    let mut line = match procedure["call"].is_null() {
        true => format!("{name}{}", streams.collect::<String>()),
        false => format!("{name} ({})", parameters.collect::<Vec<_>>().join(", ")),
    };
    if let Some(dataflow) = procedure["dataflow"].as_str() {
        line.push_str(&format!("  in dataflow {dataflow}"));
    }
    if !procedure["waits"].is_null() {
        line.push_str("  waits: its native body is not registered");
    }
    line
}

fn dataflow_line(dataflow: &Value) -> String {
    let (name, state) = (text(dataflow, "name"), text(dataflow, "state"));
    let (rounds, waiting) = (&dataflow["rounds"], &dataflow["waiting_batches"]);
    let aborts = &dataflow["aborts"];
    let mut line =
        format!("{name}  {state}  {rounds} rounds, {waiting} batches wait, {aborts} aborts");
    if !dataflow["stopped_by"].is_null() {
        line.push_str(&format!(
            "; stopped by {}",
            abort_line(&dataflow["stopped_by"])
        ));
    }
    line
}

fn abort_line(abort: &Value) -> String {
    let (procedure, reason) = (text(abort, "procedure"), text(abort, "reason"));
    let round = match abort["of_call"].as_bool() {
        Some(true) => "call",
        _ => "round",
    };
    let time = abort["time_ms"].as_i64().map(times::shown);
    let time = time.unwrap_or_default();
    format!(
        "{procedure} in {round} {} at {time}: {reason}",
        abort["round"]
    )
}

/// Prints the text of one with its state, or all that is known as JSON.
fn show(kind: Kind, args: &ShowNamedArgs) -> Result<(), CliError> {
    let shown = get(&client_for(&args.of.server)?, &kind.path(&args.of.name, ""))?;
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{shown}")?;
        return Ok(out.flush()?);
    }
    let line = match kind {
        Kind::Procedure => procedure_line(&shown),
        Kind::Dataflow => dataflow_line(&shown),
    };
    writeln!(out, "# {line}")?;
    if !shown["last_abort"].is_null() {
        writeln!(out, "# last abort: {}", abort_line(&shown["last_abort"]))?;
    }
    writeln!(out, "{}", text(&shown, "text").trim_end())?;
    Ok(out.flush()?)
}

fn declare(args: &DeclareArgs) -> Result<(), CliError> {
    let client = client_for(&args.server)?;
    let mut files = args.files.iter();
    files.try_for_each(|path| register::send_file(&client, path, args.namespace.as_deref()))
}

fn drop(kind: Kind, args: &NamedArgs, more: &str) -> Result<(), CliError> {
    drop_declared(&client_for(&args.server)?, kind, &args.name, more)
}

fn drop_declared(client: &Client, kind: Kind, name: &str, more: &str) -> Result<(), CliError> {
    client.delete(&kind.path(name, more))?;
    println!("{} {name} dropped", kind.word());
    Ok(())
}

/// Drops a procedure. `discard` gives up what waits for it.
///
/// # Errors
/// When there is no such procedure, or the server refuses.
pub(crate) fn drop_procedure(client: &Client, name: &str, discard: bool) -> Result<(), CliError> {
    let more = if discard { "?discard=true" } else { "" };
    drop_declared(client, Kind::Procedure, name, more)
}

/// Drops a dataflow.
///
/// # Errors
/// When there is no such dataflow, or the server refuses.
pub(crate) fn drop_dataflow(client: &Client, name: &str) -> Result<(), CliError> {
    drop_declared(client, Kind::Dataflow, name, "")
}

/// Pauses or resumes a dataflow.
///
/// # Errors
/// When there is no such dataflow, or the server refuses.
pub(crate) fn hold(client: &Client, name: &str, word: &str) -> Result<(), CliError> {
    client.command(&Kind::Dataflow.path(name, &format!("/{word}")))?;
    println!("dataflow {name} {word}d");
    Ok(())
}

/// Declares a procedure or a dataflow by its text.
///
/// # Errors
/// When the server refuses.
pub(crate) fn create(
    client: &Client,
    is_dataflow: bool,
    name: &str,
    text: &str,
) -> Result<(), CliError> {
    let kind = match is_dataflow {
        true => Kind::Dataflow,
        false => Kind::Procedure,
    };
    client.put(&kind.path(name, ""), text)?;
    println!("{} {name} declared", kind.word());
    Ok(())
}

/// Prints how a procedure runs, or the drawing of a dataflow.
fn explain(kind: Kind, args: &NamedArgs, more: &str) -> Result<(), CliError> {
    let path = kind.path(&args.name, &format!("/explain{more}"));
    let mut response = client_for(&args.server)?.get(&path, &[("Accept", "text/plain")])?;
    let shown = response.body_mut().read_to_string();
    let shown = shown.map_err(|error| CliError::failed("the answer broke off", error))?;
    write!(io::stdout(), "{shown}")?;
    Ok(())
}

/// Lists the transactions that aborted, oldest first.
fn aborted(kind: Kind, args: &ShowNamedArgs) -> Result<(), CliError> {
    let list = get(
        &client_for(&args.of.server)?,
        &kind.path(&args.of.name, "/aborted"),
    )?;
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{list}")?;
        return Ok(out.flush()?);
    }
    let aborts = list["aborted"].as_array().map_or(&[][..], Vec::as_slice);
    for abort in aborts {
        writeln!(out, "{}", abort_line(abort))?;
    }
    if aborts.is_empty() {
        eprintln!("no transaction of {} has aborted", args.of.name);
    }
    if list["dropped"].as_u64().is_some_and(|dropped| dropped > 0) {
        writeln!(out, "# {} older ones are not kept", list["dropped"])?;
    }
    Ok(out.flush()?)
}
