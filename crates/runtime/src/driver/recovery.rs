//! Recovery: the log is applied from its beginning, through the same code as live inputs, so that
//! state and answers equal those of a run without the crash (RC-1). Of the firings, only those that
//! subscribers may still ask for are executed again (S12).

use super::sequencer::Sequencer;
use crate::error::RuntimeError;
use somersault_log::{Position, Record, Recovered};
use std::collections::BTreeMap;

impl Sequencer {
    /// Applies all records that the log holds, then makes the cuts that the crash left undone.
    pub(super) fn recover(&mut self, recovered: Option<Recovered>) -> Result<(), RuntimeError> {
        let Some(recovered) = recovered else {
            return Ok(());
        };
        let records = recovered.collect::<Result<Vec<_>, _>>()?;
        self.expect_delivered(&records);
        for (position, record) in records {
            self.apply(&record, position)?;
            // Shards and firings are as far behind as live inputs would let them be.
            self.wait_until(|sequencer| !sequencer.backlogged())?;
        }
        self.cut_due()
    }

    /// The last mark of each query: its closes up to there are not executed again.
    fn expect_delivered(&mut self, records: &[(Position, Record)]) {
        let mut marks = BTreeMap::new();
        for (_, record) in records {
            if let Record::Delivered(mark) = record {
                marks.insert(mark.query, mark.close);
            }
        }
        let mut coordinator = self.shared.coordinator.lock();
        for (query, close) in marks {
            coordinator.expect_delivered(query, close);
        }
    }
}
