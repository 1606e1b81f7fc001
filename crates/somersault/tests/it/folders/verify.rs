//! What verifying says of a folder, and that it changes nothing.

use super::{contents, filled, go_on, outcome, report, sound};
use crate::support::scenario::config;
use somersault::disk::{CrashKeep, Disk, SimDisk};
use somersault::folder::{VerifyState, copy_folder, start_branch, verify_folder};
use somersault::{Engine, EngineConfig, EngineError};
use std::sync::Arc;

/// A folder with a file of every kind.
fn closed() -> SimDisk {
    let disk = SimDisk::new();
    let engine = filled(&disk);
    engine.checkpoint().unwrap();
    go_on(&engine, 3..4);
    engine.checkpoint().unwrap();
    go_on(&engine, 4..5);
    engine.shutdown().unwrap();
    disk
}

/// A folder whose log does not begin with its first record any more.
fn trimmed() -> SimDisk {
    let disk = SimDisk::new();
    filled(&disk).shutdown().unwrap();
    for second in 3..7 {
        let engine = Engine::open_on(config(), Arc::new(disk.clone())).unwrap();
        go_on(&engine, second..second + 1);
        engine.checkpoint().unwrap();
        engine.shutdown().unwrap();
    }
    assert!(sound(&disk).log.unwrap().first > 1);
    disk
}

fn manifests(disk: &SimDisk) -> Vec<String> {
    let names = disk.names().into_iter();
    names.filter(|name| name.ends_with(".manifest")).collect()
}

#[test]
fn a_sound_folder_is_read_and_not_changed() {
    let disk = closed();
    let before = contents(&disk);
    let report = sound(&disk);
    assert_eq!(contents(&disk), before);
    let state = report.state.unwrap();
    assert_eq!((state.streams, state.queries), (1, 1));
    let log = report.log.unwrap();
    assert_eq!(report.checkpoints.len(), 2);
    assert!(
        report
            .checkpoints
            .iter()
            .all(|checkpoint| checkpoint.is_whole)
    );
    assert!(log.closed && log.first == 1 && log.last > 5 && log.incarnation == 1);
    let bytes: u64 = before
        .iter()
        .map(|it| it.1.as_ref().unwrap().len() as u64)
        .sum();
    assert_eq!(report.groups.iter().map(|it| it.bytes).sum::<u64>(), bytes);
    assert!(report.notes.is_empty(), "{:?}", report.notes);
}

#[test]
fn a_flipped_byte_of_any_file_is_found_and_named() {
    let disk = closed();
    for (name, bytes) in contents(&disk) {
        let whole = bytes.unwrap();
        if whole.is_empty() {
            continue;
        }
        let mut flipped = whole.clone();
        flipped[whole.len() / 2] ^= 1;
        disk.plant(&name, flipped);
        let found = report(&disk, VerifyState::Yes);
        assert!(!found.is_sound() && found.state.is_none(), "{name}");
        assert!(
            found.damage.iter().any(|it| it.contains(&name)),
            "{name}: {found:?}"
        );
        // A cut file is found too.
        disk.plant(&name, whole[..whole.len() / 2].to_vec());
        let found = report(&disk, VerifyState::No);
        assert!(
            found.damage.iter().any(|it| it.contains(&name)),
            "{name}: {found:?}"
        );
        disk.remove(&name).unwrap();
        let missing = report(&disk, VerifyState::No);
        // The log is complete without its proof, and without checkpoints.
        let is_needed = name != "log.proof" && !name.ends_with(".manifest");
        assert_eq!(missing.is_sound(), !is_needed, "{name}: {missing:?}");
        disk.plant(&name, whole);
    }
    sound(&disk);
}

/// A lost load segment is damage for those starts alone that replay its record.
#[test]
fn a_load_segment_is_needed_by_starts_from_before_it() {
    let load = "load-0000000001.nq.zst";
    let disk = SimDisk::new();
    let engine = filled(&disk);
    let said = |disk: &SimDisk| {
        let disk = disk.copy();
        disk.remove(load).unwrap();
        (report(&disk, VerifyState::No).damage.concat(), disk)
    };
    drop(engine);
    let (damage, _) = said(&disk);
    assert!(
        damage.contains(load) && damage.contains("Restore the file"),
        "{damage}"
    );
    let engine = Engine::open_on(config(), Arc::new(disk.clone())).unwrap();
    engine.checkpoint().unwrap();
    drop(engine);
    let (damage, lost) = said(&disk);
    assert!(damage.contains("no start needs it"), "{damage}");
    assert!(!damage.contains("Restore"), "{damage}");
    let expected = outcome(&Engine::open_on(config(), Arc::new(disk.copy())).unwrap());
    let engine = Engine::open_on(config(), Arc::new(lost)).unwrap();
    assert_eq!(outcome(&engine), expected);
}

#[test]
fn empty_folders_unknown_files_and_leftovers_do_no_harm() {
    let empty = report(&SimDisk::new(), VerifyState::Yes);
    assert!(empty.is_sound() && empty.log.is_none() && empty.state.is_none());
    assert!(empty.notes[0].contains("empty"), "{:?}", empty.notes);
    let disk = closed();
    disk.plant("notes.txt", b"mine".to_vec());
    disk.plant("log-0000000009.seg.torn", b"cut off".to_vec());
    disk.plant("checkpoint-0000000009-0000.core", b"abandoned".to_vec());
    let found = sound(&disk);
    let notes = found.notes.concat();
    for name in [
        "notes.txt",
        "log-0000000009.seg.torn",
        "checkpoint-0000000009-0000.core",
    ] {
        assert!(notes.contains(name), "{notes}");
    }
}

