//! Texts of messages: cut at their delimiters, read one by one, refused one by one.

use oxrdf::{BlankNode, Dataset, GraphName, Literal, NamedNode, Quad, Term};
use proptest::prelude::*;
use somersault_lines::{
    Message, MessageLimits, MessageReader, MessageSyntax, MessageWriter, TimestampPath,
};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

const LIMITS: MessageLimits = MessageLimits {
    bytes: 1 << 20,
    statements: 1_000,
};

/// Gives a text in pieces of a few bytes.
struct Pieces<'t> {
    text: &'t [u8],
    length: usize,
}

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.length.min(self.text.len()).min(buffer.len());
        buffer[..length].copy_from_slice(&self.text[..length]);
        self.text = &self.text[length..];
        Ok(length)
    }
}

fn read_with(text: &str, syntax: MessageSyntax, limits: MessageLimits) -> Vec<Message> {
    let whole: Vec<Message> = (MessageReader::new(text.as_bytes(), syntax, limits))
        .map(|message| message.expect("a text in memory is readable"))
        .collect();
    for length in [1, 7] {
        let pieces = Pieces {
            text: text.as_bytes(),
            length,
        };
        let again = MessageReader::new(pieces, syntax, limits).map(|message| message.unwrap());
        assert_eq!(shown(&again.collect::<Vec<_>>()), shown(&whole), "{length}");
    }
    assert!(
        (0..)
            .zip(&whole)
            .all(|(ordinal, message)| message.ordinal == ordinal)
    );
    whole
}

fn read(text: &str, syntax: MessageSyntax) -> Vec<Message> {
    read_with(text, syntax, LIMITS)
}

/// The statements of each message as lines, or the place and the reason of its refusal.
fn shown(messages: &[Message]) -> Vec<Result<Vec<String>, (u64, u64, String)>> {
    (messages.iter())
        .map(|message| match &message.statements {
            Ok(quads) => Ok(quads.iter().map(shown_quad).collect()),
            Err(refused) => Err((refused.line, refused.column, refused.reason.clone())),
        })
        .collect()
}

/// Blank nodes that have no label get a random one.
fn shown_quad(quad: &Quad) -> String {
    let text = quad.to_string();
    let words = text.split(' ').map(|word| match word.strip_prefix("_:") {
        Some(label) if label.len() > 20 => "[]",
        _ => word,
    });
    words.collect::<Vec<_>>().join(" ")
}

/// The numbers of statements; `None` for a refused message.
fn sizes(messages: &[Message]) -> Vec<Option<usize>> {
    (messages.iter())
        .map(|message| message.statements.as_ref().ok().map(Vec::len))
        .collect()
}

fn refusal(message: &Message) -> (u64, u64, &str) {
    let refused = message.statements.as_ref().unwrap_err();
    (refused.line, refused.column, &refused.reason)
}

#[test]
fn messages_are_between_delimiters() {
    let text = "VERSION \"1.2-messages\"\n<urn:a> <urn:p> <urn:b> .\n<urn:a> <urn:p> \"x\" .\nMESSAGE\n\
                <urn:c> <urn:p> <urn:d> .";
    for syntax in [
        MessageSyntax::NTriples,
        MessageSyntax::NQuads,
        MessageSyntax::Turtle,
        MessageSyntax::TriG,
    ] {
        let messages = read(text, syntax);
        assert_eq!(sizes(&messages), [Some(2), Some(1)], "{syntax:?}");
        let lines: Vec<u64> = messages.iter().map(|message| message.line).collect();
        let has_directives = matches!(syntax, MessageSyntax::Turtle | MessageSyntax::TriG);
        let first = if has_directives { 1 } else { 2 };
        assert_eq!(lines, [first, 5], "{syntax:?}");
    }
}

