//! `demo`: a seeded social network played in real time into an engine of this process, with the
//! HTTP server beside it.

mod newest;
mod view;
pub(crate) mod vote;

use crate::args::DemoArgs;
use crate::commands::serve::listen;
use crate::error::CliError;
use newest::Newest;
use oxrdf::NamedNode;
use somersault::live::{self, LivePlan, LiveProgress, LiveStatement};
use somersault::{Engine, EngineConfig, EventTime, QueryOptions};
use somersault_generate::{NamedQuery, Parameters, Rates, STORED_GRAPH, SocialNetwork, StreamKind};
use somersault_server::{Running, ServerConfig};
use std::io::IsTerminal;
use std::time::{Duration, Instant};
use view::{Moment, QueryRow, View};

const BATCH_MS: i64 = 100;
/// Time between two drawings; each costs a query and reads every subscription.
const REDRAW: Duration = Duration::from_millis(250);
const DRAIN: Duration = Duration::from_secs(30);
/// The one-shot query of the live view: it sees the statements that were just absorbed.
const ONE_SHOT: &str = "PREFIX sib: <http://www.ins.cwi.nl/sib/vocabulary/> SELECT (COUNT(?post) AS ?posts) WHERE { ?post a sib:Post }";

/// Generates, loads, declares, registers, plays, and sums up.
///
/// # Errors
/// When the address is taken, or the engine refuses what it should not.
pub(crate) fn run(args: &DemoArgs) -> Result<(), CliError> {
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

fn play(args: &DemoArgs, engine: &Engine, address: &str) -> Result<(), CliError> {
    let network = SocialNetwork::new(Parameters {
        users: args.users,
        seed: args.seed,
        rates: Rates::in_total(args.rate),
        streams_ms: i64::from(args.duration) * 1000,
        ..Parameters::default()
    });
    let graph = NamedNode::new_unchecked(STORED_GRAPH);
    let mut activity = network.activity();
    let start = Instant::now();
    let loaded = engine.load_quads(
        network
            .people()
            .chain(activity.past())
            .map(|triple| triple.in_graph(graph.clone())),
    )?;
    println!(
        "{} users with their friends, groups and past posts: {} triples stored in {:.1} s",
        args.users,
        loaded.stored,
        start.elapsed().as_secs_f64()
    );
    for kind in StreamKind::ALL {
        engine.create_stream(None, &kind.declaration())?;
    }
    let queries = network.continuous_queries();
    for query in &queries {
        engine.register(Some(query.name), &query.text)?;
    }
    println!(
        "five streams and {} continuous queries; HTTP answers at http://{address}\n",
        queries.len()
    );

    let mut show = Show::new(args, engine, &queries, address)?;
    let plan = LivePlan {
        streams: StreamKind::ALL
            .iter()
            .map(|kind| kind.iri().to_owned())
            .collect(),
        batch_ms: BATCH_MS,
        from: EventTime(0),
        until: EventTime(i64::from(args.duration) * 1000),
        advances: true,
        paced: true,
    };
    let mut statements = activity
        .map(|streamed| LiveStatement {
            stream: streamed.kind.index(),
            at: EventTime(streamed.at_ms),
            triple: streamed.triple,
        })
        .peekable();
    let mut drawn = Ok(());
    let progress = live::play(engine, &plan, &mut statements, &mut |progress| {
        drawn = show.draw_if_due(progress);
        drawn.is_ok()
    })?;
    drawn?;
    engine.quiesce(DRAIN)?;
    show.finish(progress)
}

/// The figures on display, and their sources.
struct Show<'e> {
    engine: &'e Engine,
    view: View,
    newest: Newest,
    names: Vec<&'static str>,
    moment: Moment,
    drawn: Instant,
    tuples_then: u64,
}

impl<'e> Show<'e> {
    fn new(
        args: &DemoArgs,
        engine: &'e Engine,
        queries: &[NamedQuery],
        address: &str,
    ) -> Result<Self, CliError> {
        let names: Vec<_> = queries.iter().map(|query| query.name).collect();
        Ok(Self {
            engine,
            view: View::new(!args.plain && std::io::stdout().is_terminal()),
            newest: Newest::new(engine, names.iter().copied())?,
            names,
            moment: Moment {
                duration: Duration::from_secs(u64::from(args.duration)),
                address: address.to_owned(),
                ..Moment::default()
            },
            drawn: Instant::now(),
            tuples_then: 0,
        })
    }

    fn draw_if_due(&mut self, progress: LiveProgress) -> Result<(), CliError> {
        let played = Duration::from_millis(progress.at.0.unsigned_abs());
        if self.drawn.elapsed() < REDRAW || !self.view.is_due(played) {
            return Ok(());
        }
        self.look(progress, played)?;
        Ok(self.view.draw(&self.moment)?)
    }

