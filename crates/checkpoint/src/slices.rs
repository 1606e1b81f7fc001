//! Slices: closed batches of streams, each with its statements in the order of arrival, so that
//! their times, repeats and order come back. Each is a piece.
//!
//! ```text
//! slice     := stream | batch zigzag | interval | revision | epoch of the lease + 1, or 0
//!              number of statements | statement*                         (all numbers)
//! statement := parts u8 | time zigzag? | subject id? | predicate id? | object id?
//! ```
//! A statement has the parts that differ from the statement before: bits 0 to 3 of `parts` stand
//! for the time (less the time before, modulo 2^64), the subject, the predicate and the object. The
//! parts before the first statement are the start of the batch and the unbound id.

use crate::container::{FileReader, FileWriter};
use crate::error::CheckpointError;
use crate::pieces::{PieceReader, PieceWriter};
use somersault_model::{BatchNumber, EventTime, Millis, StreamUid, TermId, TimedTriple, TripleIds};

const TIME: u8 = 1;
const SUBJECT: u8 = 2;
const PREDICATE: u8 = 4;
const OBJECT: u8 = 8;

/// The most statements for which room is made before they come.
const MOST_EXPECTED: u64 = 1 << 16;

/// A closed batch of one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedSlice {
    /// The stream.
    pub stream: StreamUid,
    /// The batch.
    pub batch: BatchNumber,
    /// The length of the stream's batches.
    pub interval: Millis,
    /// The number of times that late statements have changed the batch.
    pub revision: u32,
    /// The epoch of the lease that keeps the slice's transient terms, if it has any.
    pub epoch: Option<u64>,
    /// The statements in the order of arrival, repeats included.
    pub statements: Vec<TimedTriple>,
}

impl SavedSlice {
    /// The parts to which the first statement is compared.
    fn before_first(&self) -> TimedTriple {
        let none = TermId::UNBOUND;
        TimedTriple {
            at: self.batch.start(self.interval),
            triple: TripleIds::new(none, none, none),
        }
    }
}

/// Writes slices.
pub struct SliceWriter {
    pieces: PieceWriter,
}

impl SliceWriter {
    /// Slices are these pieces.
    #[must_use]
    pub fn new(pieces: PieceWriter) -> SliceWriter {
        SliceWriter { pieces }
    }

    /// Adds a slice.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn push(&mut self, slice: &SavedSlice) -> Result<(), CheckpointError> {
        self.pieces.push(None, |file| write_slice(file, slice))
    }

    /// Adds the slice that has this number in this process: it is written once.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn push_numbered(
        &mut self,
        number: u64,
        slice: impl FnOnce() -> SavedSlice,
    ) -> Result<(), CheckpointError> {
        let write = |file: &mut FileWriter| write_slice(file, &slice());
        self.pieces.push(Some(number.into()), write)
    }

    /// The pieces, to be finished.
    #[must_use]
    pub fn into_pieces(self) -> PieceWriter {
        self.pieces
    }
}

fn write_slice(file: &mut FileWriter, slice: &SavedSlice) -> Result<(), CheckpointError> {
    let epoch = slice.epoch.map_or(0, |epoch| epoch + 1);
    for number in [
        u64::from(slice.stream.0),
        zigzag(slice.batch.0),
        zigzag(slice.interval.0),
        u64::from(slice.revision),
        epoch,
        slice.statements.len() as u64,
    ] {
        file.write_number(number)?;
    }
    let mut before = slice.before_first();
    for statement in &slice.statements {
        write_statement(file, &before, statement)?;
        before = *statement;
    }
    Ok(())
}

fn write_statement(
    file: &mut FileWriter,
    before: &TimedTriple,
    statement: &TimedTriple,
) -> Result<(), CheckpointError> {
    let (triple, last) = (&statement.triple, &before.triple);
    let later = statement.at.0.wrapping_sub(before.at.0);
    let ids = [
        (SUBJECT, triple.subject, last.subject),
        (PREDICATE, triple.predicate, last.predicate),
        (OBJECT, triple.object, last.object),
    ];
    let differ = ids.map(|(part, id, same)| if id == same { 0 } else { part });
    let time = if later == 0 { 0 } else { TIME };
    let parts = differ.into_iter().fold(time, |parts, part| parts | part);
    file.write(&[parts])?;
    if later != 0 {
        file.write_number(zigzag(later))?;
    }
    for (_, id, _) in ids.into_iter().filter(|(_, id, same)| id != same) {
        file.write_id(id)?;
    }
    Ok(())
}

/// Reads slices.
pub struct SliceReader {
    pieces: PieceReader,
}

impl SliceReader {
    /// Slices are these pieces.
    #[must_use]
    pub fn new(pieces: PieceReader) -> SliceReader {
        SliceReader { pieces }
    }

    /// Takes the next slice; `None` at the end of the pieces, which are then checked as a whole.
    ///
    /// # Errors
    /// Damage, or IO.
    pub fn take(&mut self) -> Result<Option<SavedSlice>, CheckpointError> {
        self.pieces.take(take_slice)
    }
}

fn take_slice(file: &mut FileReader) -> Result<SavedSlice, CheckpointError> {
    let mut slice = SavedSlice {
        stream: StreamUid(file.take_small()?),
        batch: BatchNumber(unzigzag(file.take_number()?)),
        interval: Millis(unzigzag(file.take_number()?)),
        revision: file.take_small()?,
        epoch: file.take_number()?.checked_sub(1),
        statements: Vec::new(),
    };
    if slice.interval.0 <= 0 {
        return Err(file.damaged("a batch interval is not above zero"));
    }
    let (start, end) = (
        slice.batch.start(slice.interval),
        slice.batch.end(slice.interval),
    );
    let mut before = slice.before_first();
    let count = file.take_number()?;
    slice.statements.reserve(count.min(MOST_EXPECTED) as usize);
    for _ in 0..count {
        before = take_statement(file, before)?;
        if !(start..end).contains(&before.at) {
            return Err(file.damaged("a statement is not in its batch"));
        }
        slice.statements.push(before);
    }
    Ok(slice)
}

fn take_statement(
    file: &mut FileReader,
    before: TimedTriple,
) -> Result<TimedTriple, CheckpointError> {
    let [parts] = file.take_array()?;
    if parts > TIME | SUBJECT | PREDICATE | OBJECT {
        return Err(file.damaged("a statement has parts of another kind"));
    }
    let mut statement = before;
    if parts & TIME != 0 {
        let later = unzigzag(file.take_number()?);
        statement.at = EventTime(before.at.0.wrapping_add(later));
    }
    for (part, id) in [
        (SUBJECT, &mut statement.triple.subject),
        (PREDICATE, &mut statement.triple.predicate),
        (OBJECT, &mut statement.triple.object),
    ] {
        if parts & part != 0 {
            *id = file.take_id()?;
        }
    }
    Ok(statement)
}

/// 0, -1, 1, -2 become 0, 1, 2, 3.
fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}
