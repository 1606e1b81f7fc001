//! Aggregates over groups of rows. One value that is no number makes a whole sum an error, as
//! SPARQL 1.1 has it; sums themselves are in `value/running_sum.rs`. Aggregates that are retained
//! between executions are in `incremental/states.rs`; the two files are twins.

use crate::algebra::expression::Expr;
use crate::algebra::logical::Aggregate;
use crate::context::table::Table;
use crate::eval::evaluate::{Evaluated, Evaluation, Row};
use crate::eval::functions::string_of;
use crate::exec::term_order::is_before;
use crate::value::running_sum::Sum;
use crate::value::term_value::Value;
use rustc_hash::FxHashSet;
use somersault_lang::AggregateFunction;
use somersault_model::inline::{self, Numeric};
use somersault_model::{Tag, TermId};
use std::cmp::Ordering;

/// One aggregate over all groups: a state per group.
pub(crate) struct Accumulator<'p> {
    aggregate: &'p Aggregate,
    states: Vec<AggregateState>,
    /// For DISTINCT: the values, or rows, that a group has had.
    seen: FxHashSet<(u32, TermId)>,
    seen_rows: FxHashSet<(u32, Box<[TermId]>)>,
    /// Whether a value that DISTINCT takes once may be repeated.
    pub(crate) repeats: bool,
    /// The bytes of the texts that states hold.
    text_bytes: usize,
}

/// The state of one aggregate in one group.
enum AggregateState {
    Count(i64),
    /// Rounded at the end; `None` after an error.
    Sum(Option<Sum>),
    /// The least or greatest value so far, with the id it came from.
    Extreme(Option<(Value, Evaluated)>),
    Sample(Option<Evaluated>),
    /// The strings so far, one after the other; `None` after an error.
    Concat(Option<Joined>),
    /// An error: the value stays unbound.
    Failed,
}

/// The text that GROUP_CONCAT has joined so far, as STR gives it: a simple literal, whatever the
/// languages.
#[derive(Default)]
struct Joined {
    text: String,
    strings: usize,
}

impl Joined {
    /// Whether the text may become this long.
    fn add(&mut self, text: &str, separator: &str, e: &mut Evaluation<'_>) -> bool {
        if !e.may_have(self.text.len() + separator.len() + text.len()) {
            return false;
        }
        if self.strings > 0 {
            self.text.push_str(separator);
        }
        self.strings += 1;
        self.text.push_str(text);
        true
    }
}

