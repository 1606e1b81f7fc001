//! `register`: continuous queries and stream declarations from files to a server.

use crate::args::RegisterArgs;
use crate::client::{Client, segment};
use crate::error::CliError;
use crate::files::{self, read_text};
use serde_json::Value;
use std::path::Path;
use ureq::Body;
use ureq::http::Response;

/// Sends each file: CREATE STREAM statements one by one, anything else as one query.
///
/// # Errors
/// Names the file that the server refused, with its sentence.
pub(crate) fn run(args: &RegisterArgs) -> Result<(), CliError> {
    let client = Client::new(&args.server)?;
    for path in &args.files {
        if args.batch {
            register_lines(&client, path)?;
            continue;
        }
        let text = read_text(path)?;
        let streams = stream_declarations(&text);
        if streams.is_empty() {
            let name = match &args.name {
                Some(name) if args.files.len() == 1 => name.clone(),
                Some(_) => return Err(CliError::Usage("--name goes with one file".to_owned())),
                None => registered_name(&text).ok_or_else(|| {
                    CliError::Usage(format!(
                        "{} has no REGISTER QUERY name; give one with --name",
                        path.display()
                    ))
                })?,
            };
            let replace = if args.replace { "?replace=true" } else { "" };
            let answer = client
                .put(&format!("/queries/{}{replace}", segment(&name)), &text)
                .map_err(|error| CliError::failed(path.display(), error))?;
            let what = match args.replace && has_replaced(answer)? {
                true => "replaced",
                false => "registered",
            };
            println!(
                "query {name} {what}; its answers: somersault subscribe {name} --server {}",
                args.server
            );
        }
        for (iri, declaration) in streams {
            client
                .put(&format!("/streams/{}", segment(&iri)), &declaration)
                .map_err(|error| CliError::failed(path.display(), error))?;
            println!("stream {iri} declared");
        }
    }
    Ok(())
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

/// The CREATE STREAM statements of a text, split at `;`, each with its stream's IRI.
pub(crate) fn stream_declarations(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for statement in text.split(';') {
        let mut words = statement.split_whitespace();
        let creates = words
            .next()
            .is_some_and(|word| word.eq_ignore_ascii_case("create"))
            && words
                .next()
                .is_some_and(|word| word.eq_ignore_ascii_case("stream"));
        if let (true, Some(iri)) = (creates, words.next()) {
            found.push((
                iri.trim_start_matches('<').trim_end_matches('>').to_owned(),
                statement.trim().to_owned(),
            ));
        }
    }
    found
}

/// The name in `REGISTER QUERY name`, or `REGISTER STREAM name`.
pub(crate) fn registered_name(text: &str) -> Option<String> {
    let mut words = text
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'))
        .flat_map(str::split_whitespace);
    words
        .by_ref()
        .find(|word| word.eq_ignore_ascii_case("register"))?;
    words
        .next()
        .filter(|word| word.eq_ignore_ascii_case("query") || word.eq_ignore_ascii_case("stream"))?;
    words.next().map(|name| {
        name.trim_start_matches('<')
            .trim_end_matches('>')
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_declarations_are_found() {
        assert_eq!(
            registered_name(
                "# a comment: register nothing\nPREFIX a: <urn:a>\nREGISTER QUERY Q1 AS SELECT"
            ),
            Some("Q1".to_owned())
        );
        assert_eq!(registered_name("SELECT * {}"), None);
        let found =
            stream_declarations("CREATE STREAM <urn:s> BATCH 1s;\n create stream <urn:t>;\n");
        assert_eq!(found.len(), 2);
        assert_eq!(found[1].0, "urn:t");
    }
}
