//! Equalities that only say that two terms are the same: the constant or the other variable is
//! written into the patterns, so that terms are looked up instead of filtered. The one thing to
//! know before changing it: `=` compares values. It means the same as `sameTerm` only where one
//! side is not a literal, as a subject or predicate never is.

use crate::algebra::expression::{ConstantId, Expr};
use crate::algebra::logical::{
    Aggregate, GraphPosition, Group, Node, Operator, Position, QuadPattern, Tail,
};
use crate::algebra::varset::VarSet;
use somersault_lang::{Comparison, VarId};
use std::sync::Arc;

/// The constant or variable that a variable is the same as.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Same {
    Constant(ConstantId),
    Variable(VarId),
}

impl Same {
    fn position(self) -> Position {
        match self {
            Same::Constant(constant) => Position::Constant(constant),
            Same::Variable(variable) => Position::Variable(variable),
        }
    }

    fn expression(self) -> Expr {
        match self {
            Same::Constant(constant) => Expr::Constant(constant),
            Same::Variable(variable) => Expr::Variable(variable),
        }
    }
}

/// An equality of a variable with a term, and whether it compares terms instead of values.
#[derive(Clone, Copy)]
struct Equality {
    variable: VarId,
    other: Same,
    is_of_terms: bool,
}

impl Equality {
    /// The equalities that an expression can be read as.
    fn of(expr: &Expr) -> impl Iterator<Item = Equality> {
        let sides = match expr {
            Expr::Compare(Comparison::Equal, a, b) => Some((a, b, false)),
            Expr::SameTerm(a, b) => Some((a, b, true)),
            _ => None,
        };
        let side = |expr: &Expr| match expr {
            Expr::Constant(constant) => Some(Same::Constant(*constant)),
            Expr::Variable(variable) => Some(Same::Variable(*variable)),
            _ => None,
        };
        let both = sides.and_then(|(a, b, of_terms)| Some((side(a)?, side(b)?, of_terms)));
        let ways = both.map(|(a, b, of_terms)| [(a, b, of_terms), (b, a, of_terms)]);
        ways.into_iter()
            .flatten()
            .filter_map(|(one, other, is_of_terms)| match one {
                Same::Variable(variable) if one != other => Some(Equality {
                    variable,
                    other,
                    is_of_terms,
                }),
                _ => None,
            })
    }
}

/// Writes equalities of terms into the patterns of a query; `needed` are the variables of its
/// answer. Adds the constants that became predicates to `predicates`.
pub(crate) fn substitute(root: &mut Node, needed: &VarSet, predicates: &mut Vec<ConstantId>) {
    match &mut root.operator {
        Operator::Group(group) => in_group(group, needed, predicates),
        Operator::Union(branches) => {
            branches
                .iter_mut()
                .for_each(|branch| substitute(branch, needed, predicates));
        }
        Operator::Values(_) | Operator::Cells(_) | Operator::Retained(_) | Operator::Service(_) => {
        }
        Operator::Aggregate {
            inner,
            keys,
            aggregates,
        } => {
            let mut read = VarSet::of(keys.iter().copied());
            for (_, aggregate) in aggregates.iter() {
                match aggregate {
                    Aggregate::CountSolutions { scope, .. } => {
                        read.extend(&VarSet::of(scope.iter().copied()));
                    }
                    Aggregate::Of { expression, .. } => read.extend(&expression.variables()),
                }
            }
            substitute(inner, &needed.union(&read), predicates);
        }
        Operator::OrderBy { inner, keys } => {
            let read = keys.iter().map(|(key, _)| key.variables());
            let needed = read.fold(needed.clone(), |set, one| set.union(&one));
            substitute(inner, &needed, predicates);
        }
        Operator::Distinct(inner) => {
            let needed = needed.union(&inner.possible);
            substitute(inner, &needed, predicates);
        }
        Operator::Project(inner) | Operator::Slice { inner, .. } => {
            substitute(inner, needed, predicates)
        }
        Operator::EachGraph { variable, inner } => {
            substitute(inner, &needed.union(&VarSet::of([*variable])), predicates);
        }
    }
}

