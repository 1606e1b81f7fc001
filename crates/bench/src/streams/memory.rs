//! The memory of slices: the streams run for several seconds and keep all of them; then the engine
//! reports the memory.

use super::figures::{Memory, StreamMemory};
use super::measure::Reader;
use super::stage::{Stage, configuration, network};
use super::{Failure, StreamsOptions};
use crate::harness::machine::Machine;
use somersault_generate::StreamKind;

/// The streams keep a minute.
const PLAYED_MS: i64 = 20_000;

/// Measures, and prints the figures as they come.
pub(super) fn run(options: &StreamsOptions) -> Result<Memory, Failure> {
    let network = network(options.stored.min(1_000_000), options.rate);
    let mut stage = Stage::open(&network, configuration(options.workers))?;
    let stretch = stage.stretch(PLAYED_MS, 1.0);
    stage.play(stretch, false)?;
    let slices = taken(&stage)?;
    // L1–L6 and the others have windows over all streams. The last windows remain while the streams
    // stand still.
    let readers = network
        .continuous_queries()
        .into_iter()
        .map(|query| Reader::register(&stage.engine, query.name, &query.text))
        .collect::<Result<Vec<_>, _>>()?;
    let stretch = stage.stretch(2_000, 1.0);
    stage.play(stretch, false)?;
    let with_windows = taken(&stage)?;
    drop(readers);
    let streams = StreamKind::ALL
        .iter()
        .zip(slices.into_iter().zip(with_windows))
        .map(|(kind, (slices, all))| {
            let slices_bytes = slices.bytes * all.statements / slices.statements.max(1);
            StreamMemory {
                stream: kind.short_name().to_owned(),
                statements: all.statements,
                slices_bytes,
                windows_bytes: all.bytes.saturating_sub(slices_bytes),
            }
        })
        .collect();
    let figures = Memory {
        machine: Machine::read(),
        rate: options.rate,
        streams,
    };
    for stream in &figures.streams {
        println!(
            "{}: {:.1} bytes a statement, with shared windows {:.1}",
            stream.stream,
            stream.slices_bytes as f64 / stream.statements as f64,
            (stream.slices_bytes + stream.windows_bytes) as f64 / stream.statements as f64
        );
    }
    let (slices, all) = figures.bytes_per_statement();
    println!("all streams: {slices:.1} bytes a statement, with shared windows {all:.1}");
    stage.engine.shutdown()?;
    Ok(figures)
}

/// The statements that a stream has absorbed, and their memory.
struct Taken {
    statements: u64,
    bytes: u64,
}

fn taken(stage: &Stage<'_>) -> Result<Vec<Taken>, Failure> {
    let of = |kind: &StreamKind| -> Result<Taken, Failure> {
        let info = stage.engine.stream(kind.iri())?;
        Ok(Taken {
            statements: info.tuples,
            bytes: info.memory_bytes,
        })
    };
    StreamKind::ALL.iter().map(of).collect()
}
