//! Cuts a JSON text at the ends of the elements of its outermost array, byte by byte. A text that
//! is no array is one piece.
//!
//! The one thing to know: brackets and strings alone tell where an element ends, so an element with
//! another fault refuses itself and not those behind it. The piece before the array, and the one
//! behind it, hold white space in a well-formed text.

use super::delimiters::Delimiter;

/// The state between two bytes.
#[derive(Debug, Default)]
pub(crate) struct ElementCutter {
    state: CutState,
    /// The brackets that are open inside the array.
    depth: usize,
    is_in_text: bool,
    is_escaped: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum CutState {
    /// Nothing but white space, and perhaps a byte order mark, has come.
    #[default]
    Start,
    /// The text is no array.
    One,
    /// Inside the array.
    Array,
    /// Behind the array.
    Behind,
}

impl ElementCutter {
    /// Whether the text is an array that has not ended.
    pub(crate) fn is_open(&self) -> bool {
        self.state == CutState::Array
    }

    /// Whether the array has ended.
    pub(crate) fn is_behind(&self) -> bool {
        self.state == CutState::Behind
    }

    /// Goes on from `at` to the next bracket or comma of the array, or to the end of the bytes.
    pub(crate) fn next(&mut self, bytes: &[u8], at: &mut usize) -> Option<Delimiter> {
        while let Some(&byte) = bytes.get(*at) {
            match self.state {
                CutState::Start => {
                    let is_blank = byte.is_ascii_whitespace() || b"\xef\xbb\xbf".contains(&byte);
                    match byte {
                        b'[' => {
                            self.state = CutState::Array;
                            return Some(cut(at));
                        }
                        _ if is_blank => *at += 1,
                        _ => self.state = CutState::One,
                    }
                }
                CutState::One | CutState::Behind => *at = bytes.len(),
                CutState::Array => {
                    if self.ends_element(byte) {
                        return Some(cut(at));
                    }
                    *at += 1;
                }
            }
        }
        None
    }

    /// Takes a byte of the array.
    fn ends_element(&mut self, byte: u8) -> bool {
        match byte {
            _ if self.is_escaped => self.is_escaped = false,
            b'\\' if self.is_in_text => self.is_escaped = true,
            b'"' => self.is_in_text = !self.is_in_text,
            _ if self.is_in_text => {}
            b'{' | b'[' => self.depth += 1,
            b']' if self.depth == 0 => {
                self.state = CutState::Behind;
                return true;
            }
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            b',' => return self.depth == 0,
            _ => {}
        }
        false
    }
}

/// A delimiter of the one byte here, behind which reading goes on.
fn cut(at: &mut usize) -> Delimiter {
    *at += 1;
    Delimiter::plain(*at - 1..*at)
}
