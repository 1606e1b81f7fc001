//! CityBench as the test data has it: the stored data, the streams, the queries, and the number of
//! rows at each close.

use super::Failure;
use crate::oneshot::workload::test_data;
use flate2::read::MultiGzDecoder;
use serde::Deserialize;
use somersault::oxrdf::NamedNode;
use somersault::replay::{ReplayPlan, StreamFile};
use somersault::{Engine, EventTime, LoadOptions, RdfFormat};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

/// CityBench. Paths are as seen from `folder`.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Suite {
    #[serde(skip)]
    folder: PathBuf,
    batch_ms: i64,
    until_ms: i64,
    pub(crate) stored: Vec<StoredFile>,
    pub(crate) streams: Vec<SuiteStream>,
    pub(crate) continuous: Vec<SuiteQuery>,
}

/// A graph that is stored.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct StoredFile {
    pub(crate) graph: String,
    file: PathBuf,
}

/// A recorded stream.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct SuiteStream {
    pub(crate) iri: String,
    file: PathBuf,
}

/// A query with its answers.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct SuiteQuery {
    pub(crate) name: String,
    query: PathBuf,
    expected: PathBuf,
}

/// One line of the answers.
#[derive(Deserialize)]
struct Expected {
    close_ms: i64,
    n: u64,
}

impl Suite {
    /// The suite of this file within the test data's CityBench; a sentence where it is not there.
    pub(crate) fn read(file: &str) -> Result<Suite, Failure> {
        let folder = test_data().join("citybench");
        let path = folder.join(file);
        let text = fs::read_to_string(&path).map_err(|_| {
            format!(
                "skipped: no test data ({} is not there; set SOMERSAULT_TESTDATA)",
                path.display()
            )
        })?;
        let mut suite: Suite = serde_json::from_str(&text)
            .map_err(|error| format!("{} is not a suite: {error}", path.display()))?;
        suite.folder = folder;
        Ok(suite)
    }

    /// The streams' recordings, played second by second.
    pub(crate) fn plan(&self) -> ReplayPlan {
        let file = |stream: &SuiteStream| StreamFile {
            stream: stream.iri.clone(),
            path: self.folder.join(&stream.file),
        };
        ReplayPlan {
            files: self.streams.iter().map(file).collect(),
            batch_ms: self.batch_ms,
            until: Some(EventTime(self.until_ms)),
            snapshots: Vec::new(),
        }
    }

    /// Loads the stored data and declares the streams. Returns the number of stored triples.
    pub(crate) fn prepare(&self, engine: &Engine) -> Result<u64, Failure> {
        let mut triples = 0;
        for stored in &self.stored {
            let options = LoadOptions {
                graph: Some(NamedNode::new(&stored.graph)?),
                ..LoadOptions::default()
            };
            let text = self.unpacked(&stored.file)?;
            triples = engine.load(text, RdfFormat::NTriples, options)?.stored;
        }
        for stream in &self.streams {
            let (iri, batch_ms) = (&stream.iri, self.batch_ms);
            let text = format!("CREATE STREAM <{iri}> TIMING ALL BATCH {batch_ms}ms IDLE NEVER");
            engine.create_stream(None, &text)?;
        }
        Ok(triples)
    }

    /// The text of a query.
    pub(crate) fn text(&self, query: &SuiteQuery) -> Result<String, Failure> {
        let path = self.folder.join(&query.query);
        fs::read_to_string(&path)
            .map_err(|error| format!("{} cannot be read: {error}", path.display()).into())
    }

    /// The rows of each close of a query; a close that is missing has none.
    pub(crate) fn rows(&self, query: &SuiteQuery) -> Result<BTreeMap<i64, u64>, Failure> {
        let lines = BufReader::new(self.unpacked(&query.expected)?).lines();
        lines
            .map(|line| {
                let expected: Expected = serde_json::from_str(&line?)?;
                Ok((expected.close_ms, expected.n))
            })
            .collect()
    }

    /// A stored file, for a peer that reads it itself.
    pub(crate) fn unpacked(&self, file: &Path) -> Result<MultiGzDecoder<File>, Failure> {
        let path = self.folder.join(file);
        let opened = File::open(&path)
            .map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
        Ok(MultiGzDecoder::new(opened))
    }
}

/// The path, as seen from the suite.
impl StoredFile {
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }
}

/// The path, as seen from the suite.
impl SuiteStream {
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }
}
