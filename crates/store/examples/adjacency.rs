//! The cost of a data set in the store: bytes a triple, loading, rows of expansions, type checks.
//! Run with `cargo run --release -p somersault-store --example adjacency <file.nt.zst> [shards]`.
//! Figures are printed, not asserted: speed is compared in the bench crate.

use oxttl::NTriplesParser;
use somersault_dictionary::rdf_type;
use somersault_model::{Direction, QuadIds, Sn, TermId};
use somersault_store::{Ends, Pace, ShardBatch, Snapshot, Store};
use std::error::Error;
use std::fs::File;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

const GRAPH: TermId = TermId::DEFAULT_GRAPH;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("name an .nt.zst file")?;
    let shards = arguments.next().map_or(Ok(2), |n| n.parse())?;
    let store = Store::new(shards);
    let load = read(&store, &path)?;
    let count = load.len();
    println!("{count} statements; resident {} MB", resident());
    let before = resident();
    load_all(&store, load)?;
    let memory = store.memory();
    let snapshot = store.pin_stable();
    let held = snapshot.statement_count(GRAPH);
    println!(
        "{held} distinct; stored {:.1} bytes a statement, dictionary {:.1}",
        memory.stored_bytes as f64 / held as f64,
        memory.dictionary_bytes as f64 / held as f64
    );
    println!("resident {} MB, before loading {before}", resident());
    reads(&snapshot);
    Ok(())
}

fn read(store: &Store, path: &str) -> Result<Arc<[QuadIds]>, Box<dyn Error>> {
    let file = zstd::Decoder::new(File::open(path)?)?;
    let dictionary = store.dictionary();
    let mut quads = Vec::new();
    for triple in NTriplesParser::new().for_reader(file) {
        let triple = triple?;
        quads.push(QuadIds {
            graph: GRAPH,
            subject: dictionary.intern(triple.subject.as_ref().into()),
            predicate: dictionary.intern(triple.predicate.as_ref().into()),
            object: dictionary.intern(triple.object.as_ref()),
        });
    }
    Ok(quads.into())
}

fn load_all(store: &Arc<Store>, load: Arc<[QuadIds]>) -> Result<(), Box<dyn Error>> {
    let count = load.len();
    let (start, before) = (Instant::now(), processor_time(false));
    let batches = ShardBatch::split_with_loads(&[load], &[], store.placement());
    std::thread::scope(|scope| -> Result<(), Box<dyn Error>> {
        let mut threads = Vec::new();
        for batch in batches {
            let mut writer = store.take_writer(batch.shard())?;
            threads.push(scope.spawn(move || writer.apply(Sn(1), &batch)));
        }
        for thread in threads {
            thread.join().map_err(|_| "a writer panicked")??;
        }
        Ok(())
    })?;
    store.snapshots().publish_stable(Sn(1));
    let elapsed = start.elapsed();
    let spent = processor_time(false).zip(before);
    let spent = spent.map_or(elapsed, |(after, before)| after - before);
    println!(
        "loaded in {elapsed:.2?}, {spent:.2?} of processor time, {:.0} ns each",
        spent.as_nanos() as f64 / count as f64
    );
    Ok(())
}

/// Resident memory in MB, where the system tells.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS"));
    let number = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<usize>().ok());
    number.unwrap_or(0) / 1024
}

/// Time that this process (ended threads too) or thread has had on cores, where the system tells:
/// what else runs on the machine does not count.
fn processor_time(of_thread: bool) -> Option<Duration> {
    if of_thread {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        return Some(Duration::from_nanos(text.split(' ').next()?.parse().ok()?));
    }
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    // After the name: user and system time are the twelfth and thirteenth, in hundredths.
    let mut times = text.rsplit(')').next()?.split_whitespace().skip(11);
    let (user, system): (u64, u64) = (times.next()?.parse().ok()?, times.next()?.parse().ok()?);
    Some(Duration::from_millis(10 * (user + system)))
}

fn best(rounds: usize, mut work: impl FnMut() -> usize) -> (Duration, usize) {
    let mut best = Duration::MAX;
    let mut count = 0;
    for _ in 0..rounds {
        let (start, before) = (Instant::now(), processor_time(true));
        count = work();
        let spent = processor_time(true).zip(before);
        best = best.min(spent.map_or_else(|| start.elapsed(), |(after, before)| after - before));
    }
    (best, count)
}

