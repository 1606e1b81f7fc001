//! Where the time and memory of a bulk load go: `cargo run --release -p somersault --example
//! load_phases -- FILE.nt.zst [PHASE]`. The phases are `unpack`, `parse` (oxttl, one thread),
//! `intern` (the same and the dictionary) and `load` (an engine in memory); without one all are
//! measured, one after the other. Times are printed, never judged.

use oxttl::NTriplesParser;
use somersault::{Engine, EngineConfig, LoadOptions, LoadProgress, RdfFormat};
use somersault_dictionary::Dictionary;
use std::error::Error;
use std::fs::File;
use std::io::{BufReader, Read};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

fn open(path: &str) -> Result<Box<dyn Read + Send>, Box<dyn Error>> {
    let file = BufReader::with_capacity(1 << 18, File::open(path)?);
    Ok(if path.ends_with(".zst") {
        Box::new(zstd::Decoder::with_buffer(file)?)
    } else {
        Box::new(file)
    })
}

/// Resident memory in bytes, as the system counts it; 0 where it does not say.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

/// CPU time of this process so far, in seconds; 0 where the system does not say.
fn cpu_seconds() -> f64 {
    let status = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let behind_name = status.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks = behind_name.split_whitespace().skip(11).take(2);
    ticks
        .filter_map(|ticks| ticks.parse::<f64>().ok())
        .sum::<f64>()
        / 100.0
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let path = arguments
        .first()
        .ok_or("name a file in N-Triples, plain or .zst")?;
    let wanted = |phase: &str| arguments.get(1).is_none_or(|only| only == phase);

    if wanted("unpack") {
        let start = Instant::now();
        let mut buffer = vec![0; 1 << 20];
        let (mut reader, mut bytes) = (open(path)?, 0);
        loop {
            match reader.read(&mut buffer)? {
                0 => break,
                read => bytes += read,
            }
        }
        println!("unpack: {bytes} bytes in {:.2?}", start.elapsed());
    }
    if wanted("parse") {
        let start = Instant::now();
        let mut count = 0;
        for triple in NTriplesParser::new().for_reader(open(path)?) {
            triple?;
            count += 1;
        }
        println!("parse: {count} triples in {:.2?}", start.elapsed());
    }
    if wanted("intern") {
        let start = Instant::now();
        let dictionary = Dictionary::new();
        let mut count = 0u64;
        for triple in NTriplesParser::new().for_reader(open(path)?) {
            let triple = triple?;
            dictionary.intern(triple.subject.as_ref().into());
            dictionary.intern(triple.predicate.as_ref().into());
            dictionary.intern(triple.object.as_ref());
            count += 1;
        }
        let (terms, bytes) = (dictionary.len() as u64, dictionary.memory_bytes() as u64);
        println!(
            "intern: {count} triples in {:.2?}; {terms} terms, {} bytes a term, {} a triple",
            start.elapsed(),
            bytes / terms.max(1),
            bytes / count.max(1)
        );
    }
    if wanted("load") {
        let before = resident();
        let engine = Engine::open(EngineConfig::default())?;
        let (start, cpu) = (Instant::now(), cpu_seconds());
        let read_at = Arc::new(Mutex::new((Duration::ZERO, 0.0)));
        let seen = Arc::clone(&read_at);
        let progress = move |progress: LoadProgress| {
            if progress.read
                && let Ok(mut seen) = seen.lock()
            {
                *seen = (start.elapsed(), cpu_seconds() - cpu);
            }
        };
        let options = LoadOptions {
            progress: Some(Arc::new(progress)),
            ..LoadOptions::default()
        };
        let loaded = engine.load(open(path)?, RdfFormat::NTriples, options)?;
        let (took, used) = (start.elapsed(), cpu_seconds() - cpu);
        if let Ok(read) = read_at.lock() {
            println!(
                "load: read and interned in {:.2?} ({:.2} s of CPU), stored in {:.2?} ({:.2} s of CPU)",
                read.0,
                read.1,
                took - read.0,
                used - read.1
            );
        }
        let held = resident().saturating_sub(before);
        println!(
            "load: {} triples, {} stored, in {took:.2?}; {held} bytes resident, {} a triple",
            loaded.statements,
            loaded.stored,
            held / loaded.stored.max(1)
        );
    }
    Ok(())
}
