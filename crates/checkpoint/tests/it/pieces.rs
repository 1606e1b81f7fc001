//! Pieces against a plain list: whatever comes and goes, a checkpoint reads back as what it was
//! given, each piece is written about once, and files whose pieces are gone are no longer named.

use crate::samples::ORIGIN;
use proptest::prelude::*;
use somersault_checkpoint::{
    Coverage, FileHeader, FileKind, FileName, FileReader, FileWriter, Manifest, NewCheckpoint,
    PieceReader, PieceRuns, PieceWriter, remove_unneeded,
};
use somersault_disk::SimDisk;
use somersault_model::Sn;
use std::collections::BTreeSet;

/// A piece: its number, its length, and whether it has a key.
type Piece = (u64, usize, bool);

fn text((number, length, _): Piece) -> String {
    format!("{number:0>length$}")
}

fn write(disk: &SimDisk, number: u64, pieces: &[Piece], runs: &PieceRuns) -> (Manifest, PieceRuns) {
    let mut new = NewCheckpoint::begin(disk, number, ORIGIN, (number, Sn(number)), 1);
    let file = new.create(FileKind::Core).unwrap();
    let mut writer = PieceWriter::new(file, runs).unwrap();
    for piece in pieces {
        let key = piece.2.then_some(piece.0.into());
        let written = writer.push(key, |file| file.write_text(&text(*piece)));
        written.unwrap();
    }
    let runs = writer
        .finish(&mut new, Coverage::whole(Sn(number)))
        .unwrap();
    (new.commit().unwrap(), runs)
}

fn read(disk: &SimDisk, manifest: &Manifest) -> Result<Vec<String>, String> {
    let own = |file: &&somersault_checkpoint::ListedFile| file.name.checkpoint == manifest.number();
    let own = manifest.files().iter().find(own).unwrap();
    let said = |error: somersault_checkpoint::CheckpointError| error.to_string();
    let mut reader = PieceReader::open(disk, manifest, own).map_err(said)?;
    let mut texts = Vec::new();
    while let Some(text) = reader
        .take(|file| file.take_text().map(str::to_owned))
        .map_err(said)?
    {
        texts.push(text);
    }
    Ok(texts)
}

proptest! {
    #[test]
    fn checkpoints_of_pieces_that_come_go_and_move_read_back(
        rounds in prop::collection::vec(
            (prop::collection::vec((1..60_usize, any::<bool>()), 0..8), any::<u64>(), 0..4_usize, any::<bool>()),
            1..30,
        ),
    ) {
        let disk = SimDisk::new();
        let (mut pieces, mut runs, mut kept) = (Vec::new(), PieceRuns::default(), Vec::new());
        let mut last = 0;
        for (number, (come, seed, go, turns)) in (1..).zip(rounds) {
            for (length, has_key) in come {
                last += 1;
                pieces.push((last, length, has_key));
            }
            for at in 0..go.min(pieces.len()) {
                pieces.remove((seed >> at) as usize % pieces.len());
            }
            if turns && pieces.len() > 2 {
                let middle = seed as usize % pieces.len();
                pieces.rotate_left(middle);
            }
            let (manifest, now) = write(&disk, number, &pieces, &runs);
            runs = now;
            kept.insert(0, (manifest, pieces.clone()));
            kept.truncate(2);
            let manifests: Vec<Manifest> = kept.iter().map(|(manifest, _)| manifest.clone()).collect();
            remove_unneeded(&disk, &manifests).unwrap();
            for (manifest, pieces) in &kept {
                let expected: Vec<String> = pieces.iter().copied().map(text).collect();
                prop_assert_eq!(read(&disk, manifest).unwrap(), expected);
            }
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(prop_oneof![0..4u8, any::<u8>()], 0..60)) {
        let disk = SimDisk::new();
        let name = FileName { checkpoint: 1, kind: FileKind::Core, part: 0 };
        let mut written = FileWriter::create(&disk, &FileHeader::new(name, ORIGIN)).unwrap();
        written.write(&bytes).unwrap();
        written.finish().unwrap();
        let file = FileReader::open(&disk, name).unwrap();
        if let Ok(mut reader) = PieceReader::alone(file) {
            while let Ok(Some(_)) = reader.take(|file| file.take_text().map(str::to_owned)) {}
        }
    }
}

#[test]
fn a_piece_is_written_about_once_and_few_files_are_named() {
    let disk = SimDisk::new();
    let mut runs = PieceRuns::default();
    let (mut written, mut files) = (0, 0);
    // A window of 200 pieces, of which ten come and ten go each time.
    for round in 0..100 {
        let pieces: Vec<Piece> = (10 * round..10 * round + 200)
            .map(|at| (at, 1_000, true))
            .collect();
        let (manifest, now) = write(&disk, round + 1, &pieces, &runs);
        runs = now;
        written += manifest.written_bytes();
        files = files.max(manifest.files().len());
    }
    let once = 1_000 * (200 + 99 * 10);
    assert!(written < 3 * once, "{written} bytes for pieces of {once}");
    assert!(files < 20, "{files} files");
}

#[test]
fn what_a_forgotten_file_holds_is_written_again() {
    let disk = SimDisk::new();
    let pieces: Vec<Piece> = (0..20).map(|at| (at, 100, true)).collect();
    let (first, mut runs) = write(&disk, 1, &pieces, &PieceRuns::default());
    let (second, _) = write(&disk, 2, &pieces, &runs);
    assert_eq!(second.files().len(), 2, "it names the file of the first");
    let name = first.files()[0].name;
    runs.forget(&BTreeSet::from([name]));
    let (third, _) = write(&disk, 3, &pieces, &runs);
    assert_eq!(third.files().len(), 1);
    let mut bytes = disk.bytes(&name.to_string()).unwrap();
    bytes[500] ^= 4;
    disk.plant(&name.to_string(), bytes);
    assert!(
        read(&disk, &second)
            .unwrap_err()
            .contains(&name.to_string())
    );
    assert_eq!(read(&disk, &third).unwrap().len(), 20);
}
