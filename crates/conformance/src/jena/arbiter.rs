//! What settles a difference over a drawn query. The one thing to know before changing it: it
//! allows only what the list of differences allows. A value of an expression is judged by the
//! lines about that expression of the matrix, and the rest by Jena's reference evaluator, which
//! carries out the algebra as it is defined.
//!
//! 1. Each part of the query's expressions is evaluated over the operands that it meets, one pair
//!    at a time, by both engines. Where the list allows the values to differ, the query is asked
//!    again with our value in the place of Jena's. Where the values are equal and only spelled
//!    differently, which the list calls `spelled`, our spelling takes the place of Jena's: STR
//!    shows it. An aggregate is judged in the same way by the lines about a single value, and only
//!    groups of one row are given our value.
//! 2. If Jena's answer is still another, its reference evaluator is asked. It too substitutes the
//!    variables of EXISTS, and fails where a literal becomes a predicate, so it is asked with such
//!    predicates compared in a FILTER, which means the same.

use super::draw::{DrawnQuery, HEAD, Piece, Value};
use super::oracle::Oracle;
use super::{Case, Differences, answer, answer_text, matrix};
use crate::ConformanceError;
use somersault::Engine;

/// A name that no drawn query binds: an expression that is an error.
const ERROR: &str = "?error";

/// The class that allows a difference; `None` if nothing settles it.
pub(super) fn class_of(
    query: &DrawnQuery,
    case: &Case<'_>,
    engine: &Engine,
    oracle: &mut Oracle,
    differences: &mut Differences,
) -> Result<Option<String>, ConformanceError> {
    let mut correction = Correction {
        group: &query.group,
        engine,
        oracle,
        differences,
        class: None,
        is_spelled: false,
    };
    let corrected = correction.of_query(query)?;
    let (class, is_spelled) = (correction.class, correction.is_spelled);
    let mut texts = vec![query.to_string()];
    if let Some(corrected) = corrected.filter(|_| class.is_some() || is_spelled) {
        if answer_text(&oracle.ask(&corrected)?) == case.ours {
            let a = "spelled";
            return Ok(class.or_else(|| differences.class_of(&Case { a, ..*case })));
        }
        texts.push(corrected);
    }
    for text in texts {
        let text = with_predicates_compared(&text);
        if answer_text(&oracle.ask_reference(&text)?) == case.ours {
            let a = "reference";
            return Ok(differences.class_of(&Case { a, ..*case }));
        }
    }
    Ok(differences.class_of(case))
}

/// A query in which a variable that is a predicate within EXISTS is another one there, which a
/// FILTER compares with it. If the outer variable is a literal, then no predicate is the same.
fn with_predicates_compared(query: &str) -> String {
    let mut sections = query.split("EXISTS { ");
    let mut text = sections.next().unwrap_or_default().to_owned();
    for section in sections {
        let (patterns, rest) = section.split_once(" }").unwrap_or((section, ""));
        let mut names: Vec<(&str, String)> = Vec::new();
        text.push_str("EXISTS {");
        for (at, pattern) in patterns.split(" .").enumerate() {
            match pattern.split_whitespace().collect::<Vec<_>>()[..] {
                [subject, predicate, object] if predicate.starts_with('?') => {
                    let name = format!("{predicate}{at}");
                    text.push_str(&format!(" {subject} {name} {object} ."));
                    names.push((predicate, name));
                }
                [] => (),
                _ => text.push_str(&format!(" {} .", pattern.trim())),
            }
        }
        for (at, (outer, name)) in names.iter().enumerate() {
            let same = format!("FILTER(IF(BOUND({outer}), sameTerm({name}, {outer}), true))");
            text.push_str(&format!(" {same}"));
            if let Some((_, first)) = names[..at].iter().find(|(earlier, _)| earlier == outer) {
                text.push_str(&format!(" FILTER(sameTerm({name}, {first}))"));
            }
        }
        text.push_str(&format!(" }}{rest}"));
    }
    text
}

