//! Wukong+S, section 6.7: memory with and without scalarisation. The paper compares one scalar
//! snapshot number for the batches of all streams with a vector of them at every value: 37.7 GB
//! against 44.0 GB with two streams. Our values know scalars alone; so what is compared is one
//! snapshot number for the batches of all streams with one for each batch of each stream, which is
//! the smallest that says as much as the vector.

use super::{Failure, PaperPart, PapersOptions};
use crate::figures::sheet::{Grid, Sheet};
use crate::harness::target::{Row, at_most};
use crate::streams::snapshots::{absorbing, looking};
use crate::streams::stage::{BATCH_MS, network};
use somersault::oxrdf::GraphName;
use somersault::{EventTime, Push, StreamStatement};
use somersault_generate::SocialNetwork;
use std::time::Instant;

pub(super) const PART: PaperPart = PaperPart {
    name: "snapshot-numbers",
    run,
    rows,
};

const STREAMS: [usize; 2] = [2, 5];
/// Only the streams are of interest here, so little is stored.
const STORED: u64 = 100_000;
const STORE: &str = "store at the end, MB";
/// What is within this factor takes no more.
const NO_MORE: f64 = 1.05;
const SNAPSHOTS: &str = "memory of snapshots at most, MB";

/// Measures, and prints the figures as they come.
fn run(options: &PapersOptions) -> Result<Sheet, Failure> {
    let network = network(STORED.min(options.stored), options.rate);
    let sheet = Sheet::new(
        "Papers: one snapshot number for all streams (Wukong+S, 6.7)",
        "The same statements, dealt out to two or five streams that are absorbed, as fast as it goes.",
    );
    let columns = [
        "snapshot numbers",
        "retained at most",
        SNAPSHOTS,
        STORE,
        "tuples/s",
    ];
    let mut grid = Grid::new("streams, snapshot numbers", columns);
    for streams in STREAMS {
        for each in [false, true] {
            let values = absorbed(&network, options, streams, each)?;
            grid.line(name(streams, each), values.map(Some));
        }
    }
    Ok(sheet.with([grid]))
}

fn name(streams: usize, each: bool) -> String {
    match each {
        false => format!("{streams} streams, one for the batches of all"),
        true => format!("{streams} streams, one for each batch"),
    }
}

/// Absorbs some seconds of the network; `each` advances one stream after the other, and waits for
/// each until it is visible.
fn absorbed(
    network: &SocialNetwork,
    options: &PapersOptions,
    streams: usize,
    each: bool,
) -> Result<[f64; 5], Failure> {
    let (engine, names) = absorbing(options.workers, streams)?;
    let first = engine.stable();
    let together = match each {
        false => names.len(),
        true => 1,
    };
    let mut tuples = 0;
    let start = Instant::now();
    let ((), looks) = looking(&engine, || {
        for (batch, to) in batches(network, options.seconds * 1000, streams) {
            for (name, statements) in names.iter().zip(batch) {
                tuples += statements.len();
                let push = Push {
                    statements,
                    ..Push::default()
                };
                engine.push(name, push)?;
            }
            for some in names.chunks(together) {
                engine.advance(some.iter().map(|name| (name, to)))?;
            }
        }
        Ok(())
    })?;
    let seconds = start.elapsed().as_secs_f64();
    let memory = engine.metrics().memory;
    let cut = engine.stable().0 - first.0;
    engine.shutdown()?;
    Ok([
        cut as f64,
        looks.most() as f64,
        looks.bytes_most as f64 / 1e6,
        memory.store_bytes as f64 / 1e6,
        tuples as f64 / seconds,
    ])
}

/// The statements of each batch for each stream, and the batch's end.
fn batches(
    network: &SocialNetwork,
    until_ms: i64,
    streams: usize,
) -> impl Iterator<Item = (Vec<Vec<StreamStatement>>, EventTime)> {
    let mut activity = network.activity();
    activity.past().for_each(drop);
    let mut activity = activity.peekable();
    let mut turn = 0;
    (1..=until_ms / BATCH_MS).map(move |batch| {
        let end_ms = batch * BATCH_MS;
        let mut dealt = vec![Vec::new(); streams];
        while let Some(streamed) = activity.next_if(|streamed| streamed.at_ms < end_ms) {
            dealt[turn % streams].push(StreamStatement {
                at: Some(EventTime(streamed.at_ms)),
                quad: streamed.triple.in_graph(GraphName::DefaultGraph),
            });
            turn += 1;
        }
        (dealt, EventTime(end_ms))
    })
}

/// The targets that these figures are held to.
fn rows(sheet: Option<&Sheet>) -> Vec<Row> {
    let with = |of: usize| {
        let store = |each| sheet?.figure(&name(of, each), STORE);
        Some(store(false)? / store(true)?)
    };
    let row = |streams: usize| {
        let what = format!(
            "papers: store with one snapshot number for {streams} streams, against one for each batch"
        );
        at_most(&what, NO_MORE, with(streams), "×")
    };
    STREAMS.map(row).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_times_the_snapshot_numbers_as_streams() {
        let sheet = run(&PapersOptions::smallest()).unwrap();
        for streams in STREAMS {
            let of = |each| sheet.figure(&name(streams, each), "snapshot numbers");
            // Ten batches, and the engine may cut some more of its own.
            assert!(of(true).unwrap() >= 10.0 * streams as f64, "{sheet:?}");
            assert!(of(true) > of(false), "{sheet:?}");
        }
    }
}
