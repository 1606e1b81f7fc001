//! The handover: where transactions that have run wait for the sequencer, which logs them.
//!
//! The lane runs transactions one after another, over a snapshot and all that committed since. The
//! sequencer logs what it finds here as one record, in the order in which it came, and cuts an SN
//! of its effects. Beside that it makes *foreign* cuts, which change the stored graphs by facts of
//! streams, loads or updates. The *epoch* is the SN of the newest foreign cut.
//!
//! Transactions are serial in the order of the log, and the log's order of effects is that of SNs:
//!
//! 1. A transaction is accepted, under the lock, only if its base is at or after the epoch. All
//!    transactions that were accepted before are in its view, because the lane alone runs any.
//! 2. Before a foreign cut the sequencer closes the handover: it takes all accepted transactions,
//!    and logs and cuts them. The handover opens with the epoch of that cut. So whatever is
//!    accepted afterwards has seen the cut, and whatever was accepted before is in SNs before it.
//! 3. Between two foreign cuts the stored graphs change by transactions alone. So a base at or
//!    after the epoch, with all accepted transactions on it, is the state after all that the log
//!    holds and will hold before this transaction.
//!
//! A transaction whose effects cannot be told apart statement by statement (a graph that is cleared
//! by its name) becomes a foreign cut itself: it is accepted as the last one, and the sequencer
//! opens the handover with the SN of its cut.
//!
//! A transaction that is not accepted has changed nothing, and runs again on a newer base. If that
//! happens twice, the lane asks for a *turn*: the sequencer makes no cut and takes no input until
//! the transaction has ended.
//!
//! Before changing anything here: the lane holds the lock for the time of a push alone. Nothing is
//! evaluated, encoded or logged under it.

use parking_lot::Mutex;
use somersault_model::Sn;
use std::sync::atomic::{AtomicBool, Ordering};

/// Where transactions wait for the sequencer. `T` is a transaction.
pub(crate) struct Handover<T> {
    meeting: Mutex<Meeting<T>>,
    /// Whether the lane runs another transaction next, as far as it knows.
    has_upcoming: AtomicBool,
}

struct Meeting<T> {
    /// The SN of the newest foreign cut; `None` while the handover is closed.
    epoch: Option<Sn>,
    accepted: Vec<T>,
    wants_turn: bool,
}

impl<T> Meeting<T> {
    fn admits(&self, base: Sn) -> bool {
        self.epoch.is_some_and(|epoch| base >= epoch)
    }

    /// Adds a transaction that ran on this base, unless a foreign cut came between; whether it is
    /// the first one that waits.
    fn accept(&mut self, base: Sn, transaction: T) -> Result<bool, T> {
        match self.admits(base) {
            true => Ok(self.add(transaction)),
            false => Err(transaction),
        }
    }

    /// Whether it is the first one that waits.
    fn add(&mut self, transaction: T) -> bool {
        self.wants_turn = false;
        self.accepted.push(transaction);
        self.accepted.len() == 1
    }
}

impl<T> Handover<T> {
    /// A handover that is closed.
    pub(crate) fn new() -> Handover<T> {
        Handover {
            meeting: Mutex::new(Meeting {
                epoch: None,
                accepted: Vec::new(),
                wants_turn: false,
            }),
            has_upcoming: AtomicBool::new(false),
        }
    }
}

/// The lane's side.
impl<T> Handover<T> {
    /// Whether a transaction on this base can be accepted now.
    pub(crate) fn admits(&self, base: Sn) -> bool {
        self.meeting.lock().admits(base)
    }

    /// Accepts a transaction that ran on this base, for good. Returns whether it is the first one
    /// that waits.
    ///
    /// # Errors
    /// The transaction, if a foreign cut came between: it has to run again.
    pub(crate) fn commit(&self, base: Sn, transaction: T) -> Result<bool, T> {
        self.meeting.lock().accept(base, transaction)
    }

    /// As [`Handover::commit`], and accepts nothing else until the sequencer opens the handover
    /// again: the transaction becomes a foreign cut.
    ///
    /// # Errors
    /// As [`Handover::commit`].
    pub(crate) fn commit_last(&self, base: Sn, transaction: T) -> Result<bool, T> {
        let mut meeting = self.meeting.lock();
        let is_first = meeting.accept(base, transaction)?;
        meeting.epoch = None;
        Ok(is_first)
    }

    /// Puts something behind all transactions that were accepted, which changes nothing. Returns
    /// whether it is the first that waits.
    pub(crate) fn follow(&self, transaction: T) -> bool {
        self.meeting.lock().add(transaction)
    }

    /// Says whether another transaction runs next, which the sequencer may wait for.
    pub(crate) fn set_has_upcoming(&self, has_upcoming: bool) {
        self.has_upcoming.store(has_upcoming, Ordering::Relaxed);
    }

    /// Asks for a turn, or gives it up.
    pub(crate) fn set_wants_turn(&self, wants_turn: bool) {
        self.meeting.lock().wants_turn = wants_turn;
    }
}

/// The sequencer's side.
impl<T> Handover<T> {
    /// Whether the lane has asked for a turn and not had it.
    pub(crate) fn wants_turn(&self) -> bool {
        self.meeting.lock().wants_turn
    }

    /// Whether the lane has said that it runs another transaction next.
    pub(crate) fn has_upcoming(&self) -> bool {
        self.has_upcoming.load(Ordering::Relaxed)
    }

