//! A one-shot query of half a minute beside five streams that are absorbed: its answer must be as
//! at its start, and the streams must go on as without it. The right answer is known because the
//! query ran before, on the same snapshot, while the streams stood still.
//!
//! The streams are judged in two ways. In real time the query has all cores: a stream that is not
//! slowed down keeps its pace, and only the time of a push grows. As fast as possible the query has
//! a core to itself: a store that keeps an old snapshot absorbs as many tuples a second as one that
//! does not.

use super::figures::quantile_ms;
use super::measure::{Firing, Reader, named};
use super::snapshots::looking;
use super::stage::{BATCH_MS, Stage, Stretch, configuration};
use super::threads::Apart;
use super::{Failure, StreamsOptions};
use crate::figures::table::{self, time};
use crate::harness::markdown;
use crate::harness::target::{Row, at_most};
use serde::{Deserialize, Serialize};
use somersault::oxrdf::NamedNode;
use somersault::{CancelToken, Engine, EngineConfig, EngineError, Limits, QueryOptions, Sn};
use somersault_generate::{STORED_GRAPH, SocialNetwork};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The first size of the long query that is tried, and by how much it grows until it takes long
/// enough to be scaled.
const FIRST_AUTHORS: u64 = 20;
const GROWTH: u64 = 4;
const SCALABLE: Duration = Duration::from_millis(500);
/// The most steps in which the query is made longer, until its time is close enough to the wanted
/// one.
const DEEPENED: usize = 4;
const CLOSE: f64 = 0.9;
/// The factor by which the query may take longer while streams are absorbed; then the streams stand
/// still until it ends.
const LONGER: f64 = 2.0;
const PROBE: &str = "L1";
/// The factor between the lengths of the stretches that are played as fast as possible and in real
/// time.
const UNPACED_TIMES: i64 = 2;
/// A stream within this factor of its speed without the query does not count as slowed down.
const NOT_SLOWED: f64 = 1.1;

/// A query of some seconds beside the streams.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct LongQuery {
    stored_triples: u64,
    /// The count of the query, and the right one.
    answer: u64,
    expected: u64,
    /// Statements that became visible while it ran.
    absorbed: u64,
    seconds_alone: f64,
    seconds_beside: f64,
    sns_most: u64,
    bytes_most: u64,
    without: StreamPace,
    beside: StreamPace,
    /// `None` where a core cannot be given to the query alone, and in files from before it was
    /// measured.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    unpaced: Option<Unpaced>,
}

/// Tuples a second as fast as possible, the query on a core of its own.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Unpaced {
    /// Tuples absorbed beside the query.
    tuples: u64,
    /// Before it and after it, since the store grows meanwhile.
    without: [f64; 2],
    beside: f64,
}

impl Unpaced {
    fn without_mean(&self) -> f64 {
        self.without.iter().sum::<f64>() / self.without.len() as f64
    }
}

/// The figures of the streams.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct StreamPace {
    #[serde(skip)]
    tuples: u64,
    tuples_per_second: f64,
    behind_ms: u64,
    /// The time that a batch's pushes and its advance took.
    batch_p50_ms: f64,
    batch_p99_ms: f64,
    /// The delay of the probe.
    delay_p50_ms: f64,
    delay_p99_ms: f64,
}

/// A heavy query over the graph that absorbs the streams, for the other posts that the likers of
/// the first `authors` authors' posts like. A hash of the texts of each pair, and a hash of that,
/// `deep` times, makes it use time rather than memory.
fn text(authors: u64, deep: u64) -> String {
    let texts = "CONCAT(STR(?post), STR(?other))".to_owned();
    let hash = (0..deep).fold(texts, |inner, _| format!("SHA512({inner})"));
    format!(
        "PREFIX sioc: <http://rdfs.org/sioc/ns#> PREFIX sib: <http://www.ins.cwi.nl/sib/vocabulary/> \
         SELECT (COUNT(*) AS ?rows) WHERE {{ \
         {{ SELECT DISTINCT ?author WHERE {{ ?author sioc:account_of ?person }} ORDER BY ?author LIMIT {authors} }} \
         ?author sioc:creator_of ?post . ?fan sib:like ?post . ?fan sib:like ?other \
         FILTER(STRLEN({hash}) > 0) }}"
    )
}