    /// Fills the moment from the engine.
    fn look(&mut self, progress: LiveProgress, played: Duration) -> Result<(), CliError> {
        let since = self.drawn.elapsed().as_secs_f64().max(0.001);
        self.moment.tuples_per_second = (progress.statements - self.tuples_then) as f64 / since;
        self.tuples_then = progress.statements;
        self.drawn = Instant::now();
        self.moment.played = played;
        self.moment.tuples = progress.statements;
        self.moment.behind = progress.behind;
        self.moment.stored = self.engine.health().stored_statements;
        self.moment.one_shot = self.one_shot()?;
        let newest = self.newest.read();
        self.moment.queries.clear();
        for (name, newest) in self.names.iter().zip(newest) {
            let info = self.engine.query_info(name)?;
            self.moment.queries.push(QueryRow {
                name: info.name,
                firings: info.firings,
                rows: info.rows,
                execution: [info.execution_p50, info.execution_p99],
                delay: [info.delay_p50, info.delay_p99],
                waiting: info.waiting_p50,
                newest,
            });
        }
        Ok(())
    }

    /// Asks the stored graph how many posts it has by now.
    fn one_shot(&self) -> Result<String, CliError> {
        let options = QueryOptions {
            default_graphs: vec![NamedNode::new_unchecked(STORED_GRAPH)],
            ..QueryOptions::default()
        };
        let results = self.engine.query(ONE_SHOT).options(&options).run()?;
        let posts = results
            .answer
            .rows()
            .next()
            .and_then(|row| row.into_iter().next().flatten());
        let posts = posts
            .as_ref()
            .map_or_else(|| "no".to_owned(), crate::table::short);
        Ok(format!(
            "{posts} posts stored (answered in {})",
            view::readable_time(results.execution)
        ))
    }

    /// The summary, and what to try next.
    fn finish(mut self, progress: LiveProgress) -> Result<(), CliError> {
        let played = Duration::from_millis(progress.at.0.unsigned_abs());
        self.look(progress, played)?;
        if matches!(self.view, View::Terminal { .. }) {
            self.moment.tuples_per_second =
                progress.statements as f64 / played.as_secs_f64().max(0.001);
            self.view.draw(&self.moment)?;
        }
        println!(
            "\nSummary: {} tuples in {} s, {} triples stored, {}",
            progress.statements,
            played.as_secs(),
            self.moment.stored,
            self.moment.one_shot
        );
        let width = crate::table::terminal_width();
        for line in view::table(&self.moment.queries, width.max(110)) {
            println!("{line}");
        }
        println!(
            "exec: start of a query → its answer ready. delay: the last statement it needs acknowledged → its answer ready. waiting: behind other queries."
        );
        if let Some(failure) = self.newest.failures().first() {
            return Err(CliError::Failed(format!(
                "a continuous query failed: {failure}"
            )));
        }
        println!("\nNext, paste one of these:\n");
        for command in next_commands() {
            println!("  {command}\n");
        }
        Ok(())
    }
}

/// This very binary, as a shell here finds it.
fn program() -> String {
    std::env::current_exe()
        .ok()
        .and_then(|path| {
            let here = std::env::current_dir().ok()?;
            Some(path.strip_prefix(here).map_or(path.clone(), |relative| {
                std::path::Path::new("./").join(relative)
            }))
        })
        .map_or_else(
            || "somersault".to_owned(),
            |path| path.display().to_string(),
        )
}

/// Commands that start what they need, with this very binary.
fn next_commands() -> [String; 3] {
    let program = program();
    let network = std::env::temp_dir()
        .join("somersault-network")
        .display()
        .to_string();
    let generate = format!("{program} generate {network} --users 500 --rate 20000 --seconds 3");
    [
        format!(
            "{generate} && {program} query --stored {network}/stored.nt --file {network}/queries/S3.rq"
        ),
        format!(
            "{generate} && {program} replay --stored {network}/stored.nt --graph {STORED_GRAPH} --create {network}/streams.sql --stream {}={network}/PO.tsv --query {network}/queries/L3.csparql",
            StreamKind::Posts.iri()
        ),
        format!(
            "{program} serve --listen 127.0.0.1:7879 & sleep 1; {program} update 'INSERT DATA {{ <urn:ada> <urn:knows> <urn:grace> }}' --server http://127.0.0.1:7879; {program} query 'SELECT * {{ ?s ?p ?o }}' --server http://127.0.0.1:7879; kill $!"
        ),
    ]
}
