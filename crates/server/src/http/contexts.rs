//! Limits how far the terms of a JSON-LD context depend on each other, and how often a document
//! makes the parser copy its terms. The parser defines a term after the terms that it is made of,
//! and recurses for that. Without this check a context of a few hundred kilobytes, each term of
//! which is made of the next one, overflows a thread's stack, which ends the process. The parser
//! copies all terms at each further context, so its time is quadratic in the size of the document.
//!
//! The tokenizer is the one that the JSON-LD parser uses, so both see the same contexts. Where the
//! text is not JSON the check ends, because the parser ends there as well.

use crate::http::error::{ApiError, ApiResult};
use json_event_parser::{JsonEvent, LowLevelJsonParser};
use std::collections::{HashMap, HashSet};

/// Terms of a context that may depend on each other in a row.
const TERMS_IN_A_ROW: usize = 64;
/// Terms that the parser may copy for one document: some seconds of its time.
const COPIED_TERMS: usize = 100_000_000;

/// The definitions of one context.
#[derive(Debug, Default)]
struct Context {
    /// The position of its first byte.
    start: usize,
    /// The term that is being read.
    term: String,
    /// The texts of which each term is made.
    definitions: HashMap<String, Vec<String>>,
}

#[derive(Debug)]
enum Frame {
    /// An object or array outside of contexts, with the number of terms that its contexts define.
    Other(usize),
    /// A list of contexts.
    List,
    Context(Context),
    /// A part of the definition of the term of the innermost context.
    Definition,
}

/// The state of a check.
struct Check<'a> {
    bytes: &'a [u8],
    frames: Vec<Frame>,
    /// Terms that the contexts of the open objects define.
    active: usize,
    /// Terms with contexts of their own, which are entered at each use of the term.
    scoped: HashSet<String>,
    copied: usize,
}

/// Checks the contexts of a document.
///
/// # Errors
/// 400 with the position of a context whose terms depend on each other too far, or at which the
/// parser would have copied too many terms.
pub(crate) fn check(bytes: &[u8]) -> ApiResult<()> {
    let is_there = |text: &[u8]| memchr::memmem::find(bytes, text).is_some();
    // A key may also be written with escapes.
    if !is_there(b"@context") && !is_there(b"\\u") {
        return Ok(());
    }
    let mut parser = LowLevelJsonParser::new();
    let (mut at, mut is_context_next) = (0, false);
    let mut check = Check {
        bytes,
        frames: Vec::new(),
        active: 0,
        scoped: HashSet::new(),
        copied: 0,
    };
    loop {
        let next = parser.parse_next(&bytes[at..], true);
        at += next.consumed_bytes;
        let event = match next.event {
            None => continue,
            Some(Err(_)) | Some(Ok(JsonEvent::Eof)) => return Ok(()),
            Some(Ok(event)) => event,
        };
        let follows_key = std::mem::take(&mut is_context_next);
        match event {
            JsonEvent::ObjectKey(key) => {
                is_context_next = key == "@context";
                check.key(&key, at)?;
            }
            JsonEvent::StartObject => check.open(follows_key, at, true),
            JsonEvent::StartArray => check.open(follows_key, at, false),
            JsonEvent::EndArray => drop(check.frames.pop()),
            JsonEvent::EndObject => check.close()?,
            JsonEvent::String(text) => check.text(&text, at)?,
            _ => {}
        }
    }
}

