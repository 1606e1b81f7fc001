//! Messages through the whole engine: the public suites as far as they are messages, on several
//! numbers of shards, against the same messages as pushes; restarts; what is refused.

use crate::support::scenario::*;
use serde_json::Value;
use somersault::oxrdf::Quad;
use somersault::{
    Engine, EngineConfig, EngineError, EventTime, MessagePush, MessageSyntax, MessageWriter,
    MessagesReceipt, Push, StreamStatement,
};
use somersault_lines::{MessageLimits, MessageReader};
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

const DAY_MS: i64 = 86_400_000;

fn push_of(seq: Option<u64>, syntax: MessageSyntax) -> MessagePush {
    MessagePush {
        source: Some("feed".to_owned()),
        seq,
        at: None,
        syntax,
    }
}

fn with_stream(clauses: &str) -> Engine {
    let engine = engine();
    declare(&engine, clauses);
    engine
}

fn declare(engine: &Engine, clauses: &str) {
    let text = format!("CREATE STREAM <{NS}s> IDLE NEVER {clauses}");
    engine.create_stream(None, &text).unwrap();
}

fn push_turtle(engine: &Engine, seq: Option<u64>, text: &str) -> MessagesReceipt {
    let text = format!("PREFIX : <{NS}>\n{text}");
    let push = push_of(seq, MessageSyntax::Turtle);
    engine
        .push_messages(&format!("{NS}s"), push, text.as_bytes())
        .unwrap()
}

/// A suite, as far as it is messages for streams that clients fill.
struct Suite {
    folder: PathBuf,
    description: Value,
    inputs: BTreeMap<String, Feed>,
}

/// The messages of one input.
struct Feed {
    stream: String,
    source: String,
    first_seq: u64,
    syntax: MessageSyntax,
    messages: Vec<Vec<Quad>>,
    next: usize,
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&bytes(path)).unwrap()
}

/// The bytes of a file, unpacked.
fn bytes(path: &Path) -> Vec<u8> {
    let bytes = std::fs::read(path).unwrap();
    if path.extension().is_none_or(|ending| ending != "gz") {
        return bytes;
    }
    let mut unpacked = Vec::new();
    let mut decoder = flate2::read::MultiGzDecoder::new(&bytes[..]);
    decoder.read_to_end(&mut unpacked).unwrap();
    unpacked
}

fn json_lines(path: &Path) -> Vec<Value> {
    let text = String::from_utf8(bytes(path)).unwrap();
    let lines = text.lines();
    lines.map(|it| serde_json::from_str(it).unwrap()).collect()
}

fn syntax_of(format: &str) -> MessageSyntax {
    match format {
        "n-triples" => MessageSyntax::NTriples,
        "n-quads" => MessageSyntax::NQuads,
        "turtle" => MessageSyntax::Turtle,
        "trig" => MessageSyntax::TriG,
        "ndjson-ld" => MessageSyntax::NdJsonLd,
        other => panic!("{other}"),
    }
}

impl Suite {
    fn read(folder: &Path) -> Suite {
        let description = json(&folder.join("suite.json"));
        let inputs = description["inputs"].as_array().unwrap().iter();
        let is_outside = |input: &&Value| input["interior"] != true;
        let inputs = inputs.filter(is_outside).map(|input| {
            let text = |name: &str| input[name].as_str().unwrap().to_owned();
            let syntax = syntax_of(&text("format"));
            let limits = MessageLimits {
                bytes: 1 << 20,
                statements: 10_000,
            };
            let file = bytes(&folder.join(text("file")));
            let reader = MessageReader::new(&file[..], syntax, limits);
            let messages = reader.map(|message| message.unwrap().statements.unwrap());
            let feed = Feed {
                stream: text("stream"),
                source: text("source"),
                first_seq: input["first_seq"].as_u64().unwrap(),
                syntax,
                messages: messages.collect(),
                next: 0,
            };
            (text("name"), feed)
        });
        Suite {
            folder: folder.to_owned(),
            inputs: inputs.collect(),
            description,
        }
    }

    /// Declares the streams that clients fill, with a query over each.
    fn declare(&self, engine: &Engine) {
        for name in self.description["declare"].as_array().unwrap() {
            let path = self.folder.join(name.as_str().unwrap());
            let text = String::from_utf8(bytes(&path)).unwrap();
            if text.contains("CREATE STREAM") && !text.contains("INTERIOR") {
                let stream = engine.create_stream(None, &text).unwrap();
                let query = format!(
                    "SELECT ?s ?p ?o FROM STREAM <{}> [RANGE 1d STEP 1d] WHERE {{ ?s ?p ?o }}",
                    stream.iri
                );
                engine.register(Some(&stream.iri), &query).unwrap();
            }
        }
    }

