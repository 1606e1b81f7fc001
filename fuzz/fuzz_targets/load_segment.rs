//! Any bytes as a load segment with a right hash, and any text compressed into one: statements or
//! an error, and the same from both readers of the file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use oxttl::NQuadsParser;
use sha2::{Digest, Sha256};
use somersault_disk::SimDisk;
use somersault_log::{LoadSegment, Log, LogOptions};
use std::io::Read;
use std::sync::Arc;

const NAME: &str = "load-0000000001.nq.zst";

/// The number of statements in a file; `None` if it does not read back.
fn statements(file: Vec<u8>) -> Option<u64> {
    let disk = SimDisk::new();
    let (log, recovered) =
        Log::open(Arc::new(disk.clone()), LogOptions::default()).expect("an empty folder opens");
    drop(recovered);
    let segment = LoadSegment {
        name: NAME.to_owned(),
        hash: Sha256::digest(&file).into(),
        statements: 1,
    };
    disk.plant(NAME, file);
    let mut text = Vec::new();
    let read = log.load_segment_text(&segment).and_then(|mut reader| {
        let limit = 1 << 20;
        let _ = reader.by_ref().take(limit).read_to_end(&mut text);
        log.read_load_segment(&segment)
    });
    let count = read.ok()?.take_while(Result::is_ok).count() as u64;
    log.close().expect("the log closes");
    Some(count)
}

fuzz_target!(|bytes: &[u8]| {
    statements(bytes.to_vec());
    let compressed = zstd::encode_all(bytes, 1).expect("a slice can be compressed");
    let whole = NQuadsParser::new()
        .lenient()
        .for_slice(bytes)
        .take_while(Result::is_ok)
        .count() as u64;
    // A reader stops behind the statements that the log asks for.
    assert!(statements(compressed).is_none_or(|count| count <= whole));
});
