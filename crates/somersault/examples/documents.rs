//! Maps documents of 300 bytes to messages, and pushes them: documents a second, and the processor
//! time that each takes. `documents [COUNT] [map|push|log]`: `map` evaluates the mapping alone,
//! `push` pushes into an engine in memory, `log` into one with a data folder.

use somersault::{DocumentPush, DocumentSyntax, Engine, EngineConfig};
use std::error::Error;
use std::time::Instant;

/// Documents of one request.
const TOGETHER: usize = 10_000;

const STREAM: &str = "PREFIX xyz: <http://sparql.xyz/facade-x/data/>
PREFIX xsd: <http://www.w3.org/2001/XMLSchema#> PREFIX sosa: <http://www.w3.org/ns/sosa/>
CREATE STREAM <urn:readings> BATCH 1s IDLE NEVER TIMESTAMP sosa:resultTime
MAPPED BY CONSTRUCT {
  ?reading sosa:madeBySensor ?sensor ; sosa:resultTime ?at ; sosa:hasSimpleResult ?value ;
           sosa:observedProperty ?property ; <urn:battery> ?battery
} WHERE {
  ?d xyz:id ?id ; xyz:sensor ?name ; xyz:time ?time ; xyz:value ?value ; xyz:property ?what ;
     xyz:status [ xyz:battery ?battery ]
  BIND(IRI(CONCAT('urn:reading:', ?id)) AS ?reading)
  BIND(IRI(CONCAT('urn:sensor:', ?name)) AS ?sensor)
  BIND(IRI(CONCAT('urn:property:', ?what)) AS ?property)
  BIND(xsd:dateTime(?time) AS ?at)
}";

fn document(number: usize) -> String {
    let text = format!(
        r#"{{"id": "r{number:08}", "sensor": "north-{}", "time": "2026-03-01T{:02}:{:02}:{:02}Z", "property": "temperature", "value": {}.{}, "unit": "celsius", "location": {{"lat": 46.94{}, "lon": 7.44, "floor": {}}}, "status": {{"battery": {}, "ok": true, "firmware": "2.1.{}"}}, "tags": ["indoor", "calibrated"]"#,
        number % 500,
        number / 3_600_000 % 24,
        number / 60_000 % 60,
        number / 1_000 % 60,
        number % 40,
        number % 10,
        number % 10,
        number % 7,
        number % 100,
        number % 9,
    );
    // All have 300 bytes.
    let filler = 300 - text.len() - r#", "note": ""}"#.len();
    format!(r#"{text}, "note": "{}"}}"#, "x".repeat(filler))
}

/// The processor time of this process so far, in seconds.
fn processor_seconds() -> Result<f64, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    // Threads that have ended do not count there, so all that run are summed up.
    let mut nanoseconds = 0.0;
    for task in std::fs::read_dir("/proc/self/task")? {
        let text = std::fs::read_to_string(task?.path().join("schedstat")).unwrap_or_default();
        nanoseconds += text
            .split(' ')
            .next()
            .unwrap_or_default()
            .parse()
            .unwrap_or(0.0);
    }
    Ok(if text.is_empty() {
        0.0
    } else {
        nanoseconds / 1e9
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let count: usize = arguments.next().map_or(Ok(200_000), |it| it.parse())?;
    let mode = arguments.next().unwrap_or_else(|| "push".to_owned());
    let folder = std::env::temp_dir().join(format!("somersault-documents-{}", std::process::id()));
    let engine = Engine::open(EngineConfig {
        data: (mode == "log").then(|| folder.clone()),
        ..EngineConfig::default()
    })?;
    engine.create_stream(None, STREAM)?;
    let lines: Vec<String> = (0..count.div_ceil(TOGETHER))
        .map(|body| {
            let documents = body * TOGETHER..((body + 1) * TOGETHER).min(count);
            documents.map(|number| document(number) + "\n").collect()
        })
        .collect();
    let mapping = engine
        .mapping("urn:readings")?
        .ok_or("the stream is mapped")?;
    let (begun, used) = (Instant::now(), processor_seconds()?);
    let mut statements = 0;
    for text in &lines {
        if mode == "map" {
            for message in mapping.messages(text.as_bytes(), DocumentSyntax::NdJson) {
                statements += message?.message.statements.map_or(0, |it| it.len() as u64);
            }
        } else {
            let push = DocumentPush::new(DocumentSyntax::NdJson);
            let receipt = engine.push_documents("urn:readings", push, text.as_bytes())?;
            if let Some(reason) = receipt.reasons.first() {
                return Err(format!("document {}: {}", reason.number, reason.error).into());
            }
            statements += receipt.accepted;
        }
    }
    let (wall, used) = (begun.elapsed().as_secs_f64(), processor_seconds()? - used);
    println!(
        "{mode}: {count} documents, {statements} statements, {:.0} documents/s, {:.1} µs of processor time each",
        count as f64 / wall,
        used * 1e6 / count as f64
    );
    engine.shutdown()?;
    if mode == "log" {
        std::fs::remove_dir_all(folder)?;
    }
    Ok(())
}
