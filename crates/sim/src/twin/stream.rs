//! One stream of the twin: the statements it took, its times, and the statements that wait to be
//! stored.

use crate::algebra::Stored;
use crate::model::{Absorbs, Late, Statement, StreamModel};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A stream and all statements that it took.
#[derive(Debug, Clone)]
pub(super) struct Stream {
    pub(super) model: StreamModel,
    /// In order of arrival.
    pub(super) taken: Arc<Vec<Statement>>,
    /// The newest time of each source.
    sources: BTreeMap<u8, i64>,
    pub(super) complete_through: Option<i64>,
    /// The stream's first time.
    pub(super) begin: Option<i64>,
    /// The part of `taken` that is absorbed once its batch is closed.
    waiting: Vec<Statement>,
    /// The batches that end at or before this have been shown.
    shown_through: Option<i64>,
    /// The arrivals of statements that were too late.
    pub(super) late_at: Vec<i64>,
}

/// A push statement by statement.
pub(super) struct Sorted {
    /// The statements taken, each with whether it was late.
    pub(super) taken: Vec<(Statement, bool)>,
    /// The source's newest time after the push.
    own_ms: Option<i64>,
}

impl Stream {
    pub(super) fn new(model: &StreamModel) -> Self {
        Self {
            model: model.clone(),
            taken: Arc::default(),
            sources: BTreeMap::new(),
            complete_through: None,
            begin: None,
            waiting: Vec::new(),
            shown_through: None,
            late_at: Vec::new(),
        }
    }

    /// The statements of a push that are in time, or not too late to amend.
    pub(super) fn sorted(&self, source: u8, statements: &[Statement]) -> Sorted {
        let mut own_ms = self.sources.get(&source).copied();
        let mut begin = self.begin;
        let mut taken = Vec::new();
        for statement in statements {
            let at_ms = statement.at_ms;
            let reached = own_ms.max(self.complete_through);
            match (reached, self.model.late) {
                (Some(reached), Late::Amend(within_ms)) if at_ms < reached => {
                    if at_ms >= reached - within_ms && Some(at_ms) >= begin {
                        taken.push((*statement, true));
                    }
                }
                (Some(reached), _) if at_ms < reached => {}
                _ => {
                    let promised = at_ms - self.model.lateness_ms;
                    begin = begin.or(Some(promised));
                    own_ms = own_ms.max(Some(promised));
                    taken.push((*statement, false));
                }
            }
        }
        Sorted { taken, own_ms }
    }

    /// Takes a push; returns its statements that belong to batches already shown.
    pub(super) fn push(&mut self, source: u8, statements: &[Statement]) -> Vec<Statement> {
        let Sorted { taken, own_ms } = self.sorted(source, statements);
        if taken.len() < statements.len() {
            self.late_at.extend(self.complete_through);
        }
        let mut amended = Vec::new();
        for (statement, is_late) in &taken {
            let is_shown = Some(self.batch_end(statement)) <= self.shown_through;
            if *is_late && is_shown {
                amended.push(*statement);
            } else if self.absorbs(statement) {
                self.waiting.push(*statement);
            }
            Arc::make_mut(&mut self.taken).push(*statement);
        }
        if let Some((first, _)) = taken.iter().find(|(_, is_late)| !is_late)
            && let Some(own_ms) = own_ms
        {
            self.begin = self.begin.or(Some(first.at_ms - self.model.lateness_ms));
            self.sources.insert(source, own_ms);
            let least = self.sources.values().min().copied();
            self.complete_through = self.complete_through.max(least);
        }
        amended
    }

    pub(super) fn advance(&mut self, to_ms: i64) {
        if self.complete_through < Some(to_ms) {
            self.begin = self.begin.or(Some(to_ms));
            self.complete_through = Some(to_ms);
            for own in self.sources.values_mut() {
                *own = (*own).max(to_ms);
            }
        }
    }

    /// The watermark that the statements alone give, without advances.
    pub(super) fn heard_through(&self) -> Option<i64> {
        let newest = self.taken.iter().map(|statement| statement.at_ms).max();
        newest.min(self.complete_through)
    }

