//! Arguments of calls as JSON: plain values, or terms as in SPARQL 1.1 Query Results JSON.
//!
//! Before changing anything here: the digits of a number are those that the client wrote, so no
//! float is between them and the literal. A member that comes twice is refused, not overwritten.

use super::CallNumber;
use crate::http::text::shorten;
use json_event_parser::{JsonEvent, SliceJsonParser};
use somersault::Argument;
use somersault::oxrdf::vocab::xsd;
use somersault::oxrdf::{Literal, NamedNode, NamedNodeRef};

/// The deepest object in a line: a line, its arguments, one term.
const DEEPEST: usize = 4;

/// A JSON value whose numbers have their digits.
#[derive(Debug, PartialEq)]
enum Json {
    Null,
    Boolean(bool),
    Number(String),
    Text(String),
    List,
    Object(Vec<(String, Json)>),
}

/// A line of calls.
pub(crate) struct CallLine {
    /// The procedure, if the line names it.
    pub(crate) procedure: Option<String>,
    pub(crate) arguments: Vec<(String, Argument)>,
    pub(crate) key: Option<CallNumber>,
}

/// Reads an object of arguments.
///
/// # Errors
/// A sentence without its full stop.
pub(crate) fn arguments(text: &str) -> Result<Vec<(String, Argument)>, String> {
    arguments_of(read(text)?)
}

/// Reads a line `{"call": …, "args": {…}, "key": "source/number"}`, of which all may be left out.
///
/// # Errors
/// A sentence without its full stop.
pub(crate) fn line(text: &str) -> Result<CallLine, String> {
    let Json::Object(members) = read(text)? else {
        return Err("a line is an object with \"args\", and \"key\" if it has one".to_owned());
    };
    let mut line = CallLine {
        procedure: None,
        arguments: Vec::new(),
        key: None,
    };
    for (name, value) in members {
        match (name.as_str(), value) {
            ("call", Json::Text(procedure)) => line.procedure = Some(procedure),
            ("key", Json::Text(key)) => line.key = Some(CallNumber::parse(&key)?),
            ("args", value) => line.arguments = arguments_of(value)?,
            ("call" | "key", _) => return Err(format!("\"{name}\" is not a string")),
            _ => {
                let name = shorten(&name);
                return Err(format!(
                    "\"{name}\" is not known; a line has \"args\", \"key\" and \"call\""
                ));
            }
        }
    }
    Ok(line)
}

fn arguments_of(value: Json) -> Result<Vec<(String, Argument)>, String> {
    let Json::Object(members) = value else {
        return Err("the arguments are an object with a member for each parameter".to_owned());
    };
    let argument = |(name, value): (String, Json)| {
        let argument = argument(value).map_err(|said| format!("\"{}\" {said}", shorten(&name)))?;
        Ok((name, argument))
    };
    members.into_iter().map(argument).collect()
}

fn argument(value: Json) -> Result<Argument, String> {
    let literal = |text: String, datatype: NamedNodeRef<'_>| {
        Argument::Term(Literal::new_typed_literal(text, datatype).into())
    };
    Ok(match value {
        Json::Text(text) => Argument::Text(text),
        Json::Boolean(is_true) => literal(is_true.to_string(), xsd::BOOLEAN),
        Json::Number(digits) => {
            let datatype = match () {
                () if digits.contains(['e', 'E']) => xsd::DOUBLE,
                () if digits.contains('.') => xsd::DECIMAL,
                () => xsd::INTEGER,
            };
            literal(digits, datatype)
        }
        Json::Object(members) => Argument::Term(term(members)?),
        Json::Null => return Err("is null, which is no term".to_owned()),
        Json::List => return Err("is a list; an argument is one term".to_owned()),
    })
}

/// Reads a term of SPARQL 1.1 Query Results JSON.
fn term(members: Vec<(String, Json)>) -> Result<somersault::oxrdf::Term, String> {
    let (mut kind, mut value, mut language, mut datatype) = (None, None, None, None);
    for (name, member) in members {
        let Json::Text(text) = member else {
            return Err(format!(
                "has a member \"{}\" that is no string",
                shorten(&name)
            ));
        };
        let place = match name.as_str() {
            "type" => &mut kind,
            "value" => &mut value,
            "xml:lang" => &mut language,
            "datatype" => &mut datatype,
            _ => {
                return Err(format!(
                    "has the member \"{}\"; a term has \"type\", \"value\", \"xml:lang\" and \"datatype\"",
                    shorten(&name)
                ));
            }
        };
        *place = Some(text);
    }
    let value = value.ok_or("is a term without \"value\"")?;
    let iri = |text: String| {
        let shown = shorten(&text);
        NamedNode::new(text).map_err(|error| format!("has \"{shown}\", which is no IRI ({error})"))
    };
    match (kind.as_deref(), language, datatype) {
        (Some("uri"), None, None) => Ok(iri(value)?.into()),
        (Some("literal" | "typed-literal"), None, None) => {
            Ok(Literal::new_simple_literal(value).into())
        }
        (Some("literal" | "typed-literal"), None, Some(datatype)) => {
            Ok(Literal::new_typed_literal(value, iri(datatype)?).into())
        }
        (Some("literal"), Some(language), None) => {
            let literal = Literal::new_language_tagged_literal(value, &language);
            let literal = literal.map_err(|error| {
                format!("has the language \"{}\", which is none ({error})", shorten(&language))
            })?;
            Ok(literal.into())
        }
        (Some("bnode"), _, _) => Err("is a blank node; a call takes IRIs and literals".to_owned()),
        _ => Err(
            "is no term; write {\"type\": \"uri\", \"value\": …} or {\"type\": \"literal\", \"value\": …, \"datatype\" or \"xml:lang\": …}"
                .to_owned(),
        ),
    }
}

