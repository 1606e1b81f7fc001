//! Compares patterns that may differ in their constants. A prepared query that texts of one shape
//! share rests on it. The one thing to know before changing it: a constant is replaced wherever it
//! stands, since a compiled query holds each constant once.

use crate::algebra::expression::{Aggregate, AggregateFunction, Expression, Function};
use crate::algebra::{NameOrVariable, PathExpression, Pattern, TermPattern, TriplePattern};
use oxrdf::{NamedNode, Term};

impl Pattern {
    /// Whether `other` is this pattern with the second term of a pair wherever this one holds the
    /// first. Constants that are the first term of no pair must be equal. The text for the endpoint
    /// of a SERVICE must be equal too.
    #[must_use]
    pub fn eq_modulo_constants(&self, other: &Pattern, pairs: &[(Term, Term)]) -> bool {
        let mut replaced = self.clone();
        Replacement { pairs }.pattern(&mut replaced);
        replaced == *other
    }
}

/// Replaces constants in place, all at once.
struct Replacement<'p> {
    pairs: &'p [(Term, Term)],
}

impl Replacement<'_> {
    fn term(&self, term: &mut Term) {
        if let Some((_, other)) = self.pairs.iter().find(|(from, _)| from == term) {
            term.clone_from(other);
        }
    }

    /// Only an IRI can replace a name. The name stays where the pair has something else, and then
    /// the patterns differ.
    fn name(&self, name: &mut NamedNode) {
        let is_it = |term: &Term| matches!(term, Term::NamedNode(other) if other == name);
        let pair = self.pairs.iter().find(|(from, _)| is_it(from));
        if let Some((_, Term::NamedNode(other))) = pair {
            name.clone_from(other);
        }
    }

    fn name_or_variable(&self, name: &mut NameOrVariable) {
        if let NameOrVariable::NamedNode(name) = name {
            self.name(name);
        }
    }

    fn position(&self, position: &mut TermPattern) {
        match position {
            TermPattern::Term(term) => self.term(term),
            TermPattern::Variable(_) => {}
            TermPattern::Triple(triple) => self.triple(triple),
        }
    }

    fn triple(&self, triple: &mut TriplePattern) {
        self.position(&mut triple.subject);
        self.name_or_variable(&mut triple.predicate);
        self.position(&mut triple.object);
    }

    fn path(&self, path: &mut PathExpression) {
        use PathExpression as P;
        match path {
            P::Predicate(name) => self.name(name),
            P::Inverse(path) | P::ZeroOrMore(path) | P::OneOrMore(path) | P::ZeroOrOne(path) => {
                self.path(path);
            }
            P::Sequence(parts) | P::Alternative(parts) => {
                parts.iter_mut().for_each(|part| self.path(part));
            }
            P::Negated(names) => names.iter_mut().for_each(|name| self.name(name)),
        }
    }

    fn pattern(&self, pattern: &mut Pattern) {
        match pattern {
            Pattern::Bgp(triples) => triples.iter_mut().for_each(|triple| self.triple(triple)),
            Pattern::Path {
                subject,
                path,
                object,
            } => {
                self.position(subject);
                self.path(path);
                self.position(object);
            }
            Pattern::Graph { name, .. } | Pattern::Service { name, .. } => {
                self.name_or_variable(name);
            }
            Pattern::Values { rows, .. } => {
                let terms = rows.iter_mut().flatten().flatten();
                terms.for_each(|term| self.term(term));
            }
            Pattern::Group { aggregates, .. } => {
                (aggregates.iter_mut()).for_each(|(_, aggregate)| self.aggregate(aggregate));
            }
            _ => {}
        }
        let (patterns, expressions) = pattern.parts_mut();
        patterns.into_iter().for_each(|inner| self.pattern(inner));
        expressions.into_iter().for_each(|e| self.expression(e));
    }

    fn aggregate(&self, aggregate: &mut Aggregate) {
        if let Aggregate::Of {
            function: AggregateFunction::Custom(name),
            ..
        } = aggregate
        {
            self.name(name);
        }
    }

    fn expression(&self, expression: &mut Expression) {
        match expression {
            Expression::Constant(term) => self.term(term),
            Expression::Call(Function::Custom(name), _) => self.name(name),
            Expression::Exists(pattern) => self.pattern(pattern),
            _ => {}
        }
        let children = expression.children_mut().into_iter();
        children.for_each(|child| self.expression(child));
    }
}

