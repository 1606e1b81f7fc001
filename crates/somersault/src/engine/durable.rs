//! Durable subscriptions: named places among a query's answers, kept by the engine and moved on by
//! acknowledgements.
//!
//! Before changing anything here: an acknowledgement is an input like any other, and durable when
//! the call returns. The answer that it names is looked up first, because the log knows positions
//! and no ids.

use super::Engine;
use super::registered::reports_empties;
use crate::access::RightKind;
use crate::error::EngineError;
use somersault_continuous::{DurableReader, DurableState, FiringId, ParseFiringIdError, ended_by};
use somersault_log::{AnswerPosition, SubscriptionTerms};
use somersault_model::EventTime;
use somersault_runtime::InputReceipt;
use somersault_stream::{Input, QueryStatus, SubscriptionAsk, SubscriptionRequest};
use std::cmp::Reverse;
use std::str::FromStr;
use std::time::Duration;

/// The longest name of a durable subscription, in bytes.
const LONGEST_NAME: usize = 256;

/// The terms of a durable subscription.
///
/// ```
/// use somersault::{DurableOptions, WhenFull};
/// let options = DurableOptions { answers: 1_000, ..Default::default() };
/// assert_eq!(options.when_full, WhenFull::End);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DurableOptions {
    /// Its first answer.
    pub start: DurableStart,
    /// The number of answers that are kept for it at most.
    pub answers: u64,
    /// The memory of the answers that are kept for it at most, in bytes. The newest is kept however
    /// large it is.
    pub bytes: u64,
    /// The time within which an answer is to be acknowledged. After a restart it begins again.
    pub deadline: Option<Duration>,
    /// Also answers without rows. Those of a live query are always among them.
    pub empties: bool,
    /// What happens at one of these limits.
    pub when_full: WhenFull,
}

impl Default for DurableOptions {
    fn default() -> Self {
        DurableOptions {
            start: DurableStart::default(),
            answers: 10_000,
            bytes: 64 << 20,
            deadline: None,
            empties: false,
            when_full: WhenFull::default(),
        }
    }
}

/// The first answer of a durable subscription.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DurableStart {
    /// That of the first firing that becomes due from now on.
    #[default]
    Now,
    /// The oldest one that is kept. Those from before the subscription survive a crash as other
    /// kept answers do: the newest of them.
    Kept,
    /// The one after this, which must be kept.
    After(FiringId),
}

/// Reads `now`, `kept`, or the id of a firing.
impl FromStr for DurableStart {
    type Err = ParseFiringIdError;

    fn from_str(text: &str) -> Result<DurableStart, ParseFiringIdError> {
        match text {
            "now" => Ok(DurableStart::Now),
            "kept" => Ok(DurableStart::Kept),
            id => id.trim().parse().map(DurableStart::After),
        }
    }
}

/// What happens at a limit of a durable subscription.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhenFull {
    /// Nothing more is kept, and its readers are told why
    /// ([`DurableEvent::Ended`](crate::DurableEvent::Ended)).
    #[default]
    End,
    /// The oldest answers are let go, and its readers are told how many
    /// ([`DurableEvent::Missed`](crate::DurableEvent::Missed)).
    SkipOldest,
}

impl WhenFull {
    /// Returns the term as a text: `end` or `skip`.
    pub fn as_str(self) -> &'static str {
        match self {
            WhenFull::End => "end",
            WhenFull::SkipOldest => "skip",
        }
    }

    /// Returns the term that [`WhenFull::as_str`] writes like this, if there is one.
    pub fn of_text(text: &str) -> Option<WhenFull> {
        let mut all = [WhenFull::End, WhenFull::SkipOldest].into_iter();
        all.find(|term| term.as_str() == text)
    }
}

