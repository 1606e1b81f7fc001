//! The webhook sink: each answer is sent by POST to an HTTP address.
//!
//! The one thing to know before changing it: an answer counts as taken at a status of 2xx. At any
//! other status, or none, it is sent again later with the same `Idempotency-Key`, so a receiver
//! drops repeats by that header. A few answers are on their way at a time, so they may arrive in
//! another order than that of their keys.

use crate::error::SinkError;
use crate::line::{AnswerKey, line};
use crate::sink::{Sink, SinkClass};
use somersault::FiringResult;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use ureq::Agent;

/// The time within which the receiver has to answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Sends answers to an HTTP address. It is *idempotent*: the receiver drops repeats by their key.
#[derive(Debug)]
pub struct WebhookSink {
    agent: Agent,
    url: String,
    /// The number of answers that may be on their way.
    in_flight: usize,
    /// Answers that were taken while an earlier one was not.
    taken: BTreeSet<AnswerKey>,
}

impl WebhookSink {
    /// Returns a sink for a receiver, to which up to `in_flight` answers may be under way at a
    /// time. With 1 they come in the order of their keys.
    pub fn new(url: &str, in_flight: usize) -> WebhookSink {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_global(Some(TIMEOUT))
            .build();
        WebhookSink {
            agent: config.into(),
            url: url.to_owned(),
            in_flight: in_flight.max(1),
            taken: BTreeSet::new(),
        }
    }

    fn post(&self, answer: &FiringResult) -> Result<(), SinkError> {
        let body = line(answer)?;
        let sent = self
            .agent
            .post(&self.url)
            .header("Content-Type", "application/json")
            .header("Idempotency-Key", answer.id().to_string())
            .send(&body[..]);
        match sent {
            Ok(response) if response.status().is_success() => Ok(()),
            Ok(response) => Err(SinkError::Refused {
                url: self.url.clone(),
                status: response.status().as_u16(),
            }),
            Err(error) => Err(SinkError::Unreachable {
                url: self.url.clone(),
                cause: error.to_string(),
            }),
        }
    }

    /// Sends a few answers at the same time.
    fn post_all(&self, answers: &[Arc<FiringResult>]) -> Vec<Result<(), SinkError>> {
        if let [answer] = answers {
            return vec![self.post(answer)];
        }
        thread::scope(|scope| {
            let posts: Vec<_> = (answers.iter())
                .map(|answer| scope.spawn(|| self.post(answer)))
                .collect();
            let broken = || SinkError::Unreachable {
                url: self.url.clone(),
                cause: "sending it panicked".to_owned(),
            };
            let posts = posts.into_iter();
            posts
                .map(|post| post.join().unwrap_or_else(|_| Err(broken())))
                .collect()
        })
    }
}

impl Sink for WebhookSink {
    fn class(&self) -> SinkClass {
        SinkClass::Idempotent
    }

    fn open(&mut self, _acknowledged: Option<AnswerKey>) -> Result<(), SinkError> {
        Ok(())
    }

    fn deliver(&mut self, answers: &[Arc<FiringResult>]) -> Result<(), (usize, SinkError)> {
        let mut from = 0;
        while from < answers.len() {
            let rest = &answers[from..];
            let is_new = |answer: &&Arc<FiringResult>| !self.taken.contains(&AnswerKey::of(answer));
            let next: Vec<_> = rest
                .iter()
                .filter(is_new)
                .take(self.in_flight)
                .cloned()
                .collect();
            let mut failed = None;
            for (answer, posted) in next.iter().zip(self.post_all(&next)) {
                match posted {
                    Ok(()) => _ = self.taken.insert(AnswerKey::of(answer)),
                    Err(error) => failed = failed.or(Some(error)),
                }
            }
            // Those before the first that was not taken are done.
            while let Some(answer) = answers.get(from)
                && self.taken.remove(&AnswerKey::of(answer))
            {
                from += 1;
            }
            if let Some(error) = failed {
                return Err((from, error));
            }
        }
        Ok(())
    }
}
