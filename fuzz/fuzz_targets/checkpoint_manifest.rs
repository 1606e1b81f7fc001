//! Any content as a manifest, in a whole file: a list of files, or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use somersault_checkpoint::{
    FileHeader, FileName, FileWriter, LogOrigin, VerifyDepth, remove_unneeded, whole_checkpoints,
};
use somersault_disk::SimDisk;

fuzz_target!(|content: &[u8]| {
    let (disk, origin) = (SimDisk::new(), LogOrigin::default());
    let header = FileHeader::new(FileName::manifest(1), origin);
    let mut file = FileWriter::create(&disk, &header).expect("the disk has room");
    file.write(content).expect("the disk has room");
    file.finish().expect("the disk has room");
    let found = whole_checkpoints(&disk, origin.log, VerifyDepth::Bytes, 2);
    let found = found.expect("the version is known");
    assert_eq!(found.whole.len() + found.passed_over.len(), 1);
    if let Some(manifest) = found.whole.first() {
        assert!(manifest.files().is_empty(), "there is no other file");
    }
    let removed = remove_unneeded(&disk, &found.whole).expect("the disk works");
    assert_eq!(removed, 0, "the one manifest is kept, or nothing is");
});
