//! Values of expressions: the meaning of a term to the operators of SPARQL 1.1 (section 17),
//! arithmetic and comparisons (`=`, `<`, `true > false`) among them. Derived integers are integers.
//! Types without operators are compared by spelling; any other operation on them is an error
//! (`None`).

use crate::value::exact::Exact;
use crate::value::exact_order;
use crate::value::lexical;
use crate::value::moments;
use crate::value::quotient::quotient;
use crate::view::local_terms::triple_bytes;
use oxrdf::vocab::{rdf, xsd};
use oxrdf::{BaseDirection, BlankNode, Literal, NamedNode, Term, Triple};
use oxsdatatypes::{
    Boolean, Date, DateTime, DayTimeDuration, Decimal, Double, Duration, Float, Integer, Time,
    TimezoneOffset, YearMonthDuration,
};
use somersault_lang::Arithmetic;
use somersault_model::inline::{self, Numeric};
use somersault_model::{Tag, TermId};
use std::borrow::Cow;
use std::cmp::Ordering;

const XSD: &str = "http://www.w3.org/2001/XMLSchema#";

/// The value of a term.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    NamedNode(NamedNode),
    BlankNode(BlankNode),
    String(String),
    LangString {
        value: String,
        language: String,
        direction: Option<BaseDirection>,
    },
    Boolean(bool),
    Integer(Integer),
    Decimal(Decimal),
    /// An integer or a decimal with more digits than `Integer` and `Decimal` hold.
    Wide(Box<Exact>),
    Float(Float),
    Double(Double),
    DateTime(DateTime),
    Date(Date),
    Time(Time),
    Duration(Duration),
    YearMonthDuration(YearMonthDuration),
    DayTimeDuration(DayTimeDuration),
    Other {
        value: String,
        datatype: NamedNode,
    },
    Triple(Box<Triple>),
}

/// The two operands of an arithmetic operator, promoted to one type (SPARQL 1.1, section 17.3).
pub(crate) enum Operands {
    Integer(Integer, Integer),
    Decimal(Decimal, Decimal),
    /// Integers and decimals, at least one of them wide.
    Exact(Box<(Exact, Exact)>),
    Float(Float, Float),
    Double(Double, Double),
}

impl Value {
    /// The approximate bytes of the texts that the value holds.
    pub(crate) fn text_bytes(&self) -> usize {
        match self {
            Value::NamedNode(node) => node.as_str().len(),
            Value::BlankNode(node) => node.as_str().len(),
            Value::String(value) => value.len(),
            Value::LangString {
                value, language, ..
            } => value.len() + language.len(),
            Value::Other { value, datatype } => value.len() + datatype.as_str().len(),
            Value::Triple(triple) => triple_bytes(triple),
            Value::Wide(value) => value.bytes(),
            Value::Boolean(_)
            | Value::Integer(_)
            | Value::Decimal(_)
            | Value::Float(_)
            | Value::Double(_)
            | Value::DateTime(_)
            | Value::Date(_)
            | Value::Time(_)
            | Value::Duration(_)
            | Value::YearMonthDuration(_)
            | Value::DayTimeDuration(_) => 0,
        }
    }

    /// The value of an inline id that needs no text; `None` for all others.
    #[inline]
    pub(crate) fn of_inline(id: TermId) -> Option<Value> {
        match id.tag() {
            Tag::Integer | Tag::DerivedInteger | Tag::Decimal | Tag::Double | Tag::Float => {
                Some(match inline::numeric(id)? {
                    Numeric::Integer(value) => Value::Integer(value.into()),
                    Numeric::Decimal(value) => Value::Decimal(value.into()),
                    Numeric::Float(value) => Value::Float(value.into()),
                    Numeric::Double(value) => Value::Double(value.into()),
                })
            }
            Tag::Boolean => Some(Value::Boolean(inline::boolean(id)?)),
            Tag::ShortString => {
                let mut buffer = [0; 7];
                Some(Value::String(
                    inline::short_str(id, &mut buffer)?.to_owned(),
                ))
            }
            _ => None,
        }
    }

    /// The inline id of the value's term; `None` where that takes the term.
    pub(crate) fn inline_id(&self) -> Option<TermId> {
        match self {
            Value::Integer(value) => inline::integer((*value).into()),
            _ => None,
        }
    }

    /// The value of a term.
    pub(crate) fn of_term(term: Term) -> Value {
        match term {
            Term::NamedNode(node) => Value::NamedNode(node),
            Term::BlankNode(node) => Value::BlankNode(node),
            Term::Triple(triple) => Value::Triple(triple),
            Term::Literal(literal) => Value::of_literal(literal),
        }
    }

