//! The difference of two bags of solutions, by their terms: ISTREAM and DSTREAM. The one thing to
//! know before changing it: ids that both bags took from the dictionary are compared as they are,
//! but a term that one execution computed may have an id of that execution alone, and may be in the
//! dictionary by now.

use crate::algebra::error::QueryError;
use crate::context::answer::{Answer, Solutions};
use crate::exec::construct::{Filler, TemplateOutput};
use crate::prepared::has_blank_node;
use crate::value::random::Random;
use crate::view::term_source::TermSource;
use oxrdf::Term;
use rustc_hash::FxHashMap;
use somersault_dictionary::TermPin;
use somersault_lang::{QuadTemplate, Query, QueryForm, VarId};
use somersault_model::{EventTime, QueryUid, Tag, TermId};
use std::sync::Arc;
use std::time::{Duration, Instant};

impl Solutions {
    /// The rows without those of `other`: a row that is m times here and k times there is in it m −
    /// k times, if that is above 0. The order of rows stays.
    ///
    /// # Errors
    /// It takes more time or memory than it may.
    ///
    /// # Panics
    /// If the two have not the same number of columns: they are answers of one query.
    pub fn without<'d>(
        &self,
        other: &Solutions,
        dictionary: impl Into<TermSource<'d>>,
        bounds: &Bounds,
    ) -> Result<Solutions, QueryError> {
        let width = self.columns.len();
        assert_eq!(width, other.columns.len(), "answers of one query");
        bounds.fits(self.rows, other.rows, width)?;
        let mut shared = SharedTerms {
            dictionary: dictionary.into(),
            ids: FxHashMap::default(),
            held: TermPin::default(),
        };
        let mine = shared.rows(self, bounds)?;
        let theirs = shared.rows(other, bounds)?;
        let mut taken: FxHashMap<&[TermId], usize> = FxHashMap::default();
        for row in 0..other.rows {
            bounds.look(row)?;
            *taken.entry(&theirs[row * width..][..width]).or_default() += 1;
        }
        let mut kept: Vec<usize> = Vec::new();
        for row in 0..self.rows {
            bounds.look(row)?;
            match taken.get_mut(&mine[row * width..][..width]) {
                Some(left) if *left > 0 => *left -= 1,
                _ => kept.push(row),
            }
        }
        let columns = (self.columns.iter())
            .map(|ids| kept.iter().map(|row| ids[*row]).collect())
            .collect();
        Ok(Solutions {
            variables: self.variables.clone(),
            columns,
            rows: kept.len(),
            local: self.local.clone(),
            held: self.held.clone(),
        })
    }

    /// These rows, and then those of `other`.
    ///
    /// # Panics
    /// If the two have not the same number of columns: they are answers of one query.
    pub fn plus(&self, other: &Solutions) -> Solutions {
        assert_eq!(
            self.columns.len(),
            other.columns.len(),
            "answers of one query"
        );
        let own = self.local_terms();
        let moved = |id: &TermId| match id.tag() {
            Tag::Local => TermId::local(id.payload() + own.len() as u64),
            _ => *id,
        };
        let columns = self.columns.iter().zip(&other.columns);
        let columns =
            columns.map(|(ids, more)| ids.iter().copied().chain(more.iter().map(moved)).collect());
        let local: Vec<Term> = own.iter().chain(other.local_terms()).cloned().collect();
        let held = match (&self.held, &other.held) {
            (held, None) | (None, held) => held.clone(),
            (Some(own), Some(more)) => {
                let mut held = TermPin::clone(own);
                held.extend(more);
                Some(Arc::new(held))
            }
        };
        Solutions {
            variables: self.variables.clone(),
            columns: columns.collect(),
            rows: self.rows + other.rows,
            local: (!local.is_empty()).then(|| local.into()),
            held,
        }
    }

    /// The same columns without a row.
    pub fn none_of(&self) -> Solutions {
        Solutions {
            variables: self.variables.clone(),
            columns: vec![Vec::new(); self.columns.len()],
            rows: 0,
            local: None,
            held: None,
        }
    }
}

/// The limits of a comparison.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// When it has to be done.
    pub until: Instant,
    /// The limit that says so, for the sentence.
    pub time: Duration,
    /// The memory that it may use besides the two answers.
    pub memory_bytes: u64,
}

/// Rows between two looks at the clock.
const ROWS_PER_LOOK: usize = 1 << 12;
/// The bytes of a counted row besides its ids: the place of its key, its count, and the table's
/// spare capacity.
const BYTES_PER_COUNT: u64 = 48;

impl Bounds {
    fn fits(&self, mine: usize, theirs: usize, width: usize) -> Result<(), QueryError> {
        let ids = (mine + theirs) as u64 * width as u64 * size_of::<TermId>() as u64;
        let limit = self.memory_bytes;
        if ids + theirs as u64 * BYTES_PER_COUNT > limit {
            return Err(QueryError::Memory { limit });
        }
        Ok(())
    }

