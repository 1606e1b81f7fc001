//! Wukong+S, table 9, C7–C11: the rest of CityBench, whose first six queries are in `streams --only
//! citybench`. The test data have the texts of C1–C6 alone. These five ask what the benchmark
//! describes, in texts of our own over the same streams: parking places and events, several kinds
//! of sensors together, the most polluted place, one sensor by itself. The rows of each close are
//! compared with those of a one-shot query over the same statements, loaded into a graph.

use super::{Failure, PaperPart, PapersOptions};
use crate::figures::sheet::{Grid, Sheet};
use crate::harness::target::{Row, at_most};
use crate::streams::measure::{Firing, QUIESCE, Reader, figures_of};
use crate::streams::stage::configuration;
use crate::streams::suite::Suite;
use somersault::oxrdf::NamedNode;
use somersault::replay::{Speed, Step, replay};
use somersault::{Engine, LoadOptions, RdfFormat};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader};

pub(super) const PART: PaperPart = PaperPart {
    name: "city",
    run,
    rows,
};

/// The number of times that the recording is played, each time into a new engine.
const LAPS: usize = 10;
const RANGE_MS: i64 = 3_000;
const STEP_MS: i64 = 1_000;
const DIFFERENT: &str = "closes with other rows than a one-shot query";

const SENSORS: &str = "http://www.insight-centre.org/dataset/SampleEventService#";
const GRAPHS: &str = "http://127.0.0.1:9000/WebGlCity/RDF/";
const PREFIXES: &str = "PREFIX sensor: <http://www.insight-centre.org/dataset/SampleEventService#>
PREFIX ct: <http://www.insight-centre.org/citytraffic#>
PREFIX ssn: <http://purl.oclc.org/NET/ssnx/ssn#>
PREFIX sao: <http://purl.oclc.org/NET/sao/>
";

/// One query: what it selects and from where.
struct CityQuery {
    name: &'static str,
    paper_ms: f64,
    select: &'static str,
    sensors: &'static [&'static str],
    graphs: &'static [&'static str],
    pattern: &'static str,
    /// What stands behind the pattern: groups and order.
    after: &'static str,
}