    /// Takes the statements that a query derived at a close. They complete the stream through the
    /// next close.
    pub(super) fn derive(
        &mut self,
        close_ms: i64,
        next_ms: i64,
        statements: &[Statement],
        is_unseen: bool,
    ) {
        if !is_unseen {
            Arc::make_mut(&mut self.taken).extend_from_slice(statements);
        }
        let facts = statements.iter().copied().filter(|it| self.absorbs(it));
        let facts: Vec<Statement> = facts.collect();
        self.waiting.extend(facts);
        self.begin = self.begin.or(Some(close_ms));
        self.complete_through = self.complete_through.max(Some(next_ms));
    }

    /// The start of the open batch; the least time for a stream without a time.
    pub(super) fn open_since(&self) -> i64 {
        let batch_ms = self.model.batch_ms;
        let begin = |time: i64| time.div_euclid(batch_ms) * batch_ms;
        self.complete_through.map_or(i64::MIN, begin)
    }

    /// The ends of the batches that are over and with which the number of all statements reaches a
    /// multiple of a step, and how many it reaches.
    pub(super) fn closes_by_number(&self, step: usize) -> Vec<(i64, u32)> {
        let mut sizes: BTreeMap<i64, usize> = BTreeMap::new();
        for statement in self.taken.iter() {
            *sizes.entry(self.batch_end(statement)).or_default() += 1;
        }
        let mut before = 0;
        let mut closes = Vec::new();
        for (end_ms, size) in sizes {
            let reached = (before + size) / step - before / step;
            before += size;
            if reached > 0 && Some(end_ms) <= self.complete_through {
                closes.push((end_ms, u32::try_from(reached).unwrap_or(u32::MAX)));
            }
        }
        closes
    }

    /// Stores all waiting statements, also those of open batches.
    pub(super) fn store_waiting(&self, stored: &mut Stored) {
        (self.waiting.iter()).for_each(|statement| self.store(statement, stored));
    }

    /// Stores the waiting statements of batches that are over and end at or before `through_ms`;
    /// `behind` counts batches that a bug leaves out.
    pub(super) fn show(&mut self, through_ms: i64, behind: i64, stored: &mut Stored) {
        let Some(complete_through) = self.complete_through else {
            return;
        };
        let through_ms = complete_through.min(through_ms);
        let (mut over, mut waiting) = (Vec::new(), Vec::new());
        for statement in std::mem::take(&mut self.waiting) {
            match self.batch_end(&statement) + behind * self.model.batch_ms <= through_ms {
                true => over.push(statement),
                false => waiting.push(statement),
            }
        }
        self.waiting = waiting;
        over.iter()
            .for_each(|statement| self.store(statement, stored));
        let shown_through = through_ms.div_euclid(self.model.batch_ms) * self.model.batch_ms;
        self.shown_through = self.shown_through.max(Some(shown_through));
    }

    /// Stores a statement if it is timeless.
    pub(super) fn store(&self, statement: &Statement, stored: &mut Stored) {
        if self.absorbs(statement) {
            let graph = self.model.into.or(statement.graph);
            stored.entry(graph).or_default().insert(statement.triple);
        }
    }

    /// The time from which on all statements are kept for a query that is registered now.
    pub(super) fn kept_from(&self) -> Option<i64> {
        let keep_ms = match self.model.late {
            Late::Amend(within_ms) => self.model.keep_ms.max(within_ms),
            Late::Reject | Late::Drop => self.model.keep_ms,
        };
        Some((self.complete_through? - keep_ms).max(self.begin?))
    }

    fn batch_end(&self, statement: &Statement) -> i64 {
        (statement.at_ms.div_euclid(self.model.batch_ms) + 1) * self.model.batch_ms
    }

    fn absorbs(&self, statement: &Statement) -> bool {
        match &self.model.absorbs {
            Absorbs::Everything => true,
            Absorbs::Nothing => false,
            Absorbs::AllBut(timing) => !timing.contains(&statement.triple.1),
        }
    }
}
