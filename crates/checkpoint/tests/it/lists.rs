//! Lists come back in order, into a store with any number of shards; and any bytes are read or
//! refused.

use crate::samples::{List, ORIGIN, lists};
use proptest::prelude::*;
use somersault_checkpoint::{
    FileHeader, FileKind, FileName, FileReader, FileWriter, ListFileReader, ListFileWriter,
};
use somersault_disk::SimDisk;
use somersault_model::{Direction, Placement, Sn, TermId};
use somersault_store::{
    ListKey, ListRun, MergedRuns, RestoredLists, RestoredRange, ShardRestore, Store,
};
use std::collections::{BTreeMap, BTreeSet};

fn name(part: u32) -> FileName {
    FileName {
        checkpoint: 1,
        kind: FileKind::Delta,
        part,
    }
}

fn file(disk: &SimDisk, part: u32) -> FileWriter {
    FileWriter::create(disk, &FileHeader::new(name(part), ORIGIN)).unwrap()
}

fn reader(disk: &SimDisk, part: u32) -> ListFileReader {
    ListFileReader::new(FileReader::open(disk, name(part)).unwrap())
}

fn write(disk: &SimDisk, part: u32, lists: &BTreeMap<ListKey, BTreeSet<TermId>>) -> u64 {
    let mut writer = ListFileWriter::new(file(disk, part));
    for (key, members) in lists {
        let members: Vec<TermId> = members.iter().copied().collect();
        writer.push(key, &members).unwrap();
    }
    writer.into_file().finish().unwrap().length
}

fn key() -> impl Strategy<Value = ListKey> {
    let id = || prop_oneof![2 => 0..4u64, 1 => any::<u64>()].prop_map(TermId::from_raw);
    (any::<bool>(), id(), id(), id()).prop_map(|(out, graph, predicate, vertex)| ListKey {
        direction: if out { Direction::Out } else { Direction::In },
        graph,
        predicate,
        vertex,
    })
}

fn members() -> impl Strategy<Value = BTreeSet<TermId>> {
    let id = prop_oneof![0..40u64, any::<u64>()].prop_map(TermId::from_raw);
    prop::collection::btree_set(id, 0..20)
}

proptest! {
    #[test]
    fn lists_come_back(lists in prop::collection::btree_map(key(), members(), 0..40)) {
        let disk = SimDisk::new();
        write(&disk, 0, &lists);
        let read = crate::samples::lists(reader(&disk, 0));
        let lists = lists.into_iter();
        let lists: Vec<List> = lists.map(|(key, ids)| (key, Vec::from_iter(ids))).collect();
        prop_assert_eq!(read.unwrap(), lists);
    }

    #[test]
    fn any_bytes_are_read_in_order_or_refused(
        bytes in prop::collection::vec(prop_oneof![0..4u8, any::<u8>()], 0..120),
    ) {
        let disk = SimDisk::new();
        let mut written = file(&disk, 0);
        written.write(&bytes).unwrap();
        written.finish().unwrap();
        let (mut lists, mut members, mut reader) = (Vec::new(), Vec::new(), reader(&disk, 0));
        while let Ok(Some(key)) = reader.next_list(&mut members) {
            lists.push((key, members.clone()));
        }
        prop_assert!(lists.windows(2).all(|pair| pair[0].0 < pair[1].0));
        for (_, members) in lists {
            prop_assert!(members.windows(2).all(|pair| pair[0] < pair[1]));
        }
    }
}

fn id(tag: u64, number: u64) -> TermId {
    // Spread over the virtual shards.
    TermId::from_raw((tag << 60) | ((number * 257 % 4096) << 48) | (number / 4096))
}

/// The lists of these edges in both directions.
fn lists_of(edges: impl Iterator<Item = [TermId; 3]>) -> BTreeMap<ListKey, BTreeSet<TermId>> {
    let mut lists: BTreeMap<ListKey, BTreeSet<TermId>> = BTreeMap::new();
    for [subject, predicate, object] in edges {
        for (direction, vertex, member) in [
            (Direction::Out, subject, object),
            (Direction::In, object, subject),
        ] {
            let key = ListKey {
                direction,
                graph: TermId::DEFAULT_GRAPH,
                predicate,
                vertex,
            };
            lists.entry(key).or_default().insert(member);
        }
    }
    lists
}

#[test]
fn files_restore_a_store_of_any_number_of_shards() {
    let edges = (0..3_000).map(|n| [id(1, n / 3), id(1, n % 4), id(1, 100 + n % 777)]);
    let image = lists_of(edges);
    // Some lists have changed since, some have gone.
    let mut now = image.clone();
    let mut delta = BTreeMap::new();
    for (key, members) in image.iter().step_by(7) {
        delta.insert(*key, members.clone());
    }
    for (at, (key, members)) in delta.iter_mut().enumerate() {
        members.pop_first();
        if at % 2 == 0 {
            members.insert(id(2, at as u64));
        }
        now.insert(*key, members.clone());
    }
    now.retain(|_, members| !members.is_empty());
    let disk = SimDisk::new();
    let bytes = write(&disk, 0, &image);
    write(&disk, 1, &delta);
    assert!(bytes < 6_000 * 12, "{bytes} bytes for 6,000 half edges");
    for shards in [1, 2, 4] {
        let store = Store::new(shards);
        let mut read = BTreeMap::new();
        for shard in Placement::new(shards).all() {
            let restore = ShardRestore::new(store.take_writer(shard).unwrap(), Sn(5)).unwrap();
            let mut range = RestoredRange::default();
            let runs = vec![vec![reader(&disk, 0), reader(&disk, 1)]];
            let mut base = RestoredLists::base(shard, store.placement(), 0);
            for (key, members) in lists(MergedRuns::new(runs)).unwrap() {
                base.list(key, &members).unwrap();
            }
            range.base.push(base);
            drop(restore.finish(vec![range], 1).unwrap());
        }
        store.snapshots().publish_stable(Sn(5));
        for shard in Placement::new(shards).all() {
            let mut reader = store.lists_at(shard, Sn(5)).unwrap();
            let mut visit = |key: ListKey, members: &[TermId]| {
                let all: &mut BTreeSet<TermId> = read.entry(key).or_default();
                all.extend(members);
            };
            while reader.portion(100, &mut visit) {}
        }
        assert_eq!(read, now, "{shards} shards");
    }
}
