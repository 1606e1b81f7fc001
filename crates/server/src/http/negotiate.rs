//! Content negotiation (RFC 9110, section 12): chooses the format that the client likes best. An
//! answer is labelled with its offer's media type, so an alias such as `application/json` is an
//! offer of its own, listed after the format's proper name.

use crate::http::error::ApiError;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use oxrdfio::{JsonLdProfileSet, RdfFormat};
use sparesults::QueryResultsFormat;

/// The parsed `Accept` header.
#[derive(Debug, Default)]
pub(crate) struct Accept {
    ranges: Vec<MediaRange>,
}

#[derive(Debug)]
struct MediaRange {
    main: String,
    sub: String,
    /// In thousandths: the grammar of `q` has at most three digits.
    quality: u16,
}

impl Accept {
    /// Reads all `Accept` lines together. If there are none, or none can be read, every format is
    /// acceptable.
    pub(crate) fn from_headers(headers: &HeaderMap) -> Accept {
        Accept::from_lines(headers.get_all(header::ACCEPT))
    }

    /// Like `from_headers`, but reads header values.
    pub(crate) fn from_lines<'a>(values: impl IntoIterator<Item = &'a HeaderValue>) -> Accept {
        let lines = (values.into_iter()).filter_map(|value| value.to_str().ok());
        Accept {
            ranges: lines.flat_map(split_list).filter_map(parse_range).collect(),
        }
    }

    /// Returns how welcome a media type (in lower case, without parameters) is, in thousandths: the
    /// quality of the most specific range that covers it.
    pub(crate) fn quality(&self, media_type: &str) -> u16 {
        if self.ranges.is_empty() {
            return 1000;
        }
        let (main, sub) = media_type.split_once('/').unwrap_or((media_type, ""));
        let specificity = |range: &&MediaRange| match (range.main == main, range.sub == sub) {
            (true, true) => 3,
            (true, false) if range.sub == "*" => 2,
            (false, _) if range.main == "*" && range.sub == "*" => 1,
            _ => 0,
        };
        self.ranges
            .iter()
            .filter(|range| specificity(range) > 0)
            .max_by_key(|range| (specificity(range), range.quality))
            .map_or(0, |range| range.quality)
    }

    /// Returns the best of `offers`, which are listed in the server's order of preference.
    ///
    /// # Errors
    /// 406 with the list of available formats.
    pub(crate) fn choose<F: Copy>(
        &self,
        offers: &[Offer<F>],
        what: &str,
    ) -> Result<Offer<F>, ApiError> {
        let mut best: Option<(u16, Offer<F>)> = None;
        for offer in offers {
            let quality = self.quality(offer.media_type);
            if quality > 0 && best.is_none_or(|(most, _)| quality > most) {
                best = Some((quality, *offer));
            }
        }
        best.map(|(_, offer)| offer).ok_or_else(|| {
            let available: Vec<&str> = offers.iter().map(|offer| offer.media_type).collect();
            ApiError::new(
                StatusCode::NOT_ACCEPTABLE,
                "not_acceptable",
                format!("None of the media types in the Accept header is available for {what}. Ask for one of those in \"available\", or leave Accept out."),
            )
            .detail("available", available)
        })
    }
}

/// A format under one of its media types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Offer<F> {
    pub(crate) media_type: &'static str,
    pub(crate) format: F,
}

const fn offer<F>(media_type: &'static str, format: F) -> Offer<F> {
    Offer { media_type, format }
}

impl<F> Offer<F> {
    /// Returns the `Content-Type` of an answer in this format. Text types name UTF-8, because it is
    /// not their default.
    pub(crate) fn content_type(&self) -> HeaderValue {
        if self.media_type.starts_with("text/") {
            HeaderValue::from_str(&format!("{}; charset=utf-8", self.media_type))
                .expect("media types are plain ASCII")
        } else {
            HeaderValue::from_static(self.media_type)
        }
    }
}

/// JSON-LD in any of its profiles.
pub(crate) const JSON_LD: RdfFormat = RdfFormat::JsonLd {
    profile: JsonLdProfileSet::empty(),
};

