//! Procedures in Rust: what a body may do in its transaction.
//!
//! The one thing to know before changing it: the lane holds a body until the engine ends, so a body
//! holds no [`Engine`].

use super::Engine;
use crate::access::RightKind;
use crate::error::EngineError;
use oxrdf::{NamedNode, Quad, Term, Triple};
use parking_lot::Mutex;
use somersault_lang::{CreateProcedure, ParseError, Parser};
use somersault_model::EventTime;
use somersault_query::{Abort, AbortCause, NativeRun, NativeSteps};
use somersault_runtime::CallAnswer;
use std::collections::HashMap;
use std::sync::Arc;

/// The number of texts of a body whose plans are kept.
const MOST_TEXTS: usize = 256;

/// # Procedures in Rust
///
/// Procedures whose body is a closure of this program.
impl Engine {
    /// Gives a native procedure its body. The procedure is declared first, by
    /// `CREATE PROCEDURE name … AS NATIVE`, which says what it takes, consumes, owns and emits
    /// into. The declaration is durable; the body is not, so a program gives it after each start,
    /// and the calls and rounds that wait for it go on then. Another body takes the place of the
    /// first.
    ///
    /// The closure runs as a transaction, in the order of all transactions. It may run again before
    /// it counts, so it should do nothing outside of its [`Txn`]. What it returns is the answer of
    /// a call: `()`, a `bool`, or a [`CallAnswer`], as [`Txn::query`] gives. An error or a panic
    /// aborts the transaction, and nothing of it remains. It must not call the engine, and must not
    /// hold it: transactions wait for it meanwhile.
    ///
    /// ```
    /// use somersault::oxrdf::{Literal, NamedNode, Term};
    /// use somersault::{CallOutcome, Engine, EngineConfig};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let engine = Engine::open(EngineConfig::default())?;
    /// engine.update("INSERT DATA { <urn:ann> <urn:has> 10 }").run()?;
    /// engine.declare("CREATE PROCEDURE take(?who IRI, ?amount) AS NATIVE")?;
    /// engine.procedure("take", |tx| {
    ///     if !tx.ask("ASK { ?who <urn:has> ?n FILTER(?n >= ?amount) }", &[])? {
    ///         return tx.abort("there is not enough");
    ///     }
    ///     tx.update(
    ///         "DELETE { ?who <urn:has> ?n } INSERT { ?who <urn:has> ?left }
    ///          WHERE { ?who <urn:has> ?n BIND(?n - ?amount AS ?left) }",
    ///         &[],
    ///     )?;
    ///     tx.query("SELECT ?left { ?who <urn:has> ?left }", &[])
    /// })?;
    /// let take = |amount: i64| {
    ///     let ann = Term::from(NamedNode::new_unchecked("urn:ann"));
    ///     engine.call("take").arguments([ann, Literal::from(amount).into()]).run()
    /// };
    /// assert!(matches!(take(7)?, CallOutcome::Answered(_)));
    /// let refused = CallOutcome::Aborted { reason: "there is not enough".to_owned() };
    /// assert_eq!(take(7)?, refused);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// There is no such procedure, or its steps stand in its declaration.
    pub fn procedure<A, F>(&self, name: &str, body: F) -> Result<(), EngineError>
    where
        F: Fn(&mut Txn<'_, '_>) -> Result<A, Abort> + Send + Sync + 'static,
        A: Into<CallAnswer>,
    {
        self.admit(RightKind::Register, Some(name))?;
        let texts = Texts::new(self.parser(None));
        let body = move |declaration: &Arc<CreateProcedure>, run: NativeRun<'_, '_>| {
            let mut transaction = Txn {
                run,
                declaration,
                texts: &texts,
            };
            body(&mut transaction).map(Into::into)
        };
        self.inner.driver.register(name, Arc::new(body))?;
        Ok(())
    }
}

/// The transaction in which the body of a native procedure runs; see [`Engine::procedure`].
///
/// In the texts of queries and updates, the parameters of the procedure and the names given as
/// `values` (without `?`) stand for their values, as in a step of a procedure.
/// `BATCH { … }` and `WINDOW iri { … }` read what the procedure consumes and owns. RAND, UUID and
/// BNODE are the same if the transaction runs again.
///
/// ```
/// use somersault::oxrdf::{Literal, NamedNode, Term};
/// use somersault::{Abort, CallAnswer, Engine, EngineConfig, Txn};
/// # fn main() -> Result<(), somersault::EngineError> {
/// # let engine = Engine::open(EngineConfig::default())?;
/// fn note(tx: &mut Txn<'_, '_>) -> Result<CallAnswer, Abort> {
///     let twice = Term::from(Literal::from(tx.rows("SELECT ?s { ?s ?p ?o }", &[])?.len() as i64));
///     tx.update("INSERT { ?what <urn:after> ?n } WHERE { }", &[("n", twice)])?;
///     tx.query("SELECT ?n { ?what <urn:after> ?n }", &[])
/// }
/// engine.declare("CREATE PROCEDURE note(?what IRI) AS NATIVE")?;
/// engine.procedure("note", note)?;
/// let what = Term::from(NamedNode::new_unchecked("urn:a"));
/// engine.call("note").arguments([what]).run()?;
/// assert_eq!(engine.health().stored_statements, 1);
/// # Ok(())
/// # }
/// ```
pub struct Txn<'r, 's> {
    run: NativeRun<'r, 's>,
    declaration: &'r Arc<CreateProcedure>,
    texts: &'r Texts,
}

