//! NDJSON-LD: each line is a message, or the context of the lines behind it.
//!
//! A context line is put in front of the message's own context, as the first of a list of contexts
//! (JSON-LD 1.1, section 4.1), by members' texts: no number and no text of the message is changed.

use super::syntax::{Fault, Statements};
use crate::contexts::Contexts;
use oxjsonld::{JsonLdParser, JsonLdRemoteDocument, JsonLdSyntaxError};
use oxrdf::Quad;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// Values nested deeper than this are refused: reading them recurses.
const DEEPEST: usize = 64;

/// What a line holds.
pub(super) enum JsonLine {
    /// A message.
    Statements(Vec<Quad>),
    /// A context, or nothing.
    Nothing,
}

/// The context of the messages that come.
#[derive(Debug, Default)]
pub(super) struct JsonReader {
    context: Option<String>,
    /// Those that messages may name.
    contexts: Contexts,
}

/// The members of an object with their texts, in order.
struct Members<'t>(Vec<(String, &'t RawValue)>);

impl<'t> Deserialize<'t> for Members<'t> {
    fn deserialize<D: Deserializer<'t>>(deserializer: D) -> Result<Members<'t>, D::Error> {
        struct OfMembers;
        impl<'t> Visitor<'t> for OfMembers {
            type Value = Members<'t>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'t>>(self, mut map: M) -> Result<Members<'t>, M::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(OfMembers)
    }
}

impl JsonReader {
    /// At the beginning of a text whose messages may name these contexts.
    pub(super) fn new(contexts: &Contexts) -> JsonReader {
        JsonReader {
            context: None,
            contexts: contexts.clone(),
        }
    }

    /// Reads a line.
    pub(super) fn read(&mut self, line: &[u8], most: usize) -> Result<JsonLine, Fault> {
        let text = std::str::from_utf8(line).map_err(|fault| {
            let column = text_columns(&line[..fault.valid_up_to()]);
            Fault::at(0, column, "the line is no UTF-8; encode it so")
        })?;
        if text.trim().is_empty() {
            return Ok(JsonLine::Nothing);
        }
        check_depth(text)?;
        let objects = objects(text)?;
        if let [Members(members)] = objects.as_slice()
            && let [(name, context)] = members.as_slice()
            && name == "@context"
            && text.trim_start().starts_with('{')
        {
            self.context = Some(context.get().to_owned());
            return Ok(JsonLine::Nothing);
        }
        let statements = match &self.context {
            None => read_document(text, true, &self.contexts, most),
            Some(context) => in_context(text, &objects, context, &self.contexts, most),
        };
        statements.map(JsonLine::Statements)
    }
}

/// Reads a document below a context, which is given as JSON.
pub(crate) fn read_in_context(
    text: &[u8],
    context: &str,
    contexts: &Contexts,
    most: usize,
) -> Result<Vec<Quad>, Fault> {
    let text = std::str::from_utf8(text)
        .map_err(|_| Fault::new("the document is no UTF-8; encode it so"))?;
    check_depth(text)?;
    in_context(text, &objects(text)?, context, contexts, most)
}

/// Reads the objects of a text below a context.
fn in_context(
    text: &str,
    objects: &[Members<'_>],
    context: &str,
    contexts: &Contexts,
    most: usize,
) -> Result<Vec<Quad>, Fault> {
    let documents = objects.iter().map(|object| object.in_context(context));
    let documents = documents.collect::<Vec<String>>().join(",");
    match text.trim_start().starts_with('[') {
        true => read_document(&format!("[{documents}]"), false, contexts, most),
        false => read_document(&documents, false, contexts, most),
    }
}

impl Members<'_> {
    /// The object with a context in front of its own.
    fn in_context(&self, context: &str) -> String {
        let own = self.0.iter().filter(|(name, _)| name == "@context");
        let contexts: Vec<&str> = own.map(|(_, own)| own.get()).collect();
        let mut out = match contexts.as_slice() {
            [] => format!("{{\"@context\":{context}"),
            own => format!("{{\"@context\":[{context},{}]", own.join(",")),
        };
        for (name, value) in self.0.iter().filter(|(name, _)| name != "@context") {
            let name = serde_json::to_string(name).expect("a string is written as JSON");
            out += &format!(",{name}:{}", value.get());
        }
        out + "}"
    }
}

/// The object of a line, or the objects of its array.
fn objects(text: &str) -> Result<Vec<Members<'_>>, Fault> {
    let objects = match text.trim_start().starts_with('[') {
        true => serde_json::from_str(text),
        false => serde_json::from_str(text).map(|object| vec![object]),
    };
    objects.map_err(|error| {
        let line = (error.line() as u64).saturating_sub(1);
        let column = (error.column() as u64).saturating_sub(1);
        let reason = format!("this is no JSON-LD object, nor an array of objects ({error}); correct it and send it again");
        Fault::at(line, column, reason)
    })
}

fn read_document(
    text: &str,
    has_places: bool,
    contexts: &Contexts,
    most: usize,
) -> Result<Vec<Quad>, Fault> {
    let mut read = Statements::new(most);
    let contexts = contexts.clone();
    let parser = JsonLdParser::new().for_slice(text);
    for quad in parser.with_load_document_callback(move |url, _| {
        Ok(JsonLdRemoteDocument {
            document: contexts.load(url)?,
            document_url: url.to_owned(),
        })
    }) {
        read.take(quad.map_err(|error| fault(&error, has_places)));
        if read.has_fault() {
            break;
        }
    }
    read.end()
}

fn fault(error: &JsonLdSyntaxError, has_places: bool) -> Fault {
    let reason = format!("{error}; correct the message and send it again");
    match error.location().filter(|_| has_places) {
        Some(place) => Fault::at(0, place.start.column, reason),
        None => Fault::new(reason),
    }
}

/// Refuses values nested too deep.
fn check_depth(text: &str) -> Result<(), Fault> {
    let (mut depth, mut in_text, mut is_escaped) = (0usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_text => is_escaped = true,
            b'"' => in_text = !in_text,
            _ if in_text => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEEPEST {
            let column = text_columns(&text.as_bytes()[..at]);
            let reason = format!("values are nested more than {DEEPEST} deep; flatten the message");
            return Err(Fault::at(0, column, reason));
        }
    }
    Ok(())
}

/// The number of characters of a beginning of a line.
fn text_columns(bytes: &[u8]) -> u64 {
    String::from_utf8_lossy(bytes).chars().count() as u64
}
