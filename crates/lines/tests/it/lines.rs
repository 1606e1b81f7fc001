//! Lines read in chunks by several threads, against `oxttl` reading the document from beginning to
//! end.

use oxrdf::{GraphName, NamedNode, Quad, QuadRef};
use oxttl::{NQuadsParser, NTriplesParser, TurtleParseError};
use proptest::prelude::*;
use somersault_lines::{LineSyntax, LinesError, TakeLines, read_lines};
use std::convert::Infallible;
use std::io::{self, Read};

#[derive(Default)]
struct Collect(Vec<Quad>);

impl TakeLines for Collect {
    type Chunk = Vec<Quad>;
    type Error = Infallible;

    fn take(&mut self, quad: QuadRef<'_>) -> Result<(), Infallible> {
        self.0.push(quad.into_owned());
        Ok(())
    }

    fn end_chunk(&mut self) -> Result<Vec<Quad>, Infallible> {
        Ok(std::mem::take(&mut self.0))
    }
}

#[derive(Debug, PartialEq)]
struct Fault {
    line: u64,
    column: u64,
    message: String,
}

fn in_chunks(document: &[u8], syntax: &LineSyntax) -> (Vec<Quad>, Option<Fault>) {
    let mut all = Vec::new();
    let outcome = read_lines(document, syntax, Collect::default, |chunk| {
        all.extend(chunk);
        Ok(())
    });
    let fault = match outcome {
        Ok(()) => None,
        Err(LinesError::Syntax {
            line,
            column,
            message,
        }) => Some(Fault {
            line,
            column,
            message,
        }),
        Err(error) => panic!("a slice can be read: {error:?}"),
    };
    (all, fault)
}

fn from_beginning_to_end(document: &[u8], syntax: &LineSyntax) -> (Vec<Quad>, Option<Fault>) {
    let mut all = Vec::new();
    let mut fault = None;
    let mut take = |item: Result<Quad, TurtleParseError>| match item {
        Ok(mut quad) => {
            if quad.graph_name.is_default_graph() {
                quad.graph_name = syntax.default_graph.clone();
            }
            all.push(quad);
            true
        }
        Err(TurtleParseError::Syntax(error)) => {
            let place = error.location().start;
            fault = Some(Fault {
                line: place.line + 1,
                column: place.column + 1,
                message: error.message().to_owned(),
            });
            false
        }
        Err(TurtleParseError::Io(error)) => panic!("a slice can be read: {error}"),
    };
    if syntax.with_graphs {
        NQuadsParser::new().for_reader(document).all(&mut take);
    } else {
        NTriplesParser::new()
            .for_reader(document)
            .all(|triple| take(triple.map(|triple| triple.in_graph(GraphName::DefaultGraph))));
    }
    (all, fault)
}

fn syntax(with_graphs: bool, chunk_bytes: usize) -> LineSyntax {
    LineSyntax {
        with_graphs,
        lenient: false,
        default_graph: GraphName::DefaultGraph,
        chunk_bytes,
    }
}

// Boxed: drawn values of nested strategies would take more than a test thread's stack.
fn iri() -> BoxedStrategy<String> {
    let seldom = prop_oneof![
        Just("<http://example.com>".to_owned()),
        Just("<http://example.com:80/a?b=%20#c>".to_owned()),
        Just("<http://example.com/é>".to_owned()),
        Just("<http://example.com/\\u00E9>".to_owned()),
        Just("<urn:a:b>".to_owned()),
        Just("<https://example.com/a//b#>".to_owned()),
        Just("<http://www.w3.org/1999/02/22-rdf-syntax-ns#langString>".to_owned()),
    ];
    prop_oneof![
        6 => "http://example[.]com/[a-z0-9_~/?=&-]{0,12}(#[a-z]{0,3})?".prop_map(|iri| format!("<{iri}>")),
        1 => seldom,
    ]
    .boxed()
}

fn blank() -> BoxedStrategy<String> {
    prop_oneof![3 => "_:[a-z0-9_][a-z0-9_-]{0,3}", 1 => "_:[a-zé][a-z.]{0,3}"].boxed()
}

