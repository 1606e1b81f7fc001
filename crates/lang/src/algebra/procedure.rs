//! Declared procedures and dataflows, and calls: streaming transactions as texts mean them.
//!
//! The one thing to know before changing it: a value of the scope (a parameter, a variable of LET
//! or FOR EACH) is a [`Slot`] of its procedure. Each query of a step says which of its variables
//! stand for slots ([`Bound`]): where the slot has a value, the value stands in the place of the
//! variable everywhere in that query, in its sub-selects too; where it has none, the variable stays
//! a variable.

use crate::algebra::VarId;
use crate::algebra::query::Query;
use crate::algebra::update::UpdateOperation;
use oxrdf::{NamedNode, Term};
use somersault_model::Millis;
use std::ops::Range;

/// `CREATE [OR REPLACE] PROCEDURE name (…) … AS { … }`, or `… AS NATIVE`
#[derive(Debug, Clone)]
pub struct CreateProcedure {
    /// The name: a word or an IRI.
    pub name: String,
    /// Whether it may take the place of a procedure of that name.
    pub or_replace: bool,
    /// The parameters; they are the first slots, in this order. A streaming procedure has none.
    pub parameters: Vec<Parameter>,
    /// The streams that it consumes; with one at least it is a streaming procedure.
    pub consumes: Vec<ConsumedStream>,
    /// The windows that it owns, in the order of the text.
    pub windows: Vec<OwnedWindow>,
    /// The triggers, in the order of the text.
    pub triggers: Vec<Trigger>,
    /// The steps behind AS; none where the body is native.
    pub steps: Vec<Step>,
    /// What the text says of a body that it does not have.
    pub native: Option<NativeBody>,
    /// The names of all slots. Two blocks beside each other may have slots of one name.
    pub slots: Vec<String>,
    /// The text as given.
    pub text: String,
    /// The default namespace by which bare names of the text were resolved.
    pub namespace: Option<String>,
}

impl CreateProcedure {
    /// Whether streams activate it; otherwise calls do.
    #[must_use]
    pub fn is_streaming(&self) -> bool {
        !self.consumes.is_empty()
    }

    /// The streams that its body may emit into, each once, in the order of the text.
    #[must_use]
    pub fn emits(&self) -> Vec<&NamedNode> {
        if let Some(native) = &self.native {
            return native.emits.iter().collect();
        }
        let blocks = self.triggers.iter().map(|trigger| &trigger.steps);
        emitted(blocks.chain([&self.steps]))
    }
}

/// `EMITS INTO … AS NATIVE`: the body is code of a program that embeds the engine. The text says
/// what the engine must know of it, so that the declaration survives a restart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NativeBody {
    /// The streams that it may emit into, each once.
    pub emits: Vec<NamedNode>,
}

/// The streams that the steps of some blocks emit into, each once, in order.
pub(crate) fn emitted<'s>(blocks: impl IntoIterator<Item = &'s Vec<Step>>) -> Vec<&'s NamedNode> {
    let mut streams = Vec::new();
    let mut steps: Vec<&Step> = blocks.into_iter().flatten().collect();
    steps.reverse();
    while let Some(step) = steps.pop() {
        match &step.kind {
            StepKind::Emit { stream, .. } if !streams.contains(&stream) => streams.push(stream),
            StepKind::If {
                branches,
                otherwise,
            } => {
                let blocks = branches.iter().map(|branch| &branch.steps);
                let inner: Vec<&Step> = blocks.chain([otherwise]).flatten().collect();
                steps.extend(inner.into_iter().rev());
            }
            StepKind::ForEach { steps: inner, .. } => steps.extend(inner.iter().rev()),
            _ => {}
        }
    }
    streams
}

/// A parameter of a procedure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// Its name, without `?`.
    pub name: String,
    /// The terms that it takes.
    pub kind: ParameterKind,
}

/// The terms that a parameter takes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub enum ParameterKind {
    /// Every term.
    #[default]
    Any,
    /// IRIs.
    Iri,
    /// Literals of any datatype.
    Literal,
    /// Literals of one datatype.
    Datatype(NamedNode),
}

/// `ON STREAM iri BATCH …`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumedStream {
    /// The stream.
    pub stream: NamedNode,
    /// What of it is one batch.
    pub batch: BatchExtent,
}

