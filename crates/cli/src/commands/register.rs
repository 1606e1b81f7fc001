//! `register`: continuous queries and stream declarations from files to a server.

use crate::args::RegisterArgs;
use crate::client::{Client, segment};
use crate::error::CliError;
use crate::files::read_text;

/// Sends each file: CREATE STREAM statements one by one, anything else as one query.
///
/// # Errors
/// Names the file that the server refused, with its sentence.
pub(crate) fn run(args: &RegisterArgs) -> Result<(), CliError> {
    let client = Client::new(&args.server)?;
    for path in &args.files {
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
            client
                .put(&format!("/queries/{}", segment(&name)), &text)
                .map_err(|error| CliError::failed(path.display(), error))?;
            println!(
                "query {name} registered; its answers: somersault subscribe {name} --server {}",
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
