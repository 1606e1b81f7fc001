//! The cost of a statement in the store: bulk load, stream batches, reads, window slides. Run with
//! `cargo run --release -p somersault-store --example rates [statements]`. Figures are printed, not
//! asserted: speed is compared in the bench crate.

use somersault_model::{
    BatchNumber, Direction, EventTime, Millis, Mutation, Placement, QuadIds, ShardId, Sn,
    StreamUid, Tag, TermId, TimedTriple, TripleIds, VirtualShard, inline, term_hash,
};
use somersault_store::{PreparedEdges, ShardBatch, ShardWriter, Slice, SliceRows, Store, ViewKey};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Numbered as the dictionary does: spread over the virtual shards, sequences without gaps.
fn vertex(n: u64) -> TermId {
    let shard = VirtualShard::truncated((n.wrapping_mul(0x9e5) & 0xfff) as u16);
    TermId::in_dictionary(Tag::NamedNode, shard, n >> 12)
}

/// Users who know each other, posts with four properties and likes: about what LSBench has.
fn statement(n: u64) -> QuadIds {
    let random = n.wrapping_mul(0xd1b5_4a32_d192_ed03).rotate_left(31) % 1_000_003;
    let post = 10_000_000 + n / 6;
    let (subject, predicate, object) = match n % 6 {
        0 => (post, 1, vertex(random % 50_000)),
        1 => (post, 2, inline::integer(random as i64).expect("fits")),
        2 => (post, 3, vertex(5_000_000 + n)),
        3 => (random % 50_000, 4, vertex(post)),
        4 => (random % 50_000, 5, vertex(random / 7 % 50_000)),
        _ => (post, 6, vertex(60_000 + random % 3_000)),
    };
    QuadIds {
        graph: TermId::DEFAULT_GRAPH,
        subject: vertex(subject),
        predicate: vertex(90_000_000 + predicate),
        object,
    }
}

/// Time that this thread has had on a core, where the system tells: other processes do not count.
fn processor_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(text.split(' ').next()?.parse().ok()?))
}

fn per<T>(what: &str, count: u64, work: impl FnOnce() -> T) -> T {
    let mut out = None;
    let spent = timed_by_processor(|| out = Some(work()));
    let each = spent.as_nanos() as f64 / count as f64;
    println!("{what:<52} {count:>9} in {spent:>10.2?}  {each:>8.1} ns each");
    out.expect("the work is done")
}

fn main() {
    let count: u64 = std::env::args()
        .nth(1)
        .and_then(|n| n.parse().ok())
        .unwrap_or(2_000_000);
    let store = Store::new(1);
    let mut writer = store.take_writer(ShardId(0)).expect("free");
    let load: Arc<[QuadIds]> = (0..count).map(statement).collect();
    let batch = per("split of a load", count, || {
        ShardBatch::split_with_loads(&[load], &[], Placement::new(1)).swap_remove(0)
    });
    per("bulk load, both directions", count, || {
        writer.apply(Sn(1), &batch).expect("in order")
    });
    drop(batch);
    store.snapshots().publish_stable(Sn(1));
    println!(
        "stored: {} bytes a statement",
        store.memory().stored_bytes as u64 / count
    );

    let (batches, size) = (100, 2_000);
    for (phase, what) in [
        "first stream batches",
        "stream batches",
        "stream batches under a long pin",
    ]
    .into_iter()
    .enumerate()
    {
        let pin = (phase == 2).then(|| store.pin_stable());
        let from = count + phase as u64 * batches * size;
        let mutations: Vec<_> = (from..from + batches * size)
            .map(|n| Mutation::insert(statement(n)))
            .collect();
        per(what, batches * size, || {
            for of_batch in mutations.chunks(size as usize) {
                let sn = store.snapshots().stable().next();
                let batch = ShardBatch::split(of_batch, Placement::new(1)).swap_remove(0);
                writer.apply(sn, &batch).expect("in order");
                store.snapshots().publish_stable(sn);
            }
        });
        drop(pin);
    }
    closes(&store, &mut writer, count * 2);
    let snapshot = store.pin_stable();
    let mut scratch = Vec::new();
    let known = vertex(90_000_005);
    let found: usize = per("neighbours of a random user", 1_000_000, || {
        (0..1_000_000u64)
            .map(|n| {
                let user = vertex(n * 7_919 % 50_000);
                let graph = TermId::DEFAULT_GRAPH;
                snapshot
                    .neighbours(graph, user, known, Direction::Out, &mut scratch)
                    .len()
            })
            .sum()
    });
    println!("  {found} found");
    per("contains", 1_000_000, || {
        (0..1_000_000)
            .filter(|n| snapshot.contains(statement(n * 3)))
            .count()
    });
    per("pin and unpin", 1_000_000, || {
        (0..1_000_000).for_each(|_| drop(store.pin_stable()))
    });
    windows(&store);
    dictionary(&store);
}

