//! Firings are released when their SN is stable, and let go of their slices when they are done.
//!
//! Before changing anything here: firings are released in the order in which they became due, hence
//! in close order per query (S5). When they are done follows their pace, and of all that a record
//! causes only [`Output::Retire`] depends on it.

use crate::closes::cuts::Cuts;
use crate::closes::unfinished::UnfinishedFirings;
use crate::output::Output;
use crate::protocol::firing::FiringKey;
use crate::queries::{Delivery, Queries, Replacements};
use crate::streams::home::StreamHome;
use somersault_model::Sn;

/// Releases firings.
pub(super) struct Releaser<'c> {
    pub(super) home: &'c mut StreamHome,
    pub(super) queries: &'c Queries,
    pub(super) cuts: &'c mut Cuts,
    pub(super) unfinished: &'c mut UnfinishedFirings,
    pub(super) replacements: &'c mut Replacements,
    pub(super) out: &'c mut Vec<Output>,
}

impl Releaser<'_> {
    /// Releases the firings of all SNs up to this one, which are stable.
    pub(super) fn release_through(&mut self, sn: Sn) {
        self.cuts.set_stable(sn);
        while let Some(cut) = self.cuts.next_stable() {
            self.home.set_stable(cut.stream_times());
            for firing in cut.into_firings() {
                let delivery = (self.queries).delivery(firing.query, (firing.close, firing.sn));
                let is_done = match delivery {
                    Some(delivery) => delivery == Delivery::Done,
                    // The query was dropped; the last firings of a replaced query still run.
                    None => !self.replacements.is_retiring(firing.query),
                };
                if is_done {
                    let key = firing.key();
                    self.out.push(Output::Cancelled(firing));
                    self.finish(key);
                } else {
                    self.out.push(Output::Fire(firing));
                }
            }
        }
    }

    /// Notes that a firing is done. Returns its SN, or `None` if it was done before.
    pub(super) fn finish(&mut self, key: FiringKey) -> Option<Sn> {
        let (sn, freed) = self.unfinished.finish(key)?;
        self.replacements.note_done(key.query, sn, self.out);
        for stream in freed {
            let first_read = self.unfinished.first_read(stream);
            if let Some(below) = self.home.retire(stream, first_read) {
                self.out.push(Output::Retire { stream, below });
            }
        }
        Some(sn)
    }
}
