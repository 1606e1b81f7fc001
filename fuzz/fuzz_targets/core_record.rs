//! Any bytes as a record of the coordinator's part of a checkpoint: what is read is written and
//! read again as the same, and restoring it alone ends in a sentence.
#![no_main]

use libfuzzer_sys::fuzz_target;
use oxrdf::TermRef;
use somersault_model::{Intern, Lease, StreamUid, Tag, TermId, VirtualShard};
use somersault_stream::{Coordinator, CoreRecord, LoggedTexts, RestoreError, RestoredTerms};

/// One term, and no leases.
struct OneTerm;

impl Intern for OneTerm {
    fn intern(&self, _: TermRef<'_>) -> TermId {
        TermId::in_dictionary(Tag::NamedNode, VirtualShard::truncated(0), 0)
    }
}

impl RestoredTerms for OneTerm {
    fn lease_of(&self, _: StreamUid, _: u64) -> Option<Lease> {
        None
    }
}

fuzz_target!(|bytes: &[u8]| {
    if let Ok(record) = CoreRecord::from_bytes(bytes) {
        let again = CoreRecord::from_bytes(&record.to_bytes());
        assert!(again.expect("what was written can be read") == record);
        let records = [Ok::<_, RestoreError>(record)];
        let restored = Coordinator::restore(records, &mut LoggedTexts::new(), &OneTerm);
        assert!(restored.is_err(), "one record is no checkpoint");
    }
});
