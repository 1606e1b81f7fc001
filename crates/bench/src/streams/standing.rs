//! Many standing queries: L1–L3 with random constants are registered at once, the five streams run at their rate, and what the
//! groups do for each close is counted. A probe, one query of each shape with a subscriber, tells execution and delay.

use super::Failure;
use super::Options;
use super::figures::{Standing, quantile_ms};
use super::measure::{Firing, Reader};
use super::stage::{Stage, configuration, network};
use crate::machine::{Machine, processor_time_of, resident_bytes, stolen_time};
use crate::table;
use somersault::{MetricsSnapshot, NewQuery};
use std::time::{Duration, Instant};

/// Played before queries are registered, and again before they are measured.
const WARM_UP_MS: i64 = 2_000;
/// Queries with a subscriber, one of each shape.
const PROBES: u64 = 3;
/// All windows close so often.
const STEP: Duration = Duration::from_millis(100);
/// The shapes that are mixed in, and how many queries of each for a hundred of the others.
const HEAVY: [&str; 3] = ["L4", "L5", "L6"];
const HEAVY_IN_A_HUNDRED: u64 = 1;

/// What so many queries came to.
struct Outcome {
    registration: Duration,
    bytes_per_query: f64,
    executions_per_second: f64,
    delays: Vec<Duration>,
    late: usize,
    behind: Duration,
}

/// Measures, and prints as it goes.
pub(super) fn run(options: &Options) -> Result<Standing, Failure> {
    let mut figures = Standing {
        machine: Machine::read(),
        ..Standing::default()
    };
    // The most first: what an engine that has ended leaves free would hide what the next one's queries take.
    let mut counts = options.standing.clone();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    for queries in counts {
        let outcome = measured(options, queries, false, &mut figures)?;
        let keeps_up = outcome.late == 0 && outcome.behind < STEP;
        if keeps_up && figures.registered.is_none() {
            figures.registered = Some(queries);
            figures.light_executions_per_second = Some(outcome.executions_per_second);
            figures.light_delay_p50_ms = Some(quantile_ms(&outcome.delays, 50));
            figures.light_delay_p99_ms = Some(quantile_ms(&outcome.delays, 99));
        }
        let seconds = outcome.registration.as_secs_f64();
        figures.registration_seconds.get_or_insert(seconds);
        (figures.bytes_per_query).get_or_insert(outcome.bytes_per_query);
    }
    if let Some(most) = options.standing.iter().max() {
        let outcome = measured(options, *most, true, &mut figures)?;
        figures.mixed_executions_per_second = Some(outcome.executions_per_second);
    }
    Ok(figures)
}

