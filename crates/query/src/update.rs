//! Updates: evaluated on a snapshot through an overlay of their own writes, they come out as net
//! deletes and inserts of quads; the owner of the log applies them (S14, S15).

use crate::algebra::error::QueryError;
use crate::context::answer::Answer;
use crate::context::execution::Execution;
use crate::context::limiter::Limiter;
use crate::exec::construct::Filler;
use crate::prepared::Prepared;
use crate::prepared::execute::Invocation;
use crate::value::random::Random;
use crate::view::graph_view::{Dataset, GraphView, Source};
use crate::view::local_terms::quad_bytes;
use crate::view::snapshot_view::SnapshotView;
use crate::view::term_source::TermSource;
use oxrdf::{BlankNode, GraphName, NamedNode, NamedOrBlankNode, Quad, Term};
use rustc_hash::FxHashMap;
use somersault_lang::{
    DatasetClause, DeleteInsert, GraphTarget, NameOrVariable, TemplateGraph, Update,
    UpdateOperation,
};
use somersault_model::{Direction, EventTime, QuadIds, QueryUid, TermId, TripleIds};
use std::time::Instant;

/// Graphs of more statements than this are emptied by name. Those of fewer are listed statement by
/// statement, so that the effects of usual updates are net.
pub const MOST_LISTED: u64 = 4096;

/// The effects of an update on the stored graphs: first whole graphs are cleared, then statements
/// of other graphs are deleted, then statements are inserted. Apart from cleared graphs they are
/// net: no statement is both deleted and inserted, none is deleted that does not exist, and none is
/// inserted that another graph holds already.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Effects {
    /// The graphs of which all statements go.
    pub clears: Vec<GraphName>,
    /// The number of statements that they have.
    pub cleared: u64,
    /// The number of them that are among `inserts`, and so neither deleted nor inserted.
    pub kept: u64,
    /// The statements that go.
    pub deletes: Vec<Quad>,
    /// The statements that come.
    pub inserts: Vec<Quad>,
}

impl Effects {
    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.clears.is_empty() && self.deletes.is_empty() && self.inserts.is_empty()
    }

    /// The number of statements that hold now and did not before.
    pub fn inserted(&self) -> u64 {
        self.inserts.len() as u64 - self.kept
    }

    /// The number of statements that held before and no longer do.
    pub fn deleted(&self) -> u64 {
        self.deletes.len() as u64 + self.cleared - self.kept
    }
}

/// The dataset that the SPARQL protocol gives for the WHERE clauses of an update, instead of what
/// its text says (`using-graph-uri`, `using-named-graph-uri`).
#[derive(Debug, Clone, Default)]
pub struct Using {
    /// The graphs whose merge is the default graph.
    pub default: Vec<NamedNode>,
    /// The named graphs.
    pub named: Vec<NamedNode>,
}

/// Evaluates all operations of a request in order, each seeing the effects of those before it. The
/// view's own dataset does not matter: every WHERE clause brings its own, windows do not take part.
/// New blank nodes are keyed by the snapshot, of which each update that has an effect makes a new
/// one. The limits are those of the whole request: its operations share one deadline, and what they
/// have written so far counts as memory.
///
/// # Errors
/// A limit, a remote document that cannot be read, an operation that is refused; then the whole
/// request has no effect.
pub fn evaluate_update(
    update: &Update,
    using: Option<&Using>,
    view: SnapshotView,
    execution: &Execution,
) -> Result<Effects, QueryError> {
    if using.is_some() && update.operations.iter().any(has_dataset) {
        return Err(QueryError::Refused {
            message: "The update says USING or WITH, and the request gives a dataset as well (using-graph-uri, using-named-graph-uri). Give it in one place".to_owned(),
        });
    }
    let deadline = execution.deadline.unwrap_or_else(|| {
        let started = execution.started.unwrap_or_else(Instant::now);
        started + execution.limits.query_time
    });
    let execution = Execution {
        deadline: Some(deadline),
        ..execution.clone()
    };
    let mut evaluator = Evaluator {
        view,
        limiter: Limiter::start(&execution),
        execution: &execution,
        using,
        labels: FxHashMap::default(),
        operation: 0,
        cleared: Vec::new(),
    };
    let last = update.operations.len().saturating_sub(1);
    for (at, operation) in update.operations.iter().enumerate() {
        evaluator.limiter.check_interrupt()?;
        evaluator.operation(operation, at == last)?;
        evaluator.operation += 1;
    }
    evaluator.effects()
}

