//! Records of CSV as Facade-X: a record is a container with a member for each field that is not
//! empty, named by the header. Its values are simple literals.

use super::{FacadeSlot, FacadeTriple, FacadeValue, too_many};
use crate::messages::syntax::Fault;
use csv_core::{ReadRecordResult, Reader};
use std::sync::Arc;

/// The fields of one record.
struct Fields {
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl Fields {
    /// The fields of a text that is one record.
    fn of(record: &[u8]) -> Fields {
        let mut reader = Reader::new();
        // A field is never longer than its text, and a record has a comma between two fields.
        let mut text = vec![0; record.len() + 1];
        let mut ends = vec![0; record.len() + 2];
        let (mut read, mut written, mut count) = (0, 0, 0);
        loop {
            let (found, input, output, ended) =
                reader.read_record(&record[read..], &mut text[written..], &mut ends[count..]);
            read += input;
            written += output;
            count += ended;
            match found {
                // The end of the input is told by an empty one.
                ReadRecordResult::InputEmpty => {}
                _ => break,
            }
        }
        text.truncate(written);
        ends.truncate(count);
        Fields { text, ends }
    }

    fn texts(&self) -> Result<Vec<&str>, Fault> {
        let mut start = 0;
        let texts = self.ends.iter().map(|end| {
            let field = &self.text[start..*end];
            start = *end;
            std::str::from_utf8(field)
                .map_err(|_| Fault::new("the record is no UTF-8; encode the text so"))
        });
        texts.collect()
    }
}

/// The names of the fields.
pub(super) fn header(record: &[u8]) -> Result<Arc<[String]>, Fault> {
    let fields = Fields::of(record);
    let names = fields.texts()?;
    let mut seen = std::collections::BTreeSet::new();
    if let Some(twice) = names.iter().find(|name| !seen.insert(**name)) {
        return Err(Fault::new(format!(
            "the header names the field \"{twice}\" twice; give each field its own name"
        )));
    }
    Ok(names.into_iter().map(str::to_owned).collect())
}

/// Calls `each` with the triples of a record until it says no.
pub(super) fn read(
    record: &[u8],
    header: &[String],
    each: &mut impl FnMut(FacadeTriple<'_>) -> bool,
) -> Result<(), Fault> {
    let fields = Fields::of(record);
    let values = fields.texts()?;
    if values.len() != header.len() {
        return Err(Fault::new(format!(
            "the record has {} fields and the header {}; make them as many",
            values.len(),
            header.len()
        )));
    }
    let root = (FacadeSlot::Type, FacadeValue::RootType);
    let members = header.iter().zip(&values);
    let members = members
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| (FacadeSlot::Member(name), FacadeValue::Text(value)));
    for (slot, value) in std::iter::once(root).chain(members) {
        let container = 0;
        let triple = FacadeTriple {
            container,
            slot,
            value,
        };
        if !each(triple) {
            return Err(too_many());
        }
    }
    Ok(())
}
