//! Results and answers as a checkpoint holds them.
//!
//! Before changing anything here: an answer holds its transient terms in the dictionary (DI-1). It
//! is restored while the leases of the checkpoint's dictionary still keep them all.

use super::outcome::{CohortResult, Outcome};
use crate::metrics::FiringTimes;
use crate::saved::{
    AnswerRecord, AnswersError, Out, PORTION, SavedAnswer, SavedPlace, SavedResult, contradiction,
    in_portions,
};
use oxrdf::{GraphName, NamedNode, NamedOrBlankNode, Term, Triple};
use somersault_dictionary::Dictionary;
use somersault_model::{QueryUid, TermId};
use somersault_query::{Answer as Inner, GroupAnswer, Solutions};
use somersault_results::Answer;
use somersault_stream::Firing;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

impl CohortResult {
    /// Writes the records of a kept result.
    pub(crate) fn save(&self, out: &mut Out<'_>) {
        let (firing, outcome) = (&self.firing, &self.outcome);
        let times = [self.took.execution, self.took.delay, self.took.waiting];
        out(AnswerRecord::Result(Box::new(SavedResult {
            members: firing.members,
            close: firing.close,
            ordinal: firing.ordinal,
            revision: firing.revision,
            sn: firing.sn,
            complete_from: firing.complete_from,
            took: times.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)),
            failed: outcome.failed.clone(),
            most_rows: outcome.most_rows,
        })));
        for answer in &outcome.together {
            save_solutions(SavedPlace::Together, answer.rows(), out);
            let spans = answer.cells().map(|(cell, rows)| (cell, rows as u32));
            in_portions(spans, out, AnswerRecord::Spans);
        }
        let mut each: Vec<_> = outcome.each.iter().collect();
        each.sort_unstable_by_key(|(cell, _)| **cell);
        for (cell, answer) in each {
            let place = SavedPlace::Cell(*cell);
            match answer {
                Ok(answer) => save_answer(place, answer.inner(), out),
                Err(error) => save_failure(place, error, out),
            }
        }
        if let Some(empty) = &outcome.empty {
            save_answer(SavedPlace::Empty, empty.inner(), out);
        }
    }

    /// Returns a saved result of a cohort, whose answers follow.
    pub(crate) fn restore(cohort: QueryUid, saved: SavedResult) -> CohortResult {
        let [execution, delay, waiting] = saved.took.map(Duration::from_nanos);
        let mut outcome = Outcome::new(saved.most_rows);
        outcome.failed = saved.failed;
        CohortResult {
            firing: Firing {
                query: cohort,
                members: saved.members,
                close: saved.close,
                ordinal: saved.ordinal,
                revision: saved.revision,
                repeated: false,
                sn: saved.sn,
                // It has been executed.
                windows: [].into(),
                changed: None,
                complete_from: saved.complete_from,
            },
            outcome,
            took: FiringTimes {
                execution,
                delay,
                waiting,
            },
        }
    }

    /// Adds a saved answer.
    pub(crate) fn add(
        &mut self,
        restored: RestoredAnswer,
        dictionary: &Arc<Dictionary>,
    ) -> Result<(), AnswersError> {
        let place = restored.place;
        if place == SavedPlace::Together {
            self.outcome.together.push(restored.group(dictionary)?);
            return Ok(());
        }
        let answer = restored.finish(dictionary)?;
        let answer = answer.map(|inner| Answer::new(inner, Arc::clone(dictionary)));
        match (place, answer) {
            (SavedPlace::Cell(cell), answer) => _ = self.outcome.each.insert(cell, answer),
            (SavedPlace::Empty, Ok(answer)) => self.outcome.empty = Some(answer),
            _ => return contradiction("an answer is in the place of another"),
        }
        Ok(())
    }
}

/// Writes that there is no answer, and why.
pub(crate) fn save_failure(place: SavedPlace, error: &str, out: &mut Out<'_>) {
    let failed = SavedAnswer::Failed(error.to_owned());
    out(AnswerRecord::Answer(place, failed));
}

