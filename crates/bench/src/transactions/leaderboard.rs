//! The voting show: votes as messages, the boards right after each; one nested transaction a vote,
//! and a transaction for each procedure; the same in PostgreSQL by one client that calls the
//! functions in order. What the engine holds afterwards is compared with what the votes lead to.

use super::peers::{self, Peer};
use super::{Failure, TransactionOptions, TransactionPart};
use crate::figures::sheet::{Grid, Sheet};
use crate::figures::table::thousands;
use crate::harness::target::{Row, at_least};
use crate::streams::absorption::clear;
use somersault::oxrdf::{GraphName, Quad};
use somersault::{Engine, MessagePush, MessageSyntax};
use somersault_generate::{VOTES_STREAM, Votes, VotingFlow, VotingShow};
use std::time::{Duration, Instant};

pub(super) const PART: TransactionPart = TransactionPart {
    name: "leaderboard",
    run,
    rows,
};

const NESTED: &str = "nested";
const ROUNDS: &str = "rounds in a pipeline";
const RATE: &str = "votes/s";
/// Votes in one body.
const BODY: usize = 1_000;
/// The time that all rounds may take.
const PATIENCE: Duration = Duration::from_secs(600);

/// Measures, and prints the figures as they come.
fn run(options: &TransactionOptions) -> Result<Sheet, Failure> {
    let show = VotingShow::default();
    let sheet = Sheet::new(
        "Transactions: the leaderboard",
        format!(
            "{} votes for {} contestants, one goes every {} valid votes; the latest {} votes slide by {}; three boards right after each vote. Votes come as messages, {} in a body, until every round is committed and durable. PostgreSQL: one client calls the functions in order.",
            thousands(options.votes as u64),
            show.contestants,
            thousands(show.threshold),
            show.window,
            show.slide,
            thousands(BODY as u64)
        ),
    );
    let mut grid = Grid::new("what", [RATE]);
    for (words, flow) in [(NESTED, VotingFlow::Nested), (ROUNDS, VotingFlow::Rounds)] {
        let rate = of(options, show, flow)?;
        grid.line(words, [Some(rate)]);
    }
    match peers::measure(Peer::PostgreSql, "leaderboard", options) {
        Ok(measured) => grid.line(measured.version, [Some(measured.rate)]),
        Err(reason) => grid.line(format!("{}: {reason}", Peer::PostgreSql.name()), [None]),
    }
    Ok(sheet.with([grid]))
}

/// Votes a second.
fn of(options: &TransactionOptions, show: VotingShow, flow: VotingFlow) -> Result<f64, Failure> {
    let folder = options.folder("leaderboard")?;
    let engine = options.durable(&folder)?;
    begin(&engine, show, flow)?;
    let mut votes = show.votes();
    let bodies = bodies(&mut votes, options.votes);
    let start = Instant::now();
    let mut sent = 0;
    for (count, body) in &bodies {
        let push = MessagePush {
            source: Some("booth".to_owned()),
            seq: Some(sent + 1),
            at: None,
            syntax: MessageSyntax::NTriples,
        };
        let receipt = engine.push_messages(VOTES_STREAM, push, body.as_bytes())?;
        if receipt.taken.count() != *count {
            return Err(format!("of {count} votes {} were taken", receipt.taken.count()).into());
        }
        sent += count;
    }
    engine.quiesce(PATIENCE)?;
    let took = start.elapsed();
    check(&engine, &votes)?;
    engine.shutdown()?;
    clear(&folder)?;
    Ok(sent as f64 / took.as_secs_f64())
}

fn begin(engine: &Engine, show: VotingShow, flow: VotingFlow) -> Result<(), Failure> {
    let stored = show.stored().into_iter();
    let stored = stored.map(|triple| {
        Quad::new(
            triple.subject,
            triple.predicate,
            triple.object,
            GraphName::DefaultGraph,
        )
    });
    engine.apply_effects(Vec::new(), stored.collect())?;
    for text in show.declarations(flow, false) {
        match text.starts_with("CREATE STREAM") {
            true => drop(engine.create_stream(None, &text)?),
            false => engine.declare(&text)?,
        }
    }
    Ok(())
}

/// Bodies of messages with the number of messages in each.
fn bodies(votes: &mut Votes, number: usize) -> Vec<(u64, String)> {
    let mut bodies = Vec::new();
    let mut left = number;
    while left > 0 {
        let mut body = "VERSION \"1.2-messages\"\n".to_owned();
        let mut count = 0;
        for (vote, _) in votes.by_ref().take(left.min(BODY)) {
            if count > 0 {
                body.push_str("MESSAGE\n");
            }
            vote.write(&mut body);
            count += 1;
        }
        if count == 0 {
            break;
        }
        left -= count as usize;
        bodies.push((count, body));
    }
    bodies
}

/// Fails unless the stored graph is what the votes lead to.
fn check(engine: &Engine, votes: &Votes) -> Result<(), Failure> {
    match engine.query(&votes.outcome()).run()?.answer.boolean() {
        Some(true) => Ok(()),
        _ => Err("the show does not stand as its votes say".into()),
    }
}

/// The targets that these figures are held to.
fn rows(sheet: Option<&Sheet>) -> Vec<Row> {
    let rate = |line: &str| sheet?.figure(line, RATE);
    let against = || Some(rate(ROUNDS)? / rate(NESTED)?);
    vec![
        at_least(
            "transactions: leaderboard, nested",
            25_000.0,
            rate(NESTED),
            "votes/s",
        ),
        at_least(
            "the same, rounds in a pipeline against nested",
            1.3,
            against(),
            "×",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_show_stands_as_its_votes_say() {
        let folder = tempfile::tempdir().unwrap();
        let options = TransactionOptions::smallest(folder.path().to_owned());
        let show = VotingShow {
            contestants: 4,
            threshold: 40,
            window: 10,
            slide: 2,
            seed: 3,
        };
        for flow in [VotingFlow::Nested, VotingFlow::Rounds] {
            of(&options, show, flow).unwrap();
        }
    }
}
