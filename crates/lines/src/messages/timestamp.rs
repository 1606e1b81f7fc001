//! The event time in the data of a message, where a stream's TIMESTAMP says.
//!
//! The one thing to know: two values that name one instant are one time. Digits beyond
//! milliseconds are cut off, so that a time lies in the interval that it begins in.

use oxrdf::vocab::xsd;
use oxrdf::{LiteralRef, NamedNode, NamedOrBlankNodeRef, Quad, TermRef};
use oxsdatatypes::{DateTime, DayTimeDuration, Decimal, Integer, TimezoneOffset};
use somersault_model::EventTime;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// `TIMESTAMP <p>[/<q>…]`: the predicates on the way to the time of a message.
///
/// ```
/// use oxrdf::NamedNode;
/// use somersault_lines::{MessageLimits, MessageReader, MessageSyntax, TimestampPath};
/// let time = "\"2026-03-01T20:00:00.5Z\"^^<http://www.w3.org/2001/XMLSchema#dateTime>";
/// let text = format!("<urn:a> <urn:at> {time} .");
/// let limits = MessageLimits { bytes: 1 << 20, statements: 100 };
/// let mut messages = MessageReader::new(text.as_bytes(), MessageSyntax::NTriples, limits);
/// let statements = messages.next().unwrap()?.statements.unwrap();
/// let path = TimestampPath::new(vec![NamedNode::new_unchecked("urn:at")]).unwrap();
/// assert_eq!(path.event_time(&statements).unwrap().0, 1_772_395_200_500);
/// # Ok::<_, std::io::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimestampPath(Vec<NamedNode>);

impl fmt::Display for TimestampPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, predicate) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str("/")?;
            }
            predicate.fmt(f)?;
        }
        Ok(())
    }
}

impl TimestampPath {
    /// A path of these predicates; `None` if there is none.
    #[must_use]
    pub fn new(predicates: Vec<NamedNode>) -> Option<TimestampPath> {
        (!predicates.is_empty()).then_some(TimestampPath(predicates))
    }

    /// The time of a message. The graphs of its statements do not matter.
    ///
    /// # Errors
    /// A sentence, where there is no value, something that is no time, or two different times.
    pub fn event_time(&self, statements: &[Quad]) -> Result<EventTime, String> {
        let mut times: BTreeMap<EventTime, TermRef<'_>> = BTreeMap::new();
        for value in self.values(statements) {
            let time = match value {
                TermRef::Literal(literal) => time_of(literal),
                _ => None,
            };
            let Some(time) = time else {
                return Err(format!(
                    "{value} at {self} is no time; write an xsd:dateTime such as \"2026-01-01T00:00:00Z\", or milliseconds since 1970 as an xsd:integer"
                ));
            };
            times.entry(time).or_insert(value);
        }
        let mut found = times.into_iter();
        match (found.next(), found.next()) {
            (Some((time, _)), None) => Ok(time),
            (Some((_, one)), Some((_, other))) => Err(format!(
                "the message has two different times at {self}, {one} and {other}; a message has one"
            )),
            (None, _) => Err(format!(
                "the message has no value at {self}, where TIMESTAMP looks for its event time; add one"
            )),
        }
    }

    /// The values at the end of the path, from every subject.
    fn values<'q>(&self, statements: &'q [Quad]) -> Vec<TermRef<'q>> {
        let mut reached: Option<Vec<TermRef<'q>>> = None;
        for predicate in &self.0 {
            let follows = |quad: &&Quad| {
                let subject = match quad.subject.as_ref() {
                    NamedOrBlankNodeRef::NamedNode(node) => TermRef::NamedNode(node),
                    NamedOrBlankNodeRef::BlankNode(node) => TermRef::BlankNode(node),
                };
                let is_reached = reached
                    .as_ref()
                    .is_none_or(|reached| reached.contains(&subject));
                quad.predicate == *predicate && is_reached
            };
            let objects = statements
                .iter()
                .filter(follows)
                .map(|quad| quad.object.as_ref());
            let objects = objects.collect();
            reached = Some(objects);
        }
        reached.unwrap_or_default()
    }
}

/// The time that a literal names.
fn time_of(literal: LiteralRef<'_>) -> Option<EventTime> {
    let datatype = literal.datatype();
    if datatype == xsd::DATE_TIME || datatype == xsd::DATE_TIME_STAMP {
        let time = DateTime::from_str(literal.value()).ok()?;
        return match time.timezone_offset() {
            None if datatype == xsd::DATE_TIME_STAMP => None,
            None => milliseconds(time.adjust(Some(TimezoneOffset::UTC))?),
            Some(_) => milliseconds(time),
        };
    }
    let is_integer = INTEGERS.contains(&datatype);
    let digits = literal.value();
    let digits = digits.strip_prefix('+').unwrap_or(digits);
    (is_integer).then(|| digits.parse().ok().map(EventTime))?
}

/// xsd:integer and the datatypes derived from it that hold such numbers.
const INTEGERS: [oxrdf::NamedNodeRef<'static>; 6] = [
    xsd::INTEGER,
    xsd::LONG,
    xsd::NON_NEGATIVE_INTEGER,
    xsd::POSITIVE_INTEGER,
    xsd::UNSIGNED_LONG,
    xsd::INT,
];

/// Whole milliseconds since 1970.
fn milliseconds(time: DateTime) -> Option<EventTime> {
    let epoch = DateTime::from_str("1970-01-01T00:00:00Z").ok()?;
    let since: DayTimeDuration = time.checked_sub(epoch)?;
    let thousandths = since.as_seconds().checked_mul(Decimal::from(1_000))?;
    let whole = Integer::try_from(thousandths.checked_floor()?).ok()?;
    Some(EventTime(whole.into()))
}
