//! Inline values: a literal comes back in its own spelling, and an id that decodes is the one that its literal gets.
#![no_main]

use libfuzzer_sys::fuzz_target;
use oxrdf::LiteralRef;
use oxrdf::vocab::xsd;
use somersault_model::{TermId, inline};

fuzz_target!(|input: (u64, &str)| {
    let (raw, text) = input;
    let id = TermId::from_raw(raw);
    if let Some(literal) = inline::decode(id) {
        assert_eq!(inline::encode(literal.as_ref()), Some(id), "{literal}");
    }
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
