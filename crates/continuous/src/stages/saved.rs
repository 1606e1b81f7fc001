//! The answers that the next ones are compared with, as a checkpoint holds them.
//!
//! Before changing anything here: an answer that ISTREAM compares with is that of the last firing
//! that had one, and an answer that REPORT ON CHANGE compares with is that of the last firing. So
//! both are saved.

use super::changes::Before;
use crate::evaluation::saved::{RestoredAnswer, save_answer, save_failure};
use crate::saved::{AnswersError, Out, SavedPlace, contradiction};
use somersault_dictionary::Dictionary;
use somersault_query::Answer as Inner;
use std::sync::Arc;

/// What the stages of a query compare the next answer with.
#[derive(Default)]
pub(crate) struct SavedStages {
    pub(super) changes: Before,
    pub(super) reporting: Option<Arc<Inner>>,
}

impl SavedStages {
    /// Writes its records.
    pub(crate) fn save(&self, out: &mut Out<'_>) {
        match &self.changes {
            Before::Nothing => {}
            Before::Known(answer) => save_answer(SavedPlace::Changes, answer, out),
            Before::Lost(error) => save_failure(SavedPlace::Changes, error, out),
        }
        if let Some(answer) = &self.reporting {
            save_answer(SavedPlace::Reporting, answer, out);
        }
    }

    /// Adds a saved answer.
    pub(crate) fn add(
        &mut self,
        restored: RestoredAnswer,
        dictionary: &Dictionary,
    ) -> Result<(), AnswersError> {
        let place = restored.place;
        match (place, restored.finish(dictionary)?) {
            (SavedPlace::Changes, Ok(answer)) => self.changes = Before::Known(Arc::new(answer)),
            (SavedPlace::Changes, Err(error)) => self.changes = Before::Lost(error),
            (SavedPlace::Reporting, Ok(answer)) => self.reporting = Some(Arc::new(answer)),
            _ => return contradiction("an answer is in the place of another"),
        }
        Ok(())
    }
}
