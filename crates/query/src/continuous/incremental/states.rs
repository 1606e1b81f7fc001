//! The retained state of one aggregate in one group: values are added and subtracted. The one thing
//! to know before changing it: a subtracted value may belong to a row whose terms were reclaimed,
//! so nothing of it may be looked up. A state that would need a look-up becomes stale, and is
//! rebuilt from the remaining rows, whose terms are all present. `aggregate.rs` is the twin.

use crate::eval::evaluate::{Evaluated, Evaluation};
use crate::exec::aggregate::{replaces, value_of};
use crate::value::number::Number;
use crate::value::running_sum::Sum;
use crate::value::term_value::Value;
use oxsdatatypes::Decimal;
use somersault_model::{Tag, TermId, inline};
use std::cmp::Ordering;

/// The function of an aggregate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    Count,
    Sum,
    Average,
    Least,
    Greatest,
}

/// The state of one aggregate in one group.
pub(super) enum RunningAggregate {
    /// The number of rows that have a value.
    Count(i64),
    Sum(Box<Total>),
    Extreme(Box<Extreme>),
}

/// The state of SUM and AVG.
#[derive(Default)]
pub(super) struct Total {
    sum: Sum,
    /// The number of rows that have no value, or a value that is no number.
    errors: u32,
    is_stale: bool,
}

/// The state of MIN and MAX.
#[derive(Default)]
pub(super) struct Extreme {
    /// The value, with its term.
    best: Option<(Value, Evaluated)>,
    /// The number of rows that have that very term.
    ties: u32,
    /// The number of rows that have no value.
    errors: u32,
    is_stale: bool,
}

/// The part of an argument's value in a row that is known without a dictionary.
#[derive(Clone, Copy)]
pub(super) enum Retracted {
    /// A term of the row.
    Term(TermId),
    Computed(RecordedValue),
}

/// The value of an expression in a row.
#[derive(Clone, Copy)]
pub(super) enum RecordedValue {
    Error,
    Integer(i64),
    Decimal(Decimal),
    Float(f32),
    Double(f64),
    /// A number of more digits than fit here: only an evaluation knows it.
    Wide,
    /// A value that is no number.
    Other,
}

impl RecordedValue {
    pub(super) fn of(value: Option<&Value>) -> RecordedValue {
        match value {
            None => RecordedValue::Error,
            Some(Value::Integer(value)) => RecordedValue::Integer((*value).into()),
            Some(Value::Decimal(value)) => RecordedValue::Decimal(*value),
            Some(Value::Wide(_)) => RecordedValue::Wide,
            Some(Value::Float(value)) => RecordedValue::Float((*value).into()),
            Some(Value::Double(value)) => RecordedValue::Double((*value).into()),
            Some(_) => RecordedValue::Other,
        }
    }

    fn number(self) -> Option<Value> {
        Some(match self {
            RecordedValue::Integer(value) => Value::Integer(value.into()),
            RecordedValue::Decimal(value) => Value::Decimal(value),
            RecordedValue::Float(value) => Value::Float(value.into()),
            RecordedValue::Double(value) => Value::Double(value.into()),
            RecordedValue::Error | RecordedValue::Wide | RecordedValue::Other => return None,
        })
    }
}

impl Retracted {
    fn is_error(self) -> bool {
        match self {
            Retracted::Term(id) => id.is_unbound(),
            Retracted::Computed(computed) => matches!(computed, RecordedValue::Error),
        }
    }

    /// Its number, or `None` if it is no number; an error where only a dictionary could tell.
    fn number(self) -> Result<Option<Value>, ()> {
        match self {
            Retracted::Computed(RecordedValue::Wide) => Err(()),
            Retracted::Computed(computed) => Ok(computed.number()),
            Retracted::Term(id) if id.tag() == Tag::Literal => Err(()),
            Retracted::Term(id) => Ok(Number::of_inline(id).map(Number::into_value)),
        }
    }
}

impl RunningAggregate {
    pub(super) fn new(function: Function) -> RunningAggregate {
        match function {
            Function::Count => RunningAggregate::Count(0),
            Function::Sum | Function::Average => RunningAggregate::Sum(Box::default()),
            Function::Least | Function::Greatest => RunningAggregate::Extreme(Box::default()),
        }
    }

    /// Whether it has to be rebuilt.
    pub(super) fn is_stale(&self) -> bool {
        match self {
            RunningAggregate::Count(_) => false,
            RunningAggregate::Sum(total) => total.is_stale,
            RunningAggregate::Extreme(extreme) => extreme.is_stale,
        }
    }

