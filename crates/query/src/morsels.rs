//! Morsels: steps that look at each row alone run on parts of the table that fit into the caches,
//! all steps on one part before the next part. Of a heavy table the parts are taken by whatever
//! hands are free; what they make is put together in the order of the parts, so that no answer
//! depends on how many hands there were, not even in the order of its rows. That order may depend on
//! the size of the parts: a UNION makes its branches' rows part by part. So how a table is cut must
//! not depend on the crew, unless its step makes the same of it in any parts.

use crate::QueryError;
use crate::execution::Crew;
use crate::plan::Step;
use crate::run::{Actual, Runner};
use crate::sources::Graphs;
use crate::table::Table;
use crate::workspace::Workspace;
use oxrdf::Term;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How many rows are tried first where only some of the answer is wanted.
const FIRST_PART: usize = 64;
/// A crew is asked for what would take at least so long alone.
const WORTH_SHARING: Duration = Duration::from_micros(150);
/// Into so many parts a table of a few thousand rows is cut, so that all hands end at about the same
/// time; so many rows has a part at least.
const PARTS: usize = 16;
const LEAST_PART: usize = 256;
/// After so many parts a hand may be called away: a pool's thread looks for waiting queries between
/// two shares, and a light one should not wait for all of a heavy one.
const PARTS_PER_SHARE: usize = 4;
/// Each hand gets a copy of the terms that the query has computed; of more there is no sharing.
const MOST_TERMS: usize = 1 << 12;

impl Runner<'_, '_> {
    /// Runs steps that look at each row alone, until `limit` rows have come out.
    pub(crate) fn run_by_row(
        &mut self,
        steps: &[Step],
        mut table: Table,
        limit: usize,
    ) -> Result<Table, QueryError> {
        let mut steps = steps;
        while let Some((step, rest)) = steps.split_first() {
            // A step that makes no row out of nothing new is run whole where rows are limited: its
            // rows are there already. A single step gains from parts only what others take of it.
            let cut = if limit == usize::MAX {
                table.rows >= 2 * self.guard.morsel_rows()
                    && (!rest.is_empty() || !step.kind.keeps_order() || self.guard.crew().is_some())
            } else {
                table.rows > FIRST_PART && step.kind.may_multiply()
            };
            if cut {
                return self.run_in_parts(steps, table, limit);
            }
            let wanted = if rest.is_empty() { limit } else { usize::MAX };
            table = self.run_step(step, table, wanted)?;
            steps = rest;
        }
        Ok(table)
    }

    /// Runs the first of some steps on parts of the table, and the others on what each makes.
    fn run_in_parts(
        &mut self,
        steps: &[Step],
        table: Table,
        limit: usize,
    ) -> Result<Table, QueryError> {
        let few_terms = self.evaluation.local.len() <= MOST_TERMS;
        let crew = (self.guard.crew()).filter(|_| limit == usize::MAX && few_terms);
        // Of the rows alone, not of the crew: the order of what comes out may depend on it.
        let most = self.guard.morsel_rows();
        let most = (table.rows / PARTS).clamp(LEAST_PART.min(most), most);
        let held = table.bytes();
        self.guard.hold(held)?;
        let mut all = Table::empty_like(&table);
        let mut part = if limit == usize::MAX {
            most
        } else {
            FIRST_PART.min(most)
        };
        let mut from = 0;
        let started = crew.map(|_| Instant::now());
        while from < table.rows && all.rows < limit {
            let to = (from + part).min(table.rows);
            let start = table.part(from..to, self.workspace);
            let made = self.run_part(steps, start, left_of(limit, all.rows))?;
            all.append(made, self.workspace);
            self.guard.fits(all.bytes())?;
            from = to;
            part = (part * 4).min(most);
            let Some((crew, started)) = crew.zip(started) else {
                continue;
            };
            let parts_left = (table.rows - from).div_ceil(most);
            let parts_done = from.div_ceil(most);
            let time_left = started.elapsed() / parts_done as u32 * parts_left as u32;
            if parts_left > 1 && (time_left >= WORTH_SHARING || self.guard.shares_at_once()) {
                self.share(crew, steps, &table, (from, most), &mut all)?;
                break;
            }
        }
        self.guard.release(held);
        self.workspace.give(table);
        Ok(all)
    }

