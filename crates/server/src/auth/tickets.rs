//! Tickets: what a web page puts into the URL of an event stream, because a browser sends no
//! `Authorization` header there.
//!
//! The one thing to know before changing it: URLs are kept in logs and histories. So a ticket is
//! taken once, soon, and only where an event stream begins; it has the rights of the token with
//! which it was asked for, and ends with that.

use crate::auth::principal::Principal;
use crate::auth::secret::{KeyedHash, TokenKey, hex, random};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time within which a ticket is taken.
pub(crate) const LIFE: Duration = Duration::from_secs(60);
/// Tickets that wait to be used, of all senders and of one.
const OPEN: usize = 4096;
const OPEN_OF_SENDER: usize = 64;
/// The beginning of each ticket.
const PREFIX: &str = "smt_";
const SECRET_BYTES: usize = 20;

/// The tickets that wait to be used.
#[derive(Debug)]
pub(crate) struct Tickets {
    hash: KeyedHash,
    open: Mutex<HashMap<TokenKey, Ticket>>,
}

#[derive(Debug)]
struct Ticket {
    holder: Arc<Principal>,
    until: Instant,
}

impl Tickets {
    /// None yet.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub(crate) fn new() -> io::Result<Tickets> {
        Ok(Tickets {
            hash: KeyedHash::new()?,
            open: Mutex::default(),
        })
    }

    /// Makes a ticket for a sender; `None` if too many wait to be used.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub(crate) fn issue(
        &self,
        holder: &Arc<Principal>,
        now: Instant,
    ) -> io::Result<Option<String>> {
        let text = format!("{PREFIX}{}", hex(&random::<SECRET_BYTES>()?));
        let mut open = self.open.lock();
        open.retain(|_, ticket| now < ticket.until);
        let is_own = |ticket: &&Ticket| ticket.holder.name() == holder.name();
        if open.len() >= OPEN || open.values().filter(is_own).count() >= OPEN_OF_SENDER {
            return Ok(None);
        }
        let ticket = Ticket {
            holder: Arc::clone(holder),
            until: now + LIFE,
        };
        open.insert(self.hash.of(&text), ticket);
        Ok(Some(text))
    }

    /// Takes a ticket, and returns its holder. It is used up then.
    pub(crate) fn redeem(&self, text: &str, now: Instant) -> Option<Arc<Principal>> {
        let ticket = self.open.lock().remove(&self.hash.of(text))?;
        let is_good = now < ticket.until && ticket.holder.is_current();
        is_good.then_some(ticket.holder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use somersault::Access;

    fn holder(name: &str) -> Arc<Principal> {
        Arc::new(Principal::new(name, Access::full(), None))
    }

    #[test]
    fn a_ticket_is_taken_once_and_soon() {
        let tickets = Tickets::new().expect("random bytes");
        let (ann, now) = (holder("ann"), Instant::now());
        let issue = || tickets.issue(&ann, now).expect("random").expect("room");
        let (one, two) = (issue(), issue());
        assert!(one != two && one.starts_with("smt_"));
        let soon = now + LIFE / 2;
        let found = tickets.redeem(&one, soon).expect("it is good");
        assert!(Arc::ptr_eq(&found, &ann));
        assert!(tickets.redeem(&one, soon).is_none(), "it was used");
        assert!(tickets.redeem("smt_x", soon).is_none());
        assert!(tickets.redeem(&two, now + LIFE).is_none(), "it is too late");
        let three = issue();
        ann.revoke();
        assert!(tickets.redeem(&three, soon).is_none(), "its token is gone");
    }

    #[test]
    fn a_sender_has_a_number_of_tickets_until_they_end() {
        let tickets = Tickets::new().expect("random bytes");
        let (ann, bob, now) = (holder("ann"), holder("bob"), Instant::now());
        let issue = |holder, at| tickets.issue(holder, at).expect("random").is_some();
        assert!((0..OPEN_OF_SENDER).all(|_| issue(&ann, now)));
        assert!(!issue(&ann, now) && issue(&bob, now));
        assert!(issue(&ann, now + LIFE));
    }
}
