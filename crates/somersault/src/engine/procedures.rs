//! Procedures: declared, dropped and called.
//!
//! The one thing to know before changing it: a call is answered when its effects are in a stable
//! snapshot, and an abort is an answer.

use super::dataflows::SEE_DATAFLOW;
use super::{CancelToken, Engine};
use crate::access::RightKind;
use crate::error::EngineError;
use crate::info::{DataflowInfo, ProcedureInfo};
use oxrdf::Term;
use somersault_lang::token::have_same_tokens;
use somersault_lang::{Argument, DataflowPart, DropProcedure, Parser, Statement};
use somersault_log::{Command, CommandRecord, Resolved};
use somersault_runtime::{
    AnswerRoom, CallAnalysis, CallArguments, CallKey, CallOutcome, Pending, ProcedureCall,
    UnreadOutcome,
};
use somersault_stream::ParsedCommand;
use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// # Procedures
///
/// Steps that read and write the stored graphs as one transaction.
impl Engine {
    /// Carries out a statement about procedures or dataflows: CREATE, CREATE OR REPLACE and DROP
    /// of both, PAUSE and RESUME DATAFLOW. Returns when it is durable.
    ///
    /// Checkpoints hold what is declared, batches and windows that wait, and answers under keys.
    ///
    /// ```
    /// use somersault::oxrdf::{Literal, Term};
    /// use somersault::{CallOutcome, Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// engine.declare("CREATE PROCEDURE note(?what) AS { INSERT DATA { <urn:a> <urn:p> 1 } }")?;
    /// let done = engine.call("note").arguments([Term::from(Literal::from(1))]).run()?;
    /// assert!(matches!(done, CallOutcome::Answered(_)));
    /// assert_eq!(engine.health().stored_statements, 1);
    /// engine.declare("DROP PROCEDURE note")?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The text does not parse, or does not fit what is declared.
    pub fn declare(&self, text: &str) -> Result<(), EngineError> {
        let statement = self.parse_statement(text)?;
        self.log_statement(statement)
    }

    /// Creates a procedure by a CREATE PROCEDURE text, or replaces one by a CREATE OR REPLACE
    /// PROCEDURE text. The same text again changes nothing. `name` must be the name in the text, if
    /// it is given.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// let text = "CREATE PROCEDURE next(?n) AS { RETURN SELECT (?n + 1 AS ?m) { } }";
    /// let next = engine.create_procedure(Some("next"), text)?;
    /// assert_eq!(next.parameters[0].name, "n");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The text does not parse, does not fit what is declared, or there is such a procedure with
    /// another text.
    pub fn create_procedure(
        &self,
        name: Option<&str>,
        text: &str,
    ) -> Result<ProcedureInfo, EngineError> {
        let statement = self.parse_statement(text)?;
        let Statement::CreateProcedure(procedure) = &statement else {
            return Err(EngineError::Invalid(
                "the text declares no procedure; a declaration begins with CREATE PROCEDURE name"
                    .to_owned(),
            ));
        };
        check_name("procedure", &procedure.name, name)?;
        let name = procedure.name.clone();
        self.admit_statement(&statement)?;
        match self.procedure_info(&name) {
            Ok(existing) if have_same_tokens(&existing.text, text) => Ok(existing),
            _ => {
                self.log_statement(statement)?;
                self.procedure_info(&name)
            }
        }
    }

