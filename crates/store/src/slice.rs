//! A slice: one closed batch of one stream, indexed. Beside the run there are the side columns of
//! S10: the order in which statements arrived and their event times. The list of terms that only
//! the slice holds comes with the reclaiming of terms.

use crate::Run;
use somersault_model::{BatchNumber, EventTime, Millis, TimedTriple, TripleIds};
use std::sync::Arc;

/// A closed batch in its immutable form.
#[derive(Debug)]
pub struct Slice {
    batch: BatchNumber,
    start: EventTime,
    revision: u32,
    run: Arc<Run>,
    /// Per arrival, in order: the number of the triple in the run, and its offset in the batch.
    arrivals: Box<[(u32, u32)]>,
    /// Per triple of the run: the offset of its newest arrival.
    newest_offsets: Box<[u32]>,
}

impl Slice {
    /// The slice of a batch from its statements in the order in which they arrived. `revision` goes
    /// up when late statements change a closed batch.
    ///
    /// # Panics
    /// Where a statement's event time is not in the batch.
    pub fn build(
        batch: BatchNumber,
        interval: Millis,
        revision: u32,
        statements: &[TimedTriple],
    ) -> Slice {
        let start = batch.start(interval);
        let (run, places) = Run::of_batch(batch, statements.iter().map(|s| s.triple));
        let mut newest_offsets = vec![0u32; run.len()].into_boxed_slice();
        let arrivals = (statements.iter().zip(places))
            .map(|(statement, row)| {
                assert!(
                    BatchNumber::of(statement.at, interval) == batch,
                    "a statement of time {} is not in batch {}",
                    statement.at.0,
                    batch.0
                );
                let offset = u32::try_from(statement.at.0 - start.0)
                    .expect("a batch interval is shorter than 49 days");
                let newest = &mut newest_offsets[row as usize];
                *newest = offset.max(*newest);
                (row, offset)
            })
            .collect();
        Slice {
            batch,
            start,
            revision,
            run: Arc::new(run),
            arrivals,
            newest_offsets,
        }
    }

    /// The slice with statements that came late, after all that it holds.
    ///
    /// # Panics
    /// Where an event time is not in the batch.
    pub fn with_late(&self, interval: Millis, late: &[TimedTriple]) -> Slice {
        let mut statements = self.in_order_of_arrival();
        statements.extend_from_slice(late);
        Slice::build(self.batch, interval, self.revision + 1, &statements)
    }

    /// The number of the batch.
    pub fn batch(&self) -> BatchNumber {
        self.batch
    }

    /// How often late statements have changed the batch.
    pub fn revision(&self) -> u32 {
        self.revision
    }

    /// The distinct triples, indexed.
    pub fn run(&self) -> &Arc<Run> {
        &self.run
    }

    /// How many statements arrived, repeats counted.
    pub fn arrivals(&self) -> usize {
        self.arrivals.len()
    }

    /// The statements as they arrived, repeats too, with their event times.
    pub fn in_order_of_arrival(&self) -> Vec<TimedTriple> {
        let triples: Vec<TripleIds> = self.run.triples().collect();
        let timed = |(row, offset): &(u32, u32)| TimedTriple {
            at: self.start.plus(Millis(i64::from(*offset))),
            triple: triples[*row as usize],
        };
        self.arrivals.iter().map(timed).collect()
    }

    /// The event time of the newest arrival of a triple in this batch.
    pub fn newest_time_of(&self, triple: TripleIds) -> Option<EventTime> {
        let row = self.run.find(triple)?;
        Some(self.start.plus(Millis(i64::from(self.newest_offsets[row]))))
    }

    /// Size in memory.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Slice>()
            + self.run.memory_bytes()
            + size_of_val(&*self.arrivals)
            + size_of_val(&*self.newest_offsets)
    }
}
