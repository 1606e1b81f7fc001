//! The results of runs: one JSON file for each workload under `bench/results`, from which the
//! tables and the check of targets are made.

use crate::harness::contender::Figure;
use crate::harness::machine::Machine;
use crate::parties::ours;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The figures of one workload.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) workload: String,
    /// The data, in words.
    pub(crate) data: String,
    pub(crate) triples: u64,
    pub(crate) machine: Machine,
    /// This engine first.
    pub(crate) parties: Vec<Party>,
    pub(crate) queries: Vec<QueryReport>,
    /// Sentences that name a query on whose rows not all agree; none in a run that counts.
    pub(crate) disagreements: Vec<String>,
}

/// An engine that took part, or why it did not.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Party {
    pub(crate) name: String,
    pub(crate) version: String,
    /// Why it is not there.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) absent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) load_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) resident_mib: Option<u64>,
}

/// One query, asked of all.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct QueryReport {
    pub(crate) query: String,
    /// The rows that all parties with an answer agree on, or this engine's if they differ.
    pub(crate) rows: Option<u64>,
    pub(crate) cells: Vec<Cell>,
}

/// One engine's figure for one query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cell {
    pub(crate) party: String,
    pub(crate) figure: Figure,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) rows: Option<u64>,
    pub(crate) runs: usize,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) median_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) p99_us: Option<f64>,
    /// The factors by which it is slower than each figure of this engine; empty for this engine.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub(crate) ratios: Vec<Ratio>,
    /// Why there is no time.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) failure: Option<String>,
}

/// The factor by which a peer is slower than one figure of this engine.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ratio {
    pub(crate) to: Figure,
    pub(crate) times: f64,
}

impl Report {
    /// A query of it.
    pub(crate) fn query(&self, name: &str) -> Option<&QueryReport> {
        self.queries.iter().find(|query| query.query == name)
    }
}

impl QueryReport {
    /// A cell of it.
    pub(crate) fn cell(&self, party: &str, figure: Figure) -> Option<&Cell> {
        self.cells
            .iter()
            .find(|cell| cell.party == party && cell.figure == figure)
    }

    /// The median of one of our figures.
    pub(crate) fn ours_us(&self, figure: Figure) -> Option<f64> {
        self.cell(ours::NAME, figure)?.median_us
    }

    /// Fills in the ratios of the peers' cells.
    pub(crate) fn compare(&mut self) {
        let ours: Vec<(Figure, f64)> = [Figure::Engine, Figure::Embedded, Figure::Http]
            .into_iter()
            .filter_map(|figure| Some((figure, self.ours_us(figure)?)))
            .collect();
        for cell in &mut self.cells {
            if cell.party == ours::NAME {
                continue;
            }
            let Some(theirs) = cell.median_us else {
                continue;
            };
            cell.ratios = ours
                .iter()
                .map(|&(to, us)| Ratio {
                    to,
                    times: theirs / us,
                })
                .collect();
        }
    }
}

impl Cell {
    /// The factor by which it is slower than this figure of ours.
    pub(crate) fn ratio(&self, to: Figure) -> Option<f64> {
        let ratio = self.ratios.iter().find(|ratio| ratio.to == to)?;
        Some(ratio.times)
    }
}

/// Median and 99th percentile in microseconds; `None` where there are no times.
pub(crate) fn quantiles_us(times: &mut [Duration]) -> Option<(f64, f64)> {
    times.sort_unstable();
    let at = |percent: usize| {
        let place = (times.len() * percent).div_ceil(100).max(1) - 1;
        times.get(place).map(|time| time.as_secs_f64() * 1e6)
    };
    Some((at(50)?, at(99)?))
}

/// The geometric mean; `None` of nothing.
pub(crate) fn geometric_mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let sum: f64 = values.iter().map(|value| value.ln()).sum();
    Some((sum / values.len() as f64).exp())
}

/// The folder that result files are in.
#[derive(Debug, Clone)]
pub(crate) struct Results {
    folder: PathBuf,
}