impl<'p> Accumulator<'p> {
    /// An aggregate over `groups` groups.
    pub(crate) fn new(aggregate: &'p Aggregate, groups: usize) -> Accumulator<'p> {
        use AggregateFunction as F;
        let state = || match aggregate {
            Aggregate::CountSolutions { .. } => AggregateState::Count(0),
            Aggregate::Of { function, .. } => match function {
                F::Count => AggregateState::Count(0),
                F::Sum | F::Avg => AggregateState::Sum(Some(Sum::default())),
                F::Min | F::Max => AggregateState::Extreme(None),
                F::GroupConcat { .. } => AggregateState::Concat(Some(Joined::default())),
                F::Sample => AggregateState::Sample(None),
                // The function is unknown: an error for every group.
                F::Custom(_) => AggregateState::Failed,
            },
        };
        Accumulator {
            aggregate,
            states: std::iter::repeat_with(state).take(groups).collect(),
            seen: FxHashSet::default(),
            seen_rows: FxHashSet::default(),
            repeats: true,
            text_bytes: 0,
        }
    }

    /// Takes some rows, each into the group with its number; all into the first where there are no
    /// numbers.
    pub(crate) fn add(
        &mut self,
        table: &Table,
        rows: impl Iterator<Item = usize>,
        numbers: &[u32],
        e: &mut Evaluation<'_>,
    ) {
        let group = |row: usize| numbers.get(row).copied().unwrap_or(0);
        let Some(column) = self.plain_column(table) else {
            for at in rows {
                self.add_row(group(at), Row { table, at }, e);
            }
            return;
        };
        for at in rows {
            let id = column.map_or(TermId::UNBOUND, |ids| ids[at]);
            self.add_id(group(at), id, e);
        }
    }

    /// The column that the aggregate is of, if it is of one and not of an expression: `Some(None)`
    /// for a variable that has none.
    fn plain_column<'t>(&self, table: &'t Table) -> Option<Option<&'t [TermId]>> {
        match self.aggregate {
            Aggregate::CountSolutions {
                distinct: false, ..
            } => Some(None),
            Aggregate::Of {
                expression: Expr::Variable(variable),
                ..
            } => Some(table.column(*variable)),
            _ => None,
        }
    }

    /// [`Accumulator::add_row`] for a plain column.
    #[inline]
    fn add_id(&mut self, group: u32, id: TermId, e: &mut Evaluation<'_>) {
        let state = &mut self.states[group as usize];
        let Aggregate::Of {
            function, distinct, ..
        } = self.aggregate
        else {
            if let AggregateState::Count(count) = state {
                *count += 1;
            }
            return;
        };
        if id.is_unbound() {
            if !matches!(state, AggregateState::Count(_) | AggregateState::Sample(_)) {
                *state = AggregateState::Failed;
            }
            return;
        }
        if *distinct && self.repeats && !self.seen.insert((group, id)) {
            return;
        }
        if id.tag() == Tag::Integer && take_integer(state, function, id) {
            return;
        }
        match state {
            AggregateState::Count(count) => *count += 1,
            // Numbers are in their ids, and cost no allocation.
            AggregateState::Sum(Some(sum)) if id.is_inline() => {
                if Value::of_inline(id)
                    .and_then(|value| sum.add(&value))
                    .is_none()
                {
                    *state = AggregateState::Sum(None);
                }
            }
            _ => {
                let bytes = &mut self.text_bytes;
                accumulate(state, function, Evaluated::Id(id), e, bytes);
            }
        }
    }

    /// Takes one row into a group.
    fn add_row(&mut self, group: u32, row: Row<'_>, e: &mut Evaluation<'_>) {
        let state = &mut self.states[group as usize];
        match self.aggregate {
            Aggregate::CountSolutions { distinct, scope } => {
                let counts = !(*distinct && self.repeats) || {
                    let key = scope.iter().map(|v| row.table.get(*v, row.at)).collect();
                    self.seen_rows.insert((group, key))
                };
                if let (true, AggregateState::Count(count)) = (counts, state) {
                    *count += 1;
                }
            }
            Aggregate::Of {
                function,
                distinct,
                expression,
            } => {
                let evaluated = e.evaluate(expression, row);
                let Some(evaluated) = evaluated else {
                    if !matches!(state, AggregateState::Count(_) | AggregateState::Sample(_)) {
                        *state = AggregateState::Failed;
                    }
                    return;
                };
                if *distinct && self.repeats {
                    let id = e.id(evaluated.clone());
                    if !self.seen.insert((group, id)) {
                        return;
                    }
                }
                accumulate(state, function, evaluated, e, &mut self.text_bytes);
            }
        }
    }

    /// Whether its states hold texts, a few of which may be large.
    pub(crate) fn holds_texts(&self) -> bool {
        matches!(
            self.states.first(),
            Some(AggregateState::Concat(_) | AggregateState::Extreme(_))
        )
    }

    /// Memory of the states, and of what DISTINCT has to remember, roughly.
    pub(crate) fn bytes(&self) -> usize {
        self.states.len() * size_of::<AggregateState>()
            + self.seen.len() * 20
            + self.seen_rows.len() * 64
            + self.text_bytes
    }

    /// The value of a group; `None` where it is an error.
    pub(crate) fn finish(&mut self, group: usize) -> Option<Evaluated> {
        let state = std::mem::replace(&mut self.states[group], AggregateState::Failed);
        Some(match state {
            AggregateState::Count(count) => Value::Integer(count.into()).into(),
            AggregateState::Sum(sum) => match self.aggregate {
                Aggregate::Of {
                    function: AggregateFunction::Avg,
                    ..
                } => sum?.average()?.into(),
                _ => sum?.value()?.into(),
            },
            AggregateState::Extreme(extreme) => extreme?.1,
            AggregateState::Sample(sample) => sample?,
            AggregateState::Concat(joined) => Value::String(joined?.text).into(),
            AggregateState::Failed => return None,
        })
    }
}

/// Adds an integer that is inlined in its id, where that needs no decoding. Returns whether it did.
#[inline]
fn take_integer(state: &mut AggregateState, function: &AggregateFunction, id: TermId) -> bool {
    match state {
        AggregateState::Sum(Some(sum)) => match inline::numeric(id) {
            Some(Numeric::Integer(number)) => {
                sum.add_integer(number);
                true
            }
            _ => false,
        },
        // Inlined integers order as their ids do, and most are neither the least nor the greatest
        // so far.
        AggregateState::Extreme(Some((_, Evaluated::Id(so_far))))
            if so_far.tag() == Tag::Integer =>
        {
            let (number, so_far) = (id.payload(), so_far.payload());
            match function {
                AggregateFunction::Min => number >= so_far,
                _ => number <= so_far,
            }
        }
        _ => false,
    }
}

