//! A suite as it is on disk: the README of the test data says what each field means.

use crate::error::SuiteError;
use flate2::read::GzDecoder;
use oxrdf::{GraphName, NamedNode, Quad};
use oxttl::NTriplesParser;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use somersault_lines::{Message, MessageLimits, MessageReader, MessageSyntax};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

/// How fast inputs go in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pace {
    /// As fast as they will; checks and steps that are no pushes wait for what is due.
    Free,
    /// What is due ends after each step, and without steps after each message.
    Settled,
    /// Nothing waits before the end; only what always holds is looked at.
    Racing,
}

/// Which recovery dataflows are declared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecoveryText {
    /// The one that is written.
    AsWritten,
    /// STRONG, also where WEAK is written.
    Strong,
    /// WEAK, also where STRONG is written.
    Weak,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SuiteFile {
    name: String,
    kind: String,
    format: u64,
    pace: Pace,
    #[serde(default)]
    stored: Vec<StoredFile>,
    #[serde(default)]
    declare: Vec<String>,
    #[serde(default)]
    inputs: Vec<InputFile>,
    steps: Option<String>,
    answers: Option<String>,
    #[serde(default)]
    checks: Vec<CheckFile>,
    #[serde(default)]
    always: Vec<QueryFile>,
    #[serde(default)]
    emitted: Vec<EmittedFile>,
    #[serde(default)]
    aborted: Vec<AbortedFile>,
    // For people, and for what made the suite.
    #[serde(rename = "about")]
    _about: Option<Value>,
    #[serde(rename = "workload")]
    _workload: Option<Value>,
    #[serde(rename = "parameters")]
    _parameters: Option<Value>,
    #[serde(rename = "assumes")]
    _assumes: Option<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredFile {
    graph: Option<String>,
    file: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct InputFile {
    name: String,
    stream: String,
    file: String,
    format: String,
    messages: usize,
    source: String,
    first_seq: u64,
    #[serde(default)]
    interior: bool,
    #[serde(rename = "timestamp")]
    _timestamp: Option<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckFile {
    name: String,
    query: String,
    after: After,
    expected: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum After {
    Messages(Vec<u64>),
    Steps(Vec<u64>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct QueryFile {
    name: String,
    query: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EmittedFile {
    stream: String,
    expected: String,
    #[serde(default)]
    hash: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AbortedFile {
    dataflow: String,
    expected: String,
}

/// A suite.
#[derive(Debug)]
pub struct TransactionSuite {
    path: PathBuf,
    file: SuiteFile,
    recovery: RecoveryText,
    /// Words of declarations that others stand for.
    planted: Option<(String, String)>,
}

/// An input of a suite.
#[derive(Debug)]
pub(crate) struct SuiteInput {
    pub(crate) name: String,
    pub(crate) stream: String,
    pub(crate) source: String,
    pub(crate) first_seq: u64,
    pub(crate) syntax: MessageSyntax,
    /// Whether the stream takes no push.
    pub(crate) is_interior: bool,
    pub(crate) messages: Vec<Message>,
}

/// The places of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Point {
    /// After this number of messages of the one input.
    Messages(u64),
    /// After a step.
    Step(u64),
}

impl std::fmt::Display for Point {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Point::Messages(count) => write!(f, "after {count} messages"),
            Point::Step(number) => write!(f, "after step {number}"),
        }
    }
}

/// A query with what it must answer at some points.
#[derive(Debug)]
pub(crate) struct SuiteCheck {
    pub(crate) name: String,
    pub(crate) query: String,
    pub(crate) expected: Vec<(Point, Value)>,
}

/// A query that is true in every state.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AlwaysQuery {
    /// Its name.
    pub name: String,
    /// Its text, an ASK.
    pub text: String,
}

/// A call of a procedure.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcedureCall {
    /// The procedure.
    #[serde(rename = "call")]
    pub procedure: String,
    /// The arguments by name, as the HTTP interface takes them.
    #[serde(default)]
    pub args: serde_json::Map<String, Value>,
    /// The source and the number under which it is remembered.
    #[serde(default, deserialize_with = "key_of_call")]
    pub key: Option<(String, u64)>,
    #[serde(default, rename = "oracle")]
    _oracle: Value,
    #[serde(default, rename = "why")]
    _why: Value,
}

fn key_of_call<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<(String, u64)>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let key = text.rsplit_once('/').and_then(|(source, number)| {
        let number = number.parse().ok()?;
        Some((source.to_owned(), number))
    });
    match key {
        Some(key) => Ok(Some(key)),
        None => Err(serde::de::Error::custom(format!(
            "the key `{text}` is not source/number"
        ))),
    }
}

/// A step of a suite.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    Push(PushStep),
    Advance(Vec<String>, i64),
    Call(ProcedureCall),
    Calls(Vec<ProcedureCall>),
    Update(String),
    Statement(String),
    State(String),
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PushStep {
    #[serde(rename = "push")]
    pub(crate) input: String,
    pub(crate) messages: usize,
    /// The first message, from 1; without it, the one behind the last that was named.
    #[serde(default)]
    pub(crate) from: Option<usize>,
    /// The number of the first message in place of its own.
    #[serde(default)]
    pub(crate) seq: Option<u64>,
    #[serde(default, rename = "oracle")]
    _oracle: Value,
    #[serde(default, rename = "why")]
    _why: Value,
}

/// What the other steps have, of which each has one, or two.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct OtherStep {
    advance: Option<Vec<String>>,
    to_ms: Option<i64>,
    calls: Option<Vec<ProcedureCall>>,
    update: Option<String>,
    statement: Option<String>,
    state: Option<String>,
    #[serde(rename = "oracle")]
    _oracle: Value,
    #[serde(rename = "why")]
    _why: Value,
}

impl Step {
    fn read(line: &Value) -> Result<Step, String> {
        let of_line = |error: serde_json::Error| format!("{error} in the step {line}");
        if line.get("push").is_some() {
            return PushStep::deserialize(line).map(Step::Push).map_err(of_line);
        }
        if line.get("call").is_some() {
            let call = ProcedureCall::deserialize(line);
            return call.map(Step::Call).map_err(of_line);
        }
        let step = OtherStep::deserialize(line).map_err(of_line)?;
        Ok(match step {
            OtherStep {
                advance: Some(streams),
                to_ms: Some(to_ms),
                ..
            } => Step::Advance(streams, to_ms),
            OtherStep {
                calls: Some(calls), ..
            } => Step::Calls(calls),
            OtherStep {
                update: Some(text), ..
            } => Step::Update(text),
            OtherStep {
                statement: Some(text),
                ..
            } => Step::Statement(text),
            OtherStep {
                state: Some(name), ..
            } => Step::State(name),
            _ => return Err(format!("the step {line} is of no kind that is known")),
        })
    }
}

impl TransactionSuite {
    /// Opens a suite.
    ///
    /// # Errors
    /// The file cannot be read, is no suite of this kind, or has a field that is not known.
    pub fn open(path: &Path) -> Result<TransactionSuite, SuiteError> {
        let file: SuiteFile = serde_json::from_str(&text_of(path)?)
            .map_err(|error| SuiteError::broken(path, error))?;
        match (file.kind.as_str(), file.format) {
            ("transactions", 1) => Ok(TransactionSuite {
                path: path.to_owned(),
                file,
                recovery: RecoveryText::AsWritten,
                planted: None,
            }),
            (kind, format) => Err(SuiteError::broken(
                path,
                format!("is of kind `{kind}`, format {format}; this runs `transactions`, format 1"),
            )),
        }
    }

    /// The suite with another recovery of its dataflows: one word of their texts is replaced.
    #[must_use]
    pub fn with_recovery(self, recovery: RecoveryText) -> TransactionSuite {
        TransactionSuite { recovery, ..self }
    }

    /// The suite with a mistake: words of its declarations are replaced by others. A run of it must
    /// find differences.
    ///
    /// # Errors
    /// No declaration has the words.
    pub fn planted(self, words: &str, others: &str) -> Result<TransactionSuite, SuiteError> {
        let declared = self.declarations()?;
        match declared.iter().any(|text| text.contains(words)) {
            true => Ok(TransactionSuite {
                planted: Some((words.to_owned(), others.to_owned())),
                ..self
            }),
            false => Err(self.broken(format!("no declaration has `{words}`"))),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.file.name
    }

    /// How fast inputs go in.
    pub fn pace(&self) -> Pace {
        self.file.pace
    }

    pub(crate) fn broken(&self, reason: impl ToString) -> SuiteError {
        SuiteError::broken(&self.path, reason)
    }

    fn path_of(&self, name: &str) -> PathBuf {
        self.path.parent().unwrap_or(Path::new(".")).join(name)
    }

    fn text(&self, name: &str) -> Result<String, SuiteError> {
        text_of(&self.path_of(name))
    }

    fn lines<T: DeserializeOwned>(&self, name: &str) -> Result<Vec<T>, SuiteError> {
        let text = self.text(name)?;
        let lines = (1..).zip(text.lines()).map(|(number, line)| {
            serde_json::from_str(line).map_err(|error| {
                SuiteError::broken(&self.path_of(name), format!("line {number}: {error}"))
            })
        });
        lines.collect()
    }

    /// The stored statements.
    pub(crate) fn stored(&self) -> Result<Vec<Quad>, SuiteError> {
        let mut quads = Vec::new();
        for stored in &self.file.stored {
            let broken = |error: &dyn ToString| {
                SuiteError::broken(&self.path_of(&stored.file), error.to_string())
            };
            let graph = match &stored.graph {
                Some(name) => NamedNode::new(name).map_err(|error| broken(&error))?.into(),
                None => GraphName::DefaultGraph,
            };
            let text = self.text(&stored.file)?;
            for triple in NTriplesParser::new().for_slice(text.as_bytes()) {
                let triple = triple.map_err(|error| broken(&error))?;
                quads.push(triple.in_graph(graph.clone()));
            }
        }
        Ok(quads)
    }

    /// The statements that declare streams and procedures.
    pub(crate) fn declarations(&self) -> Result<Vec<String>, SuiteError> {
        let texts = self.file.declare.iter().map(|name| {
            let text = self.text(name)?;
            let text = match &self.planted {
                Some((words, others)) => text.replace(words, others),
                None => text,
            };
            Ok(self.in_recovery(text))
        });
        texts.collect()
    }

    /// A statement with the recovery that dataflows are to have.
    fn in_recovery(&self, text: String) -> String {
        let (from, to) = match self.recovery {
            RecoveryText::AsWritten => return text,
            RecoveryText::Strong => ("WEAK", "STRONG"),
            RecoveryText::Weak => ("STRONG", "WEAK"),
        };
        let mut parts = text.split("RECOVERY");
        let mut replaced = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            replaced.push_str("RECOVERY");
            let word = part.trim_start();
            match word.strip_prefix(from) {
                Some(rest) => {
                    replaced.push_str(&part[..part.len() - word.len()]);
                    replaced.push_str(to);
                    replaced.push_str(rest);
                }
                None => replaced.push_str(part),
            }
        }
        replaced
    }

    pub(crate) fn inputs(&self) -> Result<BTreeMap<String, SuiteInput>, SuiteError> {
        let inputs = self.file.inputs.iter().map(|input| {
            let syntax = match input.format.as_str() {
                "n-triples" => MessageSyntax::NTriples,
                "n-quads" => MessageSyntax::NQuads,
                "turtle" => MessageSyntax::Turtle,
                "trig" => MessageSyntax::TriG,
                "ndjson-ld" => MessageSyntax::NdJsonLd,
                other => return Err(self.broken(format!("the format `{other}` is not known"))),
            };
            let limits = MessageLimits {
                bytes: 1 << 20,
                statements: 100_000,
            };
            let bytes = self.text(&input.file)?.into_bytes();
            let reader = MessageReader::new(bytes.as_slice(), syntax, limits);
            let messages: Result<Vec<Message>, _> = reader.collect();
            let path = self.path_of(&input.file);
            let messages = messages.map_err(|error| SuiteError::broken(&path, error))?;
            if messages.len() != input.messages {
                let (found, said) = (messages.len(), input.messages);
                let reason = format!("has {found} messages, and the suite says {said}");
                return Err(SuiteError::broken(&path, reason));
            }
            let input = SuiteInput {
                name: input.name.clone(),
                stream: input.stream.clone(),
                source: input.source.clone(),
                first_seq: input.first_seq,
                syntax,
                is_interior: input.interior,
                messages,
            };
            Ok((input.name.clone(), input))
        });
        inputs.collect()
    }

    /// The steps. Without any, the one input is pushed from its first message to its last.
    pub(crate) fn steps(&self) -> Result<Option<Vec<Step>>, SuiteError> {
        let Some(name) = &self.file.steps else {
            return Ok(None);
        };
        let lines: Vec<Value> = self.lines(name)?;
        let steps = lines.iter().map(|line| {
            let step = Step::read(line);
            let step = step.map_err(|reason| SuiteError::broken(&self.path_of(name), reason))?;
            Ok(match step {
                Step::Statement(text) => Step::Statement(self.in_recovery(text)),
                other => other,
            })
        });
        steps.collect::<Result<_, _>>().map(Some)
    }

    /// What steps must answer, by their numbers.
    pub(crate) fn answers(&self) -> Result<BTreeMap<u64, Value>, SuiteError> {
        let Some(name) = &self.file.answers else {
            return Ok(BTreeMap::new());
        };
        let lines: Vec<Value> = self.lines(name)?;
        let answers = lines.into_iter().map(|line| {
            let step = line["step"].as_u64();
            let step = step.ok_or_else(|| {
                let reason = format!("the answer {line} says of no step that it is its");
                SuiteError::broken(&self.path_of(name), reason)
            })?;
            Ok((step, line))
        });
        answers.collect()
    }

    pub(crate) fn checks(&self) -> Result<Vec<SuiteCheck>, SuiteError> {
        let checks = self.file.checks.iter().map(|check| {
            let points: Vec<Point> = match &check.after {
                After::Messages(list) => list.iter().copied().map(Point::Messages).collect(),
                After::Steps(list) => list.iter().copied().map(Point::Step).collect(),
            };
            let expected: Vec<Value> = self.lines(&check.expected)?;
            if expected.len() != points.len() {
                let (lines, points) = (expected.len(), points.len());
                let reason = format!("has {lines} answers for {points} points");
                return Err(SuiteError::broken(&self.path_of(&check.expected), reason));
            }
            Ok(SuiteCheck {
                name: check.name.clone(),
                query: self.text(&check.query)?,
                expected: points.into_iter().zip(expected).collect(),
            })
        });
        checks.collect()
    }

    /// Queries that are true in every state.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn always(&self) -> Result<Vec<AlwaysQuery>, SuiteError> {
        let queries = self.file.always.iter().map(|check| {
            Ok(AlwaysQuery {
                name: check.name.clone(),
                text: self.text(&check.query)?,
            })
        });
        queries.collect()
    }

    /// The messages of interior streams: the stream, whether only their hash is given, and the
    /// lines.
    pub(crate) fn emitted(&self) -> Result<Vec<(String, bool, Vec<Value>)>, SuiteError> {
        let streams = self.file.emitted.iter().map(|emitted| {
            let lines = self.lines(&emitted.expected)?;
            Ok((emitted.stream.clone(), emitted.hash, lines))
        });
        streams.collect()
    }

    /// The aborted transactions of dataflows.
    pub(crate) fn aborted(&self) -> Result<Vec<(String, Vec<Value>)>, SuiteError> {
        let dataflows = self.file.aborted.iter().map(|aborted| {
            let lines = self.lines(&aborted.expected)?;
            Ok((aborted.dataflow.clone(), lines))
        });
        dataflows.collect()
    }
}

fn text_of(path: &Path) -> Result<String, SuiteError> {
    let failed = |source: std::io::Error| SuiteError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let bytes = std::fs::read(path).map_err(failed)?;
    let mut text = String::new();
    match path.extension().is_some_and(|extension| extension == "gz") {
        true => GzDecoder::new(bytes.as_slice()).read_to_string(&mut text),
        false => bytes.as_slice().read_to_string(&mut text),
    }
    .map_err(failed)?;
    Ok(text)
}
