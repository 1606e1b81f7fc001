//! Evaluation of expressions over the rows of a table. An operator that only passes a term on keeps
//! its id, and so its spelling; a value is computed only where an operator needs one.

use crate::algebra::expression::Expr;
use crate::algebra::logical::{GraphPosition, Position, QuadPattern};
use crate::context::cells::Cells;
use crate::context::table::Table;
use crate::eval::filter::{self, Memo};
use crate::eval::functions;
use crate::value::exact::Exact;
use crate::value::moments;
use crate::value::number::{Computed, Number};
use crate::value::random::Random;
use crate::value::term_key::term_key;
use crate::value::term_value::{Value, arithmetic};
use crate::view::graph_view::{GraphView, Source};
use crate::view::local_terms::LocalTerms;
use crate::view::term_source::TermSource;
use oxrdf::Term;
use rustc_hash::FxHashMap;
use somersault_lang::{Comparison, VarId};
use somersault_model::{EventTime, Tag, TermId, TripleIds};

/// The most bytes of a string that a query may compute; doubling a string would exhaust any memory.
const LONGEST_STRING: usize = 64 << 20;

/// The number of values that are remembered. Only short texts are: parsing a long one again costs
/// as much as copying it, and long texts together would be uncounted memory.
const REMEMBERED: usize = 1 << 16;
const REMEMBERED_TEXT: usize = 64;

/// Doubles represent integers below this exactly (2^53).
const EXACT_BELOW: f64 = 9_007_199_254_740_992.0;

/// The result of an expression: a term of the data, or a computed value. `None` in its place is an
/// error, or unbound.
#[derive(Debug, Clone)]
pub(crate) enum Evaluated {
    Id(TermId),
    Value(Value),
}

impl From<Value> for Evaluated {
    fn from(value: Value) -> Evaluated {
        Evaluated::Value(value)
    }
}

impl From<bool> for Evaluated {
    fn from(value: bool) -> Evaluated {
        Evaluated::Value(Value::Boolean(value))
    }
}

/// Everything that evaluation needs beside the row. Lives for one execution.
pub(crate) struct Evaluation<'a> {
    pub(crate) dictionary: TermSource<'a>,
    pub(crate) local: LocalTerms,
    /// The ids of the query's constants, local where the dictionary does not know the term.
    pub(crate) constants: Vec<TermId>,
    pub(crate) base: Option<&'a str>,
    /// The constants of queries that are evaluated together.
    pub(crate) cells: Option<&'a Cells>,
    /// The rows that are kept from one execution to the next.
    pub(crate) maintained: &'a [Table],
    now: EventTime,
    /// The view that knows the event times of statements.
    pub(crate) view: Option<&'a dyn GraphView>,
    pub(crate) random: Random,
    /// The results of EXISTS, per EXISTS and row of the table that is evaluated.
    pub(crate) exists: Vec<Vec<bool>>,
    values: FxHashMap<TermId, Value>,
    /// The results of conditions on one variable.
    pub(crate) memo: Memo,
    /// Whether a string was abandoned because it would have been too long.
    oversized: bool,
}

/// Everything another thread needs to evaluate as this one does.
pub(crate) struct EvaluationSeed<'e, 'a> {
    dictionary: TermSource<'a>,
    local: &'e LocalTerms,
    constants: &'e [TermId],
    base: Option<&'a str>,
    cells: Option<&'a Cells>,
    maintained: &'a [Table],
    now: EventTime,
    view: Option<&'a dyn GraphView>,
    random: &'e Random,
}

impl<'a> EvaluationSeed<'_, 'a> {
    /// An evaluation that knows the terms computed so far, and numbers its own after them.
    pub(crate) fn evaluation(&self) -> Evaluation<'a> {
        let mut evaluation = Evaluation::new(
            self.dictionary,
            self.constants.to_vec(),
            self.local.clone(),
            self.base,
            self.now,
            self.random.clone(),
        );
        evaluation.view = self.view;
        evaluation.cells = self.cells;
        evaluation.maintained = self.maintained;
        evaluation
    }
}

/// One row of a table.
#[derive(Clone, Copy)]
pub(crate) struct Row<'t> {
    pub(crate) table: &'t Table,
    pub(crate) at: usize,
}

impl Row<'_> {
    pub(crate) fn get(&self, variable: VarId) -> Option<TermId> {
        let id = self.table.get(variable, self.at);
        (!id.is_unbound()).then_some(id)
    }
}

