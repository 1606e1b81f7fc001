//! The figures of a result file that are compared. Less is better in all of them.

use serde_json::Value;
use std::collections::BTreeMap;

/// One command of the bench, run by both builds.
pub(super) struct Measurement {
    pub(super) name: &'static str,
    /// A sentence for the reader of the table.
    pub(super) what: &'static str,
    /// Arguments of `somersault-bench`, the results folder apart.
    command: &'static [&'static str],
    /// Whether the command takes the number of stored triples.
    takes_stored: bool,
    /// The result file that it leaves, without its ending.
    pub(super) file: &'static str,
    /// The figures of that file, by name.
    pub(super) figures: fn(&Value) -> BTreeMap<String, f64>,
}

impl Measurement {
    /// The command line, the results folder apart.
    pub(super) fn arguments(&self, stored: u64) -> Vec<String> {
        let mut arguments: Vec<String> = self.command.iter().map(|&text| text.to_owned()).collect();
        if self.takes_stored {
            arguments.extend(["--stored".to_owned(), stored.to_string()]);
        }
        arguments
    }
}

/// Everything that a reshaped engine must not do more slowly.
pub(super) const MEASUREMENTS: &[Measurement] = &[
    Measurement {
        name: "load",
        what: "LUBM-40 loaded once in a fresh process: seconds, and MiB resident afterwards",
        command: &["load", "--peers", "none", "--rounds", "1"],
        takes_stored: false,
        file: "load",
        figures: load,
    },
    Measurement {
        name: "lubm-40",
        what: "L1–L7 on 40 universities, median in µs, by the engine alone, embedded and over HTTP",
        command: &["oneshot", "--only", "lubm-40", "--peers", "none"],
        takes_stored: false,
        file: "lubm-40",
        figures: queries,
    },
    Measurement {
        name: "social",
        what: "S1–S6 on the social network, median in µs, by the engine alone, embedded and over HTTP",
        command: &["oneshot", "--only", "lsbench", "--peers", "none"],
        takes_stored: false,
        file: "lsbench",
        figures: queries,
    },
    Measurement {
        name: "crowd",
        what: "µs a query: the mix of light queries, prepared, as text, and over HTTP",
        command: &["throughput", "--seconds", "4"],
        takes_stored: false,
        file: "throughput",
        figures: crowd,
    },
    Measurement {
        name: "paper",
        what: "L1–L6 at 133,500 tuples a second, execution and delay in ms",
        command: &["streams", "--only", "paper"],
        takes_stored: true,
        file: "streams-paper",
        figures: paper,
    },
    Measurement {
        name: "absorption",
        what: "µs a tuple, as fast as the engine takes them",
        command: &["streams", "--only", "absorption"],
        takes_stored: false,
        file: "streams-absorption",
        figures: absorption,
    },
    Measurement {
        name: "standing",
        what: "115,000 standing queries over batches of 1 ms: ms a firing, delay in ms, bytes a query",
        command: &[
            "streams",
            "--only",
            "standing",
            "--standing",
            "115000",
            "--batches",
            "1",
        ],
        takes_stored: true,
        file: "streams-standing",
        figures: standing,
    },
];

/// The names that `--only` accepts.
pub(super) fn names() -> Vec<&'static str> {
    MEASUREMENTS
        .iter()
        .map(|measurement| measurement.name)
        .collect()
}

/// The entries of a list inside a report; none where there is no list.
fn list<'a>(report: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    report[name].as_array().into_iter().flatten()
}

fn text<'a>(entry: &'a Value, name: &str) -> &'a str {
    entry[name].as_str().unwrap_or_default()
}

fn load(report: &Value) -> BTreeMap<String, f64> {
    let ours = list(report, "rows").filter(|row| row["party"] == "somersault");
    ours.flat_map(|row| {
        let resident = row["resident_bytes"]
            .as_f64()
            .map(|bytes| bytes / (1 << 20) as f64);
        [
            row["seconds"]
                .as_f64()
                .map(|seconds| ("seconds".to_owned(), seconds)),
            resident.map(|mib| ("resident MiB".to_owned(), mib)),
        ]
    })
    .flatten()
    .collect()
}

fn queries(report: &Value) -> BTreeMap<String, f64> {
    let mut figures = BTreeMap::new();
    for query in list(report, "queries") {
        for cell in list(query, "cells").filter(|cell| cell["party"] == "somersault") {
            if let Some(median) = cell["median_us"].as_f64() {
                let name = format!("{} {}", text(query, "query"), text(cell, "figure"));
                figures.insert(name, median);
            }
        }
    }
    figures
}

