//! The cost of a request over HTTP for the server. Clients and server share the cores, so the
//! figure is the processor time of the server, not requests a second. It depends on the load: with
//! one client the server sleeps after each answer, and its time includes waking a sleeping core.

use crate::crowd::mix::{Class, Draw};
use crate::crowd::on_threads;
use crate::figures::results::quantiles_us;
use crate::harness::contender::Contender;
use crate::harness::machine::processor_time_of;
use crate::parties::line_peer::LinePeer;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The numbers of clients, each with one kept connection. The other figures have a crowd of two.
const CLIENTS: [usize; 3] = [1, 2, 8];

/// Requests of each client before anything is counted.
const WARMING: u64 = 1_000;
const LIMIT: Duration = Duration::from_secs(60);

/// The cost of requests for the server's process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct HttpCost {
    pub(crate) clients: usize,
    pub(crate) requests: u64,
    pub(crate) processor_us_per_request: f64,
    pub(crate) requests_per_second: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
}

/// Sends only new texts to a server in a process of its own; `requests` for each number of clients.
pub(crate) fn measure(
    packed: &Path,
    classes: &[Class],
    draw: &Draw,
    requests: u64,
) -> Result<Vec<HttpCost>, String> {
    let mut server = LinePeer::ours()?;
    server.load(packed)?;
    let texts = AtomicU64::new(0);
    let mut costs = Vec::new();
    for clients in CLIENTS {
        let each = requests / clients as u64;
        ask(&server, classes, draw, clients, WARMING, &texts)?;
        let (before, start) = (processor_time_of(&server.process()), Instant::now());
        let mut times = ask(&server, classes, draw, clients, each, &texts)?;
        let (elapsed, after) = (start.elapsed(), processor_time_of(&server.process()));
        let asked = times.len() as f64;
        let (p50_us, p99_us) = quantiles_us(&mut times).unwrap_or((f64::NAN, f64::NAN));
        let cost = HttpCost {
            clients,
            requests: each * clients as u64,
            processor_us_per_request: (after - before).as_secs_f64() * 1e6 / asked,
            requests_per_second: asked / elapsed.as_secs_f64(),
            p50_us,
            p99_us,
        };
        println!(
            "  HTTP, every text new, {clients} clients: {:.1} µs of the server's processor time a request; {:.0} requests/s, p50 {p50_us:.1} µs, p99 {p99_us:.1} µs",
            cost.processor_us_per_request, cost.requests_per_second
        );
        costs.push(cost);
    }
    Ok(costs)
}

/// The times of requests from several clients at once.
fn ask(
    server: &LinePeer,
    classes: &[Class],
    draw: &Draw,
    clients: usize,
    requests: u64,
    texts: &AtomicU64,
) -> Result<Vec<Duration>, String> {
    on_threads(clients, |seed| {
        let mut client = server.another_client()?;
        let mut draw = draw.seeded(99 + seed as u64);
        let mut times = Vec::new();
        for _ in 0..requests {
            let (class, constant) = draw.next(classes);
            let number = texts.fetch_add(1, Ordering::Relaxed);
            let request = client.request(&classes[class].new_text(constant, number));
            let took = client.ask(&request, LIMIT);
            times.push(took.map_err(|failure| format!("a request failed: {failure}"))?);
        }
        Ok(times)
    })
}
