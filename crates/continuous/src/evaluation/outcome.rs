//! The outcome of a cohort's firing: the answers of all cells, kept in one piece where they were
//! evaluated together.

use crate::metrics::FiringTimes;
use crate::subscriptions::FiringId;
use rustc_hash::FxHashMap;
use somersault_dictionary::Dictionary;
use somersault_log::AnswerPosition;
use somersault_model::Sn;
use somersault_query::{Answer as Evaluated, GroupAnswer, QueryError, StoredDifference};
use somersault_results::Answer;
use somersault_stream::Firing;
use std::sync::Arc;

/// A result of the cohort.
pub(crate) struct CohortResult {
    pub(crate) firing: Firing,
    pub(crate) outcome: Outcome,
    pub(crate) took: FiringTimes,
}

/// The answers of all cells for one firing.
pub(crate) struct Outcome {
    /// Cells that were evaluated together; several entries if that had to be done in parts.
    pub(super) together: Vec<GroupAnswer>,
    /// Cells that were evaluated one by one and have rows, and all cells that failed.
    pub(super) each: FxHashMap<u32, Result<Answer, String>>,
    /// The answer of all other cells, where they were evaluated one by one.
    pub(super) empty: Option<Answer>,
    /// Why nothing was evaluated, if so.
    pub(super) failed: Option<String>,
    /// The largest number of rows that an answer may have.
    pub(super) most_rows: u64,
    /// In place of the answer of the only cell: what has come and left since the firing at this SN.
    difference: Option<(Sn, StoredDifference)>,
}

/// What a firing has found instead of its answer.
pub(crate) struct Difference {
    /// The SN of the firing before.
    pub(crate) since: Sn,
    /// The solutions that have come and left since.
    pub(crate) solutions: StoredDifference,
    /// The largest number of rows that an answer may have.
    pub(crate) most_rows: u64,
}

impl Outcome {
    pub(crate) fn new(most_rows: u64) -> Outcome {
        Outcome {
            together: Vec::new(),
            each: FxHashMap::default(),
            empty: None,
            failed: None,
            most_rows,
            difference: None,
        }
    }

    /// The difference to the firing at an SN, of a query that is alone in its cohort. A stage makes
    /// an answer of it.
    pub(crate) fn of_difference(
        (since, difference): (Sn, StoredDifference),
        most_rows: u64,
    ) -> Outcome {
        Outcome {
            difference: Some((since, difference)),
            ..Outcome::new(most_rows)
        }
    }

    /// Takes out the difference.
    pub(crate) fn take_difference(&mut self) -> Option<Difference> {
        let (since, solutions) = self.difference.take()?;
        Some(Difference {
            since,
            solutions,
            most_rows: self.most_rows,
        })
    }

    pub(crate) fn failed(error: String) -> Outcome {
        Outcome {
            failed: Some(error),
            ..Outcome::new(0)
        }
    }

    /// Adds cells that were evaluated together. Cells with more rows than an answer may have fail.
    pub(crate) fn add(&mut self, answer: GroupAnswer) {
        let limit = self.most_rows;
        let failed = answer.cells().filter(|(_, rows)| *rows as u64 > limit);
        let error = || QueryError::Rows { limit }.to_string();
        (self.each).extend(failed.map(|(cell, _)| (cell, Err(error()))));
        self.together.push(answer);
    }

    pub(crate) fn add_one(&mut self, cell: u32, answer: Result<Answer, String>) {
        match answer {
            Ok(answer) if answer.is_empty() => self.empty = self.empty.take().or(Some(answer)),
            _ => _ = self.each.insert(cell, answer),
        }
    }

    /// Replaces all answers with that of the only cell.
    pub(crate) fn replace(&mut self, cell: u32, answer: Result<Answer, String>) {
        *self = Outcome::new(self.most_rows);
        self.add_one(cell, answer);
    }

    /// Returns its approximate memory, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let together = self.together.iter().map(GroupAnswer::memory_bytes);
        let each = self.each.values().map(|answer| match answer {
            Ok(answer) => answer.inner().memory_bytes() + size_of::<Answer>(),
            Err(error) => error.len(),
        });
        together.chain(each).sum()
    }

    /// Returns the failure of all cells together, if there was one.
    pub(crate) fn failure(&self) -> Option<&String> {
        self.failed.as_ref()
    }

    /// Returns the failure of some cell.
    pub(crate) fn a_failure(&self) -> Option<&String> {
        let of_each = || self.each.values().find_map(|answer| answer.as_ref().err());
        self.failed.as_ref().or_else(of_each)
    }

    /// Returns the failure of one cell.
    pub(crate) fn error_of(&self, cell: u32) -> Option<String> {
        self.each.get(&cell)?.as_ref().err().cloned()
    }

    /// Returns the cells that have rows, with the number of rows of each.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (u32, u64)> + Clone + '_ {
        let together = self.together.iter().flat_map(GroupAnswer::cells);
        let together = together.filter(|(_, rows)| *rows as u64 <= self.most_rows);
        let each = self
            .each
            .iter()
            .filter_map(|(cell, answer)| Some((*cell, answer.as_ref().ok()?.len())));
        together.chain(each).map(|(cell, rows)| (cell, rows as u64))
    }

    /// Whether the answer of a cell has no rows.
    pub(crate) fn is_empty(&self, cell: u32) -> bool {
        self.failed.is_none()
            && !self.each.contains_key(&cell)
            && self.together.iter().all(|answer| answer.count(cell) == 0)
    }

    /// Returns the answer of a cell.
    pub(crate) fn answer(&self, cell: u32, dictionary: &Arc<Dictionary>) -> Result<Answer, String> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        if let Some(answer) = self.each.get(&cell) {
            return answer.clone();
        }
        let with_rows = self.together.iter().find(|answer| answer.count(cell) > 0);
        let found = match (with_rows, &self.empty) {
            (None, Some(empty)) => return Ok(empty.clone()),
            (Some(found), _) => found,
            (None, None) => self.together.first().ok_or("the query was not evaluated")?,
        };
        let solutions = Evaluated::Solutions(found.of(cell));
        Ok(Answer::new(solutions, Arc::clone(dictionary)))
    }
}

impl CohortResult {
    pub(crate) fn id(&self) -> FiringId {
        FiringId::of(&self.firing.key(), self.firing.sn)
    }

    pub(crate) fn position(&self) -> AnswerPosition {
        AnswerPosition {
            sn: self.firing.sn,
            close: self.firing.close,
            ordinal: self.firing.ordinal,
            revision: self.firing.revision,
        }
    }
}