    fn of_literal(literal: Literal) -> Value {
        if literal.language().is_some() {
            let (value, _, language, direction) = literal.destruct();
            return Value::LangString {
                value,
                language: language.unwrap_or_default(),
                direction,
            };
        }
        if let Some(value) = Value::parse(literal.value(), literal.datatype().as_str()) {
            return value;
        }
        let (value, datatype, _, _) = literal.destruct();
        Value::Other {
            value,
            datatype: datatype.unwrap_or_else(|| xsd::STRING.into_owned()),
        }
    }

    fn parse(text: &str, datatype: &str) -> Option<Value> {
        Some(match datatype.strip_prefix(XSD)? {
            "string" => Value::String(text.to_owned()),
            "boolean" => Value::Boolean(text.parse::<Boolean>().ok()?.into()),
            "float" => Value::Float(lexical::float(text)?),
            "double" => Value::Double(lexical::double(text)?),
            "decimal" => lexical::decimal(text)?,
            "dateTime" | "dateTimeStamp" => Value::DateTime(text.parse().ok()?),
            "date" => Value::Date(text.parse().ok()?),
            "time" => Value::Time(text.parse().ok()?),
            "duration" => Value::Duration(text.parse().ok()?),
            "yearMonthDuration" => Value::YearMonthDuration(text.parse().ok()?),
            "dayTimeDuration" => Value::DayTimeDuration(text.parse().ok()?),
            integer => lexical::integer(text, integer)?,
        })
    }

    /// The term of a computed value, canonically spelled.
    pub(crate) fn into_term(self) -> Term {
        match self {
            Value::NamedNode(node) => node.into(),
            Value::BlankNode(node) => node.into(),
            Value::String(value) => Literal::new_simple_literal(value).into(),
            Value::LangString {
                value,
                language,
                direction: None,
            } => Literal::new_language_tagged_literal_unchecked(value, language).into(),
            Value::LangString {
                value,
                language,
                direction: Some(direction),
            } => Literal::new_directional_language_tagged_literal_unchecked(
                value, language, direction,
            )
            .into(),
            Value::Boolean(value) => Literal::from(value).into(),
            Value::Integer(value) => Literal::from(value).into(),
            Value::Decimal(value) => Literal::from(value).into(),
            Value::Wide(value) => {
                let datatype = if value.is_integer() {
                    xsd::INTEGER
                } else {
                    xsd::DECIMAL
                };
                Literal::new_typed_literal(value.to_string(), datatype).into()
            }
            Value::Float(value) => Literal::from(value).into(),
            Value::Double(value) => Literal::from(value).into(),
            Value::DateTime(value) => Literal::from(value).into(),
            Value::Date(value) => Literal::from(value).into(),
            Value::Time(value) => Literal::from(value).into(),
            Value::Duration(value) => Literal::from(value).into(),
            Value::YearMonthDuration(value) => Literal::from(value).into(),
            Value::DayTimeDuration(value) => Literal::from(value).into(),
            Value::Other { value, datatype } => Literal::new_typed_literal(value, datatype).into(),
            Value::Triple(triple) => Term::Triple(triple),
        }
    }

    /// The effective boolean value; `None` is a type error. Literals with a language have none, nor
    /// do ill-typed booleans and numbers: SPARQL 1.2 and its test `expression/not-not` say so,
    /// where SPARQL 1.1 (section 17.2.2) makes the former true or false and the latter false.
    pub(crate) fn effective_boolean(&self) -> Option<bool> {
        match self {
            Value::Boolean(value) => Some(*value),
            Value::String(value) => Some(!value.is_empty()),
            Value::Integer(value) => Some(Boolean::from(*value).into()),
            Value::Decimal(value) => Some(Boolean::from(*value).into()),
            // Zero is never wide.
            Value::Wide(_) => Some(true),
            Value::Float(value) => Some(Boolean::from(*value).into()),
            Value::Double(value) => Some(Boolean::from(*value).into()),
            _ => None,
        }
    }

    /// Whether the value is a literal.
    pub(crate) fn is_literal(&self) -> bool {
        !matches!(
            self,
            Value::NamedNode(_) | Value::BlankNode(_) | Value::Triple(_)
        )
    }

