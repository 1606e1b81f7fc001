//! Any content as files of terms, in whole files: a dictionary whose terms can all be read, or an
//! error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use somersault_checkpoint::{
    CheckpointError, FileHeader, FileKind, FileName, FileReader, FileWriter, LogOrigin,
    TermFileReader, read_transient_terms,
};
use somersault_dictionary::{Dictionary, DictionaryMark, DictionaryRestore};
use somersault_disk::SimDisk;

/// A file with this content.
fn file(disk: &SimDisk, kind: FileKind, content: &[u8]) -> FileReader {
    let name = FileName {
        checkpoint: 1,
        kind,
        part: 0,
    };
    let header = FileHeader::new(name, LogOrigin::default());
    let mut file = FileWriter::create(disk, &header).expect("the disk has room");
    file.write(content).expect("the disk has room");
    file.finish().expect("the disk has room");
    FileReader::open(disk, name).expect("the file is whole")
}

fn restored(terms: &[u8], transient: &[u8]) -> Result<Option<Dictionary>, CheckpointError> {
    let disk = SimDisk::new();
    let mut restore = DictionaryRestore::new();
    let terms = file(&disk, FileKind::Terms, terms);
    TermFileReader::open(terms, &mut restore)?.read_rows(&restore)?;
    let transient = file(&disk, FileKind::TransientTerms, transient);
    let epochs = read_transient_terms(transient, &restore)?;
    Ok(restore
        .finish(&epochs)
        .ok()
        .map(|(dictionary, _)| dictionary))
}

fuzz_target!(|contents: (&[u8], &[u8])| {
    let (terms, transient) = contents;
    let Ok(Some(dictionary)) = restored(terms, transient) else {
        return;
    };
    let export = dictionary.export(&DictionaryMark::default());
    let seen = export.try_each_transient::<()>(|term| {
        assert!(dictionary.decode(term.id).is_some());
        Ok(())
    });
    seen.expect("no term is refused");
    for stripe in 0..Dictionary::STRIPES {
        assert!(export.rows(stripe).iter().count() == export.rows(stripe).len());
    }
});
