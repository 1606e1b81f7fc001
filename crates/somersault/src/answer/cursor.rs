//! Rows as text without copies: for programs that read large answers and have no use for owned terms.

use super::Answer;
use super::delimited::turtle;
use super::terms::{Terms, Value};
use oxrdf::BaseDirection;
use somersault_model::{TermId, inline};
use somersault_query::{Answer as Inner, Solutions};
use somersault_store::{TermKind, TermView};

/// Goes through the rows of a SELECT's answer; made by [`Answer::cursor`].
///
/// Each row is valid until the next is asked for. Text that lies in one piece in the engine's
/// dictionary is lent, the rest is put together in buffers that are used again, so that reading a row
/// allocates nothing.
///
/// ```
/// # use somersault::{Engine, EngineConfig, QueryOptions, UpdateOptions};
/// # fn main() -> Result<(), somersault::EngineError> {
/// # let engine = Engine::open(EngineConfig::default())?;
/// # engine.update("INSERT DATA { <urn:a> <urn:age> 41 }", &UpdateOptions::default())?;
/// let found = engine.query("SELECT ?who ?age { ?who <urn:age> ?age }", &QueryOptions::default())?;
/// let mut rows = found.answer.cursor();
/// while let Some(row) = rows.next_row() {
///     let texts: Vec<&str> = row.cells().flatten().map(|cell| cell.text).collect();
///     assert_eq!(texts, ["urn:a", "41"]);
/// }
/// # Ok(())
/// # }
/// ```
pub struct Cursor<'a> {
    solutions: Option<(&'a Solutions, Terms<'a>)>,
    next: usize,
    slots: Vec<Slot<'a>>,
}

/// What one column has in the current row.
struct Slot<'a> {
    id: TermId,
    /// `None` is unbound.
    kind: Option<CellKind>,
    /// The text if it lies in one piece, else it is in `buffer`.
    lent: Option<&'a str>,
    buffer: String,
    datatype: Option<&'a str>,
    language: Option<&'a str>,
    direction: Option<BaseDirection>,
}

/// What kind of term a [`Cell`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CellKind {
    /// An IRI.
    Iri,
    /// A blank node.
    BlankNode,
    /// A literal.
    Literal,
    /// A triple term.
    Triple,
}

/// A term in a row, as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cell<'r> {
    /// What kind of term it is.
    pub kind: CellKind,
    /// The IRI, the blank node's label, the literal's lexical form, or the triple term in the syntax of
    /// Turtle.
    pub text: &'r str,
    /// The datatype's IRI, of literals that are neither `xsd:string` nor language-tagged.
    pub datatype: Option<&'r str>,
    /// The language tag, of literals that have one.
    pub language: Option<&'r str>,
    /// The base direction, of literals that have one.
    pub direction: Option<BaseDirection>,
}

/// A row, until the next one is asked for.
#[derive(Clone, Copy)]
pub struct Row<'r> {
    slots: &'r [Slot<'r>],
}

impl<'a> Cursor<'a> {
    pub(super) fn new(answer: &'a Answer) -> Cursor<'a> {
        let solutions = match &*answer.inner {
            Inner::Solutions(solutions) => Some(solutions),
            Inner::Boolean(_) | Inner::Graph(_) => None,
        };
        let columns = solutions.map_or(0, |solutions| solutions.variables().len());
        Cursor {
            solutions: solutions.map(|found| (found, Terms::new(found, &answer.dictionary))),
            next: 0,
            slots: std::iter::repeat_with(Slot::empty).take(columns).collect(),
        }
    }

    /// The next row; `None` after the last, and for answers that have no rows.
    pub fn next_row(&mut self) -> Option<Row<'_>> {
        let (solutions, terms) = self.solutions?;
        if self.next >= solutions.len() {
            return None;
        }
        for (column, slot) in self.slots.iter_mut().enumerate() {
            let id = solutions.column(column)[self.next];
            if slot.id != id {
                slot.take(id, &terms);
            }
        }
        self.next += 1;
        Some(Row { slots: &self.slots })
    }
}

impl std::fmt::Debug for Cursor<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cursor")
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

impl<'r> Row<'r> {
    /// The cell of a column; `None` where it is unbound.
    ///
    /// # Panics
    /// If there is no such column.
    pub fn get(&self, column: usize) -> Option<Cell<'r>> {
        self.slots[column].cell()
    }

    /// The cells in the order of [`Answer::variables`]; `None` where unbound.
    pub fn cells(&self) -> impl ExactSizeIterator<Item = Option<Cell<'r>>> + use<'r> {
        self.slots.iter().map(Slot::cell)
    }
}

impl std::fmt::Debug for Row<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.cells()).finish()
    }
}

impl<'a> Slot<'a> {
    fn empty() -> Slot<'a> {
        Slot {
            id: TermId::UNBOUND,
            kind: None,
            lent: None,
            buffer: String::new(),
            datatype: None,
            language: None,
            direction: None,
        }
    }

    fn cell(&self) -> Option<Cell<'_>> {
        Some(Cell {
            kind: self.kind?,
            text: self.lent.unwrap_or(&self.buffer),
            datatype: self.datatype,
            language: self.language,
            direction: self.direction,
        })
    }

    fn take(&mut self, id: TermId, terms: &Terms<'a>) {
        let buffer = std::mem::take(&mut self.buffer);
        *self = Slot {
            id,
            buffer,
            ..Slot::empty()
        };
        self.buffer.clear();
        if id.is_inline() {
            self.kind = inline::write_lexical(id, &mut self.buffer).map(|()| CellKind::Literal);
            let datatype = inline::datatype(id).filter(|known| *known != oxrdf::vocab::xsd::STRING);
            self.datatype = datatype.map(|datatype| datatype.as_str());
            return;
        }
        match terms.resolve_stored(id) {
            Some(Value::Text(view)) => self.lend(&view),
            Some(value @ Value::Triple(_)) => {
                self.kind = Some(CellKind::Triple);
                turtle(value, terms, &mut self.buffer);
            }
            None => {}
        }
    }

    fn lend(&mut self, view: &TermView<'a>) {
        self.kind = Some(match view.kind {
            TermKind::NamedNode => CellKind::Iri,
            TermKind::BlankNode => CellKind::BlankNode,
            TermKind::Literal => CellKind::Literal,
            TermKind::Triple => CellKind::Triple,
        });
        if view.head.is_empty() {
            self.lent = Some(view.tail);
        } else {
            view.write_text(&mut self.buffer);
        }
        self.datatype = view.datatype;
        self.language = view.language;
        self.direction = view.direction;
    }
}
