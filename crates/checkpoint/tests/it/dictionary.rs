//! A dictionary through files: the same ids and terms, from any number of files and threads, after
//! any number of checkpoints; and any bytes in place of a file are refused or read.

use crate::samples::ORIGIN;
use oxrdf::{BlankNode, Literal, NamedNode, Term, Triple};
use proptest::prelude::*;
use somersault_checkpoint::{
    FileHeader, FileKind, FileName, FileReader, FileWriter, Manifest, NewCheckpoint,
    TermFileReader, TermRuns, read_transient_terms, remove_unneeded, restore_dictionary,
};
use somersault_dictionary::{Dictionary, DictionaryMark, DictionaryRestore};
use somersault_disk::SimDisk;
use somersault_model::{Sn, StreamUid, TermId};
use std::collections::BTreeMap;

/// A term; some are longer than a block.
fn term(number: u32) -> Term {
    let n = number / 6;
    let name = NamedNode::new_unchecked(format!("http://example.com/things/{n}"));
    match number % 6 {
        0 => name.into(),
        1 => BlankNode::new_unchecked(format!("b{n}")).into(),
        2 if n == 3 => Literal::new_simple_literal("long ".repeat(300_000)).into(),
        2 => Literal::new_simple_literal(format!("a longer text {n}")).into(),
        3 => Literal::new_typed_literal(format!("text {n}"), name).into(),
        4 => Literal::new_language_tagged_literal_unchecked(format!("{n}"), "fr").into(),
        _ => Triple::new(name.clone(), name, term(n % 4)).into(),
    }
}

/// Writes one checkpoint for each part of the terms, in files of this many terms.
fn checkpoints(disk: &SimDisk, dictionary: &Dictionary, each: u64) -> (Manifest, Vec<TermId>) {
    let (mut runs, mut last) = (TermRuns::default(), None);
    let lease = dictionary.lease(StreamUid(1));
    let mut ids = Vec::new();
    for number in 1..=4u32 {
        let mut mentions = dictionary.mentions(&lease);
        ids.extend((0..60).map(|at| {
            let term = term(at * (number + 1));
            match at % 3 {
                0 => dictionary.mention(term.as_ref(), &mut mentions),
                _ => dictionary.intern(term.as_ref()),
            }
        }));
        drop(mentions);
        let mut new = NewCheckpoint::begin(disk, number.into(), ORIGIN, (1, Sn(1)), 1);
        runs = runs.write(&mut new, dictionary, each, Sn(1)).unwrap();
        last = Some(new.commit().unwrap());
    }
    (last.unwrap(), ids)
}

#[test]
fn terms_come_back_from_any_number_of_files_and_threads() {
    for (each, threads) in [(1_000, 1), (20, 2), (1, 4), (0, 1)] {
        let (disk, dictionary) = (SimDisk::new(), Dictionary::new());
        let (manifest, ids) = checkpoints(&disk, &dictionary, each);
        let restored = restore_dictionary(&disk, &manifest, threads).unwrap();
        let (restored, leases) = (restored.dictionary, restored.leases);
        assert!(leases.oldest(StreamUid(1)).is_some() && leases.oldest(StreamUid(9)).is_none());
        assert_eq!(restored.len(), dictionary.len());
        for id in &ids {
            assert_eq!(restored.decode(*id), dictionary.decode(*id));
        }
        for number in 0..3_000 {
            let (term, lease) = (term(number), dictionary.lease(StreamUid(2)));
            let known = dictionary.lookup(term.as_ref());
            assert_eq!(restored.lookup(term.as_ref()), known);
            let id = dictionary.mention(term.as_ref(), &mut dictionary.mentions(&lease));
            let lease = restored.lease(StreamUid(2));
            let again = restored.mention(term.as_ref(), &mut restored.mentions(&lease));
            assert_eq!(again, id, "further ids are the same");
            if number % 2 == 0 {
                let permanent = dictionary.intern(term.as_ref());
                assert_eq!(restored.intern(term.as_ref()), permanent);
            }
        }
    }
}

