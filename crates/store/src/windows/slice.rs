//! A slice: one closed batch of one stream, indexed. Beside the run it has the side columns of S10:
//! the order in which statements arrived and their event times; and the lease that keeps the terms
//! which only timing statements mention.

use crate::windows::run::Run;
use crate::windows::slice_rows::SliceRows;
use somersault_model::{BatchNumber, EventTime, Lease, Millis, TimedTriple, TripleIds};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// A closed batch in its immutable form.
#[derive(Debug)]
pub struct Slice {
    /// Tells it from all other slices of this process.
    number: u64,
    batch: BatchNumber,
    start: EventTime,
    revision: u32,
    run: Arc<Run>,
    arrivals: Arrivals,
    /// Per triple of the run: the offset of its newest arrival. Made on first use; few queries need
    /// it.
    newest_offsets: OnceLock<Box<[u32]>>,
    /// `None` if all terms are permanent.
    lease: Option<Lease>,
}

fn next_number() -> u64 {
    static NUMBERS: AtomicU64 = AtomicU64::new(0);
    NUMBERS.fetch_add(1, Ordering::Relaxed)
}

/// Per arrival, in order: the number of the triple in the run, and its offset in the batch; in two
/// bytes each if that suffices.
#[derive(Debug)]
enum Arrivals {
    Short(Box<[(u16, u16)]>),
    Long(Box<[(u32, u32)]>),
}

impl Arrivals {
    fn new(arrivals: impl Iterator<Item = (u32, u32)>, longest: u64) -> Arrivals {
        if longest <= 1 << 16 {
            let short = arrivals.map(|(row, offset)| (row as u16, offset as u16));
            Arrivals::Short(short.collect())
        } else {
            Arrivals::Long(arrivals.collect())
        }
    }

    fn len(&self) -> usize {
        match self {
            Arrivals::Short(arrivals) => arrivals.len(),
            Arrivals::Long(arrivals) => arrivals.len(),
        }
    }

    fn get(&self, at: usize) -> (u32, u32) {
        match self {
            Arrivals::Short(arrivals) => (arrivals[at].0.into(), arrivals[at].1.into()),
            Arrivals::Long(arrivals) => arrivals[at],
        }
    }

    fn iter(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        (0..self.len()).map(|at| self.get(at))
    }

    fn bytes(&self) -> usize {
        match self {
            Arrivals::Short(arrivals) => size_of_val(&**arrivals),
            Arrivals::Long(arrivals) => size_of_val(&**arrivals),
        }
    }
}

impl Slice {
    /// The slice of a batch from its statements in the order of arrival. `revision` increases when
    /// late statements change a closed batch.
    ///
    /// # Panics
    /// Panics if a statement's event time is not in the batch.
    pub fn build(
        batch: BatchNumber,
        interval: Millis,
        revision: u32,
        statements: &[TimedTriple],
    ) -> Slice {
        Slice::of_rows(
            batch,
            interval,
            (revision, SliceRows::default()),
            statements,
        )
    }

    /// The slice of a batch, whose first statements are in `rows` already.
    ///
    /// # Panics
    /// Panics if a statement's event time is not in the batch, or if there are more rows than
    /// statements.
    pub fn of_rows(
        batch: BatchNumber,
        interval: Millis,
        (revision, mut rows): (u32, SliceRows),
        statements: &[TimedTriple],
    ) -> Slice {
        let start = batch.start(interval);
        rows.add(&statements[rows.len()..]);
        let (run, places) = Run::of_rows(batch, rows);
        let end = batch.end(interval);
        let offset_of = |statement: &TimedTriple| {
            assert!(
                (start..end).contains(&statement.at),
                "a statement of time {} is not in batch {}",
                statement.at.0,
                batch.0
            );
            u32::try_from(statement.at.0 - start.0)
                .expect("a batch interval is shorter than 49 days")
        };
        let arrivals =
            (statements.iter().zip(&places)).map(|(statement, row)| (*row, offset_of(statement)));
        let longest = interval.0.unsigned_abs().max(run.len() as u64);
        let arrivals = Arrivals::new(arrivals, longest);
        Slice {
            number: next_number(),
            batch,
            start,
            revision,
            run: Arc::new(run),
            arrivals,
            newest_offsets: OnceLock::new(),
            lease: None,
        }
    }

