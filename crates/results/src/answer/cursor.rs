//! Rows as text without copies, for programs that read large answers and do not need owned terms.

use super::Answer;
use crate::formats::turtle;
use crate::terms::{Terms, Value};
use oxrdf::BaseDirection;
use somersault_dictionary::{Located, TermKind, TermView};
use somersault_model::{TermId, inline};
use somersault_query::{Answer as Inner, Solutions};
use std::ops::Range;

/// The number of rows whose memory is prefetched together: their terms fit into the inner caches.
const BLOCK_ROWS: usize = 32;
/// The space in the text for each cell of a block; most IRIs are no longer.
const TYPICAL_TEXT: usize = 64;

/// Reads the rows of a SELECT's answer; made by [`Answer::cursor`].
///
/// Each row is valid until the next is read. Text that lies in one piece in the engine's dictionary
/// is borrowed. Other text is built in a buffer that is reused, so reading a row allocates nothing.
/// The terms of several rows are prefetched before the first of them is read.
///
/// ```
/// # use somersault::{Engine, EngineConfig, QueryOptions, UpdateOptions};
/// # fn main() -> Result<(), somersault::EngineError> {
/// # let engine = Engine::open(EngineConfig::default())?;
/// # engine.update("INSERT DATA { <urn:a> <urn:age> 41 }").run()?;
/// let found = engine.query("SELECT ?who ?age { ?who <urn:age> ?age }").run()?;
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
    /// The rows whose terms have been found.
    block: Range<usize>,
    /// The locations of these rows' terms, column by column.
    located: Vec<Located<'a>>,
    slots: Vec<Slot<'a>>,
    /// The text built for the rows of this block.
    text: String,
}

/// The value of one column in the current row.
struct Slot<'a> {
    id: TermId,
    /// `None` is unbound.
    kind: Option<CellKind>,
    text: Text<'a>,
    datatype: Option<&'a str>,
    language: Option<&'a str>,
    direction: Option<BaseDirection>,
}

enum Text<'a> {
    /// The text lies in one piece where it is kept.
    Lent(&'a str),
    /// The text is this part of the cursor's text.
    Made(Range<usize>),
}

/// The kind of term of a [`Cell`].
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
    /// The kind of term.
    pub kind: CellKind,
    /// The IRI, the blank node's label, the literal's lexical form, or the triple term in the
    /// syntax of Turtle.
    pub text: &'r str,
    /// The datatype's IRI, for literals that are neither `xsd:string` nor language-tagged.
    pub datatype: Option<&'r str>,
    /// The language tag, for literals that have one.
    pub language: Option<&'r str>,
    /// The base direction, for literals that have one.
    pub direction: Option<BaseDirection>,
}

