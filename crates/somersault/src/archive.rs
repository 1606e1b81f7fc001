//! The files of a backup as one stream of bytes: a tar archive (POSIX ustar, with the binary sizes
//! of GNU tar for files of 8 GiB and more), so that other programs can unpack it too.
//!
//! The one thing to know: an archive that was cut is told from a whole one by the two blocks of
//! zeros at its end. A reader takes plain files of this folder only: no path, no link.

use std::io::{self, Read, Write};

const BLOCK: usize = 512;
/// The largest size that octal digits can express.
const OCTAL_LIMIT: u64 = 1 << 33;

/// Writes an archive.
pub(crate) struct ArchiveWriter<W> {
    out: W,
}

impl<W: Write> ArchiveWriter<W> {
    pub(crate) fn new(out: W) -> ArchiveWriter<W> {
        ArchiveWriter { out }
    }

    /// Adds a file of this length.
    ///
    /// # Errors
    /// The content cannot be read or is shorter, or the archive cannot be written.
    pub(crate) fn add(&mut self, name: &str, length: u64, content: impl Read) -> io::Result<()> {
        self.out.write_all(&header(name, length)?)?;
        let copied = io::copy(&mut content.take(length), &mut self.out)?;
        if copied < length {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("{name} has become shorter while it was read"),
            ));
        }
        self.out.write_all(&[0; BLOCK][..padding(length)])
    }

    /// Ends the archive.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.out.write_all(&[0; 2 * BLOCK])?;
        self.out.flush()
    }
}

/// The bytes behind a content of this length, to the next block.
fn padding(length: u64) -> usize {
    (BLOCK - (length % BLOCK as u64) as usize) % BLOCK
}

fn header(name: &str, length: u64) -> io::Result<[u8; BLOCK]> {
    if name.len() > 99 {
        let message = format!("the name {name} is too long for an archive");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    let mut header = [0; BLOCK];
    let mut set = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
    set(0, name.as_bytes());
    set(100, b"0000644\0");
    set(108, b"0000000\0");
    set(116, b"0000000\0");
    if length < OCTAL_LIMIT {
        set(124, format!("{length:011o}\0").as_bytes());
    } else {
        set(124, &[0x80, 0, 0, 0]);
        set(128, &length.to_be_bytes());
    }
    set(136, b"00000000000\0");
    set(148, b"        ");
    set(156, b"0");
    set(257, b"ustar\x0000");
    let sum = checksum(&header);
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    Ok(header)
}

/// The sum of all bytes, with spaces in the place of the sum.
fn checksum(header: &[u8; BLOCK]) -> u32 {
    let sum_of = |bytes: &[u8]| bytes.iter().map(|byte| u32::from(*byte)).sum::<u32>();
    sum_of(&header[..148]) + 8 * u32::from(b' ') + sum_of(&header[156..])
}

/// Reads an archive, a file at a time.
pub(crate) struct ArchiveReader<R> {
    input: R,
}

impl<R: Read> ArchiveReader<R> {
    pub(crate) fn new(input: R) -> ArchiveReader<R> {
        ArchiveReader { input }
    }

    /// Hands the next file to `take`, which reads its content; `false` at the end of the archive.
    ///
    /// # Errors
    /// The archive is cut or damaged, or cannot be read; those of `take`.
    pub(crate) fn next<E: From<io::Error>>(
        &mut self,
        take: impl FnOnce(&str, u64, &mut dyn Read) -> Result<(), E>,
    ) -> Result<bool, E> {
        let mut block = [0; BLOCK];
        self.input.read_exact(&mut block).map_err(cut)?;
        if block == [0; BLOCK] {
            self.input.read_exact(&mut block).map_err(cut)?;
            return match block == [0; BLOCK] {
                true => Ok(false),
                false => Err(wrong("a block of zeros stands within it").into()),
            };
        }
        let (name, length) = entry(&block)?;
        let mut content = self.input.by_ref().take(length);
        take(&name, length, &mut content)?;
        io::copy(&mut content, &mut io::sink())?;
        if content.limit() > 0 {
            return Err(cut(io::ErrorKind::UnexpectedEof.into()).into());
        }
        let padding = &mut [0; BLOCK][..padding(length)];
        self.input.read_exact(padding).map_err(cut)?;
        Ok(true)
    }
}

/// The name and the length of a file, from its header.
fn entry(block: &[u8; BLOCK]) -> io::Result<(String, u64)> {
    if octal(&block[148..156]) != Some(u64::from(checksum(block))) {
        return Err(wrong("the header of a file does not match its checksum"));
    }
    let name = block[..100].split(|byte| *byte == 0).next();
    let name = name.and_then(|name| std::str::from_utf8(name).ok());
    let name = name.ok_or_else(|| wrong("the name of a file is not UTF-8"))?;
    let is_plain = matches!(block[156], b'0' | 0) && block[345] == 0;
    if !is_plain || name.is_empty() || name.contains(['/', '\\', ':']) || name.starts_with('.') {
        return Err(wrong(&format!(
            "{name:?} is no plain file of a data folder"
        )));
    }
    let length = match block[124] {
        0x80 => {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&block[128..136]);
            (block[125..128] == [0; 3]).then(|| u64::from_be_bytes(bytes))
        }
        _ => octal(&block[124..136]),
    };
    let length = length.ok_or_else(|| wrong("the length of a file does not read back"))?;
    Ok((name.to_owned(), length))
}

fn octal(field: &[u8]) -> Option<u64> {
    let digits = field.iter().skip_while(|byte| **byte == b' ');
    let digits: Vec<u8> = digits
        .take_while(|byte| byte.is_ascii_digit())
        .copied()
        .collect();
    u64::from_str_radix(std::str::from_utf8(&digits).ok()?, 8).ok()
}

fn cut(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => wrong("it breaks off"),
        _ => error,
    }
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("the archive of the backup is not whole: {what}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(files: &[(String, Vec<u8>)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut archive = ArchiveWriter::new(&mut bytes);
        for (name, content) in files {
            let length = content.len() as u64;
            archive.add(name, length, &content[..]).unwrap();
        }
        archive.finish().unwrap();
        bytes
    }

    fn read(bytes: &[u8]) -> io::Result<Vec<(String, Vec<u8>)>> {
        let mut archive = ArchiveReader::new(bytes);
        let mut files = Vec::new();
        let mut more = true;
        while more {
            more = archive.next(|name, length, content| {
                let mut taken = Vec::new();
                content.read_to_end(&mut taken)?;
                if taken.len() as u64 == length {
                    files.push((name.to_owned(), taken));
                }
                io::Result::Ok(())
            })?;
        }
        Ok(files)
    }

    #[test]
    fn a_large_file_has_a_binary_size() {
        for length in [0, 511, OCTAL_LIMIT - 1, OCTAL_LIMIT, u64::MAX] {
            let header = header("log.proof", length).unwrap();
            assert_eq!(entry(&header).unwrap(), ("log.proof".to_owned(), length));
        }
        assert!(header(&"x".repeat(100), 0).is_err());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            files in prop::collection::vec(("[a-z0-9]{1,20}", prop::collection::vec(any::<u8>(), 0..1500)), 0..5),
        ) {
            let bytes = written(&files);
            prop_assert_eq!(read(&bytes).unwrap(), files);
            prop_assert_eq!(bytes.len() % BLOCK, 0);
            for length in (0..bytes.len()).step_by(97) {
                prop_assert!(read(&bytes[..length]).is_err());
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
            let _ = read(&bytes);
        }
    }
}
