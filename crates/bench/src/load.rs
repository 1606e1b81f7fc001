//! The speed of loading lubm-40 and the resident memory afterwards: each engine in a process of its
//! own, alternating.

use crate::figures::results::Results;
use crate::harness::contender::Contender;
use crate::harness::machine::Machine;
use crate::oneshot::workload::{self, Size, Workload};
use crate::parties::line_peer::LinePeer;
use crate::parties::ours;
use crate::parties::peers::{self, Installed};
use clap::Args;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Args, Clone)]
pub(crate) struct LoadOptions {
    /// Loads of this engine and of the peers in process; the quickest counts
    #[arg(long, default_value_t = 2)]
    rounds: usize,
    /// The peers to compare with; `none` for none
    #[arg(long, value_delimiter = ',', default_values = peers::NAMES)]
    peers: Vec<String>,
    /// The folder that the figures are kept in
    #[arg(long, default_value = "bench/results")]
    results: PathBuf,
}

/// Name of the result file.
pub(crate) const NAME: &str = "load";

/// The figures of loading.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct LoadReport {
    pub(crate) machine: Machine,
    pub(crate) data: String,
    pub(crate) rows: Vec<LoadRow>,
}

/// One engine's loads.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct LoadRow {
    pub(crate) party: String,
    pub(crate) version: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) absent: Option<String>,
    pub(crate) triples: u64,
    /// The time of the quickest load.
    pub(crate) seconds: f64,
    /// A second after the load, the whole process.
    pub(crate) resident_bytes: u64,
}

impl LoadRow {
    /// Distinct triples a second.
    pub(crate) fn triples_per_second(&self) -> f64 {
        self.triples as f64 / self.seconds
    }

    /// Resident bytes a distinct triple.
    pub(crate) fn bytes_per_triple(&self) -> f64 {
        self.resident_bytes as f64 / self.triples as f64
    }
}

impl LoadReport {
    /// The row of an engine that took part.
    pub(crate) fn row(&self, party: &str) -> Option<&LoadRow> {
        self.rows
            .iter()
            .find(|row| row.party == party && row.absent.is_none())
    }
}

/// Runs the loads and keeps their figures.
pub(crate) fn run(options: &LoadOptions) -> Result<(), String> {
    let packed = match workload::lubm_file("lubm-40") {
        Ok(packed) => peers::absolute(&packed)?,
        Err(reason) => {
            println!("\nload: {reason}");
            return Ok(());
        }
    };
    let plain = Workload::named("lubm-40", Size::FULL)?.file()?;
    println!(
        "\nload of lubm-40: ours from .nt.zst, the others from .nt, the quickest of {} (Jena and Virtuoso once)",
        options.rounds
    );
    let mut report = LoadReport {
        machine: Machine::read(),
        data: "LUBM, 40 universities".to_owned(),
        rows: vec![LoadRow {
            party: ours::NAME.to_owned(),
            ..LoadRow::default()
        }],
    };
    let mut installed = Vec::new();
    for name in peers::NAMES {
        if !options.peers.iter().any(|wanted| wanted == name) {
            continue;
        }
        let peer = Installed::install(name);
        report.rows.push(LoadRow {
            party: name.to_owned(),
            absent: peer.as_ref().err().cloned(),
            ..LoadRow::default()
        });
        installed.extend(peer);
    }
    for round in 0..options.rounds.max(1) {
        once(&mut report, ours::NAME, || {
            let peer: Box<dyn Contender> = Box::new(LinePeer::ours()?);
            Ok((peer, packed.as_path()))
        });
        for peer in &installed {
            if round == 0 || peer.name == "pyoxigraph" {
                once(&mut report, peer.name, || {
                    Ok((peer.start_fresh()?, plain.as_path()))
                });
            }
        }
    }
    report.rows.iter().for_each(print_row);
    let path = Results::within(&options.results).write(NAME, &report)?;
    println!("figures kept in {}", path.display());
    let triples = report.rows[0].triples;
    match report
        .rows
        .iter()
        .find(|row| row.absent.is_none() && row.triples != triples)
    {
        Some(row) => Err(format!(
            "{} has {} triples after the load, this engine {triples}",
            row.party, row.triples
        )),
        None => Ok(()),
    }
}

/// One load in a new process; a failure becomes the row's reason.
fn once<'p>(
    report: &mut LoadReport,
    party: &str,
    start: impl FnOnce() -> Result<(Box<dyn Contender>, &'p Path), String>,
) {
    let row = report.rows.iter_mut().find(|row| row.party == party);
    let row = row.expect("every engine that is loaded has a row");
    let loaded = start().and_then(|(mut engine, data)| {
        let loaded = engine.load(data)?;
        row.version = engine.version().to_owned();
        // An allocator gets the time to return memory.
        std::thread::sleep(Duration::from_secs(1));
        Ok((loaded, engine.resident_bytes()))
    });
    match loaded {
        Ok((loaded, resident)) => {
            let seconds = loaded.took.map_or(f64::NAN, |took| took.as_secs_f64());
            if row.seconds == 0.0 || seconds < row.seconds {
                row.seconds = seconds;
                row.resident_bytes = resident;
            }
            row.triples = loaded.triples;
        }
        Err(reason) => row.absent = Some(reason),
    }
}

fn print_row(row: &LoadRow) {
    match &row.absent {
        Some(reason) => println!("  {:<12} not here: {reason}", row.party),
        None => println!(
            "  {:<12} {:>7.2} s {:>11.0} triples/s {:>8} MiB resident {:>7.1} bytes a triple",
            row.party,
            row.seconds,
            row.triples_per_second(),
            row.resident_bytes >> 20,
            row.bytes_per_triple()
        ),
    }
}
