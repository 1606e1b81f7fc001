//! The algebra of a query as text, one operator a line: what the golden files show.

use somersault_lang::{
    Aggregate, AggregateFunction, Arithmetic, Comparison, Expression, Function, NameOrVariable,
    PathExpression, Pattern, Query, QueryForm, TemplateGraph, TemplateTerm, TermPattern,
    TripleTemplate, VarId,
};
use std::fmt::Write;

/// The algebra as indented text: the form, the dataset clause, then one operator a line.
pub(crate) fn algebra_text(query: &Query) -> String {
    let mut printer = Printer {
        names: &query.variables,
        out: String::new(),
    };
    match &query.form {
        QueryForm::Select { projection } => {
            printer.line(0, &format!("SELECT {}", printer.variables(projection)))
        }
        QueryForm::Describe { projection } => {
            printer.line(0, &format!("DESCRIBE {}", printer.variables(projection)))
        }
        QueryForm::Ask => printer.line(0, "ASK"),
        QueryForm::Construct { template } => {
            printer.line(0, "CONSTRUCT");
            for quad in template {
                let triple = printer.template_triple(&quad.triple);
                let line = match &quad.graph {
                    TemplateGraph::Default => triple,
                    TemplateGraph::Named(name) => {
                        format!("graph {} {triple}", printer.name(name))
                    }
                };
                printer.line(1, &line);
            }
        }
    }
    for graph in &query.dataset.default {
        printer.line(0, &format!("FROM {graph}"));
    }
    for graph in &query.dataset.named {
        printer.line(0, &format!("FROM NAMED {graph}"));
    }
    printer.pattern(0, &query.pattern);
    printer.out
}

struct Printer<'q> {
    names: &'q [String],
    out: String,
}