#[test]
fn what_a_killed_copy_leaves_is_left_over() {
    let disk = closed();
    let unfinished = [
        "checkpoint-0000000002-0000.terms.tmp",
        "load-0000000001.nq.zst.tmp",
    ];
    for name in unfinished {
        disk.plant(name, b"cut off".to_vec());
    }
    let notes = sound(&disk).notes.concat();
    assert!(!notes.contains("not of Somersault"), "{notes}");
    assert!(
        unfinished.iter().all(|name| notes.contains(name)),
        "{notes}"
    );
}

#[test]
fn a_folder_that_was_killed_is_sound_and_says_so() {
    let disk = SimDisk::new();
    let engine = filled(&disk);
    let killed = disk.crash(CrashKeep::Written);
    drop(engine);
    assert!(!sound(&killed).log.unwrap().closed);
}

#[test]
fn a_folder_in_use_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let config = EngineConfig {
        data: Some(folder.path().to_owned()),
        ..EngineConfig::default()
    };
    let engine = Engine::open(config).unwrap();
    let verify = || {
        let disk = somersault::disk::RealDisk::existing(folder.path()).unwrap();
        verify_folder(Arc::new(disk), VerifyState::No, &Arc::default())
    };
    assert!(matches!(verify(), Err(EngineError::Conflict(_))));
    engine.shutdown().unwrap();
    drop(engine);
    assert!(verify().unwrap().is_sound());
}

#[test]
fn a_log_that_no_checkpoint_covers_is_damaged() {
    let disk = trimmed();
    let mut manifests = manifests(&disk);
    assert_eq!(manifests.len(), 2);
    disk.remove(&manifests.pop().unwrap()).unwrap();
    sound(&disk);
    disk.remove(&manifests.pop().unwrap()).unwrap();
    let found = report(&disk, VerifyState::Yes);
    assert!(
        found.damage[0].contains("they are lost"),
        "{:?}",
        found.damage
    );
    // The files of the lost manifests are what is missed: verifying does not call them unneeded.
    let notes = found.notes.concat();
    assert!(!notes.contains("needed by nothing"), "{notes}");
    assert!(
        notes.contains(".core") && notes.contains("no manifest"),
        "{notes}"
    );
    let said = Engine::open_on(config(), Arc::new(disk))
        .map(drop)
        .unwrap_err()
        .to_string();
    assert!(said.contains("Restore the folder from a backup"), "{said}");
}

#[test]
fn a_checkpoint_that_the_log_does_not_reach_is_damaged() {
    let (disk, newer) = (closed(), SimDisk::new());
    for (name, bytes) in contents(&disk) {
        newer.plant(&name, bytes.unwrap());
    }
    let engine = Engine::open_on(config(), Arc::new(newer.clone())).unwrap();
    go_on(&engine, 5..6);
    engine.checkpoint().unwrap();
    engine.shutdown().unwrap();
    let added = newer
        .names()
        .into_iter()
        .filter(|name| disk.bytes(name).is_none());
    for name in added.filter(|name| name.starts_with("checkpoint-")) {
        disk.plant(&name, newer.bytes(&name).unwrap());
    }
    let found = report(&disk, VerifyState::Yes);
    assert!(
        found.damage[0].contains("newer than the log"),
        "{:?}",
        found.damage
    );
}

#[test]
fn a_checkpoint_of_another_log_is_damage() {
    let (disk, other) = (closed(), SimDisk::new());
    other.draw_identity().unwrap();
    let engine = filled(&other);
    for _ in 0..3 {
        engine.checkpoint().unwrap();
    }
    engine.shutdown().unwrap();
    let added = other
        .names()
        .into_iter()
        .filter(|name| disk.bytes(name).is_none());
    for name in added {
        disk.plant(&name, other.bytes(&name).unwrap());
    }
    let found = report(&disk, VerifyState::No);
    assert!(
        found.damage.iter().any(|it| it.contains("does not belong")),
        "{:?}",
        found.damage
    );
}

#[test]
fn a_folder_of_version_1_is_sound_and_can_be_restored() {
    let fixture =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/registered-queries");
    let old = SimDisk::new();
    for entry in std::fs::read_dir(fixture).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if name != "LOCK" {
            old.plant(&name, std::fs::read(entry.path()).unwrap());
        }
    }
    let found = sound(&old);
    let log = found.log.unwrap();
    assert_eq!((log.identity, log.incarnation), (None, 0));
    let new = SimDisk::new();
    let from: Arc<dyn Disk> = Arc::new(old);
    copy_folder(&from, &new, &mut |_| {
        Err(std::io::ErrorKind::Unsupported.into())
    })
    .unwrap();
    start_branch(Arc::new(new.clone())).unwrap();
    let restored = sound(&new);
    assert_eq!(
        restored.state.map(|it| it.statements),
        found.state.map(|it| it.statements)
    );
    assert!(restored.log.unwrap().identity.is_some());
}
