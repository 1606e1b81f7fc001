//! The functions of SPARQL. STR, DATATYPE and TRIPLE keep the spelling and the type of the data
//! ("01" stays "01", an xsd:long stays an xsd:long), where spareval normalises both.

use crate::algebra::expression::Expr;
use crate::algebra::text_pattern::regex;
use crate::eval::evaluate::{Evaluated, Evaluation, Row};
use crate::value::cast::{cast, cast_of};
use crate::value::digest::digest;
use crate::value::exact::Exact;
use crate::value::moments;
use crate::value::term_value::Value;
use oxiri::Iri;
use oxrdf::{BaseDirection, Literal, NamedNode, NamedOrBlankNode, Term, Triple};
use regex::Regex;
use somersault_lang::Function;
use somersault_model::{Tag, TripleIds};

/// Calls a function; `None` is an error.
pub(crate) fn call(
    e: &mut Evaluation<'_>,
    function: &Function,
    arguments: &[Expr],
    row: Row<'_>,
) -> Option<Evaluated> {
    use Function as F;
    if arguments.is_empty() {
        return without_arguments(e, function);
    }
    match function {
        F::Str => {
            let evaluated = e.evaluate(&arguments[0], row)?;
            return Some(Value::String(string_of(e, evaluated)?).into());
        }
        F::Datatype => return Some(Value::NamedNode(datatype_of(e, &arguments[0], row)?).into()),
        F::Concat => {
            let values = arguments
                .iter()
                .map(|a| e.evaluate_value(a, row))
                .collect::<Option<Vec<_>>>()?;
            let length = values.iter().filter_map(text).map(str::len).sum();
            return e
                .may_have(length)
                .then(|| concat(values))?
                .map(Evaluated::from);
        }
        F::Triple => {
            let triple = triple_of(e, arguments, row)?;
            return Some(Evaluated::Id(e.local.id(triple, e.dictionary)));
        }
        F::Timestamp => {
            let statement = statement_of(e, arguments, row)?;
            let time = e.view?.event_time(statement)?;
            return Some(Value::Integer(time.0.into()).into());
        }
        F::Subject | F::Predicate | F::Object => {
            let part = part_of_triple(function, e.evaluate_value(&arguments[0], row)?)?;
            return Some(Evaluated::Id(e.local.id(part, e.dictionary)));
        }
        F::IsIri | F::IsBlank | F::IsLiteral | F::IsNumeric | F::IsTriple => {
            return is_kind(e, function, &arguments[0], row).map(Evaluated::from);
        }
        _ => {}
    }
    let mut values = Vec::with_capacity(arguments.len());
    for argument in arguments {
        values.push(e.evaluate_value(argument, row)?);
    }
    let value = match function {
        F::BNode => {
            let name = simple(&values[0])?;
            Value::BlankNode(e.random.named_blank_node(name, row.at as u64))
        }
        F::Iri => iri(e.base, &values[0])?,
        F::Custom(name) => cast(cast_of(name)?, &values[0])?,
        F::Regex | F::Replace => matching(e, function, &values)?,
        F::Year | F::Month | F::Day | F::Hours | F::Minutes | F::Seconds | F::Timezone | F::Tz => {
            moments::part(function, &values[0])?
        }
        F::Md5 | F::Sha1 | F::Sha256 | F::Sha384 | F::Sha512 => {
            Value::String(digest(function, simple(&values[0])?)?)
        }
        F::Adjust => moments::adjusted(&values[0], &values[1])?,
        F::HasLang | F::HasLangDir | F::LangDir => tag_of(function, &values[0])?,
        F::Abs | F::Ceil | F::Floor | F::Round => rounded(function, &values[0])?,
        _ => on_strings(function, &values)?,
    };
    Some(value.into())
}

/// SUBJECT, PREDICATE, OBJECT: the term itself, in its spelling.
fn part_of_triple(function: &Function, value: Value) -> Option<Term> {
    let Value::Triple(triple) = value else {
        return None;
    };
    Some(match function {
        Function::Subject => triple.subject.into(),
        Function::Predicate => triple.predicate.into(),
        _ => triple.object,
    })
}

/// TRIPLE: its parts unchanged; `None` if one is not allowed in its position.
fn triple_of(e: &mut Evaluation<'_>, arguments: &[Expr], row: Row<'_>) -> Option<Term> {
    let mut part = |argument: &Expr| {
        let evaluated = e.evaluate(argument, row)?;
        let id = e.id(evaluated);
        e.term(id)
    };
    let [subject, predicate, object] = arguments else {
        return None;
    };
    let subject: NamedOrBlankNode = match part(subject)? {
        Term::NamedNode(node) => node.into(),
        Term::BlankNode(node) => node.into(),
        Term::Literal(_) | Term::Triple(_) => return None,
    };
    let Term::NamedNode(predicate) = part(predicate)? else {
        return None;
    };
    Some(Triple::new(subject, predicate, part(object)?).into())
}