/// The extent of an atomic batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BatchExtent {
    /// This many messages, in the order of the log.
    Messages(u64),
    /// All messages of one interval of this length, counted from 1970.
    Time(Millis),
}

/// `OWNS WINDOW iri ON iri [ … ]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedWindow {
    /// Its name.
    pub name: NamedNode,
    /// The stream, which its procedure consumes.
    pub stream: NamedNode,
    /// The messages that it holds.
    pub extent: OwnedExtent,
}

/// The messages that an owned window holds, and when it slides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OwnedExtent {
    /// `LAST n MESSAGES SLIDE m`: the first slide is when n are there, the next after m more.
    Last {
        /// The number of messages.
        messages: u64,
        /// The number of messages between two slides; 1 where the text does not say.
        slide: u64,
    },
    /// `RANGE d SLIDE s`: the messages of [t − d, t) for each close t, a multiple of s.
    Range {
        /// The length.
        range: Millis,
        /// The time between two closes; the length where the text does not say.
        slide: Millis,
    },
}

/// Steps that run inside the transaction when something happens in it.
#[derive(Debug, Clone)]
pub struct Trigger {
    /// What sets it off.
    pub event: TriggerEvent,
    /// Its steps.
    pub steps: Vec<Step>,
}

impl Trigger {
    /// The streams that some step of it emits into, each once, in the order of the text.
    #[must_use]
    pub fn emits(&self) -> Vec<&NamedNode> {
        emitted([&self.steps])
    }
}

/// The cause of a trigger.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TriggerEvent {
    /// `WHEN iri SLIDES`: an owned window has slid.
    Slides(NamedNode),
    /// `WHEN INTO iri`: this procedure has emitted a message into the stream.
    Into(NamedNode),
}

/// A value of the scope of steps: its index into [`CreateProcedure::slots`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u32);

/// One step of a procedure.
#[derive(Debug, Clone)]
pub struct Step {
    /// What it does.
    pub kind: StepKind,
    /// Its bytes in the procedure's text, with the steps in it.
    pub span: Range<usize>,
}

/// What a step does.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum StepKind {
    /// INSERT DATA, DELETE DATA, DELETE/INSERT … WHERE, DELETE WHERE on stored graphs.
    Write(StepWrite),
    /// `LET (…) BE select`: the columns of the one row, in order.
    Let {
        /// The slots that take the columns, as many as there are.
        slots: Vec<Slot>,
        /// The SELECT.
        select: StepQuery,
    },
    /// `IF … ELSE IF … ELSE …`: the first branch whose condition holds.
    If {
        /// The branches.
        branches: Vec<Branch>,
        /// The steps behind the last ELSE.
        otherwise: Vec<Step>,
    },
    /// `FOR EACH (…) IN select { … }`
    ForEach {
        /// The slots that take the columns, as many as there are.
        slots: Vec<Slot>,
        /// The SELECT.
        select: StepQuery,
        /// The steps for each row.
        steps: Vec<Step>,
    },
    /// `EMIT INTO iri construct`
    Emit {
        /// The stream.
        stream: NamedNode,
        /// The CONSTRUCT of the message.
        construct: StepQuery,
    },
    /// `ABORT expression`: a SELECT whose one row has one column, the reason.
    Abort(StepQuery),
    /// `RETURN select`, `ask` or `construct`.
    Return(StepQuery),
}

/// `IF ask { … }`
#[derive(Debug, Clone)]
pub struct Branch {
    /// The ASK.
    pub condition: StepQuery,
    /// The steps where it is true.
    pub steps: Vec<Step>,
}

/// A query of a step. `GRAPH` over the name of a [`KeptGraph`] in its pattern reads a batch or an
/// owned window.
#[derive(Debug, Clone)]
pub struct StepQuery {
    /// The query; its text is its part of the procedure's text.
    pub query: Query,
    /// Which of its variables stand for slots.
    pub bound: Vec<Bound>,
}

/// An update operation of a step: no LOAD, no whole graphs.
#[derive(Debug, Clone)]
pub struct StepWrite {
    /// The operation.
    pub operation: UpdateOperation,
    /// Which variables of its query stand for slots.
    pub bound: Vec<Bound>,
}

