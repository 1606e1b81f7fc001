//! The figures of the voting show at one moment, read from the engine by queries, and their
//! drawing.

use super::DATAFLOW;
use crate::demo::view::{Picture, bar};
use crate::error::CliError;
use crate::table::cut;
use oxrdf::Term;
use somersault::Engine;
use std::time::Duration;

/// Rows of each list on display, the same number each time.
const ROWS: usize = 3;
const BOARDS: [&str; 3] = ["most", "fewest", "latest"];

/// The show at one moment.
#[derive(Default)]
pub(super) struct Scene {
    duration: Duration,
    address: String,
    played: Duration,
    votes_per_second: f64,
    valid: u64,
    refused: u64,
    removals: u64,
    aborts: u64,
    waiting: u64,
    /// The lines of the boards, in the order of [`BOARDS`].
    boards: [Vec<String>; 3],
    /// The newest removals, newest first.
    removed: Vec<String>,
    /// The newest aborts with their reasons, newest first.
    aborted: Vec<String>,
}

impl Scene {
    pub(super) fn new(duration: Duration, address: &str) -> Scene {
        Scene {
            duration,
            address: address.to_owned(),
            ..Scene::default()
        }
    }

    /// Reads all figures.
    ///
    /// # Errors
    /// What a query reports.
    pub(super) fn look(&mut self, engine: &Engine, played: Duration) -> Result<(), CliError> {
        let before = self.processed();
        let flow = engine.dataflow_info(DATAFLOW)?;
        (self.aborts, self.waiting) = (flow.aborts, flow.waiting_batches);
        let counters = asked(
            engine,
            "SELECT ?v ?r ?n { show:show show:valid ?v ; show:refused ?r ; show:removals ?n }",
        )?;
        let counter = |at: usize| {
            let cell = counters.first().and_then(|row| row.get(at));
            cell.and_then(|text| text.parse().ok()).unwrap_or_default()
        };
        (self.valid, self.refused, self.removals) = (counter(0), counter(1), counter(2));
        let since = (played.saturating_sub(self.played)).as_secs_f64();
        self.votes_per_second = (self.processed() - before) as f64 / since.max(0.001);
        self.played = played;
        for (board, lines) in BOARDS.iter().zip(&mut self.boards) {
            let (shown, order) = match *board {
                "most" => ("?votes", "DESC(?votes) ?k"),
                "fewest" => ("?votes", "?votes DESC(?k)"),
                _ => ("?recent", "DESC(?recent) ?k"),
            };
            let text = format!(
                "SELECT ?name {shown} {{ show:{board} show:holds ?c . ?c show:name ?name ; show:number ?k ; show:votes ?votes OPTIONAL {{ ?c show:recent ?recent }} }} ORDER BY {order}"
            );
            *lines = asked(engine, &text)?
                .iter()
                .map(|row| row.join("  "))
                .collect();
        }
        let removed = "SELECT ?k ?gone ?had { ?r show:removed ?c ; show:order ?k ; show:had ?had BIND(REPLACE(STR(?c), '^.*/', 'Contestant ') AS ?gone) } ORDER BY DESC(?k) LIMIT 3";
        self.removed = asked(engine, removed)?
            .iter()
            .map(|row| match row.as_slice() {
                [order, gone, had] => format!("{order}. {gone}, with {had} votes"),
                _ => String::new(),
            })
            .collect();
        let aborted = engine.aborted(DATAFLOW)?.newest;
        self.aborted = aborted
            .iter()
            .rev()
            .take(ROWS)
            .map(|abort| format!("vote {}: {}", abort.round, abort.reason))
            .collect();
        Ok(())
    }

    /// The votes whose transaction has ended.
    fn processed(&self) -> u64 {
        self.valid + self.refused + self.aborts
    }

