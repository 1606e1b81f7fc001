//! From one SN's changes to one item per shard: half edges go to the owners of their vertices, each
//! slice whole to one shard (ADR 1).

use crate::fabric::DueWindows;
use crate::fabric::{Fabric, FabricError, ShardWork, SliceKind, SliceWork};
use somersault_model::{BatchNumber, Millis, Placement, ShardId, Sn, StreamUid};
use somersault_store::ShardBatch;
use somersault_stream::{BatchChange, Inject};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Turns an SN into shard work; holds the batch intervals of the streams.
#[derive(Default)]
pub(crate) struct Injection {
    intervals: HashMap<StreamUid, Millis>,
    /// The memory of the work of each SN that some shard may not have applied; ascending.
    under_way: VecDeque<(Sn, usize)>,
    /// Their sum.
    bytes: usize,
}

impl Injection {
    pub(crate) fn stream_created(&mut self, stream: StreamUid, batch: Millis) {
        self.intervals.insert(stream, batch);
    }

    pub(crate) fn stream_dropped(&mut self, stream: StreamUid) {
        self.intervals.remove(&stream);
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
        let batches = ShardBatch::split_with_loads(&inject.loads, &inject.mutations, placement);
        let mut work: Vec<ShardWork> = batches
            .into_iter()
            .map(|batch| ShardWork {
                batch: batch.clearing(&inject.clears),
                slices: Vec::new(),
                windows: windows.cloned(),
            })
            .collect();
        let closed = inject.slices.into_iter();
        let closed = closed.map(|it| {
            let kind = SliceKind::Whole;
            ((it.stream, it.batch, it.lease), it.statements, kind)
        });
        let amended = inject.amended.into_iter().map(|it| {
            let (statements, kind) = match it.change {
                BatchChange::Late(statements) => (statements, SliceKind::Late),
                BatchChange::Replaced(all) => (all, SliceKind::Replaced),
            };
            ((it.stream, it.batch, it.lease), statements, kind)
        });
        for ((stream, batch, lease), statements, kind) in closed.chain(amended) {
            // A batch always has the same home shard, so an amendment comes after the batch.
            let home = home_shard(stream, batch, placement);
            // The last batches of a stream that has been dropped: no window can ask for them.
            let Some(interval) = self.intervals.get(&stream) else {
                continue;
            };
            work[usize::from(home.0)].slices.push(SliceWork {
                stream,
                batch,
                interval: *interval,
                statements,
                lease,
                kind,
            });
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
}

/// The shard that builds a slice. It differs from batch to batch, so that one heavy stream keeps
/// all shards busy.
fn home_shard(stream: StreamUid, batch: BatchNumber, placement: Placement) -> ShardId {
    let mixed = (batch.0 as u64)
        .wrapping_add(u64::from(stream.0) << 32)
        .wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ShardId(((mixed >> 32) % u64::from(placement.shards())) as u16)
}
