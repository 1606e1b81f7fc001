//! Where a client subcommand works: on a server, on a data folder, or on files in process.

use crate::args::{SERVER_VARIABLE, Target};
use crate::client::Client;
use crate::error::CliError;
use crate::files;
use indicatif::ProgressBar;
use somersault::{Engine, EngineConfig, LoadOptions, LoadProgress, LoadSummary};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// A server to talk to, or an engine in this process.
pub(crate) enum Place {
    /// Over HTTP.
    Server(Client),
    /// Here.
    Engine(Engine),
}

impl Place {
    /// The place that the options name, where there is something already; with `stored` files an engine in memory that
    /// has loaded them.
    ///
    /// # Errors
    /// When no place is named, or it is not there, or it cannot be opened.
    pub(crate) fn open(target: &Target, stored: &[PathBuf]) -> Result<Self, CliError> {
        if let Some(folder) = target.data.as_ref().filter(|folder| !folder.is_dir()) {
            return Err(CliError::Failed(format!(
                "there is no data folder {}; `somersault load … --data {0}` makes one",
                folder.display()
            )));
        }
        Self::open_or_make(target, stored)
    }

    /// Like [`Place::open`], but a data folder that is not there is made.
    ///
    /// # Errors
    /// When no place is named, or it cannot be opened.
    pub(crate) fn open_or_make(target: &Target, stored: &[PathBuf]) -> Result<Self, CliError> {
        if !stored.is_empty() {
            let engine = Engine::open(EngineConfig::default())?;
            for path in stored {
                load_file(&engine, path, None)?;
            }
            return Ok(Self::Engine(engine));
        }
        let usual = std::env::var(SERVER_VARIABLE)
            .ok()
            .filter(|url| !url.is_empty() && target.data.is_none());
        match (target.server.as_ref().or(usual.as_ref()), &target.data) {
            (Some(url), _) => Ok(Self::Server(Client::new(url)?)),
            (None, Some(folder)) => {
                Ok(Self::Engine(Engine::open(EngineConfig { data: Some(folder.clone()), ..EngineConfig::default() })?))
            }
            (None, None) => Err(CliError::Usage(
                "name where the data is: --server URL for a running server, --data DIR for a folder, or --stored FILE where the subcommand has it".to_owned(),
            )),
        }
    }
}

/// Loads one file into an engine, with a bar that shows triples a second.
///
/// # Errors
/// When the file cannot be read or parsed; nothing of it is stored then.
pub(crate) fn load_file(
    engine: &Engine,
    path: &Path,
    graph: Option<&str>,
) -> Result<LoadSummary, CliError> {
    let bar = files::byte_bar();
    let input = files::open(path, &bar)?;
    let format = files::rdf_format(&input.stem)?;
    let graph = graph
        .map(|iri| {
            oxrdf::NamedNode::new(iri)
                .map_err(|error| CliError::Usage(format!("the graph {iri} is not an IRI: {error}")))
        })
        .transpose()?;
    let options = LoadOptions {
        graph,
        progress: Some(progress_on(&bar)),
        ..LoadOptions::default()
    };
    let outcome = engine.load(input.reader, format, options);
    bar.finish_and_clear();
    outcome.map_err(|error| CliError::failed(path.display(), error))
}

fn progress_on(bar: &ProgressBar) -> Arc<dyn Fn(LoadProgress) + Send + Sync> {
    let bar = bar.clone();
    let start = Instant::now();
    Arc::new(move |progress: LoadProgress| {
        if progress.read {
            bar.set_message(format!("{} triples read, storing", progress.statements));
        } else {
            let rate = progress.statements as f64 / start.elapsed().as_secs_f64().max(0.001);
            bar.set_message(format!(
                "{} triples, {:.0} triples/s",
                progress.statements, rate
            ));
        }
    })
}
