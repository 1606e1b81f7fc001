//! The events that wait for the sequencer, by kind: events of the engine's parts, reads, and
//! requests.

use crate::sequencer::{Event, Read, Request};
use crossbeam_channel::{Receiver, never, select};
use std::time::Duration;

/// The receiving ends of the sequencer's channels.
pub(super) struct Mailbox {
    events: Receiver<Event>,
    reads: Receiver<Read>,
    requests: Receiver<Request>,
    /// Whether the next read comes before the next request.
    reads_first: bool,
}

impl Mailbox {
    pub(super) fn new(
        events: Receiver<Event>,
        reads: Receiver<Read>,
        requests: Receiver<Request>,
    ) -> Mailbox {
        Mailbox {
            events,
            reads,
            requests,
            reads_first: true,
        }
    }

    /// The reads that wait.
    pub(super) fn reads(&self) -> &Receiver<Read> {
        &self.reads
    }

    /// The next event that is there: those of the engine's parts first, then reads and requests in
    /// turn.
    pub(super) fn ready(&mut self, takes_requests: bool) -> Option<Event> {
        if let Ok(event) = self.events.try_recv() {
            return Some(event);
        }
        let read = || self.reads.try_recv().ok().map(Event::Read);
        let request = || match takes_requests {
            true => self.requests.try_recv().ok().map(Event::Request),
            false => None,
        };
        let next = match self.reads_first {
            true => read().or_else(request),
            false => request().or_else(read),
        };
        self.reads_first = !matches!(next, Some(Event::Read(_)));
        next
    }

    /// The next event; a tick if none comes in time.
    pub(super) fn next(&mut self, takes_requests: bool, at_most: Duration) -> Event {
        if let Some(event) = self.ready(takes_requests) {
            return event;
        }
        if at_most.is_zero() {
            return Event::Tick;
        }
        let no_requests = never();
        let requests = match takes_requests {
            true => &self.requests,
            false => &no_requests,
        };
        select! {
            recv(self.events) -> event => event.unwrap_or(Event::Abort),
            recv(self.reads) -> read => read.map_or(Event::Abort, Event::Read),
            recv(requests) -> request => request.map_or(Event::Abort, Event::Request),
            default(at_most) => Event::Tick,
        }
    }
}