/// Reads a text that is one JSON value.
fn read(text: &str) -> Result<Json, String> {
    let mut parser = SliceJsonParser::new(text.as_bytes());
    let mut next = || {
        let event = parser.parse_next();
        event.map_err(|error| format!("it is not JSON: {error}"))
    };
    let first = next()?;
    let value = value(first, &mut next, 0)?;
    match next()? {
        JsonEvent::Eof => Ok(value),
        _ => Err("there is more behind the JSON value".to_owned()),
    }
}

fn value<'t>(
    event: JsonEvent<'t>,
    next: &mut impl FnMut() -> Result<JsonEvent<'t>, String>,
    depth: usize,
) -> Result<Json, String> {
    if depth > DEEPEST {
        return Err("it is nested too deeply".to_owned());
    }
    Ok(match event {
        JsonEvent::String(text) => Json::Text(text.into_owned()),
        JsonEvent::Number(digits) => Json::Number(digits.into_owned()),
        JsonEvent::Boolean(is_true) => Json::Boolean(is_true),
        JsonEvent::Null => Json::Null,
        JsonEvent::StartArray => {
            loop {
                match next()? {
                    JsonEvent::EndArray => break,
                    event => _ = value(event, next, depth + 1)?,
                }
            }
            Json::List
        }
        JsonEvent::StartObject => {
            let mut members: Vec<(String, Json)> = Vec::new();
            while let JsonEvent::ObjectKey(name) = next()? {
                let name = name.into_owned();
                if members.iter().any(|(known, _)| *known == name) {
                    return Err(format!("the member \"{}\" comes twice", shorten(&name)));
                }
                let event = next()?;
                members.push((name, value(event, next, depth + 1)?));
            }
            Json::Object(members)
        }
        _ => return Err("it is empty".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use somersault::oxrdf::Term;

    fn term_of(text: &str) -> String {
        match arguments(&format!("{{\"a\": {text}}}"))
            .expect(text)
            .remove(0)
            .1
        {
            Argument::Term(Term::Literal(literal)) => literal.to_string(),
            Argument::Term(term) => term.to_string(),
            Argument::Text(text) => text,
        }
    }

    #[test]
    fn values_and_terms_are_read() {
        const XSD: &str = "http://www.w3.org/2001/XMLSchema#";
        let cases = [
            ("1", format!("\"1\"^^<{XSD}integer>")),
            (
                "-12345678901234567890123",
                format!("\"-12345678901234567890123\"^^<{XSD}integer>"),
            ),
            ("1.50", format!("\"1.50\"^^<{XSD}decimal>")),
            ("1e3", format!("\"1e3\"^^<{XSD}double>")),
            ("true", format!("\"true\"^^<{XSD}boolean>")),
            ("\"urn:a\"", "urn:a".to_owned()),
            (
                "{\"type\": \"uri\", \"value\": \"urn:a\"}",
                "<urn:a>".to_owned(),
            ),
            (
                "{\"type\": \"literal\", \"value\": \"x\"}",
                "\"x\"".to_owned(),
            ),
            (
                "{\"type\": \"literal\", \"value\": \"x\", \"xml:lang\": \"de\"}",
                "\"x\"@de".to_owned(),
            ),
            (
                "{\"value\": \"2\", \"type\": \"literal\", \"datatype\": \"urn:d\"}",
                "\"2\"^^<urn:d>".to_owned(),
            ),
        ];
        for (text, term) in cases {
            assert_eq!(term_of(text), term, "{text}");
        }
    }

    #[test]
    fn what_is_no_argument_is_refused_with_the_reason() {
        for (text, said) in [
            ("", "not JSON"),
            ("[]", "are an object"),
            ("{\"a\": 1", "not JSON"),
            ("{\"a\": 1} 2", "not JSON"),
            ("{\"a\": 1, \"a\": 2}", "\"a\" comes twice"),
            ("{\"a\": null}", "\"a\" is null"),
            ("{\"a\": [1]}", "\"a\" is a list"),
            ("{\"a\": [[[[[[1]]]]]]}", "nested too deeply"),
            (
                "{\"a\": {\"type\": \"uri\", \"value\": \"a b\"}}",
                "which is no IRI",
            ),
            (
                "{\"a\": {\"type\": \"bnode\", \"value\": \"b\"}}",
                "blank node",
            ),
            ("{\"a\": {\"type\": \"uri\"}}", "without \"value\""),
            (
                "{\"a\": {\"type\": \"thing\", \"value\": \"b\"}}",
                "is no term",
            ),
            (
                "{\"a\": {\"type\": \"uri\", \"value\": 1}}",
                "that is no string",
            ),
        ] {
            let found = arguments(text).expect_err(text);
            assert!(found.contains(said), "{text}: {found}");
        }
    }

    #[test]
    fn lines_have_a_procedure_arguments_and_a_key() {
        let read =
            line("{\"key\": \"till/3\", \"call\": \"pay\", \"args\": {\"n\": 1}}").expect("a line");
        assert_eq!(
            (read.procedure.as_deref(), read.arguments.len()),
            (Some("pay"), 1)
        );
        assert!(read.key.is_some());
        assert!(line("{}").expect("no arguments").arguments.is_empty());
        for (text, said) in [
            ("1", "is an object"),
            ("{\"arg\": {}}", "\"arg\" is not known"),
            ("{\"key\": 7}", "\"key\" is not a string"),
            ("{\"key\": \"x\"}", "source/number"),
        ] {
            let Err(found) = line(text) else {
                panic!("{text}")
            };
            assert!(found.contains(said), "{text}: {found}");
        }
    }
}
