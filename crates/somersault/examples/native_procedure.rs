//! Procedures in Rust: a discount that no SPARQL expression knows, in a dataflow with a procedure of
//! steps. The program gives the bodies again after a restart, and what waited for them goes on.

use somersault::oxrdf::{Literal, NamedNode, Term, Triple};
use somersault::{
    Abort, CallAnswer, CallOutcome, Engine, EngineConfig, EngineError, PushLines, Txn,
};
use std::path::Path;
use std::time::Duration;

type Failure = Box<dyn std::error::Error + Send + Sync>;

const ORDERS: &str = "http://example.org/orders";
const PRICED: &str = "http://example.org/priced";

/// The declarations outlive the program; the bodies are in it.
const PROCEDURES: [&str; 3] = [
    "PREFIX : <http://example.org/>
     CREATE PROCEDURE price ON STREAM :orders BATCH 1 MESSAGE EMITS INTO :priced AS NATIVE",
    "PREFIX : <http://example.org/>
     CREATE PROCEDURE sum ON STREAM :priced BATCH 1 MESSAGE AS {
       LET (?before) BE SELECT ?n { :sales :cents ?n } ;
       DELETE WHERE { :sales :cents ?any } ;
       INSERT { :sales :cents ?now }
       WHERE { BATCH { ?order :cents ?n } BIND(COALESCE(?before, 0) + ?n AS ?now) }
     }",
    "PREFIX : <http://example.org/>
     CREATE PROCEDURE draw() AS NATIVE",
];

fn name(local: &str) -> NamedNode {
    NamedNode::new_unchecked(format!("http://example.org/{local}"))
}

/// Prices an order: pieces cost 99 cents, and each doubling of their number 3 percent less.
fn price(tx: &mut Txn<'_, '_>) -> Result<(), Abort> {
    for statement in tx.batch(&name("orders"))? {
        let Term::Literal(pieces) = &statement.object else {
            return tx.abort(format!("{} has no number of pieces", statement.subject));
        };
        let pieces: u32 = (pieces.value().parse())
            .map_err(|_| format!("{} orders {} pieces", statement.subject, pieces.value()))?;
        let off = 0.97_f64.powi(pieces.max(1).ilog2() as i32);
        let cents = (f64::from(pieces) * 99.0 * off).round() as i64;
        let priced = Triple::new(statement.subject, name("cents"), Literal::from(cents));
        tx.emit(&name("priced"), &[priced])?;
    }
    Ok(())
}

/// Draws the winner among the customers: the same one if the transaction runs again.
fn draw(tx: &mut Txn<'_, '_>) -> Result<CallAnswer, Abort> {
    let customers = tx.rows(
        "SELECT ?c { ?c a <http://example.org/Customer> } ORDER BY ?c",
        &[],
    )?;
    let place = (tx.random()? * customers.len() as f64) as usize;
    let Some(Some(winner)) = customers.get(place).and_then(|row| row.first().cloned()) else {
        return tx.abort("there is no customer");
    };
    tx.update(
        "INSERT { ?winner <http://example.org/wins> true } WHERE { }",
        &[("winner", winner)],
    )?;
    tx.query("SELECT ?who { ?who <http://example.org/wins> true }", &[])
}

fn open(folder: &Path) -> Result<Engine, EngineError> {
    Engine::open(EngineConfig {
        data: Some(folder.to_owned()),
        ..EngineConfig::default()
    })
}

fn order(engine: &Engine, number: u64, pieces: u32) -> Result<(), EngineError> {
    let line = format!(
        "{number}\t<http://example.org/order/{number}> <http://example.org/pieces> \"{pieces}\"^^<http://www.w3.org/2001/XMLSchema#integer> .\n"
    );
    let push = PushLines {
        source: Some("shop".to_owned()),
        seq: Some(number),
        lines: line.as_bytes(),
    };
    engine.push_lines(ORDERS, push).map(|_| ())
}

fn sales(engine: &Engine) -> Result<String, Failure> {
    let query = "SELECT ?n { <http://example.org/sales> <http://example.org/cents> ?n }";
    let found = engine.query(query).run()?;
    match found
        .answer
        .rows()
        .next()
        .and_then(|row| row.into_iter().next())
    {
        Some(Some(Term::Literal(cents))) => Ok(cents.value().to_owned()),
        _ => Ok("nothing".to_owned()),
    }
}

fn main() -> Result<(), Failure> {
    let folder = std::env::temp_dir().join(format!("somersault-native-{}", std::process::id()));
    let engine = open(&folder)?;
    engine.create_stream(None, &format!("CREATE STREAM <{ORDERS}> IDLE NEVER"))?;
    engine.create_stream(None, &format!("CREATE STREAM <{PRICED}> INTERIOR"))?;
    for text in PROCEDURES {
        engine.create_procedure(None, text)?;
    }
    engine.procedure("price", price)?;
    for (number, pieces) in [(1, 1), (2, 10), (3, 500)] {
        order(&engine, number, pieces)?;
    }
    engine.quiesce(Duration::from_secs(10))?;
    println!("three orders come to {} cents", sales(&engine)?);
    engine.shutdown()?;
    drop(engine);

    let engine = open(&folder)?;
    order(&engine, 4, 64)?;
    for procedure in engine.health().absent_procedures {
        println!(
            "{}",
            engine.procedure_info(&procedure)?.waits.unwrap_or_default()
        );
    }
    println!("meanwhile they come to {} cents", sales(&engine)?);
    engine.procedure("price", price)?;
    engine.procedure("draw", draw)?;
    engine.quiesce(Duration::from_secs(10))?;
    println!("with the fourth they come to {} cents", sales(&engine)?);

    let refused = engine.call("draw").run()?;
    let CallOutcome::Aborted { reason } = refused else {
        return Err("there was no customer to draw".into());
    };
    println!("the draw aborted: {reason}");
    let data = "PREFIX : <http://example.org/> INSERT DATA { :ann a :Customer . :bob a :Customer }";
    engine.update(data).run()?;
    let drawn = engine.call("draw").run()?;
    let CallOutcome::Answered(CallAnswer::Rows { rows, .. }) = drawn else {
        return Err("one of two customers wins".into());
    };
    println!("{} customer wins", rows.len());
    engine.shutdown()?;
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}
