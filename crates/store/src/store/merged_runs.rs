//! Sorted runs of lists, merged into one: of the runs of one range of virtual shards the newest
//! list of a key counts, and the lists of several ranges are joined, since the instances of a class
//! are spread over all ranges.

use crate::half_edges::ListKey;
use somersault_model::TermId;
use std::iter::Peekable;

/// A list of edges: its key and its members, ascending; none if the list has gone.
pub type ListEntry = (ListKey, Vec<TermId>);

/// The lists of several ranges of virtual shards in ascending order of keys. An error of a run ends
/// it.
pub struct MergedRuns<I: Iterator> {
    ranges: Vec<Vec<Peekable<I>>>,
}

impl<E, I: Iterator<Item = Result<ListEntry, E>>> MergedRuns<I> {
    /// Merges the runs of each range. The runs of a range come oldest first, and each ascends by
    /// keys without repeats.
    pub fn new(ranges: Vec<Vec<I>>) -> MergedRuns<I> {
        let peekable = |runs: Vec<I>| runs.into_iter().map(Iterator::peekable).collect();
        MergedRuns {
            ranges: ranges.into_iter().map(peekable).collect(),
        }
    }

    /// The lowest key at the heads of all runs; `None` also if there is an error.
    fn lowest(&mut self) -> Result<Option<ListKey>, E> {
        let mut lowest: Option<ListKey> = None;
        for run in self.ranges.iter_mut().flatten() {
            match run.peek() {
                Some(Ok((key, _))) => lowest = Some(lowest.map_or(*key, |low| low.min(*key))),
                Some(Err(_)) => {
                    if let Some(Err(error)) = run.next() {
                        return Err(error);
                    }
                }
                None => {}
            }
        }
        Ok(lowest)
    }
}

impl<E, I: Iterator<Item = Result<ListEntry, E>>> Iterator for MergedRuns<I> {
    type Item = Result<ListEntry, E>;

    fn next(&mut self) -> Option<Result<ListEntry, E>> {
        let lowest = match self.lowest() {
            Ok(lowest) => lowest?,
            Err(error) => {
                self.ranges.clear();
                return Some(Err(error));
            }
        };
        let mut members: Vec<TermId> = Vec::new();
        for runs in &mut self.ranges {
            let mut newest = None;
            for run in runs {
                let same = |head: &I::Item| matches!(head, Ok((key, _)) if *key == lowest);
                if let Some(Ok((_, list))) = run.next_if(same) {
                    newest = Some(list);
                }
            }
            match newest {
                Some(list) if members.is_empty() => members = list,
                Some(list) => members.extend(list),
                None => {}
            }
        }
        // One list most often; those of several ranges are ascending stretches.
        members.sort();
        Some(Ok((lowest, members)))
    }
}
