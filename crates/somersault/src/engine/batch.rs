//! Registration of many continuous queries at once. Texts of a known shape are not parsed: they are
//! compared with its pieces, and only the words between the pieces are read. A log record holds
//! some thousands of queries, so that the driver's thread is never held for long. Records are
//! submitted one after the other and awaited together, so that many shapes do not cost a sync of
//! the log each.
//!
//! The one thing to know before changing it: each query is accepted or refused on its own, in the
//! order given, as if [`Engine::register`] had been called with each.

use super::Engine;
use super::registered::one_name;
use crate::error::EngineError;
use somersault_lang::ContinuousQuery;
use somersault_lang::lift::Shape;
use somersault_model::EventTime;
use somersault_runtime::{Outcome, PendingInput, RuntimeError};
use somersault_stream::{Input, QueryDeclaration};
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

/// The most queries that are logged in one record.
const QUERIES_PER_RECORD: usize = 4096;
/// The most shapes that a text is compared with before it is parsed as a new one.
const SHAPES: usize = 16;
/// The most inputs that are submitted but not awaited.
const MOST_SUBMITTED: usize = 256;

/// A query to be registered.
#[derive(Clone, Debug)]
pub struct NewQuery {
    /// Its name; optional if the text states one.
    pub name: Option<String>,
    /// The text.
    pub text: String,
}

/// The outcome of a registration that was not refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registered {
    /// The query is new.
    New,
    /// The same text was already registered under this name; nothing has changed.
    Unchanged,
}

/// The outcome of a registration in place of another query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// There was no query of that name.
    Created,
    /// The same text was already registered under this name; nothing has changed.
    Unchanged,
    /// It has replaced another query.
    Replaced {
        /// The uid of the replaced query.
        uid: u64,
        /// The replaced query answers the closes up to this time, the new one those after it;
        /// `None` while none of their streams has a time.
        after: Option<EventTime>,
    },
}

/// Texts of one shape, with those to be registered next.
struct KnownShape {
    shape: Arc<Shape>,
    declaration: Arc<QueryDeclaration>,
    /// The position of each text, its name and its words.
    waiting: Vec<(usize, (String, Vec<String>))>,
}

/// Queries whose input has been submitted.
struct SubmittedInput {
    /// The position of each query.
    places: Vec<usize>,
    done: PendingInput,
}

/// Queries that are being registered.
struct Batch<'e> {
    engine: &'e Engine,
    /// The known shapes, that of the last text first.
    known: Vec<KnownShape>,
    /// The names that wait to be registered.
    names: HashSet<String>,
    /// The submitted inputs, in order.
    submitted: VecDeque<SubmittedInput>,
    outcomes: Vec<Result<Registered, EngineError>>,
}

/// # Continuous queries
///
/// Many at once.
impl Engine {
    /// Registers queries; returns the outcome of each, in their order. Queries that differ only in
    /// names and constants form one group and are evaluated together. A refused query does not keep
    /// others from being registered.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig, NewQuery, Registered};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.create_stream(None, "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER")?;
    /// let queries = ["ann", "bob"].map(|who| NewQuery {
    ///     name: Some(format!("friends of {who}")),
    ///     text: format!(
    ///         "SELECT ?x FROM STREAM <urn:s> [RANGE 2s STEP 1s] WHERE {{ <urn:{who}> ?p ?x }}"
    ///     ),
    /// });
    /// for outcome in engine.register_many(queries)? {
    ///     assert_eq!(outcome?, Registered::New);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The log has failed, or the engine is stopping. Earlier queries are registered then.
    pub fn register_many(
        &self,
        queries: impl IntoIterator<Item = NewQuery>,
    ) -> Result<Vec<Result<Registered, EngineError>>, EngineError> {
        self.check_running()?;
        let mut batch = Batch {
            engine: self,
            known: Vec::new(),
            names: HashSet::new(),
            submitted: VecDeque::new(),
            outcomes: Vec::new(),
        };
        for query in queries {
            batch.take(query)?;
        }
        batch.register_all()?;
        batch.wait_for_all()?;
        Ok(batch.outcomes)
    }
}

