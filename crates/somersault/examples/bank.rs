//! A bank: several threads transfer between the same accounts by a procedure, and no money is made
//! or lost. A continuous query adds up all balances meanwhile, and sees the same sum at each firing.

use somersault::oxrdf::{Literal, NamedNode, Term};
use somersault::{
    CallOutcome, Engine, EngineConfig, EventTime, PushLines, SubscribeOptions, SubscriptionEvent,
};
use std::thread;

type Failure = Box<dyn std::error::Error + Send + Sync>;

const ACCOUNTS: u64 = 20;
const OPENING: u64 = 100;
const CLERKS: u64 = 4;
/// Transfers of each clerk.
const TRANSFERS: u64 = 250;
/// The seconds of the clock that the continuous query follows.
const TICKS: i64 = 20;
const TICKS_STREAM: &str = "http://example.org/ticks";

const OPEN: &str = "PREFIX : <http://example.org/>
CREATE PROCEDURE open(?account IRI, ?amount) AS {
  IF ASK { ?account :balance ?any } { ABORT \"the account is open already\" } ;
  INSERT { ?account :balance ?amount } WHERE { }
}";

const TRANSFER: &str = "PREFIX : <http://example.org/>
CREATE PROCEDURE transfer(?from IRI, ?to IRI, ?amount) AS {
  LET (?has) BE SELECT ?b { ?from :balance ?b } ;
  IF ASK { FILTER(?has < ?amount) } { ABORT CONCAT(\"only \", STR(?has), \" left\") } ;
  DELETE { ?from :balance ?b } INSERT { ?from :balance ?less }
  WHERE { ?from :balance ?b BIND(?b - ?amount AS ?less) } ;
  DELETE { ?to :balance ?b } INSERT { ?to :balance ?more }
  WHERE { ?to :balance ?b BIND(?b + ?amount AS ?more) }
}";

const TOTAL: &str = "PREFIX : <http://example.org/>
REGISTER QUERY total AS
SELECT (SUM(?b) AS ?total) FROM STREAM :ticks [RANGE 1s STEP 1s]
WHERE { ?account :balance ?b }";

fn account(number: u64) -> Term {
    NamedNode::new_unchecked(format!("http://example.org/account/{}", number % ACCOUNTS)).into()
}

fn amount(number: u64) -> Term {
    Literal::from(i64::try_from(number).unwrap_or(i64::MAX)).into()
}

/// Transfers between accounts that follow from the numbers; returns how many went through.
fn work(engine: &Engine, clerk: u64) -> Result<u64, Failure> {
    let mut carried_out = 0;
    for number in 1..=TRANSFERS {
        let from = clerk * 7 + number * number;
        // The key makes a transfer harmless that is sent again.
        let call = engine
            .call("transfer")
            .arguments([
                account(from),
                account(from + number % 19 + 1),
                amount(number % 60),
            ])
            .key(format!("clerk{clerk}"), number);
        let outcome = call.clone().run()?;
        if number == TRANSFERS && call.run()? != outcome {
            return Err("a repeated transfer was answered differently".into());
        }
        carried_out += u64::from(matches!(outcome, CallOutcome::Answered(_)));
    }
    Ok(carried_out)
}

/// Moves the clock of the continuous query, second by second.
fn tick(engine: &Engine) -> Result<(), Failure> {
    for second in 0..TICKS {
        let at = second * 1000;
        let line =
            format!("{at}\t<http://example.org/clock> <http://example.org/shows> \"{second}\" .\n");
        let lines = line.as_bytes();
        engine.push_lines(
            TICKS_STREAM,
            PushLines {
                lines,
                ..PushLines::default()
            },
        )?;
        engine.advance([(TICKS_STREAM, EventTime(at + 1000))])?;
        thread::sleep(std::time::Duration::from_millis(20));
    }
    Ok(())
}

fn main() -> Result<(), Failure> {
    let engine = Engine::open(EngineConfig::default())?;
    engine.create_stream(
        None,
        &format!("CREATE STREAM <{TICKS_STREAM}> BATCH 1s IDLE NEVER"),
    )?;
    engine.declare(OPEN)?;
    engine.declare(TRANSFER)?;
    for number in 0..ACCOUNTS {
        engine
            .call("open")
            .arguments([account(number), amount(OPENING)])
            .run()?;
    }
    engine.register(None, TOTAL)?;
    let totals = engine.subscribe("total", SubscribeOptions::default())?;

    let carried_out = thread::scope(|scope| {
        let clerks: Vec<_> = (0..CLERKS)
            .map(|clerk| {
                let engine = &engine;
                scope.spawn(move || work(engine, clerk))
            })
            .collect();
        tick(&engine)?;
        let mut sum = 0;
        for clerk in clerks {
            sum += clerk.join().map_err(|_| "a clerk panicked")??;
        }
        Ok::<u64, Failure>(sum)
    })?;
    println!(
        "{carried_out} of {} transfers were carried out, the others aborted",
        CLERKS * TRANSFERS
    );

    let expected = Literal::from(i64::try_from(ACCOUNTS * OPENING)?);
    for _ in 0..TICKS {
        let Some(SubscriptionEvent::Firing(firing)) = totals.recv() else {
            return Err("the subscription ended".into());
        };
        let answer = firing.answer.as_ref().map_err(Clone::clone)?;
        let total = answer.rows().flatten().flatten().next();
        if total != Some(expected.clone().into()) {
            return Err(format!("at {} the balances add up to {total:?}", firing.close).into());
        }
    }
    println!(
        "{TICKS} firings saw {} in all accounts together",
        expected.value()
    );

    let overdrawn = "ASK { ?account <http://example.org/balance> ?b FILTER(?b < 0) }";
    if engine.query(overdrawn).run()?.answer.boolean() != Some(false) {
        return Err("an account is overdrawn".into());
    }
    engine.shutdown()?;
    Ok(())
}
