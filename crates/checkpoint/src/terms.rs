//! Files of terms: what [`Dictionary::export`](somersault_dictionary::Dictionary::export) shows, as
//! bytes and back.
//!
//! ```text
//! terms     := first text | number of texts | text* | stripe* | 0
//! text      := text | datatype id (0 if it is none)
//! stripe    := number of the stripe + 1 | number of rows | row*
//!              number of promoted terms | transient*
//! row       := kind + 16 * virtual shard in the stripe u8 | short hash u32 | term
//! transient := id | hash u64 | mention u64 | kind u8 | term
//! term      := number of a shared text? | text, or three ids of a triple term
//!
//! transient terms := next epoch | number of epochs | (stream | epoch)* | next number, 256 times
//!                    (1 | transient)* | 0
//! ```
//! A file of terms holds the rows of a range of stripes; the first file of a checkpoint also holds
//! the shared texts. Readers take the files of all checkpoints in order.
//!
//! Before changing it: a row has no id. Its id follows from the number of rows of its virtual shard
//! before it, in this file and in those of earlier checkpoints.

use crate::container::{FileReader, FileWriter};
use crate::error::CheckpointError;
use somersault_dictionary::{
    Dictionary, DictionaryExport, DictionaryRestore, SavedEpochs, SavedForm, SavedRow, SavedTerm,
    SavedText, SavedTransient,
};
use somersault_model::{StreamUid, TermId};
use std::ops::Range;

/// Bits of a row's first byte that hold the kind.
const KIND_BITS: u32 = 4;

/// The number of transient terms that are written between two pauses.
const TERMS_AT_A_TIME: usize = 512;

/// Writes the permanent terms of these stripes, and the shared texts if the first is among them.
/// Calls `pause` between any two stripes.
///
/// # Errors
/// Those of the disk.
pub fn write_terms(
    file: &mut FileWriter,
    export: &DictionaryExport<'_>,
    stripes: Range<usize>,
    pause: &dyn Fn(),
) -> Result<(), CheckpointError> {
    let texts = export.texts();
    let texts = texts.take(if stripes.start == 0 { usize::MAX } else { 0 });
    file.write_number(export.first_text().into())?;
    file.write_number(texts.len() as u64)?;
    for text in texts {
        file.write_text(text.text)?;
        file.write_id(text.datatype)?;
    }
    for stripe in stripes {
        pause();
        let rows = export.rows(stripe);
        let mut promoted: u64 = 0;
        export.try_each_promoted(stripe, |_| {
            promoted += 1;
            Ok::<(), CheckpointError>(())
        })?;
        if rows.is_empty() && promoted == 0 {
            continue;
        }
        file.write_number(stripe as u64 + 1)?;
        file.write_number(rows.len() as u64)?;
        for row in rows.iter() {
            file.write(&[row.term.kind | row.shard << KIND_BITS])?;
            file.write(&row.short_hash.to_le_bytes())?;
            write_term(file, &row.term)?;
        }
        file.write_number(promoted)?;
        export.try_each_promoted(stripe, |term| write_transient(file, &term))?;
    }
    file.write_number(0)
}

/// Writes the transient terms, and the epochs that have leases. Calls `pause` between any few of
/// them.
///
/// # Errors
/// Those of the disk.
pub fn write_transient_terms(
    file: &mut FileWriter,
    export: &DictionaryExport<'_>,
    pause: &dyn Fn(),
) -> Result<(), CheckpointError> {
    let epochs = export.epochs();
    file.write_number(epochs.next)?;
    file.write_number(epochs.leased.len() as u64)?;
    for (stream, epoch) in &epochs.leased {
        file.write_number(stream.0.into())?;
        file.write_number(*epoch)?;
    }
    for next in export.next_numbers() {
        file.write_number(*next)?;
    }
    let mut written = 0_usize;
    export.try_each_transient(|term| {
        written += 1;
        if written.is_multiple_of(TERMS_AT_A_TIME) {
            pause();
        }
        file.write(&[1])?;
        write_transient(file, &term)
    })?;
    file.write(&[0])
}

fn write_transient(
    file: &mut FileWriter,
    transient: &SavedTransient<'_>,
) -> Result<(), CheckpointError> {
    file.write_id(transient.id)?;
    file.write(&transient.hash.to_le_bytes())?;
    file.write(&transient.mention.to_le_bytes())?;
    file.write(&[transient.term.kind])?;
    write_term(file, &transient.term)
}

fn write_term(file: &mut FileWriter, term: &SavedTerm<'_>) -> Result<(), CheckpointError> {
    match SavedForm::of_kind(term.kind) {
        Some(SavedForm::Parts) => {
            return term
                .parts
                .into_iter()
                .try_for_each(|part| file.write_id(part));
        }
        Some(SavedForm::NumberedText) => file.write_number(term.number.into())?,
        Some(SavedForm::Text) | None => {}
    }
    file.write_text(term.text)
}

/// Reads a file of permanent terms: the texts of all files first, then the rows.
pub struct TermFileReader {
    file: FileReader,
}