fn crowd(report: &Value) -> BTreeMap<String, f64> {
    let mut figures = BTreeMap::new();
    for kind in ["prepared", "text"] {
        if let Some(rate) = report[kind]["queries_per_second"].as_f64() {
            figures.insert(format!("{kind}: µs a query"), 1e6 / rate);
        }
    }
    for run in list(report, "http") {
        let clients = run["clients"].as_u64().unwrap_or_default();
        if let Some(rate) = run["requests_per_second"].as_f64() {
            figures.insert(format!("HTTP, {clients} clients: µs a request"), 1e6 / rate);
        }
        if let Some(processor) = run["processor_us_per_request"].as_f64() {
            figures.insert(
                format!("HTTP, {clients} clients: CPU µs a request"),
                processor,
            );
        }
    }
    figures
}

fn paper(report: &Value) -> BTreeMap<String, f64> {
    let mut figures = BTreeMap::new();
    for query in list(report, "alone") {
        for (field, name) in [("execution_p50_ms", "execution"), ("delay_p50_ms", "delay")] {
            if let Some(median) = query[field].as_f64() {
                figures.insert(format!("{} {name} p50", text(query, "query")), median);
            }
        }
    }
    figures
}

fn absorption(report: &Value) -> BTreeMap<String, f64> {
    let mut figures = BTreeMap::new();
    for run in list(report, "runs") {
        let name = format!(
            "{} log, {} callers, {}",
            if run["log"] == true {
                "with"
            } else {
                "without"
            },
            run["callers"].as_u64().unwrap_or_default(),
            if run["one_core"] == true {
                "one core"
            } else {
                "all cores"
            }
        );
        if let (Some(seconds), Some(tuples)) = (run["seconds"].as_f64(), run["tuples"].as_f64()) {
            figures.insert(name, seconds * 1e6 / tuples);
        }
    }
    figures
}

fn standing(report: &Value) -> BTreeMap<String, f64> {
    let mut figures = BTreeMap::new();
    let registration = &report["registration"];
    if let Some(bytes) = registration["bytes_per_query"].as_f64() {
        figures.insert("registered: bytes a query".to_owned(), bytes);
    }
    for stand in list(report, "stands").filter(|stand| stand["mixed"] == false) {
        for (field, name) in [
            ("firing_ms", "ms a firing"),
            ("delay_p50_ms", "delay p50"),
            ("kept_bytes_per_query", "kept bytes a query"),
        ] {
            if let Some(figure) = stand[field].as_f64() {
                figures.insert(name.to_owned(), figure);
            }
        }
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_report_gives_its_figures() {
        let report = json!({"queries": [{"query": "L1", "cells": [
            {"party": "somersault", "figure": "engine", "median_us": 2.0},
            {"party": "jena", "figure": "embedded", "median_us": 9.0}]}]});
        assert_eq!(
            queries(&report),
            BTreeMap::from([("L1 engine".to_owned(), 2.0)])
        );
        let report = json!({"rows": [
            {"party": "somersault", "seconds": 1.5, "resident_bytes": 2 << 20},
            {"party": "jena", "seconds": 9.0, "resident_bytes": 1}]});
        let expected = [
            ("seconds".to_owned(), 1.5),
            ("resident MiB".to_owned(), 2.0),
        ];
        assert_eq!(load(&report), BTreeMap::from(expected));
        let report = json!({"runs": [
            {"log": true, "callers": 2, "one_core": false, "tuples": 4, "seconds": 2e-6}]});
        let expected = [("with log, 2 callers, all cores".to_owned(), 0.5)];
        assert_eq!(absorption(&report), BTreeMap::from(expected));
        let report = json!({"prepared": {"queries_per_second": 2e6}, "http": [
            {"clients": 8, "requests_per_second": 1e6, "processor_us_per_request": 3.0}]});
        assert_eq!(crowd(&report).len(), 3);
        let report = json!({"alone": [
            {"query": "L1", "execution_p50_ms": 0.1, "delay_p50_ms": 9.0}]});
        assert_eq!(paper(&report).len(), 2);
        let report = json!({"registration": {"bytes_per_query": 200.0}, "stands": [
            {"mixed": true, "firing_ms": 9.0},
            {"mixed": false, "firing_ms": 1.0, "delay_p50_ms": 2.0, "kept_bytes_per_query": 6.0}]});
        assert_eq!(standing(&report).len(), 4);
        assert_eq!(standing(&report)["ms a firing"], 1.0);
    }

    /// The kept result files are of the same form as those that a measurement leaves.
    #[test]
    fn the_kept_result_files_have_every_figure() {
        let results = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/results");
        for measurement in MEASUREMENTS {
            let path = results.join(format!("{}.json", measurement.file));
            let text = std::fs::read_to_string(&path).unwrap();
            let report = serde_json::from_str(&text).unwrap();
            let figures = (measurement.figures)(&report);
            assert!(figures.len() > 1, "{}: {figures:?}", measurement.name);
        }
    }
}
