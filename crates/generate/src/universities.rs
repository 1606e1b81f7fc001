//! Data in the schema and the proportions of LUBM (Guo, Pan, Heflin: "LUBM: A Benchmark for OWL
//! Knowledge Base Systems", Journal of Web Semantics 2005): universities with their departments,
//! teachers, students, courses and publications, and the seven queries that the Wukong paper (OSDI
//! 2016, section 6) asks. A department depends only on the seed and on its own numbers, so that any
//! number of universities is made piece by piece.

use crate::NamedQuery;
use crate::lines::{Subject, name};
use crate::random::Random;
use oxrdf::{NamedNode, Triple};

const UB: &str = "http://swat.cse.lehigh.edu/onto/univ-bench.owl#";
const PREFIXES: &str = include_str!("../queries/lubm/prefixes.rq");
const QUERIES: [(&str, &str); 7] = [
    ("L1", include_str!("../queries/lubm/L1.rq")),
    ("L2", include_str!("../queries/lubm/L2.rq")),
    ("L3", include_str!("../queries/lubm/L3.rq")),
    ("L4", include_str!("../queries/lubm/L4.rq")),
    ("L5", include_str!("../queries/lubm/L5.rq")),
    ("L6", include_str!("../queries/lubm/L6.rq")),
    ("L7", include_str!("../queries/lubm/L7.rq")),
];

/// Degrees are from one of this many universities, however many are described.
const DEGREES: u32 = 1_000;
/// The most departments that a university has.
const DEPARTMENTS: u32 = 25;

/// The kinds of teachers: their class, how many a department has, and how much each publishes.
const TEACHERS: [(&str, [u32; 2], [u32; 2]); 4] = [
    ("FullProfessor", [7, 10], [15, 20]),
    ("AssociateProfessor", [10, 14], [10, 18]),
    ("AssistantProfessor", [8, 11], [5, 10]),
    ("Lecturer", [5, 7], [0, 5]),
];

/// Universities that are numbered from 0 without end.
#[derive(Debug, Clone, Copy)]
pub struct Universities {
    seed: u64,
}

/// What is made so far of a department.
struct Department<'o> {
    random: Random,
    /// Its IRI without the closing part, such as `http://www.Department0.University0.edu`.
    iri: String,
    /// The part of it that mail addresses have.
    host: String,
    professors: Vec<String>,
    courses: u32,
    graduate_courses: u32,
    /// The publications that a graduate student may have a part in.
    publications: Vec<NamedNode>,
    out: &'o mut Vec<Triple>,
}

impl Universities {
    /// About the number of triples of one university.
    pub const TRIPLES_EACH: u64 = 134_000;

    /// Universities of this seed.
    pub fn new(seed: u64) -> Universities {
        Universities { seed }
    }

    /// Gives every triple of one university once.
    pub fn generate(&self, university: u32, mut emit: impl FnMut(Triple)) {
        let mut ready = Vec::new();
        self.own(university, &mut ready);
        ready.drain(..).for_each(&mut emit);
        let mut random = Random::new(self.seed, u64::from(university) << 8 | 0xFF);
        for number in 0..between(&mut random, [15, DEPARTMENTS]) {
            self.department(university, number, &mut ready);
            ready.drain(..).for_each(&mut emit);
        }
    }

    /// L1–L7, whose constants are of university 0.
    pub fn queries() -> Vec<NamedQuery> {
        let query = |&(name, text): &(&'static str, &str)| NamedQuery {
            name,
            text: format!("{PREFIXES}{text}"),
        };
        QUERIES.iter().map(query).collect()
    }

    /// The triples of a university itself. The first also says what those are that degrees are
    /// from, since these may have no description.
    fn own(&self, university: u32, out: &mut Vec<Triple>) {
        let others = match university {
            0 => 0..DEGREES,
            number if number < DEGREES => 0..0,
            number => number..number + 1,
        };
        for other in others {
            Subject::named(university_iri(other), out).class(ub("University"));
        }
        let mut own = Subject::named(university_iri(university), out);
        own.text(ub("name"), format!("University{university}"));
    }

