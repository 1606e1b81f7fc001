//! A prepared, selective query that is executed again and again allocates nothing: counted by the
//! allocator of this test, which is why it is a binary of its own.
#![allow(unsafe_code)]

use somersault::oxrdf::{NamedNode, Term};
use somersault::{Engine, EngineConfig};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fmt::Write;
use std::time::Duration;

thread_local! {
    /// Allocations of this thread; others (the engine's) do as they like.
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

fn count() {
    // A thread that is ending is not the one that is looked at.
    let _ = COUNT.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: every call is passed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const DEPARTMENTS: usize = 40;

const PREFIXES: &str = "PREFIX : <http://x/> PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>";

fn department(number: usize) -> Term {
    NamedNode::new_unchecked(format!("http://x/department{number}")).into()
}

/// Departments with professors who have a name, an age and a day since when, and teach courses.
fn university() -> Engine {
    let engine = Engine::open(EngineConfig {
        // A thread that waits for a processor is not to look like a heavy query: the pool
        // allocates.
        in_place_time: Duration::from_secs(3600),
        ..EngineConfig::default()
    })
    .expect("opens");
    let mut update = format!("{PREFIXES} INSERT DATA {{\n");
    for d in 0..DEPARTMENTS {
        for p in 0..12 {
            let name = format!("professor {p} of department {d}");
            let kind = if p % 3 == 0 { "Full" } else { "Associate" };
            let (age, day) = (30 + p, p + 1);
            writeln!(
                update,
                ":p{d}-{p} a :{kind}Professor ; :worksFor :department{d} ; :name \"{name}\" ; :teaches :c{d}-{p} ; :on :north ; :has :tenure, :office ; :age {age} ; :since \"2001-01-{day:02}\"^^xsd:date ."
            )
            .expect("writing to a string cannot fail");
        }
    }
    update.push('}');
    engine.update(&update).run().expect("is taken");
    engine
}

#[test]
fn a_warm_selective_query_allocates_nothing() {
    let engine = university();
    for (text, rows) in [
        // The shapes of LUBM's selective queries: an edge and a class, a star.
        (
            "SELECT ?x { ?x :worksFor ?department . ?x a :FullProfessor }",
            4,
        ),
        (
            "SELECT ?x ?name ?course { ?x :worksFor ?department . ?x a :FullProfessor . ?x :name ?name . ?x :teaches ?course }",
            4,
        ),
        // The common members of more than three lists.
        (
            "SELECT ?x { ?x :worksFor ?department . ?x a :FullProfessor . ?x :on :north . ?x :has :tenure . ?x :has :office }",
            4,
        ),
        // Conditions on what ids hold, and on ids themselves.
        (
            "SELECT ?x { ?x :worksFor ?department . ?x :age ?age FILTER(?age >= 33 && ?age < 38) }",
            5,
        ),
        (
            "SELECT ?x { ?x :worksFor ?department . ?x a ?kind . ?x :since ?day . ?x :age ?age \
             FILTER((?kind IN (:FullProfessor, :north) || ?age = 31) && ?x != :office && !(?day > \"2001-01-05\"^^xsd:date)) \
             FILTER(BOUND(?age) && ?age + 1 > 31) }",
            2,
        ),
    ] {
        let text = format!("{PREFIXES} {text}");
        let query = engine.prepare(&text, &["department"]).expect("prepares");
        let departments: Vec<[Term; 1]> = (0..DEPARTMENTS).map(|d| [department(d)]).collect();
        let mut results = query.execute(&departments[0]).expect("answers");
        let mut run = |rounds: usize| {
            let before = COUNT.get();
            for _ in 0..rounds {
                for values in &departments {
                    query.execute_into(values, &mut results).expect("answers");
                    assert_eq!(results.answer.len(), rows, "{text}");
                }
            }
            COUNT.get() - before
        };
        run(3);
        assert_eq!(run(5), 0, "allocations of {text}");
    }
    // A count of zero means something only if the counter can count.
    let before = COUNT.get();
    drop(std::hint::black_box(Box::new(1)));
    assert_eq!(COUNT.get() - before, 1);
}
