//! Subscriptions: the kept firings of a query, then the live ones, in close order.
//! A subscriber that is too slow is told how many firings it lost; nothing is skipped silently.

use crate::answer::Answer;
use crate::backlog::Backlog;
use crate::metrics::Took;
use parking_lot::{Condvar, Mutex};
use somersault_model::{QueryUid, Sn};
use somersault_stream::{Firing, FiringKey};
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// One firing of a continuous query, with its answer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FiringResult {
    /// The query's name.
    pub query: String,
    /// Its uid: with close, ordinal and revision the key of this firing (S13).
    pub uid: u64,
    /// The close.
    pub close_ms: i64,
    /// 0, and more for amended firings.
    pub revision: u32,
    /// Counts the firings at one close from 0; only count windows have several.
    pub ordinal: u32,
    /// The snapshot number that it saw.
    pub sn: u64,
    /// The windows are complete from here on only, if they reach back further than what was kept.
    pub complete_from_ms: Option<i64>,
    /// The answer, or the sentence that says why there is none.
    pub answer: Result<Answer, String>,
    /// Start of execution → answer ready.
    pub execution: Duration,
    /// The last record that it needed acknowledged → answer ready.
    pub delay: Duration,
    /// What of the delay was waiting behind other queries.
    pub waiting: Duration,
}

/// Where a firing stands among those of its query, in the order in which they are given. As text it
/// is the id of an event: `uid:close`, or `uid:close.ordinal.revision.sn` where late statements
/// made the firing or the close has several. Both are read without the uid, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FiringId {
    /// The uid of the query; `None` where it is not known.
    pub uid: Option<u64>,
    /// The close.
    pub close_ms: i64,
    /// Counts the firings at one close from 0.
    pub ordinal: u32,
    /// 0, and more for amended firings.
    pub revision: u32,
    /// The snapshot number that it saw: later firings saw no earlier one. `None` where only the
    /// close is known.
    pub sn: Option<u64>,
}

impl FiringId {
    /// That of a firing which saw this snapshot number, for the members of its cohort whoever they
    /// are.
    pub(crate) fn of(key: &FiringKey, sn: Sn) -> FiringId {
        FiringId {
            uid: None,
            close_ms: key.close.0,
            ordinal: key.ordinal,
            revision: key.revision,
            sn: Some(sn.0),
        }
    }

    /// The only firing for a close that nothing amended, of whichever query.
    pub fn at(close_ms: i64) -> FiringId {
        FiringId {
            uid: None,
            close_ms,
            ordinal: 0,
            revision: 0,
            sn: None,
        }
    }
}

impl std::fmt::Display for FiringId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let FiringId {
            uid,
            close_ms,
            ordinal,
            revision,
            sn,
        } = self;
        if let Some(uid) = uid {
            write!(f, "{uid}:")?;
        }
        match (ordinal, revision, sn) {
            (0, 0, _) | (_, _, None) => write!(f, "{close_ms}"),
            (_, _, Some(sn)) => write!(f, "{close_ms}.{ordinal}.{revision}.{sn}"),
        }
    }
}

impl std::str::FromStr for FiringId {
    type Err = ();

    fn from_str(text: &str) -> Result<FiringId, ()> {
        let (uid, text) = match text.split_once(':') {
            Some((uid, rest)) => (Some(uid.parse().map_err(|_| ())?), rest),
            None => (None, text),
        };
        let mut parts = text.split('.');
        let close_ms = parts.next().ok_or(())?.parse().map_err(|_| ())?;
        let Some(ordinal) = parts.next() else {
            return Ok(FiringId {
                uid,
                ..FiringId::at(close_ms)
            });
        };
        let ordinal = ordinal.parse().map_err(|_| ())?;
        let revision = parts.next().ok_or(())?.parse().map_err(|_| ())?;
        let sn = Some(parts.next().ok_or(())?.parse().map_err(|_| ())?);
        let id = FiringId {
            uid,
            close_ms,
            ordinal,
            revision,
            sn,
        };
        parts.next().is_none().then_some(id).ok_or(())
    }
}

impl FiringResult {
    /// What the query with this uid and name has for a firing, which may be that of its cohort.
    pub(crate) fn new(
        firing: &Firing,
        took: Took,
        (uid, name): (QueryUid, &str),
        answer: Result<Answer, String>,
    ) -> FiringResult {
        FiringResult {
            query: name.to_owned(),
            uid: uid.0,
            close_ms: firing.close.0,
            revision: firing.revision,
            ordinal: firing.ordinal,
            sn: firing.sn.0,
            complete_from_ms: firing.complete_from.map(|from| from.0),
            answer,
            execution: took.execution,
            delay: took.delay,
            waiting: took.waiting,
        }
    }

