//! The options of a subscription: its first firing, the firings that it receives, and the treatment
//! of a slow subscriber.

use super::backlog::Backlog;
use super::firing_id::FiringId;
use somersault_model::QueryUid;

/// The first firing of a subscription, and the firings that it receives.
///
/// ```
/// use somersault::{EventTime, FiringId, SubscribeOptions};
/// let seen = FiringId::at(EventTime(802_000));
/// let options = SubscribeOptions { after: Some(seen), ..Default::default() };
/// assert!(options.empties);
/// ```
#[derive(Clone, Debug)]
pub struct SubscribeOptions {
    /// Only firings after this one (Last-Event-ID); `None` begins with the oldest kept firing. If
    /// it is a firing of another query, which the one of this name did not replace, the subscriber
    /// is told that it missed some, and begins with the oldest.
    pub after: Option<FiringId>,
    /// Only firings after the newest so far; ignored if `after` is given.
    pub from_now: bool,
    /// Also firings without rows. Those of a live query are always among them.
    pub empties: bool,
    /// The number of firings that may wait to be read; see `when_slow`.
    pub capacity: usize,
    /// The memory that the waiting firings may take; `None` limits only their number.
    pub backlog: Option<Backlog>,
    /// The treatment of a subscriber with too many waiting firings.
    pub when_slow: WhenSlow,
}

/// The treatment of a subscriber that reads more slowly than its query fires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhenSlow {
    /// The oldest waiting firings are dropped, and it is told how many
    /// ([`Lagged`](crate::SubscriptionEvent::Lagged)).
    #[default]
    SkipOldest,
    /// All waiting firings are dropped, it is told so ([`Slow`](crate::SubscriptionEvent::Slow)),
    /// and its subscription ends.
    End,
}

impl Default for SubscribeOptions {
    fn default() -> Self {
        SubscribeOptions {
            after: None,
            from_now: false,
            empties: true,
            capacity: 1024,
            backlog: None,
            when_slow: WhenSlow::default(),
        }
    }
}

impl SubscribeOptions {
    /// Returns the same options for a query whose newest firing is this.
    pub(crate) fn at(&self, newest: Option<FiringId>) -> SubscribeOptions {
        let newest = newest.filter(|_| self.from_now);
        SubscribeOptions {
            after: self.after.or(newest),
            ..self.clone()
        }
    }

    /// Whether the last seen firing is known to belong to another query than the one with this uid.
    pub(crate) fn follows_another(&self, uid: QueryUid) -> bool {
        let seen = self.after.and_then(|after| after.uid);
        seen.is_some_and(|seen| seen != uid.0)
    }

    /// Returns the same options for a subscriber that has seen nothing of the query.
    pub(crate) fn having_seen_nothing(&self) -> SubscribeOptions {
        SubscribeOptions {
            after: None,
            from_now: false,
            ..self.clone()
        }
    }

    /// Whether a firing came after the last seen one, as far as the two ids alone tell.
    pub(crate) fn has_not_seen(&self, id: FiringId) -> bool {
        self.after.is_some_and(|after| match (after.sn, id.sn) {
            (Some(seen), Some(sn)) => {
                (sn, id.close, id.ordinal) > (seen, after.close, after.ordinal)
            }
            _ => id.revision == 0 && (id.close, id.ordinal) > (after.close, after.ordinal),
        })
    }
}
