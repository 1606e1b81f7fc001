//! The results of a cohort, its members' counts, and its subscribers.

pub(crate) mod hub;
mod ledger;
pub(crate) mod outbox;

pub(crate) use ledger::{JoiningSlot, MemberLedger};