#[test]
fn a_delimiter_at_the_end_opens_no_message() {
    for end in [
        "MESSAGE",
        "MESSAGE\n",
        "  MESSAGE # the end\n\n# really\n",
        "MESSAGE\r\n",
    ] {
        let text = format!("<urn:a> <urn:p> <urn:b> .\n{end}");
        for syntax in [MessageSyntax::NTriples, MessageSyntax::Turtle] {
            assert_eq!(sizes(&read(&text, syntax)), [Some(1)], "{syntax:?} {end:?}");
        }
    }
    for text in ["", "\n\n# nothing\n", "VERSION \"1.2-messages\"\n"] {
        for syntax in MessageSyntax::ALL {
            let text = if syntax == MessageSyntax::NdJsonLd {
                "\n\n"
            } else {
                text
            };
            assert_eq!(read(text, syntax), [], "{syntax:?} {text:?}");
        }
    }
}

#[test]
fn an_empty_message_is_refused_and_counts() {
    let text = "<urn:a> <urn:p> 1 .\nMESSAGE\n# nothing\nMESSAGE\n<urn:b> <urn:p> 2 .";
    let messages = read(text, MessageSyntax::Turtle);
    assert_eq!(sizes(&messages), [Some(1), None, Some(1)]);
    assert!(refusal(&messages[1]).2.contains("is empty"));
    let messages = read(
        "{\"@id\":\"urn:a\"}\n{\"@id\":\"urn:a\",\"urn:p\":1}",
        MessageSyntax::NdJsonLd,
    );
    assert_eq!(sizes(&messages), [None, Some(1)]);
}

#[test]
fn at_message_is_a_delimiter_of_turtle_and_trig() {
    let text = "@version \"1.2-messages\" .\n@prefix : <urn:> .\n:a :p 1 .\n@message .\n:b :p 2 .\n@message.\n\
                :c :p \"x\"@message , \"y\" @message .\n@message # why\n .\n:d :p 4 .";
    for syntax in [MessageSyntax::Turtle, MessageSyntax::TriG] {
        let messages = read(text, syntax);
        assert_eq!(
            sizes(&messages),
            [Some(1), Some(1), Some(2), Some(1)],
            "{syntax:?}"
        );
    }
    let version = "VERSION \"1.2-messages\"\n@message .\n<urn:a> <urn:p> 1 .";
    assert_eq!(
        sizes(&read(version, MessageSyntax::Turtle)),
        [None, Some(1)]
    );
    let without =
        "<urn:a> <urn:p> 1 .\n@message\n<urn:b> <urn:p> 2 .\nMESSAGE\n<urn:c> <urn:p> 3 .";
    let messages = read(without, MessageSyntax::Turtle);
    assert_eq!(sizes(&messages), [Some(1), None, Some(1)]);
    assert!(refusal(&messages[1]).2.contains("ends with `.`"));
    assert_eq!(sizes(&read(text, MessageSyntax::NTriples)), [None]);
}

#[test]
fn the_word_is_a_delimiter_as_a_token_alone() {
    let text = "PREFIX MESSAGE: <urn:m> PREFIX : <urn:>\n\
                :a :p \"MESSAGE\" , '''\nMESSAGE\n''' , \"\"\"MESSAGE\"\" MESSAGE\"\"\" , \"\\\"MESSAGE\" , 'it\\'s MESSAGE' .\n\
                # MESSAGE\n:MESSAGE :p MESSAGE:x , <MESSAGE> , <urn:a#MESSAGE> , _:MESSAGE , :x.MESSAGE , \"\"@en-message .\n\
                :b\\,MESSAGE :p\\'MESSAGE 1 .\n\
                message :c :p 3 .Message :d :p 4 .";
    let text = text.replace("<MESSAGE>", "<urn:MESSAGE>");
    let messages = read(&text, MessageSyntax::Turtle);
    assert_eq!(
        sizes(&messages),
        [Some(12), Some(1), Some(1)],
        "{:?}",
        shown(&messages)
    );
    // In N-Triples it stands on a line of its own, in capital letters.
    let line = "<urn:a> <urn:p> \"MESSAGE\" .\n";
    for (between, expected) in [
        ("MESSAGE\n", vec![Some(1), Some(1)]),
        ("\tMESSAGE  # and a comment\r\n", vec![Some(1), Some(1)]),
        ("# MESSAGE\n", vec![Some(2)]),
        ("message\n", vec![None]),
        ("MESSAGE MESSAGE\n", vec![None]),
        ("MESSAGE .\n", vec![None]),
    ] {
        let text = format!("{line}{between}{line}");
        assert_eq!(
            sizes(&read(&text, MessageSyntax::NTriples)),
            expected,
            "{between:?}"
        );
    }
}