/// A durable subscription.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DurableInfo {
    /// The query's name.
    pub query: String,
    /// The query's uid.
    pub uid: u64,
    /// Its name.
    pub name: String,
    /// Its terms; `start` is [`DurableStart::Now`].
    pub options: DurableOptions,
    /// The newest answer that was acknowledged, or let go at a limit; `None` before the first.
    pub acknowledged: Option<FiringId>,
    /// The number of answers that are kept for it.
    pub waiting: u64,
    /// Their memory, in bytes.
    pub waiting_bytes: u64,
    /// The number of those among them that a reader was given.
    pub handed: u64,
    /// The oldest of them.
    pub oldest: Option<FiringId>,
    /// The newest of them.
    pub newest: Option<FiringId>,
    /// How long the oldest has been ready.
    pub oldest_age: Option<Duration>,
    /// The number of answers that were acknowledged since the engine was opened.
    pub acknowledged_total: u64,
    /// The time since the newest of these acknowledgements.
    pub acknowledged_age: Option<Duration>,
    /// How often an answer was given to a reader again since the engine was opened.
    pub repeats: u64,
    /// The number of answers that were let go since the last acknowledgement.
    pub missed: u64,
    /// Why it has ended, as a sentence.
    pub ended: Option<String>,
}

/// # Durable subscriptions
///
/// Named places among the answers of a query, which the engine keeps. It keeps an answer until the
/// answer is acknowledged or a limit is reached, also after a restart.
impl Engine {
    /// Creates a durable subscription to a query. The same terms again change nothing. Returns
    /// whether it is new. If more answers are kept from before than its limits allow, what
    /// [`DurableOptions::when_full`] says happens at once.
    ///
    /// ```
    /// use somersault::{DurableEvent, DurableOptions, Engine, EngineConfig, EventTime};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.create_stream(None, "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER")?;
    /// # let text = "SELECT ?x FROM STREAM <urn:s> [RANGE 2s STEP 1s] WHERE { ?x ?p ?o }";
    /// # engine.register(Some("seen"), text)?;
    /// # engine.advance([("urn:s", EventTime(0))])?;
    /// let options = DurableOptions { empties: true, ..Default::default() };
    /// assert!(engine.subscribe_durably("seen", "billing", &options)?);
    /// engine.advance([("urn:s", EventTime(1_000))])?;
    /// let mut reader = engine.read_durably("seen", "billing")?;
    /// let next = reader.recv_timeout(std::time::Duration::from_secs(10));
    /// if let Some(DurableEvent::Firing(firing)) = next {
    ///     // Carry out what the answer asks for, then:
    ///     engine.acknowledge("seen", "billing", firing.id())?;
    /// }
    /// assert_eq!(engine.durable_subscription("seen", "billing")?.waiting, 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// There is no such query, the name is taken with other terms or is not 1 to 256 bytes long, or
    /// the answer to begin after is not kept.
    pub fn subscribe_durably(
        &self,
        query: &str,
        name: &str,
        options: &DurableOptions,
    ) -> Result<bool, EngineError> {
        self.admit(RightKind::Subscribe, Some(query))?;
        if name.trim().is_empty() || name.len() > LONGEST_NAME {
            return Err(EngineError::Invalid(format!(
                "the name of a durable subscription has 1 to {LONGEST_NAME} bytes, and not only blanks"
            )));
        }
        let status = self.query_status(query)?;
        let is_known = self.durable_state(&status, name).is_some();
        let after = match options.start {
            DurableStart::After(id) if !is_known => self.position_of(&status, &id)?,
            _ => AnswerPosition::START,
        };
        let mut terms = options.terms(after);
        terms.empties |= reports_empties(&status);
        let ask = SubscriptionAsk::Subscribe {
            terms,
            from_now: options.start == DurableStart::Now,
        };
        self.ask(query, name, ask)?;
        if !is_known {
            self.let_go(&status, name)?;
        }
        Ok(!is_known)
    }

    /// Lets go of the answers that are more than the terms of a subscription allow.
    fn let_go(&self, query: &QueryStatus, name: &str) -> Result<(), EngineError> {
        let state = self.durable_state(query, name);
        let Some(exceeded) = state.and_then(|state| state.exceeded) else {
            return Ok(());
        };
        let ask = SubscriptionAsk::LetGo {
            after: exceeded.after,
            through: exceeded.through,
            answers: exceeded.answers,
            why: exceeded.why,
        };
        self.ask(&query.name, name, ask)
    }

