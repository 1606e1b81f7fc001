//! JSON as Facade-X: objects and arrays are containers, `null` is nothing, and a document that is a
//! single value is a container with that value in its first place.
//!
//! The one thing to know: numbers keep their text. `1` is an xsd:integer, `1.5` an xsd:decimal and
//! `1e3` an xsd:double, as in the arguments of calls.

use super::{FacadeSlot, FacadeTriple, FacadeValue, too_many};
use crate::messages::syntax::Fault;
use json_event_parser::{JsonEvent, JsonSyntaxError, SliceJsonParser};
use std::borrow::Cow;

/// A container that has begun and not ended.
struct Open<'t> {
    number: u32,
    /// The place of the next element; `None` for an object.
    place: Option<u64>,
    /// The name of the member whose value comes next.
    member: Cow<'t, str>,
}

/// Calls `each` with the triples of a document until it says no.
pub(super) fn read(
    text: &[u8],
    each: &mut impl FnMut(FacadeTriple<'_>) -> bool,
) -> Result<(), Fault> {
    let mut reader = Reader {
        open: Vec::new(),
        containers: 0,
        each,
    };
    let mut parser = SliceJsonParser::new(text);
    loop {
        let is_read = match parser.parse_next().map_err(fault)? {
            JsonEvent::Eof => break,
            JsonEvent::StartObject => reader.begin(None),
            JsonEvent::StartArray => reader.begin(Some(1)),
            JsonEvent::EndObject | JsonEvent::EndArray => {
                reader.open.pop();
                true
            }
            JsonEvent::ObjectKey(name) => {
                if let Some(open) = reader.open.last_mut() {
                    open.member = name;
                }
                true
            }
            JsonEvent::String(text) => reader.value(FacadeValue::Text(&text)),
            JsonEvent::Number(text) => reader.value(number(&text)),
            JsonEvent::Boolean(value) => reader.value(FacadeValue::Boolean(value)),
            JsonEvent::Null => reader.nothing(),
        };
        if !is_read {
            return Err(too_many());
        }
    }
    match reader.containers {
        0 => Err(Fault::new("the document is empty; write a JSON value")),
        _ => Ok(()),
    }
}

struct Reader<'t, 'e, E> {
    open: Vec<Open<'t>>,
    /// The number of containers so far.
    containers: u32,
    each: &'e mut E,
}

impl<E: FnMut(FacadeTriple<'_>) -> bool> Reader<'_, '_, E> {
    /// An object or array begins.
    fn begin(&mut self, place: Option<u64>) -> bool {
        let number = self.containers;
        let is_read = match number {
            0 => self.root(),
            _ => self.slot(Some(FacadeValue::Container(number))),
        };
        self.containers += 1;
        self.open.push(Open {
            number,
            place,
            member: Cow::Borrowed(""),
        });
        is_read
    }

    fn root(&mut self) -> bool {
        (self.each)(FacadeTriple {
            container: 0,
            slot: FacadeSlot::Type,
            value: FacadeValue::RootType,
        })
    }

    fn value(&mut self, value: FacadeValue<'_>) -> bool {
        self.surround() && self.slot(Some(value))
    }

    fn nothing(&mut self) -> bool {
        self.surround() && self.slot(None)
    }

    /// Makes the container around a document that is a single value.
    fn surround(&mut self) -> bool {
        self.containers > 0 || self.begin(Some(1))
    }

    /// Fills the next slot of the innermost container.
    fn slot(&mut self, value: Option<FacadeValue<'_>>) -> bool {
        let Some(open) = self.open.last_mut() else {
            return true;
        };
        let place = open.place;
        open.place = place.map(|place| place + 1);
        let Some(value) = value else { return true };
        (self.each)(FacadeTriple {
            container: open.number,
            slot: match place {
                Some(place) => FacadeSlot::Place(place),
                None => FacadeSlot::Member(&open.member),
            },
            value,
        })
    }
}

fn number(text: &str) -> FacadeValue<'_> {
    match text.bytes().find(|byte| matches!(byte, b'.' | b'e' | b'E')) {
        None => FacadeValue::Integer(text),
        Some(_) if text.contains(['e', 'E']) => FacadeValue::Double(text),
        Some(_) => FacadeValue::Decimal(text),
    }
}

fn fault(error: JsonSyntaxError) -> Fault {
    let place = error.location().start;
    let reason = format!("this is no JSON: {}", error.message().trim_end_matches('.'));
    Fault::at(place.line, place.column, reason)
}
