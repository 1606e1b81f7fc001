//! The arguments of a call, against the parameters of its procedure.

use crate::algebra::procedure::{CreateProcedure, Parameter, ParameterKind};
use oxrdf::vocab::xsd;
use oxrdf::{Literal, LiteralRef, NamedNode, Term};

impl ParameterKind {
    /// Whether a parameter of this kind takes a term. A literal of a declared datatype that is a
    /// number or a boolean must be one: `"ten"^^xsd:integer` is none.
    #[must_use]
    pub fn takes(&self, term: &Term) -> bool {
        match (self, term) {
            (ParameterKind::Any, _)
            | (ParameterKind::Iri, Term::NamedNode(_))
            | (ParameterKind::Literal, Term::Literal(_)) => true,
            (ParameterKind::Datatype(datatype), Term::Literal(literal)) => {
                literal.datatype() == *datatype && is_well_formed(literal.as_ref())
            }
            _ => false,
        }
    }
}

/// An argument of a call that is given by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Argument {
    /// A term.
    Term(Term),
    /// A text without a kind of its own: an IRI where the parameter takes IRIs alone, and a simple
    /// literal elsewhere.
    Text(String),
}

impl Argument {
    fn term(self, parameter: &Parameter) -> Result<Term, String> {
        match (self, &parameter.kind) {
            (Argument::Term(term), _) => Ok(term),
            (Argument::Text(text), ParameterKind::Iri) => match NamedNode::new(&text) {
                Ok(name) => Ok(name.into()),
                Err(error) => Err(format!(
                    "?{} cannot be \"{text}\", which is no IRI ({error})",
                    parameter.name
                )),
            },
            (Argument::Text(text), _) => Ok(Literal::new_simple_literal(text).into()),
        }
    }
}

impl CreateProcedure {
    /// Checks arguments that are given in the order of the parameters.
    ///
    /// ```
    /// use somersault_lang::{Parser, Statement};
    /// let parser = Parser::new();
    /// let text = "CREATE PROCEDURE close (?account IRI) AS { DELETE WHERE { ?account ?p ?o } }";
    /// let Statement::CreateProcedure(close) = parser.parse_statement(text)? else { panic!() };
    /// let call = parser.parse_statement("CALL close(<urn:a>)")?;
    /// let Statement::Call(call) = call else { panic!() };
    /// assert_eq!(close.check_arguments(&call.arguments), Ok(()));
    /// let refused = close.check_arguments(&[]).unwrap_err();
    /// assert!(refused.starts_with("the argument ?account is missing"));
    /// # Ok::<_, somersault_lang::ParseError>(())
    /// ```
    ///
    /// # Errors
    /// A sentence that says which argument is missing, extra or of another kind.
    pub fn check_arguments(&self, arguments: &[Term]) -> Result<(), String> {
        if let Some(missing) = self.parameters.get(arguments.len()) {
            return Err(self.refusal(&format!("the argument ?{} is missing", missing.name)));
        }
        if let Some(extra) = arguments.get(self.parameters.len()) {
            return Err(self.refusal(&format!("the argument {extra} is one too many")));
        }
        let mut pairs = self.parameters.iter().zip(arguments);
        match pairs.find(|(parameter, term)| !parameter.kind.takes(term)) {
            None => Ok(()),
            Some((parameter, term)) => {
                let said = format!("?{} cannot be {term}", parameter.name);
                Err(self.refusal(&said))
            }
        }
    }

    /// Puts arguments that are given by name into the order of the parameters, and checks them.
    ///
    /// # Errors
    /// As [`CreateProcedure::check_arguments`]; and where there is no parameter of a name.
    pub fn named_arguments(&self, given: Vec<(String, Argument)>) -> Result<Vec<Term>, String> {
        let mut arguments: Vec<Option<Term>> = vec![None; self.parameters.len()];
        for (name, argument) in given {
            let Some(at) = self.parameters.iter().position(|it| it.name == name) else {
                return Err(self.refusal(&format!("there is no parameter ?{name}")));
            };
            let term = argument.term(&self.parameters[at]);
            let term = term.map_err(|said| self.refusal(&said))?;
            if arguments[at].replace(term).is_some() {
                return Err(self.refusal(&format!("the argument ?{name} is given twice")));
            }
        }
        let missing = (self.parameters.iter().zip(&arguments)).find(|(_, term)| term.is_none());
        if let Some((parameter, _)) = missing {
            return Err(self.refusal(&format!("the argument ?{} is missing", parameter.name)));
        }
        let arguments: Vec<Term> = arguments.into_iter().flatten().collect();
        self.check_arguments(&arguments)?;
        Ok(arguments)
    }

    fn refusal(&self, said: &str) -> String {
        let parameter = |it: &Parameter| format!("?{} {}", it.name, it.kind);
        let parameters: Vec<String> = self.parameters.iter().map(parameter).collect();
        format!("{said}; write {} ({})", self.name, parameters.join(", "))
    }
}

/// Whether the text of a literal of xsd:integer, xsd:decimal or xsd:boolean has the form of one
/// (XML Schema 1.1 Part 2, sections 3.3.2, 3.3.3 and 3.4.13). Of other datatypes nothing is known.
fn is_well_formed(literal: LiteralRef<'_>) -> bool {
    let (text, datatype) = (literal.value(), literal.datatype());
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if datatype == xsd::INTEGER {
        !unsigned.is_empty() && are_digits(unsigned)
    } else if datatype == xsd::DECIMAL {
        let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
        are_digits(whole) && are_digits(fraction) && !(whole.is_empty() && fraction.is_empty())
    } else if datatype == xsd::BOOLEAN {
        matches!(text, "true" | "false" | "0" | "1")
    } else {
        true
    }
}