/// A row, until the next one is asked for.
#[derive(Clone, Copy)]
pub struct Row<'r> {
    slots: &'r [Slot<'r>],
    text: &'r str,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(answer: &'a Answer) -> Cursor<'a> {
        let solutions = match &**answer.inner() {
            Inner::Solutions(solutions) => Some(solutions),
            Inner::Boolean(_) | Inner::Graph(_) | Inner::Dataset(_) => None,
        };
        let columns = solutions.map_or(0, |solutions| solutions.variables().len());
        let cells = columns * BLOCK_ROWS.min(answer.len());
        Cursor {
            solutions: solutions.map(|found| (found, Terms::new(found, answer.dictionary()))),
            next: 0,
            block: 0..0,
            located: Vec::with_capacity(cells),
            slots: std::iter::repeat_with(Slot::empty).take(columns).collect(),
            text: String::with_capacity(cells * TYPICAL_TEXT),
        }
    }

    /// Returns the next row; `None` after the last, and for answers that have no rows.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.update("INSERT DATA { <urn:a> <urn:p> 1, 2 }").run()?;
    /// let found = engine.query("SELECT ?o { ?s ?p ?o }").run()?;
    /// let mut cursor = found.answer.cursor();
    /// while let Some(row) = cursor.next_row() {
    ///     assert!(row.get(0).is_some());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn next_row(&mut self) -> Option<Row<'_>> {
        let (solutions, terms) = self.solutions?;
        if self.next >= solutions.len() {
            return None;
        }
        if self.next == self.block.end {
            self.start_block(solutions, &terms);
        }
        let mut place = self.next - self.block.start;
        for (column, slot) in self.slots.iter_mut().enumerate() {
            let id = solutions.column(column)[self.next];
            if slot.id != id {
                slot.take(id, self.located[place], &terms, &mut self.text);
            }
            place += self.block.len();
        }
        self.next += 1;
        Some(Row {
            slots: &self.slots,
            text: &self.text,
        })
    }

    /// Finds the terms of the next rows, and discards the text of earlier ones.
    fn start_block(&mut self, solutions: &Solutions, terms: &Terms<'a>) {
        let rows = self.next..solutions.len().min(self.next + BLOCK_ROWS);
        self.block = rows.clone();
        self.text.clear();
        self.slots.fill_with(Slot::empty);
        self.located.clear();
        let columns = 0..self.slots.len();
        let ids = columns.flat_map(|column| solutions.column(column)[rows.clone()].iter());
        terms.locate(ids, &mut self.located);
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
    /// Returns the cell of a column; `None` if it is unbound.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.update("INSERT DATA { <urn:a> <urn:p> 1, 2 }").run()?;
    /// let found = engine.query("SELECT ?s ?unbound { ?s ?p ?o }").run()?;
    /// let mut cursor = found.answer.cursor();
    /// let row = cursor.next_row().expect("there are rows");
    /// assert_eq!((row.get(0).is_some(), row.get(1).is_some()), (true, false));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    /// If there is no such column.
    pub fn get(&self, column: usize) -> Option<Cell<'r>> {
        self.slots[column].cell(self.text)
    }

    /// Returns the cells in the order of [`Answer::variables`]; `None` where unbound.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.update("INSERT DATA { <urn:a> <urn:p> 1, 2 }").run()?;
    /// let found = engine.query("SELECT ?s ?unbound { ?s ?p ?o }").run()?;
    /// let mut cursor = found.answer.cursor();
    /// let row = cursor.next_row().expect("there are rows");
    /// assert_eq!(row.cells().flatten().count(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn cells(&self) -> impl ExactSizeIterator<Item = Option<Cell<'r>>> + use<'r> {
        let text = self.text;
        self.slots.iter().map(move |slot| slot.cell(text))
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
            text: Text::Lent(""),
            datatype: None,
            language: None,
            direction: None,
        }
    }

    #[inline]
    fn cell<'r>(&self, text: &'r str) -> Option<Cell<'r>>
    where
        'a: 'r,
    {
        Some(Cell {
            kind: self.kind?,
            text: match &self.text {
                Text::Lent(lent) => lent,
                Text::Made(range) => &text[range.clone()],
            },
            datatype: self.datatype,
            language: self.language,
            direction: self.direction,
        })
    }

    #[inline]
    fn take(&mut self, id: TermId, located: Located<'a>, terms: &Terms<'a>, text: &mut String) {
        self.id = id;
        match terms.view(id, located) {
            Some(view) => self.lend(&view, text),
            None => self.take_other(id, terms, text),
        }
    }

    /// Takes what is not text in the dictionary.
    fn take_other(&mut self, id: TermId, terms: &Terms<'a>, text: &mut String) {
        *self = Slot {
            id,
            ..Slot::empty()
        };
        let start = text.len();
        if id.is_inline() {
            self.kind = inline::write_lexical(id, text).map(|()| CellKind::Literal);
            let datatype = inline::datatype(id).filter(|known| *known != oxrdf::vocab::xsd::STRING);
            self.datatype = datatype.map(|datatype| datatype.as_str());
            self.text = Text::Made(start..text.len());
            return;
        }
        match terms.resolve_stored(id) {
            Some(Value::Text(view)) => self.lend(&view, text),
            Some(value @ Value::Triple(_)) => {
                self.kind = Some(CellKind::Triple);
                turtle(value, terms, text);
                self.text = Text::Made(start..text.len());
            }
            None => {}
        }
    }

    #[inline]
    fn lend(&mut self, view: &TermView<'a>, text: &mut String) {
        self.kind = Some(match view.kind {
            TermKind::NamedNode => CellKind::Iri,
            TermKind::BlankNode => CellKind::BlankNode,
            TermKind::Literal => CellKind::Literal,
            TermKind::Triple => CellKind::Triple,
        });
        self.text = if view.head.is_empty() {
            Text::Lent(view.tail)
        } else {
            let start = text.len();
            view.write_text(text);
            Text::Made(start..text.len())
        };
        self.datatype = view.datatype;
        self.language = view.language;
        self.direction = view.direction;
    }
}
