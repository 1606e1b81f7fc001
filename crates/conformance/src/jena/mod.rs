//! Apache Jena as an oracle of another family (EX-1): every operator and function over pairs of
//! terms, and drawn queries over drawn data, answered by Jena and by the engine. The one thing to
//! know before changing it: a difference is mended or listed in `oracle/differences.tsv` with the
//! clause that allows it, and a line of that list that matches nothing is a surprise too.

mod arbiter;
mod differences;
mod draw;
mod matrix;
mod oracle;
mod term_text;

use crate::ConformanceError;
use differences::{Case, Differences};
use oracle::{Answer, Oracle};
use somersault::{Engine, EngineConfig, LoadOptions, QueryOptions};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// The time limit of one query.
const QUERY_TIME: Duration = Duration::from_secs(20);

/// Settings of a comparison.
#[derive(Debug, Clone)]
pub struct JenaOptions {
    /// The class path of Jena and of `Oracle.class`.
    pub classpath: String,
    /// The number of queries to draw.
    pub queries: u64,
    /// The seed that they are drawn from.
    pub seed: u64,
    /// Only expressions that contain this.
    pub only: String,
}

/// The cases compared and the differences found.
#[derive(Debug, Default)]
pub struct JenaReport {
    /// Values compared in the matrix.
    pub values: u64,
    /// The seed that queries were drawn from.
    pub seed: u64,
    /// Drawn queries compared.
    pub queries: u64,
    /// Drawn queries that one of the two, or neither, answers.
    pub unanswered: u64,
    /// Comparisons in which both agreed.
    pub equal: u64,
    /// Differences by the class that allows them.
    pub allowed: BTreeMap<String, u64>,
    /// Differences that no class allows.
    pub unlisted: Vec<String>,
    /// Classes that matched nothing.
    pub unmet: Vec<String>,
}

impl JenaReport {
    /// Whether every difference is listed, and every class matched one.
    pub fn is_clean(&self) -> bool {
        self.unlisted.is_empty() && self.unmet.is_empty()
    }

    fn note(&mut self, case: &Case<'_>, differences: &mut Differences) {
        if case.ours == case.jenas {
            self.equal += 1;
            return;
        }
        self.note_difference(case, differences.class_of(case));
    }

    fn note_difference(&mut self, case: &Case<'_>, class: Option<String>) {
        match class {
            Some(class) => *self.allowed.entry(class).or_default() += 1,
            None => self.unlisted.push(case.to_string()),
        }
    }
}

impl fmt::Display for JenaReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for difference in &self.unlisted {
            writeln!(f, "differs: {difference}")?;
        }
        for class in &self.unmet {
            writeln!(
                f,
                "no difference is of class {class}: take its lines out of the list"
            )?;
        }
        for (class, count) in &self.allowed {
            writeln!(f, "allowed {count:>7}  {class}")?;
        }
        let allowed: u64 = self.allowed.values().sum();
        write!(
            f,
            "jena: {} values and {} queries of seed {} compared ({} not answered by both), {} equal, {allowed} allowed, {} not listed",
            self.values,
            self.queries,
            self.seed,
            self.unanswered,
            self.equal,
            self.unlisted.len()
        )
    }
}

/// Compares the engine with Jena.
pub fn run(options: &JenaOptions) -> Result<JenaReport, ConformanceError> {
    let mut differences = Differences::of_this_crate().map_err(ConformanceError::Child)?;
    let mut oracle = Oracle::start(&options.classpath)?;
    let mut report = JenaReport {
        seed: options.seed,
        ..JenaReport::default()
    };
    compare_matrix(options, &mut oracle, &mut differences, &mut report)?;
    compare_queries(options, &mut oracle, &mut differences, &mut report)?;
    if options.only.is_empty() && options.queries > 0 {
        report.unmet = differences.unmet();
    }
    Ok(report)
}

fn compare_matrix(
    options: &JenaOptions,
    oracle: &mut Oracle,
    differences: &mut Differences,
    report: &mut JenaReport,
) -> Result<(), ConformanceError> {
    let data = matrix::data();
    oracle.load(&data)?;
    let engine = engine_with(&data)?;
    for expression in matrix::expressions() {
        if !expression.text.contains(&options.only) {
            continue;
        }
        let query = expression.query();
        let ours = values(answer(&engine, &query));
        let jenas = jenas_values(oracle, &expression, &query)?;
        for (a, b) in expression.operands() {
            let of = |answers: &Values| match answers {
                Ok(values) => {
                    let key = format!("{}\t{}", matrix::key(a), matrix::key(b));
                    let value = values.get(&key).map_or("no row", String::as_str);
                    term_text::comparable(value, expression.is_quotient)
                }
                Err(reason) => format!("refused: {reason}"),
            };
            let (ours, jenas) = (of(&ours), of(&jenas));
            report.values += 1;
            let case = Case {
                expression: expression.text,
                a: a.name,
                b: b.name,
                ours: &ours,
                jenas: &jenas,
            };
            report.note(&case, differences);
        }
    }
    Ok(())
}

