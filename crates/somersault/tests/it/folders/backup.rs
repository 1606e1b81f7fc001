//! Backups of a running engine, and folders restored from them.

use super::{contents, filled, go_on, outcome, report, sound};
use crate::support::scenario::{NS, config};
use somersault::disk::{AlteredDisk, CrashKeep, Disk, RealDisk, SimDisk};
use somersault::folder::{VerifyState, copy_folder, receive_backup, start_branch};
use somersault::{Engine, EngineConfig, EngineError};
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The archive of a backup.
fn archive(engine: &Engine) -> Vec<u8> {
    let mut archive = Vec::new();
    engine.backup().unwrap().write_to(&mut archive).unwrap();
    archive
}

/// A folder with the files of an archive.
fn received(archive: &[u8]) -> SimDisk {
    let disk = SimDisk::new();
    receive_backup(archive, &disk).unwrap();
    disk
}

/// A data folder made from a backup.
fn restored(backup: &SimDisk) -> SimDisk {
    let disk = SimDisk::new();
    let backup: Arc<dyn Disk> = Arc::new(backup.clone());
    copy_folder(&backup, &disk, &mut |_| {
        Err(io::ErrorKind::Unsupported.into())
    })
    .unwrap();
    start_branch(Arc::new(disk.clone())).unwrap();
    sound(&disk);
    disk
}

/// Not even a lock file: nothing writes to a backup.
#[test]
fn a_start_that_is_refused_leaves_nothing_in_a_backup() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Engine::open_on(config(), Arc::new(SimDisk::new())).unwrap();
    let disk = RealDisk::existing(folder.path()).unwrap();
    receive_backup(&archive(&engine)[..], &disk).unwrap();
    let files = || {
        let entries = std::fs::read_dir(folder.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name());
        names.collect::<std::collections::BTreeSet<_>>()
    };
    let before = files();
    let refused = Engine::open_on(config(), Arc::new(disk)).err().unwrap();
    assert!(refused.to_string().contains("is a backup"), "{refused}");
    assert_eq!(files(), before);
}

#[test]
fn a_restored_backup_goes_on_like_the_original() {
    let disk = SimDisk::new();
    let engine = filled(&disk);
    let backup = received(&archive(&engine));
    sound(&backup);
    let written = Engine::open_on(config(), Arc::new(backup.clone())).map(drop);
    let said = written.unwrap_err().to_string();
    assert!(said.contains("somersault restore"), "{said}");
    let at_backup = outcome(&engine);
    go_on(&engine, 3..6);
    let restored = Engine::open_on(config(), Arc::new(restored(&backup))).unwrap();
    assert_eq!(outcome(&restored), at_backup);
    go_on(&restored, 3..6);
    assert_eq!(outcome(&restored), outcome(&engine));
    restored.check().unwrap();
    // The backup is as it was, and can be restored again.
    sound(&backup);
}

#[test]
fn backups_are_sound_while_others_write() {
    let disk = SimDisk::new();
    let engine = filled(&disk);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0.. {
                let text = format!("INSERT DATA {{ <{NS}w> <{NS}n> {number} }}");
                engine.update(&text).run().unwrap();
                if is_over.load(Ordering::SeqCst) {
                    return;
                }
            }
        });
        let mut before = 0;
        for _ in 0..12 {
            let acknowledged = engine.stable();
            let backup = received(&archive(&engine));
            let found = sound(&backup);
            let state = found.state.unwrap();
            assert!(state.sn >= acknowledged, "{state:?}");
            assert!(state.statements >= before);
            before = state.statements;
        }
        is_over.store(true, Ordering::SeqCst);
    });
}

/// Takes some bytes, then the client is gone.
struct Gone(usize);

