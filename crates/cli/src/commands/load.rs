//! `load`: RDF files into a server or a data folder.

use crate::args::LoadArgs;
use crate::client::segment;
use crate::error::CliError;
use crate::files;
use crate::target::{Place, load_file, shut_down};
use oxrdfio::RdfFormat;
use serde_json::Value;

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
                    None if names_graphs(format) => "/store".to_owned(),
                    None => "/store?default".to_owned(),
                };
                let reader = files::refuse_empty_json(path, format, input.reader)?;
                let headers = [("Content-Type", format.media_type())];
                let mut response = client
                    .post(&address, &headers, reader)
                    .map_err(|error| CliError::failed(path.display(), error))?;
                bar.finish_and_clear();
                let body = response.body_mut().read_to_string().map_err(|error| {
                    CliError::failed("the file was loaded, but the answer broke off", error)
                })?;
                println!("{}: {}", path.display(), counts(&body));
            }
        }
    }
    if let Place::Engine(engine) = &place {
        shut_down(engine)?;
    }
    Ok(())
}

/// Whether a server loads documents of this syntax into the graphs that they name.
fn names_graphs(format: RdfFormat) -> bool {
    matches!(format, RdfFormat::NQuads | RdfFormat::TriG)
}

/// The counts in a server's answer to a load.
fn counts(body: &str) -> String {
    let json: Value = serde_json::from_str(body).unwrap_or_default();
    match (json["statements"].as_u64(), json["inserted"].as_u64()) {
        (Some(read), _) => format!("{read} statements read, {} stored in all", json["stored"]),
        (None, Some(inserted)) => format!("{inserted} new statements stored"),
        (None, None) => "loaded".to_owned(),
    }
}