/// Writes the records of an answer.
pub(crate) fn save_answer(place: SavedPlace, answer: &Inner, out: &mut Out<'_>) {
    match answer {
        Inner::Solutions(solutions) => save_solutions(place, solutions, out),
        Inner::Boolean(yes) => out(AnswerRecord::Answer(place, SavedAnswer::Boolean(*yes))),
        Inner::Graph(triples) => {
            out(AnswerRecord::Answer(place, SavedAnswer::Graph));
            let statements = triples.iter().map(|triple| terms_of(triple).to_vec());
            in_portions(statements, out, AnswerRecord::Statements);
        }
        Inner::Dataset(quads) => {
            out(AnswerRecord::Answer(place, SavedAnswer::Dataset));
            let statements = quads.iter().map(|quad| {
                let graph = match &quad.graph_name {
                    GraphName::DefaultGraph => String::new(),
                    named => named.to_string(),
                };
                let mut terms = terms_of(&Triple::from(quad.clone())).to_vec();
                terms.push(graph);
                terms
            });
            in_portions(statements, out, AnswerRecord::Statements);
        }
    }
}

fn terms_of(triple: &Triple) -> [String; 3] {
    let Triple {
        subject,
        predicate,
        object,
    } = triple;
    [
        subject.to_string(),
        predicate.to_string(),
        object.to_string(),
    ]
}

fn save_solutions(place: SavedPlace, solutions: &Solutions, out: &mut Out<'_>) {
    let (variables, rows) = (solutions.variables(), solutions.len());
    let head = SavedAnswer::Solutions(variables.to_vec(), rows as u64);
    out(AnswerRecord::Answer(place, head));
    let at_once = PORTION.checked_div(variables.len()).unwrap_or(rows).max(1);
    if !variables.is_empty() {
        for from in (0..rows).step_by(at_once) {
            let part = from..rows.min(from + at_once);
            let columns = 0..variables.len();
            let columns = columns.map(|column| solutions.column(column)[part.clone()].to_vec());
            out(AnswerRecord::Rows(columns.collect()));
        }
    }
    let local = solutions.local_terms().iter().map(Term::to_string);
    in_portions(local, out, AnswerRecord::LocalTerms);
}

/// An answer while its records are read.
pub(crate) struct RestoredAnswer {
    pub(crate) place: SavedPlace,
    head: SavedAnswer,
    columns: Vec<Vec<TermId>>,
    local: Vec<Term>,
    spans: Vec<(u32, u32)>,
    statements: Vec<Vec<String>>,
}

impl RestoredAnswer {
    /// Returns an answer whose further records follow.
    pub(crate) fn new(place: SavedPlace, head: SavedAnswer) -> RestoredAnswer {
        let columns = match &head {
            SavedAnswer::Solutions(variables, _) => variables.len(),
            _ => 0,
        };
        RestoredAnswer {
            place,
            head,
            columns: vec![Vec::new(); columns],
            local: Vec::new(),
            spans: Vec::new(),
            statements: Vec::new(),
        }
    }

    /// Adds further rows.
    pub(crate) fn add_rows(&mut self, rows: Vec<Vec<TermId>>) -> Result<(), AnswersError> {
        if rows.len() != self.columns.len() {
            return contradiction("rows of an answer do not have its columns");
        }
        let columns = self.columns.iter_mut().zip(rows);
        columns.for_each(|(column, ids)| column.extend(ids));
        Ok(())
    }

    /// Adds further terms of its own.
    pub(crate) fn add_local(&mut self, terms: Vec<String>) -> Result<(), AnswersError> {
        for text in terms {
            self.local.push(term(&text)?);
        }
        Ok(())
    }

    /// Adds further cells, with their numbers of rows.
    pub(crate) fn add_spans(&mut self, spans: Vec<(u32, u32)>) {
        self.spans.extend(spans);
    }

    /// Adds further statements.
    pub(crate) fn add_statements(&mut self, statements: Vec<Vec<String>>) {
        self.statements.extend(statements);
    }

