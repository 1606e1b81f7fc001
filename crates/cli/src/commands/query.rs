//! `query`, `update` and `explain`: a text against a server, a data folder or files.

use crate::args::{ExplainArgs, Format, QueryArgs, UpdateArgs};
use crate::commands::call;
use crate::error::CliError;
use crate::files::text_of;
use crate::table::{self, Table};
use crate::target::{Place, shut_down};
use oxrdf::Variable;
use oxrdfio::RdfFormat;
use somersault::{Answer, AnswerKind, QueryResultsFormat};
use somersault_lang::Parser;
use sparesults::{QueryResultsParser, ReaderQueryResultsParserOutput};
use std::io::{self, BufReader, Write};
use ureq::Body;
use ureq::http::Response;

/// Answers a query and prints it.
///
/// # Errors
/// When the query is refused, or the answer does not fit the format asked for.
pub(crate) fn query(args: &QueryArgs) -> Result<(), CliError> {
    let text = text_of(&args.text)?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    match Place::read(&args.target, &args.stored)? {
        Place::Engine(engine) => {
            let results = engine.query(&text).run()?;
            print_answer(&results.answer, args.format, &mut out)?;
        }
        Place::Server(client) => {
            let headers = [
                ("Accept", accept(args.format)),
                ("Content-Type", "application/sparql-query"),
            ];
            let response = client.post("/query", &headers, text.as_bytes())?;
            print_response(response, args.format, &mut out)?;
        }
    }
    out.flush()?;
    Ok(())
}

/// Prints a server's answer in the format that was asked for.
///
/// # Errors
/// When the answer breaks off.
pub(crate) fn print_response(
    response: Response<Body>,
    format: Format,
    out: &mut impl Write,
) -> Result<(), CliError> {
    let media = response.headers().get("content-type");
    let media = media.and_then(|value| value.to_str().ok());
    let media = media.unwrap_or_default().to_owned();
    let mut body = BufReader::new(response.into_body().into_reader());
    match format {
        Format::Table if media.starts_with("application/sparql-results+json") => {
            print_results_json(body, out)?;
        }
        // A call without RETURN.
        Format::Table if media.starts_with("application/json") => writeln!(out, "done")?,
        _ => _ = io::copy(&mut body, out)?,
    }
    Ok(())
}

/// Applies an update and says what it changed, or carries out a CALL and prints its answer.
///
/// # Errors
/// When the update is refused, or the call aborts or is refused; nothing of it is applied then.
pub(crate) fn update(args: &UpdateArgs) -> Result<(), CliError> {
    let text = text_of(&args.text)?;
    let place = Place::open(&args.target, &[])?;
    if Parser::explained_call(&text).is_some() {
        return explain_text(place, &text, true);
    }
    if Parser::is_call(&text) {
        return call::text(place, &text);
    }
    match place {
        Place::Engine(engine) => {
            let summary = engine.update(&text).run()?;
            println!("{} inserted, {} deleted", summary.inserted, summary.deleted);
            shut_down(&engine)?;
        }
        Place::Server(client) => {
            let headers = [("Content-Type", "application/sparql-update")];
            let mut response = client.post("/update", &headers, text.as_bytes())?;
            let body = response.body_mut().read_to_string().map_err(|error| {
                CliError::failed("the update was applied, but the answer broke off", error)
            })?;
            let summary: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
            println!(
                "{} inserted, {} deleted",
                summary["inserted"], summary["deleted"]
            );
        }
    }
    Ok(())
}

/// Shows the plan of a query, or what a CALL would do.
///
/// # Errors
/// When the query is refused.
pub(crate) fn explain(args: &ExplainArgs) -> Result<(), CliError> {
    let text = text_of(&args.text)?;
    let place = Place::read(&args.target, &args.stored)?;
    explain_text(place, &text, args.analyze)
}

fn explain_text(place: Place, text: &str, analyze: bool) -> Result<(), CliError> {
    match place {
        Place::Engine(engine) => {
            let query = engine.query(text);
            let explanation = match analyze {
                true => query.explain_analyze()?,
                false => query.explain()?,
            };
            write!(io::stdout(), "{explanation}")?;
        }
        Place::Server(client) => {
            let address = if analyze {
                "/explain?analyze=true"
            } else {
                "/explain"
            };
            let mut response = client.post(
                address,
                &[("Content-Type", "application/sparql-query")],
                text.as_bytes(),
            )?;
            let plan = response
                .body_mut()
                .read_to_string()
                .map_err(|error| CliError::failed("cannot read the plan", error))?;
            write!(io::stdout(), "{plan}")?;
        }
    }
    Ok(())
}

