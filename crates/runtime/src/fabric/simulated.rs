//! The seeded, single-threaded fabric: each step applies the next item of a shard drawn at random,
//! so that shards run ahead of each other in every way that threads could. The same seed gives the
//! same order. Tests use it to show that answers depend on no interleaving of shards (CL-1).

use super::{AheadWork, Apply, Fabric, FabricError, MOST_PORTIONS, OnApplied, ShardWork};
use somersault_model::{SeededRandom, ShardId, Sn};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// The number of items that one call of `drive` applies at most.
const STEPS_PER_DRIVE: usize = 8;

/// An item of a shard.
enum QueuedItem {
    Work(Sn, ShardWork),
    Ahead(AheadWork),
    /// Nothing more comes for the SN.
    Sealed(Sn),
}

/// The seeded, single-threaded fabric.
pub struct SimFabric {
    apply: Arc<dyn Apply>,
    on_applied: OnApplied,
    random: SeededRandom,
    /// Per shard: the items that are not done yet.
    queues: Vec<VecDeque<QueuedItem>>,
    /// The number of items of work ahead among them.
    ahead: usize,
    /// Per shard: the SN up to which all are applied.
    applied: Vec<Sn>,
    /// The SN up to which all shards have settled.
    settled: Sn,
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
            ahead: 0,
            applied: vec![from; shards],
            settled: from,
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
            self.ahead = 0;
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
        let index = waiting[self.random.below(waiting.len() as u64) as usize];
        let shard = ShardId(index as u16);
        match self.queues[index].pop_front() {
            Some(QueuedItem::Work(sn, work)) => {
                self.run(shard, |apply| apply.apply(shard, sn, work))
            }
            Some(QueuedItem::Ahead(work)) => {
                self.ahead -= 1;
                self.run(shard, |apply| apply.prepare(shard, work));
            }
            Some(QueuedItem::Sealed(sn)) => {
                debug_assert!(self.applied[index] < sn, "SNs are sealed in order");
                self.applied[index] = sn;
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
            self.queues[usize::from(shard.0)].push_back(QueuedItem::Work(sn, work));
        }
        Ok(())
    }

    fn takes_portions(&self) -> bool {
        self.ahead < MOST_PORTIONS
    }

    fn prepare(&mut self, work: Vec<(ShardId, AheadWork)>) -> Result<(), FabricError> {
        self.check()?;
        for (shard, work) in work {
            self.ahead += 1;
            self.queues[usize::from(shard.0)].push_back(QueuedItem::Ahead(work));
        }
        Ok(())
    }

    fn seal(&mut self, sn: Sn) -> Result<(), FabricError> {
        self.check()?;
        for queue in &mut self.queues {
            queue.push_back(QueuedItem::Sealed(sn));
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
        }
        // Sealing may have moved it too.
        let applied = applied.unwrap_or_default();
        if applied > self.settled {
            self.settled = applied;
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
