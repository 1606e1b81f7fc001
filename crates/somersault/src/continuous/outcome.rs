//! What a firing of a cohort came to: the answers of all cells, kept in one piece where they were
//! evaluated at once.

use crate::answer::Answer;
use rustc_hash::FxHashMap;
use somersault_dictionary::Dictionary;
use somersault_query::{Answer as Evaluated, GroupAnswer, QueryError};
use std::sync::Arc;

/// See the module.
pub(crate) struct Outcome {
    /// Cells that were evaluated at once; more than one where that had to be done in parts.
    together: Vec<GroupAnswer>,
    /// Cells that were evaluated by themselves and have rows, and all that failed.
    each: FxHashMap<u32, Result<Answer, String>>,
    /// The answer of all other cells, where they were evaluated by themselves.
    empty: Option<Answer>,
    /// Nothing was evaluated: why.
    failed: Option<String>,
    /// How many rows an answer may have.
    most_rows: u64,
}

impl Outcome {
    pub(crate) fn new(most_rows: u64) -> Outcome {
        Outcome {
            together: Vec::new(),
            each: FxHashMap::default(),
            empty: None,
            failed: None,
            most_rows,
        }
    }

    pub(crate) fn failed(error: String) -> Outcome {
        Outcome {
            failed: Some(error),
            ..Outcome::new(0)
        }
    }

    /// Cells that were evaluated at once. Those of them that have more rows than an answer may have
    /// failed.
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

    /// Puts another answer in the place of all that there is: that of the only cell.
    pub(crate) fn replace(&mut self, cell: u32, answer: Result<Answer, String>) {
        *self = Outcome::new(self.most_rows);
        self.add_one(cell, answer);
    }

    /// Memory that it takes, roughly.
    pub(crate) fn memory_bytes(&self) -> usize {
        let together = self.together.iter().map(GroupAnswer::memory_bytes);
        let each = self.each.values().map(|answer| match answer {
            Ok(answer) => answer.inner().memory_bytes() + size_of::<Answer>(),
            Err(error) => error.len(),
        });
        together.chain(each).sum()
    }

    /// Whether it was one failure for all.
    pub(crate) fn failure(&self) -> Option<&String> {
        self.failed.as_ref()
    }

    /// A failure of some cell.
    pub(crate) fn a_failure(&self) -> Option<&String> {
        let of_each = || self.each.values().find_map(|answer| answer.as_ref().err());
        self.failed.as_ref().or_else(of_each)
    }

    /// The failure of one cell.
    pub(crate) fn error_of(&self, cell: u32) -> Option<String> {
        self.each.get(&cell)?.as_ref().err().cloned()
    }

    /// The cells that have rows, with how many.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (u32, u64)> + Clone + '_ {
        let together = self.together.iter().flat_map(GroupAnswer::cells);
        let together = together.filter(|(_, rows)| *rows as u64 <= self.most_rows);
        let each = self
            .each
            .iter()
            .filter_map(|(cell, answer)| Some((*cell, answer.as_ref().ok()?.len())));
        together.chain(each).map(|(cell, rows)| (cell, rows as u64))
    }

    /// Whether the answer of a cell has no row.
    pub(crate) fn is_empty(&self, cell: u32) -> bool {
        self.failed.is_none()
            && !self.each.contains_key(&cell)
            && self.together.iter().all(|answer| answer.count(cell) == 0)
    }

    /// The answer of a cell.
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
