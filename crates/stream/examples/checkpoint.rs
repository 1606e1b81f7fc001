//! The cost of the coordinator in a checkpoint: freezing, writing and restoring a cohort of many
//! members, and the first changes while the frozen state is held. Run with
//! `cargo run --release -p somersault-stream --example checkpoint [members]`. Figures are printed,
//! not asserted.

use oxrdf::TermRef;
use somersault_lang::lift::Shape;
use somersault_lang::{Parser, Statement};
use somersault_log::{LoadSegment, Position};
use somersault_model::{EventTime, Intern, Lease, QuadIds, StreamUid, Tag, TermId, VirtualShard};
use somersault_stream::{
    Admission, Coordinator, CoreRecord, CutPace, Input, LoggedTexts, QueryDeclaration, Record,
    Resolve, ResolveError, RestoreError, RestoredTerms,
};
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One term, and no segments.
struct OneTerm;

impl Intern for OneTerm {
    fn intern(&self, _: TermRef<'_>) -> TermId {
        TermId::in_dictionary(Tag::NamedNode, VirtualShard::truncated(0), 0)
    }
}

impl RestoredTerms for OneTerm {
    fn lease_of(&self, _: StreamUid, _: u64) -> Option<Lease> {
        None
    }
}

impl Resolve for OneTerm {
    fn load_segment(&self, segment: &LoadSegment) -> Result<Arc<[QuadIds]>, ResolveError> {
        Err(ResolveError::Segment {
            name: segment.name.clone(),
            reason: "there are no segments".to_owned(),
        })
    }
}

/// Queries that are registered together.
const TOGETHER: usize = 10_000;

fn text(number: usize) -> String {
    format!(
        "SELECT ?s FROM STREAM <http://a/> [RANGE 1s STEP 100ms] WHERE {{ ?s <http://p/likes> <http://example.org/user/{number}> }}"
    )
}

fn take(coordinator: &mut Coordinator, input: Input) -> Result<Duration, Box<dyn Error>> {
    let (Admission::Record(record) | Admission::Several(Some(record), _)) =
        coordinator.admit(input)?
    else {
        return Err("the input changes nothing".into());
    };
    let began = Instant::now();
    let mut out = Vec::new();
    coordinator.apply(&record, &OneTerm, &mut out)?;
    while let Some(plan) = coordinator.next_due_cut(Position(0), &CutPace::default()) {
        coordinator.apply(&Record::Plan(plan), &OneTerm, &mut out)?;
    }
    Ok(began.elapsed())
}

fn advance(coordinator: &mut Coordinator, to: i64) -> Result<Duration, Box<dyn Error>> {
    let to = vec![("http://a/".to_owned(), EventTime(to))];
    take(coordinator, Input::Advance { received_ms: 0, to })
}

fn pause(coordinator: &mut Coordinator, number: usize) -> Result<Duration, Box<dyn Error>> {
    let name = format!("query {number}");
    take(
        coordinator,
        Input::PauseQuery {
            received_ms: 0,
            name,
        },
    )
}

fn with_members(members: usize) -> Result<Coordinator, Box<dyn Error>> {
    let mut coordinator = Coordinator::new();
    let stream = "CREATE STREAM <http://a/> TIMING ALL BATCH 100ms IDLE NEVER";
    let Statement::CreateStream(declaration) = Parser::new().parse_statement(stream)? else {
        return Err("the text declares no stream".into());
    };
    let create = Input::CreateStream {
        received_ms: 0,
        declaration,
        namespace: None,
    };
    take(&mut coordinator, create)?;
    let (shape, _) = Shape::of(&text(0)).ok_or("the text has a shape")?;
    let declared = QueryDeclaration::from(&Parser::new().parse_continuous(&text(0))?);
    let (shape, declaration) = (Arc::new(shape), Arc::new(declared));
    for first in (0..members).step_by(TOGETHER) {
        let numbers = first..members.min(first + TOGETHER);
        let named = numbers.map(|number| {
            let (_, words) = Shape::of(&text(number)).unwrap_or_else(|| (Shape::whole(""), vec![]));
            (format!("query {number}"), words)
        });
        let register = Input::RegisterQueries {
            received_ms: 0,
            shape: Arc::clone(&shape),
            namespace: None,
            declaration: Arc::clone(&declaration),
            members: named.collect(),
        };
        take(&mut coordinator, register)?;
    }
    advance(&mut coordinator, 1_000)?;
    Ok(coordinator)
}

fn main() -> Result<(), Box<dyn Error>> {
    let members = std::env::args()
        .nth(1)
        .map_or(Ok(1_000_000), |it| it.parse())?;
    let mut coordinator = with_members(members)?;
    println!("{members} members");
    let close = advance(&mut coordinator, 1_100)?;
    println!("a close                      {close:?}");
    println!(
        "a pause                      {:?}",
        pause(&mut coordinator, 1)?
    );

    let mut shortest = Duration::MAX;
    for _ in 0..20 {
        let began = Instant::now();
        drop(coordinator.freeze().ok_or("no effects wait")?);
        shortest = shortest.min(began.elapsed());
    }
    println!("freeze, best of 20           {shortest:?}");
    let frozen = coordinator.freeze().ok_or("no effects wait")?;
    let close = advance(&mut coordinator, 1_200)?;
    println!("a close while frozen, first  {close:?}");
    let close = advance(&mut coordinator, 1_300)?;
    println!("a close while frozen, later  {close:?}");
    println!(
        "a drop while frozen          {:?}",
        drop_query(&mut coordinator, 2)?
    );

    let began = Instant::now();
    let mut bytes = 0;
    let mut longest = 0;
    let mut files = Vec::new();
    for record in frozen.records() {
        let record = record.to_bytes();
        bytes += record.len();
        longest = longest.max(record.len());
        files.push(record);
    }
    let count = files.len();
    println!(
        "records                      {:?}: {count}, {bytes} bytes",
        began.elapsed()
    );
    println!("the longest record           {longest} bytes");

    let began = Instant::now();
    let records = files.iter().map(|bytes| CoreRecord::from_bytes(bytes));
    let restored =
        Coordinator::restore::<RestoreError>(records, &mut LoggedTexts::new(), &OneTerm)?;
    println!("restore                      {:?}", began.elapsed());
    println!(
        "restored                     {} members",
        restored.query_count()
    );
    Ok(())
}

fn drop_query(coordinator: &mut Coordinator, number: usize) -> Result<Duration, Box<dyn Error>> {
    let name = format!("query {number}");
    take(
        coordinator,
        Input::DropQuery {
            received_ms: 0,
            name,
        },
    )
}
