//! `load`: RDF files into a server or a data folder.

use crate::args::LoadArgs;
use crate::client::segment;
use crate::error::CliError;
use crate::files;
use crate::target::{Place, load_file};

/// Loads every file, in order; stops at the first that fails.
///
/// # Errors
/// Names the file that failed; what was loaded before it stays.
pub(crate) fn run(args: &LoadArgs) -> Result<(), CliError> {
    let place = Place::open_or_make(&args.target, &[])?;
    for path in &args.files {
        match &place {
            Place::Engine(engine) => {
                let summary = load_file(engine, path, args.graph.as_deref())?;
                println!(
                    "{}: {} statements read, {} stored in all",
                    path.display(),
                    summary.statements,
                    summary.stored
                );
            }
            Place::Server(client) => {
                let bar = files::byte_bar();
                let input = files::open(path, &bar)?;
                let format = files::rdf_format(&input.stem)?;
                let address = match &args.graph {
                    Some(graph) => format!("/store?graph={}", segment(graph)),
                    // A dataset names its own graphs; the server takes it where no graph is named.
                    None if format.supports_datasets() => "/store".to_owned(),
                    None => "/store?default".to_owned(),
                };
                client
                    .post(
                        &address,
                        &[("Content-Type", format.media_type())],
                        input.reader,
                    )
                    .map_err(|error| CliError::failed(path.display(), error))?;
                bar.finish_and_clear();
                println!("{}: loaded", path.display());
            }
        }
    }
    if let Place::Engine(engine) = &place {
        engine.shutdown()?;
    }
    Ok(())
}
