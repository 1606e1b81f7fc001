//! The light queries of an emulated crowd: L4, L5 and L6 of LUBM with a department or a university
//! drawn for each, mixed as in the Wukong paper (each class by the reciprocal of its latency).

use somersault::oxrdf::{NamedNode, Term};
use somersault::{Engine, EngineError, PreparedQuery};

/// A class of queries that differ in one constant.
#[derive(Debug, Clone)]
pub(crate) struct Class {
    pub(crate) name: &'static str,
    /// The text with `{}` for the constant.
    template: &'static str,
    /// The IRIs that may stand there.
    pub(crate) constants: Vec<String>,
}

const DEPARTMENT: &str = "PREFIX ub: <http://swat.cse.lehigh.edu/onto/univ-bench.owl#> \
    SELECT DISTINCT ?c { ?c a ub:Department . ?x ub:worksFor ?c }";
const UNIVERSITY: &str = "PREFIX ub: <http://swat.cse.lehigh.edu/onto/univ-bench.owl#> \
    SELECT DISTINCT ?c { ?d a ub:Department . ?d ub:subOrganizationOf ?c }";

const CLASSES: [(&str, &str, &str); 3] = [
    (
        "L4",
        "PREFIX ub: <http://swat.cse.lehigh.edu/onto/univ-bench.owl#> \
         SELECT ?X ?Y1 ?Y2 ?Y3 { ?X ub:worksFor <{}> . ?X a ub:FullProfessor . ?X ub:name ?Y1 . \
         ?X ub:emailAddress ?Y2 . ?X ub:telephone ?Y3 }",
        DEPARTMENT,
    ),
    (
        "L5",
        "PREFIX ub: <http://swat.cse.lehigh.edu/onto/univ-bench.owl#> \
         SELECT ?X { ?X ub:subOrganizationOf <{}> . ?X a ub:ResearchGroup }",
        DEPARTMENT,
    ),
    (
        "L6",
        "PREFIX ub: <http://swat.cse.lehigh.edu/onto/univ-bench.owl#> \
         SELECT ?X ?Y { ?Y ub:subOrganizationOf <{}> . ?Y a ub:Department . ?X ub:worksFor ?Y . \
         ?X a ub:FullProfessor }",
        UNIVERSITY,
    ),
];

/// The classes, with the constants that this data has.
pub(crate) fn classes(engine: &Engine) -> Result<Vec<Class>, String> {
    CLASSES
        .iter()
        .map(|&(name, template, constants)| {
            let found = engine
                .query(constants)
                .run()
                .map_err(|error| error.to_string())?;
            let mut constants: Vec<String> = found
                .answer
                .rows()
                .filter_map(|row| match row.into_iter().next().flatten() {
                    Some(Term::NamedNode(name)) => Some(name.into_string()),
                    _ => None,
                })
                .collect();
            if constants.is_empty() {
                return Err(format!("the data has no constant for {name}"));
            }
            // The same data gives the same run.
            constants.sort_unstable();
            Ok(Class {
                name,
                template,
                constants,
            })
        })
        .collect()
}

impl Class {
    /// A query of the class.
    pub(crate) fn text(&self, constant: usize) -> String {
        self.template.replace("{}", &self.constants[constant])
    }

    /// The class as one query, with the constant as its parameter.
    pub(crate) fn prepare(&self, engine: &Engine) -> Result<PreparedQuery, EngineError> {
        let text = self.template.replace("<{}>", "?constant");
        engine.prepare(&text, &["constant"])
    }

    /// The constants as terms.
    pub(crate) fn terms(&self) -> Vec<Term> {
        let iris = self.constants.iter();
        iris.map(|iri| NamedNode::new_unchecked(iri.as_str()).into())
            .collect()
    }

    /// A query of the class with a text that was not asked before.
    pub(crate) fn new_text(&self, constant: usize, number: u64) -> String {
        format!("{} # {number}", self.text(constant))
    }
}

/// Draws classes by weight and constants at random, the same for the same seed.
#[derive(Debug, Clone)]
pub(crate) struct Draw {
    state: u64,
    /// The upper bound of each class in `0..=1`.
    shares: Vec<f64>,
}

impl Draw {
    /// Classes by these latencies: each by its reciprocal.
    pub(crate) fn by_latency(latencies_us: &[f64], seed: u64) -> Draw {
        let total: f64 = latencies_us.iter().map(|us| us.recip()).sum();
        let mut so_far = 0.0;
        let shares = latencies_us
            .iter()
            .map(|us| {
                so_far += us.recip() / total;
                so_far
            })
            .collect();
        Draw {
            state: seed,
            shares,
        }
    }

    /// Another that draws independently.
    pub(crate) fn seeded(&self, seed: u64) -> Draw {
        Draw {
            state: seed,
            shares: self.shares.clone(),
        }
    }

    /// The share of a class.
    pub(crate) fn share(&self, class: usize) -> f64 {
        let before = class
            .checked_sub(1)
            .map_or(0.0, |before| self.shares[before]);
        self.shares[class] - before
    }

    /// A class and one of its constants.
    pub(crate) fn next(&mut self, classes: &[Class]) -> (usize, usize) {
        let unit = (self.step() >> 11) as f64 / (1_u64 << 53) as f64;
        let last = classes.len() - 1;
        let class = self
            .shares
            .iter()
            .position(|&share| unit < share)
            .unwrap_or(last);
        let constants = classes[class].constants.len() as u128;
        let constant = (u128::from(self.step()) * constants) >> 64;
        (class, constant as usize)
    }

    /// Splitmix64: two multiplications a number, so that the cost of drawing is negligible beside a
    /// query.
    fn step(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(constants: usize) -> Class {
        Class {
            name: "L5",
            template: "ASK { <{}> ?p ?o }",
            constants: (0..constants).map(|n| format!("urn:c{n}")).collect(),
        }
    }

    #[test]
    fn quick_classes_are_drawn_more_often() {
        let classes = [class(10), class(3)];
        let mut draw = Draw::by_latency(&[1.0, 3.0], 7);
        assert!((draw.share(0) - 0.75).abs() < 1e-9 && (draw.share(1) - 0.25).abs() < 1e-9);
        let mut drawn = [0; 2];
        let mut constants = [false; 10];
        for _ in 0..10_000 {
            let (class, constant) = draw.next(&classes);
            assert!(constant < classes[class].constants.len());
            drawn[class] += 1;
            constants[constant] = true;
        }
        assert!((7_300..7_700).contains(&drawn[0]), "{drawn:?}");
        assert_eq!(constants, [true; 10]);
    }

    #[test]
    fn texts_have_their_constant_and_new_ones_differ() {
        let class = class(2);
        assert_eq!(class.text(1), "ASK { <urn:c1> ?p ?o }");
        assert_ne!(class.new_text(1, 1), class.new_text(1, 2));
    }
}