impl Printer<'_> {
    fn line(&mut self, depth: usize, text: &str) {
        let _ = writeln!(self.out, "{:width$}{text}", "", width = depth * 2);
    }

    fn variable(&self, id: VarId) -> String {
        let name = &self.names[id.index()];
        if name.starts_with("_:") {
            name.clone()
        } else {
            format!("?{name}")
        }
    }

    fn variables(&self, ids: &[VarId]) -> String {
        ids.iter()
            .map(|&id| self.variable(id))
            .collect::<Vec<_>>()
            .join(" ")
    }

    fn name(&self, name: &NameOrVariable) -> String {
        match name {
            NameOrVariable::NamedNode(node) => node.to_string(),
            NameOrVariable::Variable(id) => self.variable(*id),
        }
    }

    fn term(&self, term: &TermPattern) -> String {
        match term {
            TermPattern::Term(term) => term.to_string(),
            TermPattern::Variable(id) => self.variable(*id),
            TermPattern::Triple(t) => {
                format!(
                    "<<( {} {} {} )>>",
                    self.term(&t.subject),
                    self.name(&t.predicate),
                    self.term(&t.object)
                )
            }
        }
    }

    fn template_triple(&self, triple: &TripleTemplate) -> String {
        format!(
            "{} {} {}",
            self.template_term(&triple.subject),
            self.name(&triple.predicate),
            self.template_term(&triple.object)
        )
    }

    fn template_term(&self, term: &TemplateTerm) -> String {
        match term {
            TemplateTerm::Term(term) => term.to_string(),
            TemplateTerm::Variable(id) => self.variable(*id),
            TemplateTerm::BlankNode(number) => format!("_:new{number}"),
            TemplateTerm::Triple(triple) => format!("<<( {} )>>", self.template_triple(triple)),
        }
    }

    /// An operator's line, then its inner patterns one level deeper.
    fn operator(&mut self, depth: usize, line: &str, inner: &[&Pattern]) {
        self.line(depth, line);
        for pattern in inner {
            self.pattern(depth + 1, pattern);
        }
    }

    fn pattern(&mut self, depth: usize, pattern: &Pattern) {
        match pattern {
            Pattern::Bgp(triples) => {
                self.line(depth, "bgp");
                for triple in triples {
                    let line = format!(
                        "{} {} {}",
                        self.term(&triple.subject),
                        self.name(&triple.predicate),
                        self.term(&triple.object)
                    );
                    self.line(depth + 1, &line);
                }
            }
            Pattern::Path {
                subject,
                path,
                object,
            } => {
                let line = format!(
                    "path {} {} {}",
                    self.term(subject),
                    path_text(path),
                    self.term(object)
                );
                self.line(depth, &line);
            }
            Pattern::Join(members) => {
                self.operator(depth, "join", &members.iter().collect::<Vec<_>>())
            }
            Pattern::Union(members) => {
                self.operator(depth, "union", &members.iter().collect::<Vec<_>>())
            }
            Pattern::LeftJoin {
                left,
                right,
                filter,
            } => {
                let line = match filter {
                    Some(filter) => format!("left join on {}", self.expression(filter)),
                    None => "left join".to_owned(),
                };
                self.operator(depth, &line, &[left, right]);
            }
            Pattern::Minus { left, right } => self.operator(depth, "minus", &[left, right]),
            Pattern::Filter { inner, condition } => {
                let line = format!("filter {}", self.expression(condition));
                self.operator(depth, &line, &[inner]);
            }
            Pattern::Extend {
                inner,
                variable,
                expression,
            } => {
                let line = format!(
                    "extend {} = {}",
                    self.variable(*variable),
                    self.expression(expression)
                );
                self.operator(depth, &line, &[inner]);
            }
            Pattern::Graph { name, inner } => {
                let line = format!("graph {}", self.name(name));
                self.operator(depth, &line, &[inner]);
            }
            Pattern::Values { variables, rows } => {
                let line = format!("values {}", self.variables(variables));
                self.line(depth, &line);
                for row in rows {
                    let cells: Vec<String> = row
                        .iter()
                        .map(|cell| {
                            cell.as_ref()
                                .map_or("UNDEF".to_owned(), ToString::to_string)
                        })
                        .collect();
                    self.line(depth + 1, &cells.join(" "));
                }
            }
            Pattern::Group {
                inner,
                keys,
                aggregates,
            } => {
                let mut line = format!("group {}", self.variables(keys));
                for (variable, aggregate) in aggregates {
                    let _ = write!(
                        line,
                        " ({} = {})",
                        self.variable(*variable),
                        self.aggregate(aggregate)
                    );
                }
                self.operator(depth, line.trim_end(), &[inner]);
            }
            Pattern::OrderBy { inner, keys } => {
                let keys: Vec<String> = keys
                    .iter()
                    .map(|key| {
                        format!(
                            "{}{}",
                            self.expression(&key.expression),
                            if key.descending { " desc" } else { "" }
                        )
                    })
                    .collect();
                self.operator(depth, &format!("order by {}", keys.join(", ")), &[inner]);
            }
            Pattern::Project { inner, variables } => {
                let line = format!("project {}", self.variables(variables));
                self.operator(depth, line.trim_end(), &[inner]);
            }
            Pattern::Distinct(inner) => self.operator(depth, "distinct", &[inner]),
            Pattern::Reduced(inner) => self.operator(depth, "reduced", &[inner]),
            Pattern::Slice {
                inner,
                offset,
                limit,
            } => {
                let limit = limit.map_or("all".to_owned(), |limit| limit.to_string());
                self.operator(depth, &format!("slice from {offset}, {limit}"), &[inner]);
            }
            Pattern::Service {
                name,
                silent,
                inner,
                ..
            } => {
                let line = format!(
                    "service {}{}",
                    if *silent { "silent " } else { "" },
                    self.name(name)
                );
                self.operator(depth, &line, &[inner]);
            }
        }
    }

    fn list(&self, expressions: &[Expression], separator: &str) -> String {
        expressions
            .iter()
            .map(|expression| self.expression(expression))
            .collect::<Vec<_>>()
            .join(separator)
    }

    fn expression(&self, expression: &Expression) -> String {
        match expression {
            Expression::Constant(term) => term.to_string(),
            Expression::Variable(id) => self.variable(*id),
            Expression::Bound(id) => format!("BOUND({})", self.variable(*id)),
            Expression::Or(members) => format!("({})", self.list(members, " || ")),
            Expression::And(members) => format!("({})", self.list(members, " && ")),
            Expression::Not(a) => format!("!{}", self.expression(a)),
            Expression::Compare(comparison, a, b) => {
                let sign = match comparison {
                    Comparison::Equal => "=",
                    Comparison::Less => "<",
                    Comparison::LessOrEqual => "<=",
                    Comparison::Greater => ">",
                    Comparison::GreaterOrEqual => ">=",
                };
                format!("({} {sign} {})", self.expression(a), self.expression(b))
            }
            Expression::SameTerm(a, b) => {
                format!("sameTerm({}, {})", self.expression(a), self.expression(b))
            }
            Expression::In(a, list) => {
                format!("({} IN ({}))", self.expression(a), self.list(list, ", "))
            }
            Expression::Arithmetic(operator, a, b) => {
                let sign = match operator {
                    Arithmetic::Add => "+",
                    Arithmetic::Subtract => "-",
                    Arithmetic::Multiply => "*",
                    Arithmetic::Divide => "/",
                };
                format!("({} {sign} {})", self.expression(a), self.expression(b))
            }
            Expression::UnaryPlus(a) => format!("+{}", self.expression(a)),
            Expression::UnaryMinus(a) => format!("-{}", self.expression(a)),
            Expression::Exists(pattern) => {
                let mut inner = Printer {
                    names: self.names,
                    out: String::new(),
                };
                inner.pattern(0, pattern);
                let lines: Vec<&str> = inner.out.lines().map(str::trim).collect();
                format!("EXISTS {{ {} }}", lines.join("; "))
            }
            Expression::If(a, b, c) => {
                format!(
                    "IF({}, {}, {})",
                    self.expression(a),
                    self.expression(b),
                    self.expression(c)
                )
            }
            Expression::Coalesce(list) => format!("COALESCE({})", self.list(list, ", ")),
            Expression::Call(Function::Custom(name), arguments) => {
                format!("{name}({})", self.list(arguments, ", "))
            }
            Expression::Call(function, arguments) => {
                format!(
                    "{}({})",
                    format!("{function:?}").to_ascii_uppercase(),
                    self.list(arguments, ", ")
                )
            }
        }
    }

    fn aggregate(&self, aggregate: &Aggregate) -> String {
        let distinct = |distinct: &bool| if *distinct { "DISTINCT " } else { "" };
        match aggregate {
            Aggregate::CountSolutions { distinct: d } => format!("COUNT({}*)", distinct(d)),
            Aggregate::Of {
                function,
                distinct: d,
                expression,
            } => {
                let name = match function {
                    AggregateFunction::Count => "COUNT".to_owned(),
                    AggregateFunction::Sum => "SUM".to_owned(),
                    AggregateFunction::Avg => "AVG".to_owned(),
                    AggregateFunction::Min => "MIN".to_owned(),
                    AggregateFunction::Max => "MAX".to_owned(),
                    AggregateFunction::Sample => "SAMPLE".to_owned(),
                    AggregateFunction::GroupConcat { separator } => {
                        format!("GROUP_CONCAT[{separator:?}]")
                    }
                    AggregateFunction::Custom(name) => name.to_string(),
                };
                format!("{name}({}{})", distinct(d), self.expression(expression))
            }
        }
    }
}

fn path_text(path: &PathExpression) -> String {
    let joined = |members: &[PathExpression], separator: &str| {
        members
            .iter()
            .map(path_text)
            .collect::<Vec<_>>()
            .join(separator)
    };
    match path {
        PathExpression::Predicate(node) => node.to_string(),
        PathExpression::Inverse(inner) => format!("^{}", path_text(inner)),
        PathExpression::Sequence(members) => format!("({})", joined(members, "/")),
        PathExpression::Alternative(members) => format!("({})", joined(members, "|")),
        PathExpression::ZeroOrMore(inner) => format!("{}*", path_text(inner)),
        PathExpression::OneOrMore(inner) => format!("{}+", path_text(inner)),
        PathExpression::ZeroOrOne(inner) => format!("{}?", path_text(inner)),
        PathExpression::Negated(nodes) => {
            format!(
                "!({})",
                nodes
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join("|")
            )
        }
    }
}
