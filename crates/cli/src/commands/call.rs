//! `call`: one call of a procedure, or a file of calls, on a server.
//!
//! Before changing anything here: a request of many calls has at most [`LINES`] lines, because the
//! client sends all of them before it reads an answer, and the server holds no more.

use crate::args::{CallArgs, Format};
use crate::client::{Client, segment};
use crate::commands::query::{accept, print_response};
use crate::error::CliError;
use crate::files;
use crate::table::{self, Table};
use crate::target::{Place, client_for, shut_down};
use oxrdf::Variable;
use serde_json::Value;
use somersault::{CallAnswer, CallOutcome, CallRequest};
use std::io::{self, BufRead as _, BufReader, Write};
use std::path::Path;

/// Calls in one request.
const LINES: usize = 1_000;

/// Calls a procedure, and prints what it is answered.
///
/// # Errors
/// When the procedure aborts, the call is refused, or the server cannot be reached.
pub(crate) fn run(args: &CallArgs) -> Result<(), CliError> {
    let client = client_for(&args.server)?;
    match (&args.procedure, &args.file) {
        (procedure, Some(path)) => calls(&client, procedure.as_deref(), path),
        (Some(procedure), None) => one(&client, procedure, args),
        (None, None) => Err(CliError::Usage(
            "name the procedure: somersault call NAME key=value…, or give a file of calls with --file"
                .to_owned(),
        )),
    }
}

fn one(client: &Client, procedure: &str, args: &CallArgs) -> Result<(), CliError> {
    let members = args.arguments.iter().map(|text| member(text));
    let members: Vec<String> = members.collect::<Result<_, _>>()?;
    let body = format!("{{{}}}", members.join(","));
    let mut headers = vec![
        ("Content-Type", "application/json"),
        ("Accept", accept(args.format)),
    ];
    if let Some(key) = &args.key {
        headers.push(("Idempotency-Key", key));
    }
    let path = format!("/procedures/{}/call", segment(procedure));
    let path = match args.explain {
        true => {
            headers.retain(|(name, _)| *name != "Accept");
            format!("{path}?analyze=true")
        }
        false => path,
    };
    let response = client.post(&path, &headers, body.as_bytes());
    let mut response = response.map_err(|error| of_call(error, procedure))?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    if args.explain {
        let shown = response.body_mut().read_to_string();
        let shown = shown.map_err(|error| CliError::failed("the answer broke off", error))?;
        write!(out, "{shown}")?;
        return Ok(out.flush()?);
    }
    print_response(response, args.format, &mut out)?;
    Ok(out.flush()?)
}

/// Carries out a text `CALL name(arguments)`, and prints what it is answered.
///
/// # Errors
/// As [`run`].
pub(crate) fn text(place: Place, text: &str) -> Result<(), CliError> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    match place {
        Place::Server(client) => {
            let headers = [
                ("Content-Type", "application/sparql-update"),
                ("Accept", accept(Format::Table)),
            ];
            let response = client.post("/update", &headers, text.as_bytes());
            let response = response.map_err(|error| of_call(error, "CALL"))?;
            print_response(response, Format::Table, &mut out)?;
        }
        Place::Engine(engine) => {
            let refused = |error| CliError::CallRefused(format!("CALL: {error}"));
            let request = engine.call_text(text, None).map_err(refused)?;
            let outcome = request.map(CallRequest::run).transpose().map_err(refused)?;
            shut_down(&engine)?;
            match outcome {
                Some(CallOutcome::Answered(answer)) => print_call_answer(&answer, &mut out)?,
                Some(CallOutcome::Aborted { reason }) => {
                    return Err(CliError::Aborted(format!("CALL: {reason}")));
                }
                None => return Err(CliError::Usage("the text is no CALL".to_owned())),
            }
        }
    }
    Ok(out.flush()?)
}

fn print_call_answer(answer: &CallAnswer, out: &mut impl Write) -> Result<(), CliError> {
    match answer {
        CallAnswer::Rows { variables, rows } => {
            let columns = variables.iter().map(Variable::new_unchecked);
            let mut table = Table::new(&columns.collect::<Vec<_>>());
            for row in rows {
                table.push(row.iter().map(Option::as_ref));
            }
            table.print(out, table::width_of_output())?;
        }
        CallAnswer::Boolean(boolean) => writeln!(out, "{boolean}")?,
        CallAnswer::Graph(triples) => {
            for triple in triples {
                writeln!(out, "{triple} .")?;
            }
        }
        CallAnswer::Done | CallAnswer::NotKept => writeln!(out, "done")?,
    }
    Ok(())
}

