//! Any bytes as a record of the coordinator's part of a checkpoint: what is read is written and
//! read again as the same, and restoring it alone ends in a sentence.
#![no_main]

use libfuzzer_sys::fuzz_target;
use oxrdf::TermRef;
use somersault_log::LoadSegment;
use somersault_model::{Intern, QuadIds, Tag, TermId, VirtualShard};
use somersault_stream::{
    Coordinator, CoreRecord, LoggedTexts, Resolve, ResolveError, RestoreError,
};
use std::sync::Arc;

/// One term, and no segments.
struct OneTerm;

impl Intern for OneTerm {
    fn intern(&self, _: TermRef<'_>) -> TermId {
        TermId::in_dictionary(Tag::NamedNode, VirtualShard::truncated(0), 0)
    }
}

impl Resolve for OneTerm {
    fn load_segment(&self, segment: &LoadSegment) -> Result<Arc<[QuadIds]>, ResolveError> {
        Err(ResolveError::Segment {
            name: segment.name.clone(),
            reason: "there are no segments".to_owned(),
        })
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
