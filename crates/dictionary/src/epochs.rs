//! The progress of the streams with their transient terms: the epochs that have leases, and the
//! terms to examine when an epoch is past.
//!
//! A stream's *floor* is its oldest epoch that still has a lease, or if there is none the next
//! epoch of all. Floors never go back, because a new epoch has a higher number than all before. A
//! term whose last mention is below its stream's floor (below the floors of all streams, if several
//! have mentioned it) is in no slice, no open batch and no push.
//!
//! The one thing to know before changing it: a floor may be lower than it could be, never higher.
//! So it is read before a term's last mention, under this lock; a mention in between has a lease
//! that the floor does not pass.

use crate::transient::{Mentioned, slot_of};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use somersault_model::{Epoch, Lease, StreamUid, TermId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};

/// An epoch ends when this many terms were born in it, or when slices of its stream are retired.
const TERMS_OF_AN_EPOCH: usize = 1 << 13;

/// The epochs that have leases, as files keep them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SavedEpochs {
    /// The number of the next epoch.
    pub next: u64,
    /// The stream and number of each epoch with a lease, ascending.
    pub leased: Vec<(StreamUid, u64)>,
}

/// The epochs of all streams.
#[derive(Default)]
pub(crate) struct Epochs {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next: u64,
    /// By the stream's slot ([`slot_of`]).
    streams: FxHashMap<u64, StreamEpochs>,
    /// The lowest floor of all streams, as of the last request for it.
    all_past: u64,
    /// Terms that several streams have mentioned, by the epoch in which that was last seen.
    several: BTreeMap<u64, Vec<TermId>>,
    /// Terms to be examined.
    due: Vec<Listed>,
    /// Terms that only an answer or an execution held when they were examined, earliest first.
    held: VecDeque<(ReclaimScope, TermId)>,
}

#[derive(Default)]
struct StreamEpochs {
    /// Ascending; the first has a lease.
    epochs: VecDeque<EpochTerms>,
    /// Whether the newest epoch gives no more leases.
    is_ended: bool,
}

struct EpochTerms {
    number: u64,
    leases: Weak<Epoch>,
    /// Terms born in the epoch, or last mentioned in it when they were examined.
    terms: Vec<TermId>,
}

/// The streams whose floor decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReclaimScope {
    Slot(u64),
    Several,
}

struct Listed {
    scope: ReclaimScope,
    terms: Vec<TermId>,
}

/// A portion of terms to examine now.
pub(crate) struct Portion {
    scope: ReclaimScope,
    pub(crate) terms: Vec<TermId>,
    /// The floor of their one stream.
    own_floor: u64,
    /// The lowest floor of all streams.
    all_past: u64,
    alive: Vec<(TermId, Mentioned)>,
    held: Vec<TermId>,
}

impl Portion {
    /// Whether a term that was last mentioned then is past.
    pub(crate) fn is_past(&self, mentioned: Mentioned) -> bool {
        match mentioned {
            Mentioned::ForGood => false,
            Mentioned::ByOne(epoch) => epoch < self.own_floor,
            Mentioned::BySeveral(epoch) => epoch < self.all_past,
        }
    }

    /// Lists a term that is not past, to be examined again when it is.
    pub(crate) fn leave(&mut self, id: TermId, mentioned: Mentioned) {
        self.alive.push((id, mentioned));
    }

    /// Lists a term that is past but still held.
    pub(crate) fn leave_held(&mut self, id: TermId) {
        self.held.push(id);
    }
}

impl Epochs {
    /// A lease for statements of a stream that are read from now on.
    pub(crate) fn lease(&self, stream: StreamUid) -> Lease {
        let mut state = self.state.lock();
        state.settle(slot_of(stream));
        let number = state.next;
        let of_stream = state.streams.entry(slot_of(stream)).or_default();
        if let Some(newest) = of_stream.epochs.back()
            && !of_stream.is_ended
            && newest.terms.len() < TERMS_OF_AN_EPOCH
            && let Some(epoch) = newest.leases.upgrade()
            && epoch.stream() == stream
        {
            return Lease::new(epoch);
        }
        let epoch = Arc::new(Epoch::new(stream, number));
        of_stream.is_ended = false;
        of_stream.epochs.push_back(EpochTerms {
            number,
            leases: Arc::downgrade(&epoch),
            terms: Vec::new(),
        });
        state.next += 1;
        Lease::new(epoch)
    }

