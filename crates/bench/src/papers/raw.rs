//! Wukong+S, table 7: the memory of the stream index for a minute of each stream, against the raw
//! data. The paper's raw data are encoded tuples, and its index points into the store; its timing
//! data are apart. Here it is the slices, which hold the index and the timing data, against the
//! text of the streams and against three ids of eight bytes a tuple.

use super::{Failure, PaperPart, PapersOptions};
use crate::figures::sheet::{Grid, Sheet};
use crate::streams::absorption::texts;
use crate::streams::stage::{Stage, configuration, network};
use somersault_generate::StreamKind;

pub(super) const PART: PaperPart = PaperPart {
    name: "raw",
    run,
    // The paper's raw data are not of this form, so its ratios are no targets.
    rows: |_| Vec::new(),
};

/// The most that is stored.
const MOST_STORED: u64 = 1_000_000;
const MINUTE_MS: f64 = 60_000.0;
const ID_BYTES: f64 = 24.0;
const ALL: &str = "all";
/// The paper's ratios, in the order of the streams; GPS has no index there.
const PAPER_PERCENT: [Option<f64>; 5] = [Some(46.3), Some(1.6), Some(39.7), Some(6.5), None];
const PAPER_ALL_PERCENT: f64 = 9.5;

/// Measures, and prints the figures as they come.
fn run(options: &PapersOptions) -> Result<Sheet, Failure> {
    let network = network(options.stored.min(MOST_STORED), options.rate);
    let sheet = Sheet::new(
        "Papers: memory against raw data (Wukong+S, table 7)",
        "Megabytes for a minute of each stream, from what its slices hold without queries over them.",
    );
    let columns = [
        "text, MB/min",
        "ids, MB/min",
        "slices, MB/min",
        "slices against text, %",
        "slices against ids, %",
        "the paper's index against its raw data, %",
    ];
    let mut grid = Grid::new("stream", columns);
    let mut stage = Stage::open(&network, configuration(options.workers))?;
    let duration_ms = options.seconds * 1000;
    let stretch = stage.stretch(duration_ms, 1.0);
    let mut text_bytes = [0_usize; 5];
    for batch in texts(&stretch) {
        let lengths = batch.texts.iter().map(String::len);
        text_bytes
            .iter_mut()
            .zip(lengths)
            .for_each(|(all, own)| *all += own);
    }
    stage.play(stretch, false)?;
    let a_minute = |bytes: f64| bytes * MINUTE_MS / duration_ms as f64 / 1e6;
    let mut sums = [0.0; 3];
    let mut line = |name: &str, of: [f64; 3], paper: Option<f64>| {
        let [text, ids, slices] = of;
        let against = |of: f64| Some(slices / of * 100.0);
        let values = [
            Some(text),
            Some(ids),
            Some(slices),
            against(text),
            against(ids),
            paper,
        ];
        grid.line(name, values);
    };
    for (kind, paper) in StreamKind::ALL.into_iter().zip(PAPER_PERCENT) {
        let info = stage.engine.stream(kind.iri())?;
        let of = [
            text_bytes[kind.index()] as f64,
            info.tuples as f64 * ID_BYTES,
            info.memory_bytes as f64,
        ];
        let of = of.map(a_minute);
        sums.iter_mut().zip(of).for_each(|(sum, own)| *sum += own);
        line(kind.short_name(), of, paper);
    }
    line(ALL, sums, Some(PAPER_ALL_PERCENT));
    stage.engine.shutdown()?;
    Ok(sheet.with([grid]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_has_sixty_times_the_ids_of_a_second() {
        let sheet = run(&PapersOptions::smallest()).unwrap();
        let ids = sheet.figure(ALL, "ids, MB/min").unwrap();
        // 2,000 tuples a second, 60 seconds, 24 bytes.
        assert!((2.7..3.0).contains(&ids), "{ids}");
        let slices = sheet.figure("GPS", "slices, MB/min").unwrap();
        assert!(slices > 0.0);
    }
}
