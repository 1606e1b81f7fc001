//! `serve`: an engine behind HTTP until a signal says stop.

use crate::args::ServeArgs;
use crate::error::CliError;
use somersault::{Engine, EngineConfig, Limits, Remote};
use somersault_server::{Cors, HttpRemote, ServerConfig};
use std::net::{TcpListener, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

/// Opens the engine, serves, and stops in order: no more requests, then the log is flushed.
///
/// # Errors
/// When the data folder is refused or the address cannot be listened on.
pub(crate) fn run(args: &ServeArgs) -> Result<(), CliError> {
    // The address first: a taken port should not cost the replay of a long log.
    let listener = listen(&args.listen)?;
    let config = engine_config(args);
    let server = server_config(args, &config);
    if let Some(folder) = &args.data {
        eprintln!("opening {}", folder.display());
    }
    let engine = Engine::open(config)?;
    let address = listener.local_addr()?;
    if !address.ip().is_loopback() {
        eprintln!(
            "somersault: {address} is not loopback, and the server asks nobody for a password: whoever reaches it may read and write"
        );
    }
    // A worker for each core: light queries are answered by them.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    listener.set_nonblocking(true)?;
    let served = runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        eprintln!("Somersault answers at http://{address} (Ctrl-C stops it)");
        somersault_server::serve(engine.clone(), listener, server, stop_signal()).await
    });
    runtime.shutdown_timeout(Duration::from_secs(1));
    engine.shutdown()?;
    eprintln!("stopped");
    Ok(served?)
}

/// Listens on an address, with a sentence that helps when it is taken.
///
/// # Errors
/// When the address is not one, or cannot be listened on.
pub(crate) fn listen(address: &str) -> Result<TcpListener, CliError> {
    let addresses: Vec<_> = address
        .to_socket_addrs()
        .map_err(|error| {
            CliError::Usage(format!(
                "--listen {address} is not an address like 127.0.0.1:7878: {error}"
            ))
        })?
        .collect();
    TcpListener::bind(addresses.as_slice()).map_err(|error| match error.kind() {
        std::io::ErrorKind::AddrInUse => CliError::Failed(format!(
            "{address} is taken by another program; stop that one, or choose another port with --listen 127.0.0.1:0"
        )),
        _ => CliError::failed(format_args!("cannot listen on {address}"), error),
    })
}

fn server_config(args: &ServeArgs, engine: &EngineConfig) -> ServerConfig {
    let mut config = ServerConfig::with_limits(&engine.limits);
    config.cors = match args.cors.as_slice() {
        [] => Cors::Off,
        origins if origins.iter().any(|origin| origin == "*") => Cors::Any,
        origins => Cors::Origins(origins.to_vec()),
    };
    config.public_url.clone_from(&args.public_url);
    config.allowed_hosts.clone_from(&args.allowed_host);
    config
}

fn engine_config(args: &ServeArgs) -> EngineConfig {
    let mut limits = Limits::default();
    if let Some(ms) = args.query_time_ms {
        limits.query_time = Duration::from_millis(ms);
    }
    if let Some(ms) = args.firing_time_ms {
        limits.firing_time = Duration::from_millis(ms);
    }
    if let Some(ms) = args.time_ahead_ms {
        limits.time_ahead = Duration::from_millis(ms);
    }
    if let Some(closes) = args.closes_at_once {
        limits.closes_at_once = closes;
    }
    if let Some(rows) = args.result_rows {
        limits.result_rows = rows;
    }
    if let Some(bytes) = args.body_bytes {
        limits.body_bytes = bytes;
    }
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    EngineConfig {
        data: args.data.clone(),
        workers: args.workers,
        query_threads: args.query_threads.map_or(cores, usize::from),
        limits,
        default_namespace: args.namespace.clone(),
        freshness: Duration::from_millis(args.freshness_ms),
        allow_remote: args.allow_remote,
        remote: args
            .allow_remote
            .then(|| Arc::new(HttpRemote::new()) as Arc<dyn Remote>),
        ..EngineConfig::default()
    }
}

/// Completes at Ctrl-C, or at SIGTERM where there is one.
async fn stop_signal() {
    let interrupt = tokio::signal::ctrl_c();
    #[cfg(unix)]
    {
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(mut terminate) => {
                tokio::select! {
                    _ = interrupt => {}
                    _ = terminate.recv() => {}
                }
            }
            Err(error) => {
                eprintln!("somersault: SIGTERM will end the server at once: {error}");
                let _ = interrupt.await;
            }
        }
    }
    #[cfg(not(unix))]
    {
        let _ = interrupt.await;
    }
}
