//! What the native engine does not cover, spareval answers over the same view: it sees the same
//! dataset, ids for terms, and the same limits, which are checked with every quad that it reads.

use crate::execution::Guard;
use crate::local::LocalTerms;
use crate::random::Random;
use crate::sources::{self, Graphs};
use crate::{Answer, Execution, GraphView, QueryError, Solutions, Source};
use oxiri::Iri;
use oxrdf::{Literal, NamedNode, Term, Variable};
use somersault_lang::spareval::{KEYED_FUNCTIONS, SparevalPattern};
use somersault_lang::{Query, QueryForm};
use somersault_model::{Direction, TermId, TripleIds};
use spareval::{
    DefaultServiceHandler, InternalQuad, QueryEvaluationError, QueryEvaluator, QueryResults,
    QuerySolutionIter, QueryableDataset,
};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

/// The view as spareval reads it.
#[derive(Clone)]
struct ViewDataset<'a>(Rc<Shared<'a>>);

struct Shared<'a> {
    graphs: Graphs<'a>,
    local: RefCell<LocalTerms>,
    guard: RefCell<Guard<'a>>,
}

type Found = Result<InternalQuad<TermId>, QueryError>;

impl<'a> ViewDataset<'a> {
    fn id(&self, term: Term) -> TermId {
        let dictionary = self.0.graphs.view.dictionary();
        self.0.local.borrow_mut().id(term, dictionary)
    }

    fn tick(&self) -> Result<(), QueryError> {
        self.0.guard.borrow_mut().tick()
    }

    /// The triples of one graph, vertex by vertex: what has been handed out is not kept.
    fn triples(
        &self,
        sources: Vec<Source>,
        known: [Option<TermId>; 3],
        name: Option<TermId>,
    ) -> Box<dyn Iterator<Item = Found> + 'a> {
        let view = self.0.graphs.view;
        let quad = move |s, p, o| InternalQuad {
            subject: s,
            predicate: p,
            object: o,
            graph_name: name,
        };
        let [s, p, o] = known;
        let predicates = match (p, s, o) {
            (Some(p), _, _) => vec![p],
            (None, Some(s), _) => {
                let mut list = Vec::new();
                sources::predicates_of(view, &sources, s, Direction::Out, &mut list);
                list
            }
            (None, None, Some(o)) => {
                let mut list = Vec::new();
                sources::predicates_of(view, &sources, o, Direction::In, &mut list);
                list
            }
            (None, None, None) => {
                let mut list = Vec::new();
                sources::predicates(view, &sources, &mut list);
                list
            }
        };
        let read = self.clone();
        Box::new(predicates.into_iter().flat_map(move |p| {
            let sources = sources.clone();
            let along = |from: TermId, direction: Direction| {
                let (mut list, mut merged) = (Vec::new(), Vec::new());
                sources::neighbours(view, &sources, from, p, direction, &mut list, &mut merged)
                    .to_vec()
            };
            let found: Box<dyn Iterator<Item = Found> + 'a> = match (s, o) {
                (Some(s), Some(o)) => {
                    let held = sources::contains(view, &sources, TripleIds::new(s, p, o));
                    Box::new(held.then(|| Ok(quad(s, p, o))).into_iter())
                }
                (Some(s), None) => {
                    let ends = along(s, Direction::Out);
                    Box::new(ends.into_iter().map(move |o| Ok(quad(s, p, o))))
                }
                (None, Some(o)) => {
                    let ends = along(o, Direction::In);
                    Box::new(ends.into_iter().map(move |s| Ok(quad(s, p, o))))
                }
                (None, None) => {
                    let mut starts = Vec::new();
                    sources::vertices_with(view, &sources, p, Direction::Out, &mut starts);
                    Box::new(starts.into_iter().flat_map(move |s| {
                        let (mut list, mut merged) = (Vec::new(), Vec::new());
                        let ends = sources::neighbours(
                            view,
                            &sources,
                            s,
                            p,
                            Direction::Out,
                            &mut list,
                            &mut merged,
                        )
                        .to_vec();
                        ends.into_iter().map(move |o| Ok(quad(s, p, o)))
                    }))
                }
            };
            let read = read.clone();
            found.map(move |found| {
                read.tick()?;
                found
            })
        }))
    }
}

