//! Parameters: constants of a prepared query whose terms come with each execution. In its algebra a
//! placeholder stands for each; the one thing to know before changing it: no part of a compiled
//! query may depend on a placeholder's term, and [`Prepared::placed`] refuses those that hold one.

use crate::algebra::compile::{Compiled, compile};
use crate::algebra::error::QueryError;
use crate::algebra::expression::ConstantId;
use crate::context::answer::Answer;
use crate::context::cells::Cells;
use crate::prepared::Prepared;
use crate::prepared::execute::Invocation;
use crate::prepared::plan_memory::KnownIds;
use crate::view::local_terms::LocalTerms;
use crate::view::term_source::TermSource;
use oxrdf::{NamedNode, Term};
use somersault_lang::{Query, VarId};
use somersault_model::TermId;

/// The prefix of all placeholders.
pub(crate) const PLACEHOLDER: &str = "urn:somersault:parameter:";

/// One parameter of a prepared query.
#[derive(Debug, Clone)]
pub(crate) struct Parameter {
    /// Its place among the query's constants.
    pub(crate) constant: ConstantId,
    /// The variable that it replaces, if it is not a constant of the text.
    pub(crate) variable: Option<VarId>,
    /// It stands for a predicate or a graph.
    must_be_iri: bool,
}

/// The values of all parameters for one execution.
#[derive(Clone, Copy)]
pub(crate) enum Arguments<'a> {
    /// Terms, in the order of the parameters.
    Terms {
        values: &'a [Term],
        /// The ids known for them.
        known: Option<&'a KnownIds>,
    },
    /// Ids of the view's dictionary, in the order of the parameters.
    Ids(&'a [TermId]),
    /// The values of many queries that are evaluated together. The parameters are variables then.
    Cells(&'a Cells),
}

impl<'a> Arguments<'a> {
    /// The arguments of a query without parameters.
    pub(crate) const NONE: Arguments<'static> = Arguments::Ids(&[]);

    /// The cells, where many queries are evaluated together.
    pub(crate) fn cells(&self) -> Option<&'a Cells> {
        match self {
            Arguments::Cells(cells) => Some(cells),
            Arguments::Terms { .. } | Arguments::Ids(_) => None,
        }
    }

    /// The id of a value; where there is none, that of no term.
    pub(crate) fn id(
        &self,
        number: usize,
        dictionary: TermSource<'_>,
        local: &mut LocalTerms,
    ) -> TermId {
        let (values, known) = match self {
            Arguments::Terms { values, known } => (values, known),
            Arguments::Ids(ids) => return ids.get(number).copied().unwrap_or(TermId::UNBOUND),
            Arguments::Cells(_) => return TermId::UNBOUND,
        };
        let Some(term) = values.get(number) else {
            return TermId::UNBOUND;
        };
        // A term that got a local id in this execution keeps it.
        if let Some(id) = local.local_id(term) {
            return id;
        }
        match known {
            Some(known) if known.are_of(dictionary.number()) => {
                known.id(number, dictionary, || local.id_of(term, dictionary))
            }
            _ => local.id_of(term, dictionary),
        }
    }
}

impl Prepared {
    /// Prepares a query with parameters: the values of these variables come with each execution,
    /// and count as if they were written in the variables' places. Where a variable is projected,
    /// its value is in every solution.
    ///
    /// # Errors
    /// A name is no variable of the query, or twice there; the query gives it a value itself, or
    /// sends it to another endpoint.
    pub fn with_parameters(query: Query, names: &[&str]) -> Result<Prepared, QueryError> {
        if names.is_empty() {
            return Ok(Prepared::new(query));
        }
        let mut constants: Vec<(VarId, NamedNode)> = Vec::with_capacity(names.len());
        for name in names {
            let name = name.trim_start_matches(['?', '$']);
            let place = query.variables.iter().position(|other| other == name);
            let variable = match place {
                Some(at) => VarId(at as u32),
                None => return Err(refuse(format!("the query has no variable ?{name}"))),
            };
            if constants.iter().any(|(other, _)| *other == variable) {
                return Err(refuse(format!("?{name} is named twice; name it once")));
            }
            constants.push((variable, placeholder(&query.text, constants.len())));
        }
        let substituted = query.pattern.substitute(&constants).map_err(|assigned| {
            refuse(format!(
                "?{} gets its value in the query (by BIND, AS, VALUES or GROUP BY); give a value to a variable of its patterns",
                query.variable_name(assigned.0)
            ))
        })?;
        if let Some(sent) = substituted.sent {
            return Err(refuse(format!(
                "?{} stands inside a SERVICE, whose endpoint is sent the text as it is; write the value into the query there",
                query.variable_name(sent)
            )));
        }
        let compiled = compile(&query, &substituted.pattern);
        let parameters = constants
            .into_iter()
            .map(|(variable, name)| {
                let must_be_iri = substituted.names.contains(&variable);
                (Term::from(name), Some(variable), must_be_iri)
            })
            .collect();
        Prepared::placed(query, compiled, parameters).ok_or_else(|| {
            refuse(
                "a parameter stands where the query must hold its value; write it there".to_owned(),
            )
        })
    }