/// The format of a SELECT or ASK answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResultFormat {
    /// One of the formats of SPARQL.
    Sparql(QueryResultsFormat),
    /// A line of JSON for each row.
    Lines,
}

/// The media type of lines of JSON.
pub(crate) const JSON_LINES: &str = "application/x-ndjson";

const JSON: ResultFormat = ResultFormat::Sparql(QueryResultsFormat::Json);
const XML: ResultFormat = ResultFormat::Sparql(QueryResultsFormat::Xml);
const CSV: ResultFormat = ResultFormat::Sparql(QueryResultsFormat::Csv);
const TSV: ResultFormat = ResultFormat::Sparql(QueryResultsFormat::Tsv);

/// Formats of SELECT and ASK answers. The first is the default for clients without a preference.
pub(crate) const RESULT_OFFERS: &[Offer<ResultFormat>] = &[
    offer("application/sparql-results+json", JSON),
    offer("application/sparql-results+xml", XML),
    offer("text/csv", CSV),
    offer("text/tab-separated-values", TSV),
    offer("application/json", JSON),
    offer("application/xml", XML),
    offer("text/xml", XML),
    offer(JSON_LINES, ResultFormat::Lines),
    offer("text/plain", CSV),
];

/// Formats of CONSTRUCT and DESCRIBE answers, and of graphs.
pub(crate) const RDF_OFFERS: &[Offer<RdfFormat>] = &[
    offer("text/turtle", RdfFormat::Turtle),
    offer("application/n-triples", RdfFormat::NTriples),
    offer("application/rdf+xml", RdfFormat::RdfXml),
    offer("application/ld+json", JSON_LD),
    offer("application/trig", RdfFormat::TriG),
    offer("application/n-quads", RdfFormat::NQuads),
    offer("text/n3", RdfFormat::N3),
    offer("application/json", JSON_LD),
    offer("application/xml", RdfFormat::RdfXml),
    offer("text/plain", RdfFormat::NTriples),
];

/// Formats of the whole dataset, which is written while it is sent.
pub(crate) const STORE_OFFERS: &[Offer<RdfFormat>] = &[
    offer("application/trig", RdfFormat::TriG),
    offer("application/n-quads", RdfFormat::NQuads),
    offer("text/plain", RdfFormat::NQuads),
];

/// Formats of the answers of a CONSTRUCT with GRAPH in its template.
pub(crate) const DATASET_OFFERS: &[Offer<RdfFormat>] = &[
    offer("application/trig", RdfFormat::TriG),
    offer("application/n-quads", RdfFormat::NQuads),
    offer("application/ld+json", JSON_LD),
    offer("application/json", JSON_LD),
    offer("text/plain", RdfFormat::NQuads),
];

/// Formats of RDF in a request's body.
pub(crate) const RDF_INPUT: &[Offer<RdfFormat>] = &[
    offer("application/n-triples", RdfFormat::NTriples),
    offer("text/turtle", RdfFormat::Turtle),
    offer("application/n-quads", RdfFormat::NQuads),
    offer("application/trig", RdfFormat::TriG),
    offer("application/ld+json", JSON_LD),
    offer("application/rdf+xml", RdfFormat::RdfXml),
    offer("text/n3", RdfFormat::N3),
];

/// Formats of a push's statements, beside timed lines.
pub(crate) const PUSH_INPUT: &[Offer<RdfFormat>] = &[
    offer("application/n-triples", RdfFormat::NTriples),
    offer("text/turtle", RdfFormat::Turtle),
    offer("application/n-quads", RdfFormat::NQuads),
    offer("application/trig", RdfFormat::TriG),
    offer("application/ld+json", JSON_LD),
];

/// Returns the format of a request's body, by its media type without parameters. Accepts proper
/// names only: in a request, `application/json` or `text/plain` says too little to guess from.
pub(crate) fn format_of(known: &[Offer<RdfFormat>], essence: &str) -> Option<RdfFormat> {
    known
        .iter()
        .find(|offer| offer.media_type == essence)
        .map(|offer| offer.format)
}

