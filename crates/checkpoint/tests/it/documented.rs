//! docs/format.md shows the bytes of checkpoint files: here they are made and compared.
//!
//! The page's blocks with the info string `bytes NAME` are read. A line is bytes in hex, then two
//! spaces and an explanation.

use crate::samples::ORIGIN;
use oxrdf::{Literal, NamedNode, Triple};
use somersault_checkpoint::{
    CheckpointTimes, Coverage, FileHeader, FileKind, FileName, FileReader, FileWriter,
    ListFileWriter, NewCheckpoint, PieceRuns, PieceWriter, SavedSlice, SliceWriter, write_terms,
    write_transient_terms,
};
use somersault_dictionary::{Dictionary, DictionaryMark, SavedForm};
use somersault_disk::SimDisk;
use somersault_model::{
    BatchNumber, Direction, EventTime, Millis, Sn, StreamUid, TermId, TimedTriple, TripleIds,
};
use somersault_store::ListKey;
use std::collections::BTreeMap;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/format.md");

/// The bytes of each block of the page, in hex.
fn documented() -> BTreeMap<String, String> {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let blocks = page.split("\n```bytes ").skip(1).map(|block| {
        let (name, rest) = block.split_once('\n').unwrap();
        let (body, _) = rest.split_once("\n```").unwrap();
        let lines = body.lines().map(|line| line.split("  ").next().unwrap());
        (name.to_owned(), lines.collect::<Vec<_>>().join(" "))
    });
    blocks.collect()
}

fn hex(bytes: &[u8]) -> String {
    let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(" ")
}

fn name(kind: FileKind) -> FileName {
    FileName {
        checkpoint: 7,
        kind,
        part: 0,
    }
}

fn file(disk: &SimDisk, kind: FileKind) -> FileWriter {
    FileWriter::create(disk, &FileHeader::new(name(kind), ORIGIN)).unwrap()
}

/// A whole file, with one record.
fn container() -> Vec<u8> {
    let disk = SimDisk::new();
    let mut new = NewCheckpoint::begin(&disk, 7, ORIGIN, (400, Sn(20)), 2);
    let file = new.create(FileKind::Core).unwrap();
    let mut pieces = PieceWriter::new(file, &PieceRuns::default()).unwrap();
    pieces.push_value(&"ok").unwrap();
    pieces.finish(&mut new, Coverage::whole(Sn(20))).unwrap();
    disk.bytes(&name(FileKind::Core).to_string()).unwrap()
}

/// The content of a file.
fn content(disk: &SimDisk, name: FileName) -> Vec<u8> {
    let mut file = FileReader::open(disk, name).unwrap();
    let mut content = Vec::new();
    while !file.is_at_end().unwrap() {
        content.extend_from_slice(file.take(1).unwrap());
    }
    content
}

/// Two pieces of checkpoint 6, of which checkpoint 7 needs the second, and one of its own.
fn pieces() -> Vec<u8> {
    let disk = SimDisk::new();
    let mut runs = PieceRuns::default();
    for (checkpoint, pieces) in [(6, vec!["gone", "kept"]), (7, vec!["kept", "new"])] {
        let at = (400, Sn(20));
        let mut new = NewCheckpoint::begin(&disk, checkpoint, ORIGIN, at, 2);
        let file = new.create(FileKind::Answers).unwrap();
        let mut writer = PieceWriter::new(file, &runs).unwrap();
        for text in pieces {
            let key = text.len() as u128;
            let key = key * 256 + u128::from(text.as_bytes()[0]);
            writer
                .push(Some(key), |file| file.write_text(text))
                .unwrap();
        }
        runs = writer.finish(&mut new, Coverage::whole(Sn(20))).unwrap();
    }
    content(&disk, name(FileKind::Answers))
}

fn manifest() -> Vec<u8> {
    let disk = SimDisk::new();
    let times = CheckpointTimes {
        shown_ms: 2,
        newest_ms: 3,
    };
    let new = NewCheckpoint::begin(&disk, 7, ORIGIN, (400, Sn(20)), 2);
    let mut new = new.at_times(times);
    let file = new.create(FileKind::Core).unwrap();
    new.add(file, Coverage::whole(Sn(20))).unwrap();
    new.commit().unwrap();
    content(&disk, FileName::manifest(7))
}

/// `rdf:type`, a literal with a language, and an IRI that timing statements mentioned first.
fn terms() -> Vec<u8> {
    let (disk, dictionary) = (SimDisk::new(), Dictionary::new());
    let tagged = Literal::new_language_tagged_literal_unchecked("thé", "fr");
    dictionary.intern(tagged.as_ref().into());
    let iri = NamedNode::new_unchecked("urn:ann");
    let lease = dictionary.lease(StreamUid(3));
    dictionary.mention(iri.as_ref().into(), &mut dictionary.mentions(&lease));
    dictionary.intern(iri.as_ref().into());
    let mut file = file(&disk, FileKind::Terms);
    let export = dictionary.export(&DictionaryMark::default());
    write_terms(&mut file, &export, 0..Dictionary::STRIPES, &|| {}).unwrap();
    file.finish().unwrap();
    content(&disk, name(FileKind::Terms))
}