const QUERIES: [CityQuery; 5] = [
    CityQuery {
        name: "C7",
        paper_ms: 0.24,
        select: "?first ?left ?second ?other",
        sensors: &["AarhusParkingDataKALKVAERKSVEJ", "AarhusParkingDataSKOLEBAKKEN"],
        graphs: &["SensorRepository.rdf"],
        pattern: "?p1 a ct:ParkingVacancy . ?p2 a ct:ParkingVacancy .
  ?first ssn:observedBy sensor:AarhusParkingDataKALKVAERKSVEJ ; ssn:observedProperty ?p1 ; sao:hasValue ?left .
  ?second ssn:observedBy sensor:AarhusParkingDataSKOLEBAKKEN ; ssn:observedProperty ?p2 ; sao:hasValue ?other .
  FILTER(?left < ?other)",
        after: "",
    },
    CityQuery {
        name: "C8",
        paper_ms: 0.27,
        select: "?event ?title ?found ?left",
        sensors: &["AarhusParkingDataKALKVAERKSVEJ", "AarhusParkingDataSKOLEBAKKEN"],
        graphs: &["SensorRepository.rdf", "AarhusLibraryEvents.rdf"],
        pattern: "?found ssn:observedProperty ?p ; sao:hasValue ?left . ?p a ct:ParkingVacancy ; ssn:isPropertyOf ?lot .
  ?lot ct:hasStartLatitude ?lat1 ; ct:hasStartLongitude ?lon1 .
  ?event a sao:Point ; ssn:featureOfInterest ?foi ; sao:value ?title . ?foi ct:hasFirstNode ?node .
  ?node ct:hasLatitude ?lat2 ; ct:hasLongitude ?lon2 .
  FILTER(?left > 0 && (?lat1 - ?lat2) * (?lat1 - ?lat2) + (?lon1 - ?lon2) * (?lon1 - ?lon2) < 0.0002)",
        after: "",
    },
    CityQuery {
        name: "C9",
        paper_ms: 1.15,
        select: "(AVG(?cars) AS ?jam) (AVG(?dirt) AS ?air)",
        sensors: &[
            "AarhusTrafficData158505",
            "AarhusTrafficData182955",
            "AarhusPollutionData158505",
            "AarhusPollutionData182955",
        ],
        graphs: &["SensorRepository.rdf"],
        pattern: "VALUES (?road ?place) { (sensor:AarhusTrafficData158505 sensor:AarhusPollutionData158505)
    (sensor:AarhusTrafficData182955 sensor:AarhusPollutionData182955) }
  ?p1 a ct:CongestionLevel .
  ?one ssn:observedBy ?road ; ssn:observedProperty ?p1 ; sao:hasValue ?cars .
  ?two ssn:observedBy ?place ; sao:hasValue ?dirt",
        after: "",
    },
    CityQuery {
        name: "C10",
        paper_ms: 0.78,
        select: "?place (MAX(?dirt) AS ?worst)",
        sensors: &[
            "AarhusPollutionData158505",
            "AarhusPollutionData179093",
            "AarhusPollutionData182955",
            "AarhusPollutionData184892",
            "AarhusPollutionData195843",
        ],
        graphs: &[],
        pattern: "?one ssn:observedBy ?place ; sao:hasValue ?dirt",
        after: "GROUP BY ?place ORDER BY DESC(?worst)",
    },
    CityQuery {
        name: "C11",
        paper_ms: 0.16,
        select: "?one ?property ?value",
        sensors: &["AarhusWeatherData0"],
        graphs: &[],
        pattern: "?one ssn:observedBy sensor:AarhusWeatherData0 ; ssn:observedProperty ?property ; sao:hasValue ?value",
        after: "",
    },
];

impl CityQuery {
    fn text(&self, from: &str) -> String {
        let graphs: String = (self.graphs.iter())
            .map(|graph| format!("FROM <{GRAPHS}{graph}>\n"))
            .collect();
        let (select, pattern, after) = (self.select, self.pattern, self.after);
        format!("SELECT {select}\n{from}{graphs}WHERE {{\n  {pattern}\n}} {after}\n")
    }

    fn continuous(&self) -> String {
        let windows: String = (self.sensors.iter())
            .map(|sensor| {
                format!("FROM STREAM <{SENSORS}{sensor}> [RANGE {RANGE_MS}ms STEP {STEP_MS}ms]\n")
            })
            .collect();
        let text = self.text(&windows);
        format!("REGISTER QUERY {} AS\n{PREFIXES}{text}", self.name)
    }
}

/// Measures, and prints the figures as they come.
fn run(options: &PapersOptions) -> Result<Sheet, Failure> {
    let suite = Suite::read("suite.json")?;
    let sheet = Sheet::new(
        "Papers: CityBench C7–C11 (Wukong+S, table 9)",
        "Windows of 3 s every second, each close on a quiet engine, all five together; texts of our own.",
    );
    let mut firings: Vec<Vec<Firing>> = QUERIES.iter().map(|_| Vec::new()).collect();
    for _ in 0..LAPS {
        lap(&suite, options, &mut firings)?;
    }
    let columns = [
        "firings",
        "rows",
        "execution p50, ms",
        "execution p99, ms",
        "the paper, ms",
        DIFFERENT,
    ];
    let mut grid = Grid::new("query", columns);
    for (query, firings) in QUERIES.iter().zip(&firings) {
        let figures = figures_of(query.name, STEP_MS, firings, 0)?;
        let different = different(&suite, query, firings)?;
        grid.line(
            query.name,
            [
                Some(figures.firings as f64),
                Some(figures.rows as f64),
                Some(figures.execution_p50_ms),
                Some(figures.execution_p99_ms),
                Some(query.paper_ms),
                Some(different as f64),
            ],
        );
    }
    Ok(sheet.with([grid]))
}