    /// Creates a dataflow by a CREATE DATAFLOW text, or replaces one by a CREATE OR REPLACE
    /// DATAFLOW text. The same text again changes nothing. `name` must be the name in the text, if
    /// it is given.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// engine.declare("CREATE PROCEDURE p() AS { RETURN ASK { } }")?;
    /// let flow = engine.create_dataflow(None, "CREATE DATAFLOW flow { p } RECOVERY WEAK")?;
    /// assert_eq!(flow.recovery, "WEAK");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The text does not parse, does not fit what is declared, or there is such a dataflow with
    /// another text.
    pub fn create_dataflow(
        &self,
        name: Option<&str>,
        text: &str,
    ) -> Result<DataflowInfo, EngineError> {
        let statement = self.parse_statement(text)?;
        let Statement::CreateDataflow(dataflow) = &statement else {
            return Err(EngineError::Invalid(
                "the text declares no dataflow; a declaration begins with CREATE DATAFLOW name"
                    .to_owned(),
            ));
        };
        check_name("dataflow", &dataflow.name, name)?;
        let name = dataflow.name.clone();
        self.admit_statement(&statement)?;
        match self.dataflow_info(&name) {
            Ok(existing) if have_same_tokens(&existing.text, text) => Ok(existing),
            _ => {
                self.log_statement(statement)?;
                self.dataflow_info(&name)
            }
        }
    }

    /// Drops a procedure that no dataflow names. `discard` gives up messages that wait for it;
    /// without it they keep the procedure.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// engine.declare("CREATE PROCEDURE p() AS { RETURN ASK { } }")?;
    /// engine.drop_procedure("p", false)?;
    /// assert!(engine.procedures()?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// There is no such procedure, it is in use, or messages wait for it.
    pub fn drop_procedure(&self, name: &str, discard: bool) -> Result<(), EngineError> {
        let name = name.to_owned();
        self.log_statement(Statement::DropProcedure(DropProcedure { name, discard }))
    }

    /// Drops a dataflow. Its procedures stay.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// engine.declare("CREATE PROCEDURE p() AS { RETURN ASK { } }")?;
    /// engine.declare("CREATE DATAFLOW flow { p }")?;
    /// engine.drop_dataflow("flow")?;
    /// assert_eq!(engine.procedures()?.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// There is no such dataflow.
    pub fn drop_dataflow(&self, name: &str) -> Result<(), EngineError> {
        self.log_statement(Statement::DropDataflow(name.to_owned()))
    }

    /// Pauses a dataflow: no round of it begins until it is resumed. Messages are taken meanwhile.
    /// One that is paused or stopped stays so.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// engine.declare("CREATE PROCEDURE p() AS { RETURN ASK { } }")?;
    /// engine.declare("CREATE DATAFLOW flow { p }")?;
    /// engine.pause_dataflow("flow")?;
    /// assert_eq!(engine.dataflow_info("flow")?.state, "paused");
    /// engine.resume_dataflow("flow")?;
    /// assert_eq!(engine.dataflow_info("flow")?.state, "running");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// There is no such dataflow.
    pub fn pause_dataflow(&self, name: &str) -> Result<(), EngineError> {
        self.log_statement(Statement::PauseDataflow(name.to_owned()))
    }

    /// Lets a dataflow go on that is paused or stopped.
    ///
    /// # Errors
    /// There is no such dataflow.
    pub fn resume_dataflow(&self, name: &str) -> Result<(), EngineError> {
        self.log_statement(Statement::ResumeDataflow(name.to_owned()))
    }

    /// Parses a statement, with the namespace of this engine. Nothing is carried out.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig, Statement};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// let parsed = engine.parse_statement("DROP SINK bill")?;
    /// assert!(matches!(parsed, Statement::ManageConnector(_)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The text is no statement, or too long.
    pub fn parse_statement(&self, text: &str) -> Result<Statement, EngineError> {
        self.check_running()?;
        self.check_text(text)?;
        Ok(self.parser(None).parse_statement(text)?)
    }