impl Write for Gone {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.checked_sub(bytes.len()) {
            None => Err(io::ErrorKind::BrokenPipe.into()),
            Some(left) => {
                self.0 = left;
                Ok(bytes.len())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_backup_that_breaks_off_leaves_nothing_that_opens() {
    let disk = SimDisk::new();
    let engine = filled(&disk);
    let whole = archive(&engine);
    for length in (0..whole.len()).step_by(199).chain([whole.len() - 1]) {
        assert!(
            engine
                .backup()
                .unwrap()
                .write_to(&mut Gone(length))
                .is_err()
        );
        let target = SimDisk::new();
        let refused = receive_backup(&whole[..length], &target).unwrap_err();
        assert!(
            matches!(refused, EngineError::Io { .. } | EngineError::Conflict(_)),
            "{refused}"
        );
        assert!(target.names().is_empty(), "{:?}", target.names());
    }
    // The engine goes on, and so do backups.
    sound(&received(&whole));
    sound(&received(&archive(&engine)));
}

#[test]
fn a_copy_that_a_crash_cuts_off_is_refused_by_every_reader() {
    let disk = SimDisk::new();
    let whole = archive(&filled(&disk));
    let syncs = {
        let target = SimDisk::new();
        receive_backup(&whole[..], &target).unwrap();
        target.syncs()
    };
    assert!(syncs > 5);
    for sync in 0..syncs {
        for keep in [
            CrashKeep::Synced,
            CrashKeep::Written,
            CrashKeep::Seeded(sync),
        ] {
            let target = SimDisk::new();
            target.crash_at_sync(sync, keep);
            assert!(receive_backup(&whole[..], &target).is_err());
            let left = target.restarted();
            if left.names().iter().all(|name| name.ends_with(".tmp")) {
                continue;
            }
            let found = report(&left, VerifyState::Yes);
            let is_complete = found.is_sound()
                && found.log.as_ref().map(|log| log.last)
                    == sound(&received(&whole)).log.map(|log| log.last);
            let reading = EngineConfig {
                read_only: true,
                ..config()
            };
            let read = Engine::open_on(reading, Arc::new(left.copy()));
            assert_eq!(read.is_ok(), is_complete, "sync {sync} {keep:?}: {found:?}");
            let written = Engine::open_on(config(), Arc::new(left)).map(drop);
            assert!(matches!(written, Err(EngineError::Conflict(_))));
        }
    }
}

#[test]
fn bytes_that_are_no_backup_are_refused() {
    let disk = SimDisk::new();
    let whole = archive(&filled(&disk));
    let refused = |bytes: &[u8]| {
        let target = SimDisk::new();
        let error = receive_backup(bytes, &target).unwrap_err();
        assert!(target.names().is_empty());
        error.to_string()
    };
    assert!(refused(&[0; 512]).contains("breaks off"));
    assert!(refused(&[7; 2048]).contains("checksum"));
    let renamed = |name: &str| {
        let mut bytes = whole.clone();
        bytes[..100].fill(0);
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        bytes[148..156].fill(b' ');
        let sum: u32 = bytes[..512].iter().map(|byte| u32::from(*byte)).sum();
        bytes[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        bytes
    };
    for name in [
        "../log.proof",
        "/etc/x",
        "a/b",
        "..",
        "x.txt",
        "log.proof.tmp",
    ] {
        let said = refused(&renamed(name));
        assert!(
            said.contains("no plain file") || said.contains("no place"),
            "{name}: {said}"
        );
    }
    let target = SimDisk::new();
    target.plant("mine", Vec::new());
    let said = receive_backup(&whole[..], &target).unwrap_err().to_string();
    assert!(said.contains("not empty"), "{said}");
    assert_eq!(target.names(), ["mine"]);
}

#[test]
fn an_engine_without_a_folder_has_no_backup() {
    let engine = Engine::open(config()).unwrap();
    let refused = engine.backup().map(drop);
    assert!(matches!(refused, Err(EngineError::Conflict(_))));
}

#[test]
fn a_damaged_or_empty_folder_is_not_copied() {
    let disk = SimDisk::new();
    let target = SimDisk::new();
    let copy = |disk: &SimDisk| {
        let disk: Arc<dyn Disk> = Arc::new(disk.clone());
        let mut link = |_: &str| Err(io::ErrorKind::Unsupported.into());
        copy_folder(&disk, &target, &mut link).map(drop)
    };
    assert!(matches!(copy(&disk), Err(EngineError::NotFound(_))));
    filled(&disk).shutdown().unwrap();
    let load = "load-0000000001.nq.zst";
    disk.plant(load, b"other bytes".to_vec());
    let refused = copy(&disk).unwrap_err();
    assert!(
        matches!(refused, EngineError::Damaged { .. }),
        "{refused:?}"
    );
    let said = refused.to_string();
    assert!(said.contains(load) && said.contains("not copied"), "{said}");
    assert!(target.names().is_empty());
}

#[test]
fn a_full_disk_leaves_nothing_of_a_copy() {
    let disk = SimDisk::new();
    let whole = archive(&filled(&disk));
    let target = SimDisk::new();
    target.set_capacity(Some(2_000));
    assert!(receive_backup(&whole[..], &target).is_err());
    assert!(target.names().is_empty());
    let target = SimDisk::new();
    let failing = AlteredDisk::of(&target).with_sync(|_| Err(io::Error::other("broken")));
    assert!(receive_backup(&whole[..], &failing).is_err());
    assert!(contents(&target).is_empty());
}

#[test]
fn a_backup_keeps_its_files_while_checkpoints_go_on() {
    let disk = SimDisk::new();
    filled(&disk).shutdown().unwrap();
    let engine = Engine::open_on(config(), Arc::new(disk.clone())).unwrap();
    let backup = engine.backup().unwrap();
    let held = disk.names();
    for second in 3..6 {
        go_on(&engine, second..second + 1);
        engine.checkpoint().unwrap();
    }
    let names = disk.names();
    let gone = held.iter().filter(|name| !names.contains(name));
    assert_eq!(gone.count(), 0, "{held:?} {names:?}");
    let mut bytes = Vec::new();
    backup.write_to(&mut bytes).unwrap();
    sound(&received(&bytes));
    drop(backup);
    engine.checkpoint().unwrap();
    let names = disk.names();
    assert!(held.iter().any(|name| !names.contains(name)), "{names:?}");
    assert_eq!(sound(&received(&archive(&engine))).checkpoints.len(), 1);
}

#[test]
fn a_restored_folder_takes_checkpoints_of_its_own() {
    let disk = SimDisk::new();
    let engine = filled(&disk);
    engine.checkpoint().unwrap();
    go_on(&engine, 3..4);
    let mut folder = restored(&received(&archive(&engine)));
    for second in 4..7 {
        let copy = Engine::open_on(config(), Arc::new(folder.clone())).unwrap();
        go_on(&copy, second..second + 1);
        go_on(&engine, second..second + 1);
        copy.checkpoint().unwrap();
        assert_eq!(outcome(&copy), outcome(&engine));
        folder = restored(&received(&archive(&copy)));
    }
}

#[test]
fn a_restore_that_a_crash_cuts_off_is_refused_or_done() {
    let disk = SimDisk::new();
    let engine = filled(&disk);
    engine.checkpoint().unwrap();
    let expected = outcome(&engine);
    let backup: Arc<dyn Disk> = Arc::new(received(&archive(&engine)));
    let restore = |target: &SimDisk| {
        let mut link = |_: &str| Err(io::ErrorKind::Unsupported.into());
        copy_folder(&backup, target, &mut link)?;
        start_branch(Arc::new(target.clone()))
    };
    let (mut done, mut refused) = (0, 0);
    for sync in 0.. {
        let target = SimDisk::new();
        target.crash_at_sync(sync, CrashKeep::Seeded(sync));
        if restore(&target).is_ok() {
            break;
        }
        let left = target.restarted();
        if left.names().iter().all(|name| name.ends_with(".tmp")) {
            continue;
        }
        match Engine::open_on(config(), Arc::new(left)) {
            Ok(restored) => {
                assert_eq!(outcome(&restored), expected, "sync {sync}");
                done += 1;
            }
            Err(error) => {
                assert!(error.to_string().contains("somersault restore"), "{error}");
                refused += 1;
            }
        }
    }
    assert!(done > 1 && refused > 10, "{done} {refused}");
}
