//! Queries on one row against the same queries by their plans: generated procedures are called on
//! two states of one store, and must come to the same.

use crate::procedures::{begin, compiled, execution};
use oxrdf::{Literal, NamedNode, Term};
use proptest::prelude::*;
use somersault_model::{EventTime, Mutation, QuadIds, ShardId, Sn, TermId};
use somersault_query::{
    Abort, Answer, Emission, Execution, ExecutionKey, NetEffects, PlanChoices, Procedure,
    ProcedureInput, TransactionState,
};
use somersault_store::{ShardBatch, ShardWriter, Store};
use std::sync::Arc;

/// A vertex, a parameter that may hold one, or the value of a step before.
fn vertex() -> impl Strategy<Value = String> {
    prop::sample::select(vec![":a", ":b", ":c", "?x", "?y", "?k"]).prop_map(str::to_owned)
}

fn predicate() -> impl Strategy<Value = String> {
    prop::sample::select(vec![":p", ":p", ":q", ":r"]).prop_map(str::to_owned)
}

/// A term where an object stands, which may be a variable of the pattern.
fn object() -> impl Strategy<Value = String> {
    let terms = vec![
        ":a",
        ":b",
        "?v",
        "?v",
        "?w",
        "?n",
        "?k",
        "1",
        "2",
        "\"a text that has no inline form\"",
    ];
    prop::sample::select(terms).prop_map(str::to_owned)
}

fn subject() -> impl Strategy<Value = String> {
    prop_oneof![5 => vertex(), 2 => prop::sample::select(vec!["?v", "?w", "?u"]).prop_map(str::to_owned)]
}

fn triple() -> impl Strategy<Value = String> {
    (subject(), predicate(), object(), 0..8u8).prop_map(|(s, p, o, graph)| match graph {
        0 => format!("GRAPH :g {{ {s} {p} {o} }}"),
        1..3 => format!("GRAPH ?y {{ {s} {p} {o} }}"),
        _ => format!("{s} {p} {o} ."),
    })
}

fn expression() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "?v + ?n",
        "?v - 1",
        "?n * 2.5",
        "COALESCE(?w, ?v, ?n)",
        "IF(BOUND(?w), ?w, 3)",
        "CONCAT(\"of \", STR(?v), \" and \", STR(?k))",
        "IRI(CONCAT(\"http://x/\", STR(?n)))",
        "?v / ?w",
        "1000000000000000000 * ?n",
        "?k",
        "?nowhere",
        "NOW()",
        "RAND()",
        "STR(BNODE())",
    ])
    .prop_map(str::to_owned)
}

fn condition() -> impl Strategy<Value = String> {
    let plain = prop::sample::select(vec![
        "?v < ?n",
        "?v >= 2",
        "?v = ?w",
        "!BOUND(?w)",
        "BOUND(?m)",
        "?k = :a",
        "isIRI(?v) || ?n > 1",
        "?v IN (1, 2, :a)",
        "?m > 3",
        "?nowhere",
        "sameTerm(?v, ?x)",
        "RAND() < 0.5",
    ]);
    let exists = (
        any::<bool>(),
        triple(),
        prop::option::of(Just("FILTER(?w != ?v)")),
    );
    prop_oneof![
        4 => plain.prop_map(str::to_owned),
        2 => exists.prop_map(|(is_there, triple, filter)| {
            let not = if is_there { "" } else { "NOT " };
            format!("{not}EXISTS {{ {triple} {} }}", filter.unwrap_or_default())
        }),
    ]
}