/// Returns `type/subtype` in lower case, without parameters.
pub(crate) fn essence(media_type: &str) -> String {
    media_type
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase()
}

/// Returns the value of a media type's parameter, unquoted: `charset` of
/// `text/turtle; charset="utf-8"`.
pub(crate) fn parameter<'a>(media_type: &'a str, name: &str) -> Option<&'a str> {
    media_type.split(';').skip(1).find_map(|part| {
        let (key, value) = part.split_once('=')?;
        key.trim()
            .eq_ignore_ascii_case(name)
            .then(|| value.trim().trim_matches('"'))
    })
}

/// Splits at commas that are not inside a quoted parameter.
fn split_list(line: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    line.split(move |c: char| {
        quoted ^= c == '"';
        c == ',' && !quoted
    })
}

/// Parses one element of `Accept`. A malformed element is left out, as the RFC allows; a malformed
/// `q` is ignored.
fn parse_range(element: &str) -> Option<MediaRange> {
    let essence = essence(element);
    let (main, sub) = essence.split_once('/')?;
    if main.is_empty() || sub.is_empty() || (main == "*" && sub != "*") {
        return None;
    }
    let quality = match parameter(element, "q") {
        None => 1000,
        Some(q) => q
            .parse::<f32>()
            .ok()
            .filter(|q| (0.0..=1.0).contains(q))
            .map(|q| (q * 1000.0).round() as u16)?,
    };
    Some(MediaRange {
        main: main.to_owned(),
        sub: sub.to_owned(),
        quality,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accept(lines: &[&str]) -> Accept {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(header::ACCEPT, line.parse().expect("a valid header value"));
        }
        Accept::from_headers(&headers)
    }

    fn chosen(lines: &[&str]) -> Option<&'static str> {
        accept(lines)
            .choose(RESULT_OFFERS, "the answer")
            .ok()
            .map(|offer| offer.media_type)
    }

    #[test]
    fn the_most_specific_range_decides() {
        let accept = accept(&["text/*;q=0.3, text/turtle;q=0.7, text/turtle;level=1, */*;q=0.5"]);
        assert_eq!(accept.quality("text/turtle"), 1000);
        assert_eq!(accept.quality("text/csv"), 300);
        assert_eq!(accept.quality("application/json"), 500);
    }

    #[test]
    fn quality_then_the_servers_order() {
        assert_eq!(chosen(&[]), Some("application/sparql-results+json"));
        assert_eq!(chosen(&["*/*"]), Some("application/sparql-results+json"));
        assert_eq!(
            chosen(&["text/csv;q=0.5, application/sparql-results+xml;q=0.9"]),
            Some("application/sparql-results+xml")
        );
        assert_eq!(
            chosen(&["text/csv", "application/sparql-results+xml;q=0.9"]),
            Some("text/csv")
        );
        assert_eq!(chosen(&["application/json"]), Some("application/json"));
        assert_eq!(chosen(&["text/*"]), Some("text/csv"));
        assert_eq!(
            chosen(&["application/sparql-results+json;q=0, */*;q=0.1"]),
            Some("application/sparql-results+xml")
        );
    }

    #[test]
    fn unreadable_media_types_are_ignored() {
        assert_eq!(chosen(&["nonsense, text/csv"]), Some("text/csv"));
        assert_eq!(
            chosen(&["text/csv;q=high, application/json;q=0.1"]),
            Some("application/json")
        );
        assert_eq!(chosen(&["image/png"]), None);
        assert_eq!(chosen(&["text/csv;q=0"]), None);
        assert_eq!(
            chosen(&["application/ld+json;profile=\"a,b\", text/csv"]),
            Some("text/csv")
        );
    }

    #[test]
    fn every_rdf_format_can_be_asked_for_and_sent() {
        for offer in RDF_INPUT {
            assert_eq!(format_of(RDF_INPUT, offer.media_type), Some(offer.format));
            assert!(
                RDF_OFFERS
                    .iter()
                    .any(|out| out.media_type == offer.media_type)
            );
        }
        assert_eq!(
            parameter("text/turtle; Charset=\"utf-8\"", "charset"),
            Some("utf-8")
        );
    }
}
