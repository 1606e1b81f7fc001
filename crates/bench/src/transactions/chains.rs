//! Chains: a value goes through stages, one after another, as S-Store's micro-benchmarks do (VLDB
//! 2015, section 4.2): inside one transaction by triggers, and from procedure to procedure.

use super::Failure;
use somersault::oxrdf::{Literal, NamedNode, Term};
use somersault::{CallOutcome, Engine, MessagePush, MessageSyntax};
use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// The stream whose messages set a chain off.
pub(super) const INPUT: &str = "http://example.org/chain/0";
/// The time that all rounds may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(300);

/// Messages in one body.
const BODY: usize = 500;
const VALUE: &str = "http://example.org/chain#value";

fn stream(stage: usize) -> String {
    format!("http://example.org/chain/{stage}")
}

fn moved(from: &str) -> String {
    format!("CONSTRUCT {{ ?x <{VALUE}> ?v }} WHERE {{ BATCH <{from}> {{ ?x <{VALUE}> ?v }} }}")
}

/// The last step of a chain: the value is stored.
fn stored(from: &str) -> String {
    format!("INSERT {{ ?x <{VALUE}> ?v }} WHERE {{ BATCH <{from}> {{ ?x <{VALUE}> ?v }} }}")
}

/// Declares streams and procedures.
pub(super) fn declare(engine: &Engine, texts: &[String]) -> Result<(), Failure> {
    for text in texts {
        match text.starts_with("CREATE STREAM") {
            true => drop(engine.create_stream(None, text)?),
            false => engine.declare(text)?,
        }
    }
    Ok(())
}

fn streams(stages: usize) -> Vec<String> {
    let input = format!("CREATE STREAM <{INPUT}> ARRIVAL TIME IDLE NEVER BUDGET 1GiB");
    let interior = (1..=stages).map(|stage| format!("CREATE STREAM <{}> INTERIOR", stream(stage)));
    std::iter::once(input).chain(interior).collect()
}

/// One procedure whose input sets so many triggers off, each of which sets off the next.
pub(super) fn by_triggers(triggers: usize) -> Vec<String> {
    let mut texts = streams(triggers);
    let mut text = format!("CREATE PROCEDURE chain ON STREAM <{INPUT}> BATCH 1 MESSAGE");
    for stage in 1..=triggers {
        let from = stream(stage);
        let step = match stage == triggers {
            true => stored(&from),
            false => format!("EMIT INTO <{}> {}", stream(stage + 1), moved(&from)),
        };
        // Writing into a string does not fail.
        let _ = write!(text, " WHEN INTO <{from}> {{ {step} }}");
    }
    let _ = write!(text, " AS {{ EMIT INTO <{}> {} }}", stream(1), moved(INPUT));
    texts.push(text);
    texts
}

/// One procedure that does the same with a graph for each stage: the value is put into it, read
/// from it for the next one, and deleted from it.
pub(super) fn by_steps(stages: usize) -> Vec<String> {
    let mut texts = streams(0);
    let graph = |stage: usize| format!("<http://example.org/chain/graph/{stage}>");
    let first = format!(
        "INSERT {{ GRAPH {} {{ ?x <{VALUE}> ?v }} }} WHERE {{ BATCH {{ ?x <{VALUE}> ?v }} }}",
        graph(1)
    );
    let mut steps = vec![first];
    for stage in 1..=stages {
        let into = match stage == stages {
            true => format!("?x <{VALUE}> ?v"),
            false => format!("GRAPH {} {{ ?x <{VALUE}> ?v }}", graph(stage + 1)),
        };
        let here = format!("GRAPH {} {{ ?x <{VALUE}> ?v }}", graph(stage));
        steps.push(format!("INSERT {{ {into} }} WHERE {{ {here} }}"));
        steps.push(format!("DELETE {{ {here} }} WHERE {{ {here} }}"));
    }
    let steps = steps.join(" ; ");
    texts.push(format!(
        "CREATE PROCEDURE chain ON STREAM <{INPUT}> BATCH 1 MESSAGE AS {{ {steps} }}"
    ));
    texts
}