    /// Its place among the firings of its query.
    pub fn id(&self) -> FiringId {
        FiringId {
            uid: Some(self.uid),
            close_ms: self.close_ms,
            ordinal: self.ordinal,
            revision: self.revision,
            sn: Some(self.sn),
        }
    }
}

/// From where and what a subscriber wants.
///
/// ```
/// use somersault::{FiringId, SubscribeOptions};
/// let options = SubscribeOptions { after: Some(FiringId::at(802_000)), ..Default::default() };
/// assert!(options.empties);
/// ```
#[derive(Clone, Debug)]
pub struct SubscribeOptions {
    /// Only firings that came after this one (Last-Event-ID); `None` begins with the oldest that is
    /// kept. If it is a firing of another query, whose place the one of this name did not take, the
    /// subscriber is told that it missed some, and begins with the oldest.
    pub after: Option<FiringId>,
    /// Only firings that come after the newest so far; where `after` is given, that counts.
    pub from_now: bool,
    /// Also firings without rows.
    pub empties: bool,
    /// How many firings may wait to be read; see `when_slow`.
    pub capacity: usize,
    /// How much memory they may take; without it their number counts alone.
    pub backlog: Option<Backlog>,
    /// What becomes of a subscriber for whom too much waits.
    pub when_slow: WhenSlow,
}

/// What becomes of a subscriber that reads more slowly than its query fires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhenSlow {
    /// The oldest firings that wait for it are given up, and it is told how many
    /// ([`SubscriptionEvent::Lagged`]).
    #[default]
    SkipOldest,
    /// All firings that wait for it are given up, it is told so ([`SubscriptionEvent::Slow`]), and
    /// its subscription ends.
    End,
}

impl Default for SubscribeOptions {
    fn default() -> Self {
        SubscribeOptions {
            after: None,
            from_now: false,
            empties: true,
            capacity: 1024,
            backlog: None,
            when_slow: WhenSlow::default(),
        }
    }
}

impl SubscribeOptions {
    /// The same, of a query whose newest firing is this.
    pub(crate) fn at(&self, newest: Option<FiringId>) -> SubscribeOptions {
        let newest = newest.filter(|_| self.from_now);
        SubscribeOptions {
            after: self.after.or(newest),
            ..self.clone()
        }
    }

    /// Whether the firing that was seen last is known to be another query's than the one with this
    /// uid.
    pub(crate) fn follows_another(&self, uid: QueryUid) -> bool {
        let seen = self.after.and_then(|after| after.uid);
        seen.is_some_and(|seen| seen != uid.0)
    }

    /// The same, of a subscriber that has seen nothing of the query.
    pub(crate) fn having_seen_nothing(&self) -> SubscribeOptions {
        SubscribeOptions {
            after: None,
            from_now: false,
            ..self.clone()
        }
    }

    /// Whether a firing came after the one that was seen last, as far as that is told from the two
    /// alone.
    pub(crate) fn has_not_seen(&self, id: FiringId) -> bool {
        self.after.is_some_and(|after| match (after.sn, id.sn) {
            (Some(seen), Some(sn)) => {
                (sn, id.close_ms, id.ordinal) > (seen, after.close_ms, after.ordinal)
            }
            _ => id.revision == 0 && (id.close_ms, id.ordinal) > (after.close_ms, after.ordinal),
        })
    }
}

/// What of a query's firings is kept no more.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Gone {
    /// The newest that amended nothing.
    unamended: Option<FiringId>,
    /// The newest that amended a close and came after that.
    amended: Option<FiringId>,
}

impl Gone {
    /// One more is gone; they go in their order.
    pub(crate) fn note(&mut self, id: FiringId) {
        match id.revision {
            0 => {
                self.unamended = Some(id);
                self.amended = None;
            }
            _ => self.amended = Some(id),
        }
    }

    /// These are gone too, which come after all that were.
    pub(crate) fn add(&mut self, later: Gone) {
        for id in [later.unamended, later.amended].into_iter().flatten() {
            self.note(id);
        }
    }

    pub(crate) fn newest(&self) -> Option<FiringId> {
        self.amended.or(self.unamended)
    }

    /// What of it was for closes after this one.
    pub(crate) fn after(self, close_ms: i64) -> Gone {
        let is_after = |id: &FiringId| id.close_ms > close_ms;
        Gone {
            unamended: self.unamended.filter(is_after),
            amended: self.amended.filter(is_after),
        }
    }

