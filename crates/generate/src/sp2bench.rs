//! Data in the schema of SP²Bench (Schmidt, Hornung, Lausen, Pinkel: "SP²Bench: A SPARQL
//! Performance Benchmark", ICDE 2009): a bibliography like DBLP that grows year by year. Few
//! authors write most, Paul Erdoes writes ten documents a year from 1940 on, citations are bags of
//! documents that came before. People are blank nodes, as in the original, Erdoes is not. Strings
//! have no datatype written out, in the data and in the queries: `xsd:string` means the same, but
//! not to every engine.

use crate::NamedQuery;
use crate::lines::{Subject, name, words};
use crate::random::Random;
use oxrdf::{BlankNode, NamedNode, NamedOrBlankNode, Triple};

const BENCH: &str = "http://localhost/vocabulary/bench/";
const PERSONS: &str = "http://localhost/persons/";
const PUBLICATIONS: &str = "http://localhost/publications/";
const DC: &str = "http://purl.org/dc/elements/1.1/";
const DCTERMS: &str = "http://purl.org/dc/terms/";
const FOAF: &str = "http://xmlns.com/foaf/0.1/";
const RDF: &str = "http://www.w3.org/1999/02/22-rdf-syntax-ns#";
const RDFS: &str = "http://www.w3.org/2000/01/rdf-schema#";
const SWRC: &str = "http://swrc.ontoware.org/ontology#";

/// The classes of documents.
const CLASSES: [&str; 9] = [
    "Journal",
    "Article",
    "Proceedings",
    "Inproceedings",
    "Book",
    "Incollection",
    "PhDThesis",
    "MastersThesis",
    "Www",
];

const FIRST_YEAR: u32 = 1936;
const ERDOES_YEARS: std::ops::RangeInclusive<u32> = 1940..=1996;
const ERDOES_DOCUMENTS: u32 = 10;

/// Articles of the first year, and how many of a year there are for each hundred of the year
/// before.
const FIRST_ARTICLES: u32 = 14;
const GROWTH_PERCENT: u32 = 112;
const ARTICLES_OF_A_JOURNAL: u32 = 38;
const PAPERS_OF_A_CONFERENCE: u32 = 50;

/// Drawn for everything; the data has one order, so one generator of numbers does.
const PURPOSE: u64 = 0x5b2;

/// The seventeen queries less the three that only ask for existence.
const QUERIES: [(&str, &str); 14] = [
    ("Q1", include_str!("../queries/sp2bench/Q1.rq")),
    ("Q2", include_str!("../queries/sp2bench/Q2.rq")),
    ("Q3a", include_str!("../queries/sp2bench/Q3a.rq")),
    ("Q3b", include_str!("../queries/sp2bench/Q3b.rq")),
    ("Q3c", include_str!("../queries/sp2bench/Q3c.rq")),
    ("Q4", include_str!("../queries/sp2bench/Q4.rq")),
    ("Q5a", include_str!("../queries/sp2bench/Q5a.rq")),
    ("Q5b", include_str!("../queries/sp2bench/Q5b.rq")),
    ("Q6", include_str!("../queries/sp2bench/Q6.rq")),
    ("Q7", include_str!("../queries/sp2bench/Q7.rq")),
    ("Q8", include_str!("../queries/sp2bench/Q8.rq")),
    ("Q9", include_str!("../queries/sp2bench/Q9.rq")),
    ("Q10", include_str!("../queries/sp2bench/Q10.rq")),
    ("Q11", include_str!("../queries/sp2bench/Q11.rq")),
];
const PREFIXES: &str = include_str!("../queries/sp2bench/prefixes.rq");

/// An SP²Bench data set.
#[derive(Debug, Clone, Copy)]
pub struct Sp2Bench {
    triples: u64,
    seed: u64,
}

impl Sp2Bench {
    /// A data set that ends with the document that reaches `triples` triples.
    pub fn new(triples: u64, seed: u64) -> Sp2Bench {
        Sp2Bench { triples, seed }
    }

    /// Gives every triple once, year by year.
    pub fn generate(&self, mut emit: impl FnMut(Triple)) {
        let mut library = Library {
            random: Random::new(self.seed, PURPOSE),
            slots: Vec::new(),
            authors: 0,
            documents: Vec::new(),
            ready: Vec::new(),
        };
        let mut given = 0;
        library.schema();
        for year in FIRST_YEAR.. {
            for step in steps_of(year) {
                given += library.ready.len() as u64;
                library.ready.drain(..).for_each(&mut emit);
                if given >= self.triples {
                    return;
                }
                library.write(year, step);
            }
        }
    }