/// An argument `name=value` as a member of a JSON object. A value that is JSON (a number, true,
/// false, an object, a text in quotation marks) is that, `<iri>` is an IRI, and anything else a
/// text.
fn member(argument: &str) -> Result<String, CliError> {
    let Some((name, value)) = argument
        .split_once('=')
        .filter(|(name, _)| !name.is_empty())
    else {
        return Err(CliError::Usage(format!(
            "the argument {argument} is not name=value"
        )));
    };
    let name = Value::from(name.strip_prefix('?').unwrap_or(name));
    let is_json = serde_json::from_str::<Value>(value).is_ok_and(|it| !it.is_null());
    let iri = value.strip_prefix('<').and_then(|it| it.strip_suffix('>'));
    let value = match iri {
        _ if is_json => value.to_owned(),
        Some(iri) => serde_json::json!({ "type": "uri", "value": iri }).to_string(),
        None => Value::from(value).to_string(),
    };
    Ok(format!("{name}:{value}"))
}

/// An abort and a refusal of a call have exit codes of their own.
fn of_call(error: CliError, procedure: &str) -> CliError {
    match error {
        CliError::Refused(refusal) if refusal.code == "aborted" => {
            CliError::Aborted(format!("{procedure}: {}", refusal.sentence))
        }
        CliError::Refused(refusal) if !refusal.is_passing => {
            CliError::CallRefused(format!("{procedure}: {refusal}; nothing was changed"))
        }
        error => error,
    }
}

/// Sends a file of calls, and prints a line for each.
fn calls(client: &Client, procedure: Option<&str>, path: &Path) -> Result<(), CliError> {
    let address = match procedure {
        Some(procedure) => format!("/procedures/{}/calls", segment(procedure)),
        None => "/calls".to_owned(),
    };
    let input = files::open(path, &files::byte_bar())?;
    let mut reader = BufReader::new(input.reader);
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut counts = CallCounts::default();
    loop {
        let (body, before) = (next_lines(&mut reader, path)?, counts.lines);
        if body.is_empty() {
            break;
        }
        counts.lines += body.split_inclusive(|byte| *byte == b'\n').count() as u64;
        let headers = [("Content-Type", "application/x-ndjson")];
        let response = client.post(&address, &headers, body.as_slice())?;
        for line in BufReader::new(response.into_body().into_reader()).lines() {
            let line = line.map_err(|error| CliError::failed("the answer broke off", error))?;
            let line = counts.take(&line, before)?;
            writeln!(out, "{line}")?;
        }
        out.flush()?;
    }
    counts.outcome(path)
}

fn next_lines(reader: &mut impl io::BufRead, path: &Path) -> Result<Vec<u8>, CliError> {
    let mut body = Vec::new();
    for _ in 0..LINES {
        let read = reader.read_until(b'\n', &mut body);
        if read.map_err(|error| CliError::failed(path.display(), error))? == 0 {
            break;
        }
    }
    Ok(body)
}

/// What became of the calls of a file.
#[derive(Default)]
struct CallCounts {
    lines: u64,
    aborted: u64,
    refused: u64,
}

impl CallCounts {
    /// CallCounts an answer. Returns its line; a refusal has the number of its line in the file.
    fn take(&mut self, line: &str, before: u64) -> Result<String, CliError> {
        let parsed: Result<Value, _> = serde_json::from_str(line);
        let mut json = parsed.map_err(|error| CliError::failed("the server's answer", error))?;
        self.aborted += u64::from(json.get("aborted").is_some());
        if json.get("error").is_none() {
            return Ok(line.to_owned());
        }
        self.refused += 1;
        if let Some(number) = json["line"].as_u64() {
            json["line"] = (before + number).into();
        }
        Ok(json.to_string())
    }

    fn outcome(&self, path: &Path) -> Result<(), CliError> {
        let sentence = format!(
            "{}: {} calls were refused, {} aborted",
            path.display(),
            self.refused,
            self.aborted
        );
        match (self.refused, self.aborted) {
            (0, 0) => Ok(()),
            (0, _) => Err(CliError::Aborted(sentence)),
            _ => Err(CliError::CallRefused(sentence)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_json_iris_or_texts() {
        for (argument, json) in [
            ("n=1.50", "\"n\":1.50"),
            ("?n=true", "\"n\":true"),
            ("n=\"1\"", "\"n\":\"1\""),
            ("n=urn:a", "\"n\":\"urn:a\""),
            ("n=a=b", "\"n\":\"a=b\""),
            ("n=null", "\"n\":\"null\""),
            ("n=", "\"n\":\"\""),
            ("n=<urn:a>", "\"n\":{\"type\":\"uri\",\"value\":\"urn:a\"}"),
        ] {
            assert_eq!(member(argument).expect(argument), json);
        }
        for bad in ["n", "=1"] {
            assert!(member(bad).is_err(), "{bad}");
        }
    }
}
