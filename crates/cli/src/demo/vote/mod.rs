//! `demo-vote`: a seeded voting show. Votes are pushed as messages in real time; three procedures
//! run as one transaction for each. At the end the stored graph must be what the votes lead to.

mod scene;

use super::program;
use super::view::View;
use crate::args::DemoVoteArgs;
use crate::commands::serve::listen;
use crate::error::CliError;
use oxrdf::GraphName;
use scene::Scene;
use somersault::{Engine, EngineConfig, MessagePush, MessageSyntax};
use somersault_generate::{VOTES_STREAM, Votes, VotingFlow, VotingShow};
use somersault_server::{Running, ServerConfig};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// The dataflow that the show declares.
const DATAFLOW: &str = "show";
/// Time between two pushes.
const TICK: Duration = Duration::from_millis(50);
/// Time between two drawings.
const REDRAW: Duration = Duration::from_millis(250);
/// Seconds of votes that may wait for their transaction before the pushes pause.
const BACKLOG_SECONDS: u64 = 2;
const DRAIN: Duration = Duration::from_secs(60);
/// The address of the show that the last commands start.
const NEXT_ADDRESS: &str = "127.0.0.1:7879";

/// Declares the show, pushes votes, sums up and checks.
///
/// # Errors
/// When the address is taken, the engine refuses what it should not, or the stored graph is not
/// what the votes lead to.
pub(crate) fn run(args: &DemoVoteArgs) -> Result<(), CliError> {
    let listener = listen(&args.listen)?;
    let engine = Engine::open(EngineConfig {
        workers: args.workers,
        ..EngineConfig::default()
    })?;
    let server = Running::start(
        engine.clone(),
        listener,
        ServerConfig::with_limits(&engine.config().limits),
    )?;
    let outcome = play(args, &engine, &server.address().to_string());
    server.stop()?;
    engine.shutdown()?;
    outcome
}

fn play(args: &DemoVoteArgs, engine: &Engine, address: &str) -> Result<(), CliError> {
    let show = show_of(args);
    declare(engine, &show)?;
    println!(
        "{} contestants; every {} valid votes the one with the fewest goes. HTTP answers at http://{address}",
        show.contestants, show.threshold
    );
    println!("\nWhile it runs, paste one of these elsewhere:\n");
    for command in commands(&program(), address) {
        println!("  {command}");
    }
    println!();
    let duration = Duration::from_secs(u64::from(args.duration));
    let mut view = View::new(!args.plain && std::io::stdout().is_terminal());
    let mut scene = Scene::new(duration, address);
    let mut booth = Booth::new(show.votes());
    let start = Instant::now();
    let mut drawn = start;
    while start.elapsed() < duration && !booth.is_closed {
        let due = (start.elapsed().as_secs_f64() * f64::from(args.votes)) as u64;
        let waiting = engine.dataflow_info(DATAFLOW)?.waiting_batches;
        if waiting < BACKLOG_SECONDS * u64::from(args.votes) {
            booth.push(engine, due)?;
        }
        if drawn.elapsed() >= REDRAW && view.is_due(start.elapsed()) {
            drawn = Instant::now();
            scene.look(engine, start.elapsed())?;
            view.draw(&scene)?;
        }
        std::thread::sleep(TICK);
    }
    engine.quiesce(DRAIN)?;
    scene.look(engine, start.elapsed())?;
    if matches!(view, View::Terminal { .. }) {
        view.draw(&scene)?;
    }
    for line in scene.summary(booth.sent, start.elapsed()) {
        println!("{line}");
    }
    check(engine, &booth)?;
    println!(
        "Checked: counters, boards, removals and aborts are what the {} votes lead to.",
        booth.sent
    );
    println!("\nNext, paste these, the first one first:\n");
    let program = program();
    println!(
        "  {program} demo-vote --plain --duration 60 --listen {NEXT_ADDRESS} > show.txt & sleep 2"
    );
    for command in commands(&program, NEXT_ADDRESS) {
        println!("  {command}");
    }
    Ok(())
}

/// A show whose last removal comes shortly before the end.
fn show_of(args: &DemoVoteArgs) -> VotingShow {
    // Two votes in a hundred are not valid.
    let valid = u64::from(args.votes) * u64::from(args.duration) * 97 / 100;
    VotingShow {
        contestants: args.contestants,
        threshold: (valid / u64::from(args.contestants - 1)).max(1),
        seed: args.seed,
        ..VotingShow::default()
    }
}

fn declare(engine: &Engine, show: &VotingShow) -> Result<(), CliError> {
    engine.load_quads(
        show.stored()
            .into_iter()
            .map(|triple| triple.in_graph(GraphName::DefaultGraph)),
    )?;
    for text in show.declarations(VotingFlow::Nested, false) {
        if text.starts_with("CREATE STREAM") {
            engine.create_stream(None, &text)?;
        } else {
            engine.declare(&text)?;
        }
    }
    Ok(())
}