    /// Ends the stream's epoch: its next lease belongs to another one.
    pub(crate) fn end_epoch(&self, stream: StreamUid) {
        if let Some(of_stream) = self.state.lock().streams.get_mut(&slot_of(stream)) {
            of_stream.is_ended = true;
        }
    }

    /// Lists new terms that were mentioned under this lease.
    pub(crate) fn list(&self, lease: &Lease, terms: &mut Vec<TermId>) {
        let epoch = lease.epoch();
        let mut state = self.state.lock();
        let listed = state.terms_of(slot_of(epoch.stream()), epoch.number());
        listed
            .expect("an epoch is known as long as it has a lease")
            .append(terms);
    }

    /// Looks for past epochs of every stream.
    pub(crate) fn settle(&self) {
        let mut state = self.state.lock();
        let slots: Vec<u64> = state.streams.keys().copied().collect();
        for slot in slots {
            state.settle(slot);
        }
        let floors = state.streams.values().map(StreamEpochs::floor);
        let all_past = floors.flatten().min().unwrap_or(state.next);
        state.all_past = all_past;
        let later = state.several.split_off(&all_past);
        for terms in std::mem::replace(&mut state.several, later).into_values() {
            let scope = ReclaimScope::Several;
            state.due.push(Listed { scope, terms });
        }
    }

    /// At most `most` terms to examine, if there are any.
    pub(crate) fn take(&self, most: usize) -> Option<Portion> {
        let mut state = self.state.lock();
        let mut listed = state.due.pop()?;
        let portion = state.portion(&mut listed, most);
        if !listed.terms.is_empty() {
            state.due.push(listed);
        }
        Some(portion)
    }

    /// The number of terms that were held when they were examined.
    pub(crate) fn held(&self) -> usize {
        self.state.lock().held.len()
    }

    /// At most `most` of the held terms, the earliest first, if there are any.
    pub(crate) fn take_held(&self, most: usize) -> Option<Portion> {
        let mut state = self.state.lock();
        let (scope, _) = *state.held.front()?;
        let same = state.held.iter().take(most);
        let same = same.take_while(|(other, _)| *other == scope).count();
        let terms = state.held.drain(..same).map(|(_, id)| id).collect();
        let mut listed = Listed { scope, terms };
        Some(state.portion(&mut listed, most))
    }

    /// Lists the terms that are left of a portion.
    pub(crate) fn put_back(&self, portion: Portion) {
        let mut state = self.state.lock();
        let scope = portion.scope;
        let held = portion.held.into_iter().map(|id| (scope, id));
        state.held.extend(held);
        let mut at_once = Vec::new();
        for (id, mentioned) in portion.alive {
            match (mentioned, scope) {
                (Mentioned::ForGood, _) => {}
                (Mentioned::ByOne(epoch), ReclaimScope::Slot(slot)) => {
                    match state.terms_of(slot, epoch) {
                        Some(terms) => terms.push(id),
                        // The epoch is past by now.
                        None => at_once.push(id),
                    }
                }
                (Mentioned::ByOne(epoch) | Mentioned::BySeveral(epoch), _) => {
                    state.several.entry(epoch).or_default().push(id);
                }
            }
        }
        if !at_once.is_empty() {
            let terms = at_once;
            state.due.push(Listed { scope, terms });
        }
    }

    /// The epochs that have leases, and the number of the next one.
    pub(crate) fn export(&self) -> SavedEpochs {
        let state = self.state.lock();
        let epochs = state.streams.values().flat_map(|of| &of.epochs);
        let leased = epochs.filter_map(|epoch| epoch.leases.upgrade());
        let mut leased: Vec<(StreamUid, u64)> = leased
            .map(|epoch| (epoch.stream(), epoch.number()))
            .collect();
        leased.sort_unstable();
        SavedEpochs {
            next: state.next,
            leased,
        }
    }