#[test]
fn a_message_that_does_not_parse_refuses_itself_alone() {
    let good = "<urn:a> <urn:p> <urn:b> .";
    for bad in [
        "<urn:a> <urn:p> .",
        "<urn:a> <urn:p> <urn:b>",
        "<urn:a> <urn:p> \"never closed .",
        "<urn:a <urn:p> <urn:b> .",
        "<urn:a> <urn:p> <urn b> .",
        "<urn:a> <urn:p> \"x\\q\" .",
        "nonsense",
        "<urn:a> <urn:p> <urn:b> . ]",
        "<urn:a> <urn:p> \"a\"^^ .",
    ] {
        let text = format!("{good}\nMESSAGE\n{good}\n{bad}\nMESSAGE\n{good}");
        for syntax in [
            MessageSyntax::NTriples,
            MessageSyntax::NQuads,
            MessageSyntax::Turtle,
            MessageSyntax::TriG,
        ] {
            let messages = read(&text, syntax);
            assert_eq!(
                sizes(&messages),
                [Some(1), None, Some(1)],
                "{syntax:?}: {bad}"
            );
            let refused = messages[1].statements.as_ref().unwrap_err();
            assert!(
                (3..=5).contains(&refused.line),
                "{syntax:?}: {bad}: {refused:?}"
            );
            assert!(!refused.ends_reading);
        }
    }
    let text = format!("{good}\nMESSAGE\n<urn:a> <urn:p> ü .\nMESSAGE\n{good}");
    let messages = read(&text, MessageSyntax::NTriples);
    let (line, column, reason) = refusal(&messages[1]);
    assert_eq!((line, column), (3, 17), "{reason}");
}

#[test]
fn a_delimiter_inside_brackets_ends_the_reading() {
    for (text, syntax) in [
        (
            "<urn:g> { <urn:a> <urn:p> 1 .\nMESSAGE\n<urn:b> <urn:p> 2 . }\nMESSAGE\n<urn:c> <urn:p> 3 .",
            MessageSyntax::TriG,
        ),
        (
            "<urn:a> <urn:p> [ <urn:q> 1 .\nMESSAGE\n<urn:b> <urn:p> 2 .",
            MessageSyntax::Turtle,
        ),
        (
            "<urn:a> <urn:p> ( 1 2 .\n@message .\n<urn:b> <urn:p> 2 .",
            MessageSyntax::Turtle,
        ),
    ] {
        let messages = read(text, syntax);
        assert_eq!(sizes(&messages), [None], "{text}");
        let refused = messages[0].statements.as_ref().unwrap_err();
        assert!(refused.ends_reading && refused.reason.contains("inside brackets"));
    }
    // A long string that is never closed takes the rest of the text with it.
    let text = "<urn:a> <urn:p> '''x .\nMESSAGE\n<urn:b> <urn:p> 2 .";
    assert_eq!(sizes(&read(text, MessageSyntax::Turtle)), [None]);
}

#[test]
fn prefixes_and_the_base_go_on_and_labels_do_not() {
    let text = "BASE <http://e/> PREFIX p: <x#>\np:a <b> _:n .\nMESSAGE\n\
                @prefix q: <y#> .\np:a q:b _:n . nonsense .\n@prefix r: <z#> .\nMESSAGE\n\
                <s> q:b r:c , _:n .\nMESSAGE\n@prefix p: <w#> . p:a p:b [] .";
    let messages = read(text, MessageSyntax::Turtle);
    assert_eq!(sizes(&messages), [Some(1), None, Some(2), Some(1)]);
    let lines = shown(&messages);
    assert_eq!(
        lines[0],
        Ok(vec!["<http://e/x#a> <http://e/b> _:n".to_owned()])
    );
    // What a refused message declares holds, too.
    assert_eq!(
        lines[2],
        Ok(vec![
            "<http://e/s> <http://e/y#b> <http://e/z#c>".to_owned(),
            "<http://e/s> <http://e/y#b> _:n".to_owned(),
        ])
    );
    assert_eq!(
        lines[3],
        Ok(vec!["<http://e/w#a> <http://e/w#b> []".to_owned()])
    );
}