    /// The number of transactions that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.meeting.lock().accepted.len()
    }

    /// Takes the transactions that wait.
    pub(crate) fn take(&self) -> Vec<T> {
        std::mem::take(&mut self.meeting.lock().accepted)
    }

    /// Takes the transactions that wait, and accepts no other.
    pub(crate) fn close(&self) -> Vec<T> {
        let mut meeting = self.meeting.lock();
        meeting.epoch = None;
        std::mem::take(&mut meeting.accepted)
    }

    /// Accepts transactions on bases from this one on.
    pub(crate) fn open(&self, epoch: Sn) {
        self.meeting.lock().epoch = Some(epoch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

    #[test]
    fn a_transaction_on_an_old_base_is_given_back() {
        let handover = Handover::new();
        assert_eq!(handover.commit(Sn(9), 'a'), Err('a'), "it begins closed");
        handover.open(Sn(3));
        assert_eq!(handover.commit(Sn(2), 'a'), Err('a'));
        assert_eq!(handover.commit(Sn(3), 'b'), Ok(true));
        assert_eq!(handover.commit(Sn(4), 'c'), Ok(false));
        assert_eq!(handover.close(), ['b', 'c']);
        assert_eq!(handover.commit(Sn(9), 'd'), Err('d'));
        assert!(
            handover.follow('e'),
            "what changes nothing may wait at any time"
        );
        handover.open(Sn(5));
        assert!(!handover.admits(Sn(4)) && handover.admits(Sn(5)));
        assert_eq!(handover.take(), ['e']);
    }

    #[test]
    fn nothing_is_accepted_after_the_last_one() {
        let handover = Handover::new();
        assert_eq!(handover.commit_last(Sn(9), 'a'), Err('a'));
        handover.open(Sn(3));
        assert_eq!(handover.commit(Sn(3), 'b'), Ok(true));
        assert_eq!(handover.commit_last(Sn(3), 'c'), Ok(false));
        assert_eq!(handover.commit(Sn(9), 'd'), Err('d'));
        assert_eq!(handover.take(), ['b', 'c']);
        handover.open(Sn(5));
        assert!(!handover.admits(Sn(4)) && handover.admits(Sn(5)));
    }

    #[test]
    fn a_turn_ends_with_the_transaction() {
        let handover = Handover::new();
        handover.open(Sn(0));
        handover.set_wants_turn(true);
        assert!(handover.wants_turn());
        assert_eq!(handover.commit(Sn(0), ()), Ok(true));
        assert!(!handover.wants_turn());
    }

    /// A number that transactions and foreign cuts count up. What each of them has seen is written
    /// down; in a serial history each sees one more than the one before it.
    struct History {
        handover: Handover<u64>,
        /// The stable SN, and the number in it.
        stable: Mutex<(Sn, u64)>,
        done: AtomicU64,
    }

    /// The sequencer: logs transactions, and now and then makes a foreign cut, which becomes stable
    /// later. Returns what the log says that each has seen.
    fn sequence(history: &History, rounds: u64, is_careless: bool) -> Vec<u64> {
        let (mut log, mut sn, mut value) = (Vec::new(), Sn(0), 0);
        for round in 0..rounds {
            let is_foreign = round % 3 == 0;
            let accepted = match is_foreign && !is_careless {
                true => history.handover.close(),
                false => history.handover.take(),
            };
            if !accepted.is_empty() {
                sn = sn.next();
                value += accepted.len() as u64;
                log.extend(accepted);
                *history.stable.lock() = (sn, value);
            }
            if is_foreign {
                std::thread::yield_now();
                sn = sn.next();
                log.push(value);
                value += 1;
                history.handover.open(sn);
                std::thread::yield_now();
                *history.stable.lock() = (sn, value);
            }
            std::thread::yield_now();
        }
        history.done.store(1, SeqCst);
        log.extend(history.handover.close());
        log
    }

    /// The lane: each transaction reads the stable number and those of its own that are not in it.
    fn run(history: &History) {
        let mut own: Vec<(Sn, u64)> = Vec::new();
        while history.done.load(SeqCst) == 0 {
            let (base, value) = *history.stable.lock();
            // All that committed is seen: what the base lacks comes on top of it.
            let seen = own.last().map_or(value, |(_, last)| value.max(last + 1));
            if history.handover.admits(base) && history.handover.commit(base, seen).is_ok() {
                own.push((base, seen));
            }
        }
    }

    fn history(is_careless: bool) -> Vec<u64> {
        let history = History {
            handover: Handover::new(),
            stable: Mutex::new((Sn(0), 0)),
            done: AtomicU64::new(0),
        };
        std::thread::scope(|scope| {
            let sequencer = scope.spawn(|| sequence(&history, 3_000, is_careless));
            run(&history);
            sequencer.join().expect("it ends")
        })
    }

    #[test]
    fn transactions_are_serial_in_the_order_of_the_log() {
        let log = history(false);
        assert!(log.len() > 1_000);
        let expected: Vec<u64> = (0..log.len() as u64).collect();
        assert_eq!(log, expected);
    }

    /// A planted mistake: a foreign cut that does not close the handover.
    #[test]
    fn a_cut_that_does_not_close_the_handover_is_noticed() {
        let is_serial = |log: &[u64]| log.iter().enumerate().all(|(at, seen)| at as u64 == *seen);
        assert!((0..50).any(|_| !is_serial(&history(true))));
    }
}