/// The statement whose parts these are.
fn statement_of(e: &mut Evaluation<'_>, arguments: &[Expr], row: Row<'_>) -> Option<TripleIds> {
    let mut part = |argument: &Expr| {
        let evaluated = e.evaluate(argument, row)?;
        Some(e.id(evaluated))
    };
    let [subject, predicate, object] = arguments else {
        return None;
    };
    let (subject, predicate) = (part(subject)?, part(predicate)?);
    Some(TripleIds::new(subject, predicate, part(object)?))
}

/// HASLANG, HASLANGDIR, LANGDIR.
fn tag_of(function: &Function, value: &Value) -> Option<Value> {
    let direction = match value {
        Value::LangString { direction, .. } => Some(*direction),
        _ => None,
    };
    Some(match function {
        Function::HasLang => direction.is_some().into(),
        Function::HasLangDir => direction.flatten().is_some().into(),
        _ if !value.is_literal() => return None,
        _ => Value::String(match direction.flatten() {
            Some(BaseDirection::Ltr) => "ltr".to_owned(),
            Some(BaseDirection::Rtl) => "rtl".to_owned(),
            None => String::new(),
        }),
    })
}

fn without_arguments(e: &mut Evaluation<'_>, function: &Function) -> Option<Evaluated> {
    let value = match function {
        Function::Now => return Some(Evaluated::Id(e.now_id())),
        Function::Rand => Value::Double(e.random.double().into()),
        Function::Uuid => {
            let uuid = e.random.uuid();
            Value::NamedNode(NamedNode::new_unchecked(format!("urn:uuid:{uuid}")))
        }
        Function::StrUuid => Value::String(e.random.uuid()),
        Function::BNode => Value::BlankNode(e.random.blank_node()),
        Function::Concat => Value::String(String::new()),
        _ => return None,
    };
    Some(value.into())
}

/// STR (SPARQL 1.1 Query, §17.4.2.5): the text of an IRI or a literal.
pub(crate) fn string_of(e: &mut Evaluation<'_>, evaluated: Evaluated) -> Option<String> {
    let term = match evaluated {
        Evaluated::Id(id) => e.term(id)?,
        Evaluated::Value(value) => value.into_term(),
    };
    match term {
        Term::NamedNode(node) => Some(node.into_string()),
        Term::Literal(literal) => Some(literal.destruct().0),
        Term::BlankNode(_) | Term::Triple(_) => None,
    }
}

fn datatype_of(e: &mut Evaluation<'_>, argument: &Expr, row: Row<'_>) -> Option<NamedNode> {
    match e.evaluate(argument, row)? {
        Evaluated::Id(id) => match e.term(id)? {
            Term::Literal(literal) => Some(literal.datatype().into_owned()),
            _ => None,
        },
        Evaluated::Value(value) => value.datatype(),
    }
}

fn is_kind(
    e: &mut Evaluation<'_>,
    function: &Function,
    argument: &Expr,
    row: Row<'_>,
) -> Option<bool> {
    let evaluated = e.evaluate(argument, row)?;
    if let Evaluated::Id(id) = evaluated
        && id.tag() != Tag::Local
        && *function != Function::IsNumeric
    {
        return Some(match function {
            Function::IsIri => id.tag() == Tag::NamedNode,
            Function::IsBlank => id.tag() == Tag::BlankNode,
            Function::IsTriple => id.tag() == Tag::TripleTerm,
            _ => id.is_literal(),
        });
    }
    let value = match evaluated {
        Evaluated::Id(id) => e.value(id)?,
        Evaluated::Value(value) => value,
    };
    Some(match function {
        Function::IsIri => matches!(value, Value::NamedNode(_)),
        Function::IsBlank => matches!(value, Value::BlankNode(_)),
        Function::IsTriple => matches!(value, Value::Triple(_)),
        Function::IsNumeric => value.as_double().is_some(),
        _ => value.is_literal(),
    })
}

/// The text of a string, with or without a language.
pub(crate) fn text(value: &Value) -> Option<&str> {
    match value {
        Value::String(value) | Value::LangString { value, .. } => Some(value),
        _ => None,
    }
}

type Language = Option<(String, Option<BaseDirection>)>;

fn language(value: &Value) -> Language {
    match value {
        Value::LangString {
            language,
            direction,
            ..
        } => Some((language.clone(), *direction)),
        _ => None,
    }
}

fn string(value: impl Into<String>, language: Language) -> Value {
    match language {
        None => Value::String(value.into()),
        Some((language, direction)) => Value::LangString {
            value: value.into(),
            language,
            direction,
        },
    }
}

