//! Content of any length comes back, whatever its pieces, and is read without trusting a length.

use crate::samples::ORIGIN;
use proptest::prelude::*;
use somersault_checkpoint::{
    CheckpointError, FileHeader, FileKind, FileName, FileReader, FileWriter,
};
use somersault_disk::{Disk, SimDisk};

const NAME: FileName = FileName {
    checkpoint: 7,
    kind: FileKind::Core,
    part: 2,
};
const BLOCK: usize = 1 << 20;

fn writer(disk: &SimDisk) -> FileWriter {
    FileWriter::create(disk, &FileHeader::new(NAME, ORIGIN)).unwrap()
}

fn reader(disk: &SimDisk) -> Result<FileReader, CheckpointError> {
    FileReader::open(disk, NAME)
}

/// Bytes that differ from place to place.
fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + at / 251) as u8).collect()
}

#[test]
fn pieces_of_any_length_come_back() {
    let lengths = [
        0,
        1,
        59,
        BLOCK - 61,
        BLOCK,
        BLOCK - 1,
        3 * BLOCK + 5,
        2,
        BLOCK + 1,
    ];
    let disk = SimDisk::new();
    let mut file = writer(&disk);
    for length in lengths {
        file.write(&bytes(length)).unwrap();
    }
    let written = file.finish().unwrap();
    assert_eq!(written.length, disk.length(&NAME.to_string()).unwrap());
    let whole = disk.bytes(&NAME.to_string()).unwrap();
    assert_eq!(written.checksum, crc32c::crc32c(&whole));
    assert_eq!(reader(&disk).unwrap().finish().unwrap(), written);

    let mut file = reader(&disk).unwrap().expecting(written);
    assert_eq!(*file.header(), FileHeader::new(NAME, ORIGIN));
    for length in lengths {
        assert_eq!(file.take(length).unwrap(), bytes(length));
    }
    assert!(file.is_at_end().unwrap() && file.is_at_end().unwrap());
    assert!(file.take(1).is_err(), "its content has ended");
    assert_eq!(file.finish().unwrap(), written);
}

#[test]
fn an_empty_file_is_whole() {
    let disk = SimDisk::new();
    let written = writer(&disk).finish().unwrap();
    assert_eq!(written.length, 60 + 24);
    assert!(reader(&disk).unwrap().is_at_end().unwrap());
}

#[test]
fn a_name_is_given_once() {
    let disk = SimDisk::new();
    writer(&disk).finish().unwrap();
    let again = FileWriter::create(&disk, &FileHeader::new(NAME, ORIGIN));
    assert!(matches!(again, Err(CheckpointError::Io { .. })));
}

#[test]
fn blocks_are_valid_in_their_own_place_alone() {
    let disk = SimDisk::new();
    let mut file = writer(&disk);
    file.write(&bytes(1)).unwrap();
    file.write(&vec![5; 3 * BLOCK - 1]).unwrap();
    file.finish().unwrap();
    let name = NAME.to_string();
    let whole = disk.bytes(&name).unwrap();
    let frame = BLOCK + 8;
    let (second, third) = (60 + frame..60 + 2 * frame, 60 + 2 * frame..60 + 3 * frame);
    let mut swapped = whole.clone();
    swapped[second.clone()].copy_from_slice(&whole[third]);
    disk.plant(&name, swapped);
    assert!(reader(&disk).unwrap().finish().is_err());
    // Of a file with another header it is not valid either.
    let other = FileName { part: 3, ..NAME };
    let mut file = FileWriter::create(&disk, &FileHeader::new(other, ORIGIN)).unwrap();
    file.write(&bytes(1)).unwrap();
    file.write(&vec![5; 3 * BLOCK - 1]).unwrap();
    file.finish().unwrap();
    let mut mixed = whole.clone();
    mixed[second.clone()].copy_from_slice(&disk.bytes(&other.to_string()).unwrap()[second]);
    disk.plant(&name, mixed);
    assert!(reader(&disk).unwrap().finish().is_err());
}

#[test]
fn another_version_is_said_to_be_newer() {
    let disk = SimDisk::new();
    writer(&disk).finish().unwrap();
    let whole = disk.bytes(&NAME.to_string()).unwrap();
    // The version of the container, the kind, the version of the content.
    for at in [8, 12, 16] {
        let mut newer = whole.clone();
        newer[at] = 77;
        let checksum = crc32c::crc32c(&newer[..56]);
        newer[56..60].copy_from_slice(&checksum.to_le_bytes());
        disk.plant(&NAME.to_string(), newer);
        let error = reader(&disk).err().unwrap();
        assert!(matches!(error, CheckpointError::Newer { .. }), "{error}");
        assert!(error.to_string().contains("77"), "{error}");
    }
}

proptest! {
    #[test]
    fn numbers_and_texts_come_back(
        numbers in prop::collection::vec(prop_oneof![any::<u64>(), 0..300u64], 0..50),
        texts in prop::collection::vec(".*", 0..20),
    ) {
        let disk = SimDisk::new();
        let mut file = writer(&disk);
        for number in &numbers {
            file.write_number(*number).unwrap();
        }
        for text in &texts {
            file.write_text(text).unwrap();
        }
        file.finish().unwrap();
        let mut file = reader(&disk).unwrap();
        for number in &numbers {
            prop_assert_eq!(file.take_number().unwrap(), *number);
        }
        for text in &texts {
            prop_assert_eq!(file.take_text().unwrap(), text);
        }
        prop_assert!(file.is_at_end().unwrap());
    }

    #[test]
    fn any_content_is_read_or_refused(content in prop::collection::vec(any::<u8>(), 0..40)) {
        let disk = SimDisk::new();
        let mut file = writer(&disk);
        file.write(&content).unwrap();
        file.finish().unwrap();
        let mut file = reader(&disk).unwrap();
        while !file.is_at_end().unwrap() {
            if file.take_number().is_err() || file.take_text().is_err() {
                break;
            }
        }
    }
}