impl<'a> QueryableDataset<'a> for ViewDataset<'a> {
    type InternalTerm = TermId;
    type Error = QueryError;

    fn internal_quads_for_pattern(
        &self,
        subject: Option<&TermId>,
        predicate: Option<&TermId>,
        object: Option<&TermId>,
        graph_name: Option<Option<&TermId>>,
    ) -> impl Iterator<Item = Found> + use<'a> {
        let known = [subject.copied(), predicate.copied(), object.copied()];
        let graphs = &self.0.graphs;
        let all: Box<dyn Iterator<Item = Found> + 'a> = match graph_name {
            Some(None) => self.triples(graphs.default_graph().to_vec(), known, None),
            Some(Some(name)) => match graphs.source_of(*name) {
                Some(source) => self.triples(vec![source], known, Some(*name)),
                None => Box::new(std::iter::empty()),
            },
            None => {
                let own = self.clone();
                let named = graphs.named().to_vec();
                Box::new(named.into_iter().flat_map(move |(name, source)| {
                    own.triples(source.to_vec(), known, Some(name))
                }))
            }
        };
        all
    }

    fn internal_named_graphs(&self) -> impl Iterator<Item = Result<TermId, QueryError>> + use<'a> {
        let names: Vec<TermId> = self
            .0
            .graphs
            .named()
            .iter()
            .map(|(name, _)| *name)
            .collect();
        names.into_iter().map(Ok)
    }

    fn contains_internal_graph_name(&self, graph_name: &TermId) -> Result<bool, QueryError> {
        Ok(self.0.graphs.has(*graph_name))
    }

    fn internalize_term(&self, term: Term) -> Result<TermId, QueryError> {
        Ok(self.id(term))
    }

    fn externalize_term(&self, term: TermId) -> Result<Term, QueryError> {
        let dictionary = self.0.graphs.view.dictionary();
        let known = self.0.local.borrow().term(term, dictionary);
        known.ok_or_else(|| QueryError::Evaluation {
            message: "an id of the data is not in the dictionary".into(),
        })
    }
}

/// SERVICE, handed to whoever may leave the machine.
struct Service(Arc<dyn crate::Remote>);

impl DefaultServiceHandler for Service {
    type Error = QueryError;

    fn handle(
        &self,
        service_name: &NamedNode,
        pattern: &SparevalPattern,
        base_iri: Option<&Iri<String>>,
    ) -> Result<QuerySolutionIter<'static>, QueryError> {
        let base = base_iri.map_or_else(String::new, |base| format!("BASE <{base}>\n"));
        let text = format!("{base}SELECT * WHERE {{ {pattern} }}");
        let remote = self
            .0
            .select(service_name.as_str(), &text)
            .map_err(|message| QueryError::Remote {
                what: format!("SERVICE {service_name}"),
                message,
            })?;
        let variables: Arc<[Variable]> = remote
            .variables
            .iter()
            .map(Variable::new_unchecked)
            .collect();
        Ok(QuerySolutionIter::from_tuples(
            variables,
            remote.rows.into_iter().map(Ok),
        ))
    }
}

