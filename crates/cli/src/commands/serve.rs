//! `serve`: an engine behind HTTP until a signal says stop.

use crate::args::{AuthMode, ServeArgs};
use crate::error::CliError;
use crate::files;
use crate::signals::stop_signal;
use crate::target::{shut_down, tls_of};
use somersault::{CheckpointConfig, Engine, EngineConfig, Limits, OpenPhase, OpenProgress, Remote};
use somersault_connect::{ClientTls, ConnectError, Connectors, SinkSpec};
use somersault_server::{Auth, Cors, HttpRemote, ServerConfig, Tls, TokenError, TokenFile, Tokens};
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

/// The interval between moves of the progress bar while an engine is opened.
const BAR_PAUSE: Duration = Duration::from_millis(100);

/// Opens the engine, serves, and stops in order: no more requests, then the log is flushed.
///
/// # Errors
/// When sinks do not go together, a file of certificates cannot be used, the data folder is refused
/// or the address cannot be listened on.
pub(crate) fn run(args: &ServeArgs) -> Result<(), CliError> {
    SinkSpec::check_together(&args.sink)
        .map_err(|sentence| CliError::Usage(format!("--sink: {sentence}")))?;
    let trust = tls_of(&args.trust)?;
    let tls = certificates(args)?;
    // The address first: a taken port should not cost the replay of a long log.
    let listener = listen(&args.listen)?;
    let config = engine_config(args, &trust)?;
    let address = listener.local_addr()?;
    check_exposure(args, address, tls.is_some())?;
    let mut server = server_config(args, &config)?;
    server.tls.clone_from(&tls);
    let scheme = if tls.is_some() { "https" } else { "http" };
    // A worker for each core: light queries are answered by them.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_stack_size(somersault_server::STACK_BYTES)
        .enable_all()
        .build()?;
    listener.set_nonblocking(true)?;
    let listener = {
        let _entered = runtime.enter();
        tokio::net::TcpListener::from_std(listener)?
    };
    if let Some(folder) = &args.data {
        eprintln!(
            "opening {}; /health at {address} shows the progress",
            folder.display()
        );
    }
    let engine = runtime.block_on(open(config, &listener, tls.clone()))?;
    let connectors = Connectors::open(&engine, args.data.as_deref(), &args.sink, &trust);
    let connectors = connectors.map_err(|error: ConnectError| {
        CliError::Failed(format!("sources and sinks cannot be started: {error}"))
    })?;
    server.connectors = Some(connectors.clone());
    let served = runtime.block_on(async {
        let stop = stop_signal(tls);
        eprintln!("Somersault answers at {scheme}://{address} (Ctrl-C stops it)");
        somersault_server::serve(engine.clone(), listener, server, stop).await
    });
    // Before the engine stops: what they have brought and delivered is acknowledged.
    connectors.stop();
    runtime.shutdown_timeout(Duration::from_secs(1));
    shut_down(&engine)?;
    eprintln!("stopped");
    Ok(served?)
}

/// Reads the certificates with which the server speaks HTTPS, if it does.
#[cfg(feature = "tls")]
fn certificates(args: &ServeArgs) -> Result<Option<Arc<Tls>>, CliError> {
    let (Some(certificate), Some(key)) = (args.tls_cert.clone(), args.tls_key.clone()) else {
        return Ok(None);
    };
    let files = somersault_server::TlsFiles {
        certificate,
        key,
        client_authorities: args.tls_client_ca.clone(),
    };
    let tls = Tls::open(files).map_err(|error| CliError::Usage(format!("--tls-cert: {error}")))?;
    Ok(Some(Arc::new(tls)))
}

/// A program that was built without TLS has no certificates.
#[cfg(not(feature = "tls"))]
fn certificates(_args: &ServeArgs) -> Result<Option<Arc<Tls>>, CliError> {
    Ok(None)
}