    fn department(&self, university: u32, number: u32, out: &mut Vec<Triple>) {
        let host = format!("Department{number}.University{university}.edu");
        let mut department = Department {
            random: Random::new(self.seed, u64::from(university) << 8 | u64::from(number)),
            iri: format!("http://www.{host}"),
            host,
            professors: Vec::new(),
            courses: 0,
            graduate_courses: 0,
            publications: Vec::new(),
            out,
        };
        let mut own = Subject::named(department.own_iri(), department.out);
        own.class(ub("Department"));
        own.text(ub("name"), format!("Department{number}"));
        own.link(ub("subOrganizationOf"), university_iri(university));
        let teachers = department.teachers();
        department.undergraduates(teachers);
        department.graduates(teachers);
        department.groups();
    }
}

impl Department<'_> {
    fn own_iri(&self) -> NamedNode {
        NamedNode::new_unchecked(self.iri.as_str())
    }

    fn iri(&self, local: &str) -> NamedNode {
        NamedNode::new_unchecked(format!("{}/{local}", self.iri))
    }

    /// A person: a class, a name, an address and a telephone.
    fn person(&mut self, class: &str, local: &str) -> Subject<'_> {
        let telephone = format!(
            "{:03}-{:03}-{:04}",
            self.random.below(1_000),
            self.random.below(1_000),
            self.random.below(10_000)
        );
        let mail = format!("{local}@{}", self.host);
        let mut person = Subject::named(self.iri(local), self.out);
        person.class(ub(class));
        person.text(ub("name"), local);
        person.text(ub("emailAddress"), mail);
        person.text(ub("telephone"), telephone);
        person
    }

    /// The teachers with their courses and publications; returns their number.
    fn teachers(&mut self) -> u32 {
        let mut all = 0;
        for (class, numbers, publications) in TEACHERS {
            let count = between(&mut self.random, numbers);
            all += count;
            for number in 0..count {
                let local = format!("{class}{number}");
                self.teacher(class, &local, number == 0 && class == "FullProfessor");
                if class != "Lecturer" {
                    self.professors.push(local.clone());
                }
                self.publish(&local, publications);
            }
        }
        all
    }

    fn teacher(&mut self, class: &str, local: &str, head: bool) {
        let [courses, graduate] = [[1, 2], [1, 2]].map(|of| between(&mut self.random, of));
        let degrees = [(); 3].map(|()| university_iri(self.random.below(DEGREES)));
        let interest = self.random.below(30);
        let department = self.own_iri();
        let (first, first_graduate) = (self.courses, self.graduate_courses);
        self.courses += courses;
        self.graduate_courses += graduate;
        let given: Vec<NamedNode> = (first..self.courses)
            .map(|number| self.iri(&format!("Course{number}")))
            .chain(
                (first_graduate..self.graduate_courses)
                    .map(|number| self.iri(&format!("GraduateCourse{number}"))),
            )
            .collect();
        let mut teacher = self.person(class, local);
        teacher.link(ub("worksFor"), department.clone());
        if head {
            teacher.link(ub("headOf"), department);
        }
        let kinds = [
            "undergraduateDegreeFrom",
            "mastersDegreeFrom",
            "doctoralDegreeFrom",
        ];
        for (kind, from) in kinds.into_iter().zip(degrees) {
            teacher.link(ub(kind), from);
        }
        teacher.text(ub("researchInterest"), format!("Research{interest}"));
        for course in &given {
            teacher.link(ub("teacherOf"), course.clone());
        }
        for (at, course) in given.into_iter().enumerate() {
            let (class, number) = match (at as u32).checked_sub(courses) {
                None => ("Course", first + at as u32),
                Some(at) => ("GraduateCourse", first_graduate + at),
            };
            let mut described = Subject::named(course, self.out);
            described.class(ub(class));
            described.text(ub("name"), format!("{class}{number}"));
        }
    }

    fn publish(&mut self, author: &str, numbers: [u32; 2]) {
        for number in 0..between(&mut self.random, numbers) {
            let publication = self.iri(&format!("{author}/Publication{number}"));
            let author = self.iri(author);
            let mut described = Subject::named(publication.clone(), self.out);
            described.class(ub("Publication"));
            described.text(ub("name"), format!("Publication{number}"));
            described.link(ub("publicationAuthor"), author);
            self.publications.push(publication);
        }
    }

    fn undergraduates(&mut self, teachers: u32) {
        let count = teachers * between(&mut self.random, [8, 14]);
        for number in 0..count {
            let taken = between(&mut self.random, [2, 4]);
            let advised = self.random.chance(0.2);
            let courses = self.courses;
            self.student(
                "UndergraduateStudent",
                number,
                ("Course", courses, taken),
                advised,
            );
        }
    }

    fn graduates(&mut self, teachers: u32) {
        let count = teachers * between(&mut self.random, [3, 4]);
        for number in 0..count {
            let taken = between(&mut self.random, [1, 3]);
            let courses = ("GraduateCourse", self.graduate_courses, taken);
            self.student("GraduateStudent", number, courses, true);
            let from = university_iri(self.random.below(DEGREES));
            let (teaches, researches) = (self.random.chance(0.22), self.random.chance(0.29));
            let assisted = self.random.below(self.courses);
            let assisted = self.iri(&format!("Course{assisted}"));
            let parts = self.some_publications();
            let local = self.iri(&format!("GraduateStudent{number}"));
            let mut graduate = Subject::named(local.clone(), self.out);
            graduate.link(ub("undergraduateDegreeFrom"), from);
            if teaches {
                graduate.class(ub("TeachingAssistant"));
                graduate.link(ub("teachingAssistantOf"), assisted);
            }
            if researches {
                graduate.class(ub("ResearchAssistant"));
            }
            for publication in parts {
                let mut publication = Subject::named(publication, self.out);
                publication.link(ub("publicationAuthor"), local.clone());
            }
        }
    }

    /// Up to five different publications.
    fn some_publications(&mut self) -> Vec<NamedNode> {
        let published = u32::try_from(self.publications.len()).unwrap_or(u32::MAX);
        let drawn = (0..self.random.below(6)).map(|_| self.random.below(published));
        let mut drawn: Vec<u32> = drawn.collect();
        drawn.sort_unstable();
        drawn.dedup();
        let found = drawn
            .iter()
            .filter_map(|&at| self.publications.get(at as usize));
        found.cloned().collect()
    }

    /// A student who takes a number of the courses of a kind.
    fn student(&mut self, class: &str, number: u32, courses: (&str, u32, u32), advised: bool) {
        let (kind, of, taken) = courses;
        let drawn: Vec<u32> = (0..taken).map(|_| self.random.below(of)).collect();
        let advisor = self.random.pick(&self.professors).clone();
        let advisor = self.iri(&advisor);
        let department = self.own_iri();
        let prefix = format!("{}/{kind}", self.iri);
        let mut student = self.person(class, &format!("{class}{number}"));
        student.link(ub("memberOf"), department);
        if advised {
            student.link(ub("advisor"), advisor);
        }
        student.distinct(&ub("takesCourse"), drawn.into_iter(), |course| {
            NamedNode::new_unchecked(format!("{prefix}{course}"))
        });
    }

    fn groups(&mut self) {
        for number in 0..between(&mut self.random, [10, 20]) {
            let department = self.own_iri();
            let mut group = Subject::named(self.iri(&format!("ResearchGroup{number}")), self.out);
            group.class(ub("ResearchGroup"));
            group.link(ub("subOrganizationOf"), department);
        }
    }
}

fn ub(local: &str) -> NamedNode {
    name(UB, local)
}

fn university_iri(number: u32) -> NamedNode {
    NamedNode::new_unchecked(format!("http://www.University{number}.edu"))
}

/// A number from the first to the second, both among them.
fn between(random: &mut Random, [least, most]: [u32; 2]) -> u32 {
    least + random.below(most - least + 1)
}