    /// Returns a reader of a durable subscription, from the first answer on that is not
    /// acknowledged. Each reader gets them all. For an example see [`Engine::subscribe_durably`].
    ///
    /// # Errors
    /// There is no such query or subscription.
    pub fn read_durably(&self, query: &str, name: &str) -> Result<DurableReader, EngineError> {
        self.admit(RightKind::Subscribe, Some(query))?;
        let status = self.query_status(query)?;
        if self.durable_state(&status, name).is_none() {
            return Err(unknown(query, name));
        }
        let reader = self.inner.continuous.read_durably(&status, name);
        reader.ok_or_else(|| unknown(query, name))
    }

    /// Acknowledges all answers of a durable subscription up to this one: they are not given to its
    /// readers again. Acknowledging one again changes nothing. For an example see
    /// [`Engine::subscribe_durably`].
    ///
    /// # Errors
    /// There is no such query or subscription, or no such answer is kept.
    pub fn acknowledge(&self, query: &str, name: &str, id: FiringId) -> Result<(), EngineError> {
        self.admit(RightKind::Subscribe, Some(query))?;
        let status = self.query_status(query)?;
        let Some(state) = self.durable_state(&status, name) else {
            return Err(unknown(query, name));
        };
        if is_at_or_before(&status, &id, state.status.terms.after) {
            return Ok(());
        }
        let through = self.position_of(&status, &id)?;
        self.ask(query, name, SubscriptionAsk::Acknowledge(through))
    }

    /// Deletes a durable subscription: nothing is kept for it any more, and its readers end.
    ///
    /// ```
    /// use somersault::{DurableOptions, Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.create_stream(None, "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER")?;
    /// # let text = "SELECT ?x FROM STREAM <urn:s> [RANGE 2s STEP 1s] WHERE { ?x ?p ?o }";
    /// # engine.register(Some("seen"), text)?;
    /// engine.subscribe_durably("seen", "billing", &DurableOptions::default())?;
    /// assert!(engine.drop_query("seen").is_err(), "its answers would be lost unnoticed");
    /// engine.unsubscribe("seen", "billing")?;
    /// engine.drop_query("seen")?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// There is no such query or subscription.
    pub fn unsubscribe(&self, query: &str, name: &str) -> Result<(), EngineError> {
        self.admit(RightKind::Subscribe, Some(query))?;
        self.ask(query, name, SubscriptionAsk::Unsubscribe)
    }

    /// Returns a durable subscription. For an example see [`Engine::subscribe_durably`].
    ///
    /// # Errors
    /// There is no such query or subscription.
    pub fn durable_subscription(
        &self,
        query: &str,
        name: &str,
    ) -> Result<DurableInfo, EngineError> {
        self.admit(RightKind::Subscribe, Some(query))?;
        let status = self.query_status(query)?;
        let state = self.durable_state(&status, name);
        let state = state.ok_or_else(|| unknown(query, name))?;
        Ok(DurableInfo::new(&status, state))
    }

    /// Returns the durable subscriptions to a query, by name.
    ///
    /// ```
    /// use somersault::{DurableOptions, Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.create_stream(None, "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER")?;
    /// # let text = "SELECT ?x FROM STREAM <urn:s> [RANGE 2s STEP 1s] WHERE { ?x ?p ?o }";
    /// # engine.register(Some("seen"), text)?;
    /// engine.subscribe_durably("seen", "billing", &DurableOptions::default())?;
    /// assert_eq!(engine.durable_subscriptions("seen")?.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// There is no such query.
    pub fn durable_subscriptions(&self, query: &str) -> Result<Vec<DurableInfo>, EngineError> {
        self.admit(RightKind::Subscribe, Some(query))?;
        let status = self.query_status(query)?;
        let states = self.inner.continuous.durable(status.member);
        let infos = states
            .into_iter()
            .map(|state| DurableInfo::new(&status, state));
        let mut infos: Vec<DurableInfo> = infos.collect();
        infos.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(infos)
    }