fn literal() -> BoxedStrategy<String> {
    let text = prop_oneof![
        4 => "[a-z é#<>.^@]{0,12}",
        1 => "([a-z]|\\\\[tbnrf\"'\\\\]|\\\\u00e9){0,6}",
    ];
    let suffix = prop_oneof![
        3 => Just(String::new()),
        1 => iri().prop_map(|iri| format!("^^{iri}")),
        1 => Just("^^<http://www.w3.org/2001/XMLSchema#string>".to_owned()),
        1 => Just("^^<http://www.w3.org/2001/XMLSchema#integer>".to_owned()),
        1 => "@(en|de|EN|de-CH|en--ltr|q|abcd)",
    ];
    (text, suffix)
        .prop_map(|(text, suffix)| format!("\"{text}\"{suffix}"))
        .boxed()
}

fn space() -> impl Strategy<Value = &'static str> {
    prop_oneof![12 => Just(" "), 1 => Just(""), 1 => Just("\t"), 1 => Just(" \t ")]
}

pub(crate) fn statement() -> BoxedStrategy<String> {
    let node = || prop_oneof![4 => iri(), 1 => blank()];
    let triple_term = (node(), iri(), literal())
        .prop_map(|(subject, predicate, object)| format!("<<( {subject} {predicate} {object} )>>"));
    let object = prop_oneof![4 => iri(), 1 => blank(), 4 => literal(), 1 => triple_term];
    let graph = prop_oneof![4 => Just(String::new()), 1 => iri(), 1 => blank()];
    let spaces = (space(), space(), space(), space(), space());
    let behind = prop_oneof![6 => Just(""), 1 => Just(" # said <a> \""), 1 => Just("\t")];
    (node(), iri(), object, graph, spaces, behind)
        .prop_map(|(subject, predicate, object, graph, spaces, behind)| {
            let (a, b, c, d, e) = spaces;
            format!("{a}{subject}{b}{predicate}{c}{object}{d}{graph}{e}.{behind}")
        })
        .boxed()
}

/// Lines that are right and few that are not.
fn document() -> BoxedStrategy<Vec<u8>> {
    let wrong = prop_oneof![
        Just("<http://example.com/a> <http://example.com/p> \"open .".to_owned()),
        Just("<http://example.com/a> <http://example.com/p <http://example.com/o> .".to_owned()),
        Just("<http://example.com/a> \"p\" <http://example.com/o> .".to_owned()),
        Just("<http://example.com/a> <http://example.com/p> <http://example.com/o>".to_owned()),
        Just("<a> <http://example.com/p> <http://example.com/o> .".to_owned()),
        Just("<http://example.com/a> <http://example.com/p> \"\\q\" .".to_owned()),
        Just("<http://example.com/a> <http://example.com/p> \"\\".to_owned()),
        Just("nonsense".to_owned()),
        Just("<http://example.com/a b> <http://example.com/p> 1 .".to_owned()),
        Just(".".to_owned()),
    ];
    let huge = (1..3_000usize).prop_map(|length| {
        let text = "x".repeat(length);
        format!("<http://example.com/a> <http://example.com/p> \"{text}\" .")
    });
    let line = prop_oneof![
        60 => statement(),
        4 => Just(String::new()),
        2 => Just("  ".to_owned()),
        4 => "#[a-z <>\"]{0,9}",
        2 => huge,
        1 => wrong,
    ];
    let end = prop_oneof![20 => Just("\n"), 4 => Just("\r\n"), 1 => Just("\r")];
    let lines = prop::collection::vec((line, end), 0..25);
    // Sometimes a byte is struck by lightning.
    let struck = prop::option::weighted(0.2, (any::<prop::sample::Index>(), any::<u8>()));
    (lines, any::<bool>(), struck)
        .prop_map(|(lines, ended, struck)| {
            let mut text: Vec<u8> = (lines.iter())
                .flat_map(|(line, end)| line.bytes().chain(end.bytes()))
                .collect();
            if !ended {
                while matches!(text.last(), Some(b'\n' | b'\r')) {
                    text.pop();
                }
            }
            if let (Some((at, byte)), false) = (struck, text.is_empty()) {
                let at = at.index(text.len());
                text[at] = byte;
            }
            text
        })
        .boxed()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn chunks_read_as_the_whole(
        document in document(),
        with_graphs in any::<bool>(),
        chunk_bytes in prop_oneof![1..300usize, Just(1 << 20)],
    ) {
        let syntax = syntax(with_graphs, chunk_bytes);
        let (quads, fault) = in_chunks(&document, &syntax);
        let (expected, serial) = from_beginning_to_end(&document, &syntax);
        let shown = String::from_utf8_lossy(&document);
        match (fault, serial) {
            (None, None) => prop_assert_eq!(quads, expected, "{}", shown),
            (Some(fault), Some(serial)) => {
                prop_assert!(expected.starts_with(&quads), "{}", shown);
                prop_assert_eq!(fault.line, serial.line, "{:?} {:?} {}", fault, serial, shown);
                // Whether a text that is not ended ends at all is seen at the document's end only.
                if serial.message != "Unexpected end of file" {
                    prop_assert_eq!(fault, serial, "{}", shown);
                }
            }
            (fault, serial) => prop_assert!(false, "{:?} {:?} {}", fault, serial, shown),
        }
    }
}

