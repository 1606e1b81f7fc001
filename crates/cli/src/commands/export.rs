//! `export`: the stored graphs of a server or a data folder as RDF, at one snapshot.

use crate::args::{ExportArgs, GraphFormat};
use crate::error::CliError;
use crate::files;
use crate::target::Place;
use oxrdf::NamedNode;
use oxrdfio::RdfFormat;
use somersault::{EngineConfig, Limits};
use std::io::{self, BufWriter, Write};
use std::time::Duration;

/// Time limit of an export from a data folder, which no other client uses.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Writes the graphs to a file or to standard output.
///
/// # Errors
/// When the format cannot hold what is asked for, the place cannot be opened, or a limit is met.
pub(crate) fn run(args: &ExportArgs) -> Result<(), CliError> {
    let text = query_text(args)?;
    let mut out = BufWriter::new(files::output(args.output.as_deref())?);
    let limits = Limits {
        query_time: LONGEST,
        pin_time: LONGEST,
        result_rows: u64::MAX,
        query_memory_bytes: u64::MAX,
        total_query_memory_bytes: u64::MAX,
        ..Limits::default()
    };
    let config = EngineConfig {
        limits,
        read_only: true,
        ..EngineConfig::default()
    };
    match Place::open_with(&args.target, config)? {
        Place::Engine(engine) => {
            let results = engine.query(&text).run()?;
            results
                .answer
                .write_graph(rdf_format(args.format()), &mut out)?;
        }
        Place::Server(client) => {
            let headers = [
                ("Accept", rdf_format(args.format()).media_type()),
                ("Content-Type", "application/sparql-query"),
            ];
            let response = client.post("/query", &headers, text.as_bytes())?;
            io::copy(&mut response.into_body().into_reader(), &mut out)?;
        }
    }
    Ok(out.flush()?)
}

fn rdf_format(format: GraphFormat) -> RdfFormat {
    match format {
        GraphFormat::Nq => RdfFormat::NQuads,
        GraphFormat::Trig => RdfFormat::TriG,
        GraphFormat::Nt => RdfFormat::NTriples,
        GraphFormat::Ttl => RdfFormat::Turtle,
    }
}

/// The query that the export is: one query sees one snapshot.
fn query_text(args: &ExportArgs) -> Result<String, CliError> {
    let holds_graphs = matches!(args.format(), GraphFormat::Nq | GraphFormat::Trig);
    let graph = (args.graph.as_ref())
        .map(|iri| {
            NamedNode::new(iri)
                .map_err(|error| CliError::Usage(format!("the graph {iri} is not an IRI: {error}")))
        })
        .transpose()?;
    Ok(match graph {
        Some(graph) if holds_graphs => {
            format!(
                "CONSTRUCT {{ GRAPH {graph} {{ ?s ?p ?o }} }} WHERE {{ GRAPH {graph} {{ ?s ?p ?o }} }}"
            )
        }
        Some(graph) => {
            format!("CONSTRUCT {{ ?s ?p ?o }} WHERE {{ GRAPH {graph} {{ ?s ?p ?o }} }}")
        }
        None if args.default => "CONSTRUCT { ?s ?p ?o } WHERE { ?s ?p ?o }".to_owned(),
        None if holds_graphs => "CONSTRUCT { ?s ?p ?o . GRAPH ?g { ?a ?b ?c } } \
             WHERE { { ?s ?p ?o } UNION { GRAPH ?g { ?a ?b ?c } } }"
            .to_owned(),
        None => {
            return Err(CliError::Usage(
                "nt and ttl hold one graph; add --graph IRI or --default, or choose nq or trig"
                    .to_owned(),
            ));
        }
    })
}
