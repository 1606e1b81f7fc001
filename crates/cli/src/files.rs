//! Files as the user names them: compression and RDF syntax by their endings, read with a progress
//! bar.

use crate::error::CliError;
use indicatif::{ProgressBar, ProgressStyle};
use oxrdfio::{RdfFormat, RdfParser};
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// An open file, unpacked while it is read.
pub(crate) struct Input {
    /// Its bytes after decompression.
    pub(crate) reader: Box<dyn Read + Send>,
    /// Its path without `.gz` or `.zst`, whose ending names the syntax.
    pub(crate) stem: PathBuf,
}

/// Opens a file and unpacks `.gz` and `.zst`; compressed bytes read move `bar`.
///
/// # Errors
/// When the file cannot be opened, or is not what its ending says.
pub(crate) fn open(path: &Path, bar: &ProgressBar) -> Result<Input, CliError> {
    let file = File::open(path)
        .map_err(|error| CliError::failed(format_args!("cannot open {}", path.display()), error))?;
    if let Ok(metadata) = file.metadata() {
        bar.inc_length(metadata.len());
    }
    let raw = BufReader::with_capacity(1 << 18, bar.wrap_read(file));
    let ending = path
        .extension()
        .and_then(|ending| ending.to_str())
        .unwrap_or_default();
    let (reader, stem): (Box<dyn Read + Send>, PathBuf) = match ending {
        "gz" => (
            Box::new(flate2::read::MultiGzDecoder::new(raw)),
            path.with_extension(""),
        ),
        "zst" => {
            let decoder = zstd::stream::read::Decoder::with_buffer(raw).map_err(|error| {
                CliError::failed(format_args!("{} is not zstd", path.display()), error)
            })?;
            (Box::new(decoder), path.with_extension(""))
        }
        _ => (Box::new(raw), path.to_owned()),
    };
    Ok(Input { reader, stem })
}

/// The RDF syntax that an ending stands for.
///
/// # Errors
/// When the ending stands for none, with the list of those that do.
pub(crate) fn rdf_format(stem: &Path) -> Result<RdfFormat, CliError> {
    stem.extension().and_then(|ending| ending.to_str()).and_then(RdfFormat::from_extension).ok_or_else(|| {
        CliError::Usage(format!(
            "the extension of {} names no RDF syntax; known are .nt, .nq, .ttl, .trig, .rdf, .xml, .jsonld and .n3, each also with .gz or .zst",
            stem.display()
        ))
    })
}

/// The bytes of a file, unless it is JSON-LD that says nothing: JSON without a context has no
/// statements.
///
/// # Errors
/// When JSON cannot be read, or yields no statement.
pub(crate) fn refuse_empty_json(
    path: &Path,
    format: RdfFormat,
    mut reader: Box<dyn Read + Send>,
) -> Result<Box<dyn Read + Send>, CliError> {
    if !matches!(format, RdfFormat::JsonLd { .. }) {
        return Ok(reader);
    }
    let mut bytes = Vec::new();
    let read = reader.read_to_end(&mut bytes);
    read.map_err(|error| CliError::failed(format_args!("cannot read {}", path.display()), error))?;
    // A document that does not parse is refused by the load, with the place.
    if RdfParser::from_format(format)
        .for_slice(&bytes)
        .next()
        .is_none()
    {
        return Err(CliError::Failed(format!(
            "{} holds no statement, so nothing was loaded: JSON becomes RDF only by an \"@context\" that gives its members IRIs (JSON-LD); add one",
            path.display()
        )));
    }
    Ok(Box::new(io::Cursor::new(bytes)))
}

/// A text that is an argument, a file, or standard input (`-`).
///
/// # Errors
/// When it cannot be read.
pub(crate) fn text_of(text: &crate::args::Text) -> Result<String, CliError> {
    match (&text.text, &text.file) {
        (Some(argument), _) if argument == "-" => {
            let mut read = String::new();
            io::stdin().read_to_string(&mut read)?;
            Ok(read)
        }
        (Some(argument), _) => Ok(argument.clone()),
        (None, Some(file)) => read_text(file),
        (None, None) => Err(CliError::Usage(
            "give the text as an argument or with --file".to_owned(),
        )),
    }
}

/// A whole text file.
///
/// # Errors
/// When it cannot be read, with its name.
pub(crate) fn read_text(path: &Path) -> Result<String, CliError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| CliError::failed(format_args!("cannot read {}", path.display()), error))?;
    // Some editors begin a file with a byte order mark, which is no part of the text.
    Ok(text
        .strip_prefix('\u{feff}')
        .map_or(text.clone(), str::to_owned))
}

/// A bar over bytes for long reads; hidden where standard error is no terminal.
pub(crate) fn byte_bar() -> ProgressBar {
    bar(
        ProgressBar::new(0),
        "{bar:32} {bytes}/{total_bytes}  {msg}  {elapsed}",
    )
}

/// The interval between moves of a sign of life that nothing else moves.
const TICK: Duration = Duration::from_millis(100);

/// A sign of life for work that counts nothing: it moves by itself.
pub(crate) fn steady_spinner(template: &str) -> ProgressBar {
    let bar = spinner(template);
    bar.enable_steady_tick(TICK);
    bar
}

/// A sign of life for work whose end is not known; it moves with what is counted.
pub(crate) fn spinner(template: &str) -> ProgressBar {
    bar(ProgressBar::new_spinner(), template)
}

fn bar(bar: ProgressBar, template: &str) -> ProgressBar {
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Makes a file, or empties the one that is there.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn create(path: &Path) -> Result<File, CliError> {
    File::create(path)
        .map_err(|error| CliError::failed(format_args!("cannot write {}", path.display()), error))
}

/// The output of a subcommand: a file, or standard output.
///
/// # Errors
/// When the file cannot be written.
pub(crate) fn output(path: Option<&Path>) -> Result<Box<dyn Write>, CliError> {
    Ok(match path {
        Some(path) => Box::new(create(path)?),
        None => Box::new(io::stdout()),
    })
}
