//! Any bytes as a log record: what is read is written and read again as the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use somersault_log::Record;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(record) = Record::from_bytes(bytes) {
        let again = record.to_bytes().expect("what was read can be written");
        assert!(Record::from_bytes(&again).expect("what was written can be read") == record);
    }
});
