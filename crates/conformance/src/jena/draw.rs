//! Drawn data and drawn queries: small graphs with named ones, and groups of patterns with
//! OPTIONAL, UNION, MINUS, FILTER, EXISTS, BIND, VALUES, paths, sub-queries and aggregates over
//! them.

use super::matrix;
use crate::rsp::child;
use std::fmt::{self, Write};

/// The prologue of each query.
pub(super) const HEAD: &str = "PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>\n";

/// A drawn query, whose expressions can be replaced.
pub(super) struct DrawnQuery {
    /// The patterns that the expressions are evaluated over.
    pub(super) group: String,
    pub(super) pieces: Vec<Piece>,
}

/// A piece of a query's text.
pub(super) enum Piece {
    Text(String),
    Value(Value),
    /// An aggregate of the matrix, and what it is over.
    Aggregate {
        function: &'static str,
        value: Value,
    },
}

impl fmt::Display for DrawnQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pieces.iter().try_for_each(|piece| match piece {
            Piece::Text(text) => f.write_str(text),
            Piece::Value(value) => value.fmt(f),
            Piece::Aggregate { function, value } => write!(f, "{function}({value})"),
        })
    }
}

/// An expression, in the parts that the matrix knows.
#[derive(Clone)]
pub(super) enum Value {
    /// A variable or a term.
    Operand(String),
    /// An expression of the matrix, and what stands in it for `?a` and `?b`.
    Operation { form: String, operands: Vec<Value> },
    /// IF.
    Choice {
        condition: String,
        then: Box<Value>,
        otherwise: Box<Value>,
    },
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Operand(text) => f.write_str(text),
            Value::Operation { form, operands } => {
                let operands: Vec<String> = operands.iter().map(Value::to_string).collect();
                match form.starts_with('?') {
                    true => write!(f, "({})", matrix::applied(form, &operands)),
                    false => f.write_str(&matrix::applied(form, &operands)),
                }
            }
            Value::Choice {
                condition,
                then,
                otherwise,
            } => write!(f, "IF({condition}, {then}, {otherwise})"),
        }
    }
}

/// Draws from a seed.
pub(super) struct QueryDraw(child::Draw);

const NODES: [&str; 5] = [
    "<http://x/a>",
    "<http://x/b>",
    "<http://x/c>",
    "<http://x/d>",
    "<http://x/p>",
];
const PREDICATES: [&str; 3] = ["<http://x/p>", "<http://x/q>", "<http://x/r>"];
const GRAPHS: [&str; 2] = ["<http://x/g>", "<http://x/h>"];
const LITERALS: [&str; 16] = [
    "1",
    "2",
    "007",
    "2.5",
    "1.0",
    "1e0",
    "2.5e0",
    "\"x\"",
    "\"abc\"",
    "\"x\"@en",
    "true",
    "false",
    "\"2020-01-01T00:00:00Z\"^^<http://www.w3.org/2001/XMLSchema#dateTime>",
    "\"2020-01-02T12:00:00+01:00\"^^<http://www.w3.org/2001/XMLSchema#dateTime>",
    "\"PT36H\"^^<http://www.w3.org/2001/XMLSchema#dayTimeDuration>",
    "\"12\"^^<http://www.w3.org/2001/XMLSchema#byte>",
];
const VARIABLES: [&str; 4] = ["?a", "?b", "?c", "?d"];

impl QueryDraw {
    pub(super) fn new(seed: u64) -> QueryDraw {
        QueryDraw(child::Draw::new(seed))
    }

    fn one(&mut self, of: &[&str]) -> String {
        of[self.0.below(of.len())].to_owned()
    }

    /// True with a probability of one in `of`.
    fn chance(&mut self, of: usize) -> bool {
        self.0.below(of) == 0
    }

