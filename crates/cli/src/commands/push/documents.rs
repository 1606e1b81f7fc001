//! `push --documents`: a file of plain JSON or CSV into a stream that is declared with MAPPED BY,
//! as one body that the server reads while it comes.

use crate::args::PushArgs;
use crate::client::{Client, json_of, segment};
use crate::error::CliError;
use crate::files;
use serde_json::Value;
use somersault::DocumentSyntax;
use std::path::Path;

/// Refused documents that are shown with their reasons.
const SHOWN: usize = 20;

/// Pushes the documents of a file.
///
/// # Errors
/// With the server's sentence. Also if documents were refused and are not among the dead letters.
pub(crate) fn run(args: &PushArgs, client: &Client, address: &str) -> Result<(), CliError> {
    let bar = files::byte_bar();
    let input = files::open(&args.file, &bar)?;
    let syntax = syntax_of(&input.stem)?;
    let mut address = address.to_owned();
    if let Some(source) = &args.source {
        address.push_str(&format!("?source={}", segment(source)));
        if let Some(seq) = args.seq {
            address.push_str(&format!("&seq={seq}"));
        }
    }
    let at = args.at.map(|at| at.to_string());
    let mut headers = vec![("Content-Type", syntax.media_type())];
    headers.extend(at.as_deref().map(|at| ("Event-Time-Ms", at)));
    let file = args.file.display();
    let answer = client.post(&address, &headers, input.reader);
    let mut answer = answer.map_err(|error| CliError::Failed(format!("{file}: {error}")))?;
    bar.finish_and_clear();
    let answer = json_of(answer.body_mut())?;
    for reason in answer["reasons"]
        .as_array()
        .into_iter()
        .flatten()
        .take(SHOWN)
    {
        let number = &reason["number"];
        let (line, column) = (&reason["line"], &reason["column"]);
        let sentence = reason["error"].as_str().unwrap_or_default();
        eprintln!("{file}, document {number}, line {line}, column {column}: {sentence}");
    }
    println!("{file}: {}", counts(&answer));
    let count = |name: &str| answer[name].as_u64().unwrap_or(0);
    match count("refused") - count("dead_letters").min(count("refused")) {
        0 => Ok(()),
        refused => Err(CliError::Failed(format!(
            "{refused} documents were refused; send them again, corrected, under their numbers"
        ))),
    }
}

/// What became of the documents, in words.
fn counts(answer: &Value) -> String {
    let count = |name: &str| answer[name].as_u64().unwrap_or(0);
    let mut words = format!(
        "{} documents with {} statements pushed and durable",
        count("taken"),
        count("accepted")
    );
    for (name, what) in [
        ("dropped", "late statements dropped"),
        ("repeated", "taken before"),
        ("refused", "refused"),
        ("dead_letters", "of them among the dead letters"),
    ] {
        if count(name) > 0 {
            words.push_str(&format!(", {} {what}", count(name)));
        }
    }
    words
}

/// The syntax that an ending stands for.
fn syntax_of(stem: &Path) -> Result<DocumentSyntax, CliError> {
    let ending = stem.extension().and_then(|ending| ending.to_str());
    match ending.unwrap_or_default() {
        "json" => Ok(DocumentSyntax::Json),
        "ndjson" | "jsonl" => Ok(DocumentSyntax::NdJson),
        "csv" => Ok(DocumentSyntax::Csv),
        _ => Err(CliError::Usage(format!(
            "the extension of {} names no syntax of documents; known are .json, .ndjson, .jsonl and .csv, each also with .gz or .zst",
            stem.display()
        ))),
    }
}
