//! Any text as the id of a firing, which clients send as `Last-Event-ID`: what is read is written
//! and read again as the same place. A firing that nothing amended is written without its
//! snapshot number.
#![no_main]

use libfuzzer_sys::fuzz_target;
use somersault::FiringId;

fuzz_target!(|text: &str| {
    if let Ok(id) = text.parse::<FiringId>() {
        let again: FiringId = (id.to_string().parse()).expect("what was written can be read");
        let sn = again.sn;
        assert_eq!(again, FiringId { sn, ..id });
        assert!(sn.is_none() || sn == id.sn);
    }
});