    /// The same, and where nothing is gone, what was answered before.
    pub(crate) fn or(self, before: Option<FiringId>) -> Gone {
        match self.newest() {
            Some(_) => self,
            None => Gone {
                unamended: before,
                amended: None,
            },
        }
    }

    /// Whether a subscriber is not given something that it has not seen.
    pub(crate) fn is_missed(&self, options: &SubscribeOptions) -> bool {
        match options.after {
            Some(FiringId {
                sn: None, close_ms, ..
            }) => self.unamended.is_some_and(|gone| {
                // The close that it saw is gone, and so is what was amended behind it.
                let is_seen = gone.close_ms == close_ms && gone.ordinal == 0;
                options.has_not_seen(gone) || (is_seen && self.amended.is_some())
            }),
            _ => self.newest().is_some_and(|gone| options.has_not_seen(gone)),
        }
    }
}

/// What a [`Subscription`] delivers.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SubscriptionEvent {
    /// The next firing.
    Firing(Arc<FiringResult>),
    /// Firings that this subscriber will not see: they were no longer kept, or it read too slowly.
    Lagged {
        /// How many; `None` where they had gone before it subscribed.
        missed: Option<u64>,
    },
    /// It read too slowly, and its subscription ends here ([`WhenSlow::End`]).
    Slow {
        /// How many firings it will not see that had come by then.
        missed: u64,
    },
}

/// Where the firings for one subscriber wait.
pub(crate) struct Mailbox {
    /// Firings up to here are not wanted; recovery may answer some of them again.
    options: SubscribeOptions,
    capacity: usize,
    inner: Mutex<Waiting>,
    arrived: Condvar,
}

#[derive(Default)]
struct Waiting {
    firings: VecDeque<Arc<FiringResult>>,
    /// What they take, where there is a backlog.
    bytes: u64,
    /// Whether it has yet to be told that some had gone before it subscribed.
    gone: bool,
    /// Firings given up since the last one that was read.
    missed: u64,
    /// Whether it ended because too much waited.
    is_slow: bool,
    ended: bool,
    waker: Option<Waker>,
    /// The firing that was seen last, of which only the close is known, has been passed: what is
    /// amended now is new.
    passed: bool,
}

impl Mailbox {
    /// A subscriber that may not be given any more what is `gone`; it is told if it misses
    /// something.
    pub(crate) fn new(options: &SubscribeOptions, capacity: usize, gone: Gone) -> Mailbox {
        let seen_ms = options.after.map(|after| after.close_ms);
        let waiting = Waiting {
            passed: (gone.unamended).is_some_and(|gone| Some(gone.close_ms) >= seen_ms),
            gone: gone.is_missed(options),
            ..Waiting::default()
        };
        Mailbox {
            options: options.clone(),
            capacity,
            inner: Mutex::new(waiting),
            arrived: Condvar::new(),
        }
    }

    /// Tells the subscriber first that it has missed some.
    pub(crate) fn with_gap(mut self) -> Mailbox {
        self.inner.get_mut().gone = true;
        self
    }

    /// Whether a firing is to be delivered; asked once for each, in their order.
    pub(crate) fn wants(&self, id: FiringId, is_empty: bool) -> bool {
        self.is_new(id) && (self.options.empties || !is_empty)
    }

    /// Whether the subscriber has not seen a firing; firings come here in their order.
    fn is_new(&self, id: FiringId) -> bool {
        let Some(after) = self.options.after else {
            return true;
        };
        let is_amended = id.revision > 0;
        let mut inner = self.inner.lock();
        inner.passed |= !is_amended && id.close_ms >= after.close_ms;
        match after.sn {
            None if is_amended => inner.passed,
            _ => self.options.has_not_seen(id),
        }
    }

    pub(crate) fn put(&self, firing: Arc<FiringResult>) {
        let mut inner = self.inner.lock();
        if inner.is_slow {
            // Once it has been told, it is told no more.
            inner.missed += u64::from(inner.missed > 0);
            return;
        }
        if let Some(backlog) = &self.options.backlog {
            inner.bytes += backlog.hold(&firing);
        }
        inner.firings.push_back(firing);
        while self.is_too_much(&inner) {
            self.give_up(&mut inner);
        }
        self.wake(&mut inner);
    }

    fn is_too_much(&self, inner: &Waiting) -> bool {
        let firings = inner.firings.len();
        let too_large = |backlog: &Backlog| backlog.is_too_much(firings, inner.bytes);
        firings > self.capacity || self.options.backlog.as_ref().is_some_and(too_large)
    }

