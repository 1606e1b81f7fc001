//! The seeded, single-threaded fabric: each step applies the next item of a shard drawn at random,
//! so that shards run ahead of each other in every way that threads could. The same seed gives the
//! same order. Tests use it to show that answers depend on no interleaving of shards (CL-1).

use super::{Apply, Fabric, FabricError, OnApplied, ShardWork};
use somersault_model::{SeededRandom, ShardId, Sn};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// The number of items that one call of `drive` applies at most.
const STEPS_PER_DRIVE: usize = 8;

/// The seeded, single-threaded fabric.
pub struct SimFabric {
    apply: Arc<dyn Apply>,
    on_applied: OnApplied,
    random: SeededRandom,
    /// Per shard: the items that are not applied yet. A sealed SN is an item without work.
    queues: Vec<VecDeque<(Sn, Option<ShardWork>)>>,
    /// Per shard: the SN up to which all are applied.
    applied: Vec<Sn>,
    /// Why it carries nothing more.
    ended: Option<FabricError>,
}

impl SimFabric {
    /// A fabric over `shards` shards that have applied everything up to `from`.
    pub fn start(
        shards: u16,
        from: Sn,
        seed: u64,
        apply: Arc<dyn Apply>,
        on_applied: OnApplied,
    ) -> SimFabric {
        let shards = usize::from(shards.max(1));
        SimFabric {
            apply,
            on_applied,
            random: SeededRandom::new(seed),
            queues: (0..shards).map(|_| VecDeque::new()).collect(),
            applied: vec![from; shards],
            ended: None,
        }
    }

    fn check(&self) -> Result<(), FabricError> {
        self.ended.clone().map_or(Ok(()), Err)
    }

    /// Runs work of a shard. A panic of it ends all shards.
    fn run(&mut self, shard: ShardId, work: impl FnOnce(&dyn Apply)) {
        let apply = &self.apply;
        let work = AssertUnwindSafe(|| work(&**apply));
        if let Err(payload) = catch_unwind(work) {
            let error = FabricError::of_panic(shard, payload.as_ref());
            self.ended.get_or_insert(error);
            self.queues.iter_mut().for_each(VecDeque::clear);
            (self.on_applied)();
        }
    }

    /// Applies one item of a random shard; returns `false` if there is none.
    fn step(&mut self) -> bool {
        let waiting: Vec<usize> = (0..self.queues.len())
            .filter(|shard| !self.queues[*shard].is_empty())
            .collect();
        if waiting.is_empty() {
            return false;
        }
        let shard = waiting[self.random.below(waiting.len() as u64) as usize];
        match self.queues[shard].pop_front() {
            Some((sn, Some(work))) => {
                let shard = ShardId(shard as u16);
                self.run(shard, |apply| apply.apply(shard, sn, work));
            }
            Some((sn, None)) => {
                debug_assert!(self.applied[shard] < sn, "SNs are sealed in order");
                self.applied[shard] = sn;
            }
            None => {}
        }
        true
    }
}

impl Fabric for SimFabric {
    fn shards(&self) -> u16 {
        self.queues.len() as u16
    }

    fn inject(&mut self, sn: Sn, work: Vec<(ShardId, ShardWork)>) -> Result<(), FabricError> {
        self.check()?;
        for (shard, work) in work {
            self.queues[usize::from(shard.0)].push_back((sn, Some(work)));
        }
        Ok(())
    }

    fn seal(&mut self, sn: Sn) -> Result<(), FabricError> {
        self.check()?;
        for queue in &mut self.queues {
            queue.push_back((sn, None));
        }
        // Sometimes a shard goes on at once, sometimes only when all have work.
        for _ in 0..self.random.below(4) {
            self.step();
        }
        Ok(())
    }

    fn applied(&self) -> Result<Sn, FabricError> {
        self.check()?;
        Ok(self.applied.iter().copied().min().unwrap_or_default())
    }

    fn tidy(&mut self) -> Result<(), FabricError> {
        self.check()?;
        for shard in (0..self.shards()).map(ShardId) {
            self.run(shard, |apply| apply.tidy(shard));
        }
        self.check()
    }

    fn drive(&mut self) -> bool {
        let before = self.applied.iter().copied().min();
        let mut more = true;
        for _ in 0..STEPS_PER_DRIVE {
            more = self.step();
            if !more {
                break;
            }
        }
        let applied = self.applied.iter().copied().min();
        if applied != before {
            (self.on_applied)();
            let applied = applied.unwrap_or_default();
            for shard in (0..self.shards()).map(ShardId) {
                self.run(shard, |apply| apply.settle(shard, applied));
            }
        }
        more
    }

    fn stop(&mut self, _deadline: Duration) -> Result<(), FabricError> {
        self.ended.get_or_insert(FabricError::Stopped);
        Ok(())
    }
}