#[test]
fn a_default_graph_is_given_to_lines_without_one() {
    let graph: GraphName = NamedNode::new_unchecked("http://example.com/g").into();
    let document = "<http://a.b/s> <http://a.b/p> \"plain\" .\n\
                    <http://a.b/s> <http://a.b/p> \"\\u0061\" .\n\
                    <http://a.b/s> <http://a.b/p> <http://a.b/o> <http://a.b/g> .\n";
    let syntax = LineSyntax {
        default_graph: graph.clone(),
        ..syntax(true, 10)
    };
    let (quads, fault) = in_chunks(document.as_bytes(), &syntax);
    assert_eq!(fault, None);
    let graphs: Vec<_> = quads.into_iter().map(|quad| quad.graph_name).collect();
    let named: GraphName = NamedNode::new_unchecked("http://a.b/g").into();
    assert_eq!(graphs, [graph.clone(), graph, named]);
}

#[test]
fn a_failing_reader_fails_after_its_last_line() {
    struct Pulled;
    impl Read for Pulled {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the cable was pulled"))
        }
    }
    let document = "<http://a.b/s> <http://a.b/p> <http://a.b/o> .\n".repeat(100);
    let reader = document.as_bytes().chain(Pulled);
    let mut count = 0;
    let outcome = read_lines(reader, &syntax(false, 500), Collect::default, |chunk| {
        count += chunk.len();
        Ok(())
    });
    let Err(LinesError::Io(error)) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(error.to_string(), "the cable was pulled");
    assert!(
        (80..=100).contains(&count),
        "{count} whole chunks came before"
    );
}

#[test]
fn the_first_refusal_in_the_document_counts() {
    struct Refusing;
    impl TakeLines for Refusing {
        type Chunk = ();
        type Error = String;
        fn take(&mut self, quad: QuadRef<'_>) -> Result<(), String> {
            let number: u32 = match quad.object {
                oxrdf::TermRef::Literal(literal) => literal.value().parse().unwrap(),
                _ => unreachable!("the document has literals only"),
            };
            if number > 30 && number.is_multiple_of(3) {
                return Err(format!("{number} is refused"));
            }
            Ok(())
        }
        fn end_chunk(&mut self) -> Result<(), String> {
            Ok(())
        }
    }
    let document: String = (0..2_000)
        .map(|n| format!("<http://a.b/s> <http://a.b/p> \"{n}\" .\n"))
        .collect();
    for chunk_bytes in [50, 333, 1 << 20] {
        let syntax = syntax(false, chunk_bytes);
        let outcome = read_lines(document.as_bytes(), &syntax, || Refusing, |()| Ok(()));
        let Err(LinesError::Refused(error)) = outcome else {
            panic!("{outcome:?}")
        };
        assert_eq!(error, "33 is refused");
    }
}
