//! Expressions as the engine evaluates them: constants are numbers into the query's table of
//! constants, and EXISTS is a number into the query's list of sub-plans.

use crate::algebra::logical::{Node, QuadPattern};
use crate::algebra::varset::VarSet;
use oxrdf::Term;
use regex::Regex;
use rustc_hash::FxHashMap;
use somersault_lang::{Arithmetic, Comparison, Function, VarId};

/// From this number on constants are found by hash. Most queries have fewer, and many are kept.
const FEW_CONSTANTS: usize = 16;

/// A constant, as an index into [`Constants`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ConstantId(pub(crate) u32);

impl ConstantId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The constants of a query, each once. Ids are looked up at each execution. The term of a
/// parameter is a placeholder: nothing may depend on it except texts for people.
#[derive(Debug, Clone, Default)]
pub(crate) struct Constants {
    pub(crate) terms: Vec<Term>,
    /// The index of each constant where there are more than a few: VALUES may bring a hundred
    /// thousand.
    places: FxHashMap<Term, ConstantId>,
}

impl Constants {
    pub(crate) fn add(&mut self, term: &Term) -> ConstantId {
        if let Some(place) = self.place(term) {
            return place;
        }
        let place = ConstantId(self.terms.len() as u32);
        self.terms.push(term.clone());
        if self.terms.len() == FEW_CONSTANTS {
            let terms = self.terms.iter().cloned();
            self.places.extend(terms.zip((0..).map(ConstantId)));
        } else if self.terms.len() > FEW_CONSTANTS {
            self.places.insert(term.clone(), place);
        }
        place
    }

    fn place(&self, term: &Term) -> Option<ConstantId> {
        if self.terms.len() >= FEW_CONSTANTS {
            return self.places.get(term).copied();
        }
        let at = self.terms.iter().position(|other| other == term)?;
        Some(ConstantId(at as u32))
    }

    pub(crate) fn term(&self, constant: ConstantId) -> &Term {
        &self.terms[constant.0 as usize]
    }
}

/// An expression over one row.
#[derive(Debug)]
pub(crate) enum Expr {
    Constant(ConstantId),
    Variable(VarId),
    Bound(VarId),
    Or(Vec<Expr>),
    And(Vec<Expr>),
    Not(Box<Expr>),
    Compare(Comparison, Box<Expr>, Box<Expr>),
    SameTerm(Box<Expr>, Box<Expr>),
    In(Box<Expr>, Vec<Expr>),
    Arithmetic(Arithmetic, Box<Expr>, Box<Expr>),
    UnaryPlus(Box<Expr>),
    UnaryMinus(Box<Expr>),
    Exists(Box<Exists>),
    If(Box<Expr>, Box<Expr>, Box<Expr>),
    Coalesce(Vec<Expr>),
    /// REGEX with a constant pattern.
    Matches(Box<Expr>, Regex),
    Call(Function, Vec<Expr>),
    /// A key that equal values share (`equality.rs`).
    EqualityKey(VarId),
    /// A text by which terms are in order: blank nodes, IRIs, literals, triple terms, each by code
    /// points, then by datatype and language; an error where it is unbound.
    TermKey(VarId),
    /// Whether the pattern's statement in a row arrived since the last execution (`incremental`).
    IsFresh(QuadPattern),
}

/// EXISTS: its pattern, and its index in the table of results per row.
#[derive(Debug)]
pub(crate) struct Exists {
    pub(crate) at: usize,
    pub(crate) node: Node,
}

impl Expr {
    /// Every expression directly below this one.
    pub(crate) fn children(&self) -> impl Iterator<Item = &Expr> {
        let (few, list): ([Option<&Expr>; 3], &[Expr]) = match self {
            Expr::Constant(_)
            | Expr::Variable(_)
            | Expr::Bound(_)
            | Expr::EqualityKey(_)
            | Expr::TermKey(_)
            | Expr::IsFresh(_)
            | Expr::Exists(_) => ([None; 3], &[]),
            Expr::Or(list) | Expr::And(list) | Expr::Coalesce(list) | Expr::Call(_, list) => {
                ([None; 3], list)
            }
            Expr::Not(a) | Expr::UnaryPlus(a) | Expr::UnaryMinus(a) | Expr::Matches(a, _) => {
                ([Some(a), None, None], &[])
            }
            Expr::Compare(_, a, b) | Expr::SameTerm(a, b) | Expr::Arithmetic(_, a, b) => {
                ([Some(a), Some(b), None], &[])
            }
            Expr::In(a, list) => ([Some(a), None, None], list),
            Expr::If(a, b, c) => ([Some(a), Some(b), Some(c)], &[]),
        };
        few.into_iter().flatten().chain(list)
    }

    /// The nesting depth of its expressions, including patterns in EXISTS.
    pub(crate) fn depth(&self) -> usize {
        let below = match self {
            Expr::Exists(exists) => exists.node.depth(),
            _ => (self.children().map(Expr::depth).max()).unwrap_or(0),
        };
        1 + below
    }

    /// The variables that its value can depend on.
    pub(crate) fn variables(&self) -> VarSet {
        let mut set = VarSet::new();
        self.collect(&mut set);
        set
    }

    fn collect(&self, into: &mut VarSet) {
        match self {
            Expr::Variable(v) | Expr::Bound(v) | Expr::EqualityKey(v) | Expr::TermKey(v) => {
                into.insert(*v);
            }
            Expr::Exists(exists) => into.extend(&exists.node.mentioned()),
            Expr::IsFresh(pattern) => into.extend(&pattern.variables()),
            _ => self.children().for_each(|e| e.collect(into)),
        }
    }

    /// Whether it has a different value at each evaluation: then it must be evaluated once per
    /// solution of just the pattern that it stands on.
    pub(crate) fn is_volatile(&self) -> bool {
        use Function::{BNode, Rand, StrUuid, Uuid};
        match self {
            Expr::Call(Rand | Uuid | StrUuid | BNode, _) => true,
            _ => self.children().any(Expr::is_volatile),
        }
    }

    /// The EXISTS in it, except those nested in their patterns.
    pub(crate) fn exists(&self) -> Vec<&Exists> {
        match self {
            Expr::Exists(exists) => vec![exists],
            _ => self.children().flat_map(Expr::exists).collect(),
        }
    }
}
