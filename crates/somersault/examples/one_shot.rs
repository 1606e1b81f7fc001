//! A graph in memory: load it, change it, ask it.

use somersault::{Engine, EngineConfig, LoadOptions, RdfFormat};

const PEOPLE: &str = r#"
@prefix : <http://example.org/> .
:ann :knows :bob , :cid ; :age 41 .
:bob :knows :cid ; :age 27 .
:cid :age 35 .
"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine = Engine::open(EngineConfig::default())?;
    let loaded = engine.load(PEOPLE.as_bytes(), RdfFormat::Turtle, LoadOptions::default())?;
    println!(
        "{} statements stored in snapshot {}",
        loaded.stored, loaded.sn
    );

    let update = "PREFIX : <http://example.org/>
        DELETE { :bob :age ?age } INSERT { :bob :age ?older }
        WHERE { :bob :age ?age BIND(?age + 1 AS ?older) }";
    let done = engine.update(update).run()?;
    println!("{} in, {} out", done.inserted, done.deleted);

    let query = "PREFIX : <http://example.org/>
        SELECT ?who (AVG(?age) AS ?friends) WHERE { ?who :knows/:age ?age } GROUP BY ?who ORDER BY ?who";
    let results = engine.query(query).run()?;
    for row in results.answer.rows() {
        let cells: Vec<String> = row.iter().flatten().map(ToString::to_string).collect();
        println!("{}", cells.join("  "));
    }
    println!("{}", engine.query(query).explain_analyze()?);
    engine.shutdown()?;
    Ok(())
}