impl TermFileReader {
    /// Takes the shared texts of a file.
    ///
    /// # Errors
    /// Damage, which includes texts that do not go on from those before; or IO.
    pub fn open(
        file: FileReader,
        restore: &mut DictionaryRestore,
    ) -> Result<TermFileReader, CheckpointError> {
        let mut reader = TermFileReader { file };
        let mut text = String::new();
        let first: u32 = reader.file.take_small()?;
        let count: u32 = reader.file.take_small()?;
        for at in 0..count {
            text.clear();
            text.push_str(reader.file.take_text()?);
            let datatype = reader.file.take_id()?;
            let text = SavedText {
                text: &text,
                datatype,
            };
            let added = restore.add_text(first.wrapping_add(at), &text);
            added.map_err(|error| reader.file.damaged(error.to_string()))?;
        }
        Ok(reader)
    }

    /// Takes the terms, once the texts of all files have been taken. Files of different stripes may
    /// be read on different threads; those of the same ones are read in order.
    ///
    /// # Errors
    /// Damage, which includes terms that do not fit together, or IO.
    pub fn read_rows(mut self, restore: &DictionaryRestore) -> Result<(), CheckpointError> {
        loop {
            let stripe: usize = self.file.take_small()?;
            let Some(stripe) = stripe.checked_sub(1) else {
                break;
            };
            self.read_stripe(restore, stripe)?;
            for _ in 0..self.file.take_number()? {
                read_transient(&mut self.file, restore)?;
            }
        }
        at_end(&mut self.file)
    }

    fn read_stripe(
        &mut self,
        restore: &DictionaryRestore,
        number: usize,
    ) -> Result<(), CheckpointError> {
        let Some(mut stripe) = restore.stripe(number) else {
            return Err(self.file.damaged(format!("there is no stripe {number}")));
        };
        let rows = self.file.take_number()?;
        stripe.expect(rows);
        for _ in 0..rows {
            let [head] = self.file.take_array()?;
            let row = SavedRow {
                shard: head >> KIND_BITS,
                short_hash: u32::from_le_bytes(self.file.take_array()?),
                term: take_term(&mut self.file, head % (1 << KIND_BITS))?,
            };
            let added = stripe.add(&row);
            added.map_err(|error| self.file.damaged(error.to_string()))?;
        }
        Ok(())
    }
}

/// Reads a file of transient terms; the permanent ones have been read. Returns the epochs that have
/// leases, with which the dictionary is finished.
///
/// # Errors
/// Damage, which includes terms that do not fit together, or IO.
pub fn read_transient_terms(
    mut file: FileReader,
    restore: &DictionaryRestore,
) -> Result<SavedEpochs, CheckpointError> {
    let mut epochs = SavedEpochs {
        next: file.take_number()?,
        leased: Vec::new(),
    };
    for _ in 0..file.take_number()? {
        let stream = StreamUid(file.take_small()?);
        epochs.leased.push((stream, file.take_number()?));
    }
    for stripe in 0..Dictionary::STRIPES {
        let next = file.take_number()?;
        let skipped = restore.skip_numbers(stripe, next);
        skipped.map_err(|error| file.damaged(error.to_string()))?;
    }
    loop {
        match file.take_array()? {
            [0] => break,
            [1] => read_transient(&mut file, restore)?,
            _ => return Err(file.damaged("neither a term nor the end of the terms")),
        }
    }
    at_end(&mut file)?;
    Ok(epochs)
}

fn read_transient(
    file: &mut FileReader,
    restore: &DictionaryRestore,
) -> Result<(), CheckpointError> {
    let id = file.take_id()?;
    let hash = u64::from_le_bytes(file.take_array()?);
    let mention = u64::from_le_bytes(file.take_array()?);
    let [kind] = file.take_array()?;
    let term = SavedTransient {
        id,
        hash,
        mention,
        term: take_term(file, kind)?,
    };
    let added = restore.add_transient(&term);
    added.map_err(|error| file.damaged(error.to_string()))
}

/// Takes a term of this kind, where it lies in the file's block.
fn take_term(file: &mut FileReader, kind: u8) -> Result<SavedTerm<'_>, CheckpointError> {
    let form = SavedForm::of_kind(kind);
    let form = form.ok_or_else(|| file.damaged(format!("there is no kind of term {kind}")))?;
    let (mut number, mut parts) = (0, [TermId::UNBOUND; 3]);
    if form == SavedForm::NumberedText {
        number = file.take_small()?;
    }
    if form == SavedForm::Parts {
        for part in &mut parts {
            *part = file.take_id()?;
        }
    }
    let text = match form {
        SavedForm::Parts => "",
        SavedForm::Text | SavedForm::NumberedText => file.take_text()?,
    };
    Ok(SavedTerm {
        kind,
        number,
        text,
        parts,
    })
}

fn at_end(file: &mut FileReader) -> Result<(), CheckpointError> {
    match file.is_at_end()? {
        true => Ok(()),
        false => Err(file.damaged("content follows its last term")),
    }
}