impl Txn<'_, '_> {
    /// What NOW() is in a step: the event time of the batch, or when the call was received.
    pub fn now(&self) -> EventTime {
        self.run.now()
    }

    /// The next random number from 0 up to, and without, 1. A transaction that runs again gets the
    /// same ones.
    ///
    /// # Errors
    /// A limit: return it, and the transaction aborts.
    pub fn random(&mut self) -> Result<f64, Abort> {
        self.run.random()
    }

    /// The arguments of the call, in the order of the parameters.
    pub fn arguments(&self) -> Vec<Term> {
        self.run.arguments()
    }

    /// The argument of a parameter, by its name without `?`.
    ///
    /// # Errors
    /// The procedure has no such parameter.
    pub fn argument(&self, name: &str) -> Result<Term, Abort> {
        let mut parameters = self.declaration.parameters.iter();
        let place = parameters.position(|it| it.name == name);
        let argument = place.and_then(|place| self.run.arguments().into_iter().nth(place));
        argument.ok_or_else(|| {
            failed(format!(
                "procedure {} has no parameter ?{name}; add it to its declaration",
                self.declaration.name
            ))
        })
    }

    /// The batch of a consumed stream: the statements of its messages, each once.
    ///
    /// # Errors
    /// The procedure was not declared to consume the stream.
    pub fn batch(&self, stream: &NamedNode) -> Result<Vec<Triple>, Abort> {
        self.run.batch(stream).ok_or_else(|| {
            failed(format!(
                "procedure {} does not consume {stream}; add ON STREAM {stream} BATCH 1 MESSAGE to its declaration",
                self.declaration.name
            ))
        })
    }

    /// The statements of the messages in an owned window, each once. Before its first slide it is
    /// empty.
    ///
    /// # Errors
    /// The procedure was not declared to own the window.
    pub fn window(&self, name: &NamedNode) -> Result<Vec<Triple>, Abort> {
        self.run.window(name).ok_or_else(|| {
            failed(format!(
                "procedure {} owns no window {name}; add OWNS WINDOW {name} ON <stream> [LAST 10 MESSAGES] to its declaration",
                self.declaration.name
            ))
        })
    }

    /// Evaluates a SELECT, ASK or CONSTRUCT on what is stored and what this transaction wrote.
    ///
    /// # Errors
    /// The text does not parse, or a limit: return it, and the transaction aborts.
    pub fn query(&mut self, text: &str, values: &[(&str, Term)]) -> Result<CallAnswer, Abort> {
        let answer = self.steps(Form::Query, text, values)?;
        Ok(CallAnswer::of(answer, self.run.dictionary()))
    }

    /// The rows of a SELECT; `None` is unbound.
    ///
    /// # Errors
    /// As [`Txn::query`]; and the text is no SELECT.
    pub fn rows(
        &mut self,
        text: &str,
        values: &[(&str, Term)],
    ) -> Result<Vec<Vec<Option<Term>>>, Abort> {
        match self.query(text, values)? {
            CallAnswer::Rows { rows, .. } => Ok(rows),
            _ => Err(failed(format!("this is no SELECT, which has rows: {text}"))),
        }
    }

    /// What an ASK says.
    ///
    /// # Errors
    /// As [`Txn::query`]; and the text is no ASK.
    pub fn ask(&mut self, text: &str, values: &[(&str, Term)]) -> Result<bool, Abort> {
        match self.query(text, values)? {
            CallAnswer::Boolean(is_true) => Ok(is_true),
            _ => Err(failed(format!(
                "this is no ASK, which is true or false: {text}"
            ))),
        }
    }

    /// Carries out INSERT DATA, DELETE DATA, DELETE/INSERT … WHERE and DELETE WHERE, with `;`
    /// between. Each sees what those before it wrote.
    ///
    /// # Errors
    /// The text does not parse or has something else, or a limit: return it, and the transaction
    /// aborts.
    pub fn update(&mut self, text: &str, values: &[(&str, Term)]) -> Result<(), Abort> {
        self.steps(Form::Update, text, values).map(|_| ())
    }

