//! Reads `suite.json`: the stored data, the streams, the queries, and the paths of the answers. The
//! README of the test data describes the format.

use crate::error::ConformanceError;
use serde::Deserialize;
use std::io::Read;
use std::path::{Path, PathBuf};

/// One run as a `suite.json` describes it.
#[derive(Debug, Clone, Deserialize)]
pub struct Suite {
    /// The suite's name.
    pub name: String,
    /// The time that closes are counted from.
    #[serde(default)]
    pub t0_ms: i64,
    /// A batch interval that divides every window.
    pub batch_ms: i64,
    /// Statements from here on are not fed; every stream is advanced to here at the end.
    pub until_ms: i64,
    /// The namespace that bare names are resolved against.
    #[serde(default)]
    pub default_namespace: Option<String>,
    /// Files that are stored before anything streams.
    #[serde(default)]
    pub stored: Vec<StoredFile>,
    /// The streams.
    #[serde(default)]
    pub streams: Vec<StreamEntry>,
    /// Continuous queries.
    #[serde(default)]
    pub continuous: Vec<ContinuousEntry>,
    /// One-shot queries, asked at the snapshots that their answers have.
    #[serde(default)]
    pub oneshot: Vec<OneShotEntry>,
    /// The folder that the files are in.
    #[serde(skip)]
    pub folder: PathBuf,
}

/// A file of stored statements.
#[derive(Debug, Clone, Deserialize)]
pub struct StoredFile {
    /// The graph that they go to; `None` is the default graph.
    #[serde(default)]
    pub graph: Option<String>,
    /// The file, in a syntax that its name tells; `.gz` and `.zst` are unpacked.
    pub file: String,
}

/// A stream and its recording.
#[derive(Debug, Clone, Deserialize)]
pub struct StreamEntry {
    /// The stream's IRI.
    pub iri: String,
    /// The recording: `t_ms<TAB>triple .` per line.
    pub file: String,
    /// Whether all of it is absorbed (`true`) or nothing (`false`).
    #[serde(default)]
    pub timeless: Option<bool>,
    /// The predicates that are timing; everything else is absorbed.
    #[serde(default)]
    pub timing: Option<Vec<String>>,
    /// The graph that absorbs; `None` is the default graph.
    #[serde(default)]
    pub into: Option<String>,
}

/// A continuous query with its answers.
#[derive(Debug, Clone, Deserialize)]
pub struct ContinuousEntry {
    /// Its name in the answer file.
    pub name: String,
    /// The file with its text.
    pub query: String,
    /// The file with the text that derives the stream that it windows (REGISTER STREAM), if it is
    /// such a stream.
    #[serde(default)]
    pub over: Option<String>,
    /// The answer file.
    pub expected: String,
}

/// A one-shot query with its answers.
#[derive(Debug, Clone, Deserialize)]
pub struct OneShotEntry {
    /// Its name in the answer file.
    pub name: String,
    /// The file with its text.
    pub query: String,
    /// The graph that it reads by default.
    #[serde(default)]
    pub default_graph: Option<String>,
    /// The answer file.
    pub expected: String,
}

impl Suite {
    /// Reads a `suite.json`.
    pub fn read(path: &Path) -> Result<Self, ConformanceError> {
        let bytes = std::fs::read(path).map_err(|source| ConformanceError::Unreadable {
            path: path.to_owned(),
            source,
        })?;
        let mut suite: Self = serde_json::from_slice(&bytes)
            .map_err(|error| ConformanceError::broken(path, error.to_string()))?;
        suite.folder = path.parent().unwrap_or(Path::new("")).to_owned();
        if suite.t0_ms != 0 {
            let reason = format!(
                "t0_ms is {}; closes are counted from the Unix epoch, so only 0 can be run",
                suite.t0_ms
            );
            return Err(ConformanceError::broken(path, reason));
        }
        for stream in &suite.streams {
            if stream.timeless.is_none() && stream.timing.is_none() {
                let reason = format!(
                    "stream <{}> says neither `timeless` nor `timing`",
                    stream.iri
                );
                return Err(ConformanceError::broken(path, reason));
            }
        }
        Ok(suite)
    }

    /// A file of the suite.
    pub fn path(&self, file: &str) -> PathBuf {
        self.folder.join(file)
    }

    /// The text of a file of the suite.
    pub fn text(&self, file: &str) -> Result<String, ConformanceError> {
        let path = self.path(file);
        let mut text = String::new();
        open(&path)?
            .read_to_string(&mut text)
            .map_err(|source| ConformanceError::Unreadable { path, source })?;
        Ok(text)
    }
}

impl StreamEntry {
    /// The CREATE STREAM text. The stream has no idle time: a replay itself advances each stream.
    /// Its budget is wide, since a suite tests answers and not costs.
    pub fn declaration(&self, batch_ms: i64) -> String {
        let classification = match (&self.timing, self.timeless) {
            (Some(predicates), _) => {
                let list: Vec<String> = predicates
                    .iter()
                    .map(|predicate| format!("<{predicate}>"))
                    .collect();
                format!("TIMING ( {} )", list.join(" "))
            }
            (None, Some(true)) => "TIMELESS".to_owned(),
            (None, _) => "TIMING ALL".to_owned(),
        };
        let into = self
            .into
            .as_ref()
            .map_or_else(String::new, |graph| format!(" INTO GRAPH <{graph}>"));
        format!(
            "CREATE STREAM <{}> {classification}{into} BATCH {batch_ms}ms IDLE NEVER BUDGET {BUDGET_BYTES}",
            self.iri
        )
    }
}