/// A group pattern, whose members come in any order.
fn pattern() -> impl Strategy<Value = String> {
    let member = prop_oneof![
        6 => triple(),
        2 => condition().prop_map(|it| format!("FILTER({it})")),
        1 => (triple(), prop::option::of(condition())).prop_map(|(triple, condition)| {
            let filter = condition.map(|it| format!("FILTER({it})"));
            format!("OPTIONAL {{ {triple} {} }}", filter.unwrap_or_default())
        }),
        1 => triple().prop_map(|it| format!("MINUS {{ {it} }}")),
        1 => (triple(), triple()).prop_map(|(a, b)| format!("{{ {a} }} UNION {{ {b} }}")),
    ];
    let bind = prop::option::of(expression())
        .prop_map(|it| it.map_or(String::new(), |it| format!("BIND({it} AS ?m)")));
    let members = prop::collection::vec(member, 1..4);
    (members, bind, prop::option::of(condition())).prop_map(|(members, bind, condition)| {
        let last = condition.map_or(String::new(), |it| format!("FILTER({it})"));
        format!("{} {bind} {last}", members.join(" "))
    })
}

fn step(depth: u32) -> BoxedStrategy<String> {
    let template = || {
        (
            vertex(),
            predicate(),
            prop::sample::select(vec!["?v", "?w", "?m", "?n", ":a", "?k"]),
        )
    };
    let flat = prop_oneof![
        3 => pattern().prop_map(|it| format!("LET (?LET) BE SELECT ?v WHERE {{ {it} }}")),
        1 => pattern().prop_map(|it| format!("LET (?LET) BE SELECT DISTINCT ?v WHERE {{ {it} }} ORDER BY ?v LIMIT 1")),
        4 => (pattern(), template(), template()).prop_map(|(pattern, (s, p, o), (s2, p2, o2))| {
            format!("DELETE {{ {s} {p} {o} }} INSERT {{ {s2} {p2} {o2} }} WHERE {{ {pattern} }}")
        }),
        1 => (vertex(), predicate(), 0..3u8).prop_filter_map("a constant", |(s, p, o)| {
            s.starts_with(':').then(|| format!("INSERT DATA {{ {s} {p} {o} . GRAPH :g {{ {s} {p} {o} }} }}"))
        }),
        1 => pattern().prop_map(|it| format!("EMIT INTO :out CONSTRUCT {{ ?x :saw ?v , ?m }} WHERE {{ {it} }}")),
    ];
    if depth == 0 {
        return flat.boxed();
    }
    prop_oneof![
        5 => flat,
        2 => (pattern(), step(depth - 1), step(depth - 1)).prop_map(|(it, then, otherwise)| {
            format!("IF ASK {{ {it} }} {{ {then} }} ELSE {{ {otherwise} }}")
        }),
        1 => (pattern(), expression()).prop_map(|(it, reason)| {
            format!("IF ASK {{ {it} }} {{ ABORT CONCAT(\"because \", STR({reason})) }}")
        }),
        1 => (pattern(), step(depth - 1)).prop_map(|(it, inner)| {
            let inner = inner.replace("?k", "?j").replace("?v", "?vv");
            format!("FOR EACH (?v) IN SELECT ?v WHERE {{ {it} }} {{ {inner} }}")
        }),
    ]
    .boxed()
}

/// A procedure that is called, and one with the same steps on the messages of a stream, which reads
/// them where the other reads the graph ?y. It has no parameters, so their names are variables.
fn procedures() -> impl Strategy<Value = [String; 2]> {
    let answer = (pattern(), 0..3u8).prop_map(|(it, form)| match form {
        0 => format!("RETURN ASK {{ {it} }}"),
        1 => format!("RETURN CONSTRUCT {{ ?x :is ?v . ?v :has ?m }} WHERE {{ {it} }}"),
        _ => format!("RETURN SELECT ?x ?v ?m ?w ?k WHERE {{ {it} }}"),
    });
    let steps = prop::collection::vec(step(1), 1..5);
    (steps, prop::option::of(answer)).prop_map(|(steps, answer)| {
        let fed = numbered(steps.join(" ; ")).replace("GRAPH ?y {", "BATCH {");
        let called: Vec<String> = steps.into_iter().chain(answer).collect();
        let called = numbered(called.join(" ; "));
        [
            format!("CREATE PROCEDURE it(?x, ?y, ?n, ?k0) AS {{ {called} }}"),
            format!("CREATE PROCEDURE it ON STREAM :in BATCH 1 MESSAGE AS {{ {fed} }}"),
        ]
    })
}