    /// Refuses a statement about procedures or dataflows that the rights of this handle do not
    /// allow. A procedure runs with the rights of its declaration, which are asked for here.
    fn admit_statement(&self, statement: &Statement) -> Result<(), EngineError> {
        let name = match statement {
            Statement::CreateProcedure(procedure) => {
                self.access.require_all(&procedure.footprint())?;
                &procedure.name
            }
            Statement::CreateDataflow(dataflow) => {
                let procedures = dataflow.parts.iter().flat_map(DataflowPart::procedures);
                for procedure in procedures {
                    self.access.require(RightKind::Register, Some(procedure))?;
                }
                &dataflow.name
            }
            Statement::DropProcedure(drop) => &drop.name,
            Statement::DropDataflow(name)
            | Statement::PauseDataflow(name)
            | Statement::ResumeDataflow(name) => name,
            // It is refused below, whatever the rights are.
            _ => return self.check_running(),
        };
        self.admit(RightKind::Register, Some(name))
    }

    /// Logs a statement about procedures or dataflows.
    fn log_statement(&self, statement: Statement) -> Result<(), EngineError> {
        self.admit_statement(&statement)?;
        let record = |command| CommandRecord {
            received_ms: self.now_ms(),
            command,
            resolved: Resolved::default(),
        };
        let namespace = self.inner.config.default_namespace.clone();
        let without_text = |command| ParsedCommand::without_text(record(command));
        let command = match statement {
            Statement::CreateProcedure(procedure) => {
                let command = Command::CreateProcedure {
                    name: procedure.name.clone(),
                    text: procedure.text.clone(),
                    namespace,
                };
                ParsedCommand::create_procedure(record(command), Arc::new(*procedure))
            }
            Statement::CreateDataflow(dataflow) => {
                let command = Command::CreateDataflow {
                    name: dataflow.name.clone(),
                    text: dataflow.text.clone(),
                    namespace,
                };
                ParsedCommand::create_dataflow(record(command), Arc::new(dataflow))
            }
            Statement::DropProcedure(drop) => without_text(Command::DropProcedure {
                name: drop.name,
                discard: drop.discard,
            }),
            Statement::DropDataflow(name) => without_text(Command::DropDataflow { name }),
            Statement::PauseDataflow(name) => without_text(Command::PauseDataflow { name }),
            Statement::ResumeDataflow(name) => without_text(Command::ResumeDataflow { name }),
            _ => {
                return Err(EngineError::Invalid(
                    "the text declares no procedure and no dataflow; it begins with CREATE, DROP, PAUSE or RESUME and PROCEDURE or DATAFLOW"
                        .to_owned(),
                ));
            }
        };
        self.inner.driver.declare(command)?;
        Ok(())
    }

    /// Returns a request to call a procedure.
    ///
    /// ```
    /// use somersault::oxrdf::{Literal, Term};
    /// use somersault::{CallAnswer, CallOutcome, Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// engine.declare("CREATE PROCEDURE next(?n) AS { RETURN SELECT (?n + 1 AS ?m) { } }")?;
    /// let one = Term::from(Literal::from(1));
    /// let CallOutcome::Answered(CallAnswer::Rows { rows, .. }) =
    ///     engine.call("next").arguments([one]).key("till", 1).run()?
    /// else {
    ///     panic!("it returns rows")
    /// };
    /// assert_eq!(rows, [[Some(Term::from(Literal::from(2)))]]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn call<'c>(&'c self, procedure: &'c str) -> CallRequest<'c> {
        CallRequest {
            engine: self,
            procedure: Cow::Borrowed(procedure),
            arguments: CallArguments::InOrder(Vec::new()),
            key: None,
            timeout: None,
            cancel: None,
            room: None,
        }
    }

    /// Returns the request of a text `CALL name(arguments)`; `None` if the text is no CALL. `base`
    /// resolves relative IRIs.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// engine.declare("CREATE PROCEDURE next(?n) AS { RETURN SELECT (?n + 1 AS ?m) { } }")?;
    /// let call = engine.call_text("CALL next(41)", None)?.expect("it is a CALL");
    /// call.run()?;
    /// assert!(engine.call_text("INSERT DATA { }", None)?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The text begins with CALL and does not parse.
    pub fn call_text<'c>(
        &'c self,
        text: &str,
        base: Option<&str>,
    ) -> Result<Option<CallRequest<'c>>, EngineError> {
        if !Parser::is_call(text) {
            return Ok(None);
        }
        self.check_text(text)?;
        let Statement::Call(call) = self.parser(base).parse_statement(text)? else {
            return Ok(None);
        };
        Ok(Some(CallRequest {
            engine: self,
            procedure: Cow::Owned(call.procedure),
            arguments: CallArguments::InOrder(call.arguments),
            key: None,
            timeout: None,
            cancel: None,
            room: None,
        }))
    }
}

