//! Feeds arbitrary bytes to every reader of clients' bytes. No reader may panic, and where a
//! simpler reader of the same input exists, both must agree.

use crate::http::multipart;
use crate::http::negotiate::{Accept, RDF_OFFERS, RESULT_OFFERS};
use crate::http::nesting;
use crate::http::text::{Params, percent_decode, percent_encode, place, shorten};
use crate::routes::push;
use axum::http::{HeaderMap, HeaderValue, header};
use oxrdfio::{RdfFormat, RdfParser};
use proptest::prelude::*;
use somersault::{EventTime, StreamStatement, TimedLines};

/// Bytes in which the marks that the readers look for are frequent.
fn marked(marks: &'static [&'static str]) -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        prop::sample::select(marks).prop_map(|mark| mark.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

fn shown(statements: &[StreamStatement]) -> Vec<(i64, String)> {
    let shown = |s: &StreamStatement| (s.at.unwrap_or_default().0, s.quad.to_string());
    statements.iter().map(shown).collect()
}

/// A simpler reader of timed lines: it parses each line with a parser of its own.
fn timed_lines_dully(text: &str) -> Option<Vec<(i64, String)>> {
    let lines = text
        .split('\n')
        .map(|line| line.strip_suffix('\r').unwrap_or(line));
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let (time, statement) = line.split_once('\t')?;
            let mut quads = RdfParser::from_format(RdfFormat::NQuads).for_slice(statement);
            let quad = quads.next()?.ok()?;
            quads
                .next()
                .is_none()
                .then_some((time.parse().ok()?, quad.to_string()))
        })
        .collect()
}

fn line() -> impl Strategy<Value = String> {
    let statement = prop::sample::select(
        &[
            "<http://e/a> <http://e/p> <http://e/b> .",
            "_:a <http://e/p> \"x#\\t y\"@en .",
            "<http://e/a> <http://e/p> \"1\"^^<http://e/t> <http://e/g> .",
            "<http://e/a> <http://e/p> <<( <http://e/s> <http://e/p> \"o\" )>> . # said",
            "<http://e/a> <http://e/p> .",
            "<http://e/a> <http://e/p> <http://e/b> . <http://e/a> <http://e/p> <http://e/c> .",
            "# nothing",
            "",
        ][..],
    );
    let head = prop_oneof![
        8 => any::<i32>().prop_map(|time| format!("{time}\t")),
        1 => prop::sample::select(&["\t", "x\t", "1 ", "", " 1\t", "+1\t"][..]).prop_map(str::to_owned),
    ];
    let end = prop::sample::select(&["\n", "\r\n", "\n\n", "\n# comment\n"][..]);
    (head, statement, end).prop_map(|(head, statement, end)| format!("{head}{statement}{end}"))
}

proptest! {
    #[test]
    fn percent_encoding_round_trips(text in any::<String>()) {
        let encoded = percent_encode(&text);
        prop_assert!(encoded.is_ascii());
        prop_assert_eq!(percent_decode(&encoded, false).ok(), Some(text.clone()));
        prop_assert_eq!(percent_decode(&encoded, true).ok(), Some(text));
    }

    #[test]
    fn queries_and_headers_are_read_or_refused(text in any::<String>()) {
        let _ = Params::parse(&text);
        let _ = text.parse::<EventTime>();
        prop_assert!(shorten(&text).chars().count() <= 120);
        if let Ok(value) = HeaderValue::from_str(&text) {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, value);
            let accept = Accept::from_headers(&headers);
            for offer in RESULT_OFFERS {
                prop_assert!(accept.quality(offer.media_type) <= 1000);
            }
            let _ = accept.choose(RDF_OFFERS, "a graph");
        }
    }

    #[test]
    fn multipart_bodies_are_cut_or_refused(body in marked(&["--b", "--b--", "\r\n", "\n", ":", "Content-Type: text/turtle"])) {
        if let Ok(parts) = multipart::parts("multipart/form-data; boundary=b", &body) {
            let inside: usize = parts.iter().map(|part| part.content.len()).sum();
            prop_assert!(inside < body.len());
        }
    }

    #[test]
    fn nesting_is_measured_in_any_bytes(body in marked(&["<<(", ")>>", "<<", "\"", "'''", "\\", "#", "\n", "<", ">", "{", "]", "<!ENTITY a ", "&a;", "<!--", "<a>", "\"@context\":", "\"a\":\"b:c\",", "}"])) {
        let _ = nesting::check(&body, RdfFormat::Turtle);
        let _ = nesting::check(&body, RdfFormat::RdfXml);
        let _ = nesting::check(&body, RdfFormat::JsonLd { profile: oxrdfio::JsonLdProfileSet::empty() });
        let (line, column) = place(&body);
        prop_assert!(line >= 1 && column >= 1);
    }

    #[test]
    fn timed_lines_in_any_bytes(body in marked(&["1\t", "-7\t", "<http://e/a> ", "\"x\" ", ".", "\n", "\r\n", "#", "_:b "])) {
        let dull = push::timed_lines(&body, 100);
        if let Some(lines) = TimedLines::read(&body, 100) {
            let texts = lines.statements().map(|quad| quad.to_string());
            let read: Vec<_> = lines.times().map(|time| time.0).zip(texts).collect();
            prop_assert_eq!(dull.ok().map(|statements| shown(&statements)), Some(read));
        }
    }

    #[test]
    fn lines_read_in_one_pass_are_those_of_the_whole_document(lines in prop::collection::vec(line(), 0..8)) {
        let text = lines.concat();
        if let Some(lines) = TimedLines::read(text.as_bytes(), 100) {
            let texts = lines.statements().map(|quad| quad.to_string());
            let read: Vec<_> = lines.times().map(|time| time.0).zip(texts).collect();
            let dull = push::timed_lines(text.as_bytes(), 100).ok();
            prop_assert_eq!(dull.map(|statements| shown(&statements)), Some(read), "{}", text);
        }
    }

    #[test]
    fn timed_lines_are_those_of_the_dull_reader(lines in prop::collection::vec(line(), 0..8)) {
        let text = lines.concat();
        let clever = push::timed_lines(text.as_bytes(), 100).ok().map(|statements| shown(&statements));
        prop_assert_eq!(clever, timed_lines_dully(&text), "{}", text);
    }
}
