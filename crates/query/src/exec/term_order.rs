//! An order of all terms that is the same in a run and its replay: it decides which of several
//! equal values is chosen (S6). The one thing to know before changing it: the sequence of an id
//! differs between runs, as does whether a dictionary knows a term, so neither may decide.

use crate::algebra::error::QueryError;
use crate::algebra::varset::VarSet;
use crate::context::limiter::Limiter;
use crate::context::table::Table;
use crate::context::workspace::Workspace;
use crate::eval::evaluate::{Evaluated, Evaluation};
use crate::exec::sort;
use crate::value::term_value::Value;
use oxrdf::Term;
use somersault_model::{Tag, TermId, VirtualShard, term_hash};
use std::cmp::Ordering;

/// Compares two terms; unbound comes first.
pub(crate) fn compare(e: &Evaluation<'_>, a: TermId, b: TermId) -> Ordering {
    if a == b {
        return Ordering::Equal;
    }
    // This leaves about one of 4,096 pairs of dictionary terms undecided.
    place(e, a).cmp(&place(e, b)).then_with(|| {
        let text = |id: TermId| e.term(id).map(|term| term.to_string());
        text(a).cmp(&text(b))
    })
}

/// Compares two rows by all their columns.
pub(crate) fn compare_rows(e: &Evaluation<'_>, table: &Table, a: u32, b: u32) -> Ordering {
    (table.present())
        .map(|(_, column)| compare(e, column[a as usize], column[b as usize]))
        .find(|order| *order != Ordering::Equal)
        .unwrap_or(Ordering::Equal)
}

/// The rows in the order of their terms, so that every run draws the same random value for each
/// row.
pub(crate) fn in_order(
    e: &Evaluation<'_>,
    limiter: &mut Limiter<'_>,
    table: Table,
    workspace: &mut Workspace,
) -> Result<Table, QueryError> {
    if table.rows < 2 {
        return Ok(table);
    }
    limiter.check_memory(table.bytes() + table.rows * 8)?;
    let mut order: Vec<u32> = (0..table.rows as u32).collect();
    sort::in_order(&mut order, limiter, |a, b| {
        compare_rows(e, &table, *a, *b).then(a.cmp(b))
    })?;
    let all = VarSet::of(table.present().map(|(variable, _)| variable));
    Ok(table.gather(&order, &all, workspace))
}

/// Whether, of two results of equal value, the spelling of the first comes first.
pub(crate) fn is_before(a: &Evaluated, b: &Evaluated, e: &Evaluation<'_>) -> bool {
    use Value as V;
    match (a, b) {
        (Evaluated::Id(a), Evaluated::Id(b)) if a == b => false,
        // Computed values of these kinds have one spelling each.
        (Evaluated::Value(V::Integer(_)), Evaluated::Value(V::Integer(_)))
        | (Evaluated::Value(V::Decimal(_)), Evaluated::Value(V::Decimal(_)))
        | (Evaluated::Value(V::Double(_)), Evaluated::Value(V::Double(_)))
        | (Evaluated::Value(V::String(_)), Evaluated::Value(V::String(_))) => false,
        _ => {
            let text = |evaluated: &Evaluated| match evaluated {
                Evaluated::Id(id) => e.term(*id).map(|term| term.to_string()),
                Evaluated::Value(value) => Some(value.clone().into_term().to_string()),
            };
            text(a) < text(b)
        }
    }
}

/// The part of an id that is the same in all runs: an inline id entirely, of others the kind and
/// the virtual shard.
fn place(e: &Evaluation<'_>, id: TermId) -> u64 {
    let of_term = |tag, hash| TermId::in_dictionary(tag, VirtualShard::of_hash(hash), 0).raw();
    if id.tag() == Tag::Local {
        let Some(term) = e.term(id) else {
            return TermId::UNBOUND.raw();
        };
        let tag = match &term {
            Term::NamedNode(_) => Tag::NamedNode,
            Term::BlankNode(_) => Tag::BlankNode,
            Term::Literal(_) => Tag::Literal,
            Term::Triple(_) => Tag::TripleTerm,
        };
        return of_term(tag, term_hash(term.as_ref()));
    }
    if id.is_in_dictionary() {
        return TermId::in_dictionary(id.tag(), id.virtual_shard(), 0).raw();
    }
    id.raw()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::random::Random;
    use crate::view::local_terms::LocalTerms;
    use oxrdf::{Literal, NamedNode, Triple};
    use somersault_dictionary::Dictionary;
    use somersault_model::{EventTime, QueryUid};

    #[test]
    fn neither_the_order_of_ids_nor_the_known_terms_decide() {
        let name = |n: usize| NamedNode::new_unchecked(format!("http://x/{n}"));
        let mut terms: Vec<Term> = (0..200).map(|n| name(n).into()).collect();
        terms.extend((0..200).map(|n| Literal::from(n - 100).into()));
        terms.extend(
            (0..50).map(|n| Literal::new_simple_literal(format!("a long text {n}")).into()),
        );
        terms.extend((0..50).map(|n| Triple::new(name(n), name(1), name(2)).into()));
        let mut orders = Vec::new();
        // Learnt in this order, in reverse, and in the third run not at all.
        for run in 0..3 {
            let dictionary = Dictionary::new();
            let mut known: Vec<&Term> = terms.iter().collect();
            if run > 0 {
                known.reverse();
            }
            for (at, term) in known.into_iter().enumerate() {
                if run < 2 || at % 3 > 0 {
                    dictionary.intern(term.as_ref());
                }
            }
            let random = Random::new(QueryUid(0), EventTime(0));
            let local = LocalTerms::default();
            let mut e = Evaluation::new(
                (&dictionary).into(),
                Vec::new(),
                local,
                None,
                EventTime(0),
                random,
            );
            let mut ids: Vec<TermId> = (terms.iter())
                .map(|term| e.local.id_of(term, (&dictionary).into()))
                .collect();
            ids.sort_by(|a, b| compare(&e, *a, *b));
            orders.push(ids.iter().map(|id| e.term(*id)).collect::<Vec<_>>());
        }
        assert_eq!(orders[0], orders[1]);
        assert_eq!(orders[0], orders[2]);
    }
}