    /// Returns the durable subscriptions to all queries, those with the most waiting answers first.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// let engine = Engine::open(EngineConfig::default())?;
    /// assert!(engine.all_durable_subscriptions().is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn all_durable_subscriptions(&self) -> Vec<DurableInfo> {
        let mut all = Vec::new();
        for status in self.inner.driver.subscribed_queries() {
            let states = self.inner.continuous.durable(status.member).into_iter();
            all.extend(
                states
                    .filter(|state| state.status.query == status.name)
                    .map(|state| DurableInfo::new(&status, state)),
            );
        }
        let name = |info: &DurableInfo| (info.query.clone(), info.name.clone());
        all.sort_by_cached_key(|info| (Reverse(info.waiting), name(info)));
        all
    }

    fn ask(&self, query: &str, name: &str, ask: SubscriptionAsk) -> Result<(), EngineError> {
        let request = SubscriptionRequest {
            received_ms: self.now_ms(),
            query: query.to_owned(),
            name: name.to_owned(),
            ask,
        };
        let input = Input::Subscription(request);
        let _: InputReceipt = self.inner.driver.log_input(input)?;
        Ok(())
    }

    fn durable_state(&self, status: &QueryStatus, name: &str) -> Option<DurableState> {
        let states = self.inner.continuous.durable(status.member);
        states.into_iter().find(|state| state.status.name == name)
    }

    fn position_of(
        &self,
        status: &QueryStatus,
        id: &FiringId,
    ) -> Result<AnswerPosition, EngineError> {
        let is_of_query = id.uid.is_none_or(|uid| uid == status.uid.0);
        let position = self.inner.continuous.position_of(status.member, id);
        position.filter(|_| is_of_query).ok_or_else(|| {
            EngineError::Invalid(format!(
                "{id} is not the id of an answer of query {} that is kept; use the id of an answer that was read",
                status.name
            ))
        })
    }
}

/// Whether an id is of an answer at or before a position, as far as it tells.
fn is_at_or_before(status: &QueryStatus, id: &FiringId, position: AnswerPosition) -> bool {
    if id.uid.is_some_and(|uid| uid != status.uid.0) {
        return false;
    }
    match id.sn {
        Some(sn) => {
            let key = (sn, id.close, id.ordinal, id.revision);
            let after = (
                position.sn,
                position.close,
                position.ordinal,
                position.revision,
            );
            key <= after
        }
        // An answer that amends nothing comes after those for earlier closes.
        None => {
            id.revision == 0
                && position.revision == 0
                && id.close <= position.close
                && position.close < EventTime::MAX
        }
    }
}

fn unknown(query: &str, name: &str) -> EngineError {
    EngineError::NotFound(format!(
        "query {query} has no durable subscription {name}; create it first"
    ))
}

impl DurableOptions {
    fn terms(&self, after: AnswerPosition) -> SubscriptionTerms {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        SubscriptionTerms {
            after,
            answers: self.answers,
            bytes: self.bytes,
            deadline_ms: self.deadline.map(millis),
            empties: self.empties,
            skips_oldest: self.when_full == WhenFull::SkipOldest,
        }
    }
}

impl DurableInfo {
    fn new(query: &QueryStatus, state: DurableState) -> DurableInfo {
        let uid = query.uid;
        let terms = state.status.terms;
        let id = |position: AnswerPosition| FiringId {
            uid: Some(uid.0),
            close: position.close,
            ordinal: position.ordinal,
            revision: position.revision,
            sn: Some(position.sn),
        };
        // Before the first acknowledgement, it stands before all answers or behind all of an SN.
        let is_answer = |position: &AnswerPosition| {
            position.close > EventTime::MIN && position.close < EventTime::MAX
        };
        DurableInfo {
            query: query.name.clone(),
            uid: uid.0,
            name: state.status.name,
            options: DurableOptions {
                start: DurableStart::Now,
                answers: terms.answers,
                bytes: terms.bytes,
                deadline: terms.deadline_ms.map(Duration::from_millis),
                empties: terms.empties,
                when_full: match terms.skips_oldest {
                    true => WhenFull::SkipOldest,
                    false => WhenFull::End,
                },
            },
            acknowledged: Some(terms.after).filter(is_answer).map(id),
            waiting: state.needed,
            waiting_bytes: state.bytes,
            handed: state.handed,
            oldest: state.oldest.map(id),
            newest: state.newest.map(id),
            oldest_age: state.oldest_age,
            acknowledged_total: state.acknowledged,
            acknowledged_age: state.acknowledged_age,
            repeats: state.repeats,
            missed: state.status.missed,
            ended: state.status.ended.map(ended_by),
        }
    }
}
