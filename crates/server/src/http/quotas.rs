//! What one sender may ask for: requests a second, and queries at one time.
//!
//! The one thing to know before changing it: a sender is known by its name, so the tokens of an
//! identity provider for one person share one quota, also after they were issued again.

use crate::auth::principal::Principal;
use crate::config::ServerConfig;
use crate::http::error::{ApiError, ApiResult};
use crate::http::held_body::HeldBody;
use axum::body::Body as AnyBody;
use axum::http::StatusCode;
use axum::response::Response;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Senders that are known at one time; beyond this, those that have been quiet are forgotten.
const SENDERS: usize = 10_000;

/// What each sender has used.
#[derive(Debug)]
pub(crate) struct Quotas {
    /// Requests a second.
    requests: Option<u32>,
    /// Queries at one time.
    queries: Option<usize>,
    senders: Mutex<HashMap<String, Usage>>,
}

/// What a sender has used.
#[derive(Debug)]
struct Usage {
    /// Requests that it may send at once.
    left: f64,
    /// When `left` was counted.
    counted: Instant,
    queries: Arc<Semaphore>,
}

impl Usage {
    /// Adds what a sender may send because time has passed.
    fn refill(&mut self, rate: f64, now: Instant) {
        let passed = now.saturating_duration_since(self.counted).as_secs_f64();
        self.left = (self.left + passed * rate).min(rate);
        self.counted = now;
    }
}

impl Quotas {
    pub(crate) fn new(config: &ServerConfig) -> Quotas {
        Quotas {
            requests: config.sender_requests,
            queries: (config.sender_queries).map(|most| most.min(Semaphore::MAX_PERMITS)),
            senders: Mutex::default(),
        }
    }

    /// Counts a request of a sender. A query has its place until the permit is dropped.
    ///
    /// # Errors
    /// 429 for a sender that has used all it may.
    pub(crate) fn admit(
        &self,
        sender: &Principal,
        is_query: bool,
        now: Instant,
    ) -> ApiResult<Option<OwnedSemaphorePermit>> {
        if self.requests.is_none() && self.queries.is_none() {
            return Ok(None);
        }
        let rate = f64::from(self.requests.unwrap_or(u32::MAX));
        let places = self.queries.unwrap_or(Semaphore::MAX_PERMITS);
        let mut senders = self.senders.lock();
        if senders.len() >= SENDERS && !senders.contains_key(sender.name()) {
            senders.retain(|_, usage| {
                usage.refill(rate, now);
                usage.left < rate || usage.queries.available_permits() < places
            });
        }
        let usage = senders
            .entry(sender.name().to_owned())
            .or_insert_with(|| Usage {
                left: rate,
                counted: now,
                queries: Arc::new(Semaphore::new(places)),
            });
        usage.refill(rate, now);
        if usage.left < 1.0 {
            return Err(used_up(
                "token_requests",
                format!(
                    "This token may send {rate} requests a second, and has sent them (serve --token-requests). Try again in a second."
                ),
            ));
        }
        usage.left -= 1.0;
        if !is_query {
            return Ok(None);
        }
        let place = Arc::clone(&usage.queries).try_acquire_owned();
        place.map(Some).map_err(|_| {
            used_up(
                "token_queries",
                format!("This token may ask {places} queries at one time, and that many run or are being sent (serve --token-queries). Try again in a second."),
            )
        })
    }
}

fn used_up(code: &'static str, sentence: String) -> ApiError {
    ApiError::new(StatusCode::TOO_MANY_REQUESTS, code, sentence).retry_after(1)
}

/// Keeps the place of a query until its answer is sent.
pub(crate) fn hold(response: Response, place: Option<OwnedSemaphorePermit>) -> Response {
    match place {
        None => response,
        Some(place) => response.map(|inner| AnyBody::new(HeldBody::new(inner, place))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use somersault::Access;
    use std::time::Duration;

    fn quotas(requests: Option<u32>, queries: Option<usize>) -> Quotas {
        Quotas::new(&ServerConfig {
            sender_requests: requests,
            sender_queries: queries,
            ..ServerConfig::default()
        })
    }

    fn sender(name: &str) -> Principal {
        Principal::new(name, Access::full(), None)
    }

    #[test]
    fn requests_come_back_with_time_and_each_sender_has_its_own() {
        let quotas = quotas(Some(4), None);
        let (ann, bob, start) = (sender("ann"), sender("bob"), Instant::now());
        let admits = |who: &Principal, ms: u64| {
            let now = start + Duration::from_millis(ms);
            quotas.admit(who, true, now).is_ok()
        };
        assert!((0..4).all(|_| admits(&ann, 0)));
        assert!(!admits(&ann, 0) && admits(&bob, 0));
        assert!(!admits(&ann, 200) && admits(&ann, 250) && !admits(&ann, 250));
        // No more is saved up than for a second.
        assert!((0..4).all(|_| admits(&ann, 60_000)) && !admits(&ann, 60_000));
    }

    #[test]
    fn queries_have_places_until_they_are_answered() {
        let quotas = quotas(None, Some(2));
        let (ann, now) = (sender("ann"), Instant::now());
        let ask = || quotas.admit(&ann, true, now);
        let (one, two) = (ask().expect("a place"), ask().expect("a place"));
        let refused = ask().expect_err("no third");
        assert_eq!(refused.status(), 429);
        assert!(quotas.admit(&ann, false, now).expect("no query").is_none());
        drop(one);
        assert!(ask().expect("a place again").is_some());
        drop(two);
    }

    #[test]
    fn quiet_senders_are_forgotten_and_busy_ones_are_not() {
        let quotas = quotas(Some(1), Some(1));
        let start = Instant::now();
        let busy = quotas.admit(&sender("busy"), true, start).expect("a place");
        for number in 0..SENDERS {
            let admitted = quotas.admit(&sender(&number.to_string()), true, start);
            assert!(admitted.is_ok(), "{number}");
        }
        let later = start + Duration::from_secs(2);
        quotas.admit(&sender("new"), true, later).expect("a place");
        let known = quotas.senders.lock().len();
        assert_eq!(known, 2, "the busy one and the new one");
        drop(busy);
    }

    #[test]
    fn without_quotas_nothing_is_counted() {
        let quotas = quotas(None, None);
        assert!(
            quotas
                .admit(&sender("a"), true, Instant::now())
                .expect("admitted")
                .is_none()
        );
        assert!(quotas.senders.lock().is_empty());
    }
}