    /// The lines at the end.
    pub(super) fn summary(&self, sent: u64, took: Duration) -> Vec<String> {
        let mut lines = vec![
            String::new(),
            format!(
                "Summary: {sent} votes in {:.1} s, {:.0} a second, each one transaction of three procedures",
                took.as_secs_f64(),
                sent as f64 / took.as_secs_f64().max(0.001)
            ),
            format!(
                "  {} valid, {} from phones that had voted, {} aborted; {} contestants removed",
                self.valid, self.refused, self.aborts, self.removals
            ),
        ];
        for (board, contestants) in BOARDS.iter().zip(&self.boards) {
            lines.push(format!("  {board}: {}", contestants.join(", ")));
        }
        if let Some(removed) = self.removed.first() {
            lines.push(format!("  last removal: {removed}"));
        }
        if let Some(aborted) = self.aborted.first() {
            lines.push(format!("  last abort: {aborted}"));
        }
        lines
    }
}

impl Picture for Scene {
    fn lines(&self, width: usize) -> Vec<String> {
        let mut lines = vec![
            bar(self.played, self.duration, width),
            format!(
                "{:.0} votes/s   {} valid   {} repeated phones   {} aborted   {} removals   {} waiting",
                self.votes_per_second,
                self.valid,
                self.refused,
                self.aborts,
                self.removals,
                self.waiting
            ),
            format!("HTTP answers at http://{}", self.address),
            String::new(),
            format!(
                "{:<26}{:<26}{:<26}",
                "most votes", "fewest votes", "most of the latest"
            ),
        ];
        let cell = |list: &[String], at: usize| list.get(at).cloned().unwrap_or_default();
        for at in 0..ROWS {
            let [most, fewest, latest] = [0, 1, 2].map(|board| cell(&self.boards[board], at));
            lines.push(format!("{most:<26}{fewest:<26}{latest:<26}"));
        }
        for (title, list) in [("removed", &self.removed), ("aborted", &self.aborted)] {
            lines.push(String::new());
            lines.push(title.to_owned());
            lines.extend((0..ROWS).map(|at| format!("  {}", cell(list, at))));
        }
        lines
            .into_iter()
            .map(|line| cut(&line, width.saturating_sub(1)))
            .collect()
    }

    fn line(&self) -> String {
        let none = || "none".to_owned();
        format!(
            "{:>3.0} s  {:>7.0} votes/s  {:>8} valid  {:>3} removals  leading: {}  {:>5} aborts, the last: {}",
            self.played.as_secs_f64(),
            self.votes_per_second,
            self.valid,
            self.removals,
            self.boards[0].first().cloned().unwrap_or_else(none),
            self.aborts,
            self.aborted.first().cloned().unwrap_or_else(none)
        )
    }
}

/// The rows of a SELECT about the show, as plain text; unbound cells are empty.
fn asked(engine: &Engine, select: &str) -> Result<Vec<Vec<String>>, CliError> {
    let text = format!("PREFIX show: <http://example.org/show#> {select}");
    let answer = engine.query(&text).run()?.answer;
    let plain = |cell: Option<Term>| match cell {
        Some(Term::Literal(literal)) => literal.value().to_owned(),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    Ok(answer
        .rows()
        .map(|row| row.into_iter().map(plain).collect())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drawing_keeps_its_height_and_fits_a_narrow_terminal() {
        let empty = Scene::new(Duration::from_secs(20), "127.0.0.1:1");
        let full = Scene {
            boards: [0, 1, 2].map(|board| vec![format!("Contestant {board}  77"); 3]),
            removed: vec!["1. Contestant 4, with 9 votes".to_owned()],
            aborted: vec!["x".repeat(300); 3],
            ..Scene::new(Duration::from_secs(20), "127.0.0.1:1")
        };
        assert_eq!(empty.lines(82).len(), full.lines(82).len());
        for line in full.lines(82) {
            assert!(line.chars().count() <= 82, "{line}");
        }
        assert!(full.line().contains("leading: Contestant 0"));
    }
}