    /// The datatype of a literal.
    pub(crate) fn datatype(&self) -> Option<NamedNode> {
        Some(
            match self {
                Value::NamedNode(_) | Value::BlankNode(_) | Value::Triple(_) => return None,
                Value::Other { datatype, .. } => return Some(datatype.clone()),
                Value::String(_) => xsd::STRING,
                Value::LangString {
                    direction: None, ..
                } => rdf::LANG_STRING,
                Value::LangString { .. } => rdf::DIR_LANG_STRING,
                Value::Boolean(_) => xsd::BOOLEAN,
                Value::Integer(_) => xsd::INTEGER,
                Value::Decimal(_) => xsd::DECIMAL,
                Value::Wide(value) if value.is_integer() => xsd::INTEGER,
                Value::Wide(_) => xsd::DECIMAL,
                Value::Float(_) => xsd::FLOAT,
                Value::Double(_) => xsd::DOUBLE,
                Value::DateTime(_) => xsd::DATE_TIME,
                Value::Date(_) => xsd::DATE,
                Value::Time(_) => xsd::TIME,
                Value::Duration(_) => xsd::DURATION,
                Value::YearMonthDuration(_) => xsd::YEAR_MONTH_DURATION,
                Value::DayTimeDuration(_) => xsd::DAY_TIME_DURATION,
            }
            .into_owned(),
        )
    }