/// Replaces the values of expressions in which Jena may differ.
struct Correction<'c> {
    /// The patterns that the expressions are evaluated over.
    group: &'c str,
    engine: &'c Engine,
    oracle: &'c mut Oracle,
    differences: &'c mut Differences,
    /// The class of the first value that was replaced.
    class: Option<String>,
    /// Whether a value was replaced by an equal one in our spelling.
    is_spelled: bool,
}

impl Correction<'_> {
    /// A query with our values; `None` if a value differs that the list does not allow.
    fn of_query(&mut self, query: &DrawnQuery) -> Result<Option<String>, ConformanceError> {
        let mut text = String::new();
        for piece in &query.pieces {
            let corrected = match piece {
                Piece::Text(text) => Some(Value::Operand(text.clone())),
                Piece::Value(value) => self.of_value(value)?,
                Piece::Aggregate { function, value } => self.of_aggregate(function, value)?,
            };
            match corrected {
                Some(corrected) => text.push_str(&corrected.to_string()),
                None => return Ok(None),
            }
        }
        Ok(Some(text))
    }

    /// An aggregate with our values of what it is over, and where the engines differ over a single
    /// value with our value of its own for the groups that are one row with that value. Rows are
    /// counted, and not values: an error among them makes a sum an error.
    fn of_aggregate(
        &mut self,
        function: &str,
        operand: &Value,
    ) -> Result<Option<Value>, ConformanceError> {
        let Some(corrected) = self.of_value(operand)? else {
            return Ok(None);
        };
        let mut value = Value::Operand(format!("{function}({corrected})"));
        for mut terms in self.operands_met(std::slice::from_ref(operand))? {
            let condition = format!(
                "COUNT(*) = 1 && sameTerm(SAMPLE({corrected}), {})",
                terms[0]
            );
            // The matrix has a single value as one beside nothing.
            terms.push(String::new());
            let form = format!("{function}(?a)");
            let Some(ours) = self.allowed_value(function, &form, &terms)? else {
                return Ok(None);
            };
            if let Some(ours) = ours {
                value = Value::Choice {
                    condition,
                    // Outside an aggregate, a variable that is an error would be refused.
                    then: Box::new(Value::Operand(format!("SAMPLE({ours})"))),
                    otherwise: Box::new(value),
                };
            }
        }
        Ok(Some(value))
    }

    /// An expression with our values.
    fn of_value(&mut self, value: &Value) -> Result<Option<Value>, ConformanceError> {
        match value {
            Value::Operand(_) => Ok(Some(value.clone())),
            Value::Choice {
                condition,
                then,
                otherwise,
            } => {
                let (then, otherwise) = (self.of_value(then)?, self.of_value(otherwise)?);
                let choice = |(then, otherwise)| Value::Choice {
                    condition: condition.clone(),
                    then: Box::new(then),
                    otherwise: Box::new(otherwise),
                };
                Ok(then.zip(otherwise).map(choice))
            }
            Value::Operation { form, operands } => self.of_operation(form, operands),
        }
    }

    /// An operation with our values of its operands, and for the operands over which the engines
    /// differ with our value of its own.
    fn of_operation(
        &mut self,
        form: &str,
        operands: &[Value],
    ) -> Result<Option<Value>, ConformanceError> {
        let mut corrected = Vec::new();
        for operand in operands {
            match self.of_value(operand)? {
                Some(operand) => corrected.push(operand),
                None => return Ok(None),
            }
        }
        let mut value = Value::Operation {
            form: form.to_owned(),
            operands: corrected.clone(),
        };
        for terms in self.operands_met(operands)? {
            let Some(ours) = self.allowed_value(form, form, &terms)? else {
                return Ok(None);
            };
            if let Some(ours) = ours {
                let same = corrected.iter().zip(&terms);
                let same = same.map(|(operand, term)| format!("sameTerm({operand}, {term})"));
                value = Value::Choice {
                    condition: same.collect::<Vec<_>>().join(" && "),
                    then: Box::new(Value::Operand(ours)),
                    otherwise: Box::new(value),
                };
            }
        }
        Ok(Some(value))
    }

    /// The terms that an operation is applied to in the query; a row with an operand that is an
    /// error or not bound is none of them.
    fn operands_met(&self, operands: &[Value]) -> Result<Vec<Vec<String>>, ConformanceError> {
        let names = ["?x", "?y"];
        let binds = operands.iter().zip(names);
        let binds = binds.map(|(operand, name)| format!("BIND({operand} AS {name})"));
        let binds = binds.collect::<Vec<_>>().join(" ");
        let names = names[..operands.len()].join(" ");
        let group = self.group;
        let query = format!("{HEAD}SELECT DISTINCT {names} {{ {group} {binds} }}");
        let rows = answer(self.engine, &query).map_err(ConformanceError::Child)?;
        let terms = |row: String| row.split('\t').map(str::to_owned).collect::<Vec<_>>();
        let all_bound = |terms: &Vec<String>| terms.iter().all(|term| !term.is_empty());
        Ok(rows.into_iter().map(terms).filter(all_bound).collect())
    }

    /// Our value of a form over terms if Jena's is another: `None` if the list does not allow that
    /// for the matrix's expression, `Some(None)` if the values are equal.
    fn allowed_value(
        &mut self,
        expression: &str,
        form: &str,
        terms: &[String],
    ) -> Result<Option<Option<String>>, ConformanceError> {
        let query = format!("{HEAD}SELECT ({} AS ?f) {{}}", matrix::applied(form, terms));
        let (ours, jenas) = (answer(self.engine, &query), self.oracle.ask(&query)?);
        let jenas = jenas.or_else(|_| Ok(vec!["fault".to_owned()]));
        let spelled_alike = ours == jenas;
        let (our_text, jenas) = (answer_text(&ours), answer_text(&jenas));
        if our_text == jenas {
            self.is_spelled |= !spelled_alike;
            let ours = ours.ok().and_then(|mut rows| rows.pop());
            return Ok(Some(ours.filter(|_| !spelled_alike)));
        }
        let names: Vec<String> = terms.iter().map(|term| matrix::name_of(term)).collect();
        let class = self.differences.class_of(&Case {
            expression,
            a: names.first().map_or("", String::as_str),
            b: names.get(1).map_or("", String::as_str),
            ours: &our_text,
            jenas: &jenas,
        });
        let Some(class) = class else { return Ok(None) };
        self.class.get_or_insert(class);
        let value = ours
            .ok()
            .and_then(|mut rows| rows.pop())
            .unwrap_or_default();
        Ok(Some(Some(if value.is_empty() {
            ERROR.to_owned()
        } else {
            value
        })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predicates_within_exists_are_compared() {
        let query = "ASK { ?a ?b ?c . FILTER(NOT EXISTS { ?c ?b <p> . ?a <q>/<r> 1.5 . }) }";
        let compared = "ASK { ?a ?b ?c . FILTER(NOT EXISTS { ?c ?b0 <p> . ?a <q>/<r> 1.5 . \
            FILTER(IF(BOUND(?b), sameTerm(?b0, ?b), true)) }) }";
        assert_eq!(with_predicates_compared(query), compared);
        let query = "ASK { FILTER(EXISTS { ?a ?b ?c . ?c ?b ?a . }) }";
        let compared = "ASK { FILTER(EXISTS { ?a ?b0 ?c . ?c ?b1 ?a . \
            FILTER(IF(BOUND(?b), sameTerm(?b0, ?b), true)) \
            FILTER(IF(BOUND(?b), sameTerm(?b1, ?b), true)) FILTER(sameTerm(?b1, ?b0)) }) }";
        assert_eq!(with_predicates_compared(query), compared);
        let query = "ASK { ?a ?b \"x\" . FILTER(EXISTS { ?a <p> ?c . }) }";
        assert_eq!(with_predicates_compared(query), query);
    }
}
