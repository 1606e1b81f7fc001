//! Queries and updates inside a transaction, as a plain SPARQL update has them.
//!
//! The one thing to know before changing it: a graph of more than [`MOST_LISTED`] statements is
//! cleared by its name, and such an effect is not net ([`Txn::clear`]).

use crate::algebra::error::QueryError;
use crate::context::answer::Answer;
use crate::prepared::Prepared;
use crate::prepared::execute::Invocation;
use crate::prepared::parameters::Arguments;
use crate::procedure::template::{CompiledTemplate, Filling, NewTerms};
use crate::procedure::txn::Txn;
use crate::update::{MOST_LISTED, Using, graphs, relabelled};
use crate::value::random::Random;
use crate::view::graph_view::{Dataset, GraphView, Source};
use crate::view::layered_view::LayeredView;
use crate::view::local_terms::quad_bytes;
use oxrdf::{BlankNode, GraphName, NamedNode, Term};
use rustc_hash::FxHashMap;
use somersault_lang::{DeleteInsert, Update, UpdateOperation};
use somersault_model::{Direction, QuadIds, TermId, TripleIds};

impl Txn<'_> {
    /// Evaluates a query on what the transaction has written so far. `arguments` are the values of
    /// its parameters.
    ///
    /// # Errors
    /// As [`Prepared::run`].
    pub fn query(&mut self, query: &Prepared, arguments: &[Term]) -> Result<Answer, QueryError> {
        self.begin_step()?;
        self.state.layers.index();
        let own = Dataset::of_clause(&query.query().dataset, self.dictionary());
        let view = self.view(&own);
        query.run(Invocation::new(&view, &self.execution).terms(arguments))
    }

    /// Carries out the operations of an update, each of which sees the effects of those before it.
    /// `using` is the dataset that the SPARQL protocol gives.
    ///
    /// # Errors
    /// A limit, a document that cannot be read, a request or operation that is refused. The
    /// transaction is to be rolled back then.
    pub fn update(&mut self, update: &Update, using: Option<&Using>) -> Result<(), QueryError> {
        graphs::check_using(update, using)?;
        let mut labels = FxHashMap::default();
        for operation in &update.operations {
            self.check_time()?;
            self.begin_step()?;
            self.operation(operation, using, &mut labels)?;
        }
        match self.state.base().end() {
            Some(end) => Err(QueryError::of_pin(end, &self.execution.limits)),
            None => Ok(()),
        }
    }

    fn operation(
        &mut self,
        operation: &UpdateOperation,
        using: Option<&Using>,
        labels: &mut FxHashMap<BlankNode, BlankNode>,
    ) -> Result<(), QueryError> {
        graphs::check_named(operation, &self.execution)?;
        self.state.layers.index();
        match operation {
            UpdateOperation::InsertData(quads) => {
                let mut random = Random::new(self.execution.query, self.execution.close);
                for quad in quads {
                    let quad = relabelled(quad.clone(), labels, &mut random);
                    if let Some(quad) = self.terms().quad(&quad, NewTerms::Stored) {
                        self.insert(quad);
                    }
                    self.check_written()?;
                }
            }
            UpdateOperation::DeleteData(quads) => {
                for quad in quads {
                    if let Some(quad) = self.terms().quad(quad, NewTerms::Absent) {
                        self.delete(quad);
                    }
                    self.check_written()?;
                }
            }
            UpdateOperation::DeleteInsert(change) => self.delete_insert(change, using)?,
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
                for graph in graphs::targets(&self.view(&self.state.stored), target) {
                    self.clear_graph(graph)?;
                }
            }
            UpdateOperation::Create { silent, graph } => {
                let id = self.dictionary().lookup(graph.as_ref().into());
                let view = self.view(&self.state.stored);
                let holds = id.is_some_and(|id| !view.predicates(Source::Stored(id)).is_empty());
                if holds && !silent {
                    return Err(graphs::is_there_already(graph));
                }
            }
            other => return Err(graphs::is_not_known(other)),
        }
        Ok(())
    }

    /// The data as a query of this dataset reads it.
    pub(crate) fn view<'v>(&'v self, dataset: &'v Dataset) -> LayeredView<'v> {
        LayeredView {
            layers: &self.state.layers,
            dataset,
        }
    }

    fn delete_insert(
        &mut self,
        change: &DeleteInsert,
        using: Option<&Using>,
    ) -> Result<(), QueryError> {
        let dictionary = self.state.base().store().dictionary_arc();
        let dataset = graphs::dataset_of(change, using, dictionary, &self.execution);
        if let Some(graphs) = graphs::whole_graphs(&self.view(&dataset), change) {
            graphs::check_written_graphs(&graphs, self.dictionary(), &self.execution)?;
            return graphs
                .into_iter()
                .try_for_each(|graph| self.clear_graph(graph));
        }
        let prepared = Prepared::new(change.query.clone());
        let deletes = CompiledTemplate::new(&change.delete, &[]);
        let inserts = CompiledTemplate::new(&change.insert, &[]);
        let (mut gone, mut come) = (Vec::new(), Vec::new());
        let is_ordered = inserts.has_blank_node();
        let none = Arguments::NONE;
        self.evaluate_in(
            Some(&dataset),
            (&prepared, None),
            none,
            is_ordered,
            |this, run, table| {
                let mut filling = Filling {
                    template: &deletes,
                    slots: &[],
                    terms: this.terms(),
                    new_terms: NewTerms::Absent,
                };
                filling.all(run, table, &mut gone)?;
                filling.template = &inserts;
                filling.new_terms = NewTerms::Stored;
                filling.all(run, table, &mut come)
            },
        )?;
        let written = gone.iter().chain(&come).map(|quad| &quad.graph);
        graphs::check_written_graphs(written, self.dictionary(), &self.execution)?;
        self.write_all(gone, come)
    }

    fn load(&mut self, source: &NamedNode, into: &GraphName) -> Result<(), QueryError> {
        let quads = graphs::document(&self.execution, source, into)?;
        let held: usize = quads.iter().map(quad_bytes).sum();
        self.rows_bytes += held;
        self.check_written()?;
        for quad in quads {
            graphs::check_graph(quad.graph_name.as_ref(), &self.execution)?;
            if let Some(quad) = self.terms().quad(&quad, NewTerms::Stored) {
                self.insert(quad);
            }
            self.check_written()?;
        }
        self.rows_bytes -= held;
        Ok(())
    }

    /// Deletes all statements of a graph: those of a large graph by its name, those of another one
    /// by one.
    fn clear_graph(&mut self, graph: TermId) -> Result<(), QueryError> {
        if self.state.base().statement_count(graph) > MOST_LISTED {
            self.clear(graph);
            return Ok(());
        }
        self.state.layers.index();
        for quad in self.statements(graph) {
            self.delete(quad);
            self.check_written()?;
        }
        Ok(())
    }

    /// All statements of a graph.
    fn statements(&self, graph: TermId) -> Vec<QuadIds> {
        let (source, out) = (Source::Stored(graph), Direction::Out);
        let view = self.view(&self.state.stored);
        let (mut subjects, mut objects) = (Vec::new(), Vec::new());
        let mut all: Vec<QuadIds> = Vec::new();
        for predicate in view.predicates(source) {
            for subject in view.vertices_with(source, predicate, out, &mut subjects) {
                let ends = view.neighbours(source, *subject, predicate, out, &mut objects);
                let quad = |object: &TermId| TripleIds::new(*subject, predicate, *object);
                all.extend(ends.iter().map(|object| quad(object).in_graph(graph)));
            }
        }
        all
    }
}
