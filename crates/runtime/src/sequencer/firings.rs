//! The sequencer's work with firings: it hands those whose turn it is to the host, takes the
//! statements of those whose queries derive streams as inputs, and logs the `Delivered` marks. The
//! ledger (`delivery`) knows their number and states.

use super::Sequencer;
use crate::delivery::HandOver;
use crate::error::RuntimeError;
use crate::host::{DerivedOutput, DueSnapshot, Fired, FiringJob};
use somersault_log::DeliveredRecord;
use somersault_stream::{FiringKey, Input, Record};
use std::sync::Arc;

/// A firing whose answer is on its way into a derived stream.
pub(super) struct Derived {
    key: FiringKey,
    derives: DerivedOutput,
}

impl Sequencer {
    /// The host has answered a firing.
    pub(super) fn on_fired(&mut self, fired: Fired) {
        let Fired {
            key,
            derived,
            outbox,
        } = fired;
        let mut outputs = Vec::new();
        self.coordinator.on_fired(key, &mut outputs);
        let needed_from = outbox.as_ref().and_then(|outbox| outbox.needed_from);
        self.delivery.set_needed(key.query, needed_from);
        if let Some(outbox) = outbox {
            self.on_limits(outbox.limits);
        }
        let mark = self.delivery.answer(key, derived.is_some());
        self.hand_out();
        match derived {
            // The firing's statements come first: a mark says that they are in the log.
            Some(derives) => self.derived.push_back(Derived { key, derives }),
            None => self.mark_delivered(mark),
        }
        // The outputs hold only retired slices and counts; nothing is injected.
        let carried_out = self.carry_out(outputs, self.log_end);
        debug_assert!(carried_out.is_ok());
    }

    /// Hands out the firings whose turn it is.
    pub(super) fn hand_out(&mut self) {
        while let Some(next) = self.delivery.hand_out(&self.shared.store) {
            let HandOver {
                firing,
                snapshot,
                before,
                windows,
                acknowledged,
                released,
            } = next;
            let due = |snapshot| DueSnapshot::new(snapshot, self.shared.pin_clock.clone());
            Arc::clone(&self.shared.host).fire(FiringJob {
                firing,
                snapshot: due(snapshot),
                before: before.map(due),
                made: windows,
                acknowledged,
                released,
            });
        }
    }

    /// Takes the statements of firings that derive streams, each as an input like any other. Call
    /// it neither while an input is being taken nor while the log is being replayed, which holds
    /// most of them already.
    pub(super) fn take_derived(&mut self) {
        while !self.has_turn()
            && let Some(derived) = self.derived.pop_front()
        {
            let Derived { key, derives } = derived;
            let DerivedOutput::Statements(statements) = derives else {
                // Not sooner: by now the earlier firings have their statements in the log.
                self.acknowledge(&key);
                continue;
            };
            // Firings that this makes due belong to the same input as this firing.
            self.input = self.delivery.input_of(&key).unwrap_or(self.inputs);
            let taken = self.take(Input::Derived {
                received_ms: self.now.ms,
                key,
                statements,
            });
            match taken {
                Ok(_) => self.acknowledge(&key),
                Err(error) => self.on_unwritten(&key, &error),
            }
        }
        self.input = self.inputs;
    }

    /// Handles a firing whose statements could not be logged. While the log takes records, the
    /// stream goes on without them, as after a firing that failed; else the firing is executed
    /// again after a restart.
    fn on_unwritten(&mut self, key: &FiringKey, error: &RuntimeError) {
        tracing::error!(
            "the statements of a firing of {} for the close {} were not logged, and its stream goes on without them: {error}",
            key.query.0,
            key.close
        );
        let empty = Input::Derived {
            received_ms: self.now.ms,
            key: *key,
            statements: Vec::new(),
        };
        // An amended firing that fails leaves the statements of its close as they are.
        let goes_on = self.failure.is_none() && key.revision == 0;
        if goes_on && self.take(empty).is_ok() {
            self.acknowledge(key);
        } else {
            self.delivery.abandon(key);
        }
    }

    /// Gives up firings that could not be pinned: they count as failed, and hold no slices.
    pub(super) fn give_up_unpinned(&mut self) {
        for (key, derives) in self.delivery.give_up_unpinned() {
            let mut outputs = Vec::new();
            self.coordinator.on_fired(key, &mut outputs);
            if derives {
                let derives = DerivedOutput::Statements(Vec::new());
                self.derived.push_back(Derived { key, derives });
            }
            // The outputs hold only retired slices and counts; nothing is injected.
            let carried_out = self.carry_out(outputs, self.log_end);
            debug_assert!(carried_out.is_ok());
        }
    }

    fn acknowledge(&mut self, key: &FiringKey) {
        let mark = self.delivery.acknowledge(key);
        self.mark_delivered(mark);
    }

    /// Logs a mark, if it is time for one. One that is not written only costs recovery some work.
    fn mark_delivered(&mut self, mark: Option<DeliveredRecord>) {
        let Some(mark) = mark.filter(|_| !self.shared.log.is_volatile()) else {
            return;
        };
        let record = Record::Delivered(mark);
        let applied = self
            .append(&record)
            .and_then(|position| self.apply(&record, position));
        if let Err(error) = applied {
            tracing::warn!("a mark could not be logged: {error}");
        }
    }
}
