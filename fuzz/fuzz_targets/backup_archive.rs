//! Any bytes are the archive of a backup or are refused, and what is refused leaves no file.
#![no_main]
use libfuzzer_sys::fuzz_target;
use somersault::disk::SimDisk;
use somersault::folder::receive_backup;

fuzz_target!(|bytes: &[u8]| {
    let disk = SimDisk::new();
    if receive_backup(bytes, &disk).is_err() {
        assert!(disk.names().is_empty(), "{:?}", disk.names());
    }
});