    /// A small dataset in N-Quads.
    pub(super) fn data(&mut self) -> String {
        let mut data = String::new();
        for _ in 0..self.0.below(24) + 2 {
            let (subject, predicate) = (self.one(&NODES), self.one(&PREDICATES));
            let object = match self.chance(2) {
                true => self.one(&NODES),
                false => n_triples(&self.one(&LITERALS)),
            };
            let graph = match self.chance(4) {
                true => self.one(&GRAPHS),
                false => String::new(),
            };
            // Writing to a String never fails.
            let _ = writeln!(data, "{subject} {predicate} {object} {graph} .");
        }
        data
    }

    /// A query.
    pub(super) fn query(&mut self) -> DrawnQuery {
        let text = |text: String| Piece::Text(text);
        let group = self.group(2);
        let bound = self.chance(2).then(|| self.value(2));
        let mut pieces = vec![text(HEAD.to_owned())];
        let mut end = String::new();
        match self.0.below(8) {
            0 => pieces.push(text("ASK".to_owned())),
            1 => {
                pieces.push(text("SELECT (".to_owned()));
                pieces.extend(self.aggregate());
                pieces.push(text(" AS ?x)".to_owned()));
            }
            2 => {
                let key = self.one(&VARIABLES);
                pieces.push(text(format!("SELECT {key} (")));
                pieces.extend(self.aggregate());
                pieces.push(text(" AS ?x)".to_owned()));
                end = format!(" GROUP BY {key} HAVING(COUNT(*) > 1)");
            }
            3 => pieces.push(text("SELECT DISTINCT ?a ?b".to_owned())),
            _ => pieces.push(text("SELECT ?a ?b ?c ?d ?e ?f".to_owned())),
        }
        pieces.push(text(format!(" {{ {group}")));
        if let Some(value) = bound {
            let (before, after) = (" BIND(".to_owned(), " AS ?f)".to_owned());
            pieces.extend([text(before), Piece::Value(value), text(after)]);
        }
        pieces.push(text(format!(" }}{end}")));
        DrawnQuery { group, pieces }
    }

    fn aggregate(&mut self) -> Vec<Piece> {
        let value = match self.chance(3) {
            true => self.value(1),
            false => Value::Operand(self.one(&VARIABLES)),
        };
        let text = |text: &str| Piece::Text(text.to_owned());
        let aggregate = |function, value| vec![Piece::Aggregate { function, value }];
        let function = match self.0.below(5) {
            0 => return vec![text("COUNT(*)")],
            1 => "COUNT(",
            2 => "COUNT(DISTINCT ",
            3 => return aggregate("SUM", value),
            _ => return aggregate("AVG", value),
        };
        vec![text(function), Piece::Value(value), text(")")]
    }

    fn pattern(&mut self) -> String {
        let subject = match self.chance(5) {
            true => self.one(&NODES),
            false => self.one(&VARIABLES),
        };
        let predicate = match self.0.below(12) {
            0 => self.one(&VARIABLES),
            1 => self.path(),
            _ => self.one(&PREDICATES),
        };
        let object = match self.0.below(8) {
            0 => self.one(&NODES),
            1 => self.one(&LITERALS),
            _ => self.one(&VARIABLES),
        };
        format!("{subject} {predicate} {object} .")
    }

    fn path(&mut self) -> String {
        let (p, q) = (self.one(&PREDICATES), self.one(&PREDICATES));
        match self.0.below(6) {
            0 => format!("^{p}"),
            1 => format!("{p}/{q}"),
            2 => format!("{p}|{q}"),
            3 => format!("{p}+"),
            4 => format!("({p}/{q})*"),
            _ => format!("!({p}|^{q})"),
        }
    }