    fn look(&self, row: usize) -> Result<(), QueryError> {
        if row.is_multiple_of(ROWS_PER_LOOK) && Instant::now() >= self.until {
            return Err(QueryError::Time { limit: self.time });
        }
        Ok(())
    }
}

/// Ids that mean the same term in two answers.
struct SharedTerms<'d> {
    dictionary: TermSource<'d>,
    ids: FxHashMap<Term, TermId>,
    held: TermPin,
}

impl SharedTerms<'_> {
    /// All rows of an answer, one after the other.
    fn rows(&mut self, solutions: &Solutions, bounds: &Bounds) -> Result<Vec<TermId>, QueryError> {
        let mut rows = Vec::with_capacity(solutions.rows * solutions.columns.len());
        for row in 0..solutions.rows {
            bounds.look(row)?;
            for column in &solutions.columns {
                rows.push(self.id(solutions, column[row]));
            }
        }
        Ok(rows)
    }

    fn id(&mut self, solutions: &Solutions, id: TermId) -> TermId {
        if id.tag() != Tag::Local {
            return id;
        }
        let term = &solutions.local_terms()[id.payload() as usize];
        if let Some(known) = self.ids.get(term) {
            return *known;
        }
        let known = (self.dictionary.lookup_held(term.as_ref(), &mut self.held))
            .unwrap_or_else(|| TermId::local(self.ids.len() as u64));
        self.ids.insert(term.clone(), known);
        known
    }
}

/// A CONSTRUCT split into its solutions and its template, so that the solutions can be compared
/// before the template is filled in.
#[derive(Clone, Debug)]
pub struct Template {
    quads: Vec<QuadTemplate>,
    variables: Vec<VarId>,
}

impl Template {
    /// Makes of a CONSTRUCT the SELECT of its template's variables, and gives the template. Other
    /// forms stay, and give none.
    pub fn split_off(query: &mut Query) -> Option<Template> {
        let QueryForm::Construct { template } = &mut query.form else {
            return None;
        };
        let quads = std::mem::take(template);
        let used = crate::prepared::template_variables(&quads);
        let all = (0..query.variables.len() as u32).map(VarId);
        let variables: Vec<VarId> = all.filter(|variable| used.contains(*variable)).collect();
        query.form = QueryForm::Select {
            projection: variables.clone(),
        };
        Some(Template { quads, variables })
    }