fn accumulate(
    state: &mut AggregateState,
    function: &AggregateFunction,
    evaluated: Evaluated,
    e: &mut Evaluation<'_>,
    text_bytes: &mut usize,
) {
    match state {
        AggregateState::Count(count) => *count += 1,
        AggregateState::Sample(sample) => {
            sample.get_or_insert(evaluated);
        }
        AggregateState::Failed => {}
        AggregateState::Sum(sum) => {
            let added = value_of(e, evaluated).and_then(|value| sum.as_mut()?.add(&value));
            if added.is_none() {
                *sum = None;
            }
        }
        AggregateState::Extreme(extreme) => {
            let Some(value) = value_of(e, evaluated.clone()) else {
                return;
            };
            let wanted = match function {
                AggregateFunction::Min => Ordering::Less,
                _ => Ordering::Greater,
            };
            let replaces = (extreme.as_ref())
                .is_none_or(|so_far| replaces((&value, &evaluated), so_far, wanted, e));
            if replaces {
                let before = extreme.as_ref().map_or(0, |(value, _)| value.text_bytes());
                *text_bytes = (*text_bytes + value.text_bytes()).saturating_sub(before);
                *extreme = Some((value, evaluated));
            }
        }
        AggregateState::Concat(joined) => {
            let AggregateFunction::GroupConcat { separator } = function else {
                unreachable!("only GROUP_CONCAT has such a state");
            };
            let Some(so_far) = joined else { return };
            let before = so_far.text.capacity();
            let text = string_of(e, evaluated);
            let fits = text.is_some_and(|text| so_far.add(&text, separator, e));
            *text_bytes = (*text_bytes + so_far.text.capacity()).saturating_sub(before);
            if !fits {
                *joined = None;
            }
        }
    }
}

/// Whether a value replaces the extreme so far: MIN takes the lesser one. Among equal values the
/// choice does not depend on their order (S6).
pub(crate) fn replaces(
    (value, from): (&Value, &Evaluated),
    (so_far, so_far_from): &(Value, Evaluated),
    wanted: Ordering,
    e: &Evaluation<'_>,
) -> bool {
    match value.order(so_far) {
        Ordering::Equal => is_before(from, so_far_from, e),
        order => order == wanted,
    }
}

pub(crate) fn value_of(e: &mut Evaluation<'_>, evaluated: Evaluated) -> Option<Value> {
    match evaluated {
        Evaluated::Id(id) => e.value(id),
        Evaluated::Value(value) => Some(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::random::Random;
    use crate::view::local_terms::LocalTerms;
    use oxrdf::Literal;
    use oxrdf::vocab::xsd;
    use proptest::prelude::*;
    use somersault_dictionary::Dictionary;
    use somersault_lang::VarId;
    use somersault_model::{EventTime, QueryUid};

    fn number() -> impl Strategy<Value = Literal> {
        prop_oneof![
            4 => (-9i64..9).prop_map(Literal::from),
            1 => (-9i64..9).prop_map(|n| Literal::new_typed_literal(n.to_string(), xsd::LONG)),
            1 => "-?[0-9]\\.[05]".prop_map(|text| Literal::new_typed_literal(text, xsd::DECIMAL)),
            1 => Just(Literal::new_simple_literal("none")),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn integers_in_ids_count_as_their_values_do(
            numbers in prop_oneof![
                proptest::collection::vec((-9i64..9).prop_map(Literal::from), 0..9),
                proptest::collection::vec(number(), 0..9),
            ],
        ) {
            let dictionary = Dictionary::new();
            let ids: Vec<TermId> = (numbers.iter())
                .map(|number| dictionary.intern(number.as_ref().into()))
                .collect();
            let table = Table::of([(VarId(0), ids.clone())], ids.len());
            let random = Random::new(QueryUid(0), EventTime(0));
            let local = LocalTerms::default();
            let mut e = Evaluation::new((&dictionary).into(), Vec::new(), local, None, EventTime(0), random);
            use AggregateFunction as F;
            for function in [F::Min, F::Max, F::Sum, F::Avg] {
                let aggregate = Aggregate::Of {
                    function: function.clone(),
                    distinct: false,
                    expression: Expr::Variable(VarId(0)),
                };
                let mut quick = Accumulator::new(&aggregate, 1);
                quick.add(&table, 0..ids.len(), &[], &mut e);
                let mut dull = Accumulator::new(&aggregate, 1);
                for id in &ids {
                    let state = &mut dull.states[0];
                    accumulate(state, &function, Evaluated::Id(*id), &mut e, &mut 0);
                }
                let quick = quick.finish(0).map(|found| e.id(found));
                let dull = dull.finish(0).map(|found| e.id(found));
                prop_assert_eq!(quick, dull, "{:?}", function);
            }
        }
    }
}
