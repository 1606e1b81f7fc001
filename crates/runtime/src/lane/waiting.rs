//! A limit in bytes on calls that are handed in and have not run, so that a caller who hands in
//! faster than the lane runs them holds no more.
//!
//! Before changing anything here: a place is given back when its call is dropped, which is when it
//! has run or was refused.

use super::answer::term_bytes;
use super::call::CallArguments;
use crate::error::RuntimeError;
use oxrdf::Term;
use somersault_lang::Argument;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The bytes that may wait.
const MOST: u64 = 256 << 20;
/// The bytes of a call without its arguments.
const CALL_BYTES: u64 = 1 << 10;

/// The memory of calls that wait.
#[derive(Debug)]
pub(crate) struct WaitingRoom {
    held: AtomicU64,
    most: u64,
}

impl Default for WaitingRoom {
    fn default() -> WaitingRoom {
        WaitingRoom {
            held: AtomicU64::new(0),
            most: MOST,
        }
    }
}

/// The memory of one call, until it is dropped.
#[derive(Debug)]
pub(crate) struct WaitingPlace {
    room: Arc<WaitingRoom>,
    bytes: u64,
}

impl WaitingRoom {
    /// Takes the memory of a call. One call has room in any case.
    ///
    /// # Errors
    /// There is none; nothing is taken.
    pub(crate) fn take(
        self: &Arc<Self>,
        arguments: &CallArguments,
    ) -> Result<WaitingPlace, RuntimeError> {
        let bytes = CALL_BYTES + bytes_of(arguments);
        let fits = |held: u64| (held == 0 || held + bytes <= self.most).then_some(held + bytes);
        match (self.held).fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) {
            Ok(_) => Ok(WaitingPlace {
                room: Arc::clone(self),
                bytes,
            }),
            Err(held) => Err(RuntimeError::TooManyCalls {
                held,
                most: self.most,
            }),
        }
    }
}

impl Drop for WaitingPlace {
    fn drop(&mut self) {
        self.room.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

fn bytes_of(arguments: &CallArguments) -> u64 {
    match arguments {
        CallArguments::InOrder(terms) => terms.iter().map(term_bytes).sum(),
        CallArguments::ByName(named) => named
            .iter()
            .map(|(name, argument)| {
                let value = match argument {
                    Argument::Term(term) => term_bytes(term),
                    Argument::Text(text) => (size_of::<Term>() + text.len()) as u64,
                };
                value + name.len() as u64
            })
            .sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oxrdf::Literal;

    #[test]
    fn calls_have_room_while_they_fit_and_give_it_back() {
        let room = Arc::new(WaitingRoom {
            held: AtomicU64::new(0),
            most: 3 * CALL_BYTES,
        });
        let long = Literal::from("x".repeat(8 << 10)).into();
        let long = CallArguments::InOrder(vec![long]);
        let alone = room.take(&long).expect("one has room in any case");
        let none = CallArguments::InOrder(Vec::new());
        let full = room.take(&none).expect_err("it is full").to_string();
        assert!(full.contains("wait for their answers"), "{full}");
        drop(alone);
        let three = [(); 3].map(|()| room.take(&none).expect("it fits"));
        assert!(room.take(&none).is_err());
        drop(three);
        assert_eq!(room.held.load(Ordering::Relaxed), 0);
    }
}
