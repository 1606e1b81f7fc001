//! Any bytes as N-Triples and as N-Quads: reading them in small chunks gives the statements that
//! `oxttl` gives from beginning to end, or the line of its first error and no statement that it
//! does not give before that.
#![no_main]

use libfuzzer_sys::fuzz_target;
use oxrdf::{GraphName, Quad, QuadRef};
use oxttl::{NQuadsParser, NTriplesParser, TurtleSyntaxError};
use somersault_lines::{LineSyntax, LinesError, TakeLines, read_lines};
use std::convert::Infallible;

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

/// The statements before the first error, and the error's line.
type Outcome = (Vec<Quad>, Option<u64>);

fn in_chunks(document: &[u8], with_graphs: bool) -> Outcome {
    let syntax = LineSyntax {
        with_graphs,
        lenient: false,
        default_graph: GraphName::DefaultGraph,
        chunk_bytes: 16,
    };
    let mut all = Vec::new();
    let outcome = read_lines(document, &syntax, Collect::default, |chunk| {
        all.extend(chunk);
        Ok(())
    });
    let fault = match outcome {
        Ok(()) => None,
        Err(LinesError::Syntax { line, .. }) => Some(line),
        Err(error) => panic!("a slice can be read: {error:?}"),
    };
    (all, fault)
}

fn from_beginning_to_end(document: &[u8], with_graphs: bool) -> Outcome {
    let mut all = Vec::new();
    let mut fault = None;
    let mut take = |item: Result<Quad, TurtleSyntaxError>| {
        match item {
            Ok(quad) => all.push(quad),
            Err(error) => {
                fault = Some(error.location().start.line + 1);
            }
        }
        fault.is_none()
    };
    if with_graphs {
        NQuadsParser::new().for_slice(document).all(&mut take);
    } else {
        let of = GraphName::DefaultGraph;
        NTriplesParser::new()
            .for_slice(document)
            .all(|item| take(item.map(|triple| triple.in_graph(of.clone()))));
    }
    (all, fault)
}

fuzz_target!(|bytes: &[u8]| {
    for with_graphs in [false, true] {
        let (quads, fault) = in_chunks(bytes, with_graphs);
        let (expected, serial) = from_beginning_to_end(bytes, with_graphs);
        assert_eq!(fault, serial);
        // Statements of the chunk that has the error are not merged.
        assert!(expected.starts_with(&quads));
        assert!(fault.is_some() || expected.len() == quads.len());
    }
});
