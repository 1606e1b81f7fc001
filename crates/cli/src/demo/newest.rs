//! Keeps the newest answer of each continuous query that was not empty, as one readable line.

use crate::table::short;
use somersault::{Engine, EngineError, SubscribeOptions, Subscription, SubscriptionEvent};

/// Firings that may wait between two reads; the demo reads several times a second.
const CAPACITY: usize = 256;

/// The subscriptions and the newest line of each.
pub(crate) struct Newest {
    readers: Vec<(Subscription, String)>,
    failures: Vec<String>,
}

impl Newest {
    /// Subscribes to these queries.
    ///
    /// # Errors
    /// When one of them is not registered.
    pub(crate) fn new<'n>(
        engine: &Engine,
        names: impl Iterator<Item = &'n str>,
    ) -> Result<Self, EngineError> {
        let options = SubscribeOptions {
            empties: false,
            capacity: CAPACITY,
            ..SubscribeOptions::default()
        };
        let readers = names
            .map(|name| Ok((engine.subscribe(name, options.clone())?, String::new())))
            .collect::<Result<_, EngineError>>()?;
        Ok(Self {
            readers,
            failures: Vec::new(),
        })
    }

    /// Reads what has come and returns the newest line of each query, in the order of the names.
    pub(crate) fn read(&mut self) -> Vec<String> {
        for (subscription, newest) in &mut self.readers {
            while let Some(event) = subscription.try_recv() {
                // Firings that a slow read missed are older than the next one, so only the next
                // firing counts.
                let SubscriptionEvent::Firing(firing) = event else {
                    continue;
                };
                match &firing.answer {
                    Ok(answer) => {
                        if let Some(row) = answer.rows().next() {
                            let cells: Vec<String> = row
                                .iter()
                                .map(|cell| cell.as_ref().map(short).unwrap_or_default())
                                .collect();
                            *newest = format!(
                                "{} ({} rows at {})",
                                cells.join("  "),
                                answer.len(),
                                firing.close
                            );
                        }
                    }
                    Err(reason) => self
                        .failures
                        .push(format!("{} at {}: {reason}", firing.query, firing.close)),
                }
            }
        }
        self.readers
            .iter()
            .map(|(_, newest)| newest.clone())
            .collect()
    }

    /// Firings that failed, as sentences.
    pub(crate) fn failures(&self) -> &[String] {
        &self.failures
    }
}
