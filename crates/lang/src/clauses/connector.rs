//! `CREATE SOURCE`, `CREATE SINK`, and the statements that drop, pause and resume them.

use crate::algebra::connector::{
    ConnectorCommand, ConnectorOption, ConnectorSort, CreateSink, CreateSource, Endpoint,
    ManageConnector,
};
use crate::algebra::statement::Statement;
use crate::clauses::dataflow::read_name;
use crate::clauses::declare::end_of_statement;
use crate::text::cursor::Cursor;
use crate::text::error::ParseError;
use crate::text::name_clause::source_token;
use crate::text::names::{Names, string_value};
use crate::token::TokenKind;

/// The options that a connector may have. None has that many.
const MOST_OPTIONS: usize = 100;

/// Reads a statement about sources or sinks, if one stands at the cursor.
pub(crate) fn read_statement(
    cursor: &mut Cursor<'_>,
    names: &Names,
) -> Result<Option<Statement>, ParseError> {
    let or_replace = cursor.is_keyword("CREATE")
        && cursor.is_keyword_at(1, "OR")
        && cursor.is_keyword_at(2, "REPLACE");
    let ahead = if or_replace { 3 } else { 1 };
    let sort = match () {
        () if cursor.is_keyword_at(ahead, "SOURCE") => ConnectorSort::Source,
        () if cursor.is_keyword_at(ahead, "SINK") => ConnectorSort::Sink,
        () => return Ok(None),
    };
    let command = match () {
        () if cursor.is_keyword("CREATE") => None,
        () if cursor.is_keyword("DROP") => Some(ConnectorCommand::Drop),
        () if cursor.is_keyword("PAUSE") => Some(ConnectorCommand::Pause),
        () if cursor.is_keyword("RESUME") => Some(ConnectorCommand::Resume),
        () => return Ok(None),
    };
    cursor.at += ahead + 1;
    let expected = format!("the name of a {}", sort.as_str());
    let (_, name) = read_name(cursor, names, &expected)?;
    let statement = match (command, sort) {
        (Some(command), sort) => Statement::ManageConnector(ManageConnector {
            command,
            sort,
            name,
        }),
        (None, ConnectorSort::Source) => {
            Statement::CreateSource(read_source(cursor, names, name, or_replace)?)
        }
        (None, ConnectorSort::Sink) => {
            Statement::CreateSink(read_sink(cursor, names, name, or_replace)?)
        }
    };
    end_of_statement(cursor)?;
    Ok(Some(statement))
}

/// `INTO stream FROM … [DEAD LETTER INTO stream]`, with the cursor behind the name.
fn read_source(
    cursor: &mut Cursor<'_>,
    names: &Names,
    name: String,
    or_replace: bool,
) -> Result<CreateSource, ParseError> {
    cursor.expect_keyword("INTO")?;
    let stream = read_stream(cursor, names)?;
    cursor.expect_keyword("FROM")?;
    let from = read_endpoint(cursor, names)?;
    if from.format.is_none() {
        return Err(cursor.unexpected("FORMAT and the format of the messages"));
    }
    let mut dead_letter = None;
    if cursor.take_keyword("DEAD") {
        cursor.expect_keyword("LETTER")?;
        cursor.expect_keyword("INTO")?;
        dead_letter = Some(read_stream(cursor, names)?);
    }
    Ok(CreateSource {
        name,
        or_replace,
        stream,
        from,
        dead_letter,
        text: cursor.source.to_owned(),
    })
}

/// `FROM QUERY name INTO …` or `FROM STREAM iri INTO …`, with the cursor behind the name.
fn read_sink(
    cursor: &mut Cursor<'_>,
    names: &Names,
    name: String,
    or_replace: bool,
) -> Result<CreateSink, ParseError> {
    cursor.expect_keyword("FROM")?;
    let query = if cursor.take_keyword("QUERY") {
        read_name(cursor, names, "the name of a query")?.1
    } else if cursor.take_keyword("STREAM") {
        read_stream(cursor, names)?.into_string()
    } else {
        return Err(cursor.unexpected("QUERY or STREAM after FROM"));
    };
    cursor.expect_keyword("INTO")?;
    Ok(CreateSink {
        name,
        or_replace,
        query,
        into: read_endpoint(cursor, names)?,
        text: cursor.source.to_owned(),
    })
}

