//! This engine as a contender: in this process, and behind its own HTTP server on the same data.

use crate::harness::affinity::OneCore;
use crate::harness::contender::{Burst, Contender, Figure, Loaded, NoTime};
use crate::harness::http::{Client, Style};
use crate::harness::machine;
use somersault::{
    Answer, AnswerKind, Engine, EngineConfig, EngineError, LimitKind, LoadOptions, QueryOptions,
    RdfFormat,
};
use somersault_server::{Running, ServerConfig};
use std::error::Error;
use std::fs::File;
use std::hint::black_box;
use std::io::{BufReader, Read};
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

/// Its name in tables and in result files.
pub(crate) const NAME: &str = "somersault";

/// This engine, with a client of its server.
pub(crate) struct Somersault {
    engine: Engine,
    client: Client,
    // Dropped after the client, so that no connection is open when it stops.
    _server: Running,
}

impl Somersault {
    /// An empty engine in memory, with its server on a free port.
    pub(crate) fn start() -> Result<Somersault, Box<dyn Error + Send + Sync>> {
        let engine = Engine::open(configuration())?;
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let server = Running::start(engine.clone(), listener, ServerConfig::default())?;
        let client = Client::new(&server.url(), "/sparql", Style::Direct)?;
        Ok(Somersault {
            engine,
            client,
            _server: server,
        })
    }
}

impl Somersault {
    /// From the query's text to the text of every term of the answer.
    fn answer(
        &self,
        text: &str,
        runs: usize,
        options: &QueryOptions,
    ) -> Result<Burst, EngineError> {
        let mut times = Vec::with_capacity(runs);
        let mut rows = 0;
        for _ in 0..runs {
            let start = Instant::now();
            let results = self.engine.query(text).options(options).run()?;
            rows = read_all(&results.answer);
            times.push(start.elapsed());
        }
        Ok(Burst { rows, times })
    }
}

/// Executions of a prepared query: from its plan to its bindings.
pub(crate) fn execute(
    engine: &Engine,
    text: &str,
    runs: usize,
    options: &QueryOptions,
) -> Result<Burst, EngineError> {
    let prepared = engine.query(text).options(options).prepare(&[])?;
    let mut results = prepared.execute(&[])?;
    let mut times = Vec::with_capacity(runs);
    for _ in 0..runs {
        prepared.execute_into(&[], &mut results)?;
        times.push(results.execution);
    }
    Ok(Burst {
        rows: results.answer.len() as u64,
        times,
    })
}

/// The configuration of all measurements of one-shot queries: everything in memory, one shard.
pub(crate) fn configuration() -> EngineConfig {
    EngineConfig {
        workers: 1,
        ..EngineConfig::default()
    }
}

/// Loads N-Triples into the default graph, compressed if the name ends in `.zst`; returns the
/// distinct triples.
pub(crate) fn load(engine: &Engine, data: &Path) -> Result<u64, Box<dyn Error + Send + Sync>> {
    let file = File::open(data)
        .map_err(|error| format!("{} cannot be opened: {error}", data.display()))?;
    let reader: Box<dyn Read> = if data.extension().is_some_and(|kind| kind == "zst") {
        Box::new(zstd::Decoder::new(file)?)
    } else {
        Box::new(BufReader::with_capacity(1 << 20, file))
    };
    let summary = engine.load(reader, RdfFormat::NTriples, LoadOptions::default())?;
    Ok(summary.stored)
}

/// Reads the text of every term of an answer; returns the rows.
pub(crate) fn read_all(answer: &Answer) -> u64 {
    match answer.kind() {
        AnswerKind::Boolean => 1,
        AnswerKind::Solutions => {
            let mut rows = 0;
            let mut cursor = answer.cursor();
            while let Some(row) = cursor.next_row() {
                row.cells().for_each(|cell| {
                    black_box(cell);
                });
                rows += 1;
            }
            rows
        }
        AnswerKind::Graph => answer.triples().map(black_box).count() as u64,
        AnswerKind::Dataset => answer.quads().iter().map(black_box).count() as u64,
    }
}

impl Contender for Somersault {
    fn name(&self) -> &str {
        NAME
    }

    fn version(&self) -> &str {
        env!("CARGO_PKG_VERSION")
    }

    fn figures(&self) -> Vec<Figure> {
        vec![Figure::Engine, Figure::Embedded, Figure::Http]
    }

    fn load(&mut self, data: &Path) -> Result<Loaded, String> {
        let start = Instant::now();
        let triples = load(&self.engine, data).map_err(|error| error.to_string())?;
        Ok(Loaded {
            triples,
            took: Some(start.elapsed()),
        })
    }

    fn run(
        &mut self,
        figure: Figure,
        text: &str,
        runs: usize,
        limit: Duration,
    ) -> Result<Burst, NoTime> {
        if figure == Figure::Http {
            return self.client.run(text, runs, limit);
        }
        let options = QueryOptions {
            timeout: Some(limit),
            ..QueryOptions::default()
        };
        // The figures of the engine and of embedding are of one thread.
        let _one_core = OneCore::keep();
        match figure {
            Figure::Engine => execute(&self.engine, text, runs, &options),
            _ => self.answer(text, runs, &options),
        }
        .map_err(failure)
    }

    fn resident_bytes(&self) -> u64 {
        machine::resident_bytes()
    }
}

fn failure(error: EngineError) -> NoTime {
    match error {
        EngineError::Limit {
            which: LimitKind::QueryTime,
            ..
        } => NoTime::OverTime,
        other => NoTime::Refused(other.to_string()),
    }
}
