//! The commit of one small durable push against the device's own sync. In turns: a push of one
//! statement, which returns when it is durable; as many bytes written over a part of a file that
//! has been written before, and synced; the same appended to a file, which also changes its length.

use super::node::folder;
use super::{DurabilityOptions, DurabilityPart, Failure};
use crate::figures::sheet::{Grid, Sheet};
use crate::harness::target::{Row, at_most};
use crate::streams::absorption::clear;
use crate::streams::figures::quantile_ms;
use crate::streams::stage::configuration;
use somersault::{Engine, EngineConfig, PushLines};
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

pub(super) const PART: DurabilityPart = DurabilityPart {
    name: "commit",
    run,
    rows,
};

const STREAM: &str = "http://example.org/stream/small";
const WRITTEN_OVER: &str = "bytes written over and synced";
const APPENDED: &str = "bytes appended and synced";
const PUSHED: &str = "a push of one statement";
const P50: &str = "p50, ms";
/// The bytes of the file that is written over.
const FILE_BYTES: usize = 4 << 20;

/// Measures, and prints the figures as they come.
fn run(options: &DurabilityOptions) -> Result<Sheet, Failure> {
    let sheet = Sheet::new(
        "Durability: the commit of a small push",
        format!("{} of each, in turns, in the same folder.", options.pushes),
    );
    let folder = folder(options, "commit")?;
    let mut times = measured(&folder, options)?;
    let mut grid = Grid::new("what", [P50, "p99, ms"]);
    for (words, times) in [WRITTEN_OVER, APPENDED, PUSHED].into_iter().zip(&mut times) {
        times.sort_unstable();
        let quantile = |percent| Some(quantile_ms(times, percent));
        grid.line(words, [quantile(50), quantile(99)]);
    }
    clear(&folder)?;
    Ok(sheet.with([grid]))
}

/// The times of each of the three.
fn measured(folder: &Path, options: &DurabilityOptions) -> Result<[Vec<Duration>; 3], Failure> {
    let engine = Engine::open(EngineConfig {
        data: Some(folder.join("engine")),
        ..configuration(options.workers)
    })?;
    let text = format!("CREATE STREAM <{STREAM}> TIMELESS BATCH 1h IDLE NEVER");
    engine.create_stream(None, &text)?;
    let mut written_over = File::create(folder.join("written-over"))?;
    written_over.write_all(&vec![1; FILE_BYTES])?;
    written_over.sync_all()?;
    let mut appended = File::create(folder.join("appended"))?;
    let mut times: [Vec<Duration>; 3] = Default::default();
    for number in 0..options.pushes {
        let line = format!(
            "{number}\t<http://example.org/a/{number}> <http://example.org/p> <http://example.org/b> .\n"
        );
        let bytes = line.as_bytes();
        let place = number * bytes.len() % (FILE_BYTES - bytes.len());
        written_over.seek(SeekFrom::Start(place as u64))?;
        times[0].push(synced(&mut written_over, bytes)?);
        times[1].push(synced(&mut appended, bytes)?);
        let push = PushLines {
            lines: bytes,
            ..PushLines::default()
        };
        let start = Instant::now();
        engine.push_lines(STREAM, push)?;
        times[2].push(start.elapsed());
    }
    engine.shutdown()?;
    Ok(times)
}

/// Writes and syncs; the time that it took.
fn synced(file: &mut File, bytes: &[u8]) -> Result<Duration, Failure> {
    let start = Instant::now();
    file.write_all(bytes)?;
    file.sync_data()?;
    Ok(start.elapsed())
}

/// The targets that these figures are held to.
fn rows(sheet: Option<&Sheet>) -> Vec<Row> {
    let above = || {
        let of = |line: &str| sheet?.figure(line, P50);
        Some(of(PUSHED)? - of(WRITTEN_OVER)?)
    };
    vec![at_most(
        "durability: commit of one small push, p50, above the device's own sync",
        0.15,
        above(),
        "ms",
    )]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_push_has_two_syncs_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let options = DurabilityOptions::smallest(folder.path().to_owned());
        let times = measured(folder.path(), &options).unwrap();
        assert!(times.iter().all(|times| times.len() == options.pushes));
    }
}