    /// Inserts a statement. Blank nodes are those of the stored data with these labels.
    ///
    /// # Errors
    /// A limit: return it, and the transaction aborts.
    pub fn insert(&mut self, statement: &Quad) -> Result<(), Abort> {
        self.run.insert(statement)
    }

    /// Deletes a statement.
    ///
    /// # Errors
    /// A limit: return it, and the transaction aborts.
    pub fn delete(&mut self, statement: &Quad) -> Result<(), Abort> {
        self.run.delete(statement)
    }

    /// Emits one message into an interior stream. Without a statement there is no message.
    ///
    /// # Errors
    /// The procedure was not declared to emit into the stream, or a limit.
    pub fn emit(&mut self, stream: &NamedNode, message: &[Triple]) -> Result<(), Abort> {
        self.run.emit(stream, message)
    }

    /// The abort with this reason, to be returned: nothing of the transaction remains.
    ///
    /// # Errors
    /// Always.
    pub fn abort<T>(&self, reason: impl Into<String>) -> Result<T, Abort> {
        Err(Abort::stated(reason))
    }

    fn steps(
        &mut self,
        form: Form,
        text: &str,
        values: &[(&str, Term)],
    ) -> Result<Option<somersault_query::Answer>, Abort> {
        let names: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
        let steps = self
            .texts
            .steps(self.declaration, &self.run, form, text, &names)?;
        let arguments = self.run.arguments().into_iter();
        let given = values.iter().map(|(_, value)| value.clone());
        let values: Vec<Option<Term>> = arguments.chain(given).map(Some).collect();
        self.run.run(&steps, &values)
    }
}

/// The abort of a body that is not right.
fn failed(reason: String) -> Abort {
    Abort {
        cause: AbortCause::Error,
        reason,
    }
}

/// What a text may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Form {
    Query,
    Update,
}

/// The texts that a body has run, ready to run again.
struct Texts {
    parser: Parser,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    /// The declaration that they were compiled for.
    declaration: Option<Arc<CreateProcedure>>,
    texts: HashMap<String, Vec<KeptText>>,
}

/// A text with the names of its values.
struct KeptText {
    form: Form,
    values: Vec<String>,
    steps: Arc<NativeSteps>,
}

impl Texts {
    fn new(parser: Parser) -> Texts {
        Texts {
            parser,
            kept: Mutex::default(),
        }
    }

    fn steps(
        &self,
        declaration: &Arc<CreateProcedure>,
        run: &NativeRun<'_, '_>,
        form: Form,
        text: &str,
        values: &[&str],
    ) -> Result<Arc<NativeSteps>, Abort> {
        let mut kept = self.kept.lock();
        let is_same = (kept.declaration.as_ref()).is_some_and(|it| Arc::ptr_eq(it, declaration));
        if !is_same || kept.texts.len() >= MOST_TEXTS {
            kept.texts.clear();
            kept.declaration = Some(Arc::clone(declaration));
        }
        let known = kept.texts.get(text).into_iter().flatten();
        let mut known = known.filter(|it| it.form == form && it.values == values);
        if let Some(found) = known.next() {
            return Ok(Arc::clone(&found.steps));
        }
        let steps = Arc::new(self.compile(declaration, run, form, text, values)?);
        kept.texts
            .entry(text.to_owned())
            .or_default()
            .push(KeptText {
                form,
                values: values.iter().map(ToString::to_string).collect(),
                steps: Arc::clone(&steps),
            });
        Ok(steps)
    }

    fn compile(
        &self,
        declaration: &CreateProcedure,
        run: &NativeRun<'_, '_>,
        form: Form,
        text: &str,
        values: &[&str],
    ) -> Result<NativeSteps, Abort> {
        let parameters = declaration.parameters.iter().map(|it| it.name.as_str());
        let names: Vec<&str> = parameters.chain(values.iter().copied()).collect();
        for (number, name) in names.iter().enumerate() {
            if names[..number].contains(name) {
                return Err(failed(format!(
                    "?{name} has a value already; choose another name for this one: {text}"
                )));
            }
        }
        let read = match form {
            Form::Query => {
                (self.parser.parse_query_of(text, declaration, &names)).map(|step| vec![step])
            }
            Form::Update => self.parser.parse_update_of(text, declaration, &names),
        };
        let read =
            read.map_err(|error: ParseError| failed(format!("{error}; the text is: {text}")))?;
        NativeSteps::new(run.compiled(), text, &read, &names).map_err(failed)
    }
}