    /// Has a crew run the steps on parts of so many rows, from a row on, and adds what they make.
    fn share(
        &mut self,
        crew: &dyn Crew,
        steps: &[Step],
        table: &Table,
        (from, size): (usize, usize),
        all: &mut Table,
    ) -> Result<(), QueryError> {
        let parts = (table.rows - from).div_ceil(size);
        let hands = crew.hands().min(parts).max(1);
        let held = all.bytes();
        self.guard.hold(held)?;
        let (view, current) = self.graphs.seed();
        let evaluation = self.evaluation.seed();
        let guard = &*self.guard;
        let actual = vec![Actual::default(); self.actual.len()];
        let made_bytes = AtomicU64::new(0);
        let next = AtomicUsize::new(0);
        let stopped = AtomicBool::new(false);
        let reports: Mutex<Vec<Result<Report, QueryError>>> = Mutex::new(Vec::new());
        let work = |_: usize| {
            let graphs = Graphs::new(view);
            graphs.set_current(current);
            let mut evaluation = evaluation.evaluation();
            let mut guard = guard.of_hand(&made_bytes);
            let mut report = Report::default();
            let result = Workspace::of_thread(|workspace| {
                let mut runner = Runner {
                    graphs: &graphs,
                    evaluation: &mut evaluation,
                    guard: &mut guard,
                    workspace,
                    actual: actual.clone(),
                };
                for _ in 0..PARTS_PER_SHARE {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= parts || stopped.load(Ordering::Relaxed) {
                        break;
                    }
                    let first = from + number * size;
                    let rows = first..(first + size).min(table.rows);
                    let start = table.part(rows, runner.workspace);
                    let made = runner.run_part(steps, start, usize::MAX)?;
                    made_bytes.fetch_add(made.bytes() as u64, Ordering::Relaxed);
                    runner.guard.fits(0)?;
                    report.made.push((number, made));
                }
                report.actual = std::mem::take(&mut runner.actual);
                Ok(())
            });
            report.rows = guard.rows();
            report.terms = evaluation.local.since(self.evaluation.local.len());
            if result.is_err() {
                stopped.store(true, Ordering::Relaxed);
            }
            reports.lock().push(result.map(|()| report));
        };
        crew.share(parts.div_ceil(PARTS_PER_SHARE).max(hands), &work);
        self.guard.release(held);
        self.gather(reports.into_inner(), parts, all)
    }

    /// Puts what hands made together, in the order of the parts.
    fn gather(
        &mut self,
        reports: Vec<Result<Report, QueryError>>,
        parts: usize,
        all: &mut Table,
    ) -> Result<(), QueryError> {
        let base = self.evaluation.local.len() as u64;
        let mut made: Vec<Option<Table>> = Vec::new();
        made.resize_with(parts, || None);
        for report in reports {
            let report = report?;
            self.guard.made(report.rows as usize);
            for (sum, one) in self.actual.iter_mut().zip(report.actual) {
                *sum += one;
            }
            // Each hand numbered the terms that it computed by itself.
            let ids: Vec<_> = (report.terms.into_iter())
                .map(|term| self.evaluation.local.id(term, self.evaluation.dictionary))
                .collect();
            for (number, mut table) in report.made {
                if !ids.is_empty() {
                    table.renumber(base, &ids);
                }
                made[number] = Some(table);
            }
        }
        for table in made.into_iter().flatten() {
            all.append(table, self.workspace);
        }
        self.guard.fits(all.bytes())
    }

    fn run_part(
        &mut self,
        steps: &[Step],
        table: Table,
        limit: usize,
    ) -> Result<Table, QueryError> {
        let Some((step, rest)) = steps.split_first() else {
            return Ok(table);
        };
        let wanted = match (rest.is_empty(), limit) {
            (true, limit) => limit,
            (false, _) => usize::MAX,
        };
        let next = self.run_step(step, table, wanted)?;
        self.run_by_row(rest, next, limit)
    }
}

/// What is left of a limit after some rows. No limit stays none, down to the innermost part: else
/// tables further in would be cut in another way, and without a crew, from the second part on.
fn left_of(limit: usize, made: usize) -> usize {
    match limit {
        usize::MAX => usize::MAX,
        limit => limit.saturating_sub(made),
    }
}

/// What a hand has done.
#[derive(Default)]
struct Report {
    /// What it made of the parts with these numbers.
    made: Vec<(usize, Table)>,
    /// The terms that it computed.
    terms: Vec<Term>,
    rows: u64,
    actual: Vec<Actual>,
}
