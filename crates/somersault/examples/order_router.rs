//! An order router: each order reserves its buyer's money and is routed to a venue in one nested
//! transaction, while fills of the venues are applied to the same accounts beside it, in an order of
//! their own. At every moment the money that is held is that of the open orders.

use somersault::{Engine, EngineConfig, MessagePush, MessageSyntax};
use std::collections::HashSet;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

type Failure = Box<dyn std::error::Error + Send + Sync>;

const BUYERS: u64 = 8;
const CASH: u64 = 2_000;
const ORDERS: u64 = 300;
/// Orders in one body.
const BODY: u64 = 15;
/// The time between two bodies of orders or fills.
const PAUSE: Duration = Duration::from_millis(10);
const PATIENCE: Duration = Duration::from_secs(60);

const DECLARATIONS: [&str; 8] = [
    "CREATE STREAM <http://example.org/orders> ARRIVAL TIME IDLE NEVER",
    "CREATE STREAM <http://example.org/fills> ARRIVAL TIME IDLE NEVER",
    "CREATE STREAM <http://example.org/reserved> INTERIOR",
    "PREFIX : <http://example.org/>
     CREATE PROCEDURE reserve ON STREAM :orders BATCH 1 MESSAGE AS {
       LET (?order ?buyer ?cost) BE
         SELECT ?order ?buyer ?cost { BATCH { ?order :buyer ?buyer ; :cost ?cost } } ;
       IF ASK { ?buyer :cash ?cash ; :held ?held FILTER(?cash - ?held < ?cost) } {
         ABORT CONCAT(\"not enough money for \", STR(?order))
       } ;
       DELETE { ?buyer :held ?held } INSERT { ?buyer :held ?more }
       WHERE { ?buyer :held ?held BIND(?held + ?cost AS ?more) } ;
       INSERT { ?order :buyer ?buyer ; :cost ?cost ; :state :open } WHERE { } ;
       EMIT INTO :reserved CONSTRUCT { ?order :cost ?cost } WHERE { }
     }",
    "PREFIX : <http://example.org/>
     CREATE PROCEDURE route ON STREAM :reserved BATCH 1 MESSAGE AS {
       LET (?order) BE SELECT ?order { BATCH { ?order :cost ?cost } } ;
       LET (?venue) BE
         SELECT ?venue { ?venue :open ?open ; :most ?most FILTER(?open < ?most) }
         ORDER BY ?open ?venue LIMIT 1 ;
       IF ASK { FILTER(!BOUND(?venue)) } { ABORT CONCAT(\"no venue takes \", STR(?order)) } ;
       DELETE { ?venue :open ?open } INSERT { ?venue :open ?more . ?order :at ?venue }
       WHERE { ?venue :open ?open BIND(?open + 1 AS ?more) }
     }",
    "PREFIX : <http://example.org/>
     CREATE PROCEDURE apply ON STREAM :fills BATCH 1 MESSAGE AS {
       LET (?order ?price) BE SELECT ?order ?price { BATCH { ?fill :of ?order ; :price ?price } } ;
       LET (?buyer ?venue ?cost) BE
         SELECT ?buyer ?venue ?cost { ?order :state :open ; :buyer ?buyer ; :at ?venue ; :cost ?cost } ;
       IF ASK { FILTER(!BOUND(?buyer)) } { ABORT CONCAT(\"not open: \", STR(?order)) } ;
       DELETE { ?buyer :cash ?cash ; :held ?held . ?venue :open ?open ; :received ?got . ?order :state :open }
       INSERT { ?buyer :cash ?rest ; :held ?less . ?venue :open ?fewer ; :received ?sum . ?order :state :filled }
       WHERE {
         ?buyer :cash ?cash ; :held ?held . ?venue :open ?open ; :received ?got
         BIND(?cash - ?price AS ?rest) BIND(?held - ?cost AS ?less)
         BIND(?open - 1 AS ?fewer) BIND(?got + ?price AS ?sum)
       }
     }",
    // If no venue takes an order, its reservation is undone with it.
    "CREATE DATAFLOW routing { NEST { reserve, route } }",
    "CREATE DATAFLOW settlement { apply }",
];

/// True in every snapshot: what is held is what the open orders cost, and each has its place.
const IN_BALANCE: &str = "PREFIX : <http://example.org/> ASK {
  { SELECT (SUM(?h) AS ?held) { ?buyer :held ?h } }
  { SELECT (SUM(?c) AS ?cost) (COUNT(?order) AS ?orders) { ?order :state :open ; :cost ?c } }
  { SELECT (SUM(?o) AS ?places) { ?venue :open ?o } }
  { SELECT (SUM(?c) AS ?cash) { ?buyer :cash ?c } }
  { SELECT (SUM(?r) AS ?received) { ?venue :received ?r } }
  FILTER(?held = ?cost && ?places = ?orders && ?cash + ?received = $TOTAL) }";

/// Pushes messages that are numbered from `first` on.
fn push(engine: &Engine, stream: &str, first: u64, messages: &[String]) -> Result<(), Failure> {
    let text = format!(
        "VERSION \"1.2-messages\"\nPREFIX : <http://example.org/>\n{}",
        messages.join("MESSAGE\n")
    );
    let push = MessagePush {
        source: Some("example".to_owned()),
        seq: Some(first),
        at: None,
        syntax: MessageSyntax::Turtle,
    };
    let receipt = engine.push_messages(stream, push, text.as_bytes())?;
    match receipt.taken.count() == messages.len() as u64 {
        true => Ok(()),
        false => Err(format!("{} messages were refused", receipt.refused.count()).into()),
    }
}

/// The one column of a SELECT.
fn column(engine: &Engine, select: &str) -> Result<Vec<String>, Failure> {
    let text = format!("PREFIX : <http://example.org/> {select}");
    let answer = engine.query(&text).run()?.answer;
    Ok(answer
        .rows()
        .flatten()
        .flatten()
        .map(|term| term.to_string())
        .collect())
}

fn check_balance(engine: &Engine) -> Result<(), Failure> {
    let text = IN_BALANCE.replace("$TOTAL", &(BUYERS * CASH).to_string());
    match engine.query(&text).run()?.answer.boolean() {
        Some(true) => Ok(()),
        _ => Err("money or places do not belong to open orders".into()),
    }
}

/// Fills the orders that are open, each a little below its cost, until no order comes any more.
fn fill(engine: &Engine, closed: &AtomicBool) -> Result<(), Failure> {
    let mut reported = HashSet::new();
    let mut sent = 0;
    loop {
        let last = closed.load(Ordering::Acquire);
        let open = column(engine, "SELECT ?order { ?order :state :open }")?;
        if open.is_empty() && last {
            return Ok(());
        }
        let mut fills = Vec::new();
        for order in open {
            if reported.insert(order.clone()) {
                fills.push(format!(
                    ":fill{} :of {order} ; :price 5 .\n",
                    reported.len()
                ));
                if reported.len().is_multiple_of(10) {
                    // A venue that reports a fill twice: the second one is not applied.
                    fills.push(format!(
                        ":again{} :of {order} ; :price 5 .\n",
                        reported.len()
                    ));
                }
            }
        }
        if !fills.is_empty() {
            push(engine, "http://example.org/fills", sent + 1, &fills)?;
            sent += fills.len() as u64;
        }
        thread::sleep(PAUSE);
    }
}

fn main() -> Result<(), Failure> {
    let engine = Engine::open(EngineConfig::default())?;
    let mut stored = "PREFIX : <http://example.org/> INSERT DATA { ".to_owned();
    for buyer in 0..BUYERS {
        write!(stored, ":buyer{buyer} :cash {CASH} ; :held 0 . ")?;
    }
    for venue in ["amsterdam", "berlin", "copenhagen"] {
        write!(stored, ":{venue} :open 0 ; :most 20 ; :received 0 . ")?;
    }
    engine.update(&format!("{stored}}}")).run()?;
    for text in DECLARATIONS {
        match text.starts_with("CREATE STREAM") {
            true => drop(engine.create_stream(None, text)?),
            false => engine.declare(text)?,
        }
    }

    let closed = AtomicBool::new(false);
    thread::scope(|scope| {
        let venues = scope.spawn(|| fill(&engine, &closed));
        let routed = (0..ORDERS / BODY).try_for_each(|body| {
            let first = body * BODY + 1;
            let orders: Vec<String> = (first..first + BODY)
                .map(|n| {
                    format!(
                        ":order{n} :buyer :buyer{} ; :cost {} .\n",
                        n % BUYERS,
                        6 + n % 40
                    )
                })
                .collect();
            push(&engine, "http://example.org/orders", first, &orders)?;
            thread::sleep(PAUSE);
            check_balance(&engine)
        });
        // The venues end also if an order was refused.
        let idle = engine.quiesce(PATIENCE);
        closed.store(true, Ordering::Release);
        venues.join().map_err(|_| "the venues panicked")??;
        routed?;
        idle.map_err(Failure::from)
    })?;

    check_balance(&engine)?;
    let filled = column(&engine, "SELECT ?order { ?order :state :filled }")?.len() as u64;
    let routing = engine.dataflow_info("routing")?;
    println!(
        "{filled} orders were filled, {} had no place or no money",
        routing.aborts
    );
    if let Some(abort) = routing.last_abort {
        println!(
            "the last of these: order {}, by {}: {}",
            abort.round, abort.procedure, abort.reason
        );
    }
    let repeated = engine.aborted("settlement")?.newest;
    if filled + routing.aborts != ORDERS {
        return Err(format!("{ORDERS} orders came").into());
    }
    if repeated.is_empty()
        || !repeated
            .iter()
            .all(|abort| abort.reason.starts_with("not open"))
    {
        return Err("each fill that came twice should be refused once".into());
    }
    println!("{} fills came twice and were applied once", repeated.len());
    engine.shutdown()?;
    Ok(())
}
