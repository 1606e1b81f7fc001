//! A case for a peer: files of the stored and the streamed statements, and the queries; and the
//! peer's report, line by line (`bench/peers/README.md`).

use super::Failure;
use super::stage::Stretch;
use crate::parties::peers::Installed;
use serde::Serialize;
use somersault::WindowInfo;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

/// A case for a peer. Paths are absolute.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Case {
    stored: Vec<CaseFile>,
    streams: Vec<CaseFile>,
    queries: Vec<CaseQuery>,
    until_ms: i64,
    limit_ms: u64,
    #[serde(skip)]
    folder: PathBuf,
}

#[derive(Debug, Clone, Serialize)]
struct CaseFile {
    iri: String,
    file: PathBuf,
}

#[derive(Debug, Clone, Serialize)]
struct CaseQuery {
    name: String,
    sparql: String,
    windows: Vec<CaseWindow>,
    first_close_ms: i64,
}

#[derive(Debug, Clone, Serialize)]
struct CaseWindow {
    stream: String,
    range_ms: i64,
    step_ms: i64,
}

impl Case {
    /// An empty case whose files go into a folder of this name.
    pub(super) fn within(data: &Path, name: &str) -> Result<Case, Failure> {
        let folder = crate::parties::peers::absolute(&data.join(name))?;
        fs::create_dir_all(&folder)?;
        Ok(Case {
            folder,
            ..Case::default()
        })
    }

    /// The end of the case, and the time limit of one query.
    pub(super) fn until(&mut self, until_ms: i64, limit: Duration) {
        self.until_ms = until_ms;
        self.limit_ms = limit.as_millis() as u64;
    }

    /// Stores a file that is there already.
    pub(super) fn store(&mut self, graph: &str, file: PathBuf) {
        self.stored.push(CaseFile {
            iri: graph.to_owned(),
            file,
        });
    }

    /// Stores the text of a reader.
    pub(super) fn store_text(&mut self, graph: &str, text: impl Read) -> Result<(), Failure> {
        let file = self.copy(&format!("stored-{}.nt", self.stored.len()), text)?;
        self.store(graph, file);
        Ok(())
    }

    /// Streams the text of a reader.
    pub(super) fn stream_text(&mut self, iri: &str, text: impl Read) -> Result<(), Failure> {
        let file = self.copy(&format!("stream-{}.tsv", self.streams.len()), text)?;
        self.streams.push(CaseFile {
            iri: iri.to_owned(),
            file,
        });
        Ok(())
    }

    /// Streams a stretch.
    pub(super) fn stream(&mut self, stretch: &Stretch, streams: &[String]) -> Result<(), Failure> {
        for (number, iri) in streams.iter().enumerate() {
            let file = self.folder.join(format!("stream-{number}.tsv"));
            let mut out = BufWriter::new(File::create(&file)?);
            for one in stretch.statements.iter().filter(|one| one.stream == number) {
                writeln!(out, "{}\t{} .", one.at.0, one.triple)?;
            }
            out.flush()?;
            self.streams.push(CaseFile {
                iri: iri.clone(),
                file,
            });
        }
        Ok(())
    }

    /// Adds a query, in the text that this engine registers.
    pub(super) fn ask(&mut self, name: &str, text: &str, windows: &[WindowInfo], first: i64) {
        let window = |info: &WindowInfo| {
            Some(CaseWindow {
                stream: info.stream.clone(),
                range_ms: info.range_ms?,
                step_ms: info.step_ms?,
            })
        };
        self.queries.push(CaseQuery {
            name: name.to_owned(),
            sparql: without_windows(text),
            windows: windows.iter().filter_map(window).collect(),
            first_close_ms: first,
        });
    }

    fn copy(&self, name: &str, mut text: impl Read) -> Result<PathBuf, Failure> {
        let file = self.folder.join(name);
        io::copy(&mut text, &mut File::create(&file)?)?;
        Ok(file)
    }

