//! Files of statements: streams and continuous queries as the language's own parser reads them.

use crate::error::CliError;
use crate::files::read_text;
use somersault_lang::{ParseError, Parser, ScriptStatement, Statement};
use std::path::Path;

/// Stands for the namespace that only the server knows. Nothing that a text says begins with it.
const UNKNOWN_NAMESPACE: &str = "urn:somersault:unknown-namespace:";

/// Reads all statements of a file.
///
/// Bare names of queries and patterns are left to the server where no namespace is given; a stream
/// is addressed by its IRI, so that a bare name of a stream is refused then.
///
/// # Errors
/// At the first statement that is refused, with its place in the file.
pub(crate) fn read(path: &Path, namespace: Option<&str>) -> Result<Vec<ScriptStatement>, CliError> {
    let text = read_text(path)?;
    let statements =
        parse(&text, namespace).map_err(|error| CliError::failed(path.display(), error))?;
    if statements.is_empty() {
        return Err(CliError::Failed(format!(
            "{} holds no statement; CREATE STREAM, or a continuous query, was expected",
            path.display()
        )));
    }
    Ok(statements)
}

fn parse(text: &str, namespace: Option<&str>) -> Result<Vec<ScriptStatement>, ParseError> {
    if let Some(namespace) = namespace {
        return Parser::new()
            .with_default_namespace(namespace)
            .parse_script(text);
    }
    let error = match Parser::new().parse_script(text) {
        Ok(statements) => return Ok(statements),
        Err(error) => error,
    };
    let lenient = Parser::new().with_default_namespace(UNKNOWN_NAMESPACE);
    let statements = lenient.parse_script(text)?;
    match statements
        .iter()
        .any(|it| addresses_bare_stream(&it.statement))
    {
        true => Err(error),
        false => Ok(statements),
    }
}

/// Whether a statement is about a stream that is written as a bare name.
fn addresses_bare_stream(statement: &Statement) -> bool {
    let iri = match statement {
        Statement::CreateStream(stream) => stream.iri.as_str(),
        Statement::DropStream(iri) => iri.as_str(),
        Statement::Register(query) => match &query.derives {
            Some(stream) => stream.iri.as_str(),
            None => return false,
        },
        Statement::CreateSource(source) => source.stream.as_str(),
        _ => return false,
    };
    iri.starts_with(UNKNOWN_NAMESPACE)
}

/// The words that a statement begins with, for messages.
pub(crate) fn kind(statement: &Statement) -> &'static str {
    match statement {
        Statement::CreateStream(_) => "CREATE STREAM",
        Statement::DropStream(_) => "DROP STREAM",
        Statement::DropQuery(_) => "DROP QUERY",
        Statement::PauseQuery(_) => "PAUSE QUERY",
        Statement::ResumeQuery(_) => "RESUME QUERY",
        Statement::Register(_) => "a continuous query",
        Statement::CreateProcedure(_) => "CREATE PROCEDURE",
        Statement::CreateDataflow(_) => "CREATE DATAFLOW",
        Statement::CreateSource(_) => "CREATE SOURCE",
        Statement::CreateSink(_) => "CREATE SINK",
        Statement::ManageConnector(_) => "a statement about a source or a sink",
        Statement::Call(_) => "CALL (somersault call does)",
        _ => "a statement of another kind",
    }
}

/// `FILE, line 3, column 1`: where a statement of a file stands.
pub(crate) fn place(path: &Path, statement: &ScriptStatement) -> String {
    format!("{}, {}", path.display(), statement.place)
}

/// A server's refusal of a statement, with its place in the file instead of that in the text sent.
pub(crate) fn refused(path: &Path, statement: &ScriptStatement, error: CliError) -> CliError {
    let CliError::Refused(refusal) = error else {
        return CliError::failed(place(path, statement), error);
    };
    let Some((line, column)) = refusal.place else {
        return CliError::failed(place(path, statement), refusal);
    };
    let said = format!("line {line}, column {column}: ");
    let in_file = statement.place_in_script(line, column);
    let sentence = refusal
        .sentence
        .strip_prefix(&said)
        .unwrap_or(&refusal.sentence);
    CliError::Failed(format!(
        "{}: {in_file}: {sentence} ({})",
        path.display(),
        refusal.status
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_names_are_left_to_the_server_but_not_those_of_streams() {
        let paper = "REGISTER QUERY Qc SELECT ?x FROM Tweet_Stream [RANGE 1s STEP 1s] \
                     WHERE { GRAPH Tweet_Stream { ?x po ?z } }";
        let statements = parse(paper, None).expect("the server resolves these names");
        assert_eq!(statements[0].text, paper);
        let error = parse("\nCREATE STREAM likes", None).expect_err("which stream is not known");
        assert!(
            error.line == 2 && error.message.contains("--namespace"),
            "{error}"
        );
        let known = parse("CREATE STREAM likes", Some("http://e/")).expect("it is known here");
        assert!(
            matches!(&known[0].statement, Statement::CreateStream(s) if s.iri.as_str() == "http://e/likes")
        );
        let error = parse("REGISTER QUERY q AS SELECT", None).expect_err("it is no query");
        assert_eq!(error.line, 1);
    }
}
