//! Puts constants in the places of variables, as if the text had them there. The parameters of
//! prepared queries are made so. The one thing to know before changing it: a variable that the
//! pattern itself gives a value (BIND, AS, VALUES, aggregates) cannot stand for a constant. A key
//! of GROUP BY can where the caller has variables to spare: the constant is the value of a new one.

use crate::algebra::expression::Expression;
use crate::algebra::{NameOrVariable, Pattern, TermPattern, TriplePattern, VarId};
use oxrdf::vocab::xsd;
use oxrdf::{Literal, NamedNode, Term};

/// A variable that cannot be replaced, since the pattern gives it its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Assigned(pub VarId);

/// The result of a substitution.
#[derive(Debug, Clone, PartialEq)]
pub struct Substituted {
    /// The pattern without the variables.
    pub pattern: Pattern,
    /// The variables that stood for a predicate, a graph or a service. Only an IRI can take their
    /// place.
    pub names: Vec<VarId>,
    /// A variable inside the pattern of a SERVICE: the text for the endpoint still has it.
    pub sent: Option<VarId>,
}

impl Pattern {
    /// The pattern with an IRI in the place of each of these variables. Inside sub-selects that do
    /// not project it, another variable of the same name is left alone.
    ///
    /// # Errors
    /// The pattern gives one of them its value.
    pub fn substitute(&self, constants: &[(VarId, NamedNode)]) -> Result<Substituted, Assigned> {
        self.substituted(constants, None)
    }

    /// The same, also for keys of GROUP BY: rows are grouped by the constant. `fresh` is the number
    /// of the next variable that may be added.
    ///
    /// # Errors
    /// The pattern gives one of them its value, by BIND, AS, VALUES or an aggregate.
    pub fn substitute_keys(
        &self,
        constants: &[(VarId, NamedNode)],
        fresh: &mut u32,
    ) -> Result<Substituted, Assigned> {
        self.substituted(constants, Some(fresh))
    }

    fn substituted(
        &self,
        constants: &[(VarId, NamedNode)],
        fresh: Option<&mut u32>,
    ) -> Result<Substituted, Assigned> {
        let mut substitution = Substitution {
            constants,
            fresh,
            names: Vec::new(),
            in_service: false,
            sent: None,
        };
        let mut pattern = self.clone();
        substitution.pattern(&mut pattern)?;
        Ok(Substituted {
            pattern,
            names: substitution.names,
            sent: substitution.sent,
        })
    }
}

struct Substitution<'c> {
    constants: &'c [(VarId, NamedNode)],
    /// The number of the next variable that may be added.
    fresh: Option<&'c mut u32>,
    names: Vec<VarId>,
    in_service: bool,
    sent: Option<VarId>,
}