/// Each LET names another variable; the steps know the first one.
fn numbered(mut text: String) -> String {
    for number in 0.. {
        let name = match number {
            0 => "?k".to_owned(),
            _ => format!("?k{number}"),
        };
        match text.contains("?LET") {
            true => text = text.replacen("?LET", &name, 1),
            false => break,
        }
    }
    text
}

type Small = (u8, u8, u8, bool);

fn small() -> impl Strategy<Value = Small> {
    (0u8..3, 0u8..3, 0u8..8, prop::bool::weighted(0.2))
}

/// What happens to the procedure, and between.
#[derive(Debug, Clone)]
enum Act {
    Call([u8; 3]),
    Feed(Vec<Small>),
    Seal,
    Advance,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => any::<[u8; 3]>().prop_map(Act::Call),
        4 => prop::collection::vec(small(), 1..4).prop_map(Act::Feed),
        1 => Just(Act::Seal),
        1 => Just(Act::Advance),
    ]
}

struct Place {
    store: Arc<Store>,
    writer: ShardWriter,
    sn: u64,
}

impl Place {
    fn new() -> Place {
        let store = Store::new(1);
        let writer = store.take_writer(ShardId(0)).expect("the first writer");
        store.snapshots().publish_stable(Sn(0));
        Place {
            store,
            writer,
            sn: 0,
        }
    }

    fn id(&self, term: &Term) -> TermId {
        self.store.dictionary().intern(term.as_ref())
    }

    fn quad(&self, (subject, predicate, object, is_named): Small) -> QuadIds {
        let graph = match is_named {
            true => self.id(&named("g")),
            false => TermId::DEFAULT_GRAPH,
        };
        QuadIds {
            graph,
            subject: self.id(&named(["a", "b", "c"][subject as usize % 3])),
            predicate: self.id(&named(["p", "q", "r"][predicate as usize % 3])),
            object: self.id(&value(object)),
        }
    }

    fn apply(&mut self, mutations: &[Mutation]) {
        self.sn += 1;
        for batch in ShardBatch::split(mutations, self.store.placement()) {
            self.writer.apply(Sn(self.sn), &batch).expect("in order");
        }
        self.store.snapshots().publish_stable(Sn(self.sn));
    }
}

fn named(name: &str) -> Term {
    NamedNode::new_unchecked(format!("http://x/{name}")).into()
}

fn value(number: u8) -> Term {
    match number % 8 {
        0 => named("a"),
        1 => named("b"),
        2 => named("g"),
        3 => Literal::new_simple_literal("a text that has no inline form").into(),
        number => Literal::from(i64::from(number) - 4).into(),
    }
}

/// One of two ways to run the calls.
struct Side {
    state: TransactionState,
    /// The one that is called, and the one that is fed.
    procedures: [Procedure; 2],
    choices: PlanChoices,
}

type Came = Result<(Vec<Emission>, String, NetEffects), Abort>;

impl Side {
    fn call(&mut self, round: u64, arguments: &[Term]) -> Came {
        self.run(0, round, arguments, &[])
    }

    fn feed(&mut self, round: u64, message: &[QuadIds]) -> Came {
        self.run(1, round, &[], &[vec![message]])
    }

    fn run(
        &mut self,
        which: usize,
        round: u64,
        arguments: &[Term],
        batches: &[Vec<&[QuadIds]>],
    ) -> Came {
        let execution = Execution {
            plan_choices: self.choices,
            ..execution()
        };
        let mut txn = begin(&mut self.state, execution);
        let arguments: Vec<TermId> = arguments.iter().map(|term| txn.id(term)).collect();
        let input = ProcedureInput {
            key: ExecutionKey {
                procedure: which as u32,
                is_call: which == 0,
                round,
            },
            now: EventTime(7_000),
            arguments: &arguments,
            batches,
            slides: &[],
        };
        let executed = txn.execute(&self.procedures[which], &input)?;
        let answer = executed
            .answer
            .map(|answer| text(&answer, txn.dictionary()));
        Ok((executed.emissions, answer.unwrap_or_default(), txn.commit()))
    }
}

