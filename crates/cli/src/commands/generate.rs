//! `generate`: a seeded network as files: what is stored, five streams, their declarations, the
//! queries.

use crate::args::GenerateArgs;
use crate::error::CliError;
use crate::files;
use flate2::Compression;
use flate2::write::GzEncoder;
use indicatif::ProgressBar;
use oxrdf::Triple;
use somersault_generate::{NamedQuery, Parameters, Rates, SocialNetwork, StreamKind};
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

/// Statements between two looks of the progress line.
const LOOK: u64 = 10_000;

/// Writes the network into a folder.
///
/// # Errors
/// When the folder or a file cannot be written.
pub(crate) fn run(args: &GenerateArgs) -> Result<(), CliError> {
    let network = SocialNetwork::new(Parameters {
        users: args.network.users,
        seed: args.network.seed,
        rates: Rates::in_total(args.network.rate),
        history_ms: (args.network.history * 1000.0) as i64,
        // Event times run to the last millisecond of the last second.
        streams_ms: (args.seconds * 1000.0) as i64 + 1,
    });
    fs::create_dir_all(args.out.join("queries")).map_err(|error| {
        CliError::failed(
            format_args!("cannot make the folder {}", args.out.display()),
            error,
        )
    })?;
    let bar = files::spinner("{spinner} {pos} triples  {per_sec}  {elapsed}");
    let mut activity = network.activity();
    let stored = write_stored(args, network.people().chain(activity.past()), &bar)?;
    let streamed = write_streams(args, activity, &bar)?;
    bar.finish_and_clear();
    let declarations: String = StreamKind::ALL
        .iter()
        .map(|kind| kind.declaration() + ";\n")
        .collect();
    write_text(&args.out.join("streams.sql"), &declarations)?;
    write_queries(&args.out, &network.continuous_queries(), "csparql")?;
    write_queries(&args.out, &network.one_shot_queries(), "rq")?;
    println!(
        "{}: {stored} stored triples, {streamed} in five streams, 15 queries",
        args.out.display()
    );
    Ok(())
}

fn write_stored(
    args: &GenerateArgs,
    triples: impl Iterator<Item = Triple>,
    bar: &ProgressBar,
) -> Result<u64, CliError> {
    let mut out = Output::create(args, "stored.nt")?;
    let mut count = 0_u64;
    for triple in triples {
        writeln!(out, "{triple} .")?;
        count += 1;
        if count.is_multiple_of(LOOK) {
            bar.set_position(count);
        }
    }
    out.finish()?;
    Ok(count)
}

fn write_streams(
    args: &GenerateArgs,
    activity: somersault_generate::Activity<'_>,
    bar: &ProgressBar,
) -> Result<u64, CliError> {
    let mut files = StreamKind::ALL
        .iter()
        .map(|kind| Output::create(args, &format!("{}.tsv", kind.short_name())))
        .collect::<Result<Vec<_>, _>>()?;
    let mut count = 0_u64;
    for streamed in activity {
        writeln!(
            files[streamed.kind.index()],
            "{}\t{} .",
            streamed.at_ms,
            streamed.triple
        )?;
        count += 1;
        if count.is_multiple_of(LOOK) {
            bar.inc(LOOK);
        }
    }
    for file in files {
        file.finish()?;
    }
    Ok(count)
}

fn write_queries(out: &Path, queries: &[NamedQuery], ending: &str) -> Result<(), CliError> {
    for query in queries {
        write_text(
            &out.join("queries").join(format!("{}.{ending}", query.name)),
            &query.text,
        )?;
    }
    Ok(())
}

fn write_text(path: &Path, text: &str) -> Result<(), CliError> {
    fs::write(path, text)
        .map_err(|error| CliError::failed(format_args!("cannot write {}", path.display()), error))
}

/// A data file, compressed if asked for.
enum Output {
    Plain(BufWriter<File>),
    Gzip(GzEncoder<BufWriter<File>>),
}

impl Output {
    fn create(args: &GenerateArgs, name: &str) -> Result<Self, CliError> {
        let path = args.out.join(if args.gz {
            format!("{name}.gz")
        } else {
            name.to_owned()
        });
        let buffered = BufWriter::with_capacity(1 << 18, files::create(&path)?);
        Ok(if args.gz {
            Self::Gzip(GzEncoder::new(buffered, Compression::fast()))
        } else {
            Self::Plain(buffered)
        })
    }

    fn finish(self) -> Result<(), CliError> {
        let mut buffered = match self {
            Self::Plain(buffered) => buffered,
            Self::Gzip(encoder) => encoder.finish()?,
        };
        Ok(buffered.flush()?)
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Self::Plain(file) => file.write(bytes),
            Self::Gzip(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Self::Plain(file) => file.flush(),
            Self::Gzip(file) => file.flush(),
        }
    }
}
