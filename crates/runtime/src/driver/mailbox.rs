//! The events that wait for the sequencer, by kind: events of the engine's parts, reads, requests,
//! and the records of the log that is replayed.

use crate::replay::LogReplay;
use crate::sequencer::{Event, Intake, Read, Request};
use crossbeam_channel::{Receiver, never, select};
use std::time::Duration;

/// The receiving ends of the sequencer's channels.
pub(super) struct Mailbox {
    events: Receiver<Event>,
    reads: Receiver<Read>,
    requests: Receiver<Request>,
    /// `None` once the log has been read.
    replay: Option<LogReplay>,
    /// Whether the next read comes before the next request.
    reads_first: bool,
}

impl Mailbox {
    pub(super) fn new(
        events: Receiver<Event>,
        reads: Receiver<Read>,
        requests: Receiver<Request>,
        replay: Option<LogReplay>,
    ) -> Mailbox {
        Mailbox {
            events,
            reads,
            requests,
            replay,
            reads_first: true,
        }
    }

    /// The reads that wait.
    pub(super) fn reads(&self) -> &Receiver<Read> {
        &self.reads
    }

    /// The reads and the requests that wait.
    pub(super) fn unanswered(&self) -> (&Receiver<Read>, &Receiver<Request>) {
        (&self.reads, &self.requests)
    }

    /// The next event that is there: those of the engine's parts first, then reads and requests, or
    /// records, in turn.
    pub(super) fn ready(&mut self, intake: Intake) -> Option<Event> {
        if let Ok(event) = self.events.try_recv() {
            return Some(event);
        }
        let replay = &mut self.replay;
        let read = || self.reads.try_recv().ok().map(Event::Read);
        let mut input = || match intake {
            Intake::Nothing => None,
            Intake::Requests => self.requests.try_recv().ok().map(Event::Request),
            Intake::Records => next_records(replay),
        };
        let next = match self.reads_first {
            true => read().or_else(input),
            false => input().or_else(read),
        };
        self.reads_first = !matches!(next, Some(Event::Read(_)));
        next
    }

    /// The next event; a tick if none comes in time.
    pub(super) fn next(&mut self, intake: Intake, at_most: Duration) -> Event {
        if let Some(event) = self.ready(intake) {
            return event;
        }
        if at_most.is_zero() {
            return Event::Tick;
        }
        let no_requests = never();
        let requests = match intake {
            Intake::Requests => &self.requests,
            Intake::Nothing | Intake::Records => &no_requests,
        };
        select! {
            recv(self.events) -> event => event.unwrap_or(Event::Abort),
            recv(self.reads) -> read => read.map_or(Event::Abort, Event::Read),
            recv(requests) -> request => request.map_or(Event::Abort, Event::Request),
            default(at_most) => Event::Tick,
        }
    }
}

/// The next records of the log. Once it has been read, what reading it took is freed.
fn next_records(replay: &mut Option<LogReplay>) -> Option<Event> {
    let portion = replay.as_mut()?.read();
    if portion.as_ref().map_or(true, |portion| portion.is_last) {
        *replay = None;
    }
    Some(Event::Replayed(portion))
}
