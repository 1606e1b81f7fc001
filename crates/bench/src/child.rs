//! This engine in a process of its own, so that its memory and its processor time can be told from the bench's. It speaks the
//! same lines as the peers (`bench/peers/README.md`), as far as the bench asks them of it: `load` and `endpoint`.

use crate::ours::{self, configuration};
use somersault::Engine;
use somersault_server::{Running, ServerConfig};
use std::error::Error;
use std::io::{self, BufRead, Write};
use std::net::TcpListener;
use std::path::Path;
use std::time::Instant;

/// Answers commands until there are no more.
pub(crate) fn run() -> Result<(), String> {
    let engine = Engine::open(configuration()).map_err(|error| error.to_string())?;
    let mut server = None;
    for line in io::stdin().lock().lines() {
        let line = line.map_err(|error| format!("no command can be read: {error}"))?;
        let said = answer(&engine, &mut server, &line)
            .unwrap_or_else(|error| format!("failed {}", error.to_string().replace('\n', " ")));
        println!("{said}");
        io::stdout()
            .flush()
            .map_err(|error| format!("nobody reads the answers: {error}"))?;
    }
    Ok(())
}

fn answer(
    engine: &Engine,
    server: &mut Option<Running>,
    line: &str,
) -> Result<String, Box<dyn Error + Send + Sync>> {
    match line.split_once(' ').unwrap_or((line, "")) {
        ("load", path) => {
            let start = Instant::now();
            let triples = ours::load(engine, Path::new(path))?;
            Ok(format!("loaded {triples} {}", start.elapsed().as_nanos()))
        }
        ("endpoint", _) => {
            let running = match server.take() {
                Some(running) => running,
                None => {
                    let listener = TcpListener::bind("127.0.0.1:0")?;
                    Running::start(engine.clone(), listener, ServerConfig::default())?
                }
            };
            let url = running.url();
            *server = Some(running);
            Ok(format!("endpoint {url}/sparql"))
        }
        (other, _) => Err(format!("no command {other}").into()),
    }
}