    /// Prepares a query whose pattern was compiled with placeholders; `None` if one occurs anywhere
    /// but in the table of constants.
    pub(crate) fn placed(
        query: Query,
        mut compiled: Compiled,
        placeholders: Vec<(Term, Option<VarId>, bool)>,
    ) -> Option<Prepared> {
        let mut parameters = placeholders
            .into_iter()
            .map(|(term, variable, must_be_iri)| {
                let text = match &term {
                    Term::NamedNode(name) => name.as_str(),
                    Term::Literal(literal) => literal.value(),
                    _ => return None,
                };
                (!compiled.root.holds_text(text)).then(|| Parameter {
                    constant: compiled.constants.add(&term),
                    variable,
                    must_be_iri,
                })
            })
            .collect::<Option<Vec<_>>>()?;
        parameters.shrink_to_fit();
        Some(Prepared::of(query, compiled, parameters))
    }

    /// Prepares a query of a procedure, compiled with placeholders: whatever term a value is, it
    /// may stand anywhere.
    ///
    /// # Errors
    /// A placeholder occurs outside of the table of constants.
    pub(crate) fn with_placeholders(
        query: Query,
        compiled: Compiled,
        placeholders: Vec<(Term, Option<VarId>)>,
    ) -> Result<Prepared, QueryError> {
        let parameters = placeholders.into_iter();
        let parameters = parameters.map(|(term, variable)| (term, variable, false));
        let prepared = Prepared::placed(query, compiled, parameters.collect());
        let prepared = prepared.ok_or_else(|| {
            let what = "a value of the procedure stands where the query must hold a constant";
            refuse(format!("{what}; write the constant there"))
        })?;
        Ok(prepared.of_procedure())
    }

    /// Prepares a shape: `template` is the query with these placeholders where `plain`, a query of
    /// that shape, has constants. `None` where texts of the shape cannot share a query.
    pub fn of_shape(
        plain: &Query,
        template: Query,
        placeholders: Vec<Term>,
        constants: &[Term],
    ) -> Option<Prepared> {
        crate::prepared::cache::shared(plain, template, placeholders, constants)
    }

    /// The value given for a variable, where these are the ids of the constants; unbound if none
    /// was given.
    pub(crate) fn given(&self, variable: VarId, constants: &[TermId]) -> TermId {
        let mut parameters = self.inner().parameters.iter();
        let parameter = parameters.find(|parameter| parameter.variable == Some(variable));
        parameter.map_or(TermId::UNBOUND, |it| constants[it.constant.index()])
    }

    /// The number of values that an execution takes.
    pub fn parameters(&self) -> usize {
        self.inner().parameters.len()
    }

    /// Whether these can be the values of the parameters.
    pub(crate) fn check(&self, arguments: &Arguments<'_>) -> Result<(), QueryError> {
        let parameters = &self.inner().parameters;
        let (given, values): (usize, &[Term]) = match arguments {
            Arguments::Terms { values, .. } => (values.len(), values),
            Arguments::Ids(ids) => (ids.len(), &[]),
            Arguments::Cells(_) => return Ok(()),
        };
        if given != parameters.len() {
            return Err(refuse(format!(
                "{given} values were given for {} parameters; give one for each, in their order",
                parameters.len()
            )));
        }
        for (parameter, value) in parameters.iter().zip(values) {
            if parameter.must_be_iri && !value.is_named_node() {
                return Err(refuse(format!(
                    "{value} was given for a variable that stands for a predicate or a graph; give an IRI"
                )));
            }
        }
        Ok(())
    }
}

fn refuse(message: String) -> QueryError {
    QueryError::Parameters { message }
}

/// An IRI that does not occur in a text.
pub(crate) fn placeholder(text: &str, number: usize) -> NamedNode {
    let mut name = format!("{PLACEHOLDER}{number}:");
    while text.contains(&name) {
        name.push('x');
    }
    NamedNode::new_unchecked(name)
}

/// A prepared query with the values of its parameters, and the ids known for them.
pub struct BoundQuery {
    prepared: Prepared,
    values: Box<[Term]>,
    known: KnownIds,
}

impl BoundQuery {
    /// Gives the parameters their values.
    ///
    /// # Errors
    /// They do not fit, see [`Prepared::run`].
    pub fn new(prepared: Prepared, values: Vec<Term>) -> Result<BoundQuery, QueryError> {
        prepared.check(&Arguments::Terms {
            values: &values,
            known: None,
        })?;
        Ok(BoundQuery {
            prepared,
            known: KnownIds::new(values.len()),
            values: values.into(),
        })
    }

    /// A query without parameters.
    pub(crate) fn without(prepared: Prepared) -> BoundQuery {
        debug_assert_eq!(prepared.parameters(), 0);
        BoundQuery {
            prepared,
            known: KnownIds::new(0),
            values: Box::new([]),
        }
    }

    /// The query.
    pub fn prepared(&self) -> &Prepared {
        &self.prepared
    }

    /// Evaluates it, with its own values instead of the invocation's.
    ///
    /// # Errors
    /// As [`Prepared::run`].
    pub fn run<'a>(&'a self, invocation: Invocation<'a>) -> Result<Answer, QueryError> {
        let arguments = Arguments::Terms {
            values: &self.values,
            known: Some(&self.known),
        };
        self.prepared.run(invocation.with(arguments))
    }
}