/// The sender of votes.
struct Booth {
    votes: Votes,
    sent: u64,
    /// Whether one contestant is left, after which there are no more votes.
    is_closed: bool,
}

impl Booth {
    fn new(votes: Votes) -> Booth {
        Booth {
            votes,
            sent: 0,
            is_closed: false,
        }
    }

    /// Pushes the votes up to number `due`, each as one message.
    fn push(&mut self, engine: &Engine, due: u64) -> Result<(), CliError> {
        let first = self.sent + 1;
        let mut body = "VERSION \"1.2-messages\"\n".to_owned();
        while self.sent < due && !self.is_closed {
            let Some((vote, _)) = self.votes.next() else {
                self.is_closed = true;
                break;
            };
            if vote.number > first {
                body.push_str("MESSAGE\n");
            }
            vote.write(&mut body);
            self.sent = vote.number;
        }
        if self.sent < first {
            return Ok(());
        }
        let push = MessagePush {
            source: Some("booth".to_owned()),
            seq: Some(first),
            at: None,
            syntax: MessageSyntax::NTriples,
        };
        let receipt = engine.push_messages(VOTES_STREAM, push, body.as_bytes())?;
        let pushed = self.sent + 1 - first;
        if receipt.taken.count() == pushed {
            return Ok(());
        }
        let reason = receipt.reasons.first();
        Err(CliError::Failed(format!(
            "of {pushed} votes the engine took {}: {}",
            receipt.taken.count(),
            reason.map_or_else(String::new, |refused| refused.error.to_string())
        )))
    }
}

/// Compares the engine with the votes.
fn check(engine: &Engine, booth: &Booth) -> Result<(), CliError> {
    let [_, _, aborts] = booth.votes.tallies();
    let flow = engine.dataflow_info(DATAFLOW)?;
    if (flow.rounds, flow.aborts) != (booth.sent, aborts) {
        return Err(CliError::Failed(format!(
            "{} votes with {aborts} aborts were sent, and the engine counts {} rounds with {} aborts",
            booth.sent, flow.rounds, flow.aborts
        )));
    }
    let stands = engine.query(&booth.votes.outcome()).run()?.answer;
    if stands.boolean() == Some(true) {
        return Ok(());
    }
    Err(CliError::Failed(
        "the stored graph is not what the votes lead to; nothing else should write to the show while it runs"
            .to_owned(),
    ))
}

/// Commands that look at a show at an address.
fn commands(program: &str, address: &str) -> [String; 6] {
    let server = format!("--server http://{address}");
    let prefix = "PREFIX show: <http://example.org/show#>";
    [
        format!(
            "{program} query '{prefix} SELECT ?name ?votes {{ ?c show:name ?name ; show:votes ?votes }} ORDER BY DESC(?votes)' {server}"
        ),
        format!("{program} dataflows show {DATAFLOW} {server}"),
        format!("{program} dataflows aborted {DATAFLOW} {server}"),
        format!("{program} dataflows explain {DATAFLOW} {server}"),
        format!("curl -s http://{address}/procedures/vote"),
        format!(
            "curl -s -G http://{address}/query -H 'Accept: text/csv' --data-urlencode 'query={prefix} SELECT ?removed ?votes {{ ?r show:removed ?removed ; show:had ?votes ; show:order ?n }} ORDER BY ?n'"
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_finds_a_vote_that_was_not_cast() {
        let engine = Engine::open(EngineConfig::default()).unwrap();
        let show = VotingShow {
            contestants: 5,
            threshold: 40,
            window: 10,
            slide: 3,
            seed: 2,
        };
        declare(&engine, &show).unwrap();
        let mut booth = Booth::new(show.votes());
        booth.push(&engine, 130).unwrap();
        engine.quiesce(DRAIN).unwrap();
        check(&engine, &booth).unwrap();
        assert_eq!(booth.votes.removed().len(), 3);
        let text = "PREFIX show: <http://example.org/show#>
            DELETE { ?c show:votes ?n } INSERT { ?c show:votes ?more }
            WHERE { { SELECT ?c ?n { ?c show:votes ?n } LIMIT 1 } BIND(?n + 1 AS ?more) }";
        engine.update(text).run().unwrap();
        let said = check(&engine, &booth).unwrap_err().to_string();
        assert!(said.contains("not what the votes lead to"), "{said}");
        engine.shutdown().unwrap();
    }

    #[test]
    fn the_check_counts_rounds() {
        let engine = Engine::open(EngineConfig::default()).unwrap();
        let show = VotingShow::default();
        declare(&engine, &show).unwrap();
        let mut booth = Booth::new(show.votes());
        booth.push(&engine, 3).unwrap();
        engine.quiesce(DRAIN).unwrap();
        booth.sent += 1;
        let said = check(&engine, &booth).unwrap_err().to_string();
        assert!(said.contains("the engine counts 3 rounds"), "{said}");
        engine.shutdown().unwrap();
    }
}