fn measured(
    options: &Options,
    queries: u64,
    mixed: bool,
    figures: &mut Standing,
) -> Result<Outcome, Failure> {
    let network = network(options.stored, options.rate);
    let mut stage = Stage::open(&network, configuration(options.workers))?;
    let stretch = stage.stretch(WARM_UP_MS, 1.0);
    stage.play(stretch, true)?;
    // Texts are made while they are registered: kept until then, what they leave free would hide what queries take.
    let (before, start) = (resident_bytes(), Instant::now());
    let outcomes = (stage.engine).register_many(texts(&stage, queries, mixed))?;
    let registration = start.elapsed();
    let count = outcomes.len() as u64;
    for outcome in outcomes {
        outcome?;
    }
    let readers: Vec<Reader> = (texts(&stage, PROBES, false))
        .filter_map(|query| query.name)
        .map(|name| Reader::of(&stage.engine, &name))
        .collect::<Result<_, _>>()?;
    let bytes_per_query = resident_bytes().saturating_sub(before) as f64 / count as f64;
    let stretch = stage.stretch(WARM_UP_MS, 1.0);
    stage.play(stretch, true)?;

    let from_ms = stage.next_ms();
    let stretch = stage.stretch(options.seconds * 1000, 1.0);
    let (first, stolen) = (stage.engine.metrics(), stolen_time());
    let (start, spent) = (Instant::now(), processor_time_of("self"));
    let progress = stage.play(stretch, true)?;
    let (elapsed, spent) = (start.elapsed(), processor_time_of("self") - spent);
    let last = stage.engine.metrics();
    let mut delays = Vec::new();
    for reader in &readers {
        reader.read(|firing: Firing| {
            if firing.close_ms > from_ms {
                delays.push(firing.delay);
            }
        })?;
    }
    delays.sort_unstable();
    let late = delays.iter().filter(|delay| **delay > STEP).count();
    let seconds = elapsed.as_secs_f64();
    let grown = |of: fn(&MetricsSnapshot) -> u64| (of(&last) - of(&first)) as f64;
    let executions = grown(|all| all.queries.iter().map(|query| query.executions).sum());
    let nonempty = grown(|all| all.queries.iter().map(|query| query.nonempty).sum());
    let rows = grown(|all| all.queries.iter().map(|query| query.rows).sum());
    let firings = grown(|all| all.queries.iter().map(|query| query.firings).sum());
    let busy = last
        .queries
        .iter()
        .map(|query| query.execution.sum)
        .sum::<Duration>()
        - first
            .queries
            .iter()
            .map(|query| query.execution.sum)
            .sum::<Duration>();
    let what = format!(
        "{} queries{}",
        table::thousands(count),
        if mixed { ", L4–L6 among them" } else { "" }
    );
    let mut say = |name: &str, figure: f64, unit: &str| {
        println!("{what}: {name} {figure:.2} {unit}");
        let row = (format!("{what}: {name}"), figure, unit.to_owned());
        figures.rows.push(row);
    };
    say("registered in", registration.as_secs_f64(), "s");
    if figures.bytes_per_query.is_none() {
        say("memory a query", bytes_per_query, "bytes");
    }
    let kept = last.queries.iter().map(|query| query.kept_bytes);
    say(
        "answers kept for those who come back, a query",
        kept.sum::<u64>() as f64 / count as f64,
        "bytes",
    );
    say("executions", executions / seconds, "/s");
    say("executions with rows", nonempty / seconds, "/s");
    say("rows", rows / seconds, "/s");
    say(
        "execution of a group for a close",
        busy.as_secs_f64() * 1e3 / firings.max(1.0),
        "ms",
    );
    say(
        "processor time of all",
        spent.as_secs_f64() / seconds,
        "cores",
    );
    say("delay p50", quantile_ms(&delays, 50), "ms");
    say("delay p99", quantile_ms(&delays, 99), "ms");
    say("closes answered later than their step", late as f64, "");
    say(
        "event time behind the clock",
        progress.behind.as_secs_f64() * 1e3,
        "ms",
    );
    say(
        "stolen by the host",
        (stolen_time() - stolen).as_secs_f64() * 1e3,
        "ms",
    );
    drop(readers);
    stage.engine.shutdown()?;
    Ok(Outcome {
        registration,
        bytes_per_query,
        executions_per_second: executions / seconds,
        delays,
        late,
        behind: progress.behind,
    })
}

/// Names and texts, those of the probes first.
fn texts(stage: &Stage<'_>, queries: u64, mixed: bool) -> impl Iterator<Item = NewQuery> {
    let light = stage
        .network
        .standing_queries()
        .map(|(name, text)| NewQuery {
            name: Some(name),
            text,
        });
    let all = stage.network.continuous_queries().into_iter();
    let heavy = all.filter(move |query| mixed && HEAVY.contains(&query.name));
    let of_each = (queries * HEAVY_IN_A_HUNDRED / 100).max(1);
    let heavy = heavy.flat_map(move |query| {
        (0..of_each).map(move |at| {
            let name = format!("{}-{at}", query.name);
            let header = format!("QUERY {} ", query.name);
            NewQuery {
                text: query.text.replace(&header, &format!("QUERY {name} ")),
                name: Some(name),
            }
        })
    });
    light.take(queries as usize).chain(heavy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_queries_are_counted() {
        let options = Options::smallest();
        let figures = run(&options).expect("measured");
        let executions = figures.mixed_executions_per_second.expect("counted");
        assert!(executions > 0.0);
        assert!(
            figures
                .rows
                .iter()
                .any(|(name, rows, _)| name.ends_with("rows") && *rows > 0.0)
        );
    }
}