/// A limit that it does not meet.
pub(crate) const NO_LIMIT: Duration = Duration::from_secs(600);

/// The count of a query.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CountAnswer {
    answer: u64,
    sn: Sn,
    pub(crate) took: Duration,
}

fn ask(engine: &Engine, text: &str, cancel: Option<CancelToken>) -> Result<CountAnswer, Failure> {
    let options = QueryOptions {
        default_graphs: vec![NamedNode::new(STORED_GRAPH)?],
        timeout: Some(NO_LIMIT),
        cancel,
        ..QueryOptions::default()
    };
    let results = engine.query(text).options(&options).run()?;
    let mut cursor = results.answer.cursor();
    let row = cursor.next_row().ok_or("a count has no row")?;
    let cell = row.get(0).ok_or("a count has no value")?;
    Ok(CountAnswer {
        answer: cell.text.parse()?,
        sn: results.sn,
        took: results.execution,
    })
}

/// Runs a query on another thread, and plays meanwhile once the query has its snapshot. `play` gets
/// a function that returns whether the query still runs.
pub(crate) fn beside<T>(
    engine: &Engine,
    text: &str,
    cancel: Option<CancelToken>,
    play: impl FnOnce(&dyn Fn() -> bool) -> Result<T, Failure>,
) -> Result<(Result<CountAnswer, Failure>, T), Failure> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let cancelled = cancel.clone();
        let asker = scope.spawn(|| {
            let asked = ask(engine, text, cancelled);
            over.store(true, Ordering::Release);
            asked
        });
        let goes_on = || !over.load(Ordering::Acquire);
        while engine.metrics().pins == 0 && goes_on() {
            std::thread::sleep(Duration::from_micros(100));
        }
        let played = play(&goes_on);
        if let Some(cancel) = cancel {
            cancel.cancel();
        }
        let asked = asker.join();
        let asked = asked.map_err(|_| "the thread that asks has panicked")?;
        Ok((asked, played?))
    })
}

/// The text of a query that takes about `wanted`.
pub(crate) fn taking(engine: &Engine, users: u64, wanted: Duration) -> Result<String, Failure> {
    let took = |authors, deep| -> Result<f64, Failure> {
        let asked = ask(engine, &text(authors, deep), None)?;
        Ok(asked.took.as_secs_f64().max(1e-6))
    };
    let mut authors = FIRST_AUTHORS.min(users);
    let mut seconds = took(authors, 1)?;
    while seconds < SCALABLE.as_secs_f64() && authors < users {
        authors = (authors * GROWTH).min(users);
        seconds = took(authors, 1)?;
    }
    let wanted = wanted.as_secs_f64();
    let of_so_many = (authors as f64 * wanted / seconds) as u64;
    if of_so_many <= users {
        return Ok(text(of_so_many.max(1), 1));
    }
    // All authors together are not enough, so each pair takes longer.
    let share = wanted * authors as f64 / users as f64;
    let mut deep = 1;
    for _ in 0..DEEPENED {
        if seconds >= share * CLOSE {
            break;
        }
        deep = (deep as f64 * share / seconds).ceil() as u64;
        seconds = took(authors, deep)?;
    }
    Ok(text(users, deep))
}

/// Measures, and prints the figures as they come.
pub(super) fn measure(
    network: &SocialNetwork,
    options: &StreamsOptions,
) -> Result<LongQuery, Failure> {
    let mut scene = Scene::open(network, options)?;
    let mut long = scene.paced(options)?;
    print_long(&long);
    if let Some(apart) = Apart::keep() {
        let unpaced = scene.unpaced(options.seconds * 1000 * UNPACED_TIMES)?;
        drop(apart);
        print_unpaced(&unpaced);
        long.unpaced = Some(unpaced);
    }
    scene.stage.engine.shutdown()?;
    Ok(long)
}