#[test]
fn a_message_beyond_a_limit_refuses_itself_alone() {
    let line = |name: &str| format!("<urn:{name}> <urn:p> <urn:o> .\n");
    let long = format!("<urn:long> <urn:p> \"{}\" .\n", "x".repeat(200_000));
    let many: String = (0..50).map(|n| line(&n.to_string())).collect();
    let text = format!(
        "{}MESSAGE\n{long}MESSAGE\n{many}MESSAGE\n{}",
        line("a"),
        line("b")
    );
    let limits = MessageLimits {
        bytes: 10_000,
        statements: 40,
    };
    for syntax in [MessageSyntax::NTriples, MessageSyntax::Turtle] {
        let messages = read_with(&text, syntax, limits);
        assert_eq!(
            sizes(&messages),
            [Some(1), None, None, Some(1)],
            "{syntax:?}"
        );
        assert!(refusal(&messages[1]).2.contains("more than 10000 bytes"));
        assert_eq!(refusal(&messages[1]).0, 3);
        assert!(refusal(&messages[2]).2.contains("more than 40 statements"));
        assert_eq!(messages[3].line, 56);
    }
    let json = format!(
        "{{\"@id\":\"urn:a\",\"urn:p\":\"{}\"}}\n{{\"@id\":\"urn:b\",\"urn:p\":1}}",
        "x".repeat(200_000)
    );
    assert_eq!(
        sizes(&read_with(&json, MessageSyntax::NdJsonLd, limits)),
        [None, Some(1)]
    );
}

#[test]
fn triple_terms_may_nest_to_a_depth() {
    let nested = |depth: usize| {
        let open = "<<( <urn:s> <urn:p> ".repeat(depth);
        format!("<urn:a> <urn:b> {open}<urn:o>{} .\n", " )>>".repeat(depth))
    };
    for syntax in [MessageSyntax::NTriples, MessageSyntax::Turtle] {
        let flat = "<urn:a> <urn:b> <<( <urn:s> <urn:p> <urn:o> )>> .\n".repeat(100);
        let text = format!(
            "{flat}MESSAGE\n{}MESSAGE\n{}MESSAGE\n{}",
            nested(64),
            nested(65),
            nested(3)
        );
        let messages = read(&text, syntax);
        let expected = [Some(100), Some(1), None, Some(1)];
        assert_eq!(sizes(&messages), expected, "{syntax:?}");
        assert!(refusal(&messages[2]).2.contains("nested more than 64 deep"));
        let quoted = format!("<urn:a> <urn:b> \"{}\" .", ")>>".repeat(100)) + &nested(65);
        assert_eq!(sizes(&read(&quoted, syntax)), [None]);
    }
}

#[test]
fn a_line_of_json_is_a_message() {
    let text = "{\"@context\":{\"@vocab\":\"http://e/\"},\"@id\":\"urn:a\",\"p\":\"x\"}\n\n\
                [{\"@id\":\"urn:a\",\"urn:p\":1},{\"@id\":\"urn:b\",\"urn:p\":true}]\r\n\
                {\"@id\":\"urn:a\",\"urn:p\":}\n\
                12\n\
                {\"@id\":\"urn:a\",\"@graph\":[{\"@id\":\"urn:c\",\"urn:p\":{\"@id\":\"_:n\"}}]}";
    let messages = read(text, MessageSyntax::NdJsonLd);
    assert_eq!(sizes(&messages), [Some(1), Some(2), None, None, Some(1)]);
    assert_eq!(
        shown(&messages)[0],
        Ok(vec!["<urn:a> <http://e/p> \"x\"".to_owned()])
    );
    assert_eq!(
        shown(&messages)[4],
        Ok(vec!["<urn:c> <urn:p> _:n <urn:a>".to_owned()])
    );
    let (line, column, _) = refusal(&messages[2]);
    assert_eq!((line, column), (4, 24));
    assert!(refusal(&messages[3]).2.contains("no JSON-LD object"));
    assert_eq!(messages[4].line, 6);
}

