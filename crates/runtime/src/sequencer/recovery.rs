//! Recovery: the log is applied from its beginning, through the same code as live inputs, so that
//! state and answers equal those of a run without the crash (RC-1). Of the firings, only those that
//! subscribers may still ask for are executed again (S12).

use super::Sequencer;
use crate::error::RuntimeError;
use somersault_log::Recovered;
use somersault_stream::{PushStatements, Record};

impl Sequencer {
    /// Applies all records of the log, then makes the cuts that the crash left undone.
    pub(crate) fn recover(&mut self, recovered: Option<Recovered>) -> Result<(), RuntimeError> {
        let Some(recovered) = recovered else {
            return Ok(());
        };
        for mark in recovered.delivered() {
            self.shared.coordinator.lock().expect_delivered(&mark);
        }
        for entry in recovered {
            let (position, record) = entry?;
            let record = record.map_statements(PushStatements::from);
            if matches!(record, Record::Load(_)) {
                // The statements of one load are held at a time, as when they were loaded.
                self.wait_until(|sequencer| sequencer.stability.unstable() == 0)?;
            }
            self.apply(&record, position)?;
            // Shards and firings may lag as far behind as with live inputs.
            self.wait_until(|sequencer| !sequencer.backlogged())?;
        }
        // The remaining closes are cut in slices while the engine answers.
        self.cut_due()?;
        self.cut_all()?;
        // Waits for statements of derived streams that the log does not hold; each may make further
        // closes due.
        while self.firings.oldest_underived().is_some() {
            self.wait_until(|sequencer| {
                !sequencer.derived.is_empty() || sequencer.firings.oldest_underived().is_none()
            })?;
            self.take_derived();
            self.cut_all()?;
        }
        // The first reader sees all that was acknowledged; firings may still be under way.
        self.wait_until(|sequencer| sequencer.stability.unstable() == 0)
    }
}
