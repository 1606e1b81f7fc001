//! `dump`: all that a server or a data folder stores and declares, as texts that engines take.

use crate::args::{DumpArgs, DumpPart};
use crate::error::CliError;
use crate::files;
use crate::target::Place;
use indicatif::ProgressBar;
use somersault::EngineConfig;
use somersault_disk::{Disk, DiskFile, NameTaken, RealDisk, create_unfinished, finish, unfinished};
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::Path;

const STATEMENTS: &str = "statements.nq";
const DECLARATIONS: &str = "declarations.sql";
const CHUNK: usize = 1 << 16;

/// Writes both parts to a folder, or one of them to standard output.
///
/// # Errors
/// When the place cannot be read, or the folder is not empty or cannot be written.
pub(crate) fn run(args: &DumpArgs) -> Result<(), CliError> {
    let config = EngineConfig {
        read_only: true,
        ..EngineConfig::default()
    };
    if args.out.as_os_str() == "-" {
        let place = Place::open_with(&args.target, config)?;
        let mut out = BufWriter::new(io::stdout().lock());
        let bar = ProgressBar::hidden();
        match args.only {
            Some(DumpPart::Declarations) => write_declarations(&place, &mut out)?,
            Some(DumpPart::Statements) | None => write_statements(&place, &mut out, &bar)?,
        }
        return Ok(out.flush()?);
    }
    make_empty(&args.out)?;
    let disk = RealDisk::existing(&args.out)?;
    let place = Place::open_with(&args.target, config)?;
    if args.only != Some(DumpPart::Declarations) {
        let bar = files::spinner("{spinner} {bytes} of statements  {elapsed}");
        write_file(&disk, STATEMENTS, |out| write_statements(&place, out, &bar))?;
        bar.finish_and_clear();
        let path = args.out.join(STATEMENTS);
        println!("{}: load it with somersault load", path.display());
    }
    if args.only != Some(DumpPart::Statements) {
        write_file(&disk, DECLARATIONS, |out| write_declarations(&place, out))?;
        let path = args.out.join(DECLARATIONS);
        println!("{}: declare it with somersault register", path.display());
    }
    Ok(())
}

/// Makes a folder, or takes one that is empty.
///
/// # Errors
/// When it holds something, or cannot be made.
pub(crate) fn make_empty(folder: &Path) -> Result<(), CliError> {
    let failed = |error| {
        CliError::failed(
            format_args!("cannot make the folder {}", folder.display()),
            error,
        )
    };
    fs::create_dir_all(folder).map_err(failed)?;
    match fs::read_dir(folder).map_err(failed)?.next() {
        None => Ok(()),
        Some(entry) => Err(CliError::Failed(format!(
            "{} is not empty ({} is in it); name a folder that is not there, or an empty one",
            folder.display(),
            entry.map_err(failed)?.file_name().to_string_lossy()
        ))),
    }
}

/// Writes a file that has its name once it is whole and durable.
fn write_file(
    disk: &RealDisk,
    name: &str,
    write: impl FnOnce(&mut dyn Write) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let failed = |error: io::Error| {
        CliError::failed(
            format_args!("cannot write {}/{name}", disk.describe()),
            error,
        )
    };
    let file = create_unfinished(disk, name).map_err(failed)?;
    let mut out = BufWriter::with_capacity(CHUNK, NewFile(file));
    let written = write(&mut out).and_then(|()| {
        let file = out.into_inner().map_err(|error| error.into_error());
        let finished = file.and_then(|file| finish(disk, name, file.0, NameTaken::Refuse));
        finished.map_err(failed)
    });
    if written.is_err() {
        // The error to report is that of the writing.
        let _ = disk.remove(&unfinished(name));
    }
    written
}

/// A file that is being written.
struct NewFile(Box<dyn DiskFile>);

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.append(bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write_statements(place: &Place, out: &mut dyn Write, bar: &ProgressBar) -> Result<(), CliError> {
    match place {
        Place::Engine(engine) => Ok(engine.dump()?.write_to(&mut bar.wrap_write(out))?),
        Place::Server(client) => {
            let body = client.get("/dump/statements", &[])?.into_body();
            copy_body(&mut bar.wrap_read(body.into_reader()), out)
        }
    }
}

fn write_declarations(place: &Place, out: &mut dyn Write) -> Result<(), CliError> {
    match place {
        Place::Engine(engine) => Ok(out.write_all(engine.declarations()?.as_bytes())?),
        Place::Server(client) => {
            let body = client.get("/dump/declarations", &[])?.into_body();
            copy_body(&mut body.into_reader(), out)
        }
    }
}

fn copy_body(body: &mut dyn io::Read, out: &mut dyn Write) -> Result<(), CliError> {
    let mut chunk = vec![0; CHUNK];
    loop {
        let read = body.read(&mut chunk);
        match read.map_err(|error| CliError::failed("the server's answer broke off", error))? {
            0 => return Ok(()),
            read => out.write_all(&chunk[..read])?,
        }
    }
}
