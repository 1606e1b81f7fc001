//! Morsels: steps that look at each row alone run on parts of the table that fit into the caches,
//! all steps on one part before the next part. Where helper threads are given, free ones take
//! parts. The results are put together in the order of the parts, so no answer depends on the
//! number of threads, not even in the order of its rows. That order may depend on the size of the
//! parts: a UNION makes its branches' rows part by part. So the cut of a table must not depend on
//! the threads, unless its step makes the same rows from any parts.

use crate::algebra::error::QueryError;
use crate::context::table::Table;
use crate::context::workspace::Workspace;
use crate::exec::assemble::assemble;
use crate::exec::run::{Runner, StepFigures};
use crate::exec::starts::Start;
use crate::exec::step::Step;
use crate::view::sources::Graphs;
use oxrdf::Term;
use parking_lot::Mutex;
use somersault_dictionary::TermPin;
use somersault_pool::Workers;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// The number of rows that are tried first where only some of the answer is wanted.
const FIRST_PART: usize = 64;
/// Into how many parts a table of a few thousand rows is cut, so that all threads end at about the
/// same time; and how many rows a part has at least.
const PARTS: usize = 16;
const LEAST_PART: usize = 256;
/// The number of parts that a share has at most. It has fewer near the end, so that no thread waits
/// long for the last one, and one part where another query waits for a thread. A pool's thread
/// looks for waiting queries between two shares, so a light query waits for one part of a heavy
/// one: for all rows that the steps make of that part.
const PARTS_PER_SHARE: usize = 4;
/// Each helper gets a copy of the terms that the query has computed. A query that has computed more
/// terms than this is not shared.
const MOST_TERMS: usize = 1 << 12;

impl Runner<'_, '_> {
    /// Runs steps that look at each row alone, until `limit` rows have come out.
    pub(crate) fn run_by_part(
        &mut self,
        steps: &[Step],
        mut table: Table,
        limit: usize,
    ) -> Result<Table, QueryError> {
        if limit == usize::MAX
            && let Some(all) = self.run_from_list(steps, &table)?
        {
            self.workspace.give(table);
            return Ok(all);
        }
        let mut steps = steps;
        while let Some((step, rest)) = steps.split_first() {
            if self.cuts(steps, table.rows, limit) {
                let all = self.run_in_parts(steps, &Start::Table(&table), limit)?;
                self.workspace.give(table);
                return Ok(all);
            }
            let wanted = if rest.is_empty() { limit } else { usize::MAX };
            table = self.run_step(step, table, wanted)?;
            steps = rest;
        }
        Ok(table)
    }

    /// Whether these steps are run on parts of a table with this many rows.
    pub(crate) fn cuts(&self, steps: &[Step], rows: usize, limit: usize) -> bool {
        let Some((step, rest)) = steps.split_first() else {
            return false;
        };
        // A step that makes no row out of nothing new is run whole where rows are limited: its rows
        // are there already. A single step gains from parts only what others take of it.
        if limit == usize::MAX {
            rows >= 2 * self.limiter.morsel_rows()
                && (!rest.is_empty()
                    || !step.kind.operator().keeps_order()
                    || self.limiter.workers().is_some())
        } else {
            rows > FIRST_PART && step.kind.operator().may_multiply()
        }
    }

    /// Cuts the rows into parts, and runs all these steps on each part.
    pub(crate) fn run_in_parts(
        &mut self,
        steps: &[Step],
        start: &Start<'_>,
        limit: usize,
    ) -> Result<Table, QueryError> {
        let few_terms = self.evaluation.local.len() <= MOST_TERMS;
        let workers = (self.limiter.workers()).filter(|_| limit == usize::MAX && few_terms);
        // The size depends on the rows alone and not on the threads, since the order of the result
        // may depend on it.
        let most = self.limiter.morsel_rows();
        let most = (start.rows() / PARTS).clamp(LEAST_PART.min(most), most);
        let held = start.bytes();
        self.limiter.reserve(held)?;
        let all = match workers {
            Some(workers) => self.share(workers, steps, start, most)?,
            None => self.run_parts(steps, start, most, limit)?,
        };
        self.limiter.release(held);
        Ok(all)
    }

    /// Runs steps on one part after the other, of `most` rows each, until `limit` rows have come
    /// out.
    fn run_parts(
        &mut self,
        steps: &[Step],
        rows: &Start<'_>,
        most: usize,
        limit: usize,
    ) -> Result<Table, QueryError> {
        let mut all = rows.empty();
        let mut part = if limit == usize::MAX {
            most
        } else {
            FIRST_PART.min(most)
        };
        let (mut from, mut held) = (0, 0);
        while from < rows.rows() && all.rows < limit {
            let to = (from + part).min(rows.rows());
            let start = rows.part(from..to, self.workspace);
            let made = self.run_part(steps, start, left_of(limit, all.rows))?;
            let bytes = made.bytes();
            all.append(made, self.workspace);
            // The rows made so far stay in memory while the next part runs.
            self.limiter.reserve(bytes)?;
            held += bytes;
            from = to;
            part = (part * 4).min(most);
        }
        self.limiter.release(held);
        Ok(all)
    }