impl Batch<'_> {
    fn take(&mut self, query: NewQuery) -> Result<(), EngineError> {
        let at = self.outcomes.len();
        // Overwritten once it is registered.
        self.outcomes.push(Ok(Registered::New));
        let NewQuery { name, text } = query;
        if let Err(refused) = self.engine.check_text(&text) {
            self.outcomes[at] = Err(refused);
            return Ok(());
        }
        if !self.engine.access.is_full() {
            // Its text decides whether it may be registered, and its words alone do not.
            return self.register_alone(at, name, &text);
        }
        let found = (self.known.iter().enumerate())
            .find_map(|(number, known)| Some((number, known.shape.words_of(&text)?)));
        let (number, words) = match found {
            Some(found) => found,
            None => {
                let Some((shape, words)) = Shape::of(&text) else {
                    return self.register_alone(at, name, &text);
                };
                // The pieces alone do not find the shape if its words hold spaces.
                let number = match self.known.iter().position(|known| *known.shape == shape) {
                    Some(number) => number,
                    None => match self.engine.parser(None).parse_continuous(&text) {
                        Ok(query) if query.is_live() => {
                            return self.register_alone(at, name, &text);
                        }
                        Ok(query) => self.learn(shape, &query)?,
                        Err(refused) => {
                            self.outcomes[at] = Err(refused.into());
                            return Ok(());
                        }
                    },
                };
                (number, words)
            }
        };
        // A common shape is found first.
        self.known.swap(0, number);
        let own = self.known[0].shape.name(&words);
        let name = match one_name(name, own) {
            Ok(name) => name,
            Err(refused) => {
                self.outcomes[at] = Err(refused);
                return Ok(());
            }
        };
        if !self.names.insert(name.clone()) {
            // The same name again: the outcome of the first registration decides.
            self.register_all()?;
            self.names.insert(name.clone());
        }
        let waiting = &mut self.known[0].waiting;
        waiting.push((at, (name, words)));
        if waiting.len() >= QUERIES_PER_RECORD {
            self.register(0)?;
        }
        Ok(())
    }

    /// Registers a query whose text has no shape, after all earlier ones.
    fn register_alone(
        &mut self,
        at: usize,
        name: Option<String>,
        text: &str,
    ) -> Result<(), EngineError> {
        self.register_all()?;
        let (name, input) = match self.engine.registration(name, text, false) {
            Ok(read) => read,
            Err(refused) => {
                self.outcomes[at] = Err(refused);
                return Ok(());
            }
        };
        // A query that exists already takes no room.
        if self.room_for(1)? == 0 && self.engine.inner.driver.query(&name).is_none() {
            self.outcomes[at] = Err(self.engine.too_many_queries());
            return Ok(());
        }
        self.hand_in(vec![at], input)
    }

    fn hand_in(&mut self, places: Vec<usize>, input: Input) -> Result<(), EngineError> {
        while self.submitted.len() >= MOST_SUBMITTED {
            self.wait_for_oldest()?;
        }
        let done = self.engine.inner.driver.hand_in(input)?;
        self.submitted.push_back(SubmittedInput { places, done });
        Ok(())
    }

    fn wait_for_all(&mut self) -> Result<(), EngineError> {
        while !self.submitted.is_empty() {
            self.wait_for_oldest()?;
        }
        Ok(())
    }

    fn wait_for_oldest(&mut self) -> Result<(), EngineError> {
        let Some(SubmittedInput { places, done }) = self.submitted.pop_front() else {
            return Ok(());
        };
        match done.wait() {
            Ok(done) => match done.outcome {
                Outcome::Several(outcomes) => {
                    for (at, outcome) in places.into_iter().zip(outcomes) {
                        self.outcomes[at] = match outcome {
                            Ok(taken) if taken.is_new => Ok(Registered::New),
                            Ok(_) => Ok(Registered::Unchanged),
                            Err(refusal) => Err(RuntimeError::from(refusal).into()),
                        };
                    }
                }
                Outcome::Command(_) => {}
                _ => places
                    .into_iter()
                    .for_each(|at| self.outcomes[at] = Ok(Registered::Unchanged)),
            },
            // All of them are refused for one reason, such as an unknown stream.
            Err(RuntimeError::Refused(refusal)) => {
                for at in places {
                    self.outcomes[at] = Err(RuntimeError::Refused(refusal.clone()).into());
                }
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Returns how many of these new queries may be registered after the submitted ones.
    fn room_for(&mut self, new: usize) -> Result<usize, EngineError> {
        let submitted = self.submitted.iter().map(|it| it.places.len());
        // Some of them may be registered already.
        let most = submitted.sum::<usize>() + new;
        if self.engine.room_for_queries() >= most {
            return Ok(new);
        }
        self.wait_for_all()?;
        Ok(self.engine.room_for_queries().min(new))
    }

    /// Notes a shape by its first text.
    fn learn(&mut self, shape: Shape, query: &ContinuousQuery) -> Result<usize, EngineError> {
        if self.known.len() >= SHAPES {
            let last = self.known.len() - 1;
            self.register(last)?;
            self.known.pop();
        }
        self.known.push(KnownShape {
            shape: Arc::new(shape),
            declaration: Arc::new(QueryDeclaration::from(query)),
            waiting: Vec::new(),
        });
        Ok(self.known.len() - 1)
    }

    fn register_all(&mut self) -> Result<(), EngineError> {
        for number in 0..self.known.len() {
            self.register(number)?;
        }
        self.names.clear();
        Ok(())
    }

    /// Registers the waiting queries of one shape.
    fn register(&mut self, number: usize) -> Result<(), EngineError> {
        let engine = self.engine;
        let mut waiting = std::mem::take(&mut self.known[number].waiting);
        let room = self.room_for(waiting.len())?;
        if waiting.len() > room {
            let driver = &engine.inner.driver;
            let mut left = room;
            waiting.retain(|(at, (name, _))| {
                // A query that exists already takes no room.
                if driver.query(name).is_some() {
                    return true;
                }
                let fits = left > 0;
                left = left.saturating_sub(1);
                if !fits {
                    self.outcomes[*at] = Err(engine.too_many_queries());
                }
                fits
            });
        }
        if waiting.is_empty() {
            return Ok(());
        }
        let (places, members): (Vec<usize>, Vec<_>) = waiting.into_iter().unzip();
        let known = &self.known[number];
        let input = Input::RegisterQueries {
            received_ms: engine.inner.driver.now_ms(),
            shape: Arc::clone(&known.shape),
            namespace: engine.inner.config.default_namespace.clone(),
            declaration: Arc::clone(&known.declaration),
            members,
        };
        self.hand_in(places, input)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EngineConfig;

    #[test]
    fn texts_whose_words_hold_spaces_are_of_one_shape() {
        let engine = Engine::open(EngineConfig::default()).expect("opens");
        let stream = "CREATE STREAM <http://x/s> BATCH 1s";
        engine.create_stream(None, stream).expect("is taken");
        let mut batch = Batch {
            engine: &engine,
            known: Vec::new(),
            names: HashSet::new(),
            submitted: VecDeque::new(),
            outcomes: Vec::new(),
        };
        for (at, town) in ["New York", "San Juan", "Ulm"].into_iter().enumerate() {
            let query = NewQuery {
                name: Some(format!("q{at}")),
                text: format!(
                    "SELECT ?s FROM STREAM <http://x/s> [RANGE 1s STEP 1s] WHERE {{ ?s <http://x/in> '{town}' }}"
                ),
            };
            batch.take(query).expect("is taken");
        }
        assert_eq!(batch.known.len(), 1);
        batch.register_all().expect("is handed in");
        batch.wait_for_all().expect("is logged");
        for outcome in &batch.outcomes {
            assert!(matches!(outcome, Ok(Registered::New)), "{outcome:?}");
        }
        assert_eq!(
            engine
                .query_info("q1")
                .expect("is there")
                .group
                .map(|it| it.queries),
            Some(3)
        );
    }
}