    /// Returns the answer of the cells that were evaluated together.
    fn group(mut self, dictionary: &Dictionary) -> Result<GroupAnswer, AnswersError> {
        let spans = std::mem::take(&mut self.spans);
        let group = match self.finish(dictionary)? {
            Ok(Inner::Solutions(rows)) => GroupAnswer::of_rows(rows, &spans),
            Ok(_) | Err(_) => None,
        };
        match group {
            Some(group) => Ok(group),
            None => contradiction("the cells of an answer do not fit its rows"),
        }
    }

    /// Returns the answer, or why there is none.
    pub(crate) fn finish(
        self,
        dictionary: &Dictionary,
    ) -> Result<Result<Inner, String>, AnswersError> {
        let statements = self.statements.iter().map(Vec::as_slice);
        Ok(Ok(match self.head {
            SavedAnswer::Failed(error) => return Ok(Err(error)),
            SavedAnswer::Boolean(yes) => Inner::Boolean(yes),
            SavedAnswer::Graph => {
                let triples = statements.map(|terms| match terms {
                    [s, p, o] => triple([s, p, o]),
                    _ => contradiction("a triple of an answer does not have three terms"),
                });
                Inner::Graph(triples.collect::<Result<_, _>>()?)
            }
            SavedAnswer::Dataset => {
                let quads = statements.map(|terms| match terms {
                    [s, p, o, graph] => Ok(triple([s, p, o])?.in_graph(graph_name(graph)?)),
                    _ => contradiction("a quad of an answer does not have four terms"),
                });
                Inner::Dataset(quads.collect::<Result<_, _>>()?)
            }
            SavedAnswer::Solutions(variables, rows) => {
                let local = self.local.len() as u64;
                let is_known =
                    |id: &TermId| id.tag() != somersault_model::Tag::Local || id.payload() < local;
                let is_whole = self.columns.iter().all(|ids| ids.len() as u64 == rows);
                let Some(rows) = usize::try_from(rows).ok().filter(|_| is_whole) else {
                    return contradiction("an answer does not have all its rows");
                };
                if !self.columns.iter().flatten().all(is_known) {
                    return contradiction("a term of an answer is missing");
                }
                let (variables, local) = (variables.into(), self.local.into());
                let solutions = Solutions::new(variables, self.columns, rows, local);
                Inner::Solutions(solutions.holding(dictionary))
            }
        }))
    }
}

fn term(text: &str) -> Result<Term, AnswersError> {
    match Term::from_str(text) {
        Ok(term) => Ok(term),
        Err(error) => contradiction(format!("\"{text}\" is not a term: {error}")),
    }
}

fn triple([s, p, o]: [&str; 3]) -> Result<Triple, AnswersError> {
    let Ok(predicate) = NamedNode::from_str(p) else {
        return contradiction(format!("\"{p}\" is not a predicate"));
    };
    let subject = match term(s)? {
        Term::NamedNode(node) => NamedOrBlankNode::from(node),
        Term::BlankNode(node) => node.into(),
        _ => return contradiction(format!("\"{s}\" is not a subject")),
    };
    Ok(Triple {
        subject,
        predicate,
        object: term(o)?,
    })
}