    /// Adds the value of a row; `None` is an error, or unbound.
    #[inline]
    pub(super) fn add(
        &mut self,
        function: Function,
        value: Option<Evaluated>,
        e: &mut Evaluation<'_>,
    ) {
        match self {
            RunningAggregate::Count(count) => *count += i64::from(value.is_some()),
            RunningAggregate::Sum(total) if !total.is_stale => total.add(value, e),
            RunningAggregate::Extreme(extreme) if !extreme.is_stale => {
                extreme.add(function, value, e)
            }
            RunningAggregate::Sum(_) | RunningAggregate::Extreme(_) => {}
        }
    }

    /// Subtracts the value of a row that was added.
    #[inline]
    pub(super) fn take(&mut self, known: Retracted) {
        match self {
            RunningAggregate::Count(count) => *count -= i64::from(!known.is_error()),
            RunningAggregate::Sum(total) if !total.is_stale => total.take(known),
            RunningAggregate::Extreme(extreme) if !extreme.is_stale => extreme.take(known),
            RunningAggregate::Sum(_) | RunningAggregate::Extreme(_) => {}
        }
    }

    /// The aggregate's value; `None` where it is an error.
    pub(super) fn value(&self, function: Function) -> Option<Evaluated> {
        match self {
            RunningAggregate::Count(count) => Some(Value::Integer((*count).into()).into()),
            RunningAggregate::Sum(total) => {
                if total.errors > 0 {
                    return None;
                }
                let value = match function {
                    Function::Average => total.sum.average(),
                    _ => total.sum.value(),
                };
                Some(value?.into())
            }
            RunningAggregate::Extreme(extreme) => {
                if extreme.errors > 0 {
                    return None;
                }
                Some(extreme.best.as_ref()?.1.clone())
            }
        }
    }

    /// Memory beside its own.
    #[inline]
    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            RunningAggregate::Count(_) => 0,
            RunningAggregate::Sum(total) => size_of::<Total>() + total.sum.heap_bytes(),
            RunningAggregate::Extreme(extreme) => {
                let best = extreme.best.as_ref();
                // The value, and perhaps once more what it came from.
                size_of::<Extreme>() + best.map_or(0, |(value, _)| 2 * value.text_bytes())
            }
        }
    }
}

impl Total {
    #[inline]
    fn add(&mut self, value: Option<Evaluated>, e: &mut Evaluation<'_>) {
        if let Some(Evaluated::Id(id)) = value
            && id.tag() == Tag::Integer
            && let Some(integer) = inline::integer_value(id)
        {
            return self.sum.add_integer(integer);
        }
        let value = value.and_then(|value| value_of(e, value));
        if value.and_then(|value| self.sum.add(&value)).is_none() {
            self.errors += 1;
        }
    }

    fn take(&mut self, known: Retracted) {
        self.is_stale = match known.number() {
            Ok(Some(value)) => !self.sum.take(&value),
            Ok(None) => {
                self.errors -= 1;
                false
            }
            Err(()) => true,
        };
    }
}

impl Extreme {
    fn add(&mut self, function: Function, value: Option<Evaluated>, e: &mut Evaluation<'_>) {
        let Some(from) = value else {
            self.errors += 1;
            return;
        };
        if self.is_it(&from) {
            self.ties += 1;
            return;
        }
        let Some(value) = value_of(e, from.clone()) else {
            return;
        };
        let wanted = match function {
            Function::Least => Ordering::Less,
            _ => Ordering::Greater,
        };
        let replaces =
            (self.best.as_ref()).is_none_or(|best| replaces((&value, &from), best, wanted, e));
        if replaces {
            self.best = Some((value, from));
            self.ties = 1;
        }
    }

    fn is_it(&self, from: &Evaluated) -> bool {
        match (&self.best, from) {
            (Some((_, Evaluated::Id(best))), Evaluated::Id(id)) => best == id,
            _ => false,
        }
    }

    fn take(&mut self, known: Retracted) {
        if known.is_error() {
            self.errors -= 1;
            return;
        }
        let Some((best, from)) = &self.best else {
            return;
        };
        self.is_stale = match (known, from) {
            (Retracted::Term(id), Evaluated::Id(best)) => {
                self.ties -= u32::from(id == *best);
                self.ties == 0
            }
            // Equal computed values are not counted as ties, whatever their types.
            (Retracted::Computed(computed), _) => match computed.number() {
                Some(value) => value.order(best) == Ordering::Equal,
                None => true,
            },
            (Retracted::Term(_), Evaluated::Value(_)) => true,
        };
    }
}
