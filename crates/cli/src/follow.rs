//! Event streams of a server, over one or more connections: a lost one is opened again.
//!
//! The one thing to know before changing it: an address at which no server was met yet may be
//! wrong, and then a failure is final. A server that was met may be starting again.

use crate::client::Client;
use crate::error::CliError;
use crate::sse::{Event, next_event};
use serde_json::Value;
use std::io::BufReader;
use std::ops::ControlFlow;
use std::time::Duration;

/// The interval between attempts to reach a server.
const PAUSE: Duration = Duration::from_millis(500);

/// A reader of an event stream.
pub(crate) trait Follower {
    /// The path of the next connection.
    fn path(&self) -> String;

    /// The id of the event after which the next connection begins.
    fn last_id(&self) -> Option<&str> {
        None
    }

    /// Takes an event; breaks when it needs no more. The ends after which more may come on another
    /// connection are not among the events.
    ///
    /// # Errors
    /// Ends the following, or opens another connection if the failure may pass.
    fn take(&mut self, event: Event, data: &Value) -> Result<ControlFlow<()>, CliError>;

    /// How to go on after giving up.
    fn advice(&self) -> String;
}

/// Gives a follower its events until it needs no more.
///
/// # Errors
/// When the server refuses, or stays away for longer than `retry` seconds, or the follower fails.
pub(crate) fn follow(
    client: &Client,
    retry: u64,
    follower: &mut impl Follower,
) -> Result<(), CliError> {
    let attempts = retry.saturating_mul(2);
    let mut connections = Connections {
        follower,
        has_met: false,
        failures: 0,
    };
    loop {
        let lost = match connections.read(client) {
            Ok(Outcome::Finished) => return Ok(()),
            Ok(Outcome::Lost(why)) => why,
            Err(error) => {
                connections.has_met |= matches!(error, CliError::CutOff(_));
                if !connections.is_worth_another(&error) {
                    return Err(error);
                }
                error.to_string()
            }
        };
        if connections.failures >= attempts {
            return Err(CliError::Failed(format!(
                "{lost}; gave up after {retry} s (--retry); {}",
                connections.follower.advice()
            )));
        }
        if connections.failures == 0 {
            eprintln!("somersault: {lost}; connecting again");
        }
        connections.failures += 1;
        std::thread::sleep(PAUSE);
    }
}

/// The end of a connection.
enum Outcome {
    /// The follower needs no more.
    Finished,
    /// More may come on another connection.
    Lost(String),
}

/// The connections of a follower.
struct Connections<'a, F> {
    follower: &'a mut F,
    /// Whether a server was reached at the address.
    has_met: bool,
    /// Attempts since the last event.
    failures: u64,
}

impl<F: Follower> Connections<'_, F> {
    /// Whether a failure may pass.
    fn is_worth_another(&self, error: &CliError) -> bool {
        match error {
            CliError::CutOff(_) => true,
            CliError::Unreachable(_) => self.has_met,
            CliError::Refused(refusal) => self.has_met && refusal.is_passing,
            _ => false,
        }
    }

    /// Reads one connection to its end.
    fn read(&mut self, client: &Client) -> Result<Outcome, CliError> {
        let mut headers = vec![("Accept", "text/event-stream")];
        if let Some(id) = self.follower.last_id() {
            headers.push(("Last-Event-ID", id));
        }
        let response = client.get(&self.follower.path(), &headers)?;
        self.has_met = true;
        let mut reader = BufReader::new(response.into_body().into_reader());
        loop {
            let event = match next_event(&mut reader) {
                Ok(Some(event)) => event,
                Ok(None) => {
                    return Ok(Outcome::Lost("the server closed the connection".to_owned()));
                }
                Err(error) => {
                    return Ok(Outcome::Lost(format!("the connection was lost ({error})")));
                }
            };
            self.failures = 0;
            let data: Value = serde_json::from_str(&event.data).unwrap_or_default();
            if let Some(why) = passing_end(&event, &data) {
                return Ok(Outcome::Lost(why));
            }
            if self.follower.take(event, &data)?.is_break() {
                return Ok(Outcome::Finished);
            }
        }
    }
}

/// Why a connection has ended, if more may come on another one: a server that stops may come back,
/// and a reader that fell behind may catch up.
fn passing_end(event: &Event, data: &Value) -> Option<String> {
    if event.kind != "end" {
        return None;
    }
    let why = match data["reason"].as_str()? {
        "stopping" => "the server is stopping",
        "failed" => data["message"].as_str().unwrap_or("the server has failed"),
        "slow" => "the answers were not read quickly enough",
        _ => return None,
    };
    Some(why.to_owned())
}
