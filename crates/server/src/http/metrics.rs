//! The server's counts of its requests, from a recorder of its own: several servers may live in
//! one process.

use axum::http::{Method, StatusCode};
use metrics::{Counter, Histogram};
use metrics_exporter_prometheus::{
    Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder,
};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

const REQUESTS: &str = "somersault_http_requests_total";
const REQUEST_SECONDS: &str = "somersault_http_request_seconds";
const BUCKETS: &[f64] = &[
    0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0,
];

/// Requests between upkeeps. The exporter keeps every recorded time until it renders its text or
/// runs upkeep.
const TIMES_KEPT: u64 = 4096;

/// Counts requests by address, method and status.
pub(crate) struct HttpMetrics {
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
    /// The counters in use, by address: looking a counter up by its labels costs more than
    /// counting.
    routes: RwLock<HashMap<String, Route>>,
    counted: AtomicU64,
}

struct Route {
    seconds: Histogram,
    requests: Vec<(&'static str, StatusCode, Counter)>,
}

impl Route {
    fn count(&self, method: &'static str, status: StatusCode, took: Duration) -> bool {
        let same = |known: &&(&str, StatusCode, Counter)| (known.0, known.1) == (method, status);
        let Some((_, _, requests)) = self.requests.iter().find(same) else {
            return false;
        };
        requests.increment(1);
        self.seconds.record(took.as_secs_f64());
        true
    }
}

impl HttpMetrics {
    pub(crate) fn new() -> HttpMetrics {
        let recorder = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Full(REQUEST_SECONDS.to_owned()), BUCKETS)
            .expect("the list of buckets is not empty")
            .build_recorder();
        metrics::with_local_recorder(&recorder, || {
            metrics::describe_counter!(
                REQUESTS,
                "HTTP requests answered, by address, method and status."
            );
            metrics::describe_histogram!(
                REQUEST_SECONDS,
                "Time from a request's head to its answer's head, in seconds."
            );
        });
        let handle = recorder.handle();
        HttpMetrics {
            recorder,
            handle,
            routes: RwLock::default(),
            counted: AtomicU64::new(0),
        }
    }

    /// Returns the counts in the Prometheus text format.
    pub(crate) fn render(&self) -> String {
        self.handle.render()
    }

    /// Counts a request. `route` is the address with its placeholders, which bounds the number of
    /// labels.
    pub(crate) fn count(&self, route: &str, method: &Method, status: StatusCode, took: Duration) {
        let method = known(method);
        if self.counted.fetch_add(1, Ordering::Relaxed) % TIMES_KEPT == TIMES_KEPT - 1 {
            self.handle.run_upkeep();
        }
        let known = |routes: &HashMap<String, Route>| {
            let found = routes.get(route);
            found.is_some_and(|found| found.count(method, status, took))
        };
        if !known(&self.routes.read().unwrap_or_else(PoisonError::into_inner)) {
            let mut routes = self.routes.write().unwrap_or_else(PoisonError::into_inner);
            if !known(&routes) {
                self.learn(&mut routes, route, method, status);
                known(&routes);
            }
        }
    }

    /// Adds counters with these labels.
    fn learn(
        &self,
        routes: &mut HashMap<String, Route>,
        route: &str,
        method: &'static str,
        status: StatusCode,
    ) {
        metrics::with_local_recorder(&self.recorder, || {
            let name = route.to_owned();
            let seconds = || metrics::histogram!(REQUEST_SECONDS, "route" => name.clone());
            let requests = metrics::counter!(REQUESTS, "route" => name.clone(), "method" => method, "status" => status.as_u16().to_string());
            let known = routes.entry(name.clone()).or_insert_with(|| Route {
                seconds: seconds(),
                requests: Vec::new(),
            });
            known.requests.push((method, status, requests));
        });
    }
}

/// Returns the label for a method. Clients may invent methods; labels must not grow with them.
fn known(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        "PATCH" => "PATCH",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_route_and_servers_apart() {
        let (one, other) = (HttpMetrics::new(), HttpMetrics::new());
        let strange = Method::from_bytes(b"BREW").expect("a token");
        one.count(
            "/query",
            &Method::GET,
            StatusCode::OK,
            Duration::from_millis(2),
        );
        one.count(
            "/query",
            &strange,
            StatusCode::METHOD_NOT_ALLOWED,
            Duration::from_millis(2),
        );
        let text = one.render();
        assert!(
            text.contains(
                "somersault_http_requests_total{route=\"/query\",method=\"GET\",status=\"200\"} 1"
            ),
            "{text}"
        );
        assert!(text.contains("method=\"other\""), "{text}");
        assert!(
            text.contains(
                "somersault_http_request_seconds_bucket{route=\"/query\",le=\"0.003\"} 2"
            ),
            "{text}"
        );
        assert!(!other.render().contains("route=\"/query\""));
    }
}