fn read_stream(cursor: &mut Cursor<'_>, names: &Names) -> Result<oxrdf::NamedNode, ParseError> {
    let token = source_token(cursor, "the IRI of a stream")?;
    names.resolve(cursor.source, token)
}

fn read_endpoint(cursor: &mut Cursor<'_>, names: &Names) -> Result<Endpoint, ParseError> {
    let Some(kind) = cursor.take_kind(TokenKind::Word) else {
        return Err(cursor.unexpected("the kind of the connector, such as FILE or MQTT,"));
    };
    let kind = kind.text(cursor.source).to_ascii_uppercase();
    let mut options: Vec<ConnectorOption> = Vec::new();
    cursor.expect_punctuation("(")?;
    while !cursor.take_punctuation(")") {
        let offset = cursor.offset();
        let option = read_option(cursor, names)?;
        let is_second = options.iter().any(|known| known.name == option.name);
        if is_second || options.len() == MOST_OPTIONS {
            let message = match is_second {
                true => format!(
                    "the option {} is given a second time here; give it once",
                    option.name
                ),
                false => format!("a connector has {MOST_OPTIONS} options at most; remove this one"),
            };
            return Err(ParseError::semantics(cursor.source, offset, message));
        }
        options.push(option);
        if !cursor.take_punctuation(",") && !cursor.is_punctuation(")") {
            return Err(cursor.unexpected("`,` or `)` behind an option"));
        }
    }
    let format = match cursor.take_keyword("FORMAT") {
        true => Some(read_format(cursor)?),
        false => None,
    };
    Ok(Endpoint {
        kind,
        options,
        format,
    })
}

/// A word, or a media type as a string.
fn read_format(cursor: &mut Cursor<'_>) -> Result<String, ParseError> {
    let text = cursor.peek_text();
    let format = match cursor.peek_kind() {
        Some(TokenKind::Word) => text.to_owned(),
        Some(TokenKind::String) => string_value(text),
        _ => {
            return Err(cursor.unexpected(
                "a format, a word such as NQUADS or a media type in quotation marks,",
            ));
        }
    };
    cursor.bump();
    Ok(format)
}

fn read_option(cursor: &mut Cursor<'_>, names: &Names) -> Result<ConnectorOption, ParseError> {
    let Some(name) = cursor.take_kind(TokenKind::Word) else {
        return Err(cursor.unexpected("the name of an option or `)`"));
    };
    let name = name.text(cursor.source).to_ascii_lowercase();
    cursor.expect_punctuation("=")?;
    let (kind, text) = (cursor.peek_kind(), cursor.peek_text());
    let value = match kind {
        Some(TokenKind::String) => string_value(text),
        Some(TokenKind::Iri | TokenKind::PrefixedName) => {
            let token = cursor.peek().expect("a token was just seen");
            names.resolve(cursor.source, token)?.into_string()
        }
        Some(
            TokenKind::Word
            | TokenKind::Integer
            | TokenKind::Decimal
            | TokenKind::Double
            | TokenKind::Duration,
        ) => text.to_owned(),
        _ => {
            return Err(cursor.unexpected(&format!(
                "the value of the option {name}: a string, a number, a duration, a word or an IRI,"
            )));
        }
    };
    let token = cursor.bump().expect("a token was just seen");
    Ok(ConnectorOption {
        name,
        value,
        span: token.range(),
    })
}

#[cfg(test)]
mod tests {
    use crate::algebra::connector::*;
    use crate::algebra::statement::Statement;
    use crate::parser::Parser;

    const SOURCE: &str = "PREFIX : <http://e/>\n# messages of the meters\nCREATE OR REPLACE SOURCE meters INTO :m FROM mqtt ( url = 'mqtt://h:1883', Topic = \"a/+\", keep-alive = 30s,) FORMAT 'application/x-ld+ndjson' DEAD LETTER INTO :bad;";

    fn parse(text: &str) -> Result<Statement, String> {
        let parsed = Parser::new().parse_statement(text);
        parsed.map_err(|error| error.message)
    }

