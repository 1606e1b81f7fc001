//! The cost of a light query, from text to terms: selective queries in three shapes over LUBM data,
//! as texts that all differ, as a repeated text, and prepared; alone, and beside a heavy query. Run
//! it with `cargo run --release -p somersault --example light_queries lubm-40.nt.zst`.

use somersault::oxrdf::Term;
use somersault::{
    Engine, EngineConfig, LoadOptions, PreparedQuery, QueryOptions, QueryResults, RdfFormat,
};
use std::error::Error;
use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const PREFIX: &str = "PREFIX ub: <http://swat.cse.lehigh.edu/onto/univ-bench.owl#> ";
const SHAPES: [(&str, &str, &str); 3] = [
    (
        "L4",
        "?X ?Y1 ?Y2 ?Y3 { ?X ub:worksFor ?at . ?X a ub:FullProfessor . ?X ub:name ?Y1 . ?X ub:emailAddress ?Y2 . ?X ub:telephone ?Y3 }",
        "SELECT DISTINCT ?c { ?c a ub:Department }",
    ),
    (
        "L5",
        "?X { ?X ub:subOrganizationOf ?at . ?X a ub:ResearchGroup }",
        "SELECT DISTINCT ?c { ?c a ub:Department }",
    ),
    (
        "L6",
        "?X ?Y { ?Y ub:subOrganizationOf ?at . ?Y a ub:Department . ?X ub:worksFor ?Y . ?X a ub:FullProfessor }",
        "SELECT DISTINCT ?c { ?d a ub:Department . ?d ub:subOrganizationOf ?c }",
    ),
];
const HEAVY: &str = "SELECT (COUNT(*) AS ?n) { ?x ub:takesCourse ?c . ?t ub:teacherOf ?c . ?x ub:memberOf ?d . ?t ub:worksFor ?d }";
const MEASURED: Duration = Duration::from_secs(2);

/// One shape with the constants that it is asked about.
struct Class {
    name: &'static str,
    body: &'static str,
    prepared: PreparedQuery,
    constants: Vec<[Term; 1]>,
    /// Its share of the mix: the reciprocal of its latency.
    weight: f64,
}

impl Class {
    fn text(&self, constant: usize) -> String {
        let constant = self.constants[constant % self.constants.len()][0].to_string();
        format!("{PREFIX}SELECT {}", self.body.replace("?at", &constant))
    }
}

/// Reads all terms of an answer.
fn read(results: &QueryResults) -> usize {
    let (mut cursor, mut cells) = (results.answer.cursor(), 0);
    while let Some(row) = cursor.next_row() {
        cells += row
            .cells()
            .filter(|cell| std::hint::black_box(cell).is_some())
            .count();
    }
    cells
}

/// Random numbers, the same in each run.
fn step(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 16) as usize
}

fn draw(classes: &[Class], state: &mut u64) -> (usize, usize) {
    let total: f64 = classes.iter().map(|class| class.weight).sum();
    let mut left = (step(state) % 1_000_000) as f64 / 1e6 * total;
    let class = classes.iter().position(|class| {
        left -= class.weight;
        left < 0.0
    });
    (class.unwrap_or(0), step(state))
}

/// Asks from two threads for a while, and prints how many were answered a second and how soon.
fn crowd(name: &str, ask: impl Fn(&mut u64, &mut Option<QueryResults>) + Sync) {
    let mut times: Vec<u64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..=2u64)
            .map(|seed| {
                let ask = &ask;
                scope.spawn(move || {
                    let (mut state, mut results) = (seed * 0x9e37_79b9_7f4a_7c15, None);
                    let mut times = Vec::with_capacity(4_000_000);
                    let started = Instant::now();
                    let mut now = started;
                    while now - started < MEASURED {
                        ask(&mut state, &mut results);
                        let done = Instant::now();
                        times.push((done - now).as_nanos() as u64);
                        now = done;
                    }
                    times
                })
            })
            .collect();
        let times = threads.into_iter().map(|thread| thread.join());
        times.flat_map(|times| times.expect("asks")).collect()
    });
    times.sort_unstable();
    let at = |share: f64| times[(times.len() as f64 * share) as usize] as f64 / 1e3;
    println!(
        "{name}: {:.0} queries/s, p50 {:.1} µs, p99 {:.1} µs",
        times.len() as f64 / MEASURED.as_secs_f64(),
        at(0.5),
        at(0.99)
    );
}

