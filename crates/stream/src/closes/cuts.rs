//! The cuts so far: the newest snapshot number, and what becomes visible when one is stable.
//!
//! Before changing anything here: snapshot numbers are dense, and the stable one never goes back
//! (VT-1).

use crate::protocol::firing::Firing;
use somersault_log::PlanRecord;
use somersault_model::{EventTime, Sn, StreamUid};
use std::collections::VecDeque;

/// The cuts, and which of them are not stable yet.
#[derive(Debug)]
pub(crate) struct Cuts {
    last: Sn,
    stable: Sn,
    /// The cuts that are not stable yet, in order.
    pending: VecDeque<Cut>,
}

/// A cut that is not stable yet.
#[derive(Debug)]
pub(crate) struct Cut {
    sn: Sn,
    stream_times: Vec<(StreamUid, EventTime)>,
    firings: Vec<Firing>,
}

impl Cut {
    /// For each stream that it moves on: the end of the last batch that it holds.
    pub(crate) fn stream_times(&self) -> &[(StreamUid, EventTime)] {
        &self.stream_times
    }

    pub(crate) fn into_firings(self) -> Vec<Firing> {
        self.firings
    }
}

impl Default for Cuts {
    fn default() -> Self {
        Cuts {
            last: Sn::ZERO,
            stable: Sn::ZERO,
            pending: VecDeque::new(),
        }
    }
}

impl Cuts {
    /// The cuts up to this SN, which is stable.
    pub(crate) fn restore(sn: Sn) -> Cuts {
        Cuts {
            last: sn,
            stable: sn,
            ..Cuts::default()
        }
    }

    /// The newest SN that was cut.
    pub(crate) fn last(&self) -> Sn {
        self.last
    }

    /// The SN of the next cut.
    pub(crate) fn next(&self) -> Sn {
        self.last.next()
    }

    /// Makes the SN of a plan record the newest one.
    pub(crate) fn begin(&mut self, plan: &PlanRecord) {
        assert!(
            plan.sn == self.last.next(),
            "VT-1: snapshot numbers are dense; SN {} cannot follow SN {}",
            plan.sn,
            self.last
        );
        self.last = plan.sn;
    }

    /// Keeps the firings of a cut, and its streams' times, until it is stable.
    pub(crate) fn end(&mut self, plan: &PlanRecord, firings: Vec<Firing>) {
        self.pending.push_back(Cut {
            sn: plan.sn,
            stream_times: plan.stream_times.clone(),
            firings,
        });
    }

    /// Records that all SNs up to this one are stable.
    pub(crate) fn set_stable(&mut self, sn: Sn) {
        assert!(
            sn >= self.stable && sn <= self.last,
            "VT-1: the stable SN goes on from {} and not past the last cut {}, but came as {sn}",
            self.stable,
            self.last
        );
        self.stable = sn;
    }

    /// Removes and returns the next cut that is stable.
    pub(crate) fn next_stable(&mut self) -> Option<Cut> {
        let is_stable = self
            .pending
            .front()
            .is_some_and(|cut| cut.sn <= self.stable);
        is_stable.then(|| self.pending.pop_front()).flatten()
    }
}
