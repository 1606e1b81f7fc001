//! Subscriptions: the kept firings of a query, then the live ones, in close order.
//! A subscriber that is too slow is told how many firings it lost; nothing is skipped silently.

use crate::backlog::Backlog;
use crate::metrics::Took;
use parking_lot::{Condvar, Mutex};
use somersault_model::{QueryUid, Sn};
use somersault_results::Answer;
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
    /// The windows are complete only from here on, if they reach back further than the kept
    /// statements.
    pub complete_from_ms: Option<i64>,
    /// The answer, or a sentence that says why there is none.
    pub answer: Result<Answer, String>,
    /// Start of execution → answer ready.
    pub execution: Duration,
    /// Last needed record acknowledged → answer ready.
    pub delay: Duration,
    /// The part of the delay spent waiting behind other queries.
    pub waiting: Duration,
}

/// The position of a firing among those of its query, in the order of delivery. As text it is an
/// event id: `uid:close`, or `uid:close.ordinal.revision.sn` if late statements made the firing or
/// the close has several. Both are also read without the uid.
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
    /// Returns the id of a firing at this snapshot number, which holds for all members of its
    /// cohort.
    pub(crate) fn of(key: &FiringKey, sn: Sn) -> FiringId {
        FiringId {
            uid: None,
            close_ms: key.close.0,
            ordinal: key.ordinal,
            revision: key.revision,
            sn: Some(sn.0),
        }
    }

    /// Returns the id of the only firing for a close that nothing amended, of any query.
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
    /// Returns the result of a firing, which may be its cohort's, for the query with this uid and
    /// name.
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

    /// Returns its position among the firings of its query.
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

/// Where a subscriber begins and what it receives.
///
/// ```
/// use somersault::{FiringId, SubscribeOptions};
/// let options = SubscribeOptions { after: Some(FiringId::at(802_000)), ..Default::default() };
/// assert!(options.empties);
/// ```
#[derive(Clone, Debug)]
pub struct SubscribeOptions {
    /// Only firings after this one (Last-Event-ID); `None` begins with the oldest kept firing. If
    /// it is a firing of another query, which the one of this name did not replace, the subscriber
    /// is told that it missed some, and begins with the oldest.
    pub after: Option<FiringId>,
    /// Only firings after the newest so far; ignored if `after` is given.
    pub from_now: bool,
    /// Also firings without rows.
    pub empties: bool,
    /// How many firings may wait to be read; see `when_slow`.
    pub capacity: usize,
    /// How much memory the waiting firings may take; `None` limits only their number.
    pub backlog: Option<Backlog>,
    /// What happens when a subscriber has too many waiting firings.
    pub when_slow: WhenSlow,
}

/// What happens to a subscriber that reads more slowly than its query fires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhenSlow {
    /// The oldest waiting firings are dropped, and it is told how many
    /// ([`SubscriptionEvent::Lagged`]).
    #[default]
    SkipOldest,
    /// All waiting firings are dropped, it is told so ([`SubscriptionEvent::Slow`]), and its
    /// subscription ends.
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
    /// Returns the same options for a query whose newest firing is this.
    pub(crate) fn at(&self, newest: Option<FiringId>) -> SubscribeOptions {
        let newest = newest.filter(|_| self.from_now);
        SubscribeOptions {
            after: self.after.or(newest),
            ..self.clone()
        }
    }

    /// Whether the last seen firing is known to belong to another query than the one with this uid.
    pub(crate) fn follows_another(&self, uid: QueryUid) -> bool {
        let seen = self.after.and_then(|after| after.uid);
        seen.is_some_and(|seen| seen != uid.0)
    }

    /// Returns the same options for a subscriber that has seen nothing of the query.
    pub(crate) fn having_seen_nothing(&self) -> SubscribeOptions {
        SubscribeOptions {
            after: None,
            from_now: false,
            ..self.clone()
        }
    }

    /// Whether a firing came after the last seen one, as far as the two ids alone tell.
    pub(crate) fn has_not_seen(&self, id: FiringId) -> bool {
        self.after.is_some_and(|after| match (after.sn, id.sn) {
            (Some(seen), Some(sn)) => {
                (sn, id.close_ms, id.ordinal) > (seen, after.close_ms, after.ordinal)
            }
            _ => id.revision == 0 && (id.close_ms, id.ordinal) > (after.close_ms, after.ordinal),
        })
    }
}