/// Refuses to open everything to other machines unless that is meant.
fn check_exposure(args: &ServeArgs, address: SocketAddr, has_tls: bool) -> Result<(), CliError> {
    if address.ip().to_canonical().is_loopback() {
        return Ok(());
    }
    if args.auth != AuthMode::Off {
        if !has_tls {
            eprintln!(
                "somersault: {address} is not a loopback address, and tokens are sent to it without encryption: whoever can read the network can use them. Give the server a certificate (--tls-cert, --tls-key), or let it listen on loopback behind a proxy that adds TLS (--public-url)"
            );
        }
        return Ok(());
    }
    if !args.insecure {
        return Err(CliError::Usage(format!(
            "{address} is not a loopback address, and without --auth any client that reaches it can read and write everything. Start with --auth tokens or --auth jwt, or with --insecure if that is meant"
        )));
    }
    eprintln!(
        "somersault: {address} is not a loopback address, and the server asks for no token: any client that reaches it can read and write"
    );
    Ok(())
}

/// The way in which the server finds out who sends a request.
fn auth(args: &ServeArgs) -> Result<Auth, CliError> {
    if args.tokens.is_some() && args.auth != AuthMode::Tokens {
        return Err(CliError::Usage(
            "--tokens names a file, and the server does not ask for its tokens; add --auth tokens"
                .to_owned(),
        ));
    }
    if args.auth == AuthMode::Off && (args.token_requests.is_some() || args.token_queries.is_some())
    {
        return Err(CliError::Usage(
            "--token-requests and --token-queries limit tokens, and the server does not ask for any; add --auth tokens"
                .to_owned(),
        ));
    }
    #[cfg(feature = "jwt")]
    if args.auth != AuthMode::Jwt
        && (args.jwks.is_some() || args.jwt_issuer.is_some() || args.jwt_audience.is_some())
    {
        return Err(CliError::Usage(
            "--jwks, --jwt-issuer and --jwt-audience say which tokens of an identity provider count, and the server does not ask for them; add --auth jwt"
                .to_owned(),
        ));
    }
    match args.auth {
        AuthMode::Off => Ok(Auth::Off),
        AuthMode::Tokens => tokens(args),
        #[cfg(feature = "jwt")]
        AuthMode::Jwt => jwt(args),
    }
}

/// The keys and claims of an identity provider's tokens.
#[cfg(feature = "jwt")]
fn jwt(args: &ServeArgs) -> Result<Auth, CliError> {
    use somersault_server::{Jwt, JwtOptions};
    let (Some(jwks), Some(issuer), Some(audience)) =
        (&args.jwks, &args.jwt_issuer, &args.jwt_audience)
    else {
        return Err(CliError::Usage(
            "--auth jwt needs --jwks FILE, the public keys of the identity provider, and --jwt-issuer and --jwt-audience, which tokens must name"
                .to_owned(),
        ));
    };
    let jwt = Jwt::open(JwtOptions {
        jwks: jwks.clone(),
        issuer: issuer.clone(),
        audience: audience.clone(),
        rights_claim: args.jwt_rights.clone(),
    });
    let jwt = jwt.map_err(|error| CliError::Usage(format!("--jwks: {error}")))?;
    Ok(Auth::Jwt(Arc::new(jwt)))
}

/// The file of the server's own tokens.
fn tokens(args: &ServeArgs) -> Result<Auth, CliError> {
    let file = match (&args.tokens, &args.data) {
        (Some(file), _) => TokenFile::at(file),
        (None, Some(folder)) => TokenFile::of_folder(folder),
        (None, None) => {
            return Err(CliError::Usage(
                "--auth tokens needs a place for them: --data DIR, or --tokens FILE".to_owned(),
            ));
        }
    };
    let failed = |error: TokenError| CliError::Failed(error.to_string());
    if file.list().map_err(failed)?.is_empty() {
        let place = match (&args.tokens, &args.data) {
            (None, Some(folder)) => format!("--data {}", folder.display()),
            _ => format!("--tokens {}", file.path().display()),
        };
        eprintln!(
            "somersault: there is no token yet, so every request is refused; make one with\n  somersault token create boss --right admin {place}"
        );
    }
    Ok(Auth::Tokens(Arc::new(Tokens::open(file).map_err(failed)?)))
}