/// Writes the equalities of a group into its patterns, and then those of the groups inside it.
fn in_group(group: &mut Group, needed: &VarSet, predicates: &mut Vec<ConstantId>) {
    while let Some((filter, equality)) = written_into(group) {
        group.filters.remove(filter);
        let own = Position::Variable(equality.variable);
        if let Same::Constant(constant) = equality.other
            && group
                .patterns
                .iter()
                .any(|pattern| pattern.predicate == own)
        {
            predicates.push(constant);
        }
        let read = needed.union(&mentioned_beside_patterns(group));
        replace(&mut group.patterns, equality);
        if read.contains(equality.variable) {
            let value = Arc::new(equality.other.expression());
            group.binds.push((equality.variable, value));
        }
    }
    let certain = group.core_certain();
    for at in 0..group.tails.len() {
        let elsewhere = bound_beside_tail(group, at);
        let patterns = &group.patterns;
        if let Tail::Optional { node, filters } = &mut group.tails[at] {
            in_optional(node, filters, (patterns, &certain, &elsewhere));
        }
    }
    // The variables that a part binds matter to all others.
    let mentioned = needed.union(&mentioned_in(group));
    group
        .blocks
        .iter_mut()
        .for_each(|block| substitute(block, &mentioned, predicates));
    for tail in &mut group.tails {
        match tail {
            Tail::Optional { node, .. } | Tail::Minus(node) => {
                substitute(node, &mentioned, predicates)
            }
        }
    }
}

/// A filter of a group that can be written into the group's patterns.
fn written_into(group: &Group) -> Option<(usize, Equality)> {
    let patterns = &group.patterns;
    let fits = |equality: &Equality| {
        let other = match equality.other {
            Same::Constant(_) => false,
            Same::Variable(other) if !occurs(patterns, other) => return false,
            Same::Variable(other) => is_resource(patterns, other),
        };
        is_replaceable(patterns, equality.variable)
            && (equality.is_of_terms || other || is_resource(patterns, equality.variable))
    };
    let mut all = group.filters.iter().enumerate();
    all.find_map(|(at, filter)| Some((at, Equality::of(filter).find(|e| fits(e))?)))
}

/// Writes equalities between the two sides of an OPTIONAL into its patterns: its filter holds where
/// its variable has the value that the other side gives. `patterns`, and the variables that are
/// `certain` there, are of that side; `elsewhere` are those that anything but this OPTIONAL binds.
fn in_optional(
    node: &mut Node,
    filters: &mut Vec<Arc<Expr>>,
    (patterns, certain, elsewhere): (&[QuadPattern], &VarSet, &VarSet),
) {
    let Operator::Group(group) = &mut node.operator else {
        return;
    };
    let fits = |group: &Group, equality: &Equality| match equality.other {
        Same::Constant(_) => false,
        Same::Variable(outer) => {
            let inner = equality.variable;
            // A part of the OPTIONAL that mentions the outer variable means another one: from
            // inside it is unbound.
            certain.contains(outer)
                && !mentioned_beside_patterns(group).contains(outer)
                && !elsewhere.contains(inner)
                && is_replaceable(&group.patterns, inner)
                && (equality.is_of_terms
                    || is_resource(patterns, outer)
                    || is_resource(&group.patterns, inner))
        }
    };
    while let Some((at, equality)) = filters.iter().enumerate().find_map(|(at, filter)| {
        let equality = Equality::of(filter).find(|equality| fits(group, equality))?;
        Some((at, equality))
    }) {
        filters.remove(at);
        replace(&mut group.patterns, equality);
        let value = Arc::new(equality.other.expression());
        group.binds.push((equality.variable, value));
        if let Same::Variable(outer) = equality.other {
            node.certain.insert(outer);
            node.possible.insert(outer);
        }
    }
}

/// Replaces a variable by the term that it is the same as.
fn replace(patterns: &mut Vec<QuadPattern>, equality: Equality) {
    let new = equality.other.position();
    for pattern in patterns.iter_mut() {
        for place in [
            &mut pattern.subject,
            &mut pattern.predicate,
            &mut pattern.object,
        ] {
            if *place == Position::Variable(equality.variable) {
                *place = new;
            }
        }
    }
    patterns.sort_unstable();
    patterns.dedup();
}

