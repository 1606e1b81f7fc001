//! Expressions, functions and aggregates (SPARQL 1.1, section 17; SPARQL 1.2 for triple terms and
//! directions).
//!
//! `a != b` is `Not(Compare(Equal))` and `a NOT IN (…)` is `Not(In)`, as in the specification.

use crate::algebra::{Pattern, VarId};
use oxrdf::{NamedNode, Term};

/// An expression over one solution.
#[derive(Debug, Clone, PartialEq)]
pub enum Expression {
    /// A constant IRI or literal.
    Constant(Term),
    /// A variable's value.
    Variable(VarId),
    /// `BOUND(?v)`.
    Bound(VarId),
    /// `a || b || …`, at least two.
    Or(Vec<Expression>),
    /// `a && b && …`, at least two.
    And(Vec<Expression>),
    /// `!a`.
    Not(Box<Expression>),
    /// `a = b`, `a < b`, …
    Compare(Comparison, Box<Expression>, Box<Expression>),
    /// `sameTerm(a, b)`.
    SameTerm(Box<Expression>, Box<Expression>),
    /// `a IN (…)`.
    In(Box<Expression>, Vec<Expression>),
    /// `a + b`, …
    Arithmetic(Arithmetic, Box<Expression>, Box<Expression>),
    /// `+a`.
    UnaryPlus(Box<Expression>),
    /// `-a`.
    UnaryMinus(Box<Expression>),
    /// `EXISTS { … }`.
    Exists(Box<Pattern>),
    /// `IF(condition, then, else)`.
    If(Box<Expression>, Box<Expression>, Box<Expression>),
    /// `COALESCE(…)`.
    Coalesce(Vec<Expression>),
    /// A function call.
    Call(Function, Vec<Expression>),
}

/// A comparison operator. `!=` is the negation of `Equal`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

/// An arithmetic operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Arithmetic {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
}

/// Hands the names of the built-in functions to a macro. They are those of SPARQL 1.1, section
/// 17.4, and of SPARQL 1.2, and `spargebra` calls them the same.
macro_rules! with_functions {
    ($then:ident) => {
        $then! {
            Str,
            Lang,
            LangMatches,
            Datatype,
            Iri,
            BNode,
            Rand,
            Abs,
            Ceil,
            Floor,
            Round,
            Concat,
            SubStr,
            StrLen,
            Replace,
            UCase,
            LCase,
            EncodeForUri,
            Contains,
            StrStarts,
            StrEnds,
            StrBefore,
            StrAfter,
            Year,
            Month,
            Day,
            Hours,
            Minutes,
            Seconds,
            Timezone,
            Tz,
            Now,
            Uuid,
            StrUuid,
            Md5,
            Sha1,
            Sha256,
            Sha384,
            Sha512,
            StrLang,
            StrDt,
            IsIri,
            IsBlank,
            IsLiteral,
            IsNumeric,
            Regex,
            Triple,
            Subject,
            Predicate,
            Object,
            IsTriple,
            LangDir,
            HasLang,
            HasLangDir,
            StrLangDir,
            Adjust,
        }
    };
}

pub(crate) use with_functions;

macro_rules! define_function {
    ($($name:ident,)*) => {
        /// A function of SPARQL, or a custom one by its IRI (casts such as `xsd:integer(…)` are
        /// custom functions).
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        #[allow(
            missing_docs,
            reason = "each variant is the function of that name in SPARQL 1.1, section 17.4, or SPARQL 1.2"
        )]
        pub enum Function {
            $($name,)*
            /// `f:timestamp(?s, ?p, ?o)` of C-SPARQL: the event time of the newest such statement
            /// in the query's windows.
            Timestamp,
            Custom(NamedNode),
        }
    };
}

with_functions!(define_function);

/// An aggregate over the solutions of one group.
#[derive(Debug, Clone, PartialEq)]
pub enum Aggregate {
    /// `COUNT(*)`, `COUNT(DISTINCT *)`.
    CountSolutions {
        /// Whether equal solutions count once.
        distinct: bool,
    },
    /// An aggregate of one expression.
    Of {
        /// Which one.
        function: AggregateFunction,
        /// Whether equal values count once.
        distinct: bool,
        /// The expression to aggregate.
        expression: Expression,
    },
}

/// A set function (SPARQL 1.1, section 18.5.1).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum AggregateFunction {
    /// `COUNT`
    Count,
    /// `SUM`
    Sum,
    /// `AVG`
    Avg,
    /// `MIN`
    Min,
    /// `MAX`
    Max,
    /// `SAMPLE`
    Sample,
    /// `GROUP_CONCAT`
    GroupConcat {
        /// The separator; one space where the query names none.
        separator: String,
    },
    /// An aggregate by IRI.
    Custom(NamedNode),
}

/// One sort key.
#[derive(Debug, Clone, PartialEq)]
pub struct OrderKey {
    /// The expression to compare.
    pub expression: Expression,
    /// `DESC`.
    pub descending: bool,
}
