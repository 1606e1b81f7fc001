//! From one SN's changes to one item per shard: half edges go to the owners of their vertices, each
//! slice whole to one shard (ADR 1).

use super::ahead::Ahead;
use crate::fabric::DueWindows;
use crate::fabric::{AheadWork, Fabric, FabricError, ShardWork, SliceKind, SliceWork};
use somersault_model::{BatchNumber, Millis, Placement, ShardId, Sn, StreamUid};
use somersault_store::ShardBatch;
use somersault_stream::{AmendedBatch, BatchChange, ClosedBatch, Inject, OpenBatch};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// The number of batches of a stream that portions are taken of: statements come into the newest,
/// and of older ones little is missing.
const NEWEST_OPEN: usize = 2;

/// Turns an SN into shard work; holds the batch intervals of the streams.
pub(crate) struct Injection {
    intervals: HashMap<StreamUid, Millis>,
    ahead: Ahead,
    /// The memory of the work of each SN that some shard may not have applied; ascending.
    under_way: VecDeque<(Sn, usize)>,
    /// Their sum.
    bytes: usize,
}

impl Injection {
    /// Work is done ahead in portions of at least `portion` statements.
    pub(crate) fn new(portion: usize) -> Injection {
        Injection {
            intervals: HashMap::new(),
            ahead: Ahead::new(portion),
            under_way: VecDeque::new(),
            bytes: 0,
        }
    }

    pub(crate) fn stream_created(&mut self, stream: StreamUid, batch: Millis) {
        self.intervals.insert(stream, batch);
    }

    /// The stream is gone. Its facts are injected whole, whatever was prepared of them.
    pub(crate) fn stream_dropped(
        &mut self,
        stream: StreamUid,
        fabric: &mut dyn Fabric,
    ) -> Result<(), FabricError> {
        self.intervals.remove(&stream);
        if !self.ahead.forget(stream) {
            return Ok(());
        }
        let shards = Placement::new(fabric.shards()).all();
        fabric.prepare(shards.map(|it| (it, AheadWork::Forget(stream))).collect())
    }

    /// Memory of the work that some shard may not have applied.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Every shard has applied all SNs up to this one.
    pub(crate) fn applied(&mut self, applied: Sn) {
        while let Some((sn, bytes)) = self.under_way.front()
            && *sn <= applied
        {
            self.bytes -= bytes;
            self.under_way.pop_front();
        }
    }

    /// Hands an SN to the shards, with the windows that its firings read, and seals it.
    pub(crate) fn inject(
        &mut self,
        inject: Inject,
        windows: Option<&Arc<DueWindows>>,
        fabric: &mut dyn Fabric,
    ) -> Result<(), FabricError> {
        let sn = inject.sn;
        let loaded: usize = inject.loads.iter().map(|load| size_of_val(&load[..])).sum();
        let placement = Placement::new(fabric.shards());
        let mut ahead = self.ahead.take_closed(&inject, placement);
        let mutations = ahead.rest(&inject.mutations);
        let batches = ShardBatch::split_with_loads(&inject.loads, &mutations, placement);
        let mut work: Vec<ShardWork> = (batches.into_iter().zip(&mut ahead.prepared))
            .map(|(batch, prepared)| ShardWork {
                batch: batch.clearing(&inject.clears),
                prepared: std::mem::take(prepared),
                slices: Vec::new(),
                windows: windows.cloned(),
            })
            .collect();
        for (home, slice) in self.slices(inject.slices, inject.amended, placement) {
            work[usize::from(home.0)].slices.push(slice);
        }
        let items: Vec<(ShardId, ShardWork)> = placement
            .all()
            .zip(work)
            .filter(|(_, work)| !work.is_empty())
            .collect();
        if !items.is_empty() {
            let bytes = loaded + items.iter().map(|(_, work)| work.bytes()).sum::<usize>();
            self.under_way.push_back((sn, bytes));
            self.bytes += bytes;
            fabric.inject(sn, items)?;
        }
        fabric.seal(sn)
    }

    /// The slices to make or change, each with its home shard.
    fn slices(
        &self,
        closed: Vec<ClosedBatch>,
        amended: Vec<AmendedBatch>,
        placement: Placement,
    ) -> impl Iterator<Item = (ShardId, SliceWork)> {
        let closed = closed.into_iter();
        let closed = closed.map(|it| {
            let kind = SliceKind::Whole;
            ((it.stream, it.batch, it.lease), it.statements, kind)
        });
        let amended = amended.into_iter().map(|it| {
            let (statements, kind) = match it.change {
                BatchChange::Late(statements) => (statements, SliceKind::Late),
                BatchChange::Replaced(all) => (all, SliceKind::Replaced),
            };
            ((it.stream, it.batch, it.lease), statements, kind)
        });
        let work = closed.chain(amended);
        work.filter_map(move |((stream, batch, lease), statements, kind)| {
            // The last batches of a stream that has been dropped: no window can ask for them.
            let interval = *self.intervals.get(&stream)?;
            let slice = SliceWork {
                stream,
                batch,
                interval,
                statements,
                lease,
                kind,
            };
            // A batch always has the same home shard, so an amendment comes after the batch.
            Some((home_shard(stream, batch, placement), slice))
        })
    }

    /// Hands what has come into these open batches to the shards, to be prepared.
    pub(crate) fn prepare<'c>(
        &mut self,
        open: impl Iterator<Item = OpenBatch<'c>>,
        fabric: &mut dyn Fabric,
    ) -> Result<(), FabricError> {
        let placement = Placement::new(fabric.shards());
        for batch in open.take(NEWEST_OPEN) {
            if !fabric.takes_portions() {
                break;
            }
            let home = home_shard(batch.stream, batch.batch, placement);
            if let Some(portions) = self.ahead.portions(batch, home, placement) {
                fabric.prepare(portions)?;
            }
        }
        Ok(())
    }
}

/// The shard that builds a slice. It differs from batch to batch, so that one heavy stream keeps
/// all shards busy.
fn home_shard(stream: StreamUid, batch: BatchNumber, placement: Placement) -> ShardId {
    let mixed = (batch.0 as u64)
        .wrapping_add(u64::from(stream.0) << 32)
        .wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ShardId(((mixed >> 32) % u64::from(placement.shards())) as u16)
}