    /// Whether both values are the same term up to spelling: `sameTerm` for computed values.
    pub(crate) fn same(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::NamedNode(a), Value::NamedNode(b)) => a == b,
            (Value::BlankNode(a), Value::BlankNode(b)) => a == b,
            (Value::String(a), Value::String(b)) => a == b,
            (
                Value::LangString {
                    value: a,
                    language: la,
                    direction: da,
                },
                Value::LangString {
                    value: b,
                    language: lb,
                    direction: db,
                },
            ) => a == b && la == lb && da == db,
            (Value::Boolean(a), Value::Boolean(b)) => a == b,
            (Value::Integer(a), Value::Integer(b)) => a == b,
            (Value::Decimal(a), Value::Decimal(b)) => a == b,
            (Value::Wide(a), Value::Wide(b)) => a == b,
            (Value::Float(a), Value::Float(b)) => a.is_identical_with(*b),
            (Value::Double(a), Value::Double(b)) => a.is_identical_with(*b),
            (Value::DateTime(a), Value::DateTime(b)) => a == b,
            (Value::Date(a), Value::Date(b)) => a == b,
            (Value::Time(a), Value::Time(b)) => a == b,
            (Value::Duration(a), Value::Duration(b)) => a == b,
            (Value::YearMonthDuration(a), Value::YearMonthDuration(b)) => a == b,
            (Value::DayTimeDuration(a), Value::DayTimeDuration(b)) => a == b,
            (
                Value::Other {
                    value: a,
                    datatype: da,
                },
                Value::Other {
                    value: b,
                    datatype: db,
                },
            ) => a == b && da == db,
            (Value::Triple(a), Value::Triple(b)) => a == b,
            _ => false,
        }
    }

    /// Promotes two numbers to one type; `None` if either is not a number.
    pub(crate) fn operands(&self, other: &Value) -> Option<Operands> {
        use Value::{Decimal as De, Double as Do, Float as Fl, Integer as In};
        Some(match (self, other) {
            (In(a), In(b)) => Operands::Integer(*a, *b),
            (In(a), De(b)) => Operands::Decimal((*a).into(), *b),
            (De(a), In(b)) => Operands::Decimal(*a, (*b).into()),
            (De(a), De(b)) => Operands::Decimal(*a, *b),
            (Do(a), b) => Operands::Double(*a, b.as_double()?),
            (a, Do(b)) => Operands::Double(a.as_double()?, *b),
            (Fl(a), b) => Operands::Float(*a, b.as_float()?),
            (a, Fl(b)) => Operands::Float(a.as_float()?, *b),
            (Value::Wide(_), _) | (_, Value::Wide(_)) => {
                Operands::Exact(Box::new((Exact::of(self)?, Exact::of(other)?)))
            }
            _ => return None,
        })
    }

    /// A number as a double.
    pub(crate) fn as_double(&self) -> Option<Double> {
        Some(match self {
            Value::Integer(value) => (*value).into(),
            Value::Decimal(value) => (*value).into(),
            Value::Wide(value) => value.to_f64().into(),
            Value::Float(value) => (*value).into(),
            Value::Double(value) => *value,
            _ => return None,
        })
    }

    pub(crate) fn as_float(&self) -> Option<Float> {
        Some(match self {
            Value::Integer(value) => (*value).into(),
            Value::Decimal(value) => (*value).into(),
            Value::Wide(value) => value.to_f32().into(),
            Value::Float(value) => *value,
            _ => return None,
        })
    }

    /// The `=` operator; `None` is a type error.
    pub(crate) fn equals(&self, other: &Value) -> Option<bool> {
        if let Some(operands) = self.operands(other) {
            return Some(match operands {
                Operands::Integer(a, b) => a == b,
                Operands::Decimal(a, b) => a == b,
                Operands::Exact(both) => both.0.compare(&both.1) == Ordering::Equal,
                Operands::Float(a, b) => a == b,
                Operands::Double(a, b) => a == b,
            });
        }
        match (self, other) {
            (Value::Triple(a), Value::Triple(b)) => Some(
                a.subject == b.subject
                    && a.predicate == b.predicate
                    && Value::of_term(a.object.clone())
                        .equals(&Value::of_term(b.object.clone()))?,
            ),
            // If only one side has a time zone, they may or may not be equal.
            (Value::DateTime(a), Value::DateTime(b)) => {
                a.partial_cmp(b).map(|o| o == Ordering::Equal)
            }
            (Value::Date(a), Value::Date(b)) => a.partial_cmp(b).map(|o| o == Ordering::Equal),
            (Value::Time(a), Value::Time(b)) => a.partial_cmp(b).map(|o| o == Ordering::Equal),
            // Durations of all three types (F&O 3.1, section 8.2.5).
            (a, b) if moments::duration(a).is_some() && moments::duration(b).is_some() => {
                Some(moments::duration(a) == moments::duration(b))
            }
            (Value::Other { .. }, Value::Other { .. }) => self.same(other).then_some(true),
            // A value of an unknown type may equal any other literal, but never a non-literal.
            (Value::Other { .. }, b) if b.is_typed() => None,
            (a, Value::Other { .. }) if a.is_typed() => None,
            _ => Some(self.same(other)),
        }
    }

    /// Whether the value is a literal without a language tag.
    fn is_typed(&self) -> bool {
        self.is_literal() && !matches!(self, Value::LangString { .. })
    }

    /// The order of `<`, `<=`, `>`, `>=`; `None` is a type error, or not comparable (NaN).
    pub(crate) fn compare(&self, other: &Value) -> Option<Ordering> {
        if self.same(other) {
            return Some(Ordering::Equal);
        }
        if let (Value::Triple(a), Value::Triple(b)) = (self, other) {
            if a.subject != b.subject || a.predicate != b.predicate {
                return None;
            }
            return Value::of_term(a.object.clone()).compare(&Value::of_term(b.object.clone()));
        }
        self.compare_literals(other)
    }

    fn compare_literals(&self, other: &Value) -> Option<Ordering> {
        if let Some(operands) = self.operands(other) {
            return match operands {
                Operands::Integer(a, b) => a.partial_cmp(&b),
                Operands::Decimal(a, b) => a.partial_cmp(&b),
                Operands::Exact(both) => Some(both.0.compare(&both.1)),
                Operands::Float(a, b) => a.partial_cmp(&b),
                Operands::Double(a, b) => a.partial_cmp(&b),
            };
        }
        match (self, other) {
            (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
            (Value::Boolean(a), Value::Boolean(b)) => Some(a.cmp(b)),
            (
                Value::LangString {
                    value: a,
                    language: la,
                    direction: da,
                },
                Value::LangString {
                    value: b,
                    language: lb,
                    direction: db,
                },
            ) => (la == lb && da == db).then(|| a.cmp(b)),
            (Value::DateTime(a), Value::DateTime(b)) => a.partial_cmp(b),
            (Value::Date(a), Value::Date(b)) => a.partial_cmp(b),
            (Value::Time(a), Value::Time(b)) => a.partial_cmp(b),
            _ => moments::compare(self, other),
        }
    }

    /// The order of ORDER BY, MIN and MAX (SPARQL 1.1, section 15.1): blank nodes, IRIs, literals,
    /// triple terms. Where `<` decides nothing, it continues, so that the first value does not
    /// depend on the order of comparisons (S6): numbers by their exact values, literals of
    /// different kinds by kind, times without a zone as if they were in UTC, and all others by
    /// spelling.
    pub(crate) fn order(&self, other: &Value) -> Ordering {
        self.kind()
            .cmp(&other.kind())
            .then_with(|| match (self, other) {
                (Value::BlankNode(a), Value::BlankNode(b)) => a.as_str().cmp(b.as_str()),
                (Value::NamedNode(a), Value::NamedNode(b)) => a.as_str().cmp(b.as_str()),
                (Value::Triple(a), Value::Triple(b)) => order_triples(a, b),
                _ => exact_order::order(self, other)
                    .or_else(|| moments::order(self, other))
                    .or_else(|| self.with_zone().compare_literals(&other.with_zone()))
                    .unwrap_or_else(|| self.spelling().cmp(&other.spelling())),
            })
    }

    /// Whether the value is the float or double NaN.
    pub(crate) fn is_nan(&self) -> bool {
        match self {
            Value::Float(value) => value.is_nan(),
            Value::Double(value) => value.is_nan(),
            _ => false,
        }
    }

    /// A number per kind of values that are ordered among themselves, ascending in the order of
    /// kinds.
    fn kind(&self) -> u8 {
        match self {
            Value::BlankNode(_) => 0,
            Value::NamedNode(_) => 1,
            _ if self.is_nan() => 3,
            Value::Integer(_)
            | Value::Decimal(_)
            | Value::Wide(_)
            | Value::Float(_)
            | Value::Double(_) => 2,
            Value::String(_) => 4,
            Value::LangString { .. } => 5,
            Value::Boolean(_) => 6,
            Value::DateTime(_) => 7,
            Value::Date(_) => 8,
            Value::Time(_) => 9,
            Value::Duration(_) | Value::YearMonthDuration(_) | Value::DayTimeDuration(_) => 10,
            Value::Other { .. } => 11,
            Value::Triple(_) => 12,
        }
    }

    /// A time without a zone, as UTC; every other value unchanged.
    fn with_zone(&self) -> Cow<'_, Value> {
        let offset = match self {
            Value::DateTime(time) => time.timezone_offset(),
            Value::Date(date) => date.timezone_offset(),
            Value::Time(time) => time.timezone_offset(),
            _ => return Cow::Borrowed(self),
        };
        let zoned = match offset {
            None => moments::in_zone(self, TimezoneOffset::UTC),
            Some(_) => None,
        };
        zoned.map_or(Cow::Borrowed(self), Cow::Owned)
    }

    fn spelling(&self) -> (String, String, Option<String>) {
        match self.clone().into_term() {
            Term::Literal(literal) => {
                let datatype = literal.datatype().as_str().to_owned();
                let language = literal.language().map(str::to_owned);
                (literal.value().to_owned(), datatype, language)
            }
            other => (other.to_string(), String::new(), None),
        }
    }
}

