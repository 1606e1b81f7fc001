//! Feeds: the newest messages of interior streams, for readers outside of transactions.
//!
//! 1. A stream has a feed from its first reader on. Until then nothing of it is kept here.
//! 2. A message comes into the feed when its transaction is stable, in the order of its places.
//! 3. A feed keeps the newest messages, so that a reader that was cut off can go on.
//!
//! Before changing anything here: readers and the sequencer share a feed, and the sequencer waits
//! for no reader. A reader that falls behind what is kept is told so.

use oxrdf::Quad;
use parking_lot::{Condvar, Mutex};
use somersault_model::{EventTime, Place, StreamUid};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// The statements of messages that a feed keeps, each message counted as one more.
const KEPT: usize = 100_000;

/// A message of an interior stream.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamMessage {
    /// Its place among the messages of its stream, from 1.
    pub place: Place,
    /// Its event time.
    pub at: EventTime,
    /// Its statements.
    pub statements: Arc<[Quad]>,
}

/// Where a reader begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedStart {
    /// With the next message.
    Now,
    /// With the first message that is kept.
    Kept,
    /// Behind the message of this place.
    After(Place),
}

/// Why a reader gets no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FeedEnd {
    /// What it would read next is not kept.
    #[error(
        "message {next} of the stream is not kept any more; the first one that is kept has the place {first}"
    )]
    NotKept {
        /// The place of the next message.
        next: u64,
        /// The first place that is kept, or that comes.
        first: u64,
    },
    /// The stream was dropped, or begun again.
    #[error("the stream was dropped")]
    Dropped,
}

/// The feeds of all streams that have readers.
#[derive(Debug, Default)]
pub(crate) struct Feeds {
    is_used: AtomicBool,
    feeds: Mutex<BTreeMap<StreamUid, Arc<Feed>>>,
}

#[derive(Debug)]
struct Feed {
    /// The stream.
    iri: String,
    state: Mutex<FeedState>,
    moved: Condvar,
}

#[derive(Debug)]
struct FeedState {
    kept: VecDeque<StreamMessage>,
    /// The statements of `kept`, and their number.
    size: usize,
    /// The place of the next message.
    next: u64,
    wakers: Vec<Waker>,
    is_dropped: bool,
}

impl FeedState {
    /// The first place that is kept, or the next one.
    fn first(&self) -> u64 {
        self.kept.front().map_or(self.next, |first| first.place.0)
    }

    fn read(&self, next: u64) -> Option<Result<StreamMessage, FeedEnd>> {
        let first = self.first();
        if next < first {
            return Some(Err(FeedEnd::NotKept { next, first }));
        }
        let at = usize::try_from(next - first).ok();
        match at.and_then(|at| self.kept.get(at)) {
            Some(message) => Some(Ok(message.clone())),
            None => self.is_dropped.then_some(Err(FeedEnd::Dropped)),
        }
    }
}

impl Feeds {
    /// A reader of a stream, whose newest message so far has this place. To be called where no
    /// message can come meanwhile.
    pub(crate) fn reader(
        &self,
        (stream, iri): (StreamUid, &str),
        newest: Place,
        start: FeedStart,
    ) -> FeedReader {
        self.is_used.store(true, Ordering::Relaxed);
        let mut feeds = self.feeds.lock();
        let feed = feeds.entry(stream).or_insert_with(|| {
            let state = FeedState {
                kept: VecDeque::new(),
                size: 0,
                next: newest.0 + 1,
                wakers: Vec::new(),
                is_dropped: false,
            };
            Arc::new(Feed {
                iri: iri.to_owned(),
                state: Mutex::new(state),
                moved: Condvar::new(),
            })
        });
        let feed = Arc::clone(feed);
        let next = match start {
            FeedStart::Now => newest.0 + 1,
            FeedStart::Kept => feed.state.lock().first(),
            FeedStart::After(place) => place.0.saturating_add(1),
        };
        FeedReader { feed, next }
    }

    /// Whether a stream has a feed.
    pub(crate) fn has(&self, stream: StreamUid) -> bool {
        self.is_used.load(Ordering::Relaxed) && self.feeds.lock().contains_key(&stream)
    }

    /// Takes messages that are stable now.
    pub(crate) fn publish(&self, messages: Vec<(StreamUid, StreamMessage)>) {
        let feeds = self.feeds.lock();
        for (stream, message) in messages {
            if let Some(feed) = feeds.get(&stream) {
                feed.take(message);
            }
        }
    }

    /// The stream was dropped, or begins again under another uid.
    pub(crate) fn end(&self, iri: &str) {
        self.feeds.lock().retain(|_, feed| {
            if feed.iri != iri {
                return true;
            }
            let mut state = feed.state.lock();
            state.is_dropped = true;
            feed.wake(&mut state);
            false
        });
    }
}

impl Feed {
    fn take(&self, message: StreamMessage) {
        let mut state = self.state.lock();
        // Those before the first reader came are not of its feed.
        if message.place.0 < state.next {
            return;
        }
        state.next = message.place.0 + 1;
        state.size += message.statements.len() + 1;
        state.kept.push_back(message);
        while state.size > KEPT && state.kept.len() > 1 {
            if let Some(gone) = state.kept.pop_front() {
                state.size -= gone.statements.len() + 1;
            }
        }
        self.wake(&mut state);
    }