/// The least of some batches' averages, in nanoseconds.
fn least(mut work: impl FnMut(usize)) -> f64 {
    let batch = |work: &mut dyn FnMut(usize)| {
        let started = Instant::now();
        (0..2_000).for_each(work);
        started.elapsed().as_nanos() as f64 / 2e3
    };
    (0..20).map(|_| batch(&mut work)).fold(f64::MAX, f64::min)
}

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).ok_or("name a file of LUBM data")?;
    let engine = Engine::open(EngineConfig::default())?;
    let reader = zstd::stream::read::Decoder::new(File::open(file)?)?;
    engine.load(reader, RdfFormat::NTriples, LoadOptions::default())?;
    let options = QueryOptions::default();
    let mut classes = Vec::new();
    for (name, body, constants) in SHAPES {
        let found = engine
            .query(&format!("{PREFIX}{constants}"))
            .options(&options)
            .run()?;
        let constants = found
            .answer
            .rows()
            .filter_map(|row| row.into_iter().next()?);
        let text = format!("{PREFIX}SELECT {body}");
        let mut class = Class {
            name,
            body,
            prepared: engine.query(&text).options(&options).prepare(&["at"])?,
            constants: constants.map(|term| [term]).collect(),
            weight: 0.0,
        };
        let of = |n: usize| &class.constants[n % class.constants.len()];
        let mut results = class.prepared.execute(of(0))?;
        let execution = least(|n| {
            class
                .prepared
                .execute_into(of(n), &mut results)
                .expect("answers");
        });
        let prepared = least(|n| {
            class
                .prepared
                .execute_into(of(n), &mut results)
                .expect("answers");
            std::hint::black_box(read(&results));
        });
        let text = class.text(0);
        let again = least(|_| {
            let results = engine
                .query(&text)
                .options(&options)
                .run()
                .expect("answers");
            std::hint::black_box(read(&results));
        });
        let texts: Vec<String> = (0..2_000).map(|n| class.text(n)).collect();
        let mut number = 0;
        let new = least(|n| {
            number += 1;
            let text = format!("{} # {number}", texts[n]);
            let results = engine
                .query(&text)
                .options(&options)
                .run()
                .expect("answers");
            std::hint::black_box(read(&results));
        });
        println!(
            "{}: prepared {execution:.0} ns, with terms {prepared:.0} ns; the same text {again:.0} ns; a new text {new:.0} ns",
            class.name
        );
        class.weight = 1.0 / prepared;
        classes.push(class);
    }
    let prepared = |state: &mut u64, results: &mut Option<QueryResults>| {
        let (class, constant) = draw(&classes, state);
        let class = &classes[class];
        let values = &class.constants[constant % class.constants.len()];
        match results {
            Some(results) => class
                .prepared
                .execute_into(values, results)
                .expect("answers"),
            None => *results = Some(class.prepared.execute(values).expect("answers")),
        }
        std::hint::black_box(results.as_ref().map(read));
    };
    let text = |state: &mut u64, _: &mut Option<QueryResults>| {
        let (class, constant) = draw(&classes, state);
        let text = format!("{} # {}", classes[class].text(constant), step(state));
        let results = engine
            .query(&text)
            .options(&options)
            .run()
            .expect("answers");
        std::hint::black_box(read(&results));
    };
    crowd("prepared", prepared);
    crowd("text, every text new", text);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let started = Instant::now();
                engine
                    .query(&format!("{PREFIX}{HEAVY}"))
                    .options(&options)
                    .run()
                    .expect("answers");
                println!("  (heavy: {:.0} ms)", started.elapsed().as_secs_f64() * 1e3);
            }
        });
        crowd("prepared, beside a heavy query", prepared);
        over.store(true, Ordering::Relaxed);
    });
    Ok(())
}