fn evaluator(execution: &Execution) -> QueryEvaluator {
    let random = Arc::new(Mutex::new(Random::new(execution.query, execution.close)));
    let keyed = |make: fn(&mut Random, &[Term]) -> Option<Term>| {
        let random = Arc::clone(&random);
        move |arguments: &[Term]| {
            let mut random = random.lock().unwrap_or_else(PoisonError::into_inner);
            make(&mut random, arguments)
        }
    };
    let name = |at: usize| NamedNode::new_unchecked(KEYED_FUNCTIONS[at]);
    let mut evaluator = QueryEvaluator::new()
        .with_custom_function(
            name(0),
            keyed(|random, _| Some(Literal::from(random.double()).into())),
        )
        .with_custom_function(
            name(1),
            keyed(|random, _| {
                let iri = format!("urn:uuid:{}", random.uuid());
                Some(NamedNode::new_unchecked(iri).into())
            }),
        )
        .with_custom_function(
            name(2),
            keyed(|random, _| Some(Literal::new_simple_literal(random.uuid()).into())),
        )
        .with_custom_function(
            name(3),
            keyed(|random, arguments| match arguments {
                [] => Some(random.blank_node().into()),
                [Term::Literal(name)] => Some(random.named_blank_node(name.value(), 0).into()),
                _ => None,
            }),
        );
    if let Some(remote) = &execution.remote {
        evaluator = evaluator.with_default_service_handler(Service(Arc::clone(remote)));
    }
    evaluator
}

/// Answers a whole query with spareval.
pub(crate) fn answer(
    query: &Query,
    view: &dyn GraphView,
    execution: &Execution,
) -> Result<Answer, QueryError> {
    let algebra = query.for_spareval(execution.now);
    let dataset = ViewDataset(Rc::new(Shared {
        graphs: Graphs::new(view),
        local: RefCell::new(LocalTerms::default()),
        guard: RefCell::new(Guard::start(execution)),
    }));
    let evaluator = evaluator(execution);
    let results = evaluator
        .prepare(&algebra)
        .execute(dataset.clone())
        .map_err(query_error)?;
    let answer = match results {
        QueryResults::Boolean(value) => Answer::Boolean(value),
        QueryResults::Graph(triples) => {
            let mut graph = Vec::new();
            let mut seen = rustc_hash::FxHashSet::default();
            for triple in triples {
                let triple = triple.map_err(query_error)?;
                if seen.insert(triple.clone()) {
                    graph.push(triple);
                    dataset.0.guard.borrow().answer_rows(graph.len())?;
                }
            }
            Answer::Graph(graph)
        }
        QueryResults::Solutions(solutions) => {
            let (columns, rows) = collect(query, solutions, &dataset)?;
            // The results hold the dataset; its terms are copied out rather than waited for.
            let local = dataset.0.local.take().into_terms();
            Answer::Solutions(Solutions {
                variables: names(query),
                columns,
                rows,
                local,
            })
        }
    };
    Ok(answer)
}

/// The names of a query's columns.
pub(crate) fn names(query: &Query) -> Arc<[String]> {
    query
        .projection()
        .iter()
        .map(|v| query.variable_name(*v).to_owned())
        .collect()
}

type Columns = Vec<Vec<TermId>>;

fn collect(
    query: &Query,
    solutions: QuerySolutionIter<'_>,
    dataset: &ViewDataset<'_>,
) -> Result<(Columns, usize), QueryError> {
    let projection = match &query.form {
        QueryForm::Select { projection } => projection.as_slice(),
        _ => &[],
    };
    let mut columns = vec![Vec::new(); projection.len()];
    let mut rows = 0;
    for solution in solutions {
        let solution = solution.map_err(query_error)?;
        dataset.tick()?;
        for (variable, column) in projection.iter().zip(&mut columns) {
            let term = solution.get(query.variable_name(*variable)).cloned();
            column.push(term.map_or(TermId::UNBOUND, |term| dataset.id(term)));
        }
        rows += 1;
        let guard = dataset.0.guard.borrow();
        guard.answer_rows(rows)?;
        guard.fits(rows * columns.len() * 8)?;
    }
    Ok((columns, rows))
}

fn query_error(error: QueryEvaluationError) -> QueryError {
    match error {
        QueryEvaluationError::Dataset(error) | QueryEvaluationError::Service(error) => {
            match error.downcast::<QueryError>() {
                Ok(error) => *error,
                Err(error) => QueryError::Evaluation {
                    message: error.to_string(),
                },
            }
        }
        QueryEvaluationError::UnsupportedService(name) => QueryError::RemoteNotAllowed {
            what: format!("SERVICE {name}"),
        },
        error => QueryError::Evaluation {
            message: error.to_string(),
        },
    }
}