    /// The steps that are pushes and advances, with their numbers.
    fn steps(&self) -> Vec<(usize, Value)> {
        if let Some(steps) = self.description["steps"].as_str() {
            let steps = json_lines(&self.folder.join(steps)).into_iter();
            return steps.enumerate().map(|(at, step)| (at + 1, step)).collect();
        }
        let Some((name, feed)) = self.inputs.iter().next() else {
            return Vec::new();
        };
        let bodies = feed.messages.chunks(7);
        bodies
            .map(|body| {
                (
                    0,
                    serde_json::json!({ "push": name, "messages": body.len() }),
                )
            })
            .collect()
    }

    /// Runs the steps.
    fn run(&mut self, engine: &Engine, push: Pushing) {
        let answers = self.description["answers"].as_str();
        let answers = answers.map(|path| json_lines(&self.folder.join(path)));
        let answers: BTreeMap<u64, Value> = (answers.into_iter().flatten())
            .map(|answer| (answer["step"].as_u64().unwrap(), answer))
            .collect();
        for (number, step) in self.steps() {
            if let Some(streams) = step["advance"].as_array() {
                let to = EventTime(step["to_ms"].as_i64().unwrap());
                let streams = streams.iter().map(|stream| (stream.as_str().unwrap(), to));
                engine.advance(streams).unwrap();
            }
            let Some(name) = step["push"].as_str() else {
                continue;
            };
            let Some(feed) = self.inputs.get_mut(name) else {
                continue;
            };
            let count = step["messages"].as_u64().unwrap() as usize;
            let from = step["from"]
                .as_u64()
                .map_or(feed.next, |from| from as usize - 1);
            feed.next = feed.next.max(from + count);
            let seq = step["seq"].as_u64();
            let seq = seq.unwrap_or(feed.first_seq + from as u64);
            let outcome = push(engine, feed, seq, &feed.messages[from..from + count]);
            let [taken, repeated, refused] = &outcome;
            let context = format!("{} step {number}: {step}", self.folder.display());
            match answers.get(&(number as u64)) {
                None => assert_eq!(taken.len(), count, "{context}: {outcome:?}"),
                Some(answer) => {
                    assert_eq!(answer["taken"], taken.len(), "{context}");
                    assert_eq!(answer["repeated"], repeated.len(), "{context}");
                    let numbers = answer["refused"].as_array().unwrap().iter();
                    let numbers: Vec<u64> = numbers.filter_map(Value::as_u64).collect();
                    assert_eq!(&numbers, refused, "{context}");
                }
            }
        }
        let streams = engine.streams();
        for stream in &streams {
            let Some(EventTime(reached)) = stream.watermark else {
                continue;
            };
            let end = (reached.div_euclid(DAY_MS) + 1) * DAY_MS;
            engine.advance([(&stream.iri, EventTime(end))]).unwrap();
        }
    }
}

fn numbers(runs: &somersault::MessageNumbers) -> Vec<u64> {
    let runs = runs.runs().iter();
    runs.flat_map(|(first, last)| *first..=*last).collect()
}

fn as_messages(engine: &Engine, feed: &Feed, seq: u64, messages: &[Vec<Quad>]) -> [Vec<u64>; 3] {
    let mut writer = MessageWriter::new(Vec::new(), feed.syntax);
    for message in messages {
        writer.write(message.iter().map(Quad::as_ref)).unwrap();
    }
    let text = writer.finish().unwrap();
    let push = MessagePush {
        source: Some(feed.source.clone()),
        ..push_of(Some(seq), feed.syntax)
    };
    // In pieces of three bytes, as a slow connection brings them.
    let receipt = engine
        .push_messages(&feed.stream, push, Pieces(&text))
        .unwrap();
    assert!(receipt.ended.is_none(), "{receipt:?}");
    [&receipt.taken, &receipt.repeated, &receipt.refused].map(numbers)
}