    /// The slice with the lease that its statements came with.
    pub fn with_lease(self, lease: Option<Lease>) -> Slice {
        Slice { lease, ..self }
    }

    /// The slice with late statements after all that it holds, and with their lease beside its own.
    ///
    /// # Panics
    /// Panics if an event time is not in the batch.
    pub fn with_late(&self, interval: Millis, late: &[TimedTriple], lease: Option<Lease>) -> Slice {
        let mut statements = self.in_order_of_arrival();
        statements.extend_from_slice(late);
        Slice::build(self.batch, interval, self.revision + 1, &statements)
            .with_lease(Lease::older(self.lease.clone(), lease))
    }

    /// The same batch with only these of its arrivals. The cost depends on their number alone, not
    /// on that of the others: windows that slide by one statement cut a batch as often as it has
    /// statements.
    pub(crate) fn part(&self, arrivals: Range<usize>) -> Slice {
        let arrived: Vec<(u32, u32)> = arrivals.map(|at| self.arrivals.get(at)).collect();
        let inside = arrived
            .iter()
            .map(|(row, _)| self.run.triple(*row as usize));
        let (run, places) = Run::of_batch(self.batch, inside);
        let last = arrived
            .iter()
            .map(|(_, offset)| u64::from(*offset) + 1)
            .max();
        let longest = last.unwrap_or(0).max(run.len() as u64);
        let arrivals = places
            .into_iter()
            .zip(arrived)
            .map(|(row, (_, offset))| (row, offset));
        Slice {
            number: next_number(),
            batch: self.batch,
            start: self.start,
            revision: self.revision,
            run: Arc::new(run),
            arrivals: Arrivals::new(arrivals, longest),
            newest_offsets: OnceLock::new(),
            lease: self.lease.clone(),
        }
    }

    /// The number of this slice, which no other slice of this process has.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The number of the batch.
    pub fn batch(&self) -> BatchNumber {
        self.batch
    }

    /// The number of times that late statements have changed the batch.
    pub fn revision(&self) -> u32 {
        self.revision
    }

    /// The lease that keeps the transient terms of its statements, if there are any.
    pub fn lease(&self) -> Option<&Lease> {
        self.lease.as_ref()
    }

    /// The distinct triples, indexed.
    pub fn run(&self) -> &Arc<Run> {
        &self.run
    }

    /// The number of statements that arrived, repeats counted.
    pub fn arrivals(&self) -> usize {
        self.arrivals.len()
    }

    /// The statements in the order of arrival, repeats included, with their event times.
    pub fn in_order_of_arrival(&self) -> Vec<TimedTriple> {
        let triples: Vec<TripleIds> = self.run.triples().collect();
        let timed = |(row, offset): (u32, u32)| TimedTriple {
            at: self.start.plus(Millis(i64::from(offset))),
            triple: triples[row as usize],
        };
        self.arrivals.iter().map(timed).collect()
    }

    /// The event time of the newest arrival of a triple in this batch.
    pub fn newest_time_of(&self, triple: TripleIds) -> Option<EventTime> {
        let row = self.run.find(triple)?;
        let newest = self.newest_offsets.get_or_init(|| {
            let mut newest = vec![0u32; self.run.len()].into_boxed_slice();
            for (row, offset) in self.arrivals.iter() {
                let of_row = &mut newest[row as usize];
                *of_row = offset.max(*of_row);
            }
            newest
        });
        Some(self.start.plus(Millis(i64::from(newest[row]))))
    }

    /// Size in memory in bytes. It grows with the parts that are made on first use.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Slice>()
            + self.run.memory_bytes()
            + self.arrivals.bytes()
            + (self.newest_offsets.get()).map_or(0, |newest| size_of_val(&**newest))
    }
}