/// A variable that stands for a slot. Several variables of a query may stand for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    /// The variable of the query.
    pub variable: VarId,
    /// The slot.
    pub slot: Slot,
}

/// What `BATCH { … }` and `WINDOW iri { … }` read: a set of triples that is no stored graph.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum KeptGraph {
    /// The batch of a consumed stream; in `WHEN INTO s` that of `s` is the message just emitted.
    Batch(NamedNode),
    /// An owned window.
    Window(NamedNode),
}

/// The beginnings of the names of batches and of owned windows. No IRI of a procedure may begin so.
pub(crate) const KEPT_NAMES: [&str; 2] = ["urn:somersault:batch:", "urn:somersault:window:"];

impl KeptGraph {
    /// The name that stands for it in patterns.
    #[must_use]
    pub fn name(&self) -> NamedNode {
        let (beginning, of) = match self {
            KeptGraph::Batch(stream) => (KEPT_NAMES[0], stream),
            KeptGraph::Window(window) => (KEPT_NAMES[1], window),
        };
        NamedNode::new_unchecked(format!("{beginning}{}", of.as_str()))
    }

    /// What a name in a pattern stands for; `None` for stored graphs.
    ///
    /// ```
    /// use oxrdf::NamedNode;
    /// use somersault_lang::KeptGraph;
    /// let votes = KeptGraph::Batch(NamedNode::new_unchecked("urn:votes"));
    /// assert_eq!(KeptGraph::of(&votes.name()), Some(votes));
    /// assert_eq!(KeptGraph::of(&NamedNode::new_unchecked("urn:votes")), None);
    /// ```
    #[must_use]
    pub fn of(name: &NamedNode) -> Option<KeptGraph> {
        let of = |beginning: &str| {
            let iri = name.as_str().strip_prefix(beginning)?;
            Some(NamedNode::new_unchecked(iri))
        };
        let batch = of(KEPT_NAMES[0]).map(KeptGraph::Batch);
        batch.or_else(|| of(KEPT_NAMES[1]).map(KeptGraph::Window))
    }
}

/// `DROP PROCEDURE name [DISCARD]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DropProcedure {
    /// The name.
    pub name: String,
    /// Whether messages that wait for it may be lost.
    pub discard: bool,
}

/// `CREATE [OR REPLACE] DATAFLOW name { … } …`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateDataflow {
    /// The name.
    pub name: String,
    /// Whether it may take the place of a dataflow of that name.
    pub or_replace: bool,
    /// The procedures and nests, in the order of the text; no procedure is named twice.
    pub parts: Vec<DataflowPart>,
    /// How it is recovered.
    pub recovery: Recovery,
    /// What follows an abort.
    pub on_abort: OnAbort,
    /// The text as given.
    pub text: String,
    /// The default namespace by which bare names of the text were resolved.
    pub namespace: Option<String>,
}

/// A part of a dataflow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DataflowPart {
    /// A procedure that is a transaction by itself.
    Procedure(String),
    /// Procedures whose executions of one round are one transaction.
    Nest(Nest),
}

impl DataflowPart {
    /// Its procedures, in the order of the text.
    #[must_use]
    pub fn procedures(&self) -> &[String] {
        match self {
            DataflowPart::Procedure(name) => std::slice::from_ref(name),
            DataflowPart::Nest(nest) => &nest.procedures,
        }
    }
}

/// `NEST { … } [ORDER ( … )]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nest {
    /// The procedures, in the order of the text.
    pub procedures: Vec<String>,
    /// Pairs of them: the first runs before the second. There is no cycle.
    pub order: Vec<(String, String)>,
}

/// How a dataflow is recovered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Recovery {
    /// The effects of every transaction are logged.
    #[default]
    Strong,
    /// The inputs are logged, and the procedures run again.
    Weak,
}

/// What follows an abort in a dataflow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum OnAbort {
    /// The next round.
    #[default]
    Skip,
    /// Nothing, until RESUME.
    Stop,
}

/// `CALL name ( … )`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The procedure.
    pub procedure: String,
    /// The arguments, in the order of the parameters: IRIs, literals and triple terms.
    pub arguments: Vec<Term>,
    /// The text as given.
    pub text: String,
}