fn as_pushes(engine: &Engine, feed: &Feed, seq: u64, messages: &[Vec<Quad>]) -> [Vec<u64>; 3] {
    let mut outcome: [Vec<u64>; 3] = Default::default();
    for (seq, message) in (seq..).zip(messages) {
        let statements = message.iter().map(|quad| StreamStatement {
            at: None,
            quad: quad.clone(),
        });
        let push = Push {
            source: Some(feed.source.clone()),
            seq: Some(seq),
            statements: statements.collect(),
        };
        let which = match engine.push(&feed.stream, push) {
            Ok(receipt) if receipt.repeated => 1,
            Ok(_) => 0,
            Err(_) => 2,
        };
        outcome[which].push(seq);
    }
    outcome
}

/// Gives three bytes at a time.
struct Pieces<'t>(&'t [u8]);

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(3);
        self.0.read(&mut buffer[..most])
    }
}

/// Pushes messages of a feed, the first of them under this number. Returns the numbers taken,
/// repeated and refused.
type Pushing = fn(&Engine, &Feed, u64, &[Vec<Quad>]) -> [Vec<u64>; 3];

/// The close of a firing, and its rows.
type Shown = (i64, Vec<String>);

/// The answers of the queries over all streams, and the counts of the streams.
fn content(engine: &Engine) -> Vec<(String, u64, Vec<Shown>)> {
    let streams = engine.streams().into_iter();
    streams
        .map(|stream| {
            (
                stream.iri.clone(),
                stream.tuples,
                firings(engine, &stream.iri, None),
            )
        })
        .collect()
}

fn suites() -> Vec<PathBuf> {
    let named = std::env::var_os("SOMERSAULT_TESTDATA").map(PathBuf::from);
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let data = named.unwrap_or(beside).join("transactions");
    if !data.is_dir() {
        println!("skipped: no test data");
        return Vec::new();
    }
    let mut folders = vec![data.join("leaderboard/tiny"), data.join("chains/ee1")];
    for of in ["batches", "windows"] {
        let entries = std::fs::read_dir(data.join(of)).unwrap();
        folders.extend(entries.map(|entry| entry.unwrap().path()));
    }
    folders.retain(|folder| folder.join("suite.json").exists());
    folders.sort();
    assert!(folders.len() > 20, "{folders:?}");
    folders
}

#[test]
fn the_messages_of_the_public_suites_are_taken_on_one_two_and_four_shards() {
    for folder in suites() {
        let run = |workers: u16, push: Pushing| {
            let config = EngineConfig {
                workers,
                ..config()
            };
            let engine = Engine::open(config).unwrap();
            let mut suite = Suite::read(&folder);
            suite.declare(&engine);
            suite.run(&engine, push);
            engine.check().unwrap();
            content(&engine)
        };
        let expected = run(2, as_pushes);
        for shards in [1, 2, 4] {
            assert_eq!(run(shards, as_messages), expected, "{}", folder.display());
        }
    }
}

#[test]
fn numbers_are_known_after_a_restart_from_the_log_and_from_a_checkpoint() {
    for has_checkpoint in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let open = || {
            let config = EngineConfig {
                data: Some(folder.path().to_owned()),
                ..config()
            };
            Engine::open(config).unwrap()
        };
        let text = ":a :at 1000 ; :p _:x .\nMESSAGE\n:b :p 2 .\nMESSAGE\n:c :at 1500 ; :p _:x .";
        let query = format!(
            "PREFIX : <{NS}> SELECT ?s FROM STREAM :s [RANGE 2s STEP 2s] WHERE {{ ?s :p ?o }}"
        );
        let engine = open();
        declare(&engine, &format!("TIMELESS TIMESTAMP <{NS}at>"));
        engine.register(Some("q"), &query).unwrap();
        let first = push_turtle(&engine, Some(1), text);
        assert_eq!(first.taken.runs(), [(1, 1), (3, 3)]);
        if has_checkpoint {
            engine.checkpoint().unwrap();
            push_turtle(&engine, Some(4), ":d :at 1600 ; :p 4 .");
        }
        drop(engine);
        let engine = open();
        let again = push_turtle(&engine, Some(1), text);
        assert_eq!(again.repeated.runs(), [(1, 1), (3, 3)]);
        assert_eq!(again.refused.runs(), [(2, 2)]);
        let later = push_turtle(&engine, Some(4), ":d :at 1600 ; :p 4 .");
        assert_eq!(later.repeated.count(), u64::from(has_checkpoint));
        advance(&engine, 2_000);
        let shown = firings(&engine, "q", None);
        assert_eq!(shown, expected(&[(2_000, &["a", "c", "d"])]));
        // A label names another node in each message.
        let labels = "SELECT (COUNT(DISTINCT ?o) AS ?n) { ?s :p ?o FILTER isBlank(?o) }";
        assert_eq!(
            ask(&engine, labels),
            ["\"2\"^^<http://www.w3.org/2001/XMLSchema#integer"]
        );
        engine.check().unwrap();
    }
}

