//! `subscriptions read`: the answers of a durable subscription as lines of JSON.
//!
//! The one thing to know before changing it: an answer is acknowledged after its line is written
//! and flushed, never before. A signal ends the process between two answers.

use super::{acknowledge, path};
use crate::args::{ReadSubscriptionArgs, SubscriptionName};
use crate::client::Client;
use crate::error::CliError;
use crate::follow::{Follower, follow};
use crate::signals::stop_signal;
use crate::sse::Event;
use crate::target::client_for;
use serde_json::Value;
use somersault_connect::AnswerKey;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

/// The time that a signal leaves for an answer that is being written.
const LAST_ANSWER: Duration = Duration::from_secs(5);
/// The interval at which the end of that answer is looked for.
const LOOK: Duration = Duration::from_millis(10);

/// Prints answers until the count is reached, a signal comes, or the subscription ends.
///
/// # Errors
/// When the server refuses or stays away for longer than `--retry` says, or the subscription has
/// ended.
pub(crate) fn run(args: &ReadSubscriptionArgs) -> Result<(), CliError> {
    let client = client_for(&args.of.server)?;
    let writing = Arc::new(Mutex::new(()));
    end_at_signal(Arc::clone(&writing))?;
    let mut reader = Reader {
        client: &client,
        of: &args.of,
        acknowledges: args.ack,
        count: args.count,
        printed: 0,
        newest: None,
        writing,
    };
    follow(&client, args.retry, &mut reader)
}

/// Ends the process at a signal, when no answer is being written.
fn end_at_signal(writing: Arc<Mutex<()>>) -> Result<(), CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?;
    let listening = {
        let _entered = runtime.enter();
        stop_signal(None)
    };
    thread::Builder::new().spawn(move || {
        runtime.block_on(listening);
        let until = Instant::now() + LAST_ANSWER;
        loop {
            match writing.try_lock() {
                Ok(_held) => std::process::exit(0),
                Err(TryLockError::WouldBlock) if Instant::now() < until => thread::sleep(LOOK),
                // The output takes nothing, or the server does not take the acknowledgement.
                Err(_) => std::process::exit(1),
            }
        }
    })?;
    Ok(())
}

/// A reader over one or more connections.
struct Reader<'a> {
    client: &'a Client,
    of: &'a SubscriptionName,
    acknowledges: bool,
    count: Option<u64>,
    printed: u64,
    /// The newest answer that was printed. Another connection begins with the oldest one that is
    /// not acknowledged.
    newest: Option<AnswerKey>,
    /// Held from the begin of a line to its acknowledgement.
    writing: Arc<Mutex<()>>,
}

impl Follower for Reader<'_> {
    fn path(&self) -> String {
        path(self.of, "/results")
    }

    fn take(&mut self, event: Event, data: &Value) -> Result<ControlFlow<()>, CliError> {
        let Some(id) = &event.id else {
            return self.note(&event, data);
        };
        let writing = Arc::clone(&self.writing);
        let _held = writing.lock().unwrap_or_else(PoisonError::into_inner);
        let key = AnswerKey::of_json(data);
        if self.newest.is_none() || key > self.newest {
            let mut out = io::stdout().lock();
            writeln!(out, "{}", event.data)?;
            out.flush()?;
            self.newest = key;
            self.printed += 1;
        }
        if self.acknowledges {
            acknowledge(self.client, self.of, id)?;
        }
        Ok(
            match self.count.is_some_and(|count| self.printed >= count) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            },
        )
    }

    fn advice(&self) -> String {
        "the next reader begins with the first answer that is not acknowledged".to_owned()
    }
}

impl Reader<'_> {
    /// Says what is no answer on standard error.
    fn note(&self, event: &Event, data: &Value) -> Result<ControlFlow<()>, CliError> {
        let SubscriptionName { query, name, .. } = self.of;
        match event.kind.as_str() {
            "end" => {
                let why = data["message"].as_str().or(data["reason"].as_str());
                return Err(CliError::Failed(format!(
                    "subscription {name} of query {query}: {}",
                    why.unwrap_or("it has ended")
                )));
            }
            "gap" => eprintln!(
                "somersault: {} answers of query {query} were let go, because a limit of subscription {name} was reached",
                data["missed"]
            ),
            _ => eprintln!("somersault: {}: {}", event.kind, event.data),
        }
        Ok(ControlFlow::Continue(()))
    }
}