    fn patterns(&mut self) -> String {
        let count = 1 + self.0.below(3);
        (0..count)
            .map(|_| self.pattern())
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// The contents of a pair of braces.
    fn group(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.patterns();
        }
        let mut elements = vec![self.patterns()];
        for _ in 0..self.0.below(3) {
            let element = match self.0.below(10) {
                0 | 1 => format!("FILTER({})", self.condition(1)),
                2 | 3 => format!("OPTIONAL {{ {} }}", self.group(depth - 1)),
                4 => {
                    let (a, b) = (self.group(depth - 1), self.group(depth - 1));
                    format!("{{ {a} }} UNION {{ {b} }}")
                }
                5 => format!("MINUS {{ {} }}", self.group(depth - 1)),
                6 => {
                    let name = match self.chance(2) {
                        true => "?d".to_owned(),
                        false => self.one(&GRAPHS),
                    };
                    format!("GRAPH {name} {{ {} }}", self.patterns())
                }
                7 => {
                    let (a, b) = (self.one(&LITERALS), self.one(&NODES));
                    format!(
                        "VALUES ({} ?e) {{ ({b} {a}) (UNDEF {b}) }}",
                        self.one(&VARIABLES)
                    )
                }
                8 => {
                    let group = self.group(depth - 1);
                    format!("{{ SELECT DISTINCT ?a ?b {{ {group} }} }}")
                }
                _ => self.patterns(),
            };
            elements.push(element);
        }
        elements.join(" ")
    }

    fn operand(&mut self) -> String {
        match self.0.below(4) {
            0 => self.one(&LITERALS),
            1 => self.one(&NODES),
            _ => self.one(&VARIABLES),
        }
    }

    /// An expression.
    fn value(&mut self, depth: usize) -> Value {
        if depth == 0 {
            return Value::Operand(self.operand());
        }
        let a = self.value(depth - 1);
        let of_one = |form: &str, a| Value::Operation {
            form: form.to_owned(),
            operands: vec![a],
        };
        match self.0.below(9) {
            0..=2 => {
                let form = self.one(&["?a + ?b", "?a - ?b", "?a * ?b"]);
                let operands = vec![a, self.value(depth - 1)];
                Value::Operation { form, operands }
            }
            3 => Value::Operation {
                form: "COALESCE(?a, ?b)".to_owned(),
                operands: vec![a, Value::Operand("\"none\"".to_owned())],
            },
            4 => Value::Choice {
                condition: self.condition(0),
                then: Box::new(a),
                otherwise: Box::new(Value::Operand("0".to_owned())),
            },
            5 => of_one("STR(?a)", a),
            6 => of_one("ABS(?a)", a),
            7 => of_one("DATATYPE(?a)", a),
            _ => a,
        }
    }

    fn condition(&mut self, depth: usize) -> String {
        if depth > 0 && self.chance(3) {
            let (a, b) = (self.condition(depth - 1), self.condition(depth - 1));
            return match self.0.below(3) {
                0 => format!("({a} || {b})"),
                1 => format!("({a} && {b})"),
                _ => format!("!({a})"),
            };
        }
        let a = self.operand();
        match self.0.below(9) {
            0 => format!("BOUND({})", self.one(&VARIABLES)),
            1 => format!("isIRI({a})"),
            2 => format!("isNumeric({a})"),
            3 => format!("sameTerm({a}, {})", self.operand()),
            4 => format!("{a} IN ({}, {})", self.operand(), self.operand()),
            5 if depth > 0 => format!("EXISTS {{ {} }}", self.patterns()),
            6 => format!("NOT EXISTS {{ {} }}", self.patterns()),
            _ => {
                let sign = self.one(&["=", "!=", "<", "<=", ">", ">="]);
                format!("({a} {sign} {})", self.operand())
            }
        }
    }
}

/// A SPARQL literal, written in N-Triples.
fn n_triples(literal: &str) -> String {
    let datatype = match literal {
        text if text.starts_with('"') => return text.to_owned(),
        "true" | "false" => "boolean",
        number if number.contains('e') => "double",
        number if number.contains('.') => "decimal",
        _ => "integer",
    };
    format!("\"{literal}\"^^<http://www.w3.org/2001/XMLSchema#{datatype}>")
}
