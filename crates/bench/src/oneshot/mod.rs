//! Runs workloads of one-shot queries: this engine and the peers on the same data, query by query.

pub(crate) mod runner;
pub(crate) mod workload;

use crate::figures::results::{Party, Report, Results};
use crate::figures::table;
use crate::harness::contender::{Contender, Figure, Loaded};
use crate::harness::machine::Machine;
use crate::parties::ours::Somersault;
use crate::parties::peers::{self, Installed};
use clap::Args;
use runner::Pace;
use std::path::{Path, PathBuf};
use std::time::Duration;
use workload::{Size, Workload};

#[derive(Args, Clone)]
pub(crate) struct OneshotOptions {
    /// Only these workloads (lubm-1, lubm-40, lsbench, watdiv, sp2bench, features)
    #[arg(long, value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Only these queries
    #[arg(long, value_delimiter = ',')]
    pub(crate) queries: Vec<String>,
    /// The peers to compare with; `none` for none
    #[arg(long, value_delimiter = ',', default_values = peers::NAMES)]
    pub(crate) peers: Vec<String>,
    /// Only what is asked over HTTP, ours and theirs
    #[arg(long)]
    pub(crate) http: bool,
    /// Size of the generated data, in percent of the size that the targets ask for; figures of less
    /// are not kept
    #[arg(long, default_value_t = 100)]
    pub(crate) percent: u32,
    /// Milliseconds that the runs of one figure of one query may take together
    #[arg(long, default_value_t = 600)]
    pub(crate) cell_ms: u64,
    /// Seconds that one execution may take
    #[arg(long, default_value_t = 20)]
    pub(crate) limit: u64,
    /// The folder that the figures are kept in
    #[arg(long, default_value = "bench/results")]
    pub(crate) results: PathBuf,
}

impl OneshotOptions {
    fn pace(&self) -> Pace {
        Pace {
            cell: Duration::from_millis(self.cell_ms),
            least: 3,
            most: 1_000,
            limit: Duration::from_secs(self.limit),
        }
    }
}

/// Runs every workload that was asked for.
///
/// # Errors
/// A workload could not be run at all, or not all engines agree on the rows of a query.
pub(crate) fn run(options: &OneshotOptions) -> Result<(), String> {
    let machine = Machine::read();
    println!(
        "{}, {} cores, {} GiB, commit {}",
        machine.processor, machine.cores, machine.memory_gib, machine.commit
    );
    let installed = install(&options.peers);
    let results = Results::within(&options.results);
    let mut disagreements = Vec::new();
    let names: Vec<&str> = if options.only.is_empty() {
        workload::NAMES.to_vec()
    } else {
        options.only.iter().map(String::as_str).collect()
    };
    let mut workloads = Vec::new();
    for name in names {
        match Workload::named(name, Size::percent(options.percent)) {
            Ok(workload) => workloads.push(workload),
            Err(reason) if reason.starts_with("skipped") => println!("\n{name}: {reason}"),
            Err(reason) => return Err(reason),
        }
    }
    // One load serves all workloads on the same data.
    for together in workloads.chunk_by(Workload::shares_data) {
        for report in measure(together, &installed, &machine, options)? {
            // A run of a part would replace the figures of the whole.
            if options.queries.is_empty() && !options.http && options.percent == 100 {
                let path = results.write(&report.workload, &report)?;
                println!("figures kept in {}", path.display());
            }
            let name = &report.workload;
            let different = report.disagreements.iter();
            disagreements.extend(different.map(|sentence| format!("{name} {sentence}")));
        }
    }
    if disagreements.is_empty() {
        Ok(())
    } else {
        Err(format!(
            "not all agree on the rows:\n  {}",
            disagreements.join("\n  ")
        ))
    }
}

/// Each wanted peer, ready to be started or with the reason why not.
fn install(wanted: &[String]) -> Vec<(&'static str, Result<Installed, String>)> {
    peers::NAMES
        .into_iter()
        .filter(|name| wanted.iter().any(|wanted| wanted == name))
        .map(|name| (name, Installed::install(name)))
        .collect()
}