    fn wake(&self, state: &mut FeedState) {
        self.moved.notify_all();
        state.wakers.drain(..).for_each(Waker::wake);
    }
}

/// Reads the messages of a stream from a place on.
#[derive(Debug)]
pub struct FeedReader {
    feed: Arc<Feed>,
    next: u64,
}

impl FeedReader {
    /// The next message, when it is there.
    ///
    /// # Errors
    /// It is not kept any more, or the stream was dropped.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<StreamMessage, FeedEnd>> {
        let mut state = self.feed.state.lock();
        match state.read(self.next) {
            Some(read) => {
                self.next += u64::from(read.is_ok());
                Poll::Ready(read)
            }
            None => {
                let waker = context.waker();
                if !state.wakers.iter().any(|known| known.will_wake(waker)) {
                    state.wakers.push(waker.clone());
                }
                Poll::Pending
            }
        }
    }

    /// The place of the next message.
    pub fn next_place(&self) -> u64 {
        self.next
    }

    /// Why there will be no next message; `None` if it is there or may come.
    pub fn end(&self) -> Option<FeedEnd> {
        self.feed.state.lock().read(self.next)?.err()
    }

    /// Waits for the next message; `None` if it does not come in time.
    ///
    /// # Errors
    /// It is not kept any more, or the stream was dropped.
    pub fn next_within(&mut self, patience: Duration) -> Result<Option<StreamMessage>, FeedEnd> {
        let until = Instant::now() + patience;
        let mut state = self.feed.state.lock();
        loop {
            if let Some(read) = state.read(self.next) {
                self.next += u64::from(read.is_ok());
                return read.map(Some);
            }
            if self.feed.moved.wait_until(&mut state, until).timed_out() {
                return Ok(None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: StreamUid = StreamUid(3);
    const NAMED: (StreamUid, &str) = (STREAM, "urn:s");
    const SOON: Duration = Duration::from_millis(1);

    fn message(place: u64, statements: usize) -> (StreamUid, StreamMessage) {
        let name = oxrdf::NamedNode::new_unchecked("urn:a");
        let quad = Quad::new(
            name.clone(),
            name.clone(),
            name,
            oxrdf::GraphName::DefaultGraph,
        );
        let message = StreamMessage {
            place: Place(place),
            at: EventTime(0),
            statements: vec![quad; statements].into(),
        };
        (STREAM, message)
    }

    fn read(reader: &mut FeedReader) -> Result<Option<u64>, FeedEnd> {
        let read = reader.next_within(SOON)?;
        Ok(read.map(|message| message.place.0))
    }

    #[test]
    fn readers_begin_now_with_what_is_kept_or_behind_a_place() {
        let feeds = Feeds::default();
        assert!(!feeds.has(STREAM));
        let mut first = feeds.reader(NAMED, Place(4), FeedStart::Now);
        assert!(feeds.has(STREAM));
        feeds.publish((3..=7).map(|place| message(place, 1)).collect());
        assert_eq!(read(&mut first), Ok(Some(5)));
        let mut behind = feeds.reader(NAMED, Place(7), FeedStart::After(Place(6)));
        assert_eq!(read(&mut behind), Ok(Some(7)));
        assert_eq!(read(&mut behind), Ok(None));
        let mut kept = feeds.reader(NAMED, Place(7), FeedStart::Kept);
        assert_eq!(read(&mut kept), Ok(Some(5)));
        let mut lost = feeds.reader(NAMED, Place(7), FeedStart::After(Place(2)));
        let end = FeedEnd::NotKept { next: 3, first: 5 };
        assert_eq!(read(&mut lost), Err(end));
        let mut now = feeds.reader(NAMED, Place(7), FeedStart::Now);
        assert_eq!(read(&mut now), Ok(None));
        feeds.publish(vec![message(8, 1)]);
        assert_eq!(
            (read(&mut now), read(&mut behind)),
            (Ok(Some(8)), Ok(Some(8)))
        );
        feeds.end(NAMED.1);
        assert_eq!(read(&mut now), Err(FeedEnd::Dropped));
        assert_eq!(read(&mut first), Ok(Some(6)), "what is kept is read first");
    }

    #[test]
    fn a_reader_that_falls_behind_is_told_and_others_are_woken() {
        let feeds = Feeds::default();
        let mut slow = feeds.reader(NAMED, Place(0), FeedStart::Now);
        let mut woken = feeds.reader(NAMED, Place(0), FeedStart::Now);
        let (waker, mut polls) = (Waker::noop(), 0);
        let mut context = Context::from_waker(waker);
        assert!(woken.poll_next(&mut context).is_pending());
        for place in 1..=5 {
            feeds.publish(vec![message(place, KEPT / 2)]);
            polls += u32::from(woken.poll_next(&mut context).is_ready());
        }
        assert_eq!(polls, 5);
        let end = read(&mut slow);
        assert!(
            matches!(end, Err(FeedEnd::NotKept { next: 1, .. })),
            "{end:?}"
        );
    }
}
