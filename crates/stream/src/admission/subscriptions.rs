//! Admission of durable subscriptions and of what their readers acknowledge.
//!
//! Before changing anything here: whether an answer exists is the host's to know, and it is asked
//! before an acknowledgement becomes an input. So a position behind the newest answer is taken as
//! it is.

use super::Admitter;
use crate::protocol::input::{Admission, SubscriptionAsk, SubscriptionRequest};
use crate::protocol::refusal::Refusal;
use crate::protocol::statements::Record;
use crate::protocol::status::SubscriptionStatus;
use somersault_log::{AnswerPosition, SubscriptionChange, SubscriptionRecord, SubscriptionTerms};

impl Admitter<'_> {
    pub(super) fn admit_subscription(
        &self,
        request: SubscriptionRequest,
    ) -> Result<Admission, Refusal> {
        let SubscriptionRequest {
            received_ms,
            query,
            name,
            ask,
        } = request;
        let named = (query, name);
        match ask {
            SubscriptionAsk::Subscribe { terms, from_now } => {
                self.admit_subscribe(received_ms, named, terms, from_now)
            }
            SubscriptionAsk::Acknowledge(through) => {
                self.admit_acknowledge(received_ms, named, through)
            }
            SubscriptionAsk::LetGo {
                after,
                through,
                answers,
                why,
            } => {
                let change = SubscriptionChange::LetGo {
                    through,
                    answers,
                    why,
                };
                Ok(self.admit_let_go(received_ms, named, after, change))
            }
            SubscriptionAsk::Unsubscribe => self.admit_unsubscribe(received_ms, named),
        }
    }

    fn admit_subscribe(
        &self,
        received_ms: i64,
        (query, name): (String, String),
        mut terms: SubscriptionTerms,
        from_now: bool,
    ) -> Result<Admission, Refusal> {
        self.known_query(&query)?;
        if let Some(known) = self.subscriptions.find(&query, &name) {
            terms.after = known.terms.after;
            return match terms == known.terms {
                true => Ok(Admission::Nothing),
                false => Err(Refusal::SubscriptionConflict { query, name }),
            };
        }
        if from_now {
            terms.after = AnswerPosition::through(self.cuts.last());
        }
        let change = SubscriptionChange::Created(terms);
        Ok(subscription(received_ms, (query, name), change))
    }

    fn admit_acknowledge(
        &self,
        received_ms: i64,
        (query, name): (String, String),
        through: AnswerPosition,
    ) -> Result<Admission, Refusal> {
        let known = self.known_subscription(&query, &name)?;
        if through <= known.terms.after {
            return Ok(Admission::Nothing);
        }
        let change = SubscriptionChange::Acknowledged(through);
        Ok(subscription(received_ms, (query, name), change))
    }

    fn admit_let_go(
        &self,
        received_ms: i64,
        (query, name): (String, String),
        after: AnswerPosition,
        change: SubscriptionChange,
    ) -> Admission {
        let known = self.subscriptions.find(&query, &name);
        match known.is_some_and(|known| known.ended.is_none() && known.terms.after == after) {
            true => subscription(received_ms, (query, name), change),
            false => Admission::Nothing,
        }
    }

    fn admit_unsubscribe(
        &self,
        received_ms: i64,
        (query, name): (String, String),
    ) -> Result<Admission, Refusal> {
        self.known_subscription(&query, &name)?;
        let change = SubscriptionChange::Dropped;
        Ok(subscription(received_ms, (query, name), change))
    }

    fn known_subscription(&self, query: &str, name: &str) -> Result<&SubscriptionStatus, Refusal> {
        self.known_query(query)?;
        let known = self.subscriptions.find(query, name);
        known.ok_or_else(|| Refusal::UnknownSubscription {
            query: query.to_owned(),
            name: name.to_owned(),
        })
    }

    /// Refuses to end a query that durable subscriptions read.
    pub(super) fn check_unsubscribed(&self, query: &str) -> Result<(), Refusal> {
        match self.subscriptions.names_of(query) {
            None => Ok(()),
            Some(names) => Err(Refusal::QuerySubscribed {
                query: query.to_owned(),
                names,
            }),
        }
    }
}

fn subscription(
    received_ms: i64,
    (query, name): (String, String),
    change: SubscriptionChange,
) -> Admission {
    Admission::Record(Record::Subscription(SubscriptionRecord {
        received_ms,
        query,
        name,
        change,
    }))
}