/// Jena's values. Some operands make Jena refuse a whole query; such a query is repeated with fewer
/// operands.
fn jenas_values(
    oracle: &mut Oracle,
    expression: &matrix::Expression,
    query: &str,
) -> Result<Values, ConformanceError> {
    if let Ok(rows) = oracle.ask(query)? {
        return Ok(values(Ok(rows)));
    }
    let mut all = BTreeMap::new();
    for part in expression.parts() {
        match oracle.ask(&matrix::among(query, &part.values))? {
            Ok(rows) => all.extend(values(Ok(rows)).unwrap_or_default()),
            Err(_) => {
                for (key, values) in part.pairs {
                    let fault = || "fault".to_owned();
                    let rows = oracle.ask(&matrix::among(query, &values))?;
                    let value = rows
                        .ok()
                        .and_then(|rows| Some(rows.first()?.rsplit_once('\t')?.1.to_owned()));
                    all.insert(key, value.unwrap_or_else(fault));
                }
            }
        }
    }
    Ok(Ok(all))
}

/// Values by the operands' numbers, or why there are none.
type Values = Result<BTreeMap<String, String>, String>;

/// The values of a matrix's answer by their operands.
fn values(answer: Answer) -> Values {
    let split = |row: String| {
        let (key, value) = row.rsplit_once('\t')?;
        Some((key.to_owned(), value.to_owned()))
    };
    Ok(answer?.into_iter().filter_map(split).collect())
}

fn compare_queries(
    options: &JenaOptions,
    oracle: &mut Oracle,
    differences: &mut Differences,
    report: &mut JenaReport,
) -> Result<(), ConformanceError> {
    let mut draw = draw::QueryDraw::new(options.seed);
    for number in 0..options.queries {
        if !options.only.is_empty() {
            return Ok(());
        }
        let (data, query) = (draw.data(), draw.query());
        let engine = engine_with(&data)?;
        oracle.load(&data)?;
        let text = query.to_string();
        let (ours, jenas) = (answer(&engine, &text), oracle.ask(&text)?);
        report.queries += 1;
        if ours.is_err() && jenas.is_err() {
            report.unanswered += 1;
        }
        let (ours, jenas) = (answer_text(&ours), answer_text(&jenas));
        if ours == jenas {
            report.equal += 1;
            continue;
        }
        let seed = options.seed;
        let shown = format!("query {number} of seed {seed}: {text} over {data}").replace('\n', " ");
        let case = Case {
            expression: &shown,
            a: "",
            b: "",
            ours: &ours,
            jenas: &jenas,
        };
        let class = arbiter::class_of(&query, &case, &engine, oracle, differences)?;
        report.note_difference(&case, class);
    }
    Ok(())
}

/// An answer in one text, its rows sorted.
fn answer_text(answer: &Answer) -> String {
    let rows = match answer {
        Ok(rows) => rows,
        Err(reason) => {
            let first = reason.lines().next().unwrap_or_default();
            return format!("refused: {first}");
        }
    };
    let of_row = |row: &String| {
        let cells = row
            .split('\t')
            .map(|cell| term_text::comparable(cell, true));
        cells.collect::<Vec<_>>().join("\t")
    };
    let mut rows: Vec<String> = rows.iter().map(of_row).collect();
    rows.sort();
    rows.join(" / ")
}

/// An engine that holds some N-Quads.
fn engine_with(data: &str) -> Result<Engine, ConformanceError> {
    let config = EngineConfig {
        workers: 1,
        query_threads: 1,
        ..EngineConfig::default()
    };
    let refused = |action: &str| {
        let action = action.to_owned();
        move |error: somersault::EngineError| ConformanceError::engine(action, error)
    };
    let engine = Engine::open(config).map_err(refused("open"))?;
    engine
        .load(
            data.as_bytes(),
            oxrdfio::RdfFormat::NQuads,
            LoadOptions::default(),
        )
        .map_err(refused("load data"))?;
    Ok(engine)
}

/// The engine's answer, a row as its terms with tabs between them.
fn answer(engine: &Engine, query: &str) -> Answer {
    let options = QueryOptions {
        timeout: Some(QUERY_TIME),
        ..QueryOptions::default()
    };
    let answer = engine
        .query(query)
        .options(&options)
        .run()
        .map_err(|error| error.to_string())?
        .answer;
    if let Some(value) = answer.boolean() {
        return Ok(vec![value.to_string()]);
    }
    let text = |row: Vec<Option<oxrdf::Term>>| {
        let cells = row
            .iter()
            .map(|cell| cell.as_ref().map_or_else(String::new, term_text::written));
        cells.collect::<Vec<_>>().join("\t")
    };
    Ok(answer.rows().map(text).collect())
}
