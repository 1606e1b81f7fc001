//! A store with its dictionary and slices against its twin that went through a checkpoint: the same
//! content, the invariants hold, and both go on alike, with any number of shards.

use crate::samples::{ORIGIN, lists};
use oxrdf::{Literal, NamedNode, Term};
use somersault_checkpoint::{
    Coverage, FileKind, ListFileReader, ListFileWriter, Manifest, NewCheckpoint, PieceReader,
    PieceRuns, PieceWriter, RestoredDictionary, SavedSlice, SliceReader, SliceWriter, TermRuns,
    restore_dictionary,
};
use somersault_disk::SimDisk;
use somersault_model::{
    BatchNumber, EventTime, Millis, Mutation, SeededRandom, Sn, StreamUid, TermId, TimedTriple,
    TripleIds,
};
use somersault_store::{
    MergedRuns, RestoredLists, RestoredRange, ShardBatch, ShardRestore, ShardWriter, Slice, Store,
};
use std::collections::BTreeMap;
use std::sync::Arc;

const STREAM: StreamUid = StreamUid(4);
const INTERVAL: Millis = Millis(10);
/// The number of batches that windows cover.
const RETAINED: i64 = 6;

/// The stored lists by their keys, and the statements of each batch.
type Shown = (BTreeMap<String, Vec<String>>, Vec<(i64, Vec<String>)>);

struct Process {
    store: Arc<Store>,
    writers: Vec<ShardWriter>,
    sn: Sn,
}

/// A term of which statements have many, or few if the number is high.
fn term(number: u64) -> Term {
    let name = NamedNode::new_unchecked(format!("http://example.com/{number}"));
    match number % 3 {
        0 => Literal::new_typed_literal(format!("text {number}"), name).into(),
        _ => name.into(),
    }
}

fn predicate(number: u64) -> Term {
    NamedNode::new_unchecked(format!("http://example.com/p{number}")).into()
}

impl Process {
    fn new(shards: u16) -> Process {
        Process::of(Store::new(shards), Sn(0))
    }

    fn of(store: Arc<Store>, sn: Sn) -> Process {
        let writers = store.placement().all();
        let writers = writers
            .map(|shard| store.take_writer(shard).unwrap())
            .collect();
        Process { store, writers, sn }
    }

    /// A batch of a stream, of which some statements are absorbed, and an update.
    fn step(&mut self, batch: i64, random: &mut SeededRandom) {
        let dictionary = self.store.dictionary();
        let lease = dictionary.lease(STREAM);
        let mut mentions = dictionary.mentions(&lease);
        let (mut statements, mut changes) = (Vec::new(), Vec::new());
        for at in 0..10 {
            let subject = 1 + 3 * (random.below(20) + batch as u64);
            let object = random.below(400);
            let [subject, predicate, object] =
                [term(subject), predicate(random.below(4)), term(object)]
                    .map(|term| dictionary.mention(term.as_ref(), &mut mentions));
            let triple = TripleIds::new(subject, predicate, object);
            if random.below(3) == 0 {
                let ids = [subject, predicate, object];
                assert!(ids.iter().all(|id| dictionary.make_permanent(*id)));
                changes.push(Mutation::insert(triple.in_graph(TermId::DEFAULT_GRAPH)));
            }
            let start = BatchNumber(batch).start(INTERVAL).0;
            statements.push(TimedTriple {
                at: EventTime(start + at),
                triple,
            });
        }
        drop(mentions);
        let slice = Slice::build(BatchNumber(batch), INTERVAL, 0, &statements);
        self.store
            .slices()
            .insert(STREAM, slice.with_lease(Some(lease)));
        for _ in 0..6 {
            let subject = 1 + 3 * random.below(30);
            let [subject, predicate, object] = [
                term(subject),
                predicate(random.below(4)),
                term(random.below(40)),
            ]
            .map(|term| dictionary.intern(term.as_ref()));
            let quad = TripleIds::new(subject, predicate, object).in_graph(predicate);
            changes.push(match random.below(3) {
                0 => Mutation::delete(quad),
                _ => Mutation::insert(quad),
            });
        }
        self.sn = self.sn.next();
        let parts = ShardBatch::split(&changes, self.store.placement());
        for (writer, part) in self.writers.iter_mut().zip(&parts) {
            writer.apply(self.sn, part).unwrap();
        }
        self.store.snapshots().publish_stable(self.sn);
        self.store.retire(STREAM, BatchNumber(batch - RETAINED));
        self.store.dictionary().tidy(30);
    }