/// Opens the engine while the address already says how far that is; on a terminal a bar says so
/// too.
async fn open(
    config: EngineConfig,
    listener: &tokio::net::TcpListener,
    tls: Option<Arc<Tls>>,
) -> Result<Engine, CliError> {
    let progress = Arc::new(OpenProgress::default());
    let bar = files::byte_bar();
    let shown = tokio::spawn({
        let (bar, progress) = (bar.clone(), Arc::clone(&progress));
        async move {
            loop {
                bar.set_length(progress.total_bytes());
                bar.set_position(progress.done_bytes());
                bar.set_message(match progress.phase() {
                    OpenPhase::Begun => "",
                    OpenPhase::Checkpoint => "of the checkpoint",
                    OpenPhase::Log => "of the log",
                });
                tokio::time::sleep(BAR_PAUSE).await;
            }
        }
    });
    let opening = tokio::task::spawn_blocking({
        let progress = Arc::clone(&progress);
        move || Engine::open_reporting(config, &progress)
    });
    let opened = somersault_server::serve_while_opening(listener, tls, progress, opening).await;
    shown.abort();
    bar.finish_and_clear();
    Ok(opened.map_err(|error| CliError::failed("the engine could not be opened", error))??)
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

fn server_config(args: &ServeArgs, engine: &EngineConfig) -> Result<ServerConfig, CliError> {
    let mut config = ServerConfig::with_limits(&engine.limits);
    config.auth = auth(args)?;
    config.sender_requests = args.token_requests;
    config.sender_queries = args.token_queries.map(usize::from);
    config.cors = match args.cors.as_slice() {
        [] => Cors::Off,
        origins if origins.iter().any(|origin| origin == "*") => Cors::Any,
        origins => Cors::Origins(origins.to_vec()),
    };
    config.public_url.clone_from(&args.public_url);
    config.allowed_hosts.clone_from(&args.allowed_host);
    Ok(config)
}

/// The client of SERVICE and LOAD.
fn remote(args: &ServeArgs, trust: &ClientTls) -> Result<Option<Arc<dyn Remote>>, CliError> {
    if !args.allow_remote {
        return Ok(None);
    }
    let remote = match args.remote_host.as_slice() {
        [] => HttpRemote::new(),
        hosts => HttpRemote::to_hosts(hosts.iter().map(String::as_str))
            .map_err(|said| CliError::Usage(format!("--remote-host: {said}")))?,
    };
    Ok(Some(Arc::new(remote.with_tls(trust))))
}

fn engine_config(args: &ServeArgs, trust: &ClientTls) -> Result<EngineConfig, CliError> {
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
    if let Some(bytes) = args.inflight_bytes {
        limits.inflight_bytes = bytes;
    }
    if let Some(bytes) = args.superseded_bytes {
        limits.superseded_bytes = bytes;
    }
    if let Some(bytes) = args.text_bytes {
        limits.query_text_bytes = bytes;
    }
    let mut checkpoints = CheckpointConfig::default();
    if let Some(target) = args.recovery_target {
        checkpoints.recovery_target = target;
    }
    if let Some(bytes) = args.checkpoint_every {
        checkpoints.log_bytes = bytes;
    }
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    Ok(EngineConfig {
        data: args.data.clone(),
        workers: args.workers,
        query_threads: args.query_threads.map_or(cores, usize::from),
        limits,
        default_namespace: args.namespace.clone(),
        freshness: Duration::from_millis(args.freshness_ms),
        checkpoints,
        allow_remote: args.allow_remote,
        remote: remote(args, trust)?,
        ..EngineConfig::default()
    })
}
