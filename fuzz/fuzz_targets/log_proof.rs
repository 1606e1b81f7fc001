//! Any claims of a proof file, with a right checksum, beside a log of two records: a log that
//! opens holds what the proof asks for.
#![no_main]

use libfuzzer_sys::fuzz_target;
use somersault_disk::SimDisk;
use somersault_log::{Log, LogOptions, PushRecord, Record};
use std::sync::{Arc, LazyLock};

const PROOF: &str = "log.proof";

/// A log that was closed in order.
static WRITTEN: LazyLock<SimDisk> = LazyLock::new(|| {
    let disk = SimDisk::new();
    let (log, recovered) =
        Log::open(Arc::new(disk.clone()), LogOptions::default()).expect("an empty folder opens");
    drop(recovered);
    for seq in 0..2 {
        let record: Record = Record::Push(PushRecord {
            stream: "http://example.org/s".to_owned(),
            source: "a".to_owned(),
            seq: Some(seq),
            received_ms: 0,
            statements: Vec::new(),
        });
        log.append(&record).expect("a record is appended");
    }
    log.close().expect("the log closes");
    disk
});

fuzz_target!(|claims: (u32, u32, u64, u64, u64, u64, u64)| {
    let (version, closed, segment, length, durable, oldest, incarnation) = claims;
    let mut proof = b"SOMERPRF".to_vec();
    proof.extend(version.to_le_bytes());
    proof.extend(closed.to_le_bytes());
    proof.extend([segment, length, durable].map(u64::to_le_bytes).concat());
    if version >= 2 {
        proof.extend(oldest.to_le_bytes());
        let written = WRITTEN.bytes(PROOF).expect("a closed log has a proof");
        proof.extend(&written[48..64]);
        proof.extend(incarnation.to_le_bytes());
    }
    proof.extend(crc32c::crc32c(&proof).to_le_bytes());
    let disk = WRITTEN.copy();
    disk.plant(PROOF, proof);
    let opened = Log::open(Arc::new(disk), LogOptions::default());
    if let Ok((log, recovered)) = opened {
        assert!(version <= 2 && recovered.end().0 >= durable);
        recovered.for_each(|record| drop(record.expect("the records are whole")));
        log.close().expect("the log closes");
    }
});
