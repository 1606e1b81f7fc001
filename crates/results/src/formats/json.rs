//! SPARQL 1.1 Query Results JSON, with the members of SPARQL 1.2 for triple terms and directions.

use super::Syntax;
use crate::error::AnswerError;
use crate::escape::json;
use crate::terms::{Terms, Value};
use oxrdf::BaseDirection;
use somersault_dictionary::{TermKind, TermView};

/// The names of the columns, each as it appears before a binding: `"x":`.
pub(crate) struct Json {
    names: Vec<String>,
}

impl Json {
    pub(crate) fn new(variables: &[String]) -> Json {
        let name = |variable: &String| {
            let mut name = String::with_capacity(variable.len() + 3);
            quoted(variable, &mut name);
            name.push(':');
            name
        };
        Json {
            names: variables.iter().map(name).collect(),
        }
    }
}

fn quoted(text: &str, out: &mut String) {
    out.push('"');
    json(text, out);
    out.push('"');
}

impl Syntax for Json {
    fn head(&self, variables: &[String], out: &mut String) {
        out.push_str("{\"head\":{\"vars\":[");
        for (at, variable) in variables.iter().enumerate() {
            if at > 0 {
                out.push(',');
            }
            quoted(variable, out);
        }
        out.push_str("]},\"results\":{\"bindings\":[");
    }

    #[inline]
    fn open_row(&self, row: usize, out: &mut String) {
        out.push_str(if row > 0 { ",{" } else { "{" });
    }

    #[inline]
    fn separate(&self, _column: usize, bound_before: bool, bound: bool, out: &mut String) {
        if bound && bound_before {
            out.push(',');
        }
    }

    #[inline]
    fn cell(
        &self,
        column: usize,
        value: Value<'_>,
        terms: &Terms<'_>,
        out: &mut String,
    ) -> Result<(), AnswerError> {
        out.push_str(&self.names[column]);
        write(value, terms, out);
        Ok(())
    }

    #[inline]
    fn close_row(&self, out: &mut String) {
        out.push('}');
    }

    fn tail(&self, out: &mut String) {
        out.push_str("]}}");
    }
}

/// Lines of JSON: each row is an object as in the bindings of SPARQL 1.1 Query Results JSON. A row
/// without a bound column is `{}`.
pub(crate) struct JsonLines(Json);

impl JsonLines {
    pub(crate) fn new(variables: &[String]) -> JsonLines {
        JsonLines(Json::new(variables))
    }
}

impl Syntax for JsonLines {
    fn head(&self, _variables: &[String], _out: &mut String) {}

    #[inline]
    fn open_row(&self, _row: usize, out: &mut String) {
        out.push('{');
    }

    #[inline]
    fn separate(&self, column: usize, bound_before: bool, bound: bool, out: &mut String) {
        self.0.separate(column, bound_before, bound, out);
    }

    #[inline]
    fn cell(
        &self,
        column: usize,
        value: Value<'_>,
        terms: &Terms<'_>,
        out: &mut String,
    ) -> Result<(), AnswerError> {
        self.0.cell(column, value, terms, out)
    }

    #[inline]
    fn close_row(&self, out: &mut String) {
        out.push_str("}\n");
    }

    fn tail(&self, _out: &mut String) {}
}

#[inline]
fn write(value: Value<'_>, terms: &Terms<'_>, out: &mut String) {
    let view = match value {
        Value::Text(view) => view,
        Value::Triple(parts) => {
            let names = [
                "{\"type\":\"triple\",\"value\":{\"subject\":",
                ",\"predicate\":",
                ",\"object\":",
            ];
            for (name, part) in names.into_iter().zip(parts) {
                out.push_str(name);
                if let Some(value) = terms.resolve_part(part, &mut String::new()) {
                    write(value, terms, out);
                }
            }
            return out.push_str("}}");
        }
    };
    out.push_str(match view.kind {
        TermKind::NamedNode => "{\"type\":\"uri\",\"value\":\"",
        TermKind::BlankNode => "{\"type\":\"bnode\",\"value\":\"",
        TermKind::Literal | TermKind::Triple => "{\"type\":\"literal\",\"value\":\"",
    });
    json(view.head, out);
    json(view.tail, out);
    if view.kind == TermKind::Literal {
        kind_of_literal(&view, out);
    }
    out.push_str("\"}");
}

/// Appends the part after a literal's text, up to the last quote.
fn kind_of_literal(view: &TermView<'_>, out: &mut String) {
    if let Some(language) = view.language {
        out.push_str("\",\"xml:lang\":\"");
        json(language, out);
        match view.direction {
            Some(BaseDirection::Ltr) => out.push_str("\",\"its:dir\":\"ltr"),
            Some(BaseDirection::Rtl) => out.push_str("\",\"its:dir\":\"rtl"),
            None => {}
        }
    } else if let Some(datatype) = view.datatype {
        out.push_str("\",\"datatype\":\"");
        json(datatype, out);
    }
}
