//! REGEX, CONTAINS, STRSTARTS and STRENDS with a constant, on a variable or its STR: tested on the
//! texts of a whole column in place in the dictionary, whose memory is prefetched.

use crate::algebra::expression::Expr;
use crate::eval::evaluate::Evaluation;
use crate::value::term_value::Value;
use memchr::memmem::Finder;
use regex::Regex;
use somersault_dictionary::{TermKind, TermView};
use somersault_lang::{Function, VarId};
use somersault_model::TermId;

/// A test of texts against a constant.
pub(crate) struct TextTest<'e> {
    pub(crate) variable: VarId,
    /// With STR: tests the text of IRIs and of all literals; otherwise of strings only.
    of_all: bool,
    test: Test<'e>,
}

enum Test<'e> {
    Matches(&'e Regex),
    Contains(Box<Finder<'static>>),
    Starts(String),
    Ends(String),
}

impl<'e> TextTest<'e> {
    /// The condition as a text test; `None` if it does not have this form.
    pub(crate) fn of(e: &mut Evaluation<'_>, expr: &'e Expr) -> Option<TextTest<'e>> {
        let (argument, test) = match expr {
            Expr::Matches(of, regex) => (&**of, Test::Matches(regex)),
            Expr::Call(function, arguments) => {
                let [of, Expr::Constant(part)] = arguments.as_slice() else {
                    return None;
                };
                let test = match function {
                    Function::Contains => |part: String| {
                        Test::Contains(Box::new(Finder::new(part.as_bytes()).into_owned()))
                    },
                    Function::StrStarts => Test::Starts,
                    Function::StrEnds => Test::Ends,
                    _ => return None,
                };
                // A part without a language is compatible with any.
                let Value::String(part) = e.value(e.constants[part.index()])? else {
                    return None;
                };
                (of, test(part))
            }
            _ => return None,
        };
        let (variable, of_all) = match argument {
            Expr::Variable(variable) => (*variable, false),
            Expr::Call(Function::Str, inner) => match inner.as_slice() {
                [Expr::Variable(variable)] => (*variable, true),
                _ => return None,
            },
            _ => return None,
        };
        Some(TextTest {
            variable,
            of_all,
            test,
        })
    }

    /// Tests some ids in turn; `None` for those without a text of this kind.
    pub(crate) fn ask(
        &self,
        e: &Evaluation<'_>,
        ids: &[TermId],
        mut each: impl FnMut(Option<bool>),
    ) {
        let mut joined = String::new();
        e.dictionary.decode_column(ids, |_, view| {
            let view = view.filter(|view| self.takes(view));
            each(view.map(|view| {
                if view.head.is_empty() {
                    return self.holds(view.tail);
                }
                joined.clear();
                view.write_text(&mut joined);
                self.holds(&joined)
            }));
        });
    }

    fn takes(&self, view: &TermView<'_>) -> bool {
        match view.kind {
            TermKind::Literal if self.of_all => true,
            TermKind::Literal => view.datatype.is_none() && view.language.is_none(),
            TermKind::NamedNode => self.of_all,
            TermKind::BlankNode | TermKind::Triple => false,
        }
    }

    fn holds(&self, text: &str) -> bool {
        match &self.test {
            Test::Matches(regex) => regex.is_match(text),
            Test::Contains(finder) => finder.find(text.as_bytes()).is_some(),
            Test::Starts(part) => text.starts_with(part.as_str()),
            Test::Ends(part) => text.ends_with(part.as_str()),
        }
    }
}
