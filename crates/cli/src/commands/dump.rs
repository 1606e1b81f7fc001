//! `dump`: all that a server or a data folder stores and declares, as texts that engines take.

use crate::args::{DumpArgs, DumpPart};
use crate::error::CliError;
use crate::files;
use crate::target::Place;
use indicatif::ProgressBar;
use somersault::EngineConfig;
use std::fs::{self, File};
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
    let place = Place::open_with(&args.target, config)?;
    if args.only != Some(DumpPart::Declarations) {
        let bar = files::spinner("{spinner} {bytes} of statements  {elapsed}");
        let path = args.out.join(STATEMENTS);
        write_whole(&path, |out| write_statements(&place, out, &bar))?;
        bar.finish_and_clear();
        println!("{}: load it with somersault load", path.display());
    }
    if args.only != Some(DumpPart::Statements) {
        let path = args.out.join(DECLARATIONS);
        write_whole(&path, |out| write_declarations(&place, out))?;
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

/// Writes a file under another name, and gives it its own once it is whole and durable.
fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".tmp");
    let failed =
        |error: io::Error| CliError::failed(format_args!("cannot write {}", path.display()), error);
    let written = File::create(&unfinished).map_err(failed).and_then(|file| {
        let mut out = BufWriter::with_capacity(CHUNK, file);
        write(&mut out)?;
        let file = out
            .into_inner()
            .map_err(|error| failed(error.into_error()))?;
        file.sync_all().map_err(failed)?;
        fs::rename(&unfinished, path).map_err(failed)?;
        sync_folder_of(path).map_err(failed)
    });
    if written.is_err() {
        // The error to report is that of the writing.
        let _ = fs::remove_file(&unfinished);
    }
    written
}

/// Makes the name of a file durable.
fn sync_folder_of(path: &Path) -> io::Result<()> {
    if !cfg!(unix) {
        return Ok(());
    }
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
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