/// Whether an operation has USING or WITH, which must not meet the protocol's dataset
/// (SPARQL 1.1 Protocol, section 2.2.3).
fn has_dataset(operation: &UpdateOperation) -> bool {
    matches!(operation, UpdateOperation::DeleteInsert(operation) if operation.query.dataset.present)
}

struct Evaluator<'u> {
    view: SnapshotView,
    execution: &'u Execution,
    /// The limits of the whole request.
    limiter: Limiter<'u>,
    using: Option<&'u Using>,
    /// The blank nodes of INSERT DATA: one label is one node in the whole request.
    labels: FxHashMap<BlankNode, BlankNode>,
    operation: u64,
    /// The statements that the last operation clears, which the overlay need not know.
    cleared: Vec<QuadIds>,
}

/// The bytes of a statement as ids.
const IDS_BYTES: usize = size_of::<QuadIds>();

impl Evaluator<'_> {
    fn operation(&mut self, operation: &UpdateOperation, is_last: bool) -> Result<(), QueryError> {
        match operation {
            UpdateOperation::InsertData(quads) => {
                let mut random = self.random();
                for quad in quads {
                    let quad = self.with_new_labels(quad.clone(), &mut random);
                    self.insert(&quad)?;
                }
            }
            UpdateOperation::DeleteData(quads) => {
                quads.iter().try_for_each(|quad| self.delete(quad))?;
            }
            UpdateOperation::DeleteInsert(operation) => self.delete_insert(operation, is_last)?,
            UpdateOperation::Load {
                silent,
                source,
                into,
            } => match self.load(source, into) {
                // A limit is no failure of the document: it ends the request all the same.
                Err(QueryError::Remote { .. } | QueryError::RemoteNotAllowed { .. }) if *silent => {
                }
                result => result?,
            },
            UpdateOperation::Clear { target, .. } | UpdateOperation::Drop { target, .. } => {
                for graph in self.graphs(target) {
                    self.clear(graph, is_last)?;
                }
            }
            UpdateOperation::Create { silent, graph } => {
                let id = self.dictionary().lookup(graph.as_ref().into());
                let holds = id.is_some_and(|id| self.view.statement_count(Source::Stored(id)) > 0);
                if holds && !silent {
                    return Err(QueryError::Refused {
                        message: format!(
                            "CREATE GRAPH {graph}: the graph is there already. Write CREATE SILENT GRAPH to go on"
                        ),
                    });
                }
            }
            other => {
                return Err(QueryError::Refused {
                    message: format!("The update operation {other:?} is not known"),
                });
            }
        }
        Ok(())
    }

    fn dictionary(&self) -> TermSource<'_> {
        self.view.dictionary()
    }

    /// The source of this operation's blank nodes.
    fn random(&self) -> Random {
        let (query, close) = self.key();
        Random::new(query, close)
    }

    fn key(&self) -> (QueryUid, EventTime) {
        let sn = self.view.snapshot().sn().0;
        // The upper bit keeps updates apart from continuous queries, which have small uids.
        (QueryUid(sn | 1 << 63), EventTime(self.operation as i64))
    }

    fn with_new_labels(&mut self, quad: Quad, random: &mut Random) -> Quad {
        let mut relabel = |node: BlankNode| {
            self.labels
                .entry(node)
                .or_insert_with(|| random.blank_node())
                .clone()
        };
        Quad {
            subject: match quad.subject {
                NamedOrBlankNode::BlankNode(node) => relabel(node).into(),
                named => named,
            },
            predicate: quad.predicate,
            object: relabelled(quad.object, &mut relabel),
            graph_name: match quad.graph_name {
                GraphName::BlankNode(node) => relabel(node).into(),
                other => other,
            },
        }
    }

    fn delete_insert(&mut self, operation: &DeleteInsert, is_last: bool) -> Result<(), QueryError> {
        let clause = match self.using {
            Some(using) => DatasetClause {
                present: true,
                default: using.default.clone(),
                named: using.named.clone(),
                all_named: false,
            },
            None => operation.query.dataset.clone(),
        };
        let dataset = Dataset::of_clause(&clause, self.dictionary());
        self.view.set_dataset(dataset);
        if let Some(graph) = self.whole_graph(operation) {
            return self.clear(graph, is_last);
        }
        let prepared = Prepared::new(operation.query.clone());
        let (query, close) = self.key();
        let Answer::Solutions(solutions) = self.solutions(&prepared, query, close)? else {
            return Ok(());
        };
        // Held until its statements are written, as these are.
        let mut held = solutions.memory_bytes();
        self.limiter.reserve(held)?;
        let projection = operation.query.projection();
        let mut random = Random::new(query, EventTime(!close.0));
        let (mut deletes, mut inserts) = (Vec::new(), Vec::new());
        let mut blank_nodes = FxHashMap::default();
        let dictionary = self.view.dictionary();
        for row in 0..solutions.len() {
            blank_nodes.clear();
            let mut filler = Filler {
                value: &|variable| {
                    let column = projection.iter().position(|v| *v == variable)?;
                    solutions.term(row, column, dictionary)
                },
                random: &mut random,
                blank_nodes: &mut blank_nodes,
            };
            let before = (deletes.len(), inserts.len());
            deletes.extend(operation.delete.iter().filter_map(|t| filler.quad(t)));
            inserts.extend(operation.insert.iter().filter_map(|t| filler.quad(t)));
            let new = deletes[before.0..].iter().chain(&inserts[before.1..]);
            let bytes = new.map(quad_bytes).sum();
            self.limiter.tick()?;
            self.limiter.reserve(bytes)?;
            held += bytes;
        }
        drop(solutions);
        deletes.iter().try_for_each(|quad| self.delete(quad))?;
        inserts.iter().try_for_each(|quad| self.insert(quad))?;
        self.limiter.release(held);
        Ok(())
    }

    /// The graph of which the operation deletes all statements, where that is all that it does.
    fn whole_graph(&self, operation: &DeleteInsert) -> Option<TermId> {
        let (graph, read) = operation.whole_graph()?;
        let id = |name: &NamedNode| self.dictionary().lookup(name.as_ref().into());
        let graph = match graph {
            TemplateGraph::Default => TermId::DEFAULT_GRAPH,
            TemplateGraph::Named(NameOrVariable::NamedNode(name)) => id(name)?,
            TemplateGraph::Named(NameOrVariable::Variable(_)) => return None,
        };
        let dataset = self.view.dataset();
        let reads_it = match read {
            None => dataset.default == [Source::Stored(graph)],
            Some(name) => dataset.named_source(id(name)?) == Some(Source::Stored(graph)),
        };
        reads_it.then_some(graph)
    }

    /// The solutions of a WHERE clause, within what the request has left.
    fn solutions(
        &self,
        prepared: &Prepared,
        query: QueryUid,
        close: EventTime,
    ) -> Result<Answer, QueryError> {
        let limit = self.execution.limits.query_memory_bytes;
        let mut execution = Execution {
            query,
            close,
            ..self.execution.clone()
        };
        let written = self.view.overlay_bytes() as u64;
        execution.limits.query_memory_bytes = limit.saturating_sub(written);
        let answer = prepared.run(Invocation::new(&self.view, &execution));
        answer.map_err(|error| match error {
            QueryError::Memory { .. } => QueryError::Memory { limit },
            error => error,
        })
    }

    fn load(&mut self, source: &NamedNode, into: &GraphName) -> Result<(), QueryError> {
        let what = format!("LOAD {source}");
        let Some(remote) = self.execution.remote.clone() else {
            return Err(QueryError::RemoteNotAllowed { what });
        };
        let quads = remote
            .document(source.as_str())
            .map_err(|message| QueryError::Remote { what, message })?;
        let held = quads.iter().map(quad_bytes).sum();
        self.limiter.reserve(held)?;
        for mut quad in quads {
            if quad.graph_name.is_default_graph() {
                quad.graph_name = into.clone();
            }
            self.insert(&quad)?;
        }
        self.limiter.release(held);
        Ok(())
    }

    fn graphs(&self, target: &GraphTarget) -> Vec<TermId> {
        match target {
            GraphTarget::Graph(name) => {
                let id = self.dictionary().lookup(name.as_ref().into());
                id.into_iter().collect()
            }
            GraphTarget::Default => vec![TermId::DEFAULT_GRAPH],
            GraphTarget::AllNamed => self.view.stored_graphs(),
            GraphTarget::All => {
                let mut graphs = self.view.stored_graphs();
                graphs.push(TermId::DEFAULT_GRAPH);
                graphs
            }
        }
    }

    /// Deletes all statements of a graph: those of a large graph by its name, those of another one
    /// by one. No later operation reads what the last operation of a request did, so where the
    /// graph has no other changes, the statements to delete are listed without an overlay.
    fn clear(&mut self, graph: TermId, is_last: bool) -> Result<(), QueryError> {
        if self.view.snapshot().statement_count(graph) > MOST_LISTED {
            self.view.overlay_mut().clear(graph);
            return Ok(());
        }
        let all = self.statements(graph)?;
        if is_last && !self.view.is_changed(graph) {
            self.limiter.reserve(all.len() * IDS_BYTES)?;
            if self.cleared.is_empty() {
                self.cleared = all;
            } else {
                self.cleared.extend(all);
            }
            return Ok(());
        }
        let held = all.len() * IDS_BYTES;
        self.limiter.reserve(held)?;
        for quad in all {
            let stored = self.view.stored(quad);
            self.view.overlay_mut().delete(quad, stored);
            self.written()?;
        }
        self.limiter.release(held);
        Ok(())
    }

    /// All statements of a graph.
    fn statements(&mut self, graph: TermId) -> Result<Vec<QuadIds>, QueryError> {
        let source = Source::Stored(graph);
        let (view, limiter, out) = (&self.view, &mut self.limiter, Direction::Out);
        let (mut subjects, mut objects) = (Vec::new(), Vec::new());
        let mut all: Vec<QuadIds> = Vec::new();
        limiter.check_memory(
            view.overlay_bytes() + view.statement_count(source) as usize * IDS_BYTES,
        )?;
        for predicate in view.predicates(source) {
            limiter.check_interrupt()?;
            for subject in view.vertices_with(source, predicate, out, &mut subjects) {
                limiter.tick()?;
                let ends = view.neighbours(source, *subject, predicate, out, &mut objects);
                let quad = |object: &TermId| TripleIds::new(*subject, predicate, *object);
                all.extend(ends.iter().map(|object| quad(object).in_graph(graph)));
            }
        }
        Ok(all)
    }

    /// Called after each write to the overlay.
    fn written(&mut self) -> Result<(), QueryError> {
        self.limiter.tick()?;
        self.limiter.check_memory(self.view.overlay_bytes())
    }

    /// New terms enter the dictionary here: the log will bring them there anyway, and an update
    /// that fails leaves a few unused ones behind.
    fn insert(&mut self, quad: &Quad) -> Result<(), QueryError> {
        let dictionary = self.dictionary();
        let ids = QuadIds {
            graph: match &quad.graph_name {
                GraphName::DefaultGraph => TermId::DEFAULT_GRAPH,
                GraphName::NamedNode(node) => dictionary.intern(node.as_ref().into()),
                GraphName::BlankNode(node) => dictionary.intern(node.as_ref().into()),
            },
            subject: dictionary.intern(quad.subject.as_ref().into()),
            predicate: dictionary.intern(quad.predicate.as_ref().into()),
            object: dictionary.intern(quad.object.as_ref()),
        };
        let stored = self.view.stored(ids);
        self.view.overlay_mut().insert(ids, stored);
        self.written()
    }

    fn delete(&mut self, quad: &Quad) -> Result<(), QueryError> {
        let dictionary = self.dictionary();
        let known = || {
            Some(QuadIds {
                graph: match &quad.graph_name {
                    GraphName::DefaultGraph => TermId::DEFAULT_GRAPH,
                    GraphName::NamedNode(node) => dictionary.lookup(node.as_ref().into())?,
                    GraphName::BlankNode(node) => dictionary.lookup(node.as_ref().into())?,
                },
                subject: dictionary.lookup(quad.subject.as_ref().into())?,
                predicate: dictionary.lookup(quad.predicate.as_ref().into())?,
                object: dictionary.lookup(quad.object.as_ref())?,
            })
        };
        // A term that the dictionary does not know is in no statement.
        if let Some(ids) = known() {
            let stored = self.view.stored(ids);
            self.view.overlay_mut().delete(ids, stored);
        }
        self.written()
    }

    fn effects(mut self) -> Result<Effects, QueryError> {
        if let Some(end) = self.view.end() {
            return Err(QueryError::of_pin(end, &self.execution.limits));
        }
        let overlay = self.view.take_overlay().unwrap_or_default();
        let cleared: Vec<TermId> = overlay.cleared().collect();
        let (mut deletes, inserts) = overlay.into_effects();
        self.limiter.check_interrupt()?;
        self.limiter
            .reserve((deletes.len() + inserts.len()) * IDS_BYTES)?;
        if !self.cleared.is_empty() {
            deletes.append(&mut self.cleared);
            deletes.sort_unstable();
        }
        let snapshot = self.view.snapshot();
        let counts = cleared.iter().map(|graph| snapshot.statement_count(*graph));
        let is_kept = |quad: &&QuadIds| cleared.contains(&quad.graph) && snapshot.contains(**quad);
        Ok(Effects {
            cleared: counts.sum(),
            kept: match cleared.is_empty() {
                true => 0,
                false => inserts.iter().filter(is_kept).count() as u64,
            },
            clears: cleared
                .iter()
                .map(|graph| self.graph_name(*graph).ok_or_else(unknown_id))
                .collect::<Result<_, _>>()?,
            deletes: self.quads(deletes)?,
            inserts: self.quads(inserts)?,
        })
    }

    fn quads(&mut self, ids: Vec<QuadIds>) -> Result<Vec<Quad>, QueryError> {
        let mut quads = Vec::new();
        for quad in ids {
            let quad = self.quad(quad).ok_or_else(unknown_id)?;
            self.limiter.tick()?;
            self.limiter.reserve(quad_bytes(&quad))?;
            quads.push(quad);
        }
        Ok(quads)
    }

    fn quad(&self, ids: QuadIds) -> Option<Quad> {
        let dictionary = self.dictionary();
        Some(Quad {
            subject: match dictionary.decode(ids.subject)? {
                Term::NamedNode(node) => node.into(),
                Term::BlankNode(node) => node.into(),
                Term::Literal(_) | Term::Triple(_) => return None,
            },
            predicate: match dictionary.decode(ids.predicate)? {
                Term::NamedNode(node) => node,
                _ => return None,
            },
            object: dictionary.decode(ids.object)?,
            graph_name: self.graph_name(ids.graph)?,
        })
    }

    fn graph_name(&self, graph: TermId) -> Option<GraphName> {
        if graph == TermId::DEFAULT_GRAPH {
            return Some(GraphName::DefaultGraph);
        }
        match self.dictionary().decode(graph)? {
            Term::NamedNode(node) => Some(node.into()),
            Term::BlankNode(node) => Some(node.into()),
            Term::Literal(_) | Term::Triple(_) => None,
        }
    }
}

fn unknown_id() -> QueryError {
    QueryError::Evaluation {
        message: "a statement of the update holds an id that the dictionary does not know".into(),
    }
}

fn relabelled(term: Term, relabel: &mut impl FnMut(BlankNode) -> BlankNode) -> Term {
    match term {
        Term::BlankNode(node) => relabel(node).into(),
        Term::Triple(triple) => {
            let mut triple = *triple;
            if let NamedOrBlankNode::BlankNode(node) = triple.subject {
                triple.subject = relabel(node).into();
            }
            triple.object = relabelled(triple.object, relabel);
            triple.into()
        }
        other => other,
    }
}
