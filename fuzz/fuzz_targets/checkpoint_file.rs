//! Any bytes as a checkpoint file: read to the end or refused, and never taken for a whole file of
//! another summary.
#![no_main]

use libfuzzer_sys::fuzz_target;
use somersault_checkpoint::{FileKind, FileName, FileReader, Manifest};
use somersault_disk::SimDisk;

fuzz_target!(|bytes: &[u8]| {
    for kind in FileKind::ALL {
        let name = FileName {
            checkpoint: 1,
            kind,
            part: 0,
        };
        let disk = SimDisk::new();
        disk.plant(&name.to_string(), bytes.to_vec());
        if let Ok(summary) = FileReader::open(&disk, name).and_then(FileReader::finish) {
            assert_eq!(summary.length, bytes.len() as u64);
            assert_eq!(summary.checksum, crc32c::crc32c(bytes));
        }
        let _ = Manifest::read(&disk, 1);
    }
});