fn order_triples(a: &Triple, b: &Triple) -> Ordering {
    let subject = |triple: &Triple| Value::of_term(Term::from(triple.subject.clone()));
    subject(a)
        .order(&subject(b))
        .then_with(|| a.predicate.as_str().cmp(b.predicate.as_str()))
        .then_with(|| Value::of_term(a.object.clone()).order(&Value::of_term(b.object.clone())))
}

impl From<bool> for Value {
    fn from(value: bool) -> Value {
        Value::Boolean(value)
    }
}

/// `a op b` for numbers, dates, times and durations; `None` for anything else, and for an overflow.
pub(crate) fn arithmetic(op: Arithmetic, a: &Value, b: &Value) -> Option<Value> {
    use Arithmetic::{Add, Divide, Multiply, Subtract};
    let Some(operands) = a.operands(b) else {
        return moments::arithmetic(op, a, b);
    };
    Some(match operands {
        Operands::Integer(left, right) => {
            let narrow = match op {
                Add => left.checked_add(right).map(Value::Integer),
                Subtract => left.checked_sub(right).map(Value::Integer),
                Multiply => left.checked_mul(right).map(Value::Integer),
                Divide => quotient(left.into(), right.into()).map(Value::Decimal),
            };
            return narrow.or_else(|| Exact::of(a)?.arithmetic(op, &Exact::of(b)?));
        }
        Operands::Decimal(left, right) => {
            let narrow = match op {
                Add => left.checked_add(right),
                Subtract => left.checked_sub(right),
                Multiply => left.checked_mul(right),
                Divide => quotient(left, right),
            };
            let narrow = narrow.map(Value::Decimal);
            return narrow.or_else(|| Exact::of(a)?.arithmetic(op, &Exact::of(b)?));
        }
        Operands::Exact(both) => return both.0.arithmetic(op, &both.1),
        Operands::Float(a, b) => Value::Float(match op {
            Add => a + b,
            Subtract => a - b,
            Multiply => a * b,
            Divide => a / b,
        }),
        Operands::Double(a, b) => Value::Double(match op {
            Add => a + b,
            Subtract => a - b,
            Multiply => a * b,
            Divide => a / b,
        }),
    })
}