    fn checkpoint(
        &self,
        disk: &SimDisk,
        number: u64,
        (runs, slices): &(TermRuns, PieceRuns),
    ) -> (Manifest, (TermRuns, PieceRuns)) {
        let at = (number, self.sn);
        let mut new = NewCheckpoint::begin(disk, number, ORIGIN, at, self.store.shard_count());
        let placement = self.store.placement();
        for shard in placement.all() {
            let mut file = ListFileWriter::new(new.create(FileKind::Image).unwrap());
            let mut lists = self.store.lists_at(shard, self.sn).unwrap();
            while lists.portion(20, &mut |key, members| file.push(&key, members).unwrap()) {}
            let shards = placement.range_of(shard);
            let coverage = Coverage {
                first_shard: shards.start,
                end_shard: shards.end,
                ..Coverage::whole(self.sn)
            };
            new.add(file.into_file(), coverage).unwrap();
        }
        let file = new.create(FileKind::Slices).unwrap();
        let mut file = SliceWriter::new(PieceWriter::new(file, slices).unwrap());
        let end = BatchNumber(i64::MAX);
        for slice in self.store.slices().slices_at(STREAM, end, self.sn) {
            let saved = || SavedSlice {
                stream: STREAM,
                batch: slice.batch(),
                interval: INTERVAL,
                revision: slice.revision(),
                epoch: slice.lease().map(|lease| lease.epoch().number()),
                statements: slice.in_order_of_arrival(),
            };
            file.push_numbered(slice.number(), saved).unwrap();
        }
        let pieces = file.into_pieces();
        let slices = pieces.finish(&mut new, Coverage::whole(self.sn)).unwrap();
        // After everything that refers to terms.
        let runs = runs
            .write(&mut new, self.store.dictionary(), 100, self.sn)
            .unwrap();
        (new.commit().unwrap(), (runs, slices))
    }

    fn restored(disk: &SimDisk, manifest: &Manifest, shards: u16) -> (Process, TermRuns) {
        let RestoredDictionary {
            dictionary,
            leases,
            runs,
        } = restore_dictionary(disk, manifest, 2).unwrap();
        dictionary.check().unwrap();
        let store = Store::with_dictionary(shards, dictionary);
        for shard in store.placement().all() {
            let writer = store.take_writer(shard).unwrap();
            let restore = ShardRestore::new(writer, manifest.sn()).unwrap();
            let mut range = RestoredRange::default();
            let mut base = RestoredLists::base(shard, store.placement(), 0);
            let images = manifest.files_of(FileKind::Image);
            let image = |file| vec![ListFileReader::new(manifest.open(disk, file).unwrap())];
            for (key, members) in lists(MergedRuns::new(images.map(image).collect())).unwrap() {
                base.list(key, &members).unwrap();
            }
            range.base.push(base);
            drop(restore.finish(vec![range], 1).unwrap());
        }
        store.snapshots().publish_stable(manifest.sn());
        let mut files = manifest.files_of(FileKind::Slices);
        let own = files.find(|file| file.name.checkpoint == manifest.number());
        let pieces = PieceReader::open(disk, manifest, own.unwrap()).unwrap();
        let mut slices = SliceReader::new(pieces);
        while let Some(saved) = slices.take().unwrap() {
            let SavedSlice {
                batch,
                interval,
                revision,
                ..
            } = saved;
            let lease = saved
                .epoch
                .and_then(|epoch| leases.of_epoch(saved.stream, epoch));
            assert_eq!(lease.is_some(), saved.epoch.is_some());
            let slice = Slice::build(batch, interval, revision, &saved.statements);
            let slice = slice.with_lease(lease.cloned());
            store.slices().insert(saved.stream, slice);
        }
        (Process::of(store, manifest.sn()), runs)
    }