    /// The graph or dataset that the template makes of solutions of that SELECT, without repeats.
    pub fn fill<'d>(
        &self,
        solutions: &Solutions,
        dictionary: impl Into<TermSource<'d>>,
        (query, close): (QueryUid, EventTime),
    ) -> Answer {
        let dictionary: TermSource<'_> = dictionary.into();
        let mut rows: Vec<Vec<Option<Term>>> = solutions.rows(dictionary).collect();
        if self.quads.iter().any(|quad| has_blank_node(&quad.triple)) {
            // The blank nodes are the same in a run and its replay.
            rows.sort_by_cached_key(|row| {
                let texts = row.iter().map(|term| term.as_ref().map(Term::to_string));
                texts.collect::<Vec<_>>()
            });
        }
        let mut made = TemplateOutput::of(&self.quads);
        let mut random = Random::new(query, close);
        let mut blank_nodes = FxHashMap::default();
        for row in &rows {
            blank_nodes.clear();
            let mut filler = Filler {
                value: &|variable| {
                    let column = self.variables.binary_search(&variable).ok()?;
                    row[column].clone()
                },
                random: &mut random,
                blank_nodes: &mut blank_nodes,
            };
            made.add(&self.quads, &mut filler);
        }
        made.into_answer()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oxrdf::{Literal, NamedNode, Triple};
    use proptest::prelude::*;
    use somersault_dictionary::Dictionary;
    use somersault_store::Store;
    use std::collections::BTreeMap;

    /// An answer of one column. Numbers below 4 are in the dictionary, 4 to 7 are the answer's own
    /// terms, in an order that is of the answer alone.
    fn answer(numbers: &[u8], dictionary: &Dictionary) -> Solutions {
        let mut local: Vec<Term> = Vec::new();
        let ids = numbers.iter().map(|number| {
            let term = Term::from(Literal::new_simple_literal(format!("a long text {number}")));
            if *number < 4 {
                return dictionary.intern(term.as_ref());
            }
            let at = local.iter().position(|known| *known == term);
            let at = at.unwrap_or_else(|| {
                local.push(term);
                local.len() - 1
            });
            TermId::local(at as u64)
        });
        let ids: Vec<TermId> = ids.collect();
        let names: std::sync::Arc<[String]> = vec!["x".to_owned()].into();
        Solutions::new(names, vec![ids], numbers.len(), local.into())
    }

    fn bounds() -> Bounds {
        let time = Duration::from_secs(60);
        Bounds {
            until: Instant::now() + time,
            time,
            memory_bytes: 1 << 20,
        }
    }

    fn bag(numbers: &[u8]) -> BTreeMap<u8, usize> {
        let mut bag = BTreeMap::new();
        numbers
            .iter()
            .for_each(|n| *bag.entry(*n).or_default() += 1);
        bag
    }

    fn numbers(solutions: &Solutions, dictionary: &Dictionary) -> Vec<u8> {
        let rows = solutions.rows(dictionary);
        let number = |row: Vec<Option<Term>>| match &row[0] {
            Some(Term::Literal(literal)) => {
                literal.value()["a long text ".len()..].parse().unwrap()
            }
            other => panic!("{other:?}"),
        };
        rows.map(number).collect()
    }

    proptest! {
        #[test]
        fn the_difference_is_that_of_bags(
            now in prop::collection::vec(0u8..8, 0..20),
            before in prop::collection::vec(0u8..8, 0..20),
            learnt in prop::collection::vec(4u8..8, 0..3),
        ) {
            let store = Store::new(1);
            let dictionary = store.dictionary();
            let (now_ids, before_ids) = (answer(&now, dictionary), answer(&before, dictionary));
            // A term that was local to an answer may enter the dictionary a moment later.
            for number in learnt {
                let text = format!("a long text {number}");
                dictionary.intern(Term::from(Literal::new_simple_literal(text)).as_ref());
            }
            let without = |before: &Solutions| now_ids.without(before, dictionary, &bounds()).unwrap();
            let got = without(&before_ids);
            let mut expected = bag(&now);
            for (number, times) in bag(&before) {
                if let Some(left) = expected.get_mut(&number) {
                    *left = left.saturating_sub(times);
                }
            }
            expected.retain(|_, times| *times > 0);
            prop_assert_eq!(bag(&numbers(&got, dictionary)), expected);
            prop_assert!(without(&now_ids).is_empty());
            prop_assert_eq!(without(&now_ids.none_of()).len(), now.len());
        }
    }

    #[test]
    fn a_comparison_ends_at_its_limits() {
        let store = Store::new(1);
        let (now, before) = (
            answer(&[1, 2], store.dictionary()),
            answer(&[2], store.dictionary()),
        );
        let compare = |bounds: Bounds| now.without(&before, store.dictionary(), &bounds);
        assert_eq!(compare(bounds()).unwrap().len(), 1);
        let late = Bounds {
            until: Instant::now(),
            ..bounds()
        };
        assert!(matches!(compare(late), Err(QueryError::Time { limit }) if limit == bounds().time));
        let small = Bounds {
            memory_bytes: 3 * 8 + BYTES_PER_COUNT - 1,
            ..bounds()
        };
        assert!(matches!(compare(small), Err(QueryError::Memory { .. })));
    }

    #[test]
    fn a_template_is_filled_from_the_solutions_of_its_variables() {
        let parser = somersault_lang::Parser::new();
        let text = "CONSTRUCT { ?o <http://p> _:n . _:n <http://q> ?s } { ?s ?unused ?o }";
        let mut query = parser.parse_query(text).unwrap();
        let template = Template::split_off(&mut query).unwrap();
        let names: Vec<&str> = query
            .projection()
            .iter()
            .map(|v| query.variable_name(*v))
            .collect();
        assert_eq!(names.len(), 2, "{names:?}");
        let store = Store::new(1);
        let dictionary = store.dictionary();
        let id = |name: &str| dictionary.intern(Term::from(NamedNode::new(name).unwrap()).as_ref());
        let rows = |first: &str, second: &str| {
            let column = |name: &str| match name {
                "s" => vec![id(&format!("{first}s")), id(&format!("{second}s"))],
                _ => vec![id(&format!("{first}o")), id(&format!("{second}o"))],
            };
            let variables: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let columns = names.iter().map(|name| column(name)).collect();
            Solutions::new(variables.into(), columns, 2, [].into())
        };
        let key = (QueryUid(1), EventTime(5));
        let graph = |solutions: &Solutions| match template.fill(solutions, dictionary, key) {
            Answer::Graph(triples) => {
                let mut lines: Vec<String> = triples.iter().map(Triple::to_string).collect();
                lines.sort();
                lines
            }
            other => panic!("{other:?}"),
        };
        let made = graph(&rows("http://a/", "http://b/"));
        assert_eq!(made.len(), 4);
        // Blank nodes follow the terms, not the order of the rows.
        assert_eq!(made, graph(&rows("http://b/", "http://a/")));
        let mut select = parser.parse_query("SELECT * { ?s ?p ?o }").unwrap();
        assert!(Template::split_off(&mut select).is_none());
    }
}
