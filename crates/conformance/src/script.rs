//! Cases by name: known mistakes of other engines, each a small script of inputs and of the answers
//! that the engine must give.
//!
//! A script is blocks between empty lines; `#` begins a comment. Its IRIs are written `:a`. A block
//! is one of
//! - `CREATE STREAM`, `REGISTER`, `DROP QUERY`, `PAUSE QUERY`, `RESUME QUERY`, `INSERT`, `DELETE`:
//!   as the engine is given it;
//! - `PUSH :s [BY source]`, then a line `time subject predicate object .` for each statement;
//! - `ADVANCE :s time …`: a heartbeat of these streams, in one record;
//! - `REFUSED`, then one of the above, which the engine must refuse;
//! - `WAITS query FOR :s`, `WAITS query`: what the engine says holds the query up, if anything;
//! - `FIRES query close`, then a line for each row (`-` for no value, numbers as numbers): the
//!   query's next firing, in any order of rows; with `AGAIN` behind the close, one that late
//!   statements have amended;
//! - `BY THE CLOCK`, at the beginning: streams that are silent go on by the machine's clock, so
//!   that firings may follow the last one named.
//!
//! In all other scripts a firing that is not named is a fault.

use crate::error::ConformanceError;
use oxrdf::{GraphName, Literal, Quad, Term};
use oxrdfio::{RdfFormat, RdfParser};
use somersault::{
    Answer, AnswerKind, Clock, Engine, EngineConfig, EngineError, EventTime, FabricKind, Push,
    RecvTimeoutError, StreamStatement, SubscribeOptions, Subscription, SubscriptionEvent,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

const NS: &str = "http://example.org/cases/";
/// The longest time that a firing may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A script that was read.
#[derive(Debug, Clone)]
pub struct Script {
    /// Its file's name without the ending.
    pub name: String,
    blocks: Vec<Block>,
}

#[derive(Debug, Clone)]
struct Block {
    /// The line at which it begins in its file.
    line: usize,
    lines: Vec<String>,
}

/// The layout that a script runs on.
#[derive(Debug, Clone, Copy)]
pub struct ScriptOptions {
    /// The number of shards.
    pub shards: u16,
    /// The seed of the simulated fabric; `None` is timely.
    pub simulated: Option<u64>,
}

impl Script {
    /// Reads a script.
    ///
    /// # Errors
    /// The file cannot be read, or is empty.
    pub fn read(path: &Path) -> Result<Self, ConformanceError> {
        let text =
            std::fs::read_to_string(path).map_err(|source| ConformanceError::Unreadable {
                path: path.to_owned(),
                source,
            })?;
        let mut blocks: Vec<Block> = Vec::new();
        let mut is_open = false;
        for (at, line) in text.lines().enumerate() {
            if line.starts_with('#') {
                continue;
            }
            if line.trim().is_empty() {
                is_open = false;
            } else if is_open && let Some(block) = blocks.last_mut() {
                block.lines.push(line.to_owned());
            } else {
                is_open = true;
                blocks.push(Block {
                    line: at + 1,
                    lines: vec![line.to_owned()],
                });
            }
        }
        if blocks.is_empty() {
            return Err(ConformanceError::broken(path, "the block is empty"));
        }
        let stem = path.file_stem().unwrap_or_default();
        Ok(Self {
            name: stem.to_string_lossy().into_owned(),
            blocks,
        })
    }

    /// Runs it on a new engine.
    ///
    /// # Errors The first block whose outcome is not the stated one, with the actual outcome.
    pub fn run(&self, options: ScriptOptions) -> Result<(), String> {
        let by_the_clock = self.blocks[0].lines == ["BY THE CLOCK"];
        let config = EngineConfig {
            workers: options.shards,
            fabric: (options.simulated)
                .map_or(FabricKind::Timely, |seed| FabricKind::Simulated { seed }),
            clock: if by_the_clock {
                Clock::System
            } else {
                Clock::Manual
            },
            ..EngineConfig::default()
        };
        let engine = Engine::open(config).map_err(|error| format!("{}: {error}", self.name))?;
        let mut stage = Stage {
            engine,
            subscriptions: BTreeMap::new(),
        };
        for block in &self.blocks[usize::from(by_the_clock)..] {
            (stage.act(&block.lines))
                .map_err(|fault| format!("{}, line {}: {fault}", self.name, block.line))?;
        }
        if !by_the_clock {
            stage
                .has_ended()
                .map_err(|fault| format!("{}, at its end: {fault}", self.name))?;
        }
        stage
            .engine
            .shutdown()
            .map_err(|error| format!("{}: {error}", self.name))
    }
}

/// The engine of a script, and the subscribers of its queries.
struct Stage {
    engine: Engine,
    subscriptions: BTreeMap<String, Subscription>,
}

impl Stage {
    fn act(&mut self, lines: &[String]) -> Result<(), String> {
        let head: Vec<&str> = lines[0].split_whitespace().collect();
        match head[..] {
            ["REFUSED"] if lines.len() > 1 => match self.tell(&lines[1..])? {
                Ok(()) => Err("it was not refused".to_owned()),
                Err(_) => Ok(()),
            },
            ["FIRES", query, close] => self.fires(query, (number(close)?, false), &lines[1..]),
            ["FIRES", query, close, "AGAIN"] => {
                self.fires(query, (number(close)?, true), &lines[1..])
            }
            ["WAITS", query] => self.waits(query, None),
            ["WAITS", query, "FOR", stream] => self.waits(query, Some(iri(stream))),
            _ => self.tell(lines)?.map_err(|error| error.to_string()),
        }
    }

    /// Carries out one input of the script. The outer error is a mistake in the script.
    fn tell(&mut self, lines: &[String]) -> Result<Result<(), EngineError>, String> {
        let head: Vec<&str> = lines[0].split_whitespace().collect();
        let text = lines.join("\n");
        let with_prefix = format!("PREFIX : <{NS}>\n{text}");
        let engine = &self.engine;
        Ok(match head[..] {
            ["CREATE", "STREAM", ..] => engine.create_stream(None, &with_prefix).map(|_| ()),
            ["REGISTER", ..] => engine.register(None, &with_prefix).and_then(|info| {
                let subscription = engine.subscribe(&info.name, SubscribeOptions::default())?;
                self.subscriptions.insert(info.name, subscription);
                Ok(())
            }),
            ["DROP", "QUERY", query] => engine.drop_query(query),
            ["PAUSE", "QUERY", query] => engine.pause_query(query),
            ["RESUME", "QUERY", query] => engine.resume_query(query),
            ["INSERT" | "DELETE", ..] => engine.update(&with_prefix).run().map(|_| ()),
            ["PUSH", stream] => engine
                .push(&iri(stream), push(None, &lines[1..])?)
                .map(|_| ()),
            ["PUSH", stream, "BY", source] => engine
                .push(&iri(stream), push(Some(source), &lines[1..])?)
                .map(|_| ()),
            ["ADVANCE", ref to @ ..] => {
                let to: Result<Vec<(String, EventTime)>, String> = (to.chunks(2))
                    .map(|pair| match pair {
                        [stream, time] => Ok((iri(stream), EventTime(number(time)?))),
                        _ => Err("ADVANCE takes a time for each stream".to_owned()),
                    })
                    .collect();
                engine.advance(to?).map(|_| ())
            }
            _ => return Err(format!("{} begins no block of a script", lines[0])),
        })
    }

    fn waits(&self, query: &str, stream: Option<String>) -> Result<(), String> {
        let info = self
            .engine
            .query_info(query)
            .map_err(|error| error.to_string())?;
        let waiting_for = info.waiting_for.map(|progress| progress.stream);
        match waiting_for == stream {
            true => Ok(()),
            false => Err(format!("it waits for {waiting_for:?}")),
        }
    }

    /// The next firing of a query is for this close, the first or an amended one, and has these
    /// rows.
    fn fires(
        &self,
        query: &str,
        (close_ms, is_amended): (i64, bool),
        rows: &[String],
    ) -> Result<(), String> {
        let subscription = self
            .subscriptions
            .get(query)
            .ok_or_else(|| format!("no query {query} was registered"))?;
        let event = subscription
            .recv_timeout(PATIENCE)
            .map_err(|_: RecvTimeoutError| "no firing arrived".to_owned())?;
        let Some(SubscriptionEvent::Firing(firing)) = event else {
            return Err(format!("expected a firing, received {event:?}"));
        };
        let answer = firing.answer.as_ref().map_err(Clone::clone)?;
        let mut found = rows_of(answer);
        let mut expected: Vec<String> = (rows.iter())
            .map(|row| row.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        found.sort();
        expected.sort();
        let is_for = (firing.close.0, firing.revision > 0);
        match is_for == (close_ms, is_amended) && found == expected {
            true => Ok(()),
            false => Err(format!(
                "revision {} for {} has the rows {found:?}, not {expected:?}",
                firing.revision, firing.close.0
            )),
        }
    }

    /// Checks that no further firing arrives.
    fn has_ended(&self) -> Result<(), String> {
        self.engine
            .quiesce(PATIENCE)
            .map_err(|error| error.to_string())?;
        for (query, subscription) in &self.subscriptions {
            if let Some(event) = subscription.try_recv() {
                return Err(format!(
                    "{query} had an event that the script does not name: {event:?}"
                ));
            }
        }
        Ok(())
    }
}

fn iri(name: &str) -> String {
    name.strip_prefix(':')
        .map_or_else(|| name.to_owned(), |local| format!("{NS}{local}"))
}

fn number(text: &str) -> Result<i64, String> {
    text.parse()
        .map_err(|_| format!("{text} is not a time in milliseconds"))
}

fn push(source: Option<&str>, lines: &[String]) -> Result<Push, String> {
    let statement = |line: &String| {
        let (at, triple) = line
            .trim()
            .split_once(' ')
            .ok_or("a statement is a time and a triple")?;
        let text = format!("PREFIX : <{NS}> {triple}");
        let mut quads = RdfParser::from_format(RdfFormat::TriG).for_slice(text.as_bytes());
        let quad: Quad =
            (quads.next().ok_or("no triple")?).map_err(|error| format!("{line}: {error}"))?;
        Ok::<_, String>(StreamStatement {
            at: Some(EventTime(number(at)?)),
            quad,
        })
    };
    Ok(Push {
        source: source.map(str::to_owned),
        seq: None,
        statements: lines.iter().map(statement).collect::<Result<_, _>>()?,
    })
}

fn rows_of(answer: &Answer) -> Vec<String> {
    let joined = |terms: Vec<String>| terms.join(" ");
    match answer.kind() {
        AnswerKind::Boolean => vec![
            if answer.boolean() == Some(true) {
                "yes"
            } else {
                "no"
            }
            .to_owned(),
        ],
        AnswerKind::Solutions => (answer.rows())
            .map(|row| {
                joined(
                    row.iter()
                        .map(|term| term.as_ref().map_or("-".to_owned(), shown))
                        .collect(),
                )
            })
            .collect(),
        AnswerKind::Dataset => (answer.quads().iter())
            .map(|quad| {
                let graph = match &quad.graph_name {
                    GraphName::NamedNode(node) => shown(&node.clone().into()),
                    GraphName::BlankNode(node) => shown(&node.clone().into()),
                    GraphName::DefaultGraph => "-".to_owned(),
                };
                joined(vec![
                    shown(&quad.subject.clone().into()),
                    shown(&quad.predicate.clone().into()),
                    shown(&quad.object),
                    graph,
                ])
            })
            .collect(),
        AnswerKind::Graph => (answer.triples())
            .map(|triple| {
                joined(vec![
                    shown(&triple.subject.into()),
                    shown(&triple.predicate.into()),
                    shown(&triple.object),
                ])
            })
            .collect(),
    }
}

fn shown(term: &Term) -> String {
    let is_number = |literal: &Literal| literal.value().parse::<f64>().is_ok();
    match term {
        Term::NamedNode(node) => match node.as_str().strip_prefix(NS) {
            Some(local) => format!(":{local}"),
            None => node.to_string(),
        },
        Term::Literal(literal) if is_number(literal) => literal.value().to_owned(),
        other => other.to_string(),
    }
}