#[cfg(test)]
mod tests {
    use crate::Parser;
    use oxrdf::{Literal, NamedNode, Term};

    fn equal(template: &str, plain: &str, pairs: &[(Term, Term)]) -> bool {
        let pattern = |text: &str| Parser::new().parse_query(text).expect("a query").pattern;
        pattern(template).eq_modulo_constants(&pattern(plain), pairs)
    }

    fn iri(name: &str) -> Term {
        NamedNode::new_unchecked(name).into()
    }

    #[test]
    fn the_constants_of_the_pairs_may_differ_everywhere() {
        let pairs = [(iri("urn:1"), iri("urn:a"))];
        for text in [
            "ASK { <urn:1> ?p ?o }",
            "ASK { <urn:1> <urn:p>+ ?o MINUS { ?o ?p <urn:1> } }",
            "ASK { ?s ?p ?o OPTIONAL { ?o ?q ?x FILTER(?x = <urn:1>) } }",
            "ASK { { ?s ?p <urn:1> } UNION { GRAPH ?g { <urn:1> ?p ?s } } }",
            "ASK { ?s ?p ?o FILTER EXISTS { ?o ?p <urn:1> } BIND(<urn:1> AS ?x) }",
            "ASK { ?s ?p ?o FILTER(?o IN (1, <urn:1>) || IF(BOUND(?o), <urn:1>, ?s) = ?p) }",
            "SELECT (MAX(COALESCE(?o, <urn:1>)) AS ?m) { VALUES ?s { <urn:1> } ?s ?p ?o } GROUP BY ?s",
            "SELECT * { ?s ?p ?o } ORDER BY (?o = <urn:1>) LIMIT 1",
        ] {
            let plain = text.replace("urn:1", "urn:a");
            assert!(equal(text, &plain, &pairs), "{text}");
            assert!(!equal(text, &plain, &[]), "{text}");
            let other = text.replace("urn:1", "urn:b");
            assert!(!equal(text, &other, &pairs), "{text}");
        }
    }

    #[test]
    fn literals_with_the_same_text_are_different_constants() {
        let simple = |text: &str| Term::from(Literal::new_simple_literal(text));
        let template = "ASK { ?s <urn:p> \"x\" ; <urn:q> \"x\"@en }";
        let pairs = [(simple("x"), simple("y"))];
        let plain = |q: &str| format!("ASK {{ ?s <urn:p> \"y\" ; <urn:q> \"{q}\"@en }}");
        assert!(equal(template, &plain("x"), &pairs));
        assert!(!equal(template, &plain("y"), &pairs));
    }

    #[test]
    fn a_constant_may_be_another_ones_placeholder() {
        let pairs = [(iri("urn:1"), iri("urn:2")), (iri("urn:2"), iri("urn:a"))];
        let template = "ASK { <urn:1> <urn:p> <urn:2> }";
        assert!(equal(template, "ASK { <urn:2> <urn:p> <urn:a> }", &pairs));
        assert!(!equal(template, "ASK { <urn:a> <urn:p> <urn:a> }", &pairs));
    }

    #[test]
    fn a_constant_that_is_also_a_name_is_replaced_there() {
        let pairs = [(iri("urn:1"), iri("urn:a"))];
        let template = "ASK { <urn:1> <urn:1>+ ?o }";
        assert!(!equal(template, "ASK { <urn:a> <urn:1>+ ?o }", &pairs));
        assert!(equal(template, "ASK { <urn:a> <urn:a>+ ?o }", &pairs));
    }
}
