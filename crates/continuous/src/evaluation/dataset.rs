//! The dataset of a continuous query: what its default graph and its GRAPH patterns read.

use somersault_lang::{ContinuousQuery, Dialect};
use somersault_model::TermId;
use somersault_query::{Dataset, NamedGraphs, Source};
use somersault_store::Store;

/// Returns the dataset of a continuous query (docs/language.md). Its default graph is its windows
/// merged with the graphs of FROM, or with the stored default graph if there is no FROM. GRAPH
/// reads windows and FROM NAMED. That of a live query is that of the same one-shot query.
pub fn continuous_dataset(query: &ContinuousQuery, store: &Store) -> Dataset {
    // Interned, not looked up: the graph may be created after the registration.
    let id = |name: &oxrdf::NamedNode| store.dictionary().intern(name.as_ref().into());
    let mut default = Vec::new();
    let mut named = Vec::new();
    for (index, window) in query.windows.iter().enumerate() {
        if window.in_default {
            default.push(Source::Window(index));
        }
        if window.named {
            named.push((id(&window.name), Source::Window(index)));
        }
    }
    let clause = &query.query.dataset;
    if query.is_live() && !clause.present {
        return Dataset::stored();
    }
    default.extend(clause.default.iter().map(|graph| Source::Stored(id(graph))));
    if clause.default.is_empty() && !query.is_live() {
        default.push(Source::Stored(TermId::DEFAULT_GRAPH));
    }
    named.extend(
        clause
            .named
            .iter()
            .map(|graph| (id(graph), Source::Stored(id(graph)))),
    );
    // A dataset is kept as long as its query.
    default.shrink_to_fit();
    named.shrink_to_fit();
    // In CQELS-QL, windows are no dataset clause: without one, GRAPH reads all stored graphs.
    let reads_all = query.dialect == Dialect::CqelsQl && !clause.present;
    Dataset {
        default,
        named: match reads_all {
            true => NamedGraphs::ListAndStored(named),
            false => NamedGraphs::List(named),
        },
    }
}
