//! The promises of generated universities: repeatable, in the proportions of LUBM, with answers.

use oxrdf::{Term, Triple};
use somersault_generate::Universities;
use std::collections::HashSet;

fn of(university: u32) -> Vec<Triple> {
    let mut made = Vec::new();
    Universities::new(1).generate(university, |triple| made.push(triple));
    made
}

#[test]
fn a_university_is_the_same_whichever_came_before() {
    assert_eq!(of(3), of(3));
    assert_ne!(of(3).len(), of(4).len());
}

#[test]
fn a_university_has_the_proportions_of_the_benchmark() {
    let (mut all, mut students) = (0, 0);
    for university in 1..5 {
        let made = of(university);
        all += made.len() as u64;
        let is_student = |triple: &&Triple| {
            let class = triple.object.to_string();
            class.ends_with("#UndergraduateStudent>")
        };
        students += made.iter().filter(is_student).count() as u64;
    }
    let (each, students) = (all / 4, students / 4);
    let wanted = Universities::TRIPLES_EACH;
    assert!(each > wanted * 8 / 10 && each < wanted * 12 / 10, "{each}");
    // 20 departments of some 36 teachers with 11 students each.
    assert!((5_000..11_000).contains(&students), "{students}");
}

#[test]
fn no_triple_is_made_twice() {
    let made = of(0);
    let distinct: HashSet<&Triple> = made.iter().collect();
    assert_eq!(distinct.len(), made.len());
}

#[test]
fn constants_of_the_queries_are_in_the_first_university() {
    let made = of(0);
    let queries = Universities::queries();
    assert_eq!(queries.len(), 7);
    let objects: HashSet<String> = made
        .iter()
        .filter(|triple| matches!(triple.object, Term::NamedNode(_)))
        .map(|triple| triple.object.to_string())
        .collect();
    for iri in [
        "<http://www.Department0.University0.edu>",
        "<http://www.University0.edu>",
    ] {
        assert!(queries.iter().any(|query| query.text.contains(iri)));
        assert!(objects.contains(iri));
    }
}