/// Checks that a text declares what the caller names.
fn check_name(kind: &str, declared: &str, given: Option<&str>) -> Result<(), EngineError> {
    match given {
        Some(given) if given != declared => Err(EngineError::Invalid(format!(
            "the text declares the {kind} {declared}, but the name given is {given}; use one of the two in both places"
        ))),
        _ => Ok(()),
    }
}

/// A call of a procedure with its arguments; made by [`Engine::call`].
///
/// ```
/// use somersault::{CallOutcome, Engine, EngineConfig};
/// use std::time::Duration;
/// # fn main() -> Result<(), somersault::EngineError> {
/// # let engine = Engine::open(EngineConfig::default())?;
/// engine.declare("CREATE PROCEDURE never() AS { ABORT \"no\" }")?;
/// let refused = engine.call("never").timeout(Duration::from_secs(1)).run()?;
/// assert_eq!(refused, CallOutcome::Aborted { reason: "no".to_owned() });
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a request does nothing before it is run"]
pub struct CallRequest<'c> {
    engine: &'c Engine,
    procedure: Cow<'c, str>,
    arguments: CallArguments,
    key: Option<CallKey>,
    timeout: Option<Duration>,
    cancel: Option<CancelToken>,
    room: Option<Arc<AnswerRoom>>,
}

impl CallRequest<'_> {
    /// Sets the arguments, in the order of the parameters.
    pub fn arguments(mut self, arguments: impl IntoIterator<Item = Term>) -> Self {
        self.arguments = CallArguments::InOrder(arguments.into_iter().collect());
        self
    }

    /// Sets the arguments by the names of the parameters, without `?`.
    ///
    /// ```
    /// use somersault::{Argument, Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// engine.declare("CREATE PROCEDURE see(?who IRI) AS { RETURN ASK { ?who ?p ?o } }")?;
    /// let ann = Argument::Text("urn:ann".to_owned());
    /// engine.call("see").named_arguments([("who".to_owned(), ann)]).run()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn named_arguments(
        mut self,
        arguments: impl IntoIterator<Item = (String, Argument)>,
    ) -> Self {
        self.arguments = CallArguments::ByName(arguments.into_iter().collect());
        self
    }

    /// Sets the key under which the call is remembered: a source and its number for the call. A
    /// call with a key that was used is not run again; it is answered what that call was answered.
    pub fn key(mut self, source: impl Into<String>, number: u64) -> Self {
        self.key = Some(CallKey {
            source: source.into(),
            number,
        });
        self
    }

    /// Sets the time that the procedure may take.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// The call is not carried out if the token is cancelled before it ran. It is answered with
    /// [`EngineError::Cancelled`] then, and its key stays free.
    pub fn cancel(mut self, token: &CancelToken) -> Self {
        self.cancel = Some(token.clone());
        self
    }

    /// Limits the bytes of answers that wait to be read, over all calls with this room. A call
    /// whose answer has no room is not carried out, and answered with
    /// [`UnreadAnswers`](crate::LimitKind::UnreadAnswers); its key stays free.
    ///
    /// ```
    /// use somersault::{AnswerRoom, Engine, EngineConfig};
    /// use std::sync::Arc;
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// engine.declare("CREATE PROCEDURE say() AS { RETURN SELECT (\"much\" AS ?m) { } }")?;
    /// let room = Arc::new(AnswerRoom::new(100));
    /// let calls: Vec<_> = (0..5)
    ///     .map(|_| engine.call("say").within(&room).begin())
    ///     .collect::<Result<_, _>>()?;
    /// let answered = calls.into_iter().map(|call| call.wait()).filter(Result::is_ok);
    /// assert!(answered.count() >= 1);
    /// assert_eq!(room.held(), 0, "all answers were read");
    /// # Ok(())
    /// # }
    /// ```
    pub fn within(mut self, room: &Arc<AnswerRoom>) -> Self {
        self.room = Some(Arc::clone(room));
        self
    }

    /// Calls the procedure. Returns when its effects are in a stable snapshot.
    ///
    /// # Errors
    /// There is no such procedure, it is a streaming one, an argument is missing, extra or of
    /// another kind; nothing has happened then.
    pub fn run(self) -> Result<CallOutcome, EngineError> {
        self.begin()?.wait()
    }

    /// Hands the call in, and does not wait for its answer. The calls of one thread run in the
    /// order in which it hands them in.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// engine.declare("CREATE PROCEDURE set() AS { INSERT DATA { <urn:a> <urn:p> 1 } }")?;
    /// let calls = [engine.call("set").begin()?, engine.call("set").begin()?];
    /// for call in calls {
    ///     call.wait()?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The engine takes no calls. Whether the call itself is refused is said by its answer.
    pub fn begin(self) -> Result<PendingCall, EngineError> {
        let (engine, call) = self.prepared()?;
        Ok(PendingCall(engine.inner.driver.hand_in_call(call)?))
    }

    /// Runs the call in a transaction that is undone.
    pub(super) fn analyse(self) -> Result<CallAnalysis, EngineError> {
        let (engine, call) = self.prepared()?;
        engine.access.require_one(SEE_DATAFLOW, &call.procedure)?;
        Ok(engine.inner.driver.analyse_call(call)?)
    }

    /// The name of the procedure.
    pub(super) fn procedure(&self) -> &str {
        &self.procedure
    }
}