impl Check<'_> {
    fn open(&mut self, follows_key: bool, at: usize, is_object: bool) {
        let frame = opened(self.frames.last(), follows_key, at, is_object);
        if let (Frame::Context(_), Some(term)) = (&frame, self.term()) {
            self.scoped.insert(term);
        }
        self.frames.push(frame);
    }

    /// The term that is being defined, inside of a definition.
    fn term(&self) -> Option<String> {
        let frames = self.frames.iter().rev();
        let mut around =
            frames.skip_while(|frame| matches!(frame, Frame::Definition | Frame::List));
        match around.next() {
            Some(Frame::Context(context)) => Some(context.term.clone()),
            _ => None,
        }
    }

    fn key(&mut self, key: &str, at: usize) -> ApiResult<()> {
        match self.frames.last_mut() {
            Some(Frame::Context(context)) => {
                context.term = key.to_owned();
                context.definitions.entry(key.to_owned()).or_default();
                Ok(())
            }
            Some(Frame::Other(_)) => self.used(key, at),
            _ => Ok(()),
        }
    }

    fn text(&mut self, text: &str, at: usize) -> ApiResult<()> {
        let innermost =
            (self.frames.iter_mut().rev()).find(|frame| !matches!(frame, Frame::Definition));
        match innermost {
            Some(Frame::Context(context)) => {
                context.add(text.to_owned());
                Ok(())
            }
            // The name of a type may be a term.
            _ => self.used(text, at),
        }
    }

    fn close(&mut self) -> ApiResult<()> {
        match self.frames.pop() {
            Some(Frame::Context(context)) => {
                context.check(self.bytes)?;
                let owner = self.frames.iter_mut().rev().find_map(|frame| match frame {
                    Frame::Other(terms) => Some(terms),
                    _ => None,
                });
                let terms = context.definitions.len();
                if let Some(owner) = owner {
                    *owner += terms;
                    self.active += terms;
                }
                self.copy(context.start)
            }
            Some(Frame::Other(terms)) => {
                self.active -= terms;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Notes the use of a name, which may be a term with a context of its own.
    fn used(&mut self, name: &str, at: usize) -> ApiResult<()> {
        if self.scoped.contains(name) {
            self.copy(at)?;
        }
        Ok(())
    }

    fn copy(&mut self, at: usize) -> ApiResult<()> {
        self.copied = self.copied.saturating_add(self.active);
        if self.copied <= COPIED_TERMS {
            return Ok(());
        }
        let what = "the contexts of the document, taken with the terms around them, have too many terms up to here; define the terms once, at the top";
        Err(refused(self.bytes, at, what))
    }
}

fn refused(bytes: &[u8], at: usize, what: &str) -> ApiError {
    let (line, column) = crate::http::text::place(&bytes[..at]);
    let message =
        format!("line {line}, column {column} of the data: {what}. Nothing of the body was taken.");
    ApiError::bad_request("nested_too_deeply", message).at(line, column)
}

fn opened(parent: Option<&Frame>, follows_key: bool, at: usize, is_object: bool) -> Frame {
    let is_context = follows_key || matches!(parent, Some(Frame::List));
    match parent {
        _ if is_context && is_object => Frame::Context(Context {
            start: at.saturating_sub(1),
            ..Context::default()
        }),
        _ if is_context => Frame::List,
        Some(Frame::Context(_) | Frame::Definition) => Frame::Definition,
        _ => Frame::Other(0),
    }
}

/// The terms of which a text may be made: the whole text, and what stands before a colon.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let unnamed = text.strip_prefix(':').unwrap_or(text);
    let prefixes = [text, unnamed].map(|text| text.split_once(':').map(|(prefix, _)| prefix));
    [Some(text)].into_iter().chain(prefixes).flatten()
}

impl Context {
    fn add(&mut self, text: String) {
        if let Some(texts) = self.definitions.get_mut(&self.term) {
            texts.push(text);
        }
    }

    /// Returns for each term the terms that it depends on, by their numbers.
    fn dependencies(&self) -> Vec<Vec<usize>> {
        let numbers: HashMap<&str, usize> = (self.definitions.keys().zip(0..))
            .map(|(term, number)| (term.as_str(), number))
            .collect();
        let of_term = |(term, texts): (&String, &Vec<String>)| {
            let all = texts.iter().chain([term]);
            let named = all.flat_map(|text| parts(text));
            let mut found: Vec<usize> = named
                .filter(|part| part != term)
                .filter_map(|part| numbers.get(part).copied())
                .collect();
            found.sort_unstable();
            found.dedup();
            found
        };
        self.definitions.iter().map(of_term).collect()
    }

    fn check(&self, bytes: &[u8]) -> ApiResult<()> {
        let mut dependencies = self.dependencies();
        let mut waiting: Vec<usize> = (0..dependencies.len()).collect();
        // Each round removes the terms that depend on no remaining one. Terms of a circle remain.
        for _ in 0..TERMS_IN_A_ROW {
            let before = waiting.len();
            let mut is_left = vec![false; dependencies.len()];
            for &term in &waiting {
                is_left[term] = !dependencies[term].is_empty();
            }
            waiting.retain(|&term| is_left[term]);
            for &term in &waiting {
                dependencies[term].retain(|&other| is_left[other]);
            }
            if waiting.len() == before {
                break;
            }
        }
        if waiting.len() <= TERMS_IN_A_ROW {
            return Ok(());
        }
        let what = format!(
            "more than {TERMS_IN_A_ROW} terms of this context depend on each other in a row"
        );
        Err(refused(bytes, self.start, &what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(terms: usize) -> String {
        let terms: Vec<String> = (0..terms)
            .map(|term| format!("\"a{term}\":\"a{}:x\"", term + 1))
            .collect();
        terms.join(",")
    }

    #[test]
    fn long_chains_are_refused_wherever_the_context_stands() {
        for context in [
            "{\"@context\":{CHAIN}}",
            "{\"a\":1,\n \"@context\":[\"x\",{CHAIN}]}",
            "{\"\\u0040context\":{CHAIN}}",
            "{\"@context\":{\"p\":{\"@id\":\"http://e/p\",\"@context\":{CHAIN}}}}",
            "[{\"x\":[{\"@context\":{CHAIN}}]}]",
            "{\"@context\":{\"@context\":{CHAIN}}}",
        ] {
            let of = |terms| context.replace("CHAIN", &chain(terms));
            assert!(check(of(TERMS_IN_A_ROW).as_bytes()).is_ok(), "{context}");
            let error = check(of(3 * TERMS_IN_A_ROW).as_bytes()).expect_err(context);
            assert_eq!(error.to_json()["code"], "nested_too_deeply", "{context}");
        }
    }

    #[test]
    fn every_form_of_a_dependency_counts() {
        let forms: [fn(usize) -> String; 5] = [
            |term| format!("\"a{term}\":{{\"@id\":\"a{}:x\"}}", term + 1),
            |term| {
                format!(
                    "\"a{term}\":{{\"@type\":\"a{}\",\"@id\":\"http://e/\"}}",
                    term + 1
                )
            },
            |term| format!("\"a{term}\":{{\"@reverse\":[\"a{}\"]}}", term + 1),
            |term| format!("\"a{term}\":\"a{}\"", term + 1),
            |term| format!("\"a{term}\":\":a{}:x\"", term + 1),
        ];
        for form in forms {
            let terms: Vec<String> = (0..1000).map(form).collect();
            let text = format!("{{\"@context\":{{{}}}}}", terms.join(","));
            assert!(check(text.as_bytes()).is_err(), "{}", form(0));
        }
        let keys: Vec<String> = (0..1000)
            .map(|term| format!("\"{}\":null", "a:".repeat(term + 1)))
            .collect();
        let circle = format!("{},\"a1000\":\"a0:x\"", chain(1000));
        assert!(check(format!("{{\"@context\":{{{circle}}}}}").as_bytes()).is_err());
        // All of these have one prefix.
        let flat = format!("{{\"@context\":{{{}}}}}", keys.join(","));
        assert!(check(flat.as_bytes()).is_ok());
    }

    #[test]
    fn contexts_that_are_copied_too_often_are_refused() {
        let defined = |terms: usize| {
            let terms: Vec<String> = (0..terms)
                .map(|term| format!("\"t{term}\":\"http://e/{term}\""))
                .collect();
            terms.join(",")
        };
        let document = |terms: usize, nodes: &str, count: usize| {
            let nodes = vec![nodes; count].join(",");
            format!(
                "{{\"@context\":{{{},\"p\":{{\"@id\":\"http://e/p\",\"@context\":{{}}}}}},\"@graph\":[{nodes}]}}",
                defined(terms)
            )
        };
        for node in [
            "{\"@context\":{\"z\":\"http://e/z\"},\"z\":1}",
            "{\"@context\":[{}],\"z\":1}",
            "{\"p\":1}",
            "{\"@type\":\"p\"}",
        ] {
            assert!(
                check(document(10_000, node, 11_000).as_bytes()).is_err(),
                "{node}"
            );
            // Many terms and few contexts, or few terms and many contexts.
            assert!(
                check(document(10_000, node, 100).as_bytes()).is_ok(),
                "{node}"
            );
            assert!(
                check(document(100, node, 5_000).as_bytes()).is_ok(),
                "{node}"
            );
        }
        // The terms of one node are not those of the next.
        let own = format!("{{\"@context\":{{{}}}}}", defined(10));
        let beside = format!("[{}]", vec![own; 5_000].join(","));
        assert!(check(beside.as_bytes()).is_ok());
    }

    #[test]
    fn usual_contexts_are_taken() {
        let terms: Vec<String> = (0..5000)
            .map(|term| {
                format!("\"name{term}\":{{\"@id\":\"schema:name{term}\",\"@type\":\"xsd:string\"}}")
            })
            .collect();
        let text = format!(
            "{{\"@context\":{{\"schema\":\"http://schema.org/\",\"xsd\":\"http://www.w3.org/2001/XMLSchema#\",{}}},\"name1\":\"x\"}}",
            terms.join(",")
        );
        assert!(check(text.as_bytes()).is_ok());
        for torn in [
            "{\"@context\":",
            "{\"@context\":{\"a\":\"b",
            "\"@context\"",
            "@context",
            "{\"@context\":{]",
        ] {
            assert!(check(torn.as_bytes()).is_ok(), "{torn}");
        }
    }
}