/// A triple term with a part that is transient too. The numbers of the stripes are left out.
fn transient() -> (Vec<u8>, Vec<u8>) {
    let (disk, dictionary) = (SimDisk::new(), Dictionary::new());
    let iri = NamedNode::new_unchecked("urn:ann");
    let triple = Triple::new(iri, oxrdf::vocab::rdf::TYPE, Literal::from(7));
    let lease = dictionary.lease(StreamUid(3));
    let mut mentions = dictionary.mentions(&lease);
    dictionary.mention((&triple).into(), &mut mentions);
    drop(mentions);
    let mut file = file(&disk, FileKind::TransientTerms);
    let export = dictionary.export(&DictionaryMark::default());
    write_transient_terms(&mut file, &export, &|| {}).unwrap();
    file.finish().unwrap();
    let content = content(&disk, name(FileKind::TransientTerms));
    let (epochs, rest) = content.split_at(4);
    (epochs.to_vec(), rest[Dictionary::STRIPES..].to_vec())
}

fn slice() -> Vec<u8> {
    let disk = SimDisk::new();
    let id = |number: u64| TermId::from_raw(1 << 60 | number);
    let statement = |at: i64, object: u64| TimedTriple {
        at: EventTime(at),
        triple: TripleIds::new(id(1), id(2), id(object)),
    };
    let mut new = NewCheckpoint::begin(&disk, 7, ORIGIN, (400, Sn(20)), 2);
    let file = new.create(FileKind::Slices).unwrap();
    let pieces = PieceWriter::new(file, &PieceRuns::default()).unwrap();
    let mut slices = SliceWriter::new(pieces);
    let slice = SavedSlice {
        stream: StreamUid(3),
        batch: BatchNumber(10),
        interval: Millis(100),
        revision: 0,
        epoch: Some(4),
        statements: vec![
            statement(1_000, 5),
            statement(1_010, 6),
            statement(1_010, 6),
        ],
    };
    slices.push(&slice).unwrap();
    let pieces = slices.into_pieces();
    pieces.finish(&mut new, Coverage::whole(Sn(20))).unwrap();
    content(&disk, name(FileKind::Slices))
}

/// Two lists of a group, and one of the other direction that has gone.
fn lists() -> Vec<u8> {
    let disk = SimDisk::new();
    let id = |number: u64| TermId::from_raw(1 << 60 | number);
    let key = |direction, vertex| ListKey {
        direction,
        graph: TermId::DEFAULT_GRAPH,
        predicate: id(2),
        vertex,
    };
    let far = TermId::from_raw(3 << 60 | 5 << 48 | 9);
    let mut lists = ListFileWriter::new(file(&disk, FileKind::Delta));
    let first = key(Direction::Out, id(1));
    lists.push(&first, &[id(5), id(7), id(8)]).unwrap();
    lists
        .push(&key(Direction::Out, id(3)), &[id(5), far])
        .unwrap();
    lists.push(&key(Direction::In, id(8)), &[]).unwrap();
    lists.into_file().finish().unwrap();
    content(&disk, name(FileKind::Delta))
}

#[test]
fn the_page_shows_the_bytes_of_every_kind_of_file() {
    let (epochs, transient) = transient();
    let made = [
        ("container", container()),
        ("pieces", pieces()),
        ("manifest", manifest()),
        ("terms", terms()),
        ("epochs", epochs),
        ("transient", transient),
        ("slice", slice()),
        ("lists", lists()),
    ];
    let made = made.map(|(name, bytes)| (name.to_owned(), hex(&bytes)));
    assert_eq!(documented(), BTreeMap::from(made));
}

#[test]
fn the_page_lists_every_kind_of_file_and_of_term() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let has_row = |row: String| assert!(page.contains(&row), "docs/format.md has no row {row}");
    for kind in FileKind::ALL {
        let name = FileName {
            checkpoint: 7,
            kind,
            part: 0,
        };
        let number = kind.number();
        has_row(format!("| {number} | `{name}` | {} |", kind.version()));
    }
    for kind in 0..9 {
        let form = match SavedForm::of_kind(kind).unwrap() {
            SavedForm::Text => "text",
            SavedForm::NumberedText => "number, text",
            SavedForm::Parts => "parts",
        };
        has_row(format!("| {kind} | {form} |"));
    }
    assert_eq!(SavedForm::of_kind(9), None);
}