    fn decode(&self, id: TermId) -> String {
        match self.store.dictionary().decode(id) {
            Some(term) => term.to_string(),
            None if id == TermId::DEFAULT_GRAPH => "DEFAULT".to_owned(),
            None => panic!("{id:?} has no term"),
        }
    }

    /// Everything that readers see, as terms.
    fn content(&self) -> Shown {
        let mut stored: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for shard in self.store.placement().all() {
            let mut lists = self.store.lists_at(shard, self.sn).unwrap();
            let mut visit = |key: somersault_store::ListKey, members: &[TermId]| {
                let [graph, predicate, vertex] =
                    [key.graph, key.predicate, key.vertex].map(|id| self.decode(id));
                let key = format!("{:?} {graph} {predicate} {vertex}", key.direction);
                let members = members.iter().map(|id| self.decode(*id));
                let all = stored.entry(key).or_default();
                all.extend(members);
                all.sort();
            };
            while lists.portion(100, &mut visit) {}
        }
        let end = BatchNumber(i64::MAX);
        let slices = self.store.slices().slices_at(STREAM, end, self.sn);
        let slices = slices.iter().map(|slice| {
            let statements = slice.in_order_of_arrival();
            let statements = statements.iter().map(|TimedTriple { at, triple }| {
                let ids = [triple.subject, triple.predicate, triple.object];
                format!("{} {:?}", at.0, ids.map(|id| self.decode(id)))
            });
            (slice.batch().0, statements.collect())
        });
        (stored, slices.collect())
    }

    fn reclaim_all(&self) {
        let mut idle = 0;
        while idle < 3 {
            let reclaimed = self.store.dictionary().tidy(1_000);
            idle = if reclaimed > 0 { 0 } else { idle + 1 };
        }
    }
}

#[test]
fn a_store_goes_on_from_a_checkpoint_like_its_twin() {
    for (seed, shards, later) in [(1, 1, 4), (2, 2, 2), (3, 4, 1)] {
        let (disk, mut random) = (SimDisk::new(), SeededRandom::new(seed));
        let (mut twin, mut runs) = (Process::new(shards), Default::default());
        let mut last = None;
        for batch in 0..40 {
            twin.step(batch, &mut random);
            if batch % 9 == 3 {
                let number = batch as u64;
                let (manifest, now) = twin.checkpoint(&disk, number, &runs);
                (last, runs) = (Some((batch, manifest, random.clone(), twin.content())), now);
            }
        }
        // The process ends here, and another one goes on from the newest checkpoint.
        let (saved, manifest, mut random, content) = last.unwrap();
        let (mut restored, terms) = Process::restored(&disk, &manifest, later);
        restored.store.check().unwrap();
        assert_eq!(restored.content(), content, "seed {seed}");
        let mut runs = (terms, PieceRuns::default());
        for batch in saved + 1..40 {
            restored.step(batch, &mut random);
        }
        assert_eq!(
            restored.content(),
            twin.content(),
            "seed {seed}, after replay"
        );
        let mut random_after = random.clone();
        // It writes checkpoints itself, and terms go once nothing holds them.
        for round in 0..3 {
            let (manifest, now) = restored.checkpoint(&disk, 100 + round, &runs);
            runs = now;
            let (again, _) = Process::restored(&disk, &manifest, shards);
            again.store.check().unwrap();
            assert_eq!(again.content(), restored.content());
            restored.step(40 + round as i64, &mut random);
        }
        for batch in 40..43 {
            twin.step(batch, &mut random_after);
        }
        for process in [&twin, &restored] {
            process.store.retire(STREAM, BatchNumber(i64::MAX));
            process.reclaim_all();
            process.store.check().unwrap();
            process.store.dictionary().check().unwrap();
        }
        // Only permanent terms are left, which follow from what was done.
        let [twin, restored] = [&twin, &restored].map(|it| it.store.dictionary().len());
        assert_eq!(restored, twin);
    }
}