#[test]
fn a_refused_message_says_its_number_its_place_and_the_reason() {
    let engine = with_stream(&format!("TIMESTAMP <{NS}at>"));
    let text = ":a :at 1000 .
MESSAGE
:b :p 2 .
MESSAGE
:c :at \"soon\" .
MESSAGE
:d :at 1000, 2000 .
MESSAGE
:e :at .
MESSAGE
MESSAGE
:f :at 500 .
MESSAGE
:g :at \"1970-01-01T00:00:02Z\"^^<http://www.w3.org/2001/XMLSchema#dateTime> .";
    let receipt = push_turtle(&engine, Some(10), text);
    assert_eq!(receipt.taken.runs(), [(10, 10), (17, 17)]);
    let reasons: Vec<String> = receipt
        .reasons
        .iter()
        .map(|it| format!("{} {}:{} {}", it.number, it.line, it.column, it.error))
        .collect();
    let says = [
        "11 4:1 the message has no value at <http://example.org/at>, where TIMESTAMP looks",
        "12 6:1 \"soon\" at <http://example.org/at> is no time; write an xsd:dateTime",
        "13 8:1 the message has two different times at <http://example.org/at>",
        "14 10:8 line 10, column 8 of the data: ",
        "15 12:1 line 12, column 1 of the data: the message is empty",
        "16 13:1 the message to <http://example.org/s> has event time 500, but the stream is complete through 1000",
    ];
    assert_eq!(reasons.len(), says.len(), "{reasons:#?}");
    for (reason, says) in reasons.iter().zip(says) {
        assert!(reason.starts_with(says), "{reason}\n{says}");
    }
    let stream = engine.stream(&format!("{NS}s")).unwrap();
    assert_eq!(stream.watermark, Some(EventTime(2_000)));
    assert_eq!((receipt.accepted, receipt.dropped), (2, 0));
}

#[test]
fn a_request_may_give_one_time_to_all_messages_where_the_data_has_none() {
    let engine = with_stream("");
    let text = ":a :p 1 .\nMESSAGE\n:b :p 2 .";
    let untimed = push_turtle(&engine, None, text);
    assert_eq!(untimed.refused.runs(), [(1, 2)]);
    let reason = untimed.reasons[0].error.to_string();
    assert!(
        reason.starts_with("the message to <http://example.org/s> has no event time; give one"),
        "{reason}"
    );
    let push = MessagePush {
        at: Some(EventTime(1_000)),
        ..push_of(None, MessageSyntax::NdJsonLd)
    };
    let lines = "{\"@id\": \"urn:a\", \"urn:p\": 1}\n{\"@id\": \"urn:b\", \"urn:p\": 2}\n";
    let stream = format!("{NS}s");
    let receipt = engine.push_messages(&stream, push.clone(), lines.as_bytes());
    assert_eq!(receipt.unwrap().taken.runs(), [(1, 2)]);
    let timed = with_stream(&format!("TIMESTAMP <{NS}at>"));
    let refused = timed.push_messages(&stream, push, lines.as_bytes());
    let sentence = refused.unwrap_err().to_string();
    assert!(
        sentence.contains("takes event times from its data (TIMESTAMP)"),
        "{sentence}"
    );
}

#[test]
fn pushes_to_a_stream_with_timestamp_are_messages() {
    let engine = with_stream(&format!("TIMESTAMP <{NS}at>"));
    let stream = format!("{NS}s");
    let quads = |texts: &[&str]| {
        let quads = texts.iter().map(|text| StreamStatement {
            at: None,
            quad: triple(text).in_graph(somersault::oxrdf::GraphName::DefaultGraph),
        });
        Push {
            seq: Some(7),
            statements: quads.collect(),
            ..Push::default()
        }
    };
    let at = "a at \"1000\"^^<http://www.w3.org/2001/XMLSchema#integer>";
    let refused = engine.push(&stream, quads(&["a p b"])).unwrap_err();
    assert!(matches!(refused, EngineError::Invalid(_)), "{refused}");
    assert!(refused.to_string().contains("has no value at"), "{refused}");
    let taken = engine.push(&stream, quads(&["a p b", at])).unwrap();
    assert_eq!((taken.accepted, taken.repeated), (2, false));
    // A number that was taken is a repeat whatever it carries.
    assert!(engine.push(&stream, quads(&["a p b"])).unwrap().repeated);
    let timed = engine.push(&stream, push(&[(1, "a p b")])).unwrap_err();
    assert!(timed.to_string().contains("leave out the time"), "{timed}");
    assert_eq!(engine.push(&stream, Push::default()).unwrap().accepted, 0);
}