    /// Lets several threads run the steps on parts of `most` rows each, and puts the results
    /// together.
    fn share(
        &mut self,
        workers: &dyn Workers,
        steps: &[Step],
        start: &Start<'_>,
        size: usize,
    ) -> Result<Table, QueryError> {
        let parts = start.rows().div_ceil(size);
        let taken = Taken::new(parts, workers.limit());
        // The helpers open their own.
        self.graphs.release();
        let (view, current) = self.graphs.seed();
        let evaluation = self.evaluation.seed();
        let known_terms = self.evaluation.local.len();
        let limiter = &*self.limiter;
        let actual = vec![StepFigures::default(); self.actual.len()];
        let made_bytes = AtomicU64::new(0);
        let reports: Mutex<Vec<Result<Report, QueryError>>> = Mutex::new(Vec::new());
        let work = |_: usize| {
            let Some(first) = taken.take() else {
                return;
            };
            let mut graphs = Graphs::new(view);
            graphs.set_current(current);
            let mut evaluation = evaluation.evaluation();
            let mut limiter = limiter.of_hand(&made_bytes);
            let mut report = Report::default();
            let result = Workspace::of_thread(|workspace| {
                let mut runner = Runner {
                    graphs: &mut graphs,
                    evaluation: &mut evaluation,
                    limiter: &mut limiter,
                    workspace,
                    actual: actual.clone(),
                };
                let mut left = taken.share();
                let mut next = Some(first);
                while let Some(number) = next {
                    let rows = number * size..((number + 1) * size).min(start.rows());
                    let part = start.part(rows, runner.workspace);
                    let made = runner.run_part(steps, part, usize::MAX)?;
                    made_bytes.fetch_add(made.bytes() as u64, Ordering::Relaxed);
                    runner.limiter.check_memory(0)?;
                    report.made.push((number, made));
                    left -= 1;
                    next = (left > 0 && !workers.is_needed_elsewhere())
                        .then(|| taken.take())
                        .flatten();
                }
                report.actual = std::mem::take(&mut runner.actual);
                Ok(())
            });
            report.rows = limiter.rows();
            report.terms = evaluation.local.since(known_terms);
            report.held = evaluation.local.held().clone();
            if result.is_err() {
                taken.stop();
            }
            reports.lock().push(result.map(|()| report));
        };
        self.workspace.lend(|| workers.for_each_share(parts, &work));
        let made = self.gather(reports.into_inner(), parts)?;
        let all = assemble(made, start.empty(), workers, self.workspace);
        self.limiter.check_memory(all.bytes())?;
        Ok(all)
    }

    /// The results of all threads, in the order of the parts.
    fn gather(
        &mut self,
        reports: Vec<Result<Report, QueryError>>,
        parts: usize,
    ) -> Result<Vec<Table>, QueryError> {
        let base = self.evaluation.local.len() as u64;
        let mut made: Vec<Option<Table>> = Vec::new();
        made.resize_with(parts, || None);
        for report in reports {
            let report = report?;
            self.limiter.count_rows(report.rows as usize);
            for (sum, one) in self.actual.iter_mut().zip(report.actual) {
                *sum += one;
            }
            self.evaluation.local.hold(&report.held);
            // Each thread numbered its computed terms independently.
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
        Ok(made.into_iter().flatten().collect())
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
        self.run_by_part(rest, next, limit)
    }
}

/// The rest of a limit after some rows. No limit stays no limit, down to the innermost part.
/// Otherwise inner tables would be cut differently from the second part on, and run without
/// helpers.
fn left_of(limit: usize, made: usize) -> usize {
    match limit {
        usize::MAX => usize::MAX,
        limit => limit.saturating_sub(made),
    }
}

/// Which parts are taken.
struct Taken {
    parts: usize,
    hands: usize,
    next: AtomicUsize,
    stopped: AtomicBool,
}

impl Taken {
    fn new(parts: usize, hands: usize) -> Taken {
        Taken {
            parts,
            hands,
            next: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
        }
    }

    /// The number of parts that the next share has; the fewer are left, the fewer it has.
    fn share(&self) -> usize {
        let left = self.parts.saturating_sub(self.next.load(Ordering::Relaxed));
        (left / (2 * self.hands)).clamp(1, PARTS_PER_SHARE)
    }

    /// One more part.
    fn take(&self) -> Option<usize> {
        if self.stopped.load(Ordering::Relaxed) {
            return None;
        }
        let part = self.next.fetch_add(1, Ordering::Relaxed);
        (part < self.parts).then_some(part)
    }

    /// No part is left to do.
    fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}

/// The results of one thread.
#[derive(Default)]
struct Report {
    /// The tables that it made, with the numbers of their parts.
    made: Vec<(usize, Table)>,
    /// The terms that it computed.
    terms: Vec<Term>,
    /// The terms that it found in the dictionary and that might be reclaimed there.
    held: TermPin,
    rows: u64,
    actual: Vec<StepFigures>,
}
