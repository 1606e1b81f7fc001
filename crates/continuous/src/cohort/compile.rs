//! A registered text, compiled for all queries of its shape.

use crate::evaluation::continuous_dataset;
use crate::evaluation::evaluator::{Evaluator, Together};
use crate::evaluation::incremental::Incremental;
use crate::evaluation::live::LiveDelta;
use crate::resources::Resources;
use crate::stages::{Comparison, Stages};
use parking_lot::RwLock;
use somersault_lang::lift::Shape;
use somersault_lang::{ContinuousQuery, ParseError, Parser};
use somersault_query::{Dataset, Prepared};
use std::sync::Arc;

/// A registered text.
pub(crate) struct Source {
    pub(crate) text: String,
    /// The default namespace that it is parsed with.
    pub(crate) namespace: Option<String>,
}

/// A registered text, compiled.
pub(super) struct CompiledText {
    pub(super) evaluator: Evaluator,
    /// For a live query: its evaluation from what has changed.
    pub(super) live: Option<LiveDelta>,
    pub(super) dataset: Arc<Dataset>,
    pub(super) stages: Stages,
}

impl CompiledText {
    /// Returns the result for a text that cannot be compiled.
    pub(super) fn broken(reason: String) -> CompiledText {
        CompiledText {
            evaluator: Evaluator::Broken(reason),
            live: None,
            dataset: Arc::new(Dataset::stored()),
            stages: Stages::default(),
        }
    }
}

/// Compiles the text of one of the queries of a shape, for all of them.
pub(super) fn compile(
    shape: &Shape,
    Source { text, namespace }: &Source,
    resources: &Resources,
) -> Result<CompiledText, ParseError> {
    let parser = match namespace {
        Some(namespace) => Parser::new().with_default_namespace(namespace.as_str()),
        None => Parser::new(),
    };
    let mut query = parser.parse_continuous(text)?;
    let dataset = continuous_dataset(&query, resources.store());
    let stages = Stages::of(&mut query, || Comparison::new(resources));
    let delta = Incremental::new(resources.settings(), &query);
    let live = LiveDelta::new(resources.settings(), &query);
    let single = match shape.is_shared() {
        true => with_parameters(shape, text, &query, &parser),
        false => Some(Prepared::compact(query.query)),
    };
    let evaluator = match single {
        Some(single) => Evaluator::Shared {
            together: Together::new(&single, shape.is_shared()),
            delta,
            single,
        },
        None => Evaluator::Each {
            parser,
            prepared: RwLock::default(),
        },
    };
    Ok(CompiledText {
        evaluator,
        live,
        dataset: Arc::new(dataset),
        stages,
    })
}

/// Returns a query with the constants of the shape as parameters; `None` if that has another
/// meaning.
fn with_parameters(
    shape: &Shape,
    text: &str,
    query: &ContinuousQuery,
    parser: &Parser,
) -> Option<Prepared> {
    let template = shape.template();
    let (own, words) = Shape::of(text)?;
    let constants = own.constants(&own.constant_words(&words))?;
    let parsed = parser.parse_continuous(&template.text).ok()?;
    let same = parsed.windows.len() == query.windows.len()
        && (parsed.windows.iter().zip(&query.windows)).all(|(a, b)| a.is_like(b));
    if !same {
        return None;
    }
    Prepared::of_shape(
        &query.query,
        parsed.query,
        template.placeholders,
        &constants,
    )
}
