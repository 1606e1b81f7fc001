//! Wukong, section 6.2: LUBM-2560 on one machine, some 350M triples of which fit into 64 GB there.
//! Here universities of the same proportions are made by the project itself, as many as are asked
//! for and fit (`--universities`), and L1–L7 are asked of them. L4–L6 start from a constant, so
//! their times can be compared with the paper's; L1–L3 and L7 grow with the data.

use super::ask::ask_for;
use super::{Failure, PaperPart, PapersOptions};
use crate::figures::sheet::{Grid, Sheet};
use crate::figures::table::thousands;
use crate::harness::machine::{available_bytes, peak_resident_bytes, resident_bytes};
use crate::harness::target::{Row, at_most};
use crate::streams::stage::{BYTES_WHILE_LOADING, configuration};
use somersault::Engine;
use somersault::oxrdf::GraphName;
use somersault_generate::Universities;
use std::time::{Duration, Instant};

pub(super) const PART: PaperPart = PaperPart {
    name: "universities",
    run,
    rows,
};

const P50: &str = "p50, ms";
const STORED: &str = "stored, million triples";
const DATA: &str = "data";
/// The times of the paper with 2,560 universities on one machine.
const PAPER_MS: [f64; 7] = [752.0, 120.0, 306.0, 0.19, 0.11, 0.56, 671.0];
/// The triples of the paper's 2,560 universities, in millions.
const PAPER_STORED: f64 = 352.0;

/// What was loaded.
pub(super) struct Universe {
    pub(super) triples: u64,
    /// The time to make and to load it.
    seconds: f64,
}

/// Makes and loads some universities into the default graph.
///
/// # Errors They do not fit into memory.
pub(super) fn load(engine: &Engine, universities: u32) -> Result<Universe, Failure> {
    let about = u64::from(universities) * Universities::TRIPLES_EACH;
    let (wanted, free) = (about * BYTES_WHILE_LOADING, available_bytes());
    if free < wanted {
        return Err(format!(
            "{universities} universities want {} GiB of memory while they are loaded, and {} GiB are free; take fewer (--universities)",
            wanted >> 30,
            free >> 30
        )
        .into());
    }
    let start = Instant::now();
    let made = Universities::new(1);
    let quads = (0..universities).flat_map(|number| {
        let mut quads = Vec::with_capacity(Universities::TRIPLES_EACH as usize);
        made.generate(number, |triple| {
            quads.push(triple.in_graph(GraphName::DefaultGraph));
        });
        quads
    });
    let triples = engine.load_quads(quads)?.stored;
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "  {universities} universities, {} triples, made and loaded in {seconds:.1} s",
        thousands(triples)
    );
    Ok(Universe { triples, seconds })
}

/// Measures, and prints the figures as they come.
fn run(options: &PapersOptions) -> Result<Sheet, Failure> {
    let engine = Engine::open(configuration(options.workers))?;
    let sheet = Sheet::new(
        "Papers: many universities (Wukong, 6.2)",
        format!(
            "LUBM-like, {} universities, made by the project itself; execution of a prepared query on all cores. The paper's times are of 2,560 universities on one machine of 20 cores, with one thread for L4–L6.",
            options.universities
        ),
    );
    let universe = load(&engine, options.universities)?;
    let memory = engine.metrics().memory;
    let bytes = (memory.store_bytes + memory.dictionary_bytes) as f64;
    let columns = [
        STORED,
        "made and loaded, triples/s",
        "bytes a triple",
        "resident, MB",
        "resident at most, MB",
    ];
    let mut data = Grid::new(DATA, columns);
    data.line(
        DATA,
        [
            universe.triples as f64 / 1e6,
            universe.triples as f64 / universe.seconds,
            bytes / universe.triples.max(1) as f64,
            resident_bytes() as f64 / 1e6,
            peak_resident_bytes() as f64 / 1e6,
        ]
        .map(Some),
    );
    let mut grid = Grid::new("query", ["rows", P50, "the paper, 2,560 universities, ms"]);
    let least = Duration::from_secs(options.seconds.unsigned_abs());
    for (query, paper) in Universities::queries().iter().zip(PAPER_MS) {
        let asked = ask_for(&engine, &query.text, least)?;
        grid.line(
            query.name,
            [Some(asked.rows as f64), Some(asked.p50()), Some(paper)],
        );
    }
    engine.shutdown()?;
    Ok(sheet.with([data, grid]))
}

/// The targets that these figures are held to.
fn rows(sheet: Option<&Sheet>) -> Vec<Row> {
    let stored = sheet.and_then(|sheet| sheet.figure(DATA, STORED));
    let of = stored.map_or_else(String::new, |stored| format!(" of {stored:.0}M triples"));
    let light = Universities::queries().into_iter().zip(PAPER_MS);
    let light = light.filter(|(query, _)| ["L4", "L5", "L6"].contains(&query.name));
    light
        .map(|(query, paper)| {
            let what = format!(
                "papers: {} on universities{of} ({PAPER_STORED:.0}M in the paper), p50",
                query.name
            );
            let figure = sheet.and_then(|sheet| sheet.figure(query.name, P50));
            at_most(&what, paper, figure, "ms")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::target::Verdict;

    #[test]
    fn queries_have_answers_on_generated_universities() {
        let sheet = run(&PapersOptions {
            seconds: 0,
            ..PapersOptions::smallest()
        })
        .unwrap();
        for query in ["L2", "L4", "L5", "L6", "L7"] {
            assert!(sheet.figure(query, "rows") > Some(0.0), "{query}");
        }
        let rows = rows(Some(&sheet));
        assert_eq!(rows.len(), 3);
        assert!(rows.iter().all(|row| row.verdict != Verdict::NotMeasured));
    }
}