fn simple(value: &Value) -> Option<&str> {
    match value {
        Value::String(value) => Some(value),
        _ => None,
    }
}

/// Concatenates strings; the result has a language if all strings have the same one.
fn concat(values: Vec<Value>) -> Option<Value> {
    let mut joined = String::new();
    let mut common: Option<Language> = None;
    for value in &values {
        joined.push_str(text(value)?);
        let own = language(value);
        common = Some(match common {
            Some(language) if language != own => None,
            _ => own,
        });
    }
    Some(string(joined, common.flatten()))
}

fn iri(base: Option<&str>, value: &Value) -> Option<Value> {
    match value {
        Value::NamedNode(_) => Some(value.clone()),
        Value::String(text) => {
            let iri = match base {
                Some(base) => Iri::parse(base.to_owned()).ok()?.resolve(text).ok()?,
                None => Iri::parse(text.clone()).ok()?,
            };
            Some(Value::NamedNode(NamedNode::from(iri)))
        }
        _ => None,
    }
}

fn matching(e: &mut Evaluation<'_>, function: &Function, values: &[Value]) -> Option<Value> {
    let flags = match (function, values.len()) {
        (Function::Regex, 3) => simple(&values[2])?,
        (Function::Replace, 4) => simple(&values[3])?,
        _ => "",
    };
    let regex = regex(simple(&values[1])?, flags)?;
    let subject = text(&values[0])?;
    if *function == Function::Regex {
        return Some(regex.is_match(subject).into());
    }
    // FORX0003 (F&O 3.1, section 5.6.4).
    if regex.is_match("") {
        return None;
    }
    let replaced = replace(e, &regex, subject, simple(&values[2])?)?;
    Some(string(replaced, language(&values[0])))
}

/// Replaces every match, with `$N` for a group, `\$` and `\\` for themselves (XPath's fn:replace);
/// `None` for any other use of these, or if the result would exceed the limit on strings.
fn replace(
    e: &mut Evaluation<'_>,
    regex: &Regex,
    subject: &str,
    replacement: &str,
) -> Option<String> {
    let pieces = pieces(replacement, regex.captures_len())?;
    let mut replaced = String::new();
    let mut end = 0;
    for captures in regex.captures_iter(subject) {
        let whole = captures.get(0)?;
        replaced.push_str(&subject[end..whole.start()]);
        for piece in &pieces {
            let part = match piece {
                Piece::Text(text) => *text,
                Piece::Group(number) => captures.get(*number).map_or("", |group| group.as_str()),
            };
            if !e.may_have(replaced.len() + part.len()) {
                return None;
            }
            replaced.push_str(part);
        }
        end = whole.end();
    }
    replaced.push_str(&subject[end..]);
    Some(replaced)
}

enum Piece<'r> {
    Text(&'r str),
    Group(usize),
}

/// The parts of a replacement, for an expression with this many groups, the whole match included.
fn pieces(replacement: &str, groups: usize) -> Option<Vec<Piece<'_>>> {
    let mut pieces = Vec::new();
    let mut rest = replacement;
    while let Some(at) = rest.find(['$', '\\']) {
        pieces.push(Piece::Text(&rest[..at]));
        let (sign, after) = rest[at..].split_at(1);
        if sign == "\\" {
            if !after.starts_with(['$', '\\']) {
                return None;
            }
            pieces.push(Piece::Text(&after[..1]));
            rest = &after[1..];
            continue;
        }
        // As many digits as name a group, but at least one; a group that does not exist is empty.
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        let named = (1..=digits.min(4)).rev().find(|length| {
            let number = after[..*length].parse::<usize>();
            *length == 1 || number.is_ok_and(|number| number < groups)
        })?;
        pieces.push(Piece::Group(after[..named].parse().ok()?));
        rest = &after[named..];
    }
    pieces.push(Piece::Text(rest));
    Some(pieces)
}

fn rounded(function: &Function, value: &Value) -> Option<Value> {
    use Function as F;
    Some(match value {
        Value::Integer(value) if *function != F::Abs => Value::Integer(*value),
        Value::Integer(_) | Value::Decimal(_) | Value::Wide(_) => {
            let exact = Exact::of(value)?;
            let rounded = match function {
                F::Abs => exact.absolute(),
                F::Ceil => exact.negated().floor_of_plus(0).negated(),
                F::Floor => exact.floor_of_plus(0),
                _ => exact.floor_of_plus(1),
            };
            rounded.into_value()?
        }
        Value::Float(value) => Value::Float(match function {
            F::Abs => value.abs(),
            F::Ceil => value.ceil(),
            F::Floor => value.floor(),
            _ => value.round(),
        }),
        Value::Double(value) => Value::Double(match function {
            F::Abs => value.abs(),
            F::Ceil => value.ceil(),
            F::Floor => value.floor(),
            _ => value.round(),
        }),
        _ => return None,
    })
}