/// Runs stay few, and terms are written again a few times only.
#[test]
fn runs_of_similar_sizes_are_merged() {
    let (disk, mut dictionary) = (SimDisk::new(), Dictionary::new());
    let (mut runs, mut written, mut most) = (TermRuns::default(), 0, 0);
    let mut kept: Vec<Manifest> = Vec::new();
    for number in 1..=300u32 {
        for at in 0..4 {
            dictionary.intern(term(6 * (number * 4 + at) + 1).as_ref());
        }
        let mut new = NewCheckpoint::begin(&disk, number.into(), ORIGIN, (1, Sn(1)), 1);
        runs = runs.write(&mut new, &dictionary, u64::MAX, Sn(1)).unwrap();
        let manifest = new.commit().unwrap();
        let files: Vec<_> = manifest.files_of(FileKind::Terms).collect();
        most = most.max(files.len());
        let fresh = files
            .iter()
            .filter(|file| file.name.checkpoint == u64::from(number));
        written += fresh.map(|file| file.summary.length).sum::<u64>();
        kept = vec![manifest];
        remove_unneeded(&disk, &kept).unwrap();
        if number == 150 {
            // A restart.
            let restored = restore_dictionary(&disk, &kept[0], 1).unwrap();
            (dictionary, runs) = (restored.dictionary, restored.runs);
        }
    }
    let restored = (restore_dictionary(&disk, &kept[0], 1).unwrap()).dictionary;
    assert_eq!(restored.len(), dictionary.len());
    let once: u64 = {
        let mut new = NewCheckpoint::begin(&disk, 301, ORIGIN, (1, Sn(1)), 1);
        TermRuns::default()
            .write(&mut new, &dictionary, u64::MAX, Sn(1))
            .unwrap();
        let whole = new.commit().unwrap();
        whole
            .files_of(FileKind::Terms)
            .map(|file| file.summary.length)
            .sum()
    };
    assert!(most <= 40, "{most} files");
    assert!(
        written <= 8 * once,
        "{written} bytes were written for {once}"
    );
}

/// The term is permanent in the first checkpoint's file of transient terms alone, which the second
/// one does not carry over.
#[test]
fn a_term_that_becomes_permanent_while_it_is_written_is_in_the_next_checkpoint() {
    let (disk, dictionary) = (SimDisk::new(), Dictionary::new());
    let lease = dictionary.lease(StreamUid(1));
    let passing = dictionary.mention(term(6).as_ref(), &mut dictionary.mentions(&lease));
    let keeps = || assert!(dictionary.make_permanent(passing));
    let mut new = NewCheckpoint::begin(&disk, 1, ORIGIN, (1, Sn(1)), 1).pausing(&keeps);
    (TermRuns::default().write(&mut new, &dictionary, 1_000, Sn(1))).unwrap();
    let first = new.commit().unwrap();
    drop(lease);

    let restored = restore_dictionary(&disk, &first, 1).unwrap();
    assert!(restored.dictionary.is_permanent(passing));
    let mut new = NewCheckpoint::begin(&disk, 2, ORIGIN, (1, Sn(1)), 1);
    (restored
        .runs
        .write(&mut new, &restored.dictionary, 1_000, Sn(1)))
    .unwrap();
    let second = new.commit().unwrap();

    let again = restore_dictionary(&disk, &second, 1).unwrap().dictionary;
    assert_eq!(again.decode(passing), Some(term(6)));
    assert!(again.is_permanent(passing));
}