    /// Gives up the oldest firing that waits, or all of them and the subscription.
    fn give_up(&self, inner: &mut Waiting) {
        if inner.missed == 0
            && let Some(backlog) = &self.options.backlog
        {
            backlog.note_slow();
        }
        let count = match self.options.when_slow {
            WhenSlow::SkipOldest => 1,
            WhenSlow::End => inner.firings.len(),
        };
        for _ in 0..count {
            inner.missed += u64::from(self.pop(inner).is_some());
        }
        if self.options.when_slow == WhenSlow::End {
            inner.firings = VecDeque::new();
            inner.is_slow = true;
            inner.ended = true;
        }
    }

    fn pop(&self, inner: &mut Waiting) -> Option<Arc<FiringResult>> {
        let firing = inner.firings.pop_front()?;
        if let Some(backlog) = &self.options.backlog {
            let bytes = backlog.release(&firing);
            inner.bytes -= bytes;
        }
        Some(firing)
    }

    /// The next event.
    fn take(&self, inner: &mut Waiting) -> Option<SubscriptionEvent> {
        if std::mem::take(&mut inner.gone) {
            return Some(SubscriptionEvent::Lagged { missed: None });
        }
        if inner.missed > 0 {
            let missed = std::mem::take(&mut inner.missed);
            return Some(match inner.is_slow {
                true => SubscriptionEvent::Slow { missed },
                false => SubscriptionEvent::Lagged {
                    missed: Some(missed),
                },
            });
        }
        self.pop(inner).map(SubscriptionEvent::Firing)
    }

    pub(crate) fn end(&self) {
        let mut inner = self.inner.lock();
        inner.ended = true;
        self.wake(&mut inner);
    }

    fn wake(&self, inner: &mut Waiting) {
        if let Some(waker) = inner.waker.take() {
            waker.wake();
        }
        self.arrived.notify_all();
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        if let Some(backlog) = &self.options.backlog {
            let inner = self.inner.get_mut();
            for firing in inner.firings.drain(..) {
                backlog.release(&firing);
            }
        }
    }
}

/// A reader of a query's firings; dropping it unsubscribes.
pub struct Subscription {
    query: QueryUid,
    mailbox: Arc<Mailbox>,
}

impl Subscription {
    pub(crate) fn new(query: QueryUid, mailbox: Arc<Mailbox>) -> Subscription {
        Subscription { query, mailbox }
    }

    /// The uid of the query that it reads: another one may come to bear its name.
    pub fn uid(&self) -> u64 {
        self.query.0
    }

    /// Waits for the next event; `None` when the query was dropped or the engine stopped.
    pub fn recv(&self) -> Option<SubscriptionEvent> {
        let mut inner = self.mailbox.inner.lock();
        loop {
            if let Some(event) = self.mailbox.take(&mut inner) {
                return Some(event);
            }
            if inner.ended {
                return None;
            }
            self.mailbox.arrived.wait(&mut inner);
        }
    }

    /// Waits at most `timeout`; `Ok(None)` when there will be no more.
    ///
    /// # Errors
    /// `Err(())` when time is up.
    #[allow(clippy::result_unit_err)]
    pub fn recv_timeout(&self, timeout: Duration) -> Result<Option<SubscriptionEvent>, ()> {
        let until = Instant::now() + timeout;
        let mut inner = self.mailbox.inner.lock();
        loop {
            if let Some(event) = self.mailbox.take(&mut inner) {
                return Ok(Some(event));
            }
            if inner.ended {
                return Ok(None);
            }
            if self
                .mailbox
                .arrived
                .wait_until(&mut inner, until)
                .timed_out()
            {
                return self
                    .mailbox
                    .take(&mut inner)
                    .map(|event| Ok(Some(event)))
                    .unwrap_or(Err(()));
            }
        }
    }

    /// The next event if there is one.
    pub fn try_recv(&self) -> Option<SubscriptionEvent> {
        self.mailbox.take(&mut self.mailbox.inner.lock())
    }

    /// The same for asynchronous callers (with `std::future::poll_fn` or a `Stream`).
    pub fn poll_recv(&self, context: &mut Context<'_>) -> Poll<Option<SubscriptionEvent>> {
        let mut inner = self.mailbox.inner.lock();
        if let Some(event) = self.mailbox.take(&mut inner) {
            return Poll::Ready(Some(event));
        }
        if inner.ended {
            return Poll::Ready(None);
        }
        inner.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let waiting = self.mailbox.inner.lock().firings.len();
        f.debug_struct("Subscription")
            .field("query", &self.query.0)
            .field("waiting", &waiting)
            .finish()
    }
}