impl Results {
    /// Files in this folder.
    pub(crate) fn within(folder: &Path) -> Results {
        Results {
            folder: folder.to_owned(),
        }
    }

    /// Writes the figures of a workload; returns where they are.
    pub(crate) fn write(
        &self,
        workload: &str,
        figures: &impl Serialize,
    ) -> Result<PathBuf, String> {
        let path = self.folder.join(format!("{workload}.json"));
        let unwritten = |error: &dyn std::fmt::Display| {
            format!("{} cannot be written: {error}", path.display())
        };
        let text = serde_json::to_string_pretty(figures).map_err(|error| unwritten(&error))?;
        fs::create_dir_all(&self.folder).map_err(|error| unwritten(&error))?;
        fs::write(&path, text + "\n").map_err(|error| unwritten(&error))?;
        Ok(path)
    }

    /// Reads the figures of a workload; `None` where it has not been run.
    pub(crate) fn read<T: DeserializeOwned>(&self, workload: &str) -> Result<Option<T>, String> {
        let path = self.folder.join(format!("{workload}.json"));
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(format!("{} cannot be read: {error}", path.display())),
        };
        serde_json::from_str(&text).map(Some).map_err(|error| {
            format!(
                "{} is of another version of the bench ({error}); run the workload again",
                path.display()
            )
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A query with these medians in microseconds: ours by figure, pyoxigraph's in process.
    pub(crate) fn made_up(name: &str, ours: [f64; 3], peer: f64) -> QueryReport {
        let cell = |party: &str, figure, us| Cell {
            party: party.to_owned(),
            figure,
            rows: Some(7),
            runs: 10,
            median_us: Some(us),
            p99_us: Some(us * 2.0),
            ratios: Vec::new(),
            failure: None,
        };
        let mut query = QueryReport {
            query: name.to_owned(),
            rows: Some(7),
            cells: vec![
                cell(ours::NAME, Figure::Engine, ours[0]),
                cell(ours::NAME, Figure::Embedded, ours[1]),
                cell(ours::NAME, Figure::Http, ours[2]),
                cell("pyoxigraph", Figure::Embedded, peer),
            ],
        };
        query.compare();
        query
    }

    #[test]
    fn a_report_reads_back_from_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let results = Results::within(folder.path());
        assert_eq!(results.read::<Report>("lubm-1").unwrap(), None);
        let mut report = Report {
            workload: "lubm-1".to_owned(),
            triples: 3,
            parties: vec![Party {
                name: "qlever".to_owned(),
                absent: Some("no package".to_owned()),
                ..Party::default()
            }],
            queries: vec![made_up("L1", [1.0, 2.0, 4.0], 100.0)],
            ..Report::default()
        };
        report.queries[0].cells[3].failure = Some("over time".to_owned());
        results.write("lubm-1", &report).unwrap();
        assert_eq!(results.read("lubm-1").unwrap(), Some(report));
        fs::write(folder.path().join("lubm-1.json"), "{").unwrap();
        assert!(results.read::<Report>("lubm-1").is_err());
    }

    #[test]
    fn ratios_are_theirs_over_ours() {
        let query = made_up("L1", [1.0, 2.0, 4.0], 100.0);
        let cell = query.cell("pyoxigraph", Figure::Embedded).unwrap();
        let ratios = [Figure::Engine, Figure::Embedded, Figure::Http].map(|to| cell.ratio(to));
        assert_eq!(ratios, [Some(100.0), Some(50.0), Some(25.0)]);
    }

    #[test]
    fn quantiles_and_means() {
        let mut times: Vec<Duration> = (1..=200).rev().map(Duration::from_micros).collect();
        let (median, p99) = quantiles_us(&mut times).unwrap();
        assert!((median - 100.0).abs() < 1e-9 && (p99 - 198.0).abs() < 1e-9);
        assert_eq!(quantiles_us(&mut []), None);
        assert!((geometric_mean(&[1.0, 100.0]).unwrap() - 10.0).abs() < 1e-9);
        assert_eq!(geometric_mean(&[]), None);
    }
}
