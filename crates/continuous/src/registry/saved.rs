//! The answers of all queries in a checkpoint.
//!
//! The one thing to know before changing it: the driver's thread only says that there is a
//! checkpoint. Each cohort notes its position when something is about to change there
//! ([`Cohort::note_freeze`]), so freezing costs the same however many cohorts there are.

use super::Registry;
use crate::cohort::{Cohort, Freeze, RestoredCohort};
use crate::delivery::hub::CohortHub;
use crate::evaluation::outcome::CohortResult;
use crate::evaluation::saved::RestoredAnswer;
use crate::saved::{AnswerRecord, AnswersError, SavedPlace, VERSION, contradiction};
use crate::stages::SavedStages;
use rustc_hash::FxHashMap;
use somersault_dictionary::Dictionary;
use somersault_model::{QueryUid, Sn};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Checkpoints.
impl Registry {
    /// Begins a checkpoint at the driver's present position, with `sn` the newest SN that was cut.
    pub(super) fn begin_checkpoint(&self, sn: Sn) {
        let mut freeze = self.freeze.lock();
        freeze.number += 1;
        freeze.sn = sn;
        *self.ended.lock() = Some(Vec::new());
    }

    pub(super) fn end_checkpoint(&self) {
        *self.ended.lock() = None;
    }

    /// Keeps a cohort that ends for the checkpoint that is being made: the record that ends it may
    /// be lost in a crash. It is still in the list of cohorts, so it is in one of both at any time.
    pub(super) fn keep_ended(&self, uid: QueryUid) {
        if let Some(ended) = &mut *self.ended.lock() {
            ended.extend(self.cohort(uid).map(|cohort| (uid, cohort)));
        }
    }

    pub(super) fn freeze(&self) -> Freeze {
        *self.freeze.lock()
    }

    /// Writes the records of the checkpoint that was begun last, once. All firings that became due
    /// at or before its SN must have been answered. Kept answers hold transient terms, so the
    /// transient terms must be written before, or while the driver is not told of anything.
    pub(super) fn save_answers(&self, out: &mut dyn FnMut(AnswerRecord)) {
        let freeze = self.freeze();
        // In this order: a cohort comes into the second list before it leaves the first.
        let mut cohorts: BTreeMap<QueryUid, Arc<Cohort>> = {
            let cohorts = self.cohorts.read();
            (cohorts.iter().map(|(uid, it)| (*uid, Arc::clone(it)))).collect()
        };
        cohorts.extend(self.ended.lock().take().into_iter().flatten());
        let mut count = 0;
        let mut counted = |record| {
            count += 1;
            out(record);
        };
        counted(AnswerRecord::Begin(VERSION, freeze.sn));
        for (uid, cohort) in cohorts {
            if let Some((hub, stages)) = cohort.take_frozen(freeze) {
                hub.save(uid, &mut counted);
                stages.save(&mut counted);
            }
        }
        out(AnswerRecord::End(count));
    }

    /// Reads the records of a checkpoint, after its dictionary, whose transient terms must all be
    /// held. The queries are announced afterwards, as if they were registered now.
    ///
    /// # Errors
    /// The first error of `records`, or that they contradict each other.
    pub(super) fn restore_answers<E: From<AnswersError>>(
        &self,
        records: impl IntoIterator<Item = Result<AnswerRecord, E>>,
    ) -> Result<(), E> {
        let mut restorer = Restorer::new(Arc::clone(self.resources.decoder()));
        for record in records {
            restorer.take(record?)?;
        }
        *self.restored.lock() = restorer.finish()?;
        Ok(())
    }

    /// After the queries were announced: checks that they are those of the restored answers.
    ///
    /// # Errors
    /// A query is missing, has no answers, or has other members.
    pub(super) fn check_answers(&self) -> Result<(), AnswersError> {
        if let Some(uid) = self.restored.lock().keys().next() {
            return contradiction(format!("there is no cohort with the uid {}", uid.0));
        }
        let cohorts = self.cohorts.read();
        cohorts
            .values()
            .try_for_each(|cohort| cohort.check_restored())
    }
}

/// The answers while their records are read.
struct Restorer {
    dictionary: Arc<Dictionary>,
    cohorts: FxHashMap<QueryUid, RestoredCohort>,
    /// The cohort, the result and the answer whose further records may follow.
    cohort: Option<(QueryUid, RestoredCohort)>,
    result: Option<CohortResult>,
    answer: Option<RestoredAnswer>,
    /// The records so far.
    count: u64,
    is_ended: bool,
}