#[test]
fn a_line_with_a_context_alone_is_that_of_those_that_follow() {
    let text = "{\"@id\":\"urn:a\",\"p\":1}\n\
                {\"@context\":{\"@vocab\":\"http://one/\"}}\n\
                {\"@id\":\"urn:a\",\"p\":1.50}\n\
                {\"@context\":{\"q\":\"urn:q\"},\"@id\":\"urn:a\",\"p\":\"1\",\"q\":\"\\u0041\"}\n\
                [{\"@id\":\"urn:b\",\"p\":\"x\"}]\n\
                { \"@context\" : {\"@vocab\":\"http://two/\"} }\n\
                {\"@id\":\"urn:a\",\"@graph\":[{\"@id\":\"urn:c\",\"p\":\"y\"}]}\n\
                {\"@graph\":[{\"@id\":\"urn:c\",\"p\":\"y\"}]}";
    let messages = read(text, MessageSyntax::NdJsonLd);
    let lines = shown(&messages);
    assert_eq!(
        sizes(&messages),
        [None, Some(1), Some(2), Some(1), Some(1), Some(1)]
    );
    assert_eq!(
        lines[1],
        Ok(vec![
            "<urn:a> <http://one/p> \"1.5E0\"^^<http://www.w3.org/2001/XMLSchema#double>"
                .to_owned()
        ])
    );
    assert_eq!(
        lines[2],
        Ok(vec![
            "<urn:a> <http://one/p> \"1\"".to_owned(),
            "<urn:a> <urn:q> \"A\"".to_owned()
        ])
    );
    assert_eq!(
        lines[3],
        Ok(vec!["<urn:b> <http://one/p> \"x\"".to_owned()])
    );
    assert_eq!(
        lines[4],
        Ok(vec!["<urn:c> <http://two/p> \"y\" <urn:a>".to_owned()])
    );
    // The only graph of a message is its default graph, as without a context line.
    assert_eq!(
        lines[5],
        Ok(vec!["<urn:c> <http://two/p> \"y\"".to_owned()])
    );
}