/// The media type of a format; a table is made from JSON, and graphs come as N-Triples.
pub(crate) fn accept(format: Format) -> &'static str {
    match format {
        Format::Table => "application/sparql-results+json, application/n-triples;q=0.9",
        Format::Json => "application/sparql-results+json",
        Format::Xml => "application/sparql-results+xml",
        Format::Csv => "text/csv",
        Format::Tsv => "text/tab-separated-values",
        Format::Nt => "application/n-triples",
        Format::Ttl => "text/turtle",
        Format::Nq => "application/n-quads",
        Format::Trig => "application/trig",
    }
}

/// Prints an answer of this process in the format asked for.
pub(crate) fn print_answer(
    answer: &Answer,
    format: Format,
    out: &mut impl Write,
) -> Result<(), CliError> {
    let results = match format {
        Format::Json => Some(QueryResultsFormat::Json),
        Format::Xml => Some(QueryResultsFormat::Xml),
        Format::Csv => Some(QueryResultsFormat::Csv),
        Format::Tsv => Some(QueryResultsFormat::Tsv),
        Format::Table | Format::Nt | Format::Ttl | Format::Nq | Format::Trig => None,
    };
    if let Some(results) = results {
        return Ok(answer.write_results(results, out)?);
    }
    match (answer.kind(), format) {
        (AnswerKind::Graph | AnswerKind::Dataset, Format::Nq) => {
            answer.write_graph(RdfFormat::NQuads, out)?
        }
        (AnswerKind::Graph | AnswerKind::Dataset, Format::Trig) => {
            answer.write_graph(RdfFormat::TriG, out)?
        }
        (AnswerKind::Graph, Format::Ttl) => answer.write_graph(RdfFormat::Turtle, out)?,
        (AnswerKind::Graph, _) => answer.write_graph(RdfFormat::NTriples, out)?,
        (AnswerKind::Dataset, Format::Ttl) => answer.write_graph(RdfFormat::TriG, out)?,
        (AnswerKind::Dataset, _) => answer.write_graph(RdfFormat::NQuads, out)?,
        (AnswerKind::Boolean, Format::Table) => {
            writeln!(out, "{}", answer.boolean() == Some(true))?
        }
        (AnswerKind::Solutions, Format::Table) => {
            let variables: Vec<Variable> = answer
                .variables()
                .iter()
                .map(Variable::new_unchecked)
                .collect();
            let mut table = Table::new(&variables);
            for row in answer.rows() {
                table.push(row.iter().map(Option::as_ref));
            }
            table.print(out, table::width_of_output())?;
        }
        (_, Format::Nt | Format::Ttl | Format::Nq | Format::Trig) => {
            return Err(CliError::Usage("nt, ttl, nq and trig print graphs; ask with CONSTRUCT or DESCRIBE, or choose table, json, xml, csv or tsv".to_owned()));
        }
        _ => {}
    }
    Ok(())
}

/// Prints SPARQL results in JSON as a table.
///
/// # Errors
/// When the JSON is no SPARQL result.
pub(crate) fn print_results_json(
    json: impl io::Read,
    out: &mut impl Write,
) -> Result<(), CliError> {
    let parsed = QueryResultsParser::from_format(QueryResultsFormat::Json)
        .for_reader(json)
        .map_err(|error| CliError::failed("the server's answer is not SPARQL JSON", error))?;
    match parsed {
        ReaderQueryResultsParserOutput::Boolean(value) => writeln!(out, "{value}")?,
        ReaderQueryResultsParserOutput::Solutions(solutions) => {
            let variables = solutions.variables().to_vec();
            let mut table = Table::new(&variables);
            for solution in solutions {
                let solution = solution
                    .map_err(|error| CliError::failed("the server's answer ends early", error))?;
                table.push(variables.iter().map(|variable| solution.get(variable)));
            }
            table.print(out, table::width_of_output())?;
        }
    }
    Ok(())
}