/// The memory that the slices of one stream may take while a suite runs.
const BUDGET_BYTES: u64 = 8 << 30;

/// Opens a file and unpacks it if its name says that it is packed.
pub fn open(path: &Path) -> Result<Box<dyn Read>, ConformanceError> {
    let unreadable = |source| ConformanceError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let buffered = std::io::BufReader::with_capacity(1 << 16, file);
    Ok(match path.extension().and_then(|ending| ending.to_str()) {
        Some("gz") => Box::new(flate2::bufread::MultiGzDecoder::new(buffered)),
        Some("zst") => Box::new(zstd::Decoder::with_buffer(buffered).map_err(unreadable)?),
        _ => Box::new(buffered),
    })
}

/// The text of a query with another name in its REGISTER header, and whether it has one: every
/// entry of a suite is its own query, whatever name its text has.
pub fn renamed(text: &str, name: &str) -> (String, bool) {
    let mut words = words(text);
    let Some(at) = words
        .by_ref()
        .find(|word| text[word.clone()].eq_ignore_ascii_case("REGISTER"))
    else {
        return (text.to_owned(), false);
    };
    debug_assert!(!at.is_empty());
    match (words.next(), words.next()) {
        (Some(_kind), Some(old)) => (
            format!("{}{name}{}", &text[..old.start], &text[old.end..]),
            true,
        ),
        _ => (text.to_owned(), false),
    }
}

/// The variables that a query computes (`… AS ?v`): their numbers are compared by value.
pub fn computed_variables(text: &str) -> Vec<String> {
    let found: Vec<&str> = words(text).map(|word| &text[word]).collect();
    found
        .windows(2)
        .filter(|pair| pair[0].eq_ignore_ascii_case("AS"))
        .filter_map(|pair| pair[1].strip_prefix(['?', '$']))
        .map(str::to_owned)
        .collect()
}

/// The words of a query: runs without space or bracket, outside of comments, IRIs in one piece and
/// strings left out.
fn words(text: &str) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let start = at;
            match *bytes.get(at)? {
                b'#' => {
                    at += bytes[at..]
                        .iter()
                        .position(|byte| *byte == b'\n')
                        .unwrap_or(bytes.len() - at)
                }
                quote @ (b'"' | b'\'') => {
                    at += 1;
                    while at < bytes.len() && bytes[at] != quote {
                        at += if bytes[at] == b'\\' { 2 } else { 1 };
                    }
                    at += 1;
                }
                b'<' => {
                    let iri = bytes[at..]
                        .iter()
                        .position(|byte| matches!(byte, b'>' | b' ' | b'\n'));
                    at += iri.unwrap_or(bytes.len() - at - 1) + 1;
                    return Some(start..at);
                }
                byte if is_word(byte) => {
                    while at < bytes.len() && is_word(bytes[at]) {
                        at += 1;
                    }
                    return Some(start..at);
                }
                _ => at += 1,
            }
        }
    })
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || byte >= 0x80
        || matches!(byte, b'_' | b'-' | b'?' | b'$' | b':' | b'.')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_header_gets_another_name() {
        let (text, had) = renamed(
            "# REGISTER QUERY x\nPREFIX r: <http://e/REGISTER#>\nregister query Qc AS SELECT ?QUERY {}",
            "c1",
        );
        assert!(had);
        assert_eq!(
            text,
            "# REGISTER QUERY x\nPREFIX r: <http://e/REGISTER#>\nregister query c1 AS SELECT ?QUERY {}"
        );
        assert_eq!(
            renamed(
                "REGISTER QUERY <http://e/q> COMPUTED EVERY 2s AS ASK {}",
                "c1"
            )
            .0,
            "REGISTER QUERY c1 COMPUTED EVERY 2s AS ASK {}"
        );
        assert!(!renamed("SELECT ?s { ?s ?p \"REGISTER QUERY x\" }", "c1").1);
    }

    #[test]
    fn computed_variables_are_those_after_as() {
        let text = "SELECT ?a (AVG(?x) as ?mean) { BIND(\"AS ?no\" AS $b) } # AS ?comment";
        assert_eq!(computed_variables(text), ["mean", "b"]);
    }

    #[test]
    fn declarations_say_what_is_timing() {
        let mut stream = StreamEntry {
            iri: "http://e/s".into(),
            file: "s.tsv".into(),
            timeless: None,
            timing: Some(vec!["http://e/p".into()]),
            into: Some("http://e/g".into()),
        };
        assert!(stream.declaration(100).starts_with("CREATE STREAM <http://e/s> TIMING ( <http://e/p> ) INTO GRAPH <http://e/g> BATCH 100ms IDLE NEVER"));
        stream.timing = None;
        stream.timeless = Some(false);
        stream.into = None;
        assert!(
            stream
                .declaration(100)
                .starts_with("CREATE STREAM <http://e/s> TIMING ALL BATCH")
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = serde_json::from_slice::<Suite>(&bytes);
        }

        #[test]
        fn a_suite_with_other_bytes_in_it(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
            let mut bytes = include_bytes!("../../cases/windows/suite.json").to_vec();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            let _ = serde_json::from_slice::<Suite>(&bytes);
        }
    }
}