#[test]
fn nothing_new_makes_no_file_of_terms() {
    let (disk, dictionary) = (SimDisk::new(), Dictionary::new());
    let mut new = NewCheckpoint::begin(&disk, 1, ORIGIN, (1, Sn(1)), 1);
    let runs = TermRuns::default()
        .write(&mut new, &dictionary, 1, Sn(1))
        .unwrap();
    let first = new.commit().unwrap();
    assert_eq!(first.files_of(FileKind::Terms).count(), 1);
    let mut new = NewCheckpoint::begin(&disk, 2, ORIGIN, (1, Sn(1)), 1);
    runs.write(&mut new, &dictionary, 1, Sn(1)).unwrap();
    let second = new.commit().unwrap();
    let names = |manifest: &Manifest| -> Vec<FileName> {
        manifest
            .files_of(FileKind::Terms)
            .map(|file| file.name)
            .collect()
    };
    assert_eq!(names(&second), names(&first));
    restore_dictionary(&disk, &second, 1).unwrap();
    // A dictionary without its terms has no rdf:type either.
    let empty = NewCheckpoint::begin(&disk, 3, ORIGIN, (1, Sn(1)), 1)
        .commit()
        .unwrap();
    assert!(restore_dictionary(&disk, &empty, 1).is_err());
}

/// The content of each kind of file, by kind.
fn contents() -> BTreeMap<FileKind, Vec<u8>> {
    let (disk, dictionary) = (SimDisk::new(), Dictionary::new());
    let lease = dictionary.lease(StreamUid(1));
    let mut mentions = dictionary.mentions(&lease);
    for number in (0..40).filter(|number| *number != 20) {
        match number % 3 {
            0 => dictionary.mention(term(number).as_ref(), &mut mentions),
            _ => dictionary.intern(term(number).as_ref()),
        };
    }
    drop(mentions);
    let mut new = NewCheckpoint::begin(&disk, 1, ORIGIN, (1, Sn(1)), 1);
    TermRuns::default()
        .write(&mut new, &dictionary, u64::MAX, Sn(1))
        .unwrap();
    let manifest = new.commit().unwrap();
    let content = |kind| {
        let mut file = manifest
            .open(&disk, manifest.files_of(kind).next().unwrap())
            .unwrap();
        let mut content = Vec::new();
        while !file.is_at_end().unwrap() {
            content.extend_from_slice(file.take(1).unwrap());
        }
        (kind, content)
    };
    [FileKind::Terms, FileKind::TransientTerms]
        .map(content)
        .into_iter()
        .collect()
}

/// A file with this content.
fn file(disk: &SimDisk, kind: FileKind, content: &[u8]) -> FileReader {
    let name = FileName {
        checkpoint: 1,
        kind,
        part: 0,
    };
    let mut file = FileWriter::create(disk, &FileHeader::new(name, ORIGIN)).unwrap();
    file.write(content).unwrap();
    file.finish().unwrap();
    FileReader::open(disk, name).unwrap()
}

/// Restores what these contents say; all terms of the result can be read.
fn restore(terms: &[u8], transient: &[u8]) -> Option<Dictionary> {
    let disk = SimDisk::new();
    let mut restore = DictionaryRestore::new();
    let reader = TermFileReader::open(file(&disk, FileKind::Terms, terms), &mut restore).ok()?;
    reader.read_rows(&restore).ok()?;
    let transient = file(&disk, FileKind::TransientTerms, transient);
    let epochs = read_transient_terms(transient, &restore).ok()?;
    let (dictionary, _) = restore.finish(&epochs).ok()?;
    let export = dictionary.export(&DictionaryMark::default());
    let seen = export.try_each_transient::<()>(|term| {
        let _ = dictionary.decode(term.id);
        Ok(())
    });
    seen.unwrap();
    Some(dictionary)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn changed_content_is_read_or_refused(
        of_terms in any::<bool>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut contents = contents();
        let kind = if of_terms { FileKind::Terms } else { FileKind::TransientTerms };
        let content = contents.get_mut(&kind).unwrap();
        for (at, byte) in changes {
            let at = at.index(content.len());
            content[at] = byte;
        }
        if let Some(cut) = cut {
            content.truncate(cut.index(content.len()));
        }
        restore(&contents[&FileKind::Terms], &contents[&FileKind::TransientTerms]);
    }
}

#[test]
fn whole_content_is_read() {
    let contents = contents();
    let terms = &contents[&FileKind::Terms];
    let restored = restore(terms, &contents[&FileKind::TransientTerms]).unwrap();
    assert!(restored.len() > 30);
}