    #[test]
    fn a_source_has_its_parts() {
        let Ok(Statement::CreateSource(source)) = parse(SOURCE) else {
            panic!("it is a source");
        };
        assert_eq!((source.name.as_str(), source.or_replace), ("meters", true));
        assert_eq!(source.stream.as_str(), "http://e/m");
        assert_eq!(source.from.kind, "MQTT");
        let options: Vec<_> = (source.from.options.iter())
            .map(|it| {
                (
                    it.name.as_str(),
                    it.value.as_str(),
                    &SOURCE[it.span.clone()],
                )
            })
            .collect();
        assert_eq!(
            options,
            [
                ("url", "mqtt://h:1883", "'mqtt://h:1883'"),
                ("topic", "a/+", "\"a/+\""),
                ("keep-alive", "30s", "30s"),
            ]
        );
        let format = source.from.format.as_deref();
        assert_eq!(format, Some("application/x-ld+ndjson"));
        let bad = source.dead_letter.expect("a stream");
        assert_eq!(bad.as_str(), "http://e/bad");
        assert_eq!(source.text, SOURCE);
    }

    #[test]
    fn a_sink_reads_a_query_or_a_derived_stream() {
        for (text, query) in [
            (
                "CREATE SINK bill FROM QUERY orders INTO FILE (path = '/x')",
                "orders",
            ),
            (
                "CREATE SINK bill FROM STREAM <urn:o> INTO FILE (path = '/x')",
                "urn:o",
            ),
        ] {
            let Ok(Statement::CreateSink(sink)) = parse(text) else {
                panic!("it is a sink");
            };
            assert_eq!((sink.name.as_str(), sink.query.as_str()), ("bill", query));
            assert_eq!((sink.or_replace, sink.into.format), (false, None));
        }
    }

    #[test]
    fn they_are_dropped_paused_and_resumed() {
        for (word, command) in [
            ("drop", ConnectorCommand::Drop),
            ("PAUSE", ConnectorCommand::Pause),
            ("Resume", ConnectorCommand::Resume),
        ] {
            for (what, sort) in [
                ("SOURCE", ConnectorSort::Source),
                ("sink", ConnectorSort::Sink),
            ] {
                let parsed = parse(&format!("{word} {what} 'a b';"));
                let Ok(Statement::ManageConnector(managed)) = parsed else {
                    panic!("it names a connector");
                };
                assert_eq!((managed.command, managed.sort), (command, sort));
                assert_eq!(managed.name, "a b");
            }
        }
    }

    #[test]
    fn faults_are_named() {
        for (text, said) in [
            ("CREATE SOURCE s", "INTO"),
            (
                "CREATE SOURCE s INTO <urn:s> FROM FILE (path = 'x')",
                "FORMAT",
            ),
            ("CREATE SOURCE s INTO <urn:s> FROM FILE path = 'x'", "`(`"),
            (
                "CREATE SOURCE s INTO <urn:s> FROM FILE (path 'x') FORMAT NQUADS",
                "`=`",
            ),
            (
                "CREATE SOURCE s INTO <urn:s> FROM FILE (path = ) FORMAT NQUADS",
                "value of the option path",
            ),
            (
                "CREATE SOURCE s INTO <urn:s> FROM FILE (a = 1 b = 2) FORMAT NQUADS",
                "`,` or `)`",
            ),
            (
                "CREATE SOURCE s INTO <urn:s> FROM FILE (a = 1, A = 2) FORMAT NQUADS",
                "second time",
            ),
            (
                "CREATE SOURCE s INTO <urn:s> FROM FILE (a = 1) FORMAT ?x",
                "a format",
            ),
            (
                "CREATE SOURCE s INTO <urn:s> FROM FILE (a = 1) FORMAT NQUADS DEAD",
                "LETTER",
            ),
            ("CREATE SINK s FROM q INTO FILE ()", "QUERY or STREAM"),
            (
                "CREATE SINK s FROM QUERY q INTO FILE (a = 'x",
                "never closed",
            ),
            ("DROP SINK s t", "the end of the statement"),
            ("PAUSE SOURCE", "the name of a source"),
        ] {
            let message = parse(text).expect_err(text);
            assert!(message.contains(said), "{text}: {message}");
        }
    }
}
