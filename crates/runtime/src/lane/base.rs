//! What transactions read: a stable snapshot, and what committed on it since.
//!
//! Before changing anything here: what committed is laid over the snapshot, statement by statement.
//! It must go when a snapshot has it, and before a foreign cut after it is read: that may say
//! otherwise of the same statements.

use somersault_model::{Lease, Sn, StreamUid};
use somersault_query::{Execution, TransactionState, Txn, UpdateKey};
use somersault_store::{Snapshot, Store};
use std::collections::VecDeque;
use std::sync::Arc;

/// The terms that transactions mention are leased under this uid, which no stream has.
const LEASE: StreamUid = StreamUid(u32::MAX);

/// A lease on the terms that transactions mention.
pub(super) fn lease(store: &Store) -> Lease {
    store.dictionary().lease(LEASE)
}

/// Transactions that are in the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drained {
    /// The number of all transactions that the handover has accepted up to these.
    pub(crate) through: u64,
    /// The SN that has their effects.
    pub(crate) sn: Sn,
}

/// The snapshot of a lane, with what committed on it.
pub(super) struct Base {
    store: Arc<Store>,
    /// `None` while nothing is declared and nothing is laid over a snapshot: none is held.
    state: Option<TransactionState>,
    /// The lease of the transactions on this snapshot; `None` until one begins.
    lease: Option<Lease>,
    /// The number of transactions that the handover has accepted.
    accepted: u64,
    /// The number of those that the older layer ends with.
    sealed: Option<u64>,
    drained: VecDeque<Drained>,
    /// The number of those that the snapshot has.
    in_base: u64,
    /// The key of the newest update.
    newest_key: UpdateKey,
}

impl Base {
    pub(super) fn new(store: Arc<Store>) -> Base {
        Base {
            store,
            state: None,
            lease: None,
            accepted: 0,
            sealed: None,
            drained: VecDeque::new(),
            in_base: 0,
            newest_key: UpdateKey {
                base: Sn::ZERO,
                number: 0,
            },
        }
    }

    pub(super) fn state(&mut self) -> &mut TransactionState {
        let store = &self.store;
        self.state
            .get_or_insert_with(|| TransactionState::new(store.pin_stable()))
    }

    /// Begins a transaction.
    pub(super) fn begin(&mut self, execution: Execution) -> Txn<'_> {
        let store = &self.store;
        let lease = self.lease.get_or_insert_with(|| lease(store)).clone();
        self.state().begin(execution, lease)
    }

    /// Lets terms go that nothing but transactions mentioned. To be called where none runs soon.
    pub(super) fn let_terms_go(&mut self) {
        self.lease = None;
    }

    /// The handover has accepted a transaction, whose writes are in the newer layer.
    pub(super) fn accepted(&mut self) {
        self.accepted += 1;
    }

    /// The key of the update that runs next.
    pub(super) fn next_key(&mut self) -> UpdateKey {
        let base = self.state().base().sn();
        let newest = &mut self.newest_key;
        let number = if newest.base == base {
            newest.number
        } else {
            0
        };
        *newest = UpdateKey {
            base,
            number: number + 1,
        };
        *newest
    }

    pub(super) fn drained(&mut self, drained: Drained) {
        match self.state {
            Some(_) => self.drained.push_back(drained),
            // Nothing of it is laid over a snapshot.
            None => self.in_base = drained.through,
        }
    }

    /// Lets the snapshot go if nothing is laid over it. To be called where nothing is declared.
    pub(super) fn forget_if_empty(&mut self) {
        if self.sealed.is_none()
            && self
                .state
                .as_ref()
                .is_some_and(|state| !state.has_unsealed())
        {
            self.state = None;
        }
    }

    /// Whether a snapshot is held.
    pub(super) fn is_held(&self) -> bool {
        self.state.is_some()
    }

    /// Whether there is a newer snapshot to settle on, or the held one has more than was known.
    pub(super) fn lags(&self) -> bool {
        self.state.as_ref().is_some_and(|state| {
            let held = state.base().sn();
            let is_told = self.drained.front().is_some_and(|it| it.sn <= held);
            is_told || held < self.store.snapshots().stable()
        })
    }

    /// The stable snapshot, to settle on; `None` while none is held.
    pub(super) fn pin(&self) -> Option<Snapshot> {
        self.state.as_ref().map(|_| self.store.pin_stable())
    }

    /// Goes to a snapshot. All events that were sent before it was pinned are taken by now.
    pub(super) fn settle_on(&mut self, snapshot: Snapshot) {
        self.let_terms_go();
        let Some(state) = &mut self.state else {
            return;
        };
        while let Some(drained) = self.drained.front()
            && drained.sn <= snapshot.sn()
        {
            self.in_base = drained.through;
            self.drained.pop_front();
        }
        match self.sealed.take_if(|sealed| *sealed <= self.in_base) {
            Some(_) => state.advance(snapshot),
            None => state.rebase(snapshot),
        }
        if self.sealed.is_none() && state.has_unsealed() && state.seal() {
            if self.accepted <= self.in_base {
                // Each newer snapshot has all of them, too.
                state.advance(self.store.pin_stable());
            } else {
                self.sealed = Some(self.accepted);
            }
        }
    }
}