impl<'a> Evaluation<'a> {
    pub(crate) fn new(
        dictionary: TermSource<'a>,
        constants: Vec<TermId>,
        local: LocalTerms,
        base: Option<&'a str>,
        now: EventTime,
        random: Random,
    ) -> Evaluation<'a> {
        Evaluation {
            dictionary,
            local,
            constants,
            base,
            cells: None,
            maintained: &[],
            now,
            view: None,
            random,
            exists: Vec::new(),
            values: FxHashMap::default(),
            memo: Memo::default(),
            oversized: false,
        }
    }

    /// The same over a view, for queries that are evaluated together with their cells.
    pub(crate) fn over(
        mut self,
        view: &'a dyn GraphView,
        cells: Option<&'a Cells>,
    ) -> Evaluation<'a> {
        self.view = Some(view);
        self.cells = cells;
        self
    }

    /// Everything another thread needs to evaluate as this one does.
    pub(crate) fn seed(&self) -> EvaluationSeed<'_, 'a> {
        EvaluationSeed {
            dictionary: self.dictionary,
            local: &self.local,
            constants: &self.constants,
            base: self.base,
            cells: self.cells,
            maintained: self.maintained,
            now: self.now,
            view: self.view,
            random: &self.random,
        }
    }

    /// Whether a string of this many bytes may be computed. If not, the expression is an error, and
    /// the query ends at the next [`Evaluation::held_bytes`].
    pub(crate) fn may_have(&mut self, bytes: usize) -> bool {
        self.oversized |= bytes > LONGEST_STRING;
        bytes <= LONGEST_STRING
    }

    /// The bytes of the terms computed so far; more than any limit if a string was abandoned.
    pub(crate) fn held_bytes(&self) -> usize {
        if self.oversized {
            usize::MAX / 2
        } else {
            self.local.bytes()
        }
    }

    /// The id of an expression's result.
    pub(crate) fn id(&mut self, evaluated: Evaluated) -> TermId {
        match evaluated {
            Evaluated::Id(id) => id,
            Evaluated::Value(value) => match value.inline_id() {
                Some(id) => id,
                None => self.local.id(value.into_term(), self.dictionary),
            },
        }
    }

    /// NOW().
    pub(crate) fn now_id(&mut self) -> TermId {
        let now = somersault_lang::spareval::now_literal(self.now);
        self.local.id(now.into(), self.dictionary)
    }

    /// The term of an id.
    pub(crate) fn term(&self, id: TermId) -> Option<Term> {
        self.local.term(id, self.dictionary)
    }

    /// The value of an id. Short literals of the dictionary are parsed once per execution.
    pub(crate) fn value(&mut self, id: TermId) -> Option<Value> {
        if let Some(value) = Value::of_inline(id) {
            return Some(value);
        }
        if let Some(value) = self.values.get(&id) {
            return Some(value.clone());
        }
        let value = Value::of_term(self.term(id)?);
        if !matches!(id.tag(), Tag::NamedNode | Tag::BlankNode)
            && self.values.len() < REMEMBERED
            && value.text_bytes() <= REMEMBERED_TEXT
        {
            self.values.insert(id, value.clone());
        }
        Some(value)
    }

    fn value_of(&mut self, evaluated: Evaluated) -> Option<Value> {
        match evaluated {
            Evaluated::Id(id) => self.value(id),
            Evaluated::Value(value) => Some(value),
        }
    }

    /// The effective boolean value of an expression.
    pub(crate) fn boolean(&mut self, expr: &Expr, row: Row<'_>) -> Option<bool> {
        match expr {
            Expr::Or(list) => self.logical(list, row, true),
            Expr::And(list) => self.logical(list, row, false),
            Expr::Not(inner) => self.boolean(inner, row).map(|value| !value),
            Expr::Bound(variable) => Some(row.get(*variable).is_some()),
            Expr::Exists(exists) => Some(self.exists[exists.at][row.at]),
            Expr::IsFresh(pattern) => self.is_fresh(pattern, row),
            Expr::Compare(op, a, b) => self.compare(*op, a, b, row),
            _ => {
                let evaluated = self.evaluate(expr, row)?;
                self.value_of(evaluated)?.effective_boolean()
            }
        }
    }

    /// OR (`decisive` = true) and AND (false): one decisive operand decides, whatever errors others
    /// have.
    fn logical(&mut self, list: &[Expr], row: Row<'_>, decisive: bool) -> Option<bool> {
        let mut error = false;
        for expr in list {
            match self.boolean(expr, row) {
                Some(value) if value == decisive => return Some(decisive),
                Some(_) => {}
                None => error = true,
            }
        }
        (!error).then_some(!decisive)
    }

    /// The value of an expression as a [`Value`].
    pub(crate) fn evaluate_value(&mut self, expr: &Expr, row: Row<'_>) -> Option<Value> {
        match expr {
            Expr::Arithmetic(..) => match self.number(expr, row) {
                Computed::Number(number) => Some(number.into_value()),
                Computed::Error => None,
                Computed::Wider => self.computed_value(expr, row),
            },
            _ => {
                let evaluated = self.evaluate(expr, row)?;
                self.value_of(evaluated)
            }
        }
    }

    /// Arithmetic on values.
    fn computed_value(&mut self, expr: &Expr, row: Row<'_>) -> Option<Value> {
        let Expr::Arithmetic(op, a, b) = expr else {
            return self.evaluate_value(expr, row);
        };
        let a = self.computed_value(a, row)?;
        let b = self.computed_value(b, row)?;
        arithmetic(*op, &a, &b)
    }

    /// Arithmetic on numbers only, which is most of the computation of a filter over many rows:
    /// inline ids are computed without decoding values.
    fn number(&mut self, expr: &Expr, row: Row<'_>) -> Computed {
        let id = match expr {
            Expr::Constant(constant) => self.constants[constant.index()],
            Expr::Variable(variable) => match row.get(*variable) {
                Some(id) => id,
                None => return Computed::Error,
            },
            Expr::Arithmetic(op, a, b) => {
                return match (self.number(a, row), self.number(b, row)) {
                    (Computed::Number(a), Computed::Number(b)) => a.arithmetic(*op, b),
                    (Computed::Error, _) | (_, Computed::Error) => Computed::Error,
                    (Computed::Wider, _) | (_, Computed::Wider) => Computed::Wider,
                };
            }
            _ => return Computed::Wider,
        };
        let number = Number::of_inline(id).or_else(|| self.known_number(id));
        number.map_or(Computed::Wider, Computed::Number)
    }

    /// The number of a literal that is too long for an inline id, if it is a number.
    fn known_number(&mut self, id: TermId) -> Option<Number> {
        if !matches!(id.tag(), Tag::Literal | Tag::Local) {
            return None;
        }
        if !self.values.contains_key(&id) {
            self.value(id)?;
        }
        Number::of_value(self.values.get(&id)?)
    }

    /// Evaluates an expression; `None` is an error.
    pub(crate) fn evaluate(&mut self, expr: &Expr, row: Row<'_>) -> Option<Evaluated> {
        Some(match expr {
            Expr::Constant(constant) => Evaluated::Id(self.constants[constant.0 as usize]),
            Expr::Variable(variable) => Evaluated::Id(row.get(*variable)?),
            Expr::Bound(_)
            | Expr::Or(_)
            | Expr::And(_)
            | Expr::Not(_)
            | Expr::Compare(..)
            | Expr::Exists(_)
            | Expr::IsFresh(_) => self.boolean(expr, row)?.into(),
            Expr::SameTerm(a, b) => {
                let a = self.evaluate(a, row)?;
                let b = self.evaluate(b, row)?;
                (self.id(a) == self.id(b)).into()
            }
            Expr::In(a, list) => self.is_in(a, list, row)?.into(),
            Expr::Arithmetic(..) => self.evaluate_value(expr, row)?.into(),
            Expr::UnaryPlus(a) => {
                let value = self.evaluate_value(a, row)?;
                value.as_double()?;
                value.into()
            }
            Expr::UnaryMinus(a) => match self.evaluate_value(a, row)? {
                Value::Float(value) => Value::Float(-value),
                Value::Double(value) => Value::Double(-value),
                value => match Exact::of(&value) {
                    Some(number) => number.negated().into_value()?,
                    None => moments::negated(&value)?,
                },
            }
            .into(),
            Expr::If(condition, then, otherwise) => {
                if self.boolean(condition, row)? {
                    return self.evaluate(then, row);
                }
                return self.evaluate(otherwise, row);
            }
            Expr::Coalesce(list) => return list.iter().find_map(|e| self.evaluate(e, row)),
            Expr::Matches(text, regex) => {
                let text = self.evaluate_value(text, row)?;
                regex.is_match(functions::text(&text)?).into()
            }
            Expr::Call(function, arguments) => {
                return functions::call(self, function, arguments, row);
            }
            Expr::TermKey(variable) => {
                let term = self.term(row.get(*variable)?)?;
                Value::String(term_key(&term)).into()
            }
            Expr::EqualityKey(variable) => {
                let id = row.get(*variable)?;
                self.equality_key(id)?
            }
        })
    }

    /// Whether the pattern's statement in a row arrived since the last execution.
    fn is_fresh(&self, pattern: &QuadPattern, row: Row<'_>) -> Option<bool> {
        let id = |position: Position| match position {
            Position::Constant(constant) => Some(self.constants[constant.index()]),
            Position::Variable(variable) => row.get(variable),
        };
        let (s, p, o) = (pattern.subject, pattern.predicate, pattern.object);
        let triple = TripleIds::new(id(s)?, id(p)?, id(o)?);
        let view = self.view?;
        let holds = |source: &Source| {
            let fresh = view.fresh(*source);
            fresh.is_some_and(|fresh| view.contains(fresh, triple))
        };
        let dataset = view.dataset();
        match pattern.graph {
            GraphPosition::FreshDefault => Some(dataset.default.iter().any(holds)),
            GraphPosition::FreshNamed(name) => {
                let source = dataset.named_source(self.constants[name.index()]);
                Some(source.as_ref().is_some_and(holds))
            }
            _ => None,
        }
    }

    fn is_in(&mut self, a: &Expr, list: &[Expr], row: Row<'_>) -> Option<bool> {
        let a = self.evaluate(a, row);
        let mut error = false;
        for e in list {
            let equal = match (&a, self.evaluate(e, row)) {
                (Some(a), Some(b)) => self.equal(a.clone(), b),
                _ => None,
            };
            match equal {
                Some(true) => return Some(true),
                Some(false) => {}
                None => error = true,
            }
        }
        (!error).then_some(false)
    }

    fn compare(&mut self, op: Comparison, a: &Expr, b: &Expr, row: Row<'_>) -> Option<bool> {
        if op == Comparison::Equal {
            let a = self.evaluate(a, row)?;
            let b = self.evaluate(b, row)?;
            return self.equal(a, b);
        }
        match (self.number(a, row), self.number(b, row)) {
            (Computed::Number(a), Computed::Number(b)) => {
                // As in `ordered`.
                let is_nan = a.is_nan() || b.is_nan();
                Some(!is_nan && filter::holds(op, a.compare(b)?))
            }
            (Computed::Error, _) | (_, Computed::Error) => None,
            (Computed::Wider, _) | (_, Computed::Wider) => {
                let a = self.computed_value(a, row)?;
                let b = self.computed_value(b, row)?;
                ordered(op, &a, &b)
            }
        }
    }

    /// The comparison of two terms.
    pub(crate) fn compare_values(&mut self, op: Comparison, a: TermId, b: TermId) -> Option<bool> {
        if op == Comparison::Equal {
            return self.equal(Evaluated::Id(a), Evaluated::Id(b));
        }
        ordered(op, &self.value(a)?, &self.value(b)?)
    }

    fn equal(&mut self, a: Evaluated, b: Evaluated) -> Option<bool> {
        if let (Evaluated::Id(a), Evaluated::Id(b)) = (&a, &b) {
            // IRIs and blank nodes are equal if their ids are: nothing needs decoding.
            let is_node = |id: &TermId| matches!(id.tag(), Tag::NamedNode | Tag::BlankNode);
            if is_node(a) && is_node(b) {
                return Some(a == b);
            }
        }
        let a = self.value_of(a)?;
        let b = self.value_of(b)?;
        a.equals(&b)
    }

    /// A key that two terms have in common if they are equal: IRIs, blank nodes and strings
    /// themselves, numbers their value as the narrowest type has it that they are compared in;
    /// which others are equal is not said here. To that type numbers go over a double, except
    /// integers, which go there at once: the same below 2^53, and larger numbers share a key.
    fn equality_key(&mut self, id: TermId) -> Option<Evaluated> {
        if matches!(id.tag(), Tag::NamedNode | Tag::BlankNode) {
            return Some(Evaluated::Id(id));
        }
        let value = self.value(id)?;
        if let Value::String(_) = value {
            return Some(Evaluated::Id(id));
        }
        let Some(number) = value.as_double() else {
            return Some(Evaluated::from(true));
        };
        let number = match f64::from(number) {
            large if large.abs() >= EXACT_BELOW => f32::INFINITY.copysign(large as f32),
            // Adding makes one of the two zeros.
            number => number as f32 + 0.0,
        };
        Some(Value::Float(number.into()).into())
    }
}

/// `a op b` for an operator of order. NaN is neither less than a number, nor greater, nor equal
/// (F&O 3.1, sections 4.3.1 to 4.3.3).
fn ordered(op: Comparison, a: &Value, b: &Value) -> Option<bool> {
    if a.is_nan() || b.is_nan() {
        return (a.as_double().is_some() && b.as_double().is_some()).then_some(false);
    }
    Some(filter::holds(op, a.compare(b)?))
}
