//! Inline values: any bits decode or do not, and a literal that has an inline form comes back in
//! its own spelling.
#![no_main]

use libfuzzer_sys::fuzz_target;
use oxrdf::LiteralRef;
use oxrdf::vocab::xsd;
use somersault_model::{TermId, inline};

fuzz_target!(|input: (u64, &str)| {
    let (raw, text) = input;
    // Bits that no literal has may decode to something, but not panic.
    let _ = inline::decode(TermId::from_raw(raw));
    for datatype in [
        xsd::STRING,
        xsd::INTEGER,
        xsd::DECIMAL,
        xsd::DOUBLE,
        xsd::FLOAT,
        xsd::BOOLEAN,
        xsd::DATE_TIME,
        xsd::DATE,
        xsd::INT,
        xsd::LONG,
        xsd::UNSIGNED_BYTE,
    ] {
        let literal = LiteralRef::new_typed_literal(text, datatype);
        if let Some(id) = inline::encode(literal) {
            assert_eq!(
                inline::decode(id).as_ref().map(|back| back.as_ref()),
                Some(literal)
            );
        }
    }
});