    /// Has a peer run the case; `each` receives each line of its report.
    pub(super) fn run(&self, peer: &Installed, mut each: impl FnMut(Said)) -> Result<(), Failure> {
        let path = self.folder.join("case.json");
        fs::write(&path, serde_json::to_string_pretty(self)?)?;
        let mut process = peer
            .streams_command(&path)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("its program did not run: {error}"))?;
        let output = process.stdout.take().ok_or("its program has no output")?;
        for line in BufReader::new(output).lines() {
            let line = line?;
            each(Said::read(&line).ok_or_else(|| format!("it said {line:?}"))?);
        }
        let ended = process.wait()?;
        if ended.success() {
            Ok(())
        } else {
            Err(format!("its program ended with {ended}").into())
        }
    }
}

/// One line of a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Said {
    Loaded {
        triples: u64,
        took: Duration,
    },
    Close {
        query: String,
        close_ms: i64,
        rows: u64,
        /// The hash of the rows, see [`super::bag`].
        hash: String,
        evaluation: Duration,
        windows: Duration,
    },
    Failed {
        query: String,
        reason: String,
    },
}

impl Said {
    fn read(line: &str) -> Option<Said> {
        let (first, rest) = line.split_once(' ')?;
        let words: Vec<&str> = rest.split(' ').collect();
        let nanoseconds = |text: &str| Some(Duration::from_nanos(text.parse().ok()?));
        match (first, &words[..]) {
            ("loaded", [triples, took]) => Some(Said::Loaded {
                triples: triples.parse().ok()?,
                took: nanoseconds(took)?,
            }),
            ("close", [query, close, rows, hash, evaluation, windows]) => Some(Said::Close {
                query: (*query).to_owned(),
                close_ms: close.parse().ok()?,
                rows: rows.parse().ok()?,
                hash: (*hash).to_owned(),
                evaluation: nanoseconds(evaluation)?,
                windows: nanoseconds(windows)?,
            }),
            ("failed", [query, reason @ ..]) => Some(Said::Failed {
                query: (*query).to_owned(),
                reason: reason.join(" "),
            }),
            _ => None,
        }
    }
}

/// The query as plain SPARQL: without its name and its windows, which have lines of their own in
/// the case.
fn without_windows(text: &str) -> String {
    let says_window = |line: &&str| {
        ["REGISTER ", "FROM ", "#"]
            .iter()
            .any(|first| line.trim_start().starts_with(first))
    };
    let lines = text.lines().filter(|line| !says_window(line));
    lines.fold(String::new(), |all, line| all + line + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_without_its_windows_is_sparql() {
        let text = "# Posts.\nREGISTER QUERY q AS\nPREFIX e: <http://e/>\nSELECT ?x\n\
                    FROM STREAM e:s [RANGE 1s STEP 100ms]\nFROM NAMED <http://e/g>\nWHERE {\n  GRAPH e:s { ?x ?p ?o }\n}\n";
        assert_eq!(
            without_windows(text),
            "PREFIX e: <http://e/>\nSELECT ?x\nWHERE {\n  GRAPH e:s { ?x ?p ?o }\n}\n"
        );
    }

    #[test]
    fn a_peers_report_is_read_or_refused() {
        let close = Said::Close {
            query: "L1".to_owned(),
            close_ms: 100,
            rows: 7,
            hash: "a0".to_owned(),
            evaluation: Duration::from_nanos(5),
            windows: Duration::from_nanos(6),
        };
        assert_eq!(Said::read("close L1 100 7 a0 5 6"), Some(close));
        let failed = Said::read("failed L2 over time");
        assert!(matches!(failed, Some(Said::Failed { reason, .. }) if reason == "over time"));
        for line in [
            "",
            "close",
            "close L1 100 7 5 6",
            "close L1 100 x a0 5 6",
            "hello you",
        ] {
            assert_eq!(Said::read(line), None, "{line}");
        }
    }
}
