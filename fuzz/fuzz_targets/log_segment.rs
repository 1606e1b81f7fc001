//! Any bytes as the newest segment of a log: opened or refused, and opened the same a second time.
#![no_main]

use libfuzzer_sys::fuzz_target;
use somersault_disk::SimDisk;
use somersault_log::{Log, LogError, LogOptions};
use std::sync::Arc;

fn open(disk: &SimDisk) -> Result<u64, LogError> {
    let (log, recovered) = Log::open(Arc::new(disk.clone()), LogOptions::default())?;
    let end = recovered.end();
    recovered.for_each(drop);
    log.close()?;
    Ok(end.0)
}

fuzz_target!(|bytes: &[u8]| {
    let disk = SimDisk::new();
    disk.plant("log-0000000001.seg", bytes.to_vec());
    match open(&disk) {
        Ok(records) => assert_eq!(open(&disk).expect("what was opened opens again"), records),
        Err(_) => assert!(disk.bytes("log-0000000001.seg").as_deref() == Some(bytes)),
    }
});