fn occurs(patterns: &[QuadPattern], variable: VarId) -> bool {
    patterns
        .iter()
        .any(|pattern| pattern.variables().contains(variable))
}

/// Whether patterns bind a variable, and none of them uses it as the name of its graph.
fn is_replaceable(patterns: &[QuadPattern], variable: VarId) -> bool {
    let names =
        |pattern: &QuadPattern| pattern.graph == GraphPosition::Named(Position::Variable(variable));
    occurs(patterns, variable) && !patterns.iter().any(names)
}

/// Whether a variable is in a position where no literal can be.
fn is_resource(patterns: &[QuadPattern], variable: VarId) -> bool {
    let here = Position::Variable(variable);
    patterns
        .iter()
        .any(|pattern| pattern.subject == here || pattern.predicate == here)
}

/// The variables that any part of a group except its patterns mentions.
fn mentioned_beside_patterns(group: &Group) -> VarSet {
    let mut set = VarSet::new();
    group
        .paths
        .iter()
        .for_each(|path| set.extend(&path.variables()));
    set.extend(&VarSet::of(
        group.graphs.iter().filter_map(|name| name.variable()),
    ));
    group
        .blocks
        .iter()
        .for_each(|block| set.extend(&block.mentioned()));
    for (variable, expr) in &group.binds {
        set.insert(*variable);
        set.extend(&expr.variables());
    }
    group
        .filters
        .iter()
        .for_each(|filter| set.extend(&filter.variables()));
    group
        .tails
        .iter()
        .for_each(|tail| set.extend(&tail.mentioned()));
    set
}

fn mentioned_in(group: &Group) -> VarSet {
    let patterns = group.patterns.iter().map(QuadPattern::variables);
    patterns.fold(mentioned_beside_patterns(group), |set, one| set.union(&one))
}

/// The variables that any part of a group except one of its tails may bind.
fn bound_beside_tail(group: &Group, tail: usize) -> VarSet {
    let mut set = group.core_possible();
    for (at, other) in group.tails.iter().enumerate() {
        if at != tail {
            set.extend(&other.node().possible);
        }
    }
    set
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algebra::compile::compile;
    use somersault_lang::Parser;

    fn compiled(text: &str) -> String {
        let query = Parser::new().parse_query(text).expect("a query");
        let mut root = compile(&query, &query.pattern).root;
        let needed = VarSet::of(query.projection().iter().copied());
        substitute(&mut root, &needed, &mut Vec::new());
        format!("{root:?}")
    }

    #[test]
    fn possible_literals_are_compared_by_value() {
        for filter in ["?o = 1", "?o = ?p", "?s = ?unknown"] {
            let text =
                format!("SELECT ?s {{ ?s <http://x/p> ?o . ?t <http://x/q> ?p FILTER({filter}) }}");
            assert!(compiled(&text).contains("Compare"), "{text}");
        }
    }

    #[test]
    fn a_resource_that_is_equal_is_the_same() {
        for filter in [
            "?p = <http://x/p>",
            "<http://x/p> = ?p",
            "?o = ?s",
            "sameTerm(?o, 1)",
        ] {
            let text = format!("SELECT ?s {{ ?s ?p ?o FILTER({filter}) }}");
            let compiled = compiled(&text);
            assert!(
                !compiled.contains("Compare") && !compiled.contains("SameTerm"),
                "{text}"
            );
        }
    }

    #[test]
    fn an_optional_is_tied_to_what_it_extends() {
        let text =
            "SELECT * { ?a <http://x/p> ?b OPTIONAL { ?c <http://x/q> ?d FILTER(?d = ?a) } }";
        assert!(!compiled(text).contains("Compare"));
        // Two literals may be equal without being the same.
        let text =
            "SELECT * { ?a <http://x/p> ?b OPTIONAL { ?c <http://x/q> ?d FILTER(?d = ?b) } }";
        assert!(compiled(text).contains("Compare"));
    }
}
