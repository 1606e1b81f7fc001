//! The target of a client subcommand: a server, a data folder, or files in process.

use crate::args::{DEFAULT_SERVER, SERVER_VARIABLE, Server, Target, Trust};
use crate::client::Client;
use crate::error::CliError;
use crate::files;
use indicatif::ProgressBar;
use somersault::{
    CheckpointConfig, CheckpointStatus, Engine, EngineConfig, LoadOptions, LoadProgress,
    LoadSummary,
};
use somersault_connect::ClientTls;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest time that a command on a data folder spends on a checkpoint at its end.
const CHECKPOINT_PATIENCE: Duration = Duration::from_secs(3_600);

/// A server to talk to, or an engine in this process.
pub(crate) enum Place {
    /// Over HTTP.
    Server(Client),
    /// Here.
    Engine(Engine),
}

impl Place {
    /// The place that the options name, where there is something already; with `stored` files an
    /// engine in memory that has loaded them.
    ///
    /// # Errors
    /// When the place is not there, or cannot be opened.
    pub(crate) fn open(target: &Target, stored: &[PathBuf]) -> Result<Self, CliError> {
        check_folder(target)?;
        Self::open_or_make(target, stored)
    }

    /// Like [`Place::open`], but nothing in a data folder is changed.
    ///
    /// # Errors
    /// As [`Place::open`].
    pub(crate) fn read(target: &Target, stored: &[PathBuf]) -> Result<Self, CliError> {
        check_folder(target)?;
        Self::make(target, stored, true)
    }

    /// Like [`Place::open`], but a data folder that is not there is made.
    ///
    /// # Errors
    /// When the place cannot be opened.
    pub(crate) fn open_or_make(target: &Target, stored: &[PathBuf]) -> Result<Self, CliError> {
        Self::make(target, stored, false)
    }

    fn make(target: &Target, stored: &[PathBuf], read_only: bool) -> Result<Self, CliError> {
        if !stored.is_empty() {
            let engine = Engine::open(EngineConfig::default())?;
            for path in stored {
                load_file(&engine, path, None)?;
            }
            return Ok(Self::Engine(engine));
        }
        let config = EngineConfig {
            read_only,
            checkpoints: CheckpointConfig {
                at_shutdown: CHECKPOINT_PATIENCE,
                ..CheckpointConfig::default()
            },
            ..EngineConfig::default()
        };
        Self::open_config(target, config)
    }

    /// Like [`Place::open`] without stored files, with another configuration of an engine here.
    ///
    /// # Errors
    /// When the place is not there, or cannot be opened.
    pub(crate) fn open_with(target: &Target, config: EngineConfig) -> Result<Self, CliError> {
        check_folder(target)?;
        Self::open_config(target, config)
    }

    fn open_config(target: &Target, config: EngineConfig) -> Result<Self, CliError> {
        match &target.data {
            Some(folder) => {
                let data = Some(folder.clone());
                Ok(Self::Engine(Engine::open(EngineConfig { data, ..config })?))
            }
            None => Ok(Self::Server(client_of(target)?)),
        }
    }
}

/// A client of the server that the options name.
///
/// # Errors
/// When its URL is not one of the web, or the files of its certificates cannot be used.
pub(crate) fn client_of(target: &Target) -> Result<Client, CliError> {
    client_at(&server_url(target.server.as_deref()), &target.trust)
}

/// A client of a running server.
///
/// # Errors
/// As [`client_of`].
pub(crate) fn client_for(server: &Server) -> Result<Client, CliError> {
    client_at(&server.url, &server.trust)
}

/// A client of the server at a URL.
///
/// # Errors
/// As [`client_of`].
pub(crate) fn client_at(url: &str, trust: &Trust) -> Result<Client, CliError> {
    Client::new(url, &tls_of(trust)?)
}

/// Reads what is trusted at https addresses, and shown there.
///
/// # Errors
/// When a file cannot be used.
#[cfg(feature = "tls")]
pub(crate) fn tls_of(trust: &Trust) -> Result<ClientTls, CliError> {
    let identity = trust
        .client_cert
        .as_deref()
        .zip(trust.client_key.as_deref());
    ClientTls::read(trust.ca_file.as_deref(), identity)
        .map_err(|error| CliError::Usage(error.to_string()))
}

/// Returns the trust of a program that was built without TLS.
///
/// # Errors
/// Never.
#[cfg(not(feature = "tls"))]
pub(crate) fn tls_of(_trust: &Trust) -> Result<ClientTls, CliError> {
    Ok(ClientTls::default())
}

/// Shuts an engine down, and says if a checkpoint is written first.
///
/// # Errors
/// When the log cannot be flushed.
pub(crate) fn shut_down(engine: &Engine) -> Result<(), CliError> {
    let writes = |it: CheckpointStatus| it.is_due_at_end || it.is_under_way;
    if engine.checkpoints().is_some_and(writes) {
        let most = engine.config().checkpoints.at_shutdown.as_secs();
        eprintln!("writing a checkpoint, so that the next start is quick; at most {most} s");
    }
    Ok(engine.shutdown()?)
}

/// The server that is meant: the one given, that of the environment, or the usual one.
pub(crate) fn server_url(given: Option<&str>) -> String {
    let of_environment = || {
        std::env::var(SERVER_VARIABLE)
            .ok()
            .filter(|url| !url.is_empty())
    };
    (given.map(str::to_owned))
        .or_else(of_environment)
        .unwrap_or_else(|| DEFAULT_SERVER.to_owned())
}

/// Refuses a data folder that is not there.
fn check_folder(target: &Target) -> Result<(), CliError> {
    match target.data.as_ref().filter(|folder| !folder.is_dir()) {
        None => Ok(()),
        Some(folder) => Err(CliError::Failed(format!(
            "there is no data folder {}; `somersault load … --data {0}` makes one",
            folder.display()
        ))),
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
    let reader = files::refuse_empty_json(path, format, input.reader)?;
    let outcome = engine.load(reader, format, options);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_given_comes_before_the_usual_one() {
        assert_eq!(server_url(Some("http://a:1")), "http://a:1");
    }
}