/// So many procedures, each of which consumes what the one before it emits.
pub(super) fn by_procedures(procedures: usize, recovery: &str) -> Vec<String> {
    let mut texts = streams(procedures - 1);
    for at in 0..procedures {
        let from = stream(at);
        let step = match at + 1 == procedures {
            true => stored(&from),
            false => format!("EMIT INTO <{}> {}", stream(at + 1), moved(&from)),
        };
        texts.push(format!(
            "CREATE PROCEDURE p{at} ON STREAM <{from}> BATCH 1 MESSAGE AS {{ {step} }}"
        ));
    }
    let names: Vec<String> = (0..procedures).map(|at| format!("p{at}")).collect();
    texts.push(format!(
        "CREATE DATAFLOW chain {{ {} }} RECOVERY {recovery}",
        names.join(", ")
    ));
    texts
}

/// The same procedures as a client calls them, each of which reads what the one before it left in
/// a graph.
pub(super) fn called(procedures: usize) -> Vec<String> {
    let graph = |at: usize| format!("<http://example.org/chain/graph/{at}>");
    let of = |at: usize| {
        let step = if at == 0 {
            format!(
                "INSERT {{ GRAPH {} {{ ?x <{VALUE}> ?v }} }} WHERE {{ }}",
                graph(1)
            )
        } else if at + 1 == procedures {
            let from = graph(at);
            format!(
                "DELETE {{ GRAPH {from} {{ ?x <{VALUE}> ?v }} }} INSERT {{ ?x <{VALUE}> ?v }} WHERE {{ GRAPH {from} {{ ?x <{VALUE}> ?v }} }}"
            )
        } else {
            let (from, to) = (graph(at), graph(at + 1));
            format!(
                "DELETE {{ GRAPH {from} {{ ?x <{VALUE}> ?v }} }} INSERT {{ GRAPH {to} {{ ?x <{VALUE}> ?v }} }} WHERE {{ GRAPH {from} {{ ?x <{VALUE}> ?v }} }}"
            )
        };
        format!("CREATE PROCEDURE p{at}(?x, ?v) AS {{ {step} }}")
    };
    (0..procedures).map(of).collect()
}

fn item(number: u64) -> (NamedNode, Literal) {
    (
        NamedNode::new_unchecked(format!("http://example.org/item/{}", number % 1_000)),
        Literal::from(i64::try_from(number).unwrap_or(i64::MAX)),
    )
}

/// Pushes messages of one statement each, many in a body, and waits until every round is committed;
/// how long that took.
pub(super) fn feed(engine: &Engine, messages: u64) -> Result<Duration, Failure> {
    feed_from(engine, 0, messages)
}

/// The same where so many messages were fed before.
pub(super) fn feed_from(engine: &Engine, fed: u64, messages: u64) -> Result<Duration, Failure> {
    let end = fed + messages;
    let bodies: Vec<(u64, String)> = (fed..end)
        .step_by(BODY)
        .map(|first| (first, body(first, end.min(first + BODY as u64))))
        .collect();
    let start = Instant::now();
    for (first, body) in bodies {
        let push = MessagePush {
            source: Some("feed".to_owned()),
            seq: Some(first + 1),
            at: None,
            syntax: MessageSyntax::NTriples,
        };
        let receipt = engine.push_messages(INPUT, push, body.as_bytes())?;
        if receipt.refused.count() > 0 {
            return Err(format!("{} messages were refused", receipt.refused.count()).into());
        }
    }
    engine.quiesce(PATIENCE)?;
    Ok(start.elapsed())
}

fn body(first: u64, end: u64) -> String {
    let mut body = "VERSION \"1.2-messages\"\n".to_owned();
    for number in first..end {
        if number > first {
            body.push_str("MESSAGE\n");
        }
        let (subject, value) = item(number);
        // Writing into a string does not fail.
        let _ = writeln!(body, "{subject} <{VALUE}> {value} .");
    }
    body
}

/// Has a client call the procedures one after another, for some time; chains a second.
pub(super) fn call_in_order(
    engine: &Engine,
    procedures: usize,
    time: Duration,
) -> Result<f64, Failure> {
    let start = Instant::now();
    let mut chains = 0;
    while start.elapsed() < time {
        let (x, v) = item(chains);
        for at in 0..procedures {
            let name = format!("p{at}");
            let arguments = [Term::from(x.clone()), Term::from(v.clone())];
            let done = engine.call(&name).arguments(arguments).run()?;
            if let CallOutcome::Aborted { reason } = done {
                return Err(reason.into());
            }
        }
        chains += 1;
    }
    Ok(chains as f64 / start.elapsed().as_secs_f64())
}