impl<'c> CallRequest<'c> {
    fn prepared(self) -> Result<(&'c Engine, ProcedureCall), EngineError> {
        let engine = self.engine;
        engine.admit(RightKind::Call, Some(&self.procedure))?;
        // A procedure runs with the rights of its declaration.
        let mut execution = engine.unrestricted_execution(self.timeout, None);
        execution.abandoned = self.cancel.as_ref().map(CancelToken::flag);
        let call = ProcedureCall {
            procedure: self.procedure.into_owned(),
            arguments: self.arguments,
            key: self.key,
            execution,
            room: self.room,
        };
        Ok((engine, call))
    }
}

/// A call that was handed in; made by [`CallRequest::begin`]. As a future it ends when the call is
/// answered. Dropping it does not take the call back.
///
/// ```
/// use somersault::{Engine, EngineConfig};
/// # fn main() -> Result<(), somersault::EngineError> {
/// # let engine = Engine::open(EngineConfig::default())?;
/// engine.declare("CREATE PROCEDURE set() AS { INSERT DATA { <urn:a> <urn:p> 1 } }")?;
/// let call = engine.call("set").begin()?;
/// // Other work may be done meanwhile.
/// call.wait()?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a call may be refused, which only its answer tells"]
pub struct PendingCall(Pending<UnreadOutcome>);

impl PendingCall {
    /// Whether the answer is there: [`PendingCall::wait`] returns at once then.
    pub fn is_answered(&self) -> bool {
        self.0.is_answered()
    }

    /// Waits until the call is answered: its effects are in a stable snapshot then.
    ///
    /// # Errors
    /// As [`CallRequest::run`].
    pub fn wait(self) -> Result<CallOutcome, EngineError> {
        Ok(self.0.wait()?.read())
    }
}

impl Future for PendingCall {
    type Output = Result<CallOutcome, EngineError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = Pin::new(&mut self.0).poll(context);
        outcome.map(|outcome| Ok(outcome?.read()))
    }
}