fn measure(
    workloads: &[Workload],
    installed: &[(&'static str, Result<Installed, String>)],
    machine: &Machine,
    options: &OneshotOptions,
) -> Result<Vec<Report>, String> {
    let Some(first) = workloads.first() else {
        return Ok(Vec::new());
    };
    println!("\n{}", first.data);
    let data = first.file()?;
    let pace = options.pace();
    let (mut contenders, parties, triples) = gather(installed, &data, &pace)?;
    println!("  {triples} triples");
    parties.iter().for_each(table::print_party);
    if options.http {
        contenders = contenders
            .into_iter()
            .map(|inner| Box::new(HttpOnly(inner)) as Box<dyn Contender>)
            .collect();
    }
    let mut reports = Vec::new();
    for workload in workloads {
        let mut report = Report {
            workload: workload.name.to_owned(),
            data: workload.data.clone(),
            triples,
            machine: machine.clone(),
            parties: parties.clone(),
            ..Report::default()
        };
        println!("\n{}: {}", workload.name, workload.data);
        ask_all(workload, &mut contenders, &mut report, options);
        reports.push(report);
    }
    Ok(reports)
}

/// Asks the queries of a workload one after the other, and prints each line as soon as it is there.
fn ask_all(
    workload: &Workload,
    contenders: &mut [Box<dyn Contender>],
    report: &mut Report,
    options: &OneshotOptions,
) {
    table::print_heading(report);
    for query in &workload.queries {
        if !options.queries.is_empty() && !options.queries.contains(&query.name) {
            continue;
        }
        let measured = runner::measure(query, contenders, &options.pace());
        table::print_query(report, &measured);
        let different = runner::disagreements(query, &measured);
        for sentence in &different {
            println!("  DIFFERENT ROWS: {sentence}");
        }
        report.disagreements.extend(different);
        report.queries.push(measured);
    }
}

/// Starts and loads this engine and, all at the same time, the peers.
#[expect(clippy::type_complexity, reason = "three lists that are made together")]
fn gather(
    installed: &[(&'static str, Result<Installed, String>)],
    data: &Path,
    pace: &Pace,
) -> Result<(Vec<Box<dyn Contender>>, Vec<Party>, u64), String> {
    let mut ours = Somersault::start().map_err(|error| error.to_string())?;
    let loaded = ours.load(data)?;
    let triples = loaded.triples;
    let mut party = party_of(&ours, loaded);
    // This process has the bench in it, and what it loaded before; `load` measures that.
    party.resident_mib = None;
    let mut contenders: Vec<Box<dyn Contender>> = vec![Box::new(ours)];
    let mut parties = vec![party];
    let started: Vec<_> = std::thread::scope(|scope| {
        let starting: Vec<_> = installed
            .iter()
            .map(|(name, installed)| {
                let ready = move || match installed {
                    Ok(installed) => installed.ready(data, pace.limit),
                    Err(reason) => Err(reason.clone()),
                };
                (*name, scope.spawn(ready))
            })
            .collect();
        starting
            .into_iter()
            .map(|(name, thread)| {
                let ready = thread.join();
                (
                    name,
                    ready.unwrap_or_else(|_| Err("it panicked".to_owned())),
                )
            })
            .collect()
    });
    for (name, ready) in started {
        match ready {
            Ok((contender, loaded)) if loaded.triples == triples => {
                parties.push(party_of(contender.as_ref(), loaded));
                contenders.push(contender);
            }
            Ok((_, loaded)) => parties.push(absent(
                name,
                format!(
                    "it has {} triples of {triples} after its load",
                    loaded.triples
                ),
            )),
            Err(reason) => parties.push(absent(name, reason)),
        }
    }
    Ok((contenders, parties, triples))
}

fn party_of(contender: &dyn Contender, loaded: Loaded) -> Party {
    Party {
        name: contender.name().to_owned(),
        version: contender.version().to_owned(),
        absent: None,
        load_seconds: loaded.took.map(|took| took.as_secs_f64()),
        resident_mib: Some(contender.resident_bytes() >> 20),
    }
}

fn absent(name: &str, reason: String) -> Party {
    Party {
        name: name.to_owned(),
        absent: Some(reason),
        ..Party::default()
    }
}

/// A contender of which only HTTP is asked.
struct HttpOnly(Box<dyn Contender>);

impl Contender for HttpOnly {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn version(&self) -> &str {
        self.0.version()
    }

    fn figures(&self) -> Vec<Figure> {
        let mut figures = self.0.figures();
        figures.retain(|&figure| figure == Figure::Http);
        figures
    }

    fn load(&mut self, data: &Path) -> Result<Loaded, String> {
        self.0.load(data)
    }

    fn run(
        &mut self,
        figure: Figure,
        text: &str,
        runs: usize,
        limit: Duration,
    ) -> Result<crate::harness::contender::Burst, crate::harness::contender::NoTime> {
        self.0.run(figure, text, runs, limit)
    }

    fn resident_bytes(&self) -> u64 {
        self.0.resident_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oneshot::runner::Query;

    #[test]
    fn a_peer_that_is_missing_is_a_row_and_the_rest_is_measured() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("small.nt");
        std::fs::write(
            &data,
            "<urn:a> <urn:p> <urn:b> .\n<urn:a> <urn:p> <urn:b> .\n",
        )
        .unwrap();
        let installed = vec![("qlever", Err("no package has it".to_owned()))];
        let pace = Pace {
            cell: Duration::from_millis(1),
            least: 1,
            most: 2,
            limit: Duration::from_secs(10),
        };
        let (mut contenders, parties, triples) = gather(&installed, &data, &pace).unwrap();
        assert_eq!((contenders.len(), triples), (1, 1));
        assert_eq!(parties[1].name, "qlever");
        assert_eq!(parties[1].absent.as_deref(), Some("no package has it"));
        let query = Query {
            name: "Q".to_owned(),
            text: "SELECT * { ?s ?p ?o }".to_owned(),
            rows: Some(1),
        };
        let measured = runner::measure(&query, &mut contenders, &pace);
        assert!(runner::disagreements(&query, &measured).is_empty());
        assert_eq!(measured.cells.len(), 3, "engine, embedded, HTTP");
        assert!(measured.cells.iter().all(|cell| cell.median_us.is_some()));
    }
}