#[test]
fn what_cannot_be_told_apart_or_read_ends_the_text() {
    let engine = with_stream(&format!("TIMESTAMP <{NS}at>"));
    let text = ":a :at 1000 .\nMESSAGE\n:b :p [\nMESSAGE\n] .\nMESSAGE\n:c :at 2000 .";
    let receipt = push_turtle(&engine, Some(1), text);
    assert_eq!(receipt.taken.runs(), [(1, 1)]);
    assert_eq!(receipt.refused.runs(), [(2, 2)]);
    let ended = receipt.ended.unwrap();
    assert_eq!(ended.number, 3);
    assert!(
        ended
            .error
            .to_string()
            .contains("nothing behind it is read")
    );
    // The source fails behind the second message.
    struct Breaking<'t>(&'t [u8]);
    impl Read for Breaking<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            match self.0.is_empty() {
                true => Err(io::Error::other("the connection is gone")),
                false => self.0.read(buffer),
            }
        }
    }
    let text =
        "<urn:a> <http://example.org/at> 3000 .\nMESSAGE\n<urn:b> <urn:p> 1 .\nMESSAGE\n<urn:c> ";
    let push = push_of(Some(11), MessageSyntax::Turtle);
    let stream = format!("{NS}s");
    let receipt = engine
        .push_messages(&stream, push, Breaking(text.as_bytes()))
        .unwrap();
    assert_eq!(
        (receipt.taken.runs(), receipt.refused.runs()),
        (&[(11, 11)][..], &[(12, 12)][..])
    );
    let ended = receipt.ended.unwrap();
    assert_eq!(ended.number, 13);
    assert!(matches!(ended.error, EngineError::Io { .. }));
}

#[test]
fn a_full_stream_ends_the_text_at_the_message_that_has_no_room() {
    let engine = with_stream(&format!("BUDGET 2 KB TIMESTAMP <{NS}at>"));
    let message = |n: u32| format!(":m{n} :at {} ; :p {n} .", 1_000 + n);
    let text: Vec<String> = (0..40).map(message).collect();
    let receipt = push_turtle(&engine, Some(100), &text.join("\nMESSAGE\n"));
    let taken = receipt.taken.count();
    assert!((10..15).contains(&taken), "{taken}");
    assert_eq!(receipt.refused.count(), 0);
    let ended = receipt.ended.unwrap();
    assert_eq!(ended.number, 100 + taken);
    assert!(
        matches!(ended.error, EngineError::Limit { .. }),
        "{}",
        ended.error
    );
    // If not even the first one is taken, there is only the error.
    let push = push_of(Some(ended.number), MessageSyntax::Turtle);
    let stream = format!("{NS}s");
    let one = format!("PREFIX : <{NS}>\n{}", text[taken as usize]);
    let refused = engine.push_messages(&stream, push, one.as_bytes());
    assert!(matches!(refused, Err(EngineError::Limit { .. })));
}

#[test]
fn nothing_is_pushed_to_unknown_and_derived_streams() {
    let engine = with_stream("");
    let query = format!(
        "PREFIX : <{NS}> REGISTER STREAM :d AS CONSTRUCT {{ ?s :p ?o }} FROM STREAM :s [RANGE 2s STEP 1s] WHERE {{ ?s :p ?o }}"
    );
    engine.register(None, &query).unwrap();
    for (name, is_expected) in [
        (
            "t",
            (|error| matches!(error, EngineError::NotFound(_))) as fn(EngineError) -> bool,
        ),
        ("d", |error| matches!(error, EngineError::Conflict(_))),
    ] {
        let push = push_of(None, MessageSyntax::NTriples);
        let text: &[u8] = b"";
        let refused = engine.push_messages(&format!("{NS}{name}"), push, text);
        assert!(is_expected(refused.unwrap_err()), "{name}");
    }
}
