//! The graphs that an operation of an update names or reads, the same for updates on their own and
//! inside a transaction.

use crate::algebra::error::QueryError;
use crate::context::execution::Execution;
use crate::update::Using;
use crate::view::graph_rights::GraphSet;
use crate::view::graph_view::{Dataset, GraphView, Source, unlisted_graphs};
use oxrdf::{GraphName, GraphNameRef, NamedNode, Quad, Term};
use somersault_dictionary::Dictionary;
use somersault_lang::{
    DatasetClause, DeleteInsert, GraphTarget, NameOrVariable, TemplateGraph, Update,
    UpdateOperation,
};
use somersault_model::TermId;
use std::sync::Arc;

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

/// The dataset of a WHERE clause, without the graphs that the execution may not read.
pub(crate) fn dataset_of(
    change: &DeleteInsert,
    using: Option<&Using>,
    dictionary: &Arc<Dictionary>,
    execution: &Execution,
) -> Dataset {
    let dataset = match using {
        None => Dataset::of_clause(&change.query.dataset, dictionary),
        Some(using) => {
            let clause = DatasetClause {
                present: true,
                default: using.default.clone(),
                named: using.named.clone(),
                all_named: false,
            };
            Dataset::of_clause(&clause, dictionary)
        }
    };
    match &execution.graph_rights {
        None => dataset,
        Some(rights) => dataset.narrowed(rights, dictionary),
    }
}

/// Refuses an operation that names a graph which the execution may not write. The graphs that its
/// templates find are checked before they are written ([`check_written_graphs`]).
pub(crate) fn check_named(
    operation: &UpdateOperation,
    execution: &Execution,
) -> Result<(), QueryError> {
    let Some(rights) = &execution.graph_rights else {
        return Ok(());
    };
    let writable = &rights.write;
    match operation {
        UpdateOperation::InsertData(quads) | UpdateOperation::DeleteData(quads) => {
            (quads.iter()).try_for_each(|quad| check(writable, quad.graph_name.as_ref()))
        }
        UpdateOperation::DeleteInsert(change) => {
            let templates = change.delete.iter().chain(&change.insert);
            (templates.map(|quad| &quad.graph)).try_for_each(|graph| match graph {
                TemplateGraph::Default => check(writable, GraphNameRef::DefaultGraph),
                TemplateGraph::Named(NameOrVariable::NamedNode(name)) => {
                    check(writable, name.as_ref().into())
                }
                TemplateGraph::Named(NameOrVariable::Variable(_)) => Ok(()),
            })
        }
        UpdateOperation::Load { into, .. } => check(writable, into.as_ref()),
        UpdateOperation::Create { graph, .. } => check(writable, graph.as_ref().into()),
        UpdateOperation::Clear { target, .. } | UpdateOperation::Drop { target, .. } => {
            match target {
                GraphTarget::Graph(name) => check(writable, name.as_ref().into()),
                GraphTarget::Default => check(writable, GraphNameRef::DefaultGraph),
                GraphTarget::AllNamed if writable.named.is_all() => Ok(()),
                GraphTarget::All if writable.is_all() => Ok(()),
                GraphTarget::AllNamed | GraphTarget::All => Err(QueryError::Forbidden {
                    right: "write".to_owned(),
                }),
            }
        }
        other => Err(is_not_known(other)),
    }
}

fn check(writable: &GraphSet, graph: GraphNameRef<'_>) -> Result<(), QueryError> {
    match writable.contains(graph) {
        true => Ok(()),
        false => Err(forbidden(graph)),
    }
}

/// Refuses a graph that the execution may not write.
pub(crate) fn check_graph(
    graph: GraphNameRef<'_>,
    execution: &Execution,
) -> Result<(), QueryError> {
    match &execution.graph_rights {
        None => Ok(()),
        Some(rights) => check(&rights.write, graph),
    }
}

/// The refusal of a write to a graph.
fn forbidden(graph: GraphNameRef<'_>) -> QueryError {
    let right = match graph {
        GraphNameRef::DefaultGraph => "write:default".to_owned(),
        GraphNameRef::NamedNode(name) => format!("write:{}", name.as_str()),
        GraphNameRef::BlankNode(_) => "write".to_owned(),
    };
    QueryError::Forbidden { right }
}

/// Refuses statements of graphs that the execution may not write.
pub(crate) fn check_written_graphs<'q>(
    graphs: impl IntoIterator<Item = &'q TermId>,
    dictionary: &Dictionary,
    execution: &Execution,
) -> Result<(), QueryError> {
    let Some(rights) = &execution.graph_rights else {
        return Ok(());
    };
    let mut checked = None;
    for graph in graphs {
        if checked == Some(*graph) {
            continue;
        }
        if !rights.write.contains_id(*graph, dictionary.into()) {
            let name = dictionary.decode(*graph);
            return Err(forbidden(match &name {
                Some(Term::NamedNode(name)) => name.as_ref().into(),
                Some(Term::BlankNode(name)) => name.as_ref().into(),
                _ => GraphNameRef::DefaultGraph,
            }));
        }
        checked = Some(*graph);
    }
    Ok(())
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
    let named = &view.dataset().named;
    let mut graphs = unlisted_graphs(view, named);
    let listed = named.listed().iter();
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
