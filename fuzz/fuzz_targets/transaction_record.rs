//! Any bytes as records of the transactions' part of a checkpoint: what is read is written and read
//! again as the same, and restoring them ends in a sentence, or in a core that answers and is saved
//! as the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use somersault_txn::{Core, RestoreError, SavedRecord};

fuzz_target!(|bytes: &[u8]| {
    // Each record follows its length in one byte.
    let mut records = Vec::new();
    let mut rest = bytes;
    while let Some((length, after)) = rest.split_first() {
        let (record, next) = after.split_at((*length as usize).min(after.len()));
        if let Ok(record) = SavedRecord::from_bytes(record) {
            let again = SavedRecord::from_bytes(&record.to_bytes());
            assert!(again.expect("what was written can be read") == record);
            records.push(record);
        }
        rest = next;
    }
    let restored = Core::restore::<RestoreError>(records.into_iter().map(Ok));
    if let Ok(core) = restored {
        let _ = core.next();
        let _ = core.advances();
        let again = Core::restore::<RestoreError>(core.freeze().into_iter().map(Ok));
        assert!(again.expect("what was saved is restored").freeze() == core.freeze());
    }
});
