//! SPARQL Query Results XML, with the elements of SPARQL 1.2 for triple terms and directions.

use super::Syntax;
use crate::error::AnswerError;
use crate::escape::{xml, xml_literal};
use crate::terms::{Terms, Value};
use oxrdf::BaseDirection;
use somersault_dictionary::{TermKind, TermView};

/// The start tags of the columns: `<binding name="x">`.
pub(crate) struct Xml {
    bindings: Vec<String>,
}

impl Xml {
    /// # Errors
    /// A name holds a character that XML cannot express.
    pub(crate) fn new(variables: &[String]) -> Result<Xml, AnswerError> {
        let binding = |variable: &String| -> Result<String, AnswerError> {
            let mut tag = "<binding name=\"".to_owned();
            xml(variable, &mut tag)?;
            tag.push_str("\">");
            Ok(tag)
        };
        Ok(Xml {
            bindings: variables.iter().map(binding).collect::<Result<_, _>>()?,
        })
    }
}

impl Syntax for Xml {
    fn head(&self, _variables: &[String], out: &mut String) {
        out.push_str("<?xml version=\"1.0\"?><sparql xmlns=\"http://www.w3.org/2005/sparql-results#\"><head>");
        for binding in &self.bindings {
            let name = binding.trim_start_matches("<binding").trim_end_matches('>');
            out.push_str("<variable");
            out.push_str(name);
            out.push_str("/>");
        }
        out.push_str("</head><results>");
    }

    fn open_row(&self, _row: usize, out: &mut String) {
        out.push_str("<result>");
    }

    fn separate(&self, _column: usize, _bound_before: bool, _bound: bool, _out: &mut String) {}

    fn cell(
        &self,
        column: usize,
        value: Value<'_>,
        terms: &Terms<'_>,
        out: &mut String,
    ) -> Result<(), AnswerError> {
        out.push_str(&self.bindings[column]);
        write(value, terms, out)?;
        out.push_str("</binding>");
        Ok(())
    }

    fn close_row(&self, out: &mut String) {
        out.push_str("</result>");
    }

    fn tail(&self, out: &mut String) {
        out.push_str("</results></sparql>");
    }
}

fn write(value: Value<'_>, terms: &Terms<'_>, out: &mut String) -> Result<(), AnswerError> {
    let view = match value {
        Value::Text(view) => view,
        Value::Triple(parts) => {
            out.push_str("<triple>");
            for (name, part) in ["subject", "predicate", "object"].into_iter().zip(parts) {
                out.extend(["<", name, ">"]);
                if let Some(value) = terms.resolve_part(part, &mut String::new()) {
                    write(value, terms, out)?;
                }
                out.extend(["</", name, ">"]);
            }
            out.push_str("</triple>");
            return Ok(());
        }
    };
    let (start, end) = match view.kind {
        TermKind::NamedNode => ("<uri>", "</uri>"),
        TermKind::BlankNode => ("<bnode>", "</bnode>"),
        TermKind::Literal | TermKind::Triple => return literal(&view, out),
    };
    out.push_str(start);
    xml(view.head, out)?;
    xml(view.tail, out)?;
    out.push_str(end);
    Ok(())
}

fn literal(view: &TermView<'_>, out: &mut String) -> Result<(), AnswerError> {
    out.push_str("<literal");
    if let Some(language) = view.language {
        out.push_str(" xml:lang=\"");
        xml(language, out)?;
        out.push('"');
        if let Some(direction) = view.direction {
            out.push_str(match direction {
                BaseDirection::Ltr => " its:dir=\"ltr\"",
                BaseDirection::Rtl => " its:dir=\"rtl\"",
            });
            out.push_str(" xmlns:its=\"http://www.w3.org/2005/11/its\" its:version=\"2.0\"");
        }
    } else if let Some(datatype) = view.datatype {
        out.push_str(" datatype=\"");
        xml(datatype, out)?;
        out.push('"');
    }
    out.push('>');
    xml_literal(view, out)?;
    out.push_str("</literal>");
    Ok(())
}