impl<'c> Substitution<'c> {
    fn of(&mut self, variable: VarId) -> Option<&'c NamedNode> {
        let constants = self.constants;
        let (_, name) = constants.iter().find(|(other, _)| *other == variable)?;
        if self.in_service {
            self.sent = Some(variable);
        }
        Some(name)
    }

    fn unassigned(&mut self, variable: VarId) -> Result<(), Assigned> {
        match self.of(variable) {
            Some(_) => Err(Assigned(variable)),
            None => Ok(()),
        }
    }

    /// A key of GROUP BY over `inner`.
    fn key(&mut self, key: &mut VarId, inner: &mut Pattern) -> Result<(), Assigned> {
        let Some(constant) = self.of(*key) else {
            return Ok(());
        };
        let Some(fresh) = self.fresh.as_deref_mut() else {
            return Err(Assigned(*key));
        };
        let variable = VarId(*fresh);
        *fresh += 1;
        *key = variable;
        let grouped = std::mem::replace(inner, Pattern::Bgp(Vec::new()));
        *inner = Pattern::Extend {
            inner: Box::new(grouped),
            variable,
            expression: Expression::Constant(constant.clone().into()),
        };
        Ok(())
    }

    fn pattern(&mut self, pattern: &mut Pattern) -> Result<(), Assigned> {
        let outside = self.in_service;
        match pattern {
            Pattern::Bgp(triples) => triples.iter_mut().for_each(|triple| self.triple(triple)),
            Pattern::Path {
                subject, object, ..
            } => {
                self.term(subject);
                self.term(object);
            }
            Pattern::Extend { variable, .. } => self.unassigned(*variable)?,
            Pattern::Graph { name, .. } => self.name(name),
            Pattern::Service { name, .. } => {
                self.name(name);
                self.in_service = true;
            }
            Pattern::Values { variables, .. } => {
                variables.iter().try_for_each(|v| self.unassigned(*v))?;
            }
            Pattern::Group {
                inner,
                keys,
                aggregates,
            } => {
                let mut made = aggregates.iter().map(|(variable, _)| *variable);
                made.try_for_each(|variable| self.unassigned(variable))?;
                keys.iter_mut().try_for_each(|key| self.key(key, inner))?;
            }
            Pattern::Project { variables, .. } => {
                variables.retain(|variable| self.of(*variable).is_none());
            }
            _ => {}
        }
        let (patterns, expressions) = pattern.parts_mut();
        patterns.into_iter().try_for_each(|p| self.pattern(p))?;
        expressions
            .into_iter()
            .try_for_each(|e| self.expression(e))?;
        self.in_service = outside;
        Ok(())
    }

    fn triple(&mut self, triple: &mut TriplePattern) {
        self.term(&mut triple.subject);
        self.name(&mut triple.predicate);
        self.term(&mut triple.object);
    }

    fn term(&mut self, term: &mut TermPattern) {
        match term {
            TermPattern::Term(_) => {}
            TermPattern::Variable(variable) => {
                if let Some(name) = self.of(*variable) {
                    *term = TermPattern::Term(name.clone().into());
                }
            }
            TermPattern::Triple(triple) => self.triple(triple),
        }
    }

    fn name(&mut self, name: &mut NameOrVariable) {
        if let NameOrVariable::Variable(variable) = name
            && let Some(constant) = self.of(*variable)
        {
            let (variable, constant) = (*variable, constant.clone());
            self.names.push(variable);
            *name = NameOrVariable::NamedNode(constant);
        }
    }

    fn expression(&mut self, expression: &mut Expression) -> Result<(), Assigned> {
        match expression {
            Expression::Variable(variable) => {
                if let Some(name) = self.of(*variable) {
                    *expression = Expression::Constant(name.clone().into());
                }
            }
            Expression::Bound(variable) if self.of(*variable).is_some() => {
                let yes = Literal::new_typed_literal("true", xsd::BOOLEAN);
                *expression = Expression::Constant(Term::from(yes));
            }
            Expression::Exists(pattern) => self.pattern(pattern)?,
            _ => {}
        }
        let mut children = expression.children_mut().into_iter();
        children.try_for_each(|child| self.expression(child))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Parser;

    fn substituted(text: &str, name: &str) -> Result<Substituted, Assigned> {
        let query = Parser::new().parse_query(text).expect("a query");
        let at = query.variables.iter().position(|v| v == name);
        let variable = VarId(at.expect("a variable of the query") as u32);
        let constant = NamedNode::new_unchecked("urn:constant");
        query.pattern.substitute(&[(variable, constant)])
    }

    /// The algebra of the text with the constant written in, without the projection.
    fn written(text: &str) -> Pattern {
        Parser::new().parse_query(text).expect("a query").pattern
    }

    #[test]
    fn it_is_as_if_the_constant_stood_there() {
        for (text, same) in [
            (
                "ASK { ?x ?p ?o FILTER(?x != ?o) OPTIONAL { ?x <urn:p>+ ?z } }",
                "ASK { <urn:constant> ?p ?o FILTER(<urn:constant> != ?o) OPTIONAL { <urn:constant> <urn:p>+ ?z } }",
            ),
            (
                "ASK { GRAPH ?x { ?s ?p ?o } MINUS { ?s ?x ?o } FILTER EXISTS { ?s ?p ?x } }",
                "ASK { GRAPH <urn:constant> { ?s ?p ?o } MINUS { ?s <urn:constant> ?o } FILTER EXISTS { ?s ?p <urn:constant> } }",
            ),
        ] {
            let found = substituted(text, "x").expect("nothing is assigned");
            let found = format!("{:?}", found.pattern);
            // The variables of the two texts are numbered differently.
            let digits = |text: String| text.replace(|c: char| c.is_ascii_digit(), "");
            assert_eq!(digits(found), digits(format!("{:?}", written(same))));
        }
    }

    #[test]
    fn variables_bound_by_the_pattern_are_refused() {
        for text in [
            "SELECT * { ?s ?p ?o BIND(?o AS ?x) }",
            "SELECT * { VALUES ?x { 1 } }",
            "SELECT ?x { ?s ?p ?x } GROUP BY ?x",
            "SELECT (COUNT(*) AS ?x) { ?s ?p ?o }",
        ] {
            assert!(substituted(text, "x").is_err(), "{text}");
        }
    }

    #[test]
    fn variables_sent_to_other_endpoints_are_reported() {
        let text = "ASK { ?x <urn:p> ?y SERVICE ?e { ?y <urn:q> ?z } }";
        for (name, sent) in [("x", false), ("e", false), ("y", true), ("z", true)] {
            let found = substituted(text, name).expect("nothing is assigned");
            assert_eq!(found.sent.is_some(), sent, "?{name}");
        }
    }

    #[test]
    fn variables_that_must_be_iris_are_reported() {
        let found = substituted("ASK { ?s ?x ?o }", "x").expect("nothing is assigned");
        assert_eq!(found.names.len(), 1);
        let found = substituted("ASK { ?s ?p ?x }", "x").expect("nothing is assigned");
        assert!(found.names.is_empty());
    }
}