fn lap(suite: &Suite, options: &PapersOptions, firings: &mut [Vec<Firing>]) -> Result<(), Failure> {
    let engine = Engine::open(configuration(options.workers))?;
    suite.prepare(&engine)?;
    let readers = QUERIES
        .iter()
        .map(|query| Reader::register(&engine, query.name, &query.continuous()))
        .collect::<Result<Vec<_>, _>>()?;
    replay(&engine, &suite.plan(), Speed::Max, &mut |step, _| {
        if let Step::Advance { .. } = step {
            engine.quiesce(QUIESCE)?;
        }
        Ok(())
    })?;
    for (reader, firings) in readers.iter().zip(firings) {
        reader.read(|firing| firings.push(firing))?;
    }
    engine.shutdown()?;
    Ok(())
}

/// The number of firings whose rows are not as many as those of a one-shot query over the
/// statements of the window.
fn different(suite: &Suite, query: &CityQuery, firings: &[Firing]) -> Result<usize, Failure> {
    let engine = Engine::open(configuration(1))?;
    suite.prepare(&engine)?;
    let mut lines = Vec::new();
    let own = |iri: &str| {
        query
            .sensors
            .iter()
            .any(|one| iri == format!("{SENSORS}{one}"))
    };
    for stream in suite.streams.iter().filter(|stream| own(&stream.iri)) {
        for line in BufReader::new(suite.unpacked(stream.file())?).lines() {
            let line = line?;
            let (at, triple) = line.split_once('\t').ok_or("a line without a time")?;
            lines.push((at.parse::<i64>()?, triple.to_owned()));
        }
    }
    let mut expected = BTreeMap::new();
    for firing in firings {
        let close_ms = firing.close_ms;
        if expected.contains_key(&close_ms) {
            continue;
        }
        let within = |at: i64| (close_ms - RANGE_MS..close_ms).contains(&at);
        let mut text = String::new();
        for (_, triple) in lines.iter().filter(|(at, _)| within(*at)) {
            writeln!(text, "{triple}")?;
        }
        let graph = format!("urn:window:{close_ms}");
        let into = LoadOptions {
            graph: Some(NamedNode::new(&graph)?),
            ..LoadOptions::default()
        };
        engine.load(text.as_bytes(), RdfFormat::NTriples, into)?;
        let asked = format!("{PREFIXES}{}", query.text(&format!("FROM <{graph}>\n")));
        let answer = engine.query(&asked).run()?.answer;
        expected.insert(close_ms, answer.len() as u64);
    }
    engine.shutdown()?;
    let differs = |firing: &&Firing| expected.get(&firing.close_ms) != Some(&firing.rows);
    Ok(firings.iter().filter(differs).count())
}

/// The targets that these figures are held to. The paper's times are no targets: its texts differ.
fn rows(sheet: Option<&Sheet>) -> Vec<Row> {
    let different = QUERIES.iter();
    let different = different.map(|query| sheet?.figure(query.name, DIFFERENT));
    vec![at_most(
        "papers: closes of C7–C11 with other rows than a one-shot query",
        0.0,
        different.sum(),
        "closes",
    )]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_close_has_the_rows_of_a_one_shot_query() {
        let Ok(suite) = Suite::read("suite.json") else {
            println!("skipped: no test data");
            return;
        };
        let mut firings: Vec<Vec<Firing>> = QUERIES.iter().map(|_| Vec::new()).collect();
        lap(&suite, &PapersOptions::smallest(), &mut firings).unwrap();
        for (query, firings) in QUERIES.iter().zip(&firings) {
            assert!(
                firings.iter().any(|firing| firing.rows > 0),
                "{}",
                query.name
            );
            assert_eq!(
                different(&suite, query, firings).unwrap(),
                0,
                "{}",
                query.name
            );
        }
    }
}