    /// The fourteen SELECT queries. They have no constants that depend on the data.
    pub fn queries(&self) -> Vec<NamedQuery> {
        QUERIES
            .iter()
            .map(|&(name, query)| NamedQuery {
                name,
                text: format!("{PREFIXES}{query}"),
            })
            .collect()
    }
}

/// The publications, one after the other.
#[derive(Debug, Clone, Copy)]
enum Step {
    Journal(u32),
    Proceedings(u32),
    /// With the number of the journal, and whether Erdoes is among the authors.
    Article(u32, bool),
    /// With the number of the proceedings.
    Paper(u32),
    /// A book, a thesis, a page: with its class.
    Other(&'static str),
}

/// The publications of a year. Whole numbers only, so that every machine counts the same.
fn steps_of(year: u32) -> Vec<Step> {
    let passed = year - FIRST_YEAR;
    let articles = (0..passed).fold(u64::from(FIRST_ARTICLES) * 1_000, |articles, _| {
        articles * u64::from(GROWTH_PERCENT) / 100
    }) / 1_000;
    let articles = u32::try_from(articles).unwrap_or(u32::MAX);
    // Conferences came later: in the end every second document is a paper.
    let papers = (u64::from(articles) * u64::from(passed.min(60)) / 60) as u32;
    let journals = articles.div_ceil(ARTICLES_OF_A_JOURNAL);
    let conferences = papers.div_ceil(PAPERS_OF_A_CONFERENCE);
    let mut steps: Vec<Step> = (1..=journals).map(Step::Journal).collect();
    steps.extend((1..=conferences).map(Step::Proceedings));
    let erdoes = |number: u32| ERDOES_YEARS.contains(&year) && number < ERDOES_DOCUMENTS;
    steps.extend((0..articles).map(|n| Step::Article(n % journals + 1, erdoes(n))));
    steps.extend((0..papers).map(|n| Step::Paper(n % conferences + 1)));
    let others = ["Book", "Incollection", "PhDThesis", "MastersThesis", "Www"];
    for (class, share) in others.into_iter().zip([60, 120, 250, 900, 700]) {
        steps.extend((0..articles / share).map(|_| Step::Other(class)));
    }
    steps
}

/// The documents written so far, as far as later documents refer to them.
struct Library {
    random: Random,
    /// The author of each authorship so far: prolific authors are drawn often.
    slots: Vec<u32>,
    authors: u32,
    documents: Vec<NamedNode>,
    ready: Vec<Triple>,
}

/// Author number 0.
const ERDOES: u32 = 0;

impl Library {
    fn schema(&mut self) {
        for class in CLASSES {
            let mut subject = Subject::named(name(BENCH, class), &mut self.ready);
            subject.link(name(RDFS, "subClassOf"), name(FOAF, "Document"));
        }
        self.new_author();
    }

    fn write(&mut self, year: u32, step: Step) {
        match step {
            Step::Journal(number) => {
                let title = format!("Journal {number} ({year})");
                self.volume("Journal", &journal(number, year), &title, year);
            }
            Step::Proceedings(number) => {
                let title = format!("Conference {number} ({year})");
                self.volume("Proceedings", &proceedings(number, year), &title, year);
            }
            Step::Article(of, erdoes) => {
                let within = (name(SWRC, "journal"), journal(of, year));
                self.document("Article", year, Some(within), erdoes);
            }
            Step::Paper(of) => {
                let within = (name(DCTERMS, "partOf"), proceedings(of, year));
                self.document("Inproceedings", year, Some(within), false);
            }
            Step::Other(class) => self.document(class, year, None, false),
        }
    }

    /// A volume that other documents are parts of.
    fn volume(&mut self, class: &str, node: &NamedNode, title: &str, year: u32) {
        let editor = (class == "Proceedings").then(|| self.author());
        let mut subject = Subject::named(node.clone(), &mut self.ready);
        subject.class(name(BENCH, class));
        subject.text(name(DC, "title"), title);
        subject.integer(name(DCTERMS, "issued"), year);
        if let Some(editor) = editor {
            subject.link(name(SWRC, "editor"), person(editor));
        }
    }

