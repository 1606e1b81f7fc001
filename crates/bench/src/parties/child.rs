//! This engine in a process of its own, so that its memory and its processor time can be told from
//! the bench's. It speaks the same lines as the peers (`bench/peers/README.md`); its times are
//! those of the engine alone.

use crate::parties::ours::{self, configuration};
use somersault::{Engine, QueryOptions};
use somersault_server::{Running, ServerConfig};
use std::error::Error;
use std::io::{self, BufRead, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

/// Answers commands until there are no more.
pub(crate) fn run() -> Result<(), String> {
    let engine = Engine::open(configuration()).map_err(|error| error.to_string())?;
    let mut server = None;
    let mut commands = io::stdin().lock();
    let mut line = String::new();
    loop {
        line.clear();
        let read = commands.read_line(&mut line);
        if read.map_err(|error| format!("no command can be read: {error}"))? == 0 {
            return Ok(());
        }
        let said = answer(&engine, &mut server, line.trim_end(), &mut commands)
            .unwrap_or_else(|error| format!("failed {}", error.to_string().replace('\n', " ")));
        println!("{said}");
        io::stdout()
            .flush()
            .map_err(|error| format!("the answers are not read: {error}"))?;
    }
}

fn answer(
    engine: &Engine,
    server: &mut Option<Running>,
    line: &str,
    commands: &mut impl Read,
) -> Result<String, Box<dyn Error + Send + Sync>> {
    match line.split_once(' ').unwrap_or((line, "")) {
        ("load", path) => {
            let start = Instant::now();
            let triples = ours::load(engine, Path::new(path))?;
            Ok(format!("loaded {triples} {}", start.elapsed().as_nanos()))
        }
        ("query", numbers) => {
            let numbers: Vec<u64> = numbers
                .split_whitespace()
                .map(str::parse)
                .collect::<Result<_, _>>()?;
            let [runs, limit_ms, bytes] = numbers[..] else {
                return Err("query has three numbers".into());
            };
            let mut text = String::new();
            commands.take(bytes).read_to_string(&mut text)?;
            let options = QueryOptions {
                timeout: Some(Duration::from_millis(limit_ms)),
                ..QueryOptions::default()
            };
            let burst = ours::execute(engine, &text, usize::try_from(runs)?, &options)?;
            let times: Vec<String> = burst
                .times
                .iter()
                .map(|time| time.as_nanos().to_string())
                .collect();
            Ok(format!("rows {} {}", burst.rows, times.join(" ")))
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
