//! The gain of a second core for heavy queries: `cargo run --release -p somersault --example
//! two_threads -- DATA.nt.zst QUERY.rq…`. Each query runs in turns on one core (by `taskset`) and
//! on all: the execution alone, and from its text to the text of every term. Least and median times
//! are printed, never judged: the least of many short runs shows what the engine can do on a shared
//! machine.

use somersault::{Engine, EngineConfig, LoadOptions, RdfFormat};
use std::error::Error;
use std::fs::File;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const TURNS: usize = 12;
const RUNS: usize = 25;

/// Lets this process use these cores only.
fn set_cores(cores: &str) -> Result<(), Box<dyn Error>> {
    let status = Command::new("taskset")
        .args(["--all-tasks", "--pid", "--cpu-list", cores])
        .arg(std::process::id().to_string())
        .stdout(Stdio::null())
        .status()?;
    if status.success() {
        Ok(())
    } else {
        Err("taskset failed".into())
    }
}

/// The execution, and everything from the text to the terms.
fn run(engine: &Engine, text: &str) -> Result<(Duration, Duration, usize), Box<dyn Error>> {
    let started = Instant::now();
    let results = engine.query(text).run()?;
    let mut rows = 0;
    let mut cursor = results.answer.cursor();
    while let Some(row) = cursor.next_row() {
        row.cells().for_each(|cell| {
            std::hint::black_box(cell);
        });
        rows += 1;
    }
    Ok((results.execution, started.elapsed(), rows))
}

/// The least and the median, in microseconds.
fn least_and_median(times: &mut [Duration]) -> (f64, f64) {
    times.sort_unstable();
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    (micros(times[0]), micros(times[times.len() / 2]))
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or("name a file of data, and queries")?;
    let engine = Engine::open(EngineConfig {
        workers: 1,
        ..EngineConfig::default()
    })?;
    let reader = zstd::stream::read::Decoder::new(File::open(file)?)?;
    engine.load(reader, RdfFormat::NTriples, LoadOptions::default())?;
    let cores = std::thread::available_parallelism()?.get();
    let all = format!("0-{}", cores - 1);
    for query in arguments {
        let text = std::fs::read_to_string(&query)?;
        let mut times: [[Vec<Duration>; 2]; 2] = Default::default();
        let mut rows = 0;
        for turn in 0..TURNS {
            for (number, cores) in [all.as_str(), &(turn % cores).to_string()]
                .into_iter()
                .enumerate()
            {
                set_cores(cores)?;
                for _ in 0..RUNS {
                    let (execution, whole, found) = run(&engine, &text)?;
                    times[number][0].push(execution);
                    times[number][1].push(whole);
                    rows = found;
                }
            }
        }
        println!("{query}: {rows} rows");
        let [many, one] = &mut times;
        for ((name, many), one) in ["execution", "text to terms"].iter().zip(many).zip(one) {
            let (many, one) = (least_and_median(many), least_and_median(one));
            println!(
                "  {name}: one core {:.0} µs ({:.0}), all {:.0} µs ({:.0}): {:.2}× ({:.2}×)",
                one.0,
                one.1,
                many.0,
                many.1,
                one.0 / many.0,
                one.1 / many.1,
            );
        }
    }
    Ok(())
}