    /// The leases of exported epochs, in the order of their numbers. They give no further leases.
    /// Nothing else has happened here before.
    pub(crate) fn restore(&mut self, saved: &SavedEpochs) -> Vec<Lease> {
        let state = self.state.get_mut();
        state.next = saved.next;
        let mut by_number = saved.leased.clone();
        by_number.sort_unstable_by_key(|(_, number)| *number);
        let mut leases = Vec::with_capacity(by_number.len());
        for (stream, number) in by_number {
            let epoch = Arc::new(Epoch::new(stream, number));
            let of_stream = state.streams.entry(slot_of(stream)).or_default();
            of_stream.is_ended = true;
            of_stream.epochs.push_back(EpochTerms {
                number,
                leases: Arc::downgrade(&epoch),
                terms: Vec::new(),
            });
            leases.push(Lease::new(epoch));
        }
        leases
    }

    /// Lists a restored term, to be examined when its last mention is past.
    pub(crate) fn list_restored(&mut self, id: TermId, mentioned: Mentioned, slot: u64) {
        let state = self.state.get_mut();
        match mentioned {
            Mentioned::ForGood => {}
            Mentioned::ByOne(epoch) if epoch < state.floor(slot) => {
                let scope = ReclaimScope::Slot(slot);
                let terms = vec![id];
                state.due.push(Listed { scope, terms });
            }
            Mentioned::ByOne(epoch) => {
                let epochs = &mut state.streams.entry(slot).or_default().epochs;
                let at = epochs.binary_search_by_key(&epoch, |epoch| epoch.number);
                let at = at.unwrap_or_else(|at| {
                    // An epoch between two that have leases: the older lease covers it.
                    let terms = EpochTerms {
                        number: epoch,
                        leases: Weak::new(),
                        terms: Vec::new(),
                    };
                    epochs.insert(at, terms);
                    at
                });
                epochs[at].terms.push(id);
            }
            Mentioned::BySeveral(epoch) => state.several.entry(epoch).or_default().push(id),
        }
    }

    /// Memory held, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let state = self.state.lock();
        let epochs = state.streams.values().flat_map(|of| &of.epochs);
        let of_epochs = epochs
            .map(|epoch| size_of::<EpochTerms>() + epoch.terms.capacity() * size_of::<TermId>());
        let several = state.several.values().map(Vec::capacity);
        let due = state.due.iter().map(|listed| listed.terms.capacity());
        of_epochs.sum::<usize>()
            + several.chain(due).sum::<usize>() * size_of::<TermId>()
            + state.held.capacity() * size_of::<(ReclaimScope, TermId)>()
    }
}

impl StreamEpochs {
    fn floor(&self) -> Option<u64> {
        self.epochs.front().map(|epoch| epoch.number)
    }
}

impl State {
    /// Passes the epochs of a stream that have no lease left, up to the first that has one.
    fn settle(&mut self, slot: u64) {
        let Some(of_stream) = self.streams.get_mut(&slot) else {
            return;
        };
        // A lease is made only under this lock or by cloning another one, so a count of none stays
        // none.
        while let Some(oldest) = of_stream.epochs.front()
            && oldest.leases.strong_count() == 0
        {
            let terms = of_stream.epochs.pop_front().map(|epoch| epoch.terms);
            let terms = terms.unwrap_or_default();
            if !terms.is_empty() {
                let scope = ReclaimScope::Slot(slot);
                self.due.push(Listed { scope, terms });
            }
        }
        if of_stream.epochs.is_empty() {
            self.streams.remove(&slot);
        }
    }

    /// Cuts a portion off a list.
    fn portion(&self, listed: &mut Listed, most: usize) -> Portion {
        let terms = match listed.terms.len().saturating_sub(most) {
            0 => std::mem::take(&mut listed.terms),
            rest => listed.terms.split_off(rest),
        };
        Portion {
            scope: listed.scope,
            terms,
            own_floor: match listed.scope {
                ReclaimScope::Several => self.all_past,
                ReclaimScope::Slot(slot) => self.floor(slot),
            },
            all_past: self.all_past,
            alive: Vec::new(),
            held: Vec::new(),
        }
    }

    fn floor(&self, slot: u64) -> u64 {
        let of_stream = self.streams.get(&slot);
        of_stream.and_then(StreamEpochs::floor).unwrap_or(self.next)
    }

    fn terms_of(&mut self, slot: u64, epoch: u64) -> Option<&mut Vec<TermId>> {
        let epochs = &mut self.streams.get_mut(&slot)?.epochs;
        let at = epochs.binary_search_by_key(&epoch, |epoch| epoch.number);
        Some(&mut epochs[at.ok()?].terms)
    }
}
