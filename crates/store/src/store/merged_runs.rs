//! Sorted runs of lists, merged into one: of the runs of one range of virtual shards the newest
//! list of a key counts, and the lists of several ranges are joined, since the instances of a class
//! are spread over all ranges. Members go into buffers that are used again: a restart merges
//! hundreds of millions of lists.

use crate::half_edges::ListKey;
use somersault_model::TermId;

/// Lists of edges that come in ascending order of their keys, without repeats: the content of a
/// file, say.
pub trait ListRun {
    /// The reason why a run cannot be read on.
    type Error;

    /// The key of the next list; `None` at the end. The members, ascending, replace what is in
    /// `members`; there are none if the list has gone.
    ///
    /// # Errors
    /// The run cannot be read on.
    fn next_list(&mut self, members: &mut Vec<TermId>) -> Result<Option<ListKey>, Self::Error>;
}

/// The lists of several ranges of virtual shards, merged.
pub struct MergedRuns<R> {
    ranges: Vec<Vec<RunHead<R>>>,
    is_begun: bool,
}

/// A run at its next list.
struct RunHead<R> {
    run: R,
    /// `None` at the end.
    key: Option<ListKey>,
    members: Vec<TermId>,
}

impl<R: ListRun> RunHead<R> {
    fn advance(&mut self) -> Result<(), R::Error> {
        self.key = self.run.next_list(&mut self.members)?;
        Ok(())
    }
}

impl<R: ListRun> MergedRuns<R> {
    /// Merges the runs of each range. The runs of a range come oldest first.
    pub fn new(ranges: Vec<Vec<R>>) -> MergedRuns<R> {
        let head = |run| RunHead {
            run,
            key: None,
            members: Vec::new(),
        };
        let heads = |runs: Vec<R>| runs.into_iter().map(head).collect();
        MergedRuns {
            ranges: ranges.into_iter().map(heads).collect(),
            is_begun: false,
        }
    }
}

impl<R: ListRun> ListRun for MergedRuns<R> {
    type Error = R::Error;

    fn next_list(&mut self, members: &mut Vec<TermId>) -> Result<Option<ListKey>, R::Error> {
        if !self.is_begun {
            self.is_begun = true;
            let mut heads = self.ranges.iter_mut().flatten();
            heads.try_for_each(RunHead::advance)?;
        }
        members.clear();
        let keys = self.ranges.iter().flatten().filter_map(|head| head.key);
        let Some(lowest) = keys.min() else {
            return Ok(None);
        };
        for runs in &mut self.ranges {
            let mut newest = true;
            for head in runs
                .iter_mut()
                .rev()
                .filter(|head| head.key == Some(lowest))
            {
                if newest && members.is_empty() {
                    std::mem::swap(members, &mut head.members);
                } else if newest {
                    members.extend_from_slice(&head.members);
                    // Two ascending stretches.
                    members.sort();
                }
                newest = false;
                head.advance()?;
            }
        }
        Ok(Some(lowest))
    }
}