/// The firings of a query that are no longer kept.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Gone {
    /// The newest firing that amended nothing.
    unamended: Option<FiringId>,
    /// The newest firing that amended a close and came after `unamended`.
    amended: Option<FiringId>,
}

impl Gone {
    /// Notes one more firing that is no longer kept; firings leave in their order.
    pub(crate) fn note(&mut self, id: FiringId) {
        match id.revision {
            0 => {
                self.unamended = Some(id);
                self.amended = None;
            }
            _ => self.amended = Some(id),
        }
    }

    /// Adds firings that are no longer kept either, and come after all earlier ones.
    pub(crate) fn add(&mut self, later: Gone) {
        for id in [later.unamended, later.amended].into_iter().flatten() {
            self.note(id);
        }
    }

    pub(crate) fn newest(&self) -> Option<FiringId> {
        self.amended.or(self.unamended)
    }

    /// Returns those of the firings that were for closes after this one.
    pub(crate) fn after(self, close_ms: i64) -> Gone {
        let is_after = |id: &FiringId| id.close_ms > close_ms;
        Gone {
            unamended: self.unamended.filter(is_after),
            amended: self.amended.filter(is_after),
        }
    }

    /// Returns the same, or the firing answered before if nothing is gone.
    pub(crate) fn or(self, before: Option<FiringId>) -> Gone {
        match self.newest() {
            Some(_) => self,
            None => Gone {
                unamended: before,
                amended: None,
            },
        }
    }

    /// Whether a subscriber misses a firing that it has not seen.
    pub(crate) fn is_missed(&self, options: &SubscribeOptions) -> bool {
        match options.after {
            Some(FiringId {
                sn: None, close_ms, ..
            }) => self.unamended.is_some_and(|gone| {
                // The close that it saw is gone, and so are the amendments behind it.
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
        /// Their number; `None` if they had left before it subscribed.
        missed: Option<u64>,
    },
    /// It read too slowly, and its subscription ends here ([`WhenSlow::End`]).
    Slow {
        /// The number of firings up to now that it will not see.
        missed: u64,
    },
}

/// The waiting firings of one subscriber.
pub(crate) struct Mailbox {
    /// Firings up to `after` are not wanted; recovery may answer some of them again.
    options: SubscribeOptions,
    capacity: usize,
    inner: Mutex<Waiting>,
    arrived: Condvar,
}

#[derive(Default)]
struct Waiting {
    firings: VecDeque<Arc<FiringResult>>,
    /// Their memory in bytes, where there is a backlog.
    bytes: u64,
    /// Whether it must still be told that firings had left before it subscribed.
    gone: bool,
    /// Firings dropped since the last one that was read.
    missed: u64,
    /// Whether it ended because too many firings waited.
    is_slow: bool,
    ended: bool,
    waker: Option<Waker>,
    /// The last seen firing, of which only the close is known, has been passed: later amendments
    /// are new.
    passed: bool,
}

impl Mailbox {
    /// Returns the mailbox of a subscriber that can no longer receive the firings in `gone`; it is
    /// told if it misses one.
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

    /// Makes the subscriber learn first that it has missed some firings.
    pub(crate) fn with_gap(mut self) -> Mailbox {
        self.inner.get_mut().gone = true;
        self
    }

    /// Whether to deliver a firing; called once for each, in their order.
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
            // Firings are counted here only until it has been told.
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

    /// Drops the oldest waiting firing, or all of them and the subscription.
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

    /// Returns the next event.
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

    /// Returns the uid of the query that it reads: another query may later have its name.
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

    /// Waits at most `timeout`; returns `Ok(None)` when there will be no more events.
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

    /// Returns the next event if there is one.
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
