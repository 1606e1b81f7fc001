//! The webhook sink: each answer is sent by POST to an HTTP or HTTPS address.
//!
//! The one thing to know before changing it: an answer counts as taken at a status of 2xx. At any
//! other status, or none, it is sent again later with the same `Idempotency-Key`, so a receiver
//! drops repeats by that header. A few answers are on their way at a time, so they may arrive in
//! another order than that of their keys.

use crate::error::SinkError;
use crate::line::{AnswerKey, line};
use crate::sink::{Sink, SinkClass};
use crate::tls::ClientTls;
use crate::worker::StopSignal;
use somersault::FiringResult;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;
use ureq::Agent;

/// The time within which the receiver has to answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The interval at which it looks whether it is to stop, while it waits for the receiver.
const LOOK: Duration = Duration::from_millis(20);

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
    /// time. With 1 they come in the order of their keys. `tls` says what it trusts at an https
    /// address.
    pub fn new(url: &str, in_flight: usize, tls: &ClientTls) -> WebhookSink {
        let config = tls
            .agent()
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

    /// Sends a few answers at the same time, each on a thread of its own. `None` stands for those
    /// whose outcome is not known when `stop` is set: their threads end by themselves.
    fn post_all(
        &self,
        answers: &[Arc<FiringResult>],
        stop: &StopSignal,
    ) -> Vec<Option<Result<(), SinkError>>> {
        let mut outcomes: Vec<Option<Result<(), SinkError>>> = Vec::new();
        let (sender, posted) = mpsc::channel();
        for (number, answer) in answers.iter().enumerate() {
            let (sender, answer) = (sender.clone(), Arc::clone(answer));
            let (agent, url) = (self.agent.clone(), self.url.clone());
            let post = move || _ = sender.send((number, post(&agent, &url, &answer)));
            let spawned = thread::Builder::new()
                .name("sink-post".to_owned())
                .spawn(post);
            outcomes.push(spawned.err().map(|error| Err(self.unreachable(&error))));
        }
        drop(sender);
        while !stop.is_set() {
            match posted.recv_timeout(LOOK) {
                Ok((number, outcome)) => outcomes[number] = Some(outcome),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let broken = || Some(Err(self.unreachable(&"sending it panicked")));
                    let unknown = outcomes.iter_mut().filter(|outcome| outcome.is_none());
                    unknown.for_each(|outcome| *outcome = broken());
                    break;
                }
            }
        }
        outcomes
    }

    fn unreachable(&self, cause: &dyn std::fmt::Display) -> SinkError {
        SinkError::Unreachable {
            url: self.url.clone(),
            cause: cause.to_string(),
        }
    }
}

fn post(agent: &Agent, url: &str, answer: &FiringResult) -> Result<(), SinkError> {
    let body = line(answer)?;
    let sent = agent
        .post(url)
        .header("Content-Type", "application/json")
        .header("Idempotency-Key", answer.id().to_string())
        .send(&body[..]);
    match sent {
        Ok(response) if response.status().is_success() => Ok(()),
        Ok(response) => Err(SinkError::Refused {
            url: url.to_owned(),
            status: response.status().as_u16(),
        }),
        Err(error) => Err(SinkError::Unreachable {
            url: url.to_owned(),
            cause: error.to_string(),
        }),
    }
}

impl Sink for WebhookSink {
    fn class(&self) -> SinkClass {
        SinkClass::Idempotent
    }

    fn open(&mut self, _acknowledged: Option<AnswerKey>) -> Result<(), SinkError> {
        Ok(())
    }

    fn deliver(
        &mut self,
        answers: &[Arc<FiringResult>],
        stop: &StopSignal,
    ) -> Result<(), (usize, SinkError)> {
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
            for (answer, posted) in next.iter().zip(self.post_all(&next, stop)) {
                match posted {
                    Some(Ok(())) => _ = self.taken.insert(AnswerKey::of(answer)),
                    Some(Err(error)) => failed = failed.or(Some(error)),
                    None => failed = Some(SinkError::Stopped),
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