    fn document(
        &mut self,
        class: &str,
        year: u32,
        within: Option<(NamedNode, NamedNode)>,
        by_erdoes: bool,
    ) {
        let number = self.documents.len();
        let folder = format!("{}/{year}/", class.to_ascii_lowercase());
        let node = name(PUBLICATIONS, format_args!("{folder}{class}{number}"));
        let mut authors = self.authors_of_one();
        if by_erdoes {
            authors.push(ERDOES);
            self.slots.push(ERDOES);
        }
        let cited = self.cited();
        let random = &mut self.random;
        let mut subject = Subject::named(node.clone(), &mut self.ready);
        subject.class(name(BENCH, class));
        subject.text(name(DC, "title"), format!("{} {number}", words(random, 5)));
        subject.integer(name(DCTERMS, "issued"), year);
        subject.distinct(&name(DC, "creator"), authors.into_iter(), person);
        let paper = class == "Inproceedings";
        if let Some((predicate, volume)) = within {
            subject.link(predicate, volume);
            if paper {
                subject.text(name(BENCH, "booktitle"), words(random, 3));
            }
            if random.chance(0.926) {
                let first = random.below(800);
                let last = first + 1 + random.below(30);
                subject.text(name(SWRC, "pages"), format!("{first}--{last}"));
            }
        }
        let page = format!(
            "http://www.{}.example/{folder}{number}",
            words(random, 1).replace(' ', "")
        );
        if random.chance(if paper { 0.6 } else { 0.3 }) {
            subject.text(name(RDFS, "seeAlso"), format!("{page}/ee"));
        }
        if random.chance(0.95) {
            subject.text(name(FOAF, "homepage"), page);
        }
        if random.chance(0.01) {
            subject.text(name(BENCH, "abstract"), words(random, 150));
        }
        if class == "Article" && random.chance(0.0065) {
            subject.integer(name(SWRC, "month"), 1 + random.below(12));
        }
        if class == "Book" {
            subject.text(
                name(SWRC, "isbn"),
                format!("1-{:08}", random.below(100_000_000)),
            );
        }
        if !cited.is_empty() {
            subject.link(name(DCTERMS, "references"), bag(number));
            let mut bag = Subject::blank(bag_label(number), &mut self.ready);
            bag.class(name(RDF, "Bag"));
            for (place, &cited) in (1..).zip(&cited) {
                let document = self.documents[cited as usize].clone();
                bag.link(name(RDF, format_args!("_{place}")), document);
            }
        }
        self.documents.push(node);
    }

    /// Few documents cite at all, most of those a little, and mostly documents that are cited
    /// already.
    fn cited(&mut self) -> Vec<u32> {
        let before = self.documents.len() as u32;
        if before == 0 || !self.random.chance(0.02) {
            return Vec::new();
        }
        let count = 1 + self.random.skewed(40, 4);
        let mut cited: Vec<u32> = (0..count).map(|_| self.random.skewed(before, 3)).collect();
        cited.sort_unstable();
        cited.dedup();
        cited
    }

    fn authors_of_one(&mut self) -> Vec<u32> {
        let mut count = 1;
        while count < 12 && self.random.chance(0.3) {
            count += 1;
        }
        (0..count).map(|_| self.author()).collect()
    }

    /// A new author, or an earlier one, as often as each has written.
    fn author(&mut self) -> u32 {
        let author = if self.slots.is_empty() || self.random.chance(0.45) {
            self.new_author()
        } else {
            let slots = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
            self.slots[self.random.below(slots) as usize]
        };
        // Erdoes writes what he is said to write and no more.
        let author = if author == ERDOES {
            self.new_author()
        } else {
            author
        };
        self.slots.push(author);
        author
    }

    fn new_author(&mut self) -> u32 {
        let number = self.authors;
        self.authors += 1;
        let full_name = if number == ERDOES {
            "Paul Erdoes".to_owned()
        } else {
            format!("{} {number}", words(&mut self.random, 2))
        };
        let node = person(number);
        let out = &mut self.ready;
        let mut subject = match node {
            NamedOrBlankNode::NamedNode(node) => Subject::named(node, out),
            NamedOrBlankNode::BlankNode(node) => Subject::blank(node.into_string(), out),
        };
        subject.class(name(FOAF, "Person"));
        subject.text(name(FOAF, "name"), full_name);
        number
    }
}

fn person(number: u32) -> NamedOrBlankNode {
    if number == ERDOES {
        name(PERSONS, "Paul_Erdoes").into()
    } else {
        BlankNode::new_unchecked(format!("person{number}")).into()
    }
}

fn journal(number: u32, year: u32) -> NamedNode {
    name(
        PUBLICATIONS,
        format_args!("journals/Journal{number}/{year}"),
    )
}

fn proceedings(number: u32, year: u32) -> NamedNode {
    name(
        PUBLICATIONS,
        format_args!("procs/Proceeding{number}/{year}"),
    )
}

fn bag_label(document: usize) -> String {
    format!("references{document}")
}

fn bag(document: usize) -> BlankNode {
    BlankNode::new_unchecked(bag_label(document))
}
