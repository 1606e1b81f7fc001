//! The invariant of the dictionary itself, DI-2, checked by walking all of it: each term is found
//! under its id, and the id under the term. It is for dictionaries that were read back from files,
//! whose checksums say only that the files are as they were written.
#![allow(unsafe_code)]

use super::{Dictionary, SHARDS_PER_STRIPE};
use crate::TermPin;
use crate::transient::TransientTerm;
use oxrdf::Term;
use somersault_model::{TermId, VirtualShard};
use std::sync::Arc;

impl Dictionary {
    /// Checks DI-2. Walks the whole dictionary, and decodes every term.
    ///
    /// # Errors
    /// The first term for which the invariant does not hold, in a sentence.
    pub fn check(&self) -> Result<(), String> {
        for (number, stripe) in self.stripes.iter().enumerate() {
            let (mut ids, transient) = (Vec::new(), {
                let writer = stripe.writer.read();
                writer.transient.iter().cloned().collect::<Vec<_>>()
            });
            let expected: u64 = {
                let writer = stripe.writer.read();
                for (_, offset) in writer.slots.entries() {
                    // SAFETY: the offset is in the stripe's table, read under its lock.
                    let stored = unsafe { stripe.arena.read(offset) };
                    let stored = stored.ok_or("a table leads to no term")?;
                    let shard = number * SHARDS_PER_STRIPE + stored.place.shard();
                    let shard = VirtualShard::truncated(shard as u16);
                    let (tag, sequence) = (stored.kind.tag(), stored.place.sequence());
                    ids.push(TermId::in_dictionary(tag, shard, sequence));
                }
                writer.next.iter().sum()
            };
            if ids.len() as u64 != expected {
                return Err(format!(
                    "stripe {number} gave {expected} ids for {} terms",
                    ids.len()
                ));
            }
            ids.into_iter().try_for_each(|id| self.check_term(id))?;
            transient
                .iter()
                .try_for_each(|term| self.check_transient(term))?;
        }
        Ok(())
    }

    fn check_term(&self, id: TermId) -> Result<(), String> {
        let term = self.decoded(id)?;
        match self.lookup(term.as_ref()) {
            Some(found) if found == id => Ok(()),
            found => Err(format!(
                "{term} has the id {id:?} and is found as {found:?}"
            )),
        }
    }

    fn check_transient(&self, transient: &Arc<TransientTerm>) -> Result<(), String> {
        let term = self.decoded(transient.id)?;
        let found = match transient.last_mention.is_permanent() {
            true => self.lookup(term.as_ref()),
            false => self.lookup_held(term.as_ref(), &mut TermPin::default()),
        };
        // One that is past may have been interned again meanwhile.
        match found {
            Some(found) if found == transient.id || !found.is_transient() => Ok(()),
            _ => Err(format!(
                "{term} has the id {:?} and is found as {found:?}",
                transient.id
            )),
        }
    }

    fn decoded(&self, id: TermId) -> Result<Term, String> {
        self.decode(id).ok_or_else(|| format!("{id:?} has no term"))
    }
}
