//! Durable subscriptions: names under which the answers of queries are read, each with the newest
//! answer that its reader has acknowledged.
//!
//! Before changing anything here: this is decided by log records alone. Which answers exist and are
//! still kept is the host's matter; a position only goes forward.

use crate::output::QueryChange;
use crate::protocol::status::SubscriptionStatus;
use crate::saved::SavedSubscription;
use somersault_log::{SubscriptionChange, SubscriptionRecord};
use std::collections::BTreeMap;

/// The durable subscriptions of all queries.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    /// By the query's name and their own.
    of: BTreeMap<String, BTreeMap<String, SubscriptionStatus>>,
}

impl Subscriptions {
    /// A subscription.
    pub(crate) fn find(&self, query: &str, name: &str) -> Option<&SubscriptionStatus> {
        self.of.get(query)?.get(name)
    }

    /// The names of a query's subscriptions, as a list for people; `None` if it has none.
    pub(crate) fn names_of(&self, query: &str) -> Option<String> {
        let names: Vec<&str> = self.of.get(query)?.keys().map(String::as_str).collect();
        Some(names.join(", "))
    }

    /// The names of the queries that have some.
    pub(crate) fn queries(&self) -> impl Iterator<Item = &str> {
        self.of.keys().map(String::as_str)
    }

    /// The subscriptions of a query, by name.
    pub(crate) fn of_query(&self, query: &str) -> impl Iterator<Item = &SubscriptionStatus> {
        self.of.get(query).into_iter().flat_map(BTreeMap::values)
    }

    /// All of them.
    pub(crate) fn values(&self) -> impl Iterator<Item = &SubscriptionStatus> {
        self.of.values().flat_map(BTreeMap::values)
    }

    /// Applies a record. Returns the change for the host, for the query in this slot; `None` if the
    /// subscription does not exist any more.
    pub(crate) fn apply(&mut self, record: &SubscriptionRecord, slot: u32) -> Option<QueryChange> {
        let SubscriptionRecord {
            query,
            name,
            change,
            ..
        } = record;
        if let SubscriptionChange::Created(terms) = change {
            let subscription = SubscriptionStatus {
                query: query.clone(),
                name: name.clone(),
                terms: *terms,
                missed: 0,
                ended: None,
            };
            self.insert(subscription.clone());
            return Some(QueryChange::Subscribed { slot, subscription });
        }
        let of_query = self.of.get_mut(query)?;
        let known = of_query.get_mut(name)?;
        Some(match *change {
            SubscriptionChange::Acknowledged(through) => {
                known.terms.after = known.terms.after.max(through);
                known.missed = 0;
                QueryChange::Acknowledged {
                    slot,
                    subscription: name.clone(),
                    through,
                }
            }
            SubscriptionChange::LetGo {
                through,
                answers,
                why,
            } => {
                known.terms.after = known.terms.after.max(through);
                known.missed += answers;
                if !known.terms.skips_oldest {
                    known.ended = Some(why);
                }
                QueryChange::LetGo {
                    slot,
                    subscription: known.clone(),
                }
            }
            SubscriptionChange::Created(_) | SubscriptionChange::Dropped => {
                of_query.remove(name);
                if of_query.is_empty() {
                    self.of.remove(query);
                }
                QueryChange::Unsubscribed {
                    slot,
                    subscription: name.clone(),
                }
            }
        })
    }

    fn insert(&mut self, subscription: SubscriptionStatus) {
        let of_query = self.of.entry(subscription.query.clone()).or_default();
        of_query.insert(subscription.name.clone(), subscription);
    }

    /// Adds those of a checkpoint.
    pub(crate) fn add(&mut self, saved: Vec<SavedSubscription>) {
        for subscription in saved {
            self.insert(subscription.restore());
        }
    }
}
