//! Casts: the constructor functions of XSD types (SPARQL 1.1, section 17.5; F&O 3.1, section 19).

use crate::value::exact::Exact;
use crate::value::lexical;
use crate::value::moments;
use crate::value::term_value::Value;
use oxrdf::vocab::xsd;
use oxrdf::{NamedNode, Term};
use oxsdatatypes::{Double, Float};

/// The types that a cast can make.
#[derive(Clone, Copy)]
pub(crate) enum Cast {
    Boolean,
    Integer,
    Decimal,
    Float,
    Double,
    DateTime,
    Date,
    Time,
    Duration,
    YearMonthDuration,
    DayTimeDuration,
    String,
}

/// The type that a function of this name casts to.
pub(crate) fn cast_of(name: &NamedNode) -> Option<Cast> {
    Some(match name.as_ref() {
        xsd::BOOLEAN => Cast::Boolean,
        xsd::INTEGER => Cast::Integer,
        xsd::DECIMAL => Cast::Decimal,
        xsd::FLOAT => Cast::Float,
        xsd::DOUBLE => Cast::Double,
        xsd::DATE_TIME => Cast::DateTime,
        xsd::DATE => Cast::Date,
        xsd::TIME => Cast::Time,
        xsd::DURATION => Cast::Duration,
        xsd::YEAR_MONTH_DURATION => Cast::YearMonthDuration,
        xsd::DAY_TIME_DURATION => Cast::DayTimeDuration,
        xsd::STRING => Cast::String,
        _ => return None,
    })
}

/// The constructor functions of XSD types (SPARQL 1.1, section 17.5).
pub(crate) fn cast(to: Cast, value: &Value) -> Option<Value> {
    let spelled = match value {
        // The whitespace around a form does not belong to it (F&O 3.1, section 19.2).
        Value::String(text) => Some(text.trim_matches([' ', '\t', '\n', '\r'])),
        _ => None,
    };
    Some(match to {
        Cast::String => Value::String(string(value)?),
        Cast::Boolean => match (value, spelled) {
            (_, Some(text)) => Value::Boolean(text.parse::<oxsdatatypes::Boolean>().ok()?.into()),
            (Value::Boolean(_), _) => value.clone(),
            _ => Value::Boolean(value.as_double().and_then(|_| value.effective_boolean())?),
        },
        Cast::Integer => integer(value, spelled)?,
        Cast::Decimal => decimal(value, spelled)?,
        Cast::Double => Value::Double(match (value, spelled) {
            (_, Some(text)) => lexical::double(text)?,
            (Value::Boolean(b), _) => Double::from(i64::from(*b) as f64),
            _ => value.as_double()?,
        }),
        Cast::Float => Value::Float(match (value, spelled) {
            (_, Some(text)) => lexical::float(text)?,
            (Value::Boolean(b), _) => Float::from(i64::from(*b) as f32),
            (Value::Double(n), _) => (*n).into(),
            _ => value.as_float()?,
        }),
        Cast::DateTime => match (value, spelled) {
            (_, Some(text)) => Value::DateTime(text.parse().ok()?),
            (Value::DateTime(_), _) => value.clone(),
            (Value::Date(date), _) => Value::DateTime((*date).try_into().ok()?),
            _ => return None,
        },
        Cast::Date => match (value, spelled) {
            (_, Some(text)) => Value::Date(text.parse().ok()?),
            (Value::Date(_), _) => value.clone(),
            (Value::DateTime(time), _) => Value::Date((*time).try_into().ok()?),
            _ => return None,
        },
        Cast::Time => match (value, spelled) {
            (_, Some(text)) => Value::Time(text.parse().ok()?),
            (Value::Time(_), _) => value.clone(),
            (Value::DateTime(time), _) => Value::Time((*time).into()),
            _ => return None,
        },
        Cast::Duration => Value::Duration(match spelled {
            Some(text) => text.parse().ok()?,
            None => moments::duration(value)?,
        }),
        Cast::YearMonthDuration => Value::YearMonthDuration(match spelled {
            Some(text) => text.parse().ok()?,
            None => moments::year_month_part(moments::duration(value)?),
        }),
        Cast::DayTimeDuration => Value::DayTimeDuration(match spelled {
            Some(text) => text.parse().ok()?,
            None => moments::day_time_part(moments::duration(value)?),
        }),
    })
}

/// Casts a value to `xsd:integer` (F&O 3.1, section 19.1.3): the fraction is truncated.
fn integer(value: &Value, spelled: Option<&str>) -> Option<Value> {
    Some(match (value, spelled) {
        (_, Some(text)) => lexical::integer(text, "integer")?,
        (Value::Boolean(b), _) => Value::Integer(i64::from(*b).into()),
        (Value::Integer(_), _) => value.clone(),
        (Value::Float(_) | Value::Double(_), _) => {
            Exact::of_double(value.as_double()?.into(), true)?.into_value()?
        }
        _ => Exact::of(value)?.truncated().into_value()?,
    })
}

/// Casts a value to `xsd:decimal` (F&O 3.1, section 19.1.3).
fn decimal(value: &Value, spelled: Option<&str>) -> Option<Value> {
    Some(match (value, spelled) {
        (_, Some(text)) => lexical::decimal(text)?,
        (Value::Boolean(b), _) => Value::Decimal(i64::from(*b).into()),
        (Value::Integer(n), _) => Value::Decimal((*n).into()),
        (Value::Decimal(_), _) => value.clone(),
        (Value::Float(_) | Value::Double(_), _) => {
            Exact::of_double(value.as_double()?.into(), false)?.into_value()?
        }
        _ => Exact::of(value)?.as_decimal().into_value()?,
    })
}

/// Casts a value to a string (F&O 3.1, section 19.1.2.2).
fn string(value: &Value) -> Option<String> {
    match value {
        Value::Double(number) => {
            let number = f64::from(*number);
            Some(lexical::floating_text(
                number,
                &Double::from(number).to_string(),
                &format!("{number:e}"),
            ))
        }
        Value::Float(number) => {
            let number = f32::from(*number);
            Some(lexical::floating_text(
                number.into(),
                &Float::from(number).to_string(),
                &format!("{number:e}"),
            ))
        }
        _ => match value.clone().into_term() {
            Term::Literal(literal) => Some(literal.destruct().0),
            Term::NamedNode(node) => Some(node.into_string()),
            Term::BlankNode(_) | Term::Triple(_) => None,
        },
    }
}