fn graph_name(text: &str) -> Result<GraphName, AnswersError> {
    if text.is_empty() {
        return Ok(GraphName::DefaultGraph);
    }
    match term(text)? {
        Term::NamedNode(node) => Ok(node.into()),
        Term::BlankNode(node) => Ok(node.into()),
        _ => contradiction(format!("\"{text}\" is not a graph")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oxrdf::{BlankNode, Literal, Quad};
    use somersault_model::StreamUid;

    /// Saves an answer in bytes, and restores it.
    fn again(answer: &Inner, dictionary: &Dictionary) -> Inner {
        let mut records = Vec::new();
        save_answer(SavedPlace::Empty, answer, &mut |record| {
            records.push(record.to_bytes());
        });
        let mut restored = None;
        for record in &records {
            let record = AnswerRecord::from_bytes(record).expect("it was written");
            match (record, &mut restored) {
                (AnswerRecord::Answer(place, head), None) => {
                    restored = Some(RestoredAnswer::new(place, head));
                }
                (AnswerRecord::Rows(rows), Some(it)) => it.add_rows(rows).expect("they fit"),
                (AnswerRecord::LocalTerms(terms), Some(it)) => {
                    it.add_local(terms).expect("they are terms");
                }
                (AnswerRecord::Statements(statements), Some(it)) => it.add_statements(statements),
                other => panic!("{:?}", other.0),
            }
        }
        let restored = restored.expect("there is an answer").finish(dictionary);
        restored.expect("it is whole").expect("it has an answer")
    }

    #[test]
    fn all_terms_come_back_in_all_portions() {
        let node = NamedNode::new_unchecked("urn:\u{e4}");
        let blank = BlankNode::new_unchecked("b1");
        let inner = Triple::new(blank.clone(), node.clone(), Literal::from(1.5));
        let terms: Vec<Term> = vec![
            node.clone().into(),
            blank.into(),
            Literal::new_simple_literal("a\"\\\n\t\u{7}\u{1f600}").into(),
            Literal::new_language_tagged_literal_unchecked("x", "en-gb").into(),
            Literal::new_typed_literal("01", node.clone()).into(),
            Term::from(inner.clone()),
            Triple::new(node.clone(), node.clone(), inner.clone()).into(),
        ];
        let graph = |object: &Term| Triple::new(node.clone(), node.clone(), object.clone());
        let triples: Vec<Triple> = terms.iter().map(graph).collect();
        let dictionary = Dictionary::new();
        let Inner::Graph(found) = again(&Inner::Graph(triples.clone()), &dictionary) else {
            panic!("it is a graph");
        };
        assert_eq!(found, triples);
        let quads: Vec<Quad> = vec![
            inner.clone().in_graph(node.clone()),
            inner.in_graph(GraphName::DefaultGraph),
        ];
        let Inner::Dataset(found) = again(&Inner::Dataset(quads.clone()), &dictionary) else {
            panic!("it is a dataset");
        };
        assert_eq!(found, quads);
        let rows = PORTION + 3;
        let ids = (0..rows).map(|row| dictionary.intern(terms[row % 2].as_ref()));
        let columns = vec![ids.collect::<Vec<TermId>>(), vec![TermId::UNBOUND; rows]];
        let variables: Vec<String> = ["a", "b"].map(str::to_owned).into();
        let answer = Solutions::new(variables.into(), columns, rows, terms.clone().into());
        let Inner::Solutions(found) = again(&Inner::Solutions(answer.clone()), &dictionary) else {
            panic!("they are solutions");
        };
        assert_eq!(found.local_terms(), terms);
        assert_eq!(found.variables(), answer.variables());
        assert!((0..2).all(|column| found.column(column) == answer.column(column)));
    }

    #[test]
    fn a_restored_answer_holds_its_transient_terms() {
        let dictionary = Dictionary::new();
        let lease = dictionary.lease(StreamUid(1));
        let node = NamedNode::new_unchecked("urn:passing");
        let id = dictionary.mention(node.as_ref().into(), &mut dictionary.mentions(&lease));
        let answer = Solutions::new(["a".to_owned()].into(), vec![vec![id]], 1, [].into());
        let restored = again(&Inner::Solutions(answer), &dictionary);
        drop(lease);
        dictionary.end_epoch(StreamUid(1));
        for _ in 0..4 {
            dictionary.tidy(1 << 10);
        }
        let Inner::Solutions(restored) = restored else {
            panic!("they are solutions");
        };
        assert_eq!(restored.term(0, 0, &dictionary), Some(node.into()));
        drop(restored);
        for _ in 0..4 {
            dictionary.tidy(1 << 10);
        }
        assert!(!dictionary.is_known(id), "nothing else held it");
    }
}
