//! The graphs that an operation of an update names or reads, the same for updates on their own and
//! inside a transaction.

use crate::algebra::error::QueryError;
use crate::context::execution::Execution;
use crate::update::Using;
use crate::view::graph_view::{Dataset, GraphView, Source};
use crate::view::term_source::TermSource;
use oxrdf::{GraphName, NamedNode, Quad};
use somersault_lang::{
    DatasetClause, DeleteInsert, GraphTarget, NameOrVariable, TemplateGraph, Update,
    UpdateOperation,
};
use somersault_model::TermId;

/// Refuses a request that gives a dataset beside an operation with USING or WITH (SPARQL 1.1
/// Protocol, section 2.2.3).
pub(crate) fn check_using(update: &Update, using: Option<&Using>) -> Result<(), QueryError> {
    let has_dataset = |operation: &UpdateOperation| matches!(operation, UpdateOperation::DeleteInsert(change) if change.query.dataset.present);
    match using.is_some() && update.operations.iter().any(has_dataset) {
        false => Ok(()),
        true => Err(QueryError::Refused {
            message: "The update says USING or WITH, and the request gives a dataset as well (using-graph-uri, using-named-graph-uri). Give it in one place".to_owned(),
        }),
    }
}

/// The dataset of a WHERE clause.
pub(crate) fn dataset_of(
    change: &DeleteInsert,
    using: Option<&Using>,
    dictionary: TermSource<'_>,
) -> Dataset {
    let Some(using) = using else {
        return Dataset::of_clause(&change.query.dataset, dictionary);
    };
    let clause = DatasetClause {
        present: true,
        default: using.default.clone(),
        named: using.named.clone(),
        all_named: false,
    };
    Dataset::of_clause(&clause, dictionary)
}

/// The graphs that CLEAR or DROP names.
pub(crate) fn targets(view: &impl GraphView, target: &GraphTarget) -> Vec<TermId> {
    match target {
        GraphTarget::Graph(name) => {
            let id = view.dictionary().lookup(name.as_ref().into());
            id.into_iter().collect()
        }
        GraphTarget::Default => vec![TermId::DEFAULT_GRAPH],
        GraphTarget::AllNamed => view.stored_graphs(),
        GraphTarget::All => {
            let mut graphs = view.stored_graphs();
            graphs.push(TermId::DEFAULT_GRAPH);
            graphs
        }
    }
}

/// The graphs of which the operation deletes all statements, where that is all that it does. The
/// view has the operation's dataset.
pub(crate) fn whole_graphs(view: &impl GraphView, change: &DeleteInsert) -> Option<Vec<TermId>> {
    let (graph, read) = change.whole_graph()?;
    let id = |name: &NamedNode| view.dictionary().lookup(name.as_ref().into());
    if let (TemplateGraph::Named(NameOrVariable::Variable(variable)), Some(read)) = (graph, read) {
        let finds_each = *read == NameOrVariable::Variable(*variable);
        return finds_each.then(|| named_graphs(view));
    }
    let graph = match graph {
        TemplateGraph::Default => TermId::DEFAULT_GRAPH,
        TemplateGraph::Named(NameOrVariable::NamedNode(name)) => id(name)?,
        TemplateGraph::Named(NameOrVariable::Variable(_)) => return None,
    };
    let dataset = view.dataset();
    let reads_it = match read {
        None => dataset.default == [Source::Stored(graph)],
        Some(NameOrVariable::NamedNode(name)) => {
            dataset.named_source(id(name)?) == Some(Source::Stored(graph))
        }
        Some(NameOrVariable::Variable(_)) => false,
    };
    reads_it.then(|| vec![graph])
}

/// The stored graphs that `GRAPH ?g` reads.
fn named_graphs(view: &impl GraphView) -> Vec<TermId> {
    let dataset = view.dataset();
    let mut graphs: Vec<TermId> = match dataset.named.has_stored() {
        true => view.stored_graphs(),
        false => Vec::new(),
    };
    let listed = dataset.named.listed().iter();
    graphs.extend(listed.map(|(name, _)| *name));
    graphs.sort_unstable();
    graphs.dedup();
    graphs
}

/// The statements of a document that LOAD names, those of its default graph in `into`.
pub(crate) fn document(
    execution: &Execution,
    source: &NamedNode,
    into: &GraphName,
) -> Result<Vec<Quad>, QueryError> {
    let what = format!("LOAD {source}");
    let Some(remote) = &execution.remote else {
        return Err(QueryError::RemoteNotAllowed { what });
    };
    let mut quads = remote
        .document(source.as_str())
        .map_err(|message| QueryError::Remote { what, message })?;
    for quad in &mut quads {
        if quad.graph_name.is_default_graph() {
            quad.graph_name = into.clone();
        }
    }
    Ok(quads)
}

/// The refusal of CREATE GRAPH for a graph that has statements.
pub(crate) fn is_there_already(graph: &NamedNode) -> QueryError {
    QueryError::Refused {
        message: format!(
            "CREATE GRAPH {graph}: the graph is there already. Write CREATE SILENT GRAPH to go on"
        ),
    }
}

/// The refusal of an operation that this version does not have.
pub(crate) fn is_not_known(operation: &UpdateOperation) -> QueryError {
    QueryError::Refused {
        message: format!("The update operation {operation:?} is not known"),
    }
}
