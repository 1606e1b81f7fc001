//! Space that is set aside: it is there when the disk is full, and shows in nothing else.

use somersault_disk::{Disk, RealDisk, SimDisk};
use std::io::{ErrorKind, Read as _};

#[test]
fn what_was_set_aside_can_be_written_on_a_full_disk() {
    let disk = SimDisk::new();
    let mut file = disk.create("a").unwrap();
    file.append(b"12345").unwrap();
    assert!(file.reserve(20).unwrap());
    assert_eq!((disk.length("a").unwrap(), disk.space()), (5, 20));
    disk.set_capacity(Some(20));
    let mut other = disk.create("b").unwrap();
    assert_eq!(
        other.append(b"x").unwrap_err().kind(),
        ErrorKind::StorageFull
    );
    assert_eq!(other.reserve(1).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(file.reserve(21).unwrap_err().kind(), ErrorKind::StorageFull);
    file.append(&[b'x'; 15]).unwrap();
    assert_eq!(
        file.append(b"x").unwrap_err().kind(),
        ErrorKind::StorageFull
    );
    assert_eq!(disk.length("a").unwrap(), 20);
    // A file that goes gives its space back, and so does one that is cut.
    file.truncate(4).unwrap();
    assert_eq!(disk.space(), 4);
    other.append(b"x").unwrap();
    disk.remove("a").unwrap();
    assert_eq!(disk.space(), 1);
}

#[test]
fn truncating_gives_back_what_was_set_aside() {
    let disk = SimDisk::new();
    let mut file = disk.create("a").unwrap();
    file.append(b"12345").unwrap();
    file.reserve(100).unwrap();
    file.truncate(5).unwrap();
    assert_eq!((disk.length("a").unwrap(), disk.space()), (5, 5));
}

#[test]
fn a_real_file_keeps_its_length_and_contents() {
    let folder = tempfile::tempdir().unwrap();
    let disk = RealDisk::new(folder.path()).unwrap();
    let mut file = disk.create("a").unwrap();
    file.append(b"12345").unwrap();
    let is_set_aside = file.reserve(1 << 20).unwrap();
    assert_eq!(std::fs::read(folder.path().join("a")).unwrap(), b"12345");
    if cfg!(target_os = "linux") && is_set_aside {
        assert!(blocks(&folder.path().join("a")) >= 1 << 20);
    }
    file.append(b"678").unwrap();
    file.sync().unwrap();
    file.truncate(8).unwrap();
    assert_eq!(std::fs::read(folder.path().join("a")).unwrap(), b"12345678");
    if cfg!(target_os = "linux") && is_set_aside {
        assert!(blocks(&folder.path().join("a")) < 1 << 20);
    }
}

/// The bytes that a file takes on its disk.
#[cfg(unix)]
fn blocks(path: &std::path::Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).unwrap().blocks() * 512
}

#[cfg(not(unix))]
fn blocks(_path: &std::path::Path) -> u64 {
    0
}

#[test]
fn identities_differ_and_those_of_simulated_disks_repeat() {
    let folder = tempfile::tempdir().unwrap();
    let disk = RealDisk::new(folder.path()).unwrap();
    assert_ne!(disk.draw_identity().unwrap(), disk.draw_identity().unwrap());
    let drawn = || {
        let disk = SimDisk::new();
        [disk.draw_identity().unwrap(), disk.draw_identity().unwrap()]
    };
    assert_eq!(drawn(), drawn());
    assert_ne!(drawn()[0], drawn()[1]);
}

/// Both disks, each with its file: what is appended takes the place of the zeros.
#[test]
fn a_file_that_is_longer_ahead_is_written_where_it_was_appended_to() {
    let folder = tempfile::tempdir().unwrap();
    let disks: [Box<dyn Disk>; 2] = [
        Box::new(RealDisk::new(folder.path()).unwrap()),
        Box::new(SimDisk::new()),
    ];
    for disk in disks {
        let bytes = || {
            let mut bytes = Vec::new();
            disk.read("a").unwrap().read_to_end(&mut bytes).unwrap();
            bytes
        };
        let mut file = disk.create("a").unwrap();
        file.append(b"12").unwrap();
        file.extend(6).unwrap();
        assert_eq!(bytes(), b"12\0\0\0\0");
        file.append(b"345").unwrap();
        file.extend(4).unwrap();
        assert_eq!(bytes(), b"12345\0", "it gets no shorter");
        file.append(b"6789").unwrap();
        assert_eq!(bytes(), b"123456789");
        file.extend(12).unwrap();
        file.truncate(9).unwrap();
        file.append(b"x").unwrap();
        assert_eq!(bytes(), b"123456789x");
        file.truncate(3).unwrap();
        file.append(b"y").unwrap();
        assert_eq!(bytes(), b"123y");
        // Another handle goes on at the end that the file has.
        disk.append_to("a").unwrap().append(b"z").unwrap();
        assert_eq!(bytes(), b"123yz");
    }
}

#[test]
fn zeros_ahead_take_space_and_no_more_than_was_set_aside() {
    let disk = SimDisk::new();
    disk.set_capacity(Some(10));
    let mut file = disk.create("a").unwrap();
    file.append(b"12").unwrap();
    assert_eq!(file.extend(11).unwrap_err().kind(), ErrorKind::StorageFull);
    assert!(file.reserve(8).unwrap());
    file.extend(8).unwrap();
    assert_eq!(disk.space(), 8);
    file.append(b"345678").unwrap();
    file.append(b"90").unwrap();
    assert_eq!(
        file.append(b"x").unwrap_err().kind(),
        ErrorKind::StorageFull
    );
}