fn line(what: &str, (elapsed, count): (Duration, usize), per: usize) {
    let each = elapsed.as_nanos() as f64 / per.max(1) as f64;
    println!("{what:<44} {each:>7.1} ns each of {per:>8}, {count} found");
}

fn shuffled(ids: &[TermId]) -> Vec<TermId> {
    let mut keyed: Vec<(u64, TermId)> = (ids.iter())
        .map(|id| {
            (
                id.raw().wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23),
                *id,
            )
        })
        .collect();
    keyed.sort_unstable();
    keyed.into_iter().map(|(_, id)| id).collect()
}

fn reads(snapshot: &Snapshot) {
    let mut scratch = Vec::new();
    let kind = rdf_type();
    let mut predicates: Vec<(u64, TermId)> = (snapshot.predicates(GRAPH).into_iter())
        .filter(|predicate| *predicate != kind)
        .map(|predicate| {
            let statements = snapshot.predicate_statistics(GRAPH, predicate).statements;
            (statements, predicate)
        })
        .collect();
    predicates.sort_unstable();
    let (_, predicate) = predicates[predicates.len() - 1];
    let typed = snapshot.vertices_with(GRAPH, kind, Direction::Out, &mut scratch);
    let sorted = typed.to_vec();
    let random = shuffled(&sorted);
    for (what, column) in [("sorted", &sorted), ("random", &random)] {
        for direction in [Direction::Out, Direction::In] {
            let (mut rows, mut ids) = (Vec::new(), Vec::new());
            let whole = best(5, || {
                let mut found = 0;
                for (part, first_row) in column.chunks(2_048).zip((0u32..).step_by(2_048)) {
                    rows.clear();
                    ids.clear();
                    snapshot.expand(
                        GRAPH,
                        predicate,
                        direction,
                        part,
                        first_row,
                        usize::MAX,
                        &mut rows,
                        &mut ids,
                    );
                    found += ids.len();
                }
                found
            });
            line(
                &format!("expand {direction:?}, {what}"),
                whole,
                column.len(),
            );
            let one = best(5, || {
                let mut scratch = Vec::new();
                (column.iter())
                    .map(|v| {
                        snapshot
                            .neighbours(GRAPH, *v, predicate, direction, &mut scratch)
                            .len()
                    })
                    .sum()
            });
            line(
                &format!("neighbours {direction:?}, {what}"),
                one,
                column.len(),
            );
        }
    }
    let (mut vertices, mut neighbours) = (Vec::new(), Vec::new());
    let all = best(5, || {
        vertices.clear();
        neighbours.clear();
        let mut look = |_| ControlFlow::Continue(());
        snapshot.edges(
            GRAPH,
            predicate,
            Direction::Out,
            &mut Pace::new(0, usize::MAX, &mut look),
            &mut vertices,
            &mut neighbours,
        );
        neighbours.len()
    });
    line("edges of the predicate", all, all.1);
    let mut scratch = Vec::new();
    let classes = snapshot.vertices_with(GRAPH, kind, Direction::In, &mut scratch);
    let class = (classes.iter().copied())
        .max_by_key(|class| snapshot.neighbour_estimate(GRAPH, *class, kind, Direction::In));
    let Some(class) = class else {
        return;
    };
    for (what, column) in [("sorted", &sorted), ("random", &random)] {
        let mut rows = Vec::new();
        let whole = best(5, || {
            rows.clear();
            let ends = (Ends::Column(column), Ends::One(class));
            snapshot.connected(GRAPH, kind, ends.0, ends.1, 0, &mut rows);
            rows.len()
        });
        line(
            &format!("type checks of a column, {what}"),
            whole,
            column.len(),
        );
        let one = best(5, || {
            let is_instance = |vertex: &&TermId| {
                snapshot.contains(QuadIds {
                    graph: GRAPH,
                    subject: **vertex,
                    predicate: kind,
                    object: class,
                })
            };
            column.iter().filter(is_instance).count()
        });
        line(&format!("type check, {what}"), one, column.len());
    }
}