/// Streams that a probe is registered over, and the long query.
struct Scene<'n> {
    stage: Stage<'n>,
    reader: Reader,
    text: String,
}

impl<'n> Scene<'n> {
    fn open(network: &'n SocialNetwork, options: &StreamsOptions) -> Result<Scene<'n>, Failure> {
        let config = EngineConfig {
            limits: Limits {
                query_memory_bytes: 8 << 30,
                total_query_memory_bytes: 64 << 30,
                pin_time: NO_LIMIT,
                ..Limits::default()
            },
            ..configuration(options.workers)
        };
        let mut stage = Stage::open(network, config)?;
        let warm_up = stage.stretch(2_000, 1.0);
        stage.play(warm_up, true)?;
        let probe = &named(&stage, &[PROBE])[0];
        let reader = Reader::register(&stage.engine, probe.name, &probe.text)?;
        Ok(Scene {
            stage,
            reader,
            text: String::new(),
        })
    }

    /// In real time: without the query, then beside it.
    fn paced(&mut self, options: &StreamsOptions) -> Result<LongQuery, Failure> {
        let seconds = options.seconds * 1000;
        let stretch = self.stage.stretch(seconds, 1.0);
        let without = self.pace(stretch, true, &|| true)?;
        let users = u64::from(self.stage.stored.users);
        let wanted = Duration::from_secs(options.heavy_seconds);
        self.text = taking(&self.stage.engine, users, wanted)?;
        let alone = ask(&self.stage.engine, &self.text, None)?;
        println!(
            "a query of {:.1} s, {} rows counted at snapshot {}",
            alone.took.as_secs_f64(),
            table::thousands(alone.answer),
            alone.sn
        );
        let longest = (alone.took.as_secs_f64() * LONGER * 1e3) as i64 / BATCH_MS * BATCH_MS;
        let stretch = self.stage.stretch(longest.max(seconds), 1.0);
        let engine = &self.stage.engine;
        let stored = engine.metrics().stored_statements;
        let (asked, ((pace, stored_then), looks)) = beside(engine, &self.text, None, |goes_on| {
            looking(engine, || {
                let pace = self.pace(stretch, true, goes_on)?;
                Ok((pace, engine.metrics().stored_statements))
            })
        })?;
        let asked = asked?;
        if asked.sn != alone.sn {
            let (at, sn) = (asked.sn, alone.sn);
            return Err(format!("the query ran at snapshot {at} instead of {sn}").into());
        }
        Ok(LongQuery {
            stored_triples: self.stage.stored.triples,
            answer: asked.answer,
            expected: alone.answer,
            absorbed: stored_then - stored,
            seconds_alone: alone.took.as_secs_f64(),
            seconds_beside: asked.took.as_secs_f64(),
            sns_most: looks.most(),
            bytes_most: looks.bytes_most,
            without,
            beside: pace,
            unpaced: None,
        })
    }

    /// As fast as possible: a stretch of the streams without the query, beside it, and without it
    /// again. The query's answer is not waited for.
    fn unpaced(&mut self, duration_ms: i64) -> Result<Unpaced, Failure> {
        let before = self.stage.stretch(duration_ms, 1.0);
        let before = self.pace(before, false, &|| true)?;
        let stretch = self.stage.stretch(duration_ms, 1.0);
        let engine = &self.stage.engine;
        let cancel = Some(CancelToken::new());
        let (asked, pace) = beside(engine, &self.text, cancel, |goes_on| {
            self.pace(stretch, false, goes_on)
        })?;
        if let Err(error) = asked
            && !matches!(error.downcast_ref(), Some(EngineError::Cancelled))
        {
            return Err(error);
        }
        let after = self.stage.stretch(duration_ms, 1.0);
        let after = self.pace(after, false, &|| true)?;
        Ok(Unpaced {
            tuples: pace.tuples,
            without: [before.tuples_per_second, after.tuples_per_second],
            beside: pace.tuples_per_second,
        })
    }

    /// Plays a stretch in real time or as fast as possible, and returns its figures.
    fn pace(
        &self,
        stretch: Stretch,
        paced: bool,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<StreamPace, Failure> {
        let from_ms = stretch.from_ms;
        let mut batches: Vec<Duration> = Vec::new();
        let mut before = Duration::ZERO;
        let start = Instant::now();
        let mut elapsed = Duration::ZERO;
        let progress = self.stage.play_while(stretch, paced, &mut |progress| {
            elapsed = start.elapsed();
            if progress.at.0 % BATCH_MS == 0 {
                batches.push(progress.in_engine - before);
                before = progress.in_engine;
            }
            goes_on() || progress.at.0 % BATCH_MS != 0
        })?;
        let mut delays = Vec::new();
        self.reader.read(|firing: Firing| {
            if firing.close_ms > from_ms {
                delays.push(firing.delay);
            }
        })?;
        batches.sort_unstable();
        delays.sort_unstable();
        Ok(StreamPace {
            tuples: progress.statements,
            tuples_per_second: progress.statements as f64 / elapsed.as_secs_f64(),
            behind_ms: progress.behind.as_millis() as u64,
            batch_p50_ms: quantile_ms(&batches, 50),
            batch_p99_ms: quantile_ms(&batches, 99),
            delay_p50_ms: quantile_ms(&delays, 50),
            delay_p99_ms: quantile_ms(&delays, 99),
        })
    }
}

fn print_long(long: &LongQuery) {
    println!(
        "beside the streams {:.1} s, {} statements absorbed meanwhile: it counted {}, {}; {} snapshot numbers at most, {} KiB",
        long.seconds_beside,
        table::thousands(long.absorbed),
        table::thousands(long.answer),
        if long.answer == long.expected {
            "as before"
        } else {
            "WHICH IS WRONG"
        },
        long.sns_most,
        long.bytes_most >> 10
    );
    for (what, pace) in [("without it", &long.without), ("beside it", &long.beside)] {
        println!(
            "{what}: {} tuples/s, {} ms behind the clock; a batch p50 {:.2} ms, p99 {:.2} ms; {PROBE}'s delay p50 {:.2} ms, p99 {:.2} ms",
            table::thousands(pace.tuples_per_second as u64),
            pace.behind_ms,
            pace.batch_p50_ms,
            pace.batch_p99_ms,
            pace.delay_p50_ms,
            pace.delay_p99_ms
        );
    }
}

fn print_unpaced(unpaced: &Unpaced) {
    let [before, after] = unpaced
        .without
        .map(|tuples| table::thousands(tuples as u64));
    println!(
        "as fast as it goes, the query on a core of its own: {before} tuples/s before it, {} beside it ({} tuples), {after} after it",
        table::thousands(unpaced.beside as u64),
        table::thousands(unpaced.tuples)
    );
}

/// The targets that these figures are held to.
pub(super) fn rows(long: Option<&LongQuery>) -> Vec<Row> {
    let unpaced = long.and_then(|long| long.unpaced.as_ref());
    vec![
        at_most(
            "streams: answers of a long one-shot query that are not its snapshot's",
            0.0,
            long.map(|long| f64::from(u8::from(long.answer != long.expected))),
            "answers",
        ),
        at_most(
            "streams: tuples/s in real time without a long one-shot query, against beside it",
            1.02,
            long.map(|long| long.without.tuples_per_second / long.beside.tuples_per_second),
            "×",
        ),
        at_most(
            "streams: tuples/s as fast as it goes without it, against beside it on a core of its own",
            NOT_SLOWED,
            unpaced.map(|unpaced| unpaced.without_mean() / unpaced.beside),
            "×",
        ),
        at_most(
            "streams: p50 of a batch's push beside it on all cores, against without",
            NOT_SLOWED,
            long.map(|long| long.beside.batch_p50_ms / long.without.batch_p50_ms),
            "×",
        ),
    ]
}

/// The figures as a table and sentences.
pub(super) fn table(long: &LongQuery, out: &mut String) {
    out.push_str(&format!(
        "\nA one-shot query of {:.1} s over {} stored triples, asked again while the streams are absorbed: {:.1} s, {} statements absorbed \
         meanwhile, {} rows counted, {} expected; {} snapshot numbers retained at most, {} KiB.\n\n",
        long.seconds_alone,
        table::thousands(long.stored_triples),
        long.seconds_beside,
        table::thousands(long.absorbed),
        table::thousands(long.answer),
        table::thousands(long.expected),
        long.sns_most,
        table::thousands(long.bytes_most >> 10)
    ));
    let names = [
        "",
        "tuples/s",
        "behind",
        "pushing a batch, p50",
        "p99",
        "L1's delay, p50",
        "p99",
    ];
    let line = |(what, pace): (&str, &StreamPace)| {
        [
            what.to_owned(),
            table::thousands(pace.tuples_per_second as u64),
            format!("{} ms", pace.behind_ms),
            time(pace.batch_p50_ms * 1e3),
            time(pace.batch_p99_ms * 1e3),
            time(pace.delay_p50_ms * 1e3),
            time(pace.delay_p99_ms * 1e3),
        ]
    };
    let lines = [("without it", &long.without), ("beside it", &long.beside)];
    markdown::table(out, names, lines.into_iter().map(line));
    if let Some(unpaced) = &long.unpaced {
        let [before, after] = unpaced.without.map(|each| table::thousands(each as u64));
        out.push_str(&format!(
            "\nThe query has all cores there, and the streams have what it leaves of them. On a core of its own, with the other one for the \
             streams, which come as fast as it goes: {before} tuples/s before it, {} beside it, {after} after it.\n",
            table::thousands(unpaced.beside as u64)
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::target::Verdict;
    use crate::streams::stage::network;

    #[test]
    fn a_long_query_answers_as_at_its_start() {
        let options = StreamsOptions {
            rate: 20_000,
            heavy_seconds: 1,
            ..StreamsOptions::smallest()
        };
        let network = network(50_000, options.rate);
        let mut scene = Scene::open(&network, &options).unwrap();
        let mut long = scene.paced(&options).unwrap();
        assert!(long.expected > 0 && long.absorbed > 0);
        assert_eq!(long.answer, long.expected);
        assert_eq!(rows(Some(&long))[2].verdict, Verdict::NotMeasured);
        // On all cores that are free: other tests use them as well.
        long.unpaced = Some(scene.unpaced(1_000).unwrap());
        let unpaced = long.unpaced.as_ref().unwrap();
        assert!(unpaced.tuples > 0 && unpaced.beside > 0.0);
        let rows = rows(Some(&long));
        assert!(rows.iter().all(|row| row.verdict != Verdict::NotMeasured));
        let mut text = String::new();
        table(&long, &mut text);
        assert!(text.contains("| beside it |"), "{text}");
        assert!(text.contains("after it."), "{text}");
    }

    #[test]
    fn injection_is_slowed_where_a_push_takes_longer_or_fewer_tuples_come() {
        let pace = |tuples_per_second, batch_p50_ms| StreamPace {
            tuples_per_second,
            batch_p50_ms,
            ..StreamPace::default()
        };
        let long = LongQuery {
            without: pace(133_000.0, 24.0),
            beside: pace(133_000.0, 48.0),
            unpaced: Some(Unpaced {
                tuples: 1_000,
                without: [500_000.0, 400_000.0],
                beside: 425_000.0,
            }),
            ..LongQuery::default()
        };
        let rows = rows(Some(&long));
        let figures: Vec<_> = (rows.iter())
            .map(|row| (row.figure.as_str(), row.verdict))
            .collect();
        let expected = [
            ("0.00 answers", Verdict::Holds),
            ("1.00 ×", Verdict::Holds),
            ("1.06 ×", Verdict::Holds),
            ("2.00 ×", Verdict::Short),
        ];
        assert_eq!(figures, expected);
        // Files that were written before this was measured have no such member.
        let mut old = serde_json::to_value(&long).unwrap();
        old.as_object_mut().unwrap().remove("unpaced").unwrap();
        let old: LongQuery = serde_json::from_value(old).unwrap();
        assert_eq!(old.unpaced, None);
        assert_eq!(self::rows(Some(&old))[2].verdict, Verdict::NotMeasured);
    }
}