/// An answer, whose rows may come in any order.
fn text(answer: &Answer, dictionary: &somersault_dictionary::Dictionary) -> String {
    match answer {
        Answer::Boolean(value) => value.to_string(),
        Answer::Graph(triples) => {
            let mut lines: Vec<String> = triples.iter().map(ToString::to_string).collect();
            lines.sort();
            lines.join("\n")
        }
        Answer::Dataset(quads) => format!("{quads:?}"),
        Answer::Solutions(solutions) => {
            let rows = solutions.rows(dictionary);
            let mut rows: Vec<String> = rows.map(|row| format!("{row:?}")).collect();
            rows.sort();
            format!("{:?} {}", solutions.variables(), rows.join("\n"))
        }
    }
}

fn statements(emissions: &[Emission]) -> Vec<(usize, Vec<QuadIds>)> {
    let each = emissions.iter();
    each.map(|it| {
        let mut statements = it.statements.clone();
        statements.sort_unstable();
        (it.stream, statements)
    })
    .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn one_row_and_a_plan_come_to_the_same(
        stored in prop::collection::vec(small(), 0..9),
        texts in procedures(),
        acts in prop::collection::vec(act(), 1..12),
    ) {
        let [Ok(called), Ok(fed)] = texts.each_ref().map(|text| compiled(text).map(Arc::new)) else {
            return Err(TestCaseError::reject("no procedure"));
        };
        let mut place = Place::new();
        let stored: Vec<Mutation> = stored.into_iter().map(|it| Mutation::insert(place.quad(it))).collect();
        place.apply(&stored);
        let mut sides = [false, true].map(|no_point| {
            let mut state = TransactionState::new(place.store.pin_stable());
            Side {
                procedures: [&called, &fed].map(|it| state.install(Arc::clone(it))),
                state,
                choices: PlanChoices { no_point, ..PlanChoices::default() },
            }
        });
        let (mut newer, mut older) = (Vec::new(), None);
        for (round, act) in acts.into_iter().enumerate() {
            let round = round as u64;
            let [point, plan] = match act {
                Act::Call([x, y, n]) => {
                    let graph = named(["a", "g", "none"][y as usize % 3]);
                    let arguments = [value(x), graph, Literal::from(i64::from(n % 4)).into(), named("a")];
                    sides.each_mut().map(|side| side.call(round, &arguments))
                }
                Act::Feed(message) => {
                    let message: Vec<QuadIds> = message.into_iter().map(|it| place.quad(it)).collect();
                    sides.each_mut().map(|side| side.feed(round, &message))
                }
                Act::Seal if older.is_none() => {
                    older = Some(std::mem::take(&mut newer));
                    sides.iter_mut().for_each(|side| assert!(side.state.seal()));
                    continue;
                }
                Act::Advance => {
                    if let Some(sealed) = older.take() {
                        place.apply(&sealed);
                        sides.iter_mut().for_each(|side| side.state.advance(place.store.pin_stable()));
                    }
                    continue;
                }
                Act::Seal => continue,
            };
            match (point, plan) {
                (Ok(point), Ok(plan)) => {
                    prop_assert_eq!(&point.2, &plan.2);
                    prop_assert_eq!(&point.1, &plan.1);
                    prop_assert_eq!(statements(&point.0), statements(&plan.0));
                    newer.extend(point.2.deletes.iter().map(|quad| Mutation::delete(*quad)));
                    newer.extend(point.2.inserts.iter().map(|quad| Mutation::insert(*quad)));
                }
                (point, plan) => prop_assert_eq!(point.err(), plan.err()),
            }
        }
    }
}
