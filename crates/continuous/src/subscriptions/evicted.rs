//! Which firings of a query are no longer kept, so that a subscriber learns whether it missed one.

use super::firing_id::FiringId;
use super::options::SubscribeOptions;
use crate::saved::SavedEvicted;
use somersault_model::EventTime;

/// The firings of a query that are no longer kept.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Evicted {
    /// The newest firing that amended nothing.
    unamended: Option<FiringId>,
    /// The newest firing that amended a close and came after `unamended`.
    amended: Option<FiringId>,
}

impl Evicted {
    pub(crate) fn save(self) -> SavedEvicted {
        SavedEvicted {
            unamended: self.unamended.map(FiringId::save),
            amended: self.amended.map(FiringId::save),
        }
    }

    pub(crate) fn restore(saved: SavedEvicted) -> Evicted {
        Evicted {
            unamended: saved.unamended.map(FiringId::restore),
            amended: saved.amended.map(FiringId::restore),
        }
    }

    /// Notes one more firing that is no longer kept; firings leave in their order.
    pub(crate) fn note(&mut self, id: FiringId) {
        match id.revision {
            0 => {
                self.unamended = Some(id);
                self.amended = None;
            }
            _ => self.amended = Some(id),
        }
    }

    /// Adds firings that are no longer kept either, and come after all earlier ones.
    pub(crate) fn add(&mut self, later: Evicted) {
        for id in [later.unamended, later.amended].into_iter().flatten() {
            self.note(id);
        }
    }

    pub(crate) fn newest(&self) -> Option<FiringId> {
        self.amended.or(self.unamended)
    }

    /// Returns those of the firings that were for closes after this one.
    pub(crate) fn after(self, close: EventTime) -> Evicted {
        let is_after = |id: &FiringId| id.close > close;
        Evicted {
            unamended: self.unamended.filter(is_after),
            amended: self.amended.filter(is_after),
        }
    }

    /// Returns the same, or the firing answered before if nothing is gone.
    pub(crate) fn or(self, before: Option<FiringId>) -> Evicted {
        match self.newest() {
            Some(_) => self,
            None => Evicted {
                unamended: before,
                amended: None,
            },
        }
    }

    /// Returns the close of the newest firing that amended nothing.
    pub(super) fn last_close(&self) -> Option<EventTime> {
        self.unamended.map(|id| id.close)
    }

    /// Whether a subscriber misses a firing that it has not seen.
    pub(crate) fn is_missed(&self, options: &SubscribeOptions) -> bool {
        match options.after {
            Some(FiringId {
                sn: None, close, ..
            }) => self.unamended.is_some_and(|gone| {
                // The close that it saw is gone, and so are the amendments behind it.
                let is_seen = gone.close == close && gone.ordinal == 0;
                options.has_not_seen(gone) || (is_seen && self.amended.is_some())
            }),
            _ => self.newest().is_some_and(|gone| options.has_not_seen(gone)),
        }
    }
}