impl Restorer {
    fn new(dictionary: Arc<Dictionary>) -> Restorer {
        Restorer {
            dictionary,
            cohorts: FxHashMap::default(),
            cohort: None,
            result: None,
            answer: None,
            count: 0,
            is_ended: false,
        }
    }

    fn take(&mut self, record: AnswerRecord) -> Result<(), AnswersError> {
        let is_first = matches!(record, AnswerRecord::Begin(..));
        if self.is_ended || is_first != (self.count == 0) {
            return contradiction("its records are not in their order");
        }
        match record {
            AnswerRecord::Begin(version, _) if version > VERSION => {
                return Err(AnswersError::Newer(version));
            }
            AnswerRecord::Begin(..) => {}
            AnswerRecord::Cohort(saved) => {
                self.end_cohort()?;
                let hub = CohortHub::restore(&saved);
                let stages = SavedStages::default();
                self.cohort = Some((saved.uid, RestoredCohort { hub, stages }));
            }
            AnswerRecord::Waves(waves) => self.hub()?.ledger.add_waves(waves),
            AnswerRecord::Members(members) => self.hub()?.ledger.add_members(members),
            AnswerRecord::Cells(rows) => self.hub()?.ledger.add_cells(rows),
            AnswerRecord::Pauses(pauses) => self.hub()?.ledger.add_pauses(pauses),
            AnswerRecord::Resumed(resumed) => self.hub()?.ledger.add_resumed(resumed),
            AnswerRecord::Histories(histories) => self.hub()?.add_histories(histories),
            AnswerRecord::Before(before) => self.hub()?.add_before(before),
            AnswerRecord::Result(saved) => {
                self.end_result()?;
                self.result = Some(CohortResult::restore(self.uid()?, *saved));
            }
            AnswerRecord::Answer(place, head) => {
                self.end_answer()?;
                self.answer = Some(RestoredAnswer::new(place, head));
            }
            AnswerRecord::Rows(rows) => self.answer()?.add_rows(rows)?,
            AnswerRecord::LocalTerms(terms) => self.answer()?.add_local(terms)?,
            AnswerRecord::Spans(spans) => self.answer()?.add_spans(spans),
            AnswerRecord::Statements(statements) => self.answer()?.add_statements(statements),
            AnswerRecord::End(count) if count == self.count => {
                self.end_cohort()?;
                self.is_ended = true;
            }
            AnswerRecord::End(count) => {
                let found = self.count;
                return contradiction(format!("it has {found} of {count} records"));
            }
        }
        self.count += 1;
        Ok(())
    }

    fn uid(&self) -> Result<QueryUid, AnswersError> {
        match &self.cohort {
            Some((uid, _)) => Ok(*uid),
            None => contradiction("a result is of no cohort"),
        }
    }

    fn hub(&mut self) -> Result<&mut CohortHub, AnswersError> {
        match &mut self.cohort {
            Some((_, cohort)) => Ok(&mut cohort.hub),
            None => contradiction("members are of no cohort"),
        }
    }

    fn answer(&mut self) -> Result<&mut RestoredAnswer, AnswersError> {
        match &mut self.answer {
            Some(answer) => Ok(answer),
            None => contradiction("rows are of no answer"),
        }
    }

    fn end_answer(&mut self) -> Result<(), AnswersError> {
        let Some(answer) = self.answer.take() else {
            return Ok(());
        };
        if !matches!(answer.place, SavedPlace::Changes | SavedPlace::Reporting) {
            return match &mut self.result {
                Some(result) => result.add(answer, &self.dictionary),
                None => contradiction("an answer is of no result"),
            };
        }
        match &mut self.cohort {
            Some((_, cohort)) => cohort.stages.add(answer, &self.dictionary),
            None => contradiction("an answer is of no cohort"),
        }
    }

    fn end_result(&mut self) -> Result<(), AnswersError> {
        self.end_answer()?;
        if let Some(result) = self.result.take() {
            self.hub()?.add_result(result);
        }
        Ok(())
    }

    fn end_cohort(&mut self) -> Result<(), AnswersError> {
        self.end_result()?;
        let Some((uid, mut cohort)) = self.cohort.take() else {
            return Ok(());
        };
        cohort.hub.finish_restoring()?;
        match self.cohorts.insert(uid, cohort) {
            None => Ok(()),
            Some(_) => contradiction(format!("cohort {} is there twice", uid.0)),
        }
    }

    fn finish(self) -> Result<FxHashMap<QueryUid, RestoredCohort>, AnswersError> {
        match self.is_ended {
            true => Ok(self.cohorts),
            false => contradiction("its last record is missing"),
        }
    }
}