/// The close of batches of a stream of facts: the work before it, that of its facts and of its slice,
/// which a firing waits for, and the work after it. Of every other batch nothing is prepared, of the
/// others portions of this many statements.
fn closes(store: &Arc<Store>, writer: &mut ShardWriter, from: u64) {
    let (batches, size, portion) = (100, 11_000, 256);
    let split =
        |mutations: &[Mutation]| ShardBatch::split(mutations, Placement::new(1)).swap_remove(0);
    let mut spent = [[Duration::ZERO; 4]; 2];
    for batch in 0..batches {
        let is_prepared = batch % 2 == 1;
        let spent = &mut spent[usize::from(is_prepared)];
        let of_batch = from + batch * size..from + (batch + 1) * size;
        let quads: Vec<QuadIds> = of_batch.map(statement).collect();
        let facts: Vec<Mutation> = quads.iter().copied().map(Mutation::insert).collect();
        let at = EventTime(batch as i64 * 100);
        let timed = |quad: &QuadIds| TimedTriple {
            at,
            triple: quad.triple(),
        };
        let statements: Vec<TimedTriple> = quads.iter().map(timed).collect();
        let (mut rows, mut edges) = (SliceRows::default(), PreparedEdges::default());
        let mut prepared = 0;
        spent[0] += timed_by_processor(|| {
            // The last portion is never complete.
            while is_prepared && prepared + portion < facts.len() {
                let of_portion = prepared..prepared + portion;
                edges.add(split(&facts[of_portion.clone()]));
                rows.add(&statements[of_portion]);
                prepared += portion;
            }
        });
        let sn = store.snapshots().stable().next();
        spent[1] += timed_by_processor(|| {
            let mut of_sn = split(&facts[prepared..]);
            of_sn.insert_prepared(edges);
            writer.apply_promptly(sn, &of_sn).expect("in order");
        });
        spent[2] += timed_by_processor(|| {
            let (number, interval) = (BatchNumber(batch as i64), Millis(100));
            let slice = Slice::of_rows(number, interval, (0, rows), &statements);
            store.slices().insert(StreamUid(2), slice);
        });
        store.snapshots().publish_stable(sn);
        spent[3] += timed_by_processor(|| writer.settle());
    }
    store.slices().drop_stream(StreamUid(2));
    for (what, spent) in ["not prepared", "prepared"].into_iter().zip(spent) {
        let each = spent.map(|spent| spent.as_secs_f64() * 1e3 / (batches / 2) as f64);
        println!(
            "a batch of {size} facts, {what}: {:.2} ms before, {:.2} + {:.2} ms at, {:.2} ms after",
            each[0], each[1], each[2], each[3]
        );
    }
}

/// The processor time that this takes on this thread.
fn timed_by_processor(work: impl FnOnce()) -> Duration {
    let (start, before) = (Instant::now(), processor_time());
    work();
    let elapsed = start.elapsed();
    (processor_time().zip(before)).map_or(elapsed, |(after, before)| after - before)
}

fn windows(store: &Store) {
    let interval = Millis(100);
    let stream = StreamUid(1);
    for (size, range) in [(1_000u64, 10), (5_000, 10), (5_000, 100)] {
        let timed = |batch: i64| -> Vec<TimedTriple> {
            let from = batch as u64 * size;
            (from..from + size)
                .map(|n| TimedTriple {
                    at: EventTime(batch * 100 + (n % 100) as i64),
                    triple: statement(n).triple(),
                })
                .collect()
        };
        let batches: Vec<_> = (0..2 * range).map(timed).collect();
        per(
            &format!("slices of {size}"),
            2 * range as u64 * size,
            || {
                for (n, statements) in batches.iter().enumerate() {
                    let slice = Slice::build(BatchNumber(n as i64), interval, 0, statements);
                    store.slices().insert(stream, slice);
                }
            },
        );
        let key = ViewKey {
            range,
            until: 0,
            step: 1,
        };
        let window = |hi: i64| {
            store
                .slices()
                .window(stream, BatchNumber(hi - range), BatchNumber(hi), key)
        };
        window(range);
        per(
            &format!("slides of {range} batches of {size}"),
            range as u64,
            || {
                for hi in range + 1..=2 * range {
                    window(hi);
                }
            },
        );
        let last = window(2 * range);
        let mut scratch = Vec::new();
        let probes: Vec<TripleIds> = batches[2 * range as usize - 1]
            .iter()
            .map(|t| t.triple)
            .collect();
        per("neighbours in that window", 100 * size, || {
            (0..100).flat_map(|_| &probes).fold(0, |sum, t| {
                sum + last
                    .neighbours(t.subject, t.predicate, Direction::Out, &mut scratch)
                    .len()
            })
        });
        store.slices().drop_stream(stream);
    }
}

fn dictionary(store: &Store) {
    let names: Vec<_> = (0..500_000)
        .map(|n| oxrdf::NamedNode::new_unchecked(format!("http://example.com/social/user/{n}")))
        .collect();
    let dictionary = store.dictionary();
    let count = names.len() as u64;
    per("hash of a term", count, || {
        names
            .iter()
            .fold(0, |sum, name| sum ^ term_hash(name.as_ref().into()))
    });
    let ids: Vec<_> = per("intern of a new term", count, || {
        names
            .iter()
            .map(|name| dictionary.intern(name.as_ref().into()))
            .collect()
    });
    per("intern of a known term", count, || {
        names.iter().for_each(|name| {
            dictionary.intern(name.as_ref().into());
        });
    });
    per("lookup of a known term", count, || {
        (names.iter())
            .filter(|name| dictionary.lookup(name.as_ref().into()).is_some())
            .count()
    });
    per("decode of a column, as borrowed text", count, || {
        let mut length = 0;
        dictionary.decode_column(&ids, |_, view| {
            length += view.map_or(0, |view| view.text_len());
        });
        length
    });
    per("decode", count, || {
        ids.iter()
            .filter(|id| dictionary.decode(**id).is_some())
            .count()
    });
    println!(
        "dictionary: {} bytes a term",
        dictionary.memory_bytes() as u64 / count
    );
}