fn on_strings(function: &Function, values: &[Value]) -> Option<Value> {
    use Function as F;
    let first = &values[0];
    Some(match function {
        F::Lang => match first {
            Value::LangString { language, .. } => Value::String(language.clone()),
            value if value.is_literal() => Value::String(String::new()),
            _ => return None,
        },
        F::LangMatches => language_matches(simple(first)?, simple(&values[1])?).into(),
        F::StrLang => {
            let literal = Literal::new_language_tagged_literal(simple(first)?, simple(&values[1])?);
            Value::of_term(literal.ok()?.into())
        }
        F::StrLangDir => {
            let direction = match simple(&values[2])? {
                "ltr" => BaseDirection::Ltr,
                "rtl" => BaseDirection::Rtl,
                _ => return None,
            };
            let (value, language) = (simple(first)?, simple(&values[1])?);
            let literal =
                Literal::new_directional_language_tagged_literal(value, language, direction);
            Value::of_term(literal.ok()?.into())
        }
        F::StrDt => match &values[1] {
            Value::NamedNode(datatype) => {
                Value::of_term(Literal::new_typed_literal(simple(first)?, datatype.clone()).into())
            }
            _ => return None,
        },
        F::StrLen => Value::Integer(i64::try_from(text(first)?.chars().count()).ok()?.into()),
        F::UCase => string(text(first)?.to_uppercase(), language(first)),
        F::LCase => string(text(first)?.to_lowercase(), language(first)),
        F::EncodeForUri => Value::String(encode_for_uri(text(first)?)),
        F::SubStr => {
            let start = integer(&values[1])?;
            let length = values
                .get(2)
                .map(|v| integer(v).ok_or(()))
                .transpose()
                .ok()?;
            string(substring(text(first)?, start, length)?, language(first))
        }
        F::Contains | F::StrStarts | F::StrEnds | F::StrBefore | F::StrAfter => {
            return compared(function, first, &values[1]);
        }
        _ => return None,
    })
}

fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Integer(value) => Some((*value).into()),
        _ => None,
    }
}

/// Functions of two strings whose languages must agree (SPARQL 1.1, section 17.4.3.1.2).
fn compared(function: &Function, a: &Value, b: &Value) -> Option<Value> {
    let (one, other) = (text(a)?, text(b)?);
    if language(b).is_some() && language(a) != language(b) {
        return None;
    }
    Some(match function {
        Function::Contains => one.contains(other).into(),
        Function::StrStarts => one.starts_with(other).into(),
        Function::StrEnds => one.ends_with(other).into(),
        _ => match one.find(other) {
            None => Value::String(String::new()),
            Some(at) if *function == Function::StrBefore => string(&one[..at], language(a)),
            Some(at) => string(&one[at + other.len()..], language(a)),
        },
    })
}

fn language_matches(tag: &str, range: &str) -> bool {
    if range == "*" {
        return !tag.is_empty();
    }
    let mut parts = tag.split('-');
    range.split('-').all(|wanted| {
        parts
            .next()
            .is_some_and(|part| part.eq_ignore_ascii_case(wanted))
    })
}

fn encode_for_uri(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// `length` characters from the `start`-th on, counted from 1; positions outside the text are
/// ignored.
fn substring(text: &str, start: i64, length: Option<i64>) -> Option<&str> {
    let from = start.checked_sub(1)?;
    let to = match length {
        Some(length) => from.checked_add(length)?,
        None => i64::MAX,
    };
    let byte_of = |position: i64| {
        let position = usize::try_from(position.max(0)).unwrap_or(usize::MAX);
        text.char_indices()
            .nth(position)
            .map_or(text.len(), |(at, _)| at)
    };
    if to <= from {
        return Some("");
    }
    let (from, to) = (byte_of(from), byte_of(to));
    Some(text.get(from..to).unwrap_or(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn substrings_count_characters_from_one() {
        assert_eq!(substring("motor car", 6, None), Some(" car"));
        assert_eq!(substring("metadata", 4, Some(3)), Some("ada"));
        assert_eq!(substring("12345", 0, Some(3)), Some("12"));
        assert_eq!(substring("12345", 5, Some(-3)), Some(""));
        assert_eq!(substring("12345", -3, Some(5)), Some("1"));
        assert_eq!(substring("aé日z", 2, Some(2)), Some("é日"));
        assert_eq!(substring("", 1, Some(3)), Some(""));
    }

    #[test]
    fn language_ranges_match_whole_parts() {
        assert!(language_matches("en-GB", "en"));
        assert!(language_matches("EN-gb", "en-GB"));
        assert!(!language_matches("eng", "en"));
        assert!(!language_matches("", "*"));
    }
}