#[test]
fn remote_contexts_and_deep_values_are_refused() {
    let remote = "{\"@context\":\"http://e/context\",\"@id\":\"urn:a\",\"p\":1}\n{\"@id\":\"urn:a\",\"urn:p\":1}";
    assert_eq!(
        sizes(&read(remote, MessageSyntax::NdJsonLd)),
        [None, Some(1)]
    );
    let deep = format!(
        "{{\"urn:p\":{}1{}}}",
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    let messages = read(&deep, MessageSyntax::NdJsonLd);
    assert!(refusal(&messages[0]).2.contains("nested more than 64 deep"));
}

fn test_data() -> Option<PathBuf> {
    let named = std::env::var_os("SOMERSAULT_TESTDATA").map(PathBuf::from);
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().skip(3);
    let beside = beside
        .map(|up| up.join("shared/data"))
        .find(|path| path.is_dir());
    named.filter(|path| path.is_dir()).or(beside)
}

#[test]
fn the_messages_of_the_public_suite_are_read() {
    let Some(data) = test_data() else {
        println!("skipped: no test data ($SOMERSAULT_TESTDATA names no folder)");
        return;
    };
    let folder = data.join("transactions/batches/formats/input");
    let mut values = 0;
    for (name, syntax, count) in [
        ("n-triples.nt", MessageSyntax::NTriples, 8),
        ("n-quads.nq", MessageSyntax::NQuads, 8),
        ("turtle.ttl", MessageSyntax::Turtle, 0),
        ("trig.trig", MessageSyntax::TriG, 0),
        ("ndjson-ld.ndjson", MessageSyntax::NdJsonLd, 4),
    ] {
        let text = std::fs::read_to_string(folder.join(name)).unwrap();
        let messages = read(&text, syntax);
        assert!(messages.len() >= count && !messages.is_empty(), "{name}");
        for message in messages {
            let statements = message.statements.unwrap();
            assert_eq!(statements.len(), 4, "{name}, line {}", message.line);
            let has_label = |quad: &Quad| {
                quad.predicate.as_str().ends_with("#part") && quad.object.to_string() == "_:p"
            };
            assert!(statements.iter().any(has_label), "{name}");
            values += 1;
        }
    }
    assert_eq!(values, 40, "the suite has 40 messages in five files");
}

fn path(predicates: &[&str]) -> TimestampPath {
    let iri = |name: &&str| NamedNode::new_unchecked(*name);
    TimestampPath::new(predicates.iter().map(iri).collect()).unwrap()
}

/// The time of the one message of a text in Turtle, with the prefixes `:` and `xsd:`.
fn time_in(statements: &str, predicates: &[&str]) -> Result<i64, String> {
    let prefixes = "PREFIX : <urn:> PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>";
    let messages = read(&format!("{prefixes}\n{statements}"), MessageSyntax::TriG);
    let statements = messages.into_iter().next().unwrap().statements.unwrap();
    path(predicates).event_time(&statements).map(|time| time.0)
}

#[test]
fn the_time_of_a_message_is_in_its_data() {
    for (value, time) in [
        ("\"2026-03-01T20:00:00Z\"^^xsd:dateTime", 1_772_395_200_000),
        ("\"2026-03-01T20:00:00\"^^xsd:dateTime", 1_772_395_200_000),
        (
            "\"2026-03-01T20:00:07.73Z\"^^xsd:dateTime",
            1_772_395_207_730,
        ),
        (
            "\"2026-03-01T20:00:00.9999999Z\"^^xsd:dateTime",
            1_772_395_200_999,
        ),
        (
            "\"2026-03-01T22:00:00.001+02:00\"^^xsd:dateTimeStamp",
            1_772_395_200_001,
        ),
        ("\"1969-12-31T23:59:59.9995Z\"^^xsd:dateTime", -1),
        (
            "\"0001-01-01T00:00:00Z\"^^xsd:dateTime",
            -62_135_596_800_000,
        ),
        ("1772395200123", 1_772_395_200_123),
        ("-5", -5),
        ("\"+7\"^^xsd:integer", 7),
        ("\"12\"^^xsd:long", 12),
    ] {
        let statements = format!(":m :value 1 ; :at {value} .");
        assert_eq!(time_in(&statements, &["urn:at"]), Ok(time), "{value}");
    }
    // One time may be written twice, also in two ways and in two graphs.
    let twice = ":m :at 0 . :g { :m :at 0 . :n :at \"1970-01-01T01:00:00+01:00\"^^xsd:dateTime }";
    assert_eq!(time_in(twice, &["urn:at"]), Ok(0));
}

#[test]
fn a_path_leads_from_every_subject_to_the_time() {
    let statements = ":m :stamp _:s ; :at 9 . :g { _:s :at 5 . :other :at 7 } :n :stamp :nothing .";
    assert_eq!(time_in(statements, &["urn:stamp", "urn:at"]), Ok(5));
    assert_eq!(path(&["urn:a", "urn:b"]).to_string(), "<urn:a>/<urn:b>");
    assert_eq!(TimestampPath::new(Vec::new()), None);
}

#[test]
fn no_time_two_times_and_other_values_are_refused() {
    for (statements, said) in [
        (":m :value 1 .", "has no value at <urn:at>"),
        (":m :at 1 , 2 .", "two different times at <urn:at>"),
        (
            ":m :at 1 . :n :at \"1970-01-01T00:00:00Z\"^^xsd:dateTime .",
            "two different times",
        ),
        (":m :at \"soon\" .", "\"soon\" at <urn:at> is no time"),
        (":m :at 1 , :soon .", "is no time"),
        (":m :at 1.5 .", "is no time"),
        (
            ":m :at \"2026-02-30T00:00:00Z\"^^xsd:dateTime .",
            "is no time",
        ),
        (
            ":m :at \"2026-03-01T20:00:00\"^^xsd:dateTimeStamp .",
            "is no time",
        ),
        (":m :at 99999999999999999999 .", "is no time"),
    ] {
        let refused = time_in(statements, &["urn:at"]).unwrap_err();
        assert!(refused.contains(said), "{statements}: {refused}");
    }
}

/// The suite refuses these for their times: none, two, something that is no time, one that goes
/// back.
#[test]
fn the_refused_messages_of_the_public_suite_have_no_time_that_goes_on() {
    let Some(data) = test_data() else {
        println!("skipped: no test data ($SOMERSAULT_TESTDATA names no folder)");
        return;
    };
    let file = data.join("transactions/batches/refused/input/readings.nt");
    let text = std::fs::read_to_string(file).unwrap();
    let path = path(&["http://example.org/t#at"]);
    let mut newest = i64::MIN;
    let mut refused = Vec::new();
    for (number, message) in (1..=40).zip(read(&text, MessageSyntax::NTriples)) {
        match path.event_time(&message.statements.unwrap()) {
            Ok(time) if time.0 >= newest => newest = time.0,
            _ => refused.push(number),
        }
    }
    assert_eq!(
        refused,
        [8, 16, 17, 21, 23, 25, 26, 28, 29, 30, 34, 35, 39, 40]
    );
}

fn term() -> impl Strategy<Value = Term> {
    let text = "[a-z\"'\\\\\n\r\t#@.<>{}\\[\\]é ]{0,8}|MESSAGE|\nMESSAGE\n|'''|\"\"\"";
    prop_oneof![
        "[a-z/]{1,3}#?[a-z]?"
            .prop_map(|name| NamedNode::new_unchecked(format!("http://e/{name}")).into()),
        "[a-c]".prop_map(|label| BlankNode::new_unchecked(label).into()),
        text.prop_map(|text| Literal::new_simple_literal(text).into()),
        text.prop_map(
            |text| Literal::new_language_tagged_literal_unchecked(text, "message").into()
        ),
        (0..9).prop_map(|number: i32| Literal::from(number).into()),
    ]
}

fn quad() -> impl Strategy<Value = Quad> {
    let graph = prop_oneof![
        3 => Just(GraphName::DefaultGraph),
        1 => "[a-b]".prop_map(|name| NamedNode::new_unchecked(format!("http://g/{name}")).into()),
    ];
    ("[a-c]", "[p-r]|MESSAGE", term(), graph).prop_map(|(subject, predicate, object, graph)| {
        let iri = |name: String| NamedNode::new_unchecked(format!("http://e/{name}"));
        Quad::new(iri(subject), iri(predicate), object, graph)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// What is written is read again, whatever the statements hold and however the bytes come.
    #[test]
    fn written_messages_are_read_again(
        messages in prop::collection::vec(prop::collection::vec(quad(), 1..5), 0..6),
        length in 1_usize..40,
    ) {
        for syntax in MessageSyntax::ALL {
            let messages: Vec<Vec<Quad>> = messages.iter().map(|quads| {
                let with_graph = |quad: &Quad| match syntax.has_graphs() {
                    true => quad.clone(),
                    false => Quad { graph_name: GraphName::DefaultGraph, ..quad.clone() },
                };
                quads.iter().map(with_graph).collect()
            }).collect();
            let mut writer = MessageWriter::new(Vec::new(), syntax);
            for quads in &messages {
                writer.write(quads.iter().map(Quad::as_ref)).unwrap();
            }
            let text = writer.finish().unwrap();
            let pieces = Pieces { text: &text, length };
            let read: Vec<Message> = MessageReader::new(pieces, syntax, LIMITS)
                .map(|message| message.unwrap())
                .collect();
            prop_assert_eq!(read.len(), messages.len(), "{}", String::from_utf8_lossy(&text));
            for (read, written) in read.into_iter().zip(&messages) {
                let read: Dataset = read.statements.unwrap().into_iter().collect();
                let written: Dataset = written.iter().cloned().collect();
                prop_assert_eq!(read, written, "{:?}", syntax);
            }
        }
    }

    /// Any text is read to its end, in any syntax, and its places lie in it.
    #[test]
    fn any_text_is_read(text in "([ -~\n]|MESSAGE|@message \\.|<urn:a> <urn:p> \"x\" \\.|'''|\\{\\}){0,30}") {
        for syntax in MessageSyntax::ALL {
            let lines = text.split('\n').count() as u64;
            for message in read(&text, syntax) {
                prop_assert!(message.line >= 1 && message.line <= lines);
                if let Err(refused) = message.statements {
                    prop_assert!(!refused.reason.is_empty());
                    prop_assert!(refused.line >= 1 && refused.line <= lines);
                }
            }
        }
    }
}
