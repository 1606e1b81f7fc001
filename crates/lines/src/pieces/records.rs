//! Cuts CSV (RFC 4180) at the ends of its records: line ends outside quotes. The fields are read
//! later; this only finds where a record ends, with the same library.

use super::delimiters::Delimiter;
use csv_core::{ReadRecordResult, Reader};

/// Room for parts of fields, which nothing reads.
const FIELD_BYTES: usize = 512;
/// Room for the ends of fields.
const ENDS: usize = 64;

/// The state between two bytes.
#[derive(Debug)]
pub(crate) struct RecordCutter {
    reader: Box<Reader>,
}

impl RecordCutter {
    /// At the beginning of a text.
    pub(crate) fn new() -> RecordCutter {
        RecordCutter {
            reader: Box::new(Reader::new()),
        }
    }

    /// Goes on from `at` to the end of a record, or to the end of the bytes.
    pub(crate) fn next(&mut self, bytes: &[u8], at: &mut usize) -> Option<Delimiter> {
        let (mut fields, mut ends) = ([0; FIELD_BYTES], [0; ENDS]);
        while *at < bytes.len() {
            let rest = &bytes[*at..];
            let (found, read, _, _) = self.reader.read_record(rest, &mut fields, &mut ends);
            *at += read;
            match found {
                ReadRecordResult::Record => return Some(Delimiter::plain(*at..*at)),
                ReadRecordResult::InputEmpty | ReadRecordResult::End => return None,
                ReadRecordResult::OutputFull | ReadRecordResult::OutputEndsFull => {}
            }
        }
        None
    }
}
