//! Steps of procedures, sentence by sentence of what they promise, on the real store with layers.

use crate::updates::store;
use oxrdf::{GraphName, Literal, NamedNode, Quad, Term};
use somersault_lang::{CreateProcedure, Parser, Statement};
use somersault_model::{EventTime, Limits, QuadIds, StreamUid, TermId};
use somersault_query::{
    Abort, AbortCause, Answer, CompiledProcedure, Executed, Execution, ExecutionKey, NativeRun,
    NativeSteps, NetEffects, Prepared, Procedure, ProcedureInput, TransactionState, Txn,
    WindowSlide,
};
use std::sync::Arc;
use std::time::Duration;

const PREFIXES: &str = "PREFIX : <http://x/>\nPREFIX xsd: <http://www.w3.org/2001/XMLSchema#>\n";

pub(crate) fn iri(name: &str) -> NamedNode {
    NamedNode::new_unchecked(format!("http://x/{name}"))
}

pub(crate) fn compiled(text: &str) -> Result<CompiledProcedure, String> {
    let parser = Parser::new();
    let statement = parser.parse_statement(&format!("{PREFIXES}{text}"));
    match statement.map_err(|error| error.to_string())? {
        Statement::CreateProcedure(procedure) => CompiledProcedure::new(&procedure),
        other => panic!("{other:?} is no procedure"),
    }
}

pub(crate) fn execution() -> Execution {
    Execution::new(Limits::default(), EventTime(0))
}

pub(crate) fn begin(state: &mut TransactionState, execution: Execution) -> Txn<'_> {
    let lease = state.dictionary().lease(StreamUid(7));
    state.begin(execution, lease)
}

/// An input without batches, slides and arguments.
pub(crate) const CALL: ProcedureInput<'_> = ProcedureInput {
    key: ExecutionKey {
        procedure: 1,
        is_call: true,
        round: 1,
    },
    now: EventTime(1_000),
    arguments: &[],
    batches: &[],
    slides: &[],
};

/// Data with one procedure.
struct Scene {
    state: TransactionState,
    procedure: Procedure,
}

/// A message or stored data, in TriG without prefixes of its own.
fn quads(text: &str) -> Vec<Quad> {
    let update = Parser::new().parse_update(&format!("{PREFIXES}INSERT DATA {{ {text} }}"));
    match update.expect("data").operations.remove(0) {
        somersault_lang::UpdateOperation::InsertData(quads) => quads,
        other => panic!("{other:?}"),
    }
}

impl Scene {
    fn new(data: &str, procedure: &str) -> Scene {
        let stored = if data.is_empty() {
            Vec::new()
        } else {
            quads(data)
        };
        let mut state = TransactionState::new(store(&stored).pin_stable());
        let procedure = compiled(procedure).expect("a procedure");
        let procedure = state.install(Arc::new(procedure));
        Scene { state, procedure }
    }

    fn message(&self, text: &str) -> Vec<QuadIds> {
        let dictionary = self.state.dictionary();
        let id = |term: Term| dictionary.intern(term.as_ref());
        let ids = |quad: Quad| QuadIds {
            graph: match quad.graph_name {
                GraphName::NamedNode(name) => id(name.into()),
                _ => TermId::DEFAULT_GRAPH,
            },
            subject: id(quad.subject.into()),
            predicate: id(quad.predicate.into()),
            object: id(quad.object),
        };
        quads(text).into_iter().map(ids).collect()
    }

    fn run(&mut self, input: &ProcedureInput<'_>) -> Result<(Executed, NetEffects), Abort> {
        let mut txn = begin(&mut self.state, execution());
        let executed = txn.execute(&self.procedure, input)?;
        Ok((executed, txn.commit()))
    }

    /// Calls it with these arguments; what it answered, as text.
    fn call(&mut self, arguments: &[Term]) -> Result<String, Abort> {
        let mut txn = begin(&mut self.state, execution());
        let arguments: Vec<TermId> = arguments.iter().map(|term| txn.id(term)).collect();
        let input = ProcedureInput {
            arguments: &arguments,
            ..CALL
        };
        let executed = txn.execute(&self.procedure, &input)?;
        txn.commit();
        let answer = executed.answer.map(|answer| self.text(&answer));
        Ok(answer.unwrap_or_default())
    }

    /// Runs it on a batch of each stream.
    fn on(&mut self, batches: &[&[&str]]) -> Result<(Executed, NetEffects), Abort> {
        let batches: Vec<Vec<Vec<QuadIds>>> = batches
            .iter()
            .map(|batch| batch.iter().map(|text| self.message(text)).collect())
            .collect();
        let batches: Vec<Vec<&[QuadIds]>> = batches
            .iter()
            .map(|batch| batch.iter().map(Vec::as_slice).collect())
            .collect();
        self.run(&ProcedureInput {
            batches: &batches,
            ..CALL
        })
    }

    fn text(&self, answer: &Answer) -> String {
        let short = |text: String| {
            text.replace("http://x/", "")
                .replace("^^<http://www.w3.org/2001/XMLSchema#integer>", "")
        };
        short(match answer {
            Answer::Boolean(value) => value.to_string(),
            Answer::Graph(triples) => {
                let mut lines: Vec<String> = triples.iter().map(ToString::to_string).collect();
                lines.sort();
                lines.join(" . ")
            }
            Answer::Dataset(quads) => format!("{quads:?}"),
            Answer::Solutions(solutions) => {
                let cell = |term: Option<Term>| term.map_or("-".to_owned(), |it| it.to_string());
                let rows = solutions.rows(self.state.dictionary());
                let rows = rows.map(|row| row.into_iter().map(cell).collect::<Vec<_>>().join(" "));
                rows.collect::<Vec<_>>().join(" | ")
            }
        })
    }

    /// The answer of a query on what has committed.
    fn query(&mut self, text: &str) -> String {
        let query = Parser::new().parse_query(&format!("{PREFIXES}{text}"));
        let query = Prepared::new(query.expect("a query"));
        let answer = begin(&mut self.state, execution()).query(&query, &[]);
        let answer = answer.expect("no limit is near");
        self.text(&answer)
    }

    fn statements(&self, quads: &[QuadIds]) -> String {
        let term = |id: TermId| {
            let term = self.state.dictionary().decode(id);
            let term = term.map_or("default".to_owned(), |term| term.to_string());
            term.replace("http://x/", "")
                .replace("^^<http://www.w3.org/2001/XMLSchema#integer>", "")
        };
        let mut lines: Vec<String> = quads
            .iter()
            .map(|quad| {
                [quad.subject, quad.predicate, quad.object]
                    .map(term)
                    .join(" ")
            })
            .collect();
        lines.sort();
        lines.join(" . ")
    }
}

fn named(name: &str) -> Term {
    iri(name).into()
}

#[test]
fn a_value_stands_in_patterns_templates_sub_selects_projections_and_expressions() {
    let mut scene = Scene::new(
        ":a :p 1 . :b :p 2 . :a :q :b . GRAPH :g { :a :p 7 }",
        "CREATE PROCEDURE it (?x IRI, ?n) AS {
           INSERT { ?x :sum ?total ; :by ?n . GRAPH ?x { ?x :n ?n } } WHERE {
             { SELECT (SUM(?v) AS ?s) WHERE { ?x :p ?v } }
             FILTER EXISTS { ?x :q ?y } OPTIONAL { ?x :none ?none }
             FILTER(BOUND(?x) && !BOUND(?none)) BIND(?s + ?n AS ?total) } ;
           RETURN SELECT ?x ?v (?n + 1 AS ?more) ?w WHERE { ?x :p ?v . GRAPH :g { ?x :p ?w } FILTER(?v < ?n) } }",
    );
    let ten = Term::from(Literal::from(10));
    assert_eq!(
        scene.call(&[named("a"), ten.clone()]),
        Ok("<a> \"1\" \"11\" \"7\"".to_owned())
    );
    assert_eq!(
        scene.query("SELECT ?p ?o { :a ?p ?o FILTER(?p IN (:sum, :by)) } ORDER BY ?p"),
        "<by> \"10\" | <sum> \"11\""
    );
    assert_eq!(
        scene.query("SELECT ?s ?o { GRAPH :a { ?s :n ?o } }"),
        "<a> \"10\""
    );
    // The same compiled steps, for others.
    assert_eq!(scene.call(&[named("b"), ten]), Ok(String::new()));
    assert_eq!(scene.query("ASK { :b :sum ?s }"), "false");
}

#[test]
fn a_value_may_be_a_literal_where_no_literal_can_stand() {
    let mut scene = Scene::new(
        ":a :p 1",
        "CREATE PROCEDURE it (?x) AS {
           INSERT { ?x :made 1 . :a ?x 1 . GRAPH ?x { :a :b :c } . :a :is ?x } WHERE { } ;
           RETURN SELECT (COUNT(*) AS ?n) WHERE { { ?x ?y ?z } UNION { ?y ?x ?z } UNION { GRAPH ?x { ?y ?z ?u } } UNION { GRAPH ?x { } } } }",
    );
    let literal = Term::from(Literal::new_simple_literal(
        "a text that is longer than inline",
    ));
    assert_eq!(scene.call(&[literal]), Ok("\"0\"".to_owned()));
    assert_eq!(scene.query("SELECT (COUNT(*) AS ?n) { ?s ?p ?o }"), "\"2\"");
}

#[test]
fn an_unbound_value_stays_a_variable_and_bound_is_false_of_it() {
    let mut scene = Scene::new(
        ":a :p 1 . :b :p 2",
        "CREATE PROCEDURE it (?x) AS {
           LET (?y) BE SELECT ?z WHERE { ?x :none ?z } ;
           IF ASK { FILTER(BOUND(?y)) } { ABORT \"bound\" } ;
           RETURN SELECT ?y ?v WHERE { ?y :p ?v } ORDER BY ?v }",
    );
    assert_eq!(
        scene.call(&[named("a")]),
        Ok("<a> \"1\" | <b> \"2\"".to_owned())
    );
}

#[test]
fn let_takes_the_columns_of_the_one_row_in_their_order() {
    let mut scene = Scene::new(
        ":a :p 1 ; :q 2 ; :p2 3 , 4",
        "CREATE PROCEDURE it (?which) AS {
           LET (?first ?second) BE SELECT ?q ?p WHERE { :a :p ?p ; :q ?q } ;
           LET (?some) BE SELECT ?z WHERE { :a ?which ?z } ;
           RETURN SELECT ?first ?second ?some WHERE { } }",
    );
    assert_eq!(
        scene.call(&[named("q")]),
        Ok("\"2\" \"1\" \"2\"".to_owned())
    );
    assert_eq!(scene.call(&[named("none")]), Ok("\"2\" \"1\" -".to_owned()));
    let abort = scene.call(&[named("p2")]).expect_err("two rows");
    assert_eq!(abort.cause, AbortCause::Error);
    assert_eq!(
        abort.reason,
        "LET (?some) found 2 rows and takes one at most; make its SELECT find one, or use FOR EACH (the step at line 5, column 12)"
    );
}

#[test]
fn if_runs_the_first_branch_whose_condition_holds() {
    let mut scene = Scene::new(
        "",
        "CREATE PROCEDURE it (?n) AS {
           IF ASK { FILTER(?n < 10) } { INSERT DATA { :r :is \"few\" } }
           ELSE IF ASK { FILTER(?n < 100) } { INSERT DATA { :r :is \"some\" } }
           ELSE { INSERT DATA { :r :is \"many\" } } ;
           RETURN SELECT ?is WHERE { :r :is ?is } ORDER BY ?is }",
    );
    let answer = |scene: &mut Scene, n: i64| scene.call(&[Literal::from(n).into()]);
    assert_eq!(answer(&mut scene, 50), Ok("\"some\"".to_owned()));
    assert_eq!(answer(&mut scene, 5), Ok("\"few\" | \"some\"".to_owned()));
    assert_eq!(
        answer(&mut scene, 500),
        Ok("\"few\" | \"many\" | \"some\"".to_owned())
    );
}

#[test]
fn for_each_goes_through_the_rows_as_they_are_before_the_first_pass() {
    let mut scene = Scene::new(
        ":a :next 1 . :b :next 2",
        "CREATE PROCEDURE it AS {
           FOR EACH (?s ?n) IN SELECT ?s ?n WHERE { ?s :next ?n } ORDER BY ?n {
             DELETE { ?x :next ?old } INSERT { ?x :next ?new } WHERE { ?x :next ?old BIND(?old + 10 AS ?new) } ;
             INSERT { ?s :saw ?n } WHERE { } } ;
           RETURN SELECT ?s ?n ?saw WHERE { ?s :next ?n ; :saw ?saw } ORDER BY ?s }",
    );
    assert_eq!(
        scene.call(&[]),
        Ok("<a> \"21\" \"1\" | <b> \"22\" \"2\"".to_owned())
    );
}

#[test]
fn equal_rows_of_for_each_come_in_the_order_of_their_terms() {
    let data = ":x :v \"b\" , \"a\" , \"a\"@en , 10 , 9 , :z , :y , \"é\" , \"z\" . :x :k 1";
    let procedure = |select: &str| {
        format!(
            "CREATE PROCEDURE it AS {{
               INSERT DATA {{ :seq :at 0 }} ;
               FOR EACH (?v ?w) IN {select} {{
                 DELETE {{ :seq :at ?n }} INSERT {{ :seq :at ?m . ?seen :is ?v }} WHERE {{ :seq :at ?n BIND(?n + 1 AS ?m) BIND(IRI(CONCAT(\"http://x/s\", STR(?m))) AS ?seen) }} }} ;
               RETURN SELECT ?v WHERE {{ ?seen :is ?v }} ORDER BY xsd:integer(STRAFTER(STR(?seen), \"/s\")) }}"
        )
    };
    let by_term = "<y> | <z> | \"10\" | \"9\" | \"a\"@en | \"a\" | \"b\" | \"z\" | \"é\"";
    for select in [
        "SELECT ?v ?w WHERE { :x :v ?v OPTIONAL { :x :none ?w } }",
        "SELECT ?v ?w WHERE { :x :v ?v ; :k ?w } ORDER BY ?w",
        "SELECT DISTINCT ?v ?w WHERE { :x :v ?v ; :k ?w } ORDER BY DESC(?w) LIMIT 20",
    ] {
        let mut scene = Scene::new(data, &procedure(select));
        assert_eq!(scene.call(&[]), Ok(by_term.to_owned()), "{select}");
    }
    let select = "SELECT ?v ?w WHERE { :x :v ?v ; :k ?w } ORDER BY ?w LIMIT 2";
    let mut scene = Scene::new(data, &procedure(select));
    assert_eq!(
        scene.call(&[]),
        Ok("<y> | <z>".to_owned()),
        "before the LIMIT"
    );
    let select =
        "SELECT ?v ?w WHERE { :x :v ?v FILTER(isNumeric(?v)) OPTIONAL { :x :k ?w } } ORDER BY ?v";
    let mut scene = Scene::new(data, &procedure(select));
    assert_eq!(
        scene.call(&[]),
        Ok("\"9\" | \"10\"".to_owned()),
        "the order of the SELECT"
    );
}

#[test]
fn each_step_sees_what_those_before_it_wrote() {
    let mut scene = Scene::new(
        ":a :p 1",
        "CREATE PROCEDURE it AS {
           DELETE DATA { :a :p 1 } ; INSERT DATA { :a :p 2 . GRAPH :g { :a :p 3 } } ;
           DELETE { :a :p ?v } INSERT { :a :p ?w } WHERE { :a :p ?v . GRAPH :g { :a :p ?u } BIND(?v + ?u AS ?w) } ;
           DELETE WHERE { GRAPH :g { ?s ?p ?o } } ;
           RETURN SELECT ?v ?g WHERE { :a :p ?v OPTIONAL { GRAPH ?g { } } } }",
    );
    let (executed, effects) = scene.run(&CALL).expect("it commits");
    let answer = executed.answer.expect("an answer");
    assert_eq!(scene.text(&answer), "\"5\" -");
    assert_eq!(scene.statements(&effects.deletes), "<a> <p> \"1\"");
    assert_eq!(scene.statements(&effects.inserts), "<a> <p> \"5\"");
    assert_eq!(effects.clears, []);
}

#[test]
fn effects_are_net_and_inserting_what_holds_is_none() {
    let mut scene = Scene::new(
        ":a :p 1 , 2",
        "CREATE PROCEDURE it AS {
           INSERT DATA { :a :p 1 , 3 } ; DELETE DATA { :a :p 2 , 3 , 4 } ; INSERT DATA { :a :p 2 } }",
    );
    let (_, effects) = scene.run(&CALL).expect("it commits");
    assert!(effects.is_empty(), "{effects:?}");
}

#[test]
fn a_batch_is_the_union_of_its_messages_and_the_graph_of_a_quad_is_not_seen() {
    let mut scene = Scene::new(
        ":m :v 9",
        "CREATE PROCEDURE it ON STREAM :s BATCH 2 MESSAGES AS {
           INSERT { :r :sum ?sum ; :count ?n } WHERE { { SELECT (SUM(?v) AS ?sum) (COUNT(*) AS ?n) WHERE { BATCH { ?m :v ?v } } } } }",
    );
    let done = scene.on(&[&[":a :v 1 , 2 . GRAPH :g { :a :v 4 }", ":a :v 2 . :b :v 8"]]);
    let (_, effects) = done.expect("it commits");
    assert_eq!(
        scene.statements(&effects.inserts),
        "<r> <count> \"4\" . <r> <sum> \"15\""
    );
    assert_eq!(
        scene.on(&[&[":a :v 5"]]).map(|_| ()),
        Ok(()),
        "the batch before is gone"
    );
    assert_eq!(
        scene.query("SELECT ?n { :r :sum ?n } ORDER BY ?n"),
        "\"5\" | \"15\""
    );
}

#[test]
fn batches_of_several_streams_are_told_apart_and_a_side_may_be_empty() {
    let mut scene = Scene::new(
        "",
        "CREATE PROCEDURE it ON STREAM :s BATCH 1 MESSAGE ON STREAM :t BATCH 1 MESSAGE AS {
           INSERT { :s :has ?v } WHERE { BATCH :s { ?m :v ?v } } ; INSERT { :t :has ?v } WHERE { BATCH :t { ?m :v ?v } } ;
           INSERT { :t :is :empty } WHERE { FILTER NOT EXISTS { BATCH :t { ?m ?p ?o } } BATCH :t { } } }",
    );
    scene.on(&[&[":a :v 1"], &[":a :v 2"]]).expect("it commits");
    assert_eq!(
        scene.query("SELECT ?s ?v { ?s :has ?v } ORDER BY ?s"),
        "<s> \"1\" | <t> \"2\""
    );
    scene.on(&[&[":a :v 3"], &[]]).expect("it commits");
    assert_eq!(scene.query("ASK { :t :is :empty }"), "true");
}

#[test]
fn graph_with_a_variable_ranges_over_no_batch_and_no_window() {
    let mut scene = Scene::new(
        "GRAPH :g { :a :v 1 }",
        "CREATE PROCEDURE it ON STREAM :s BATCH 1 MESSAGE OWNS WINDOW :w ON :s [LAST 1 MESSAGE] AS {
           INSERT { :seen :graph ?g } WHERE { GRAPH ?g { ?m :v ?v } } ;
           INSERT { :also :graph ?g } WHERE { GRAPH ?g { } } ;
           INSERT { :stored :n ?n } WHERE { { SELECT (COUNT(*) AS ?n) WHERE { ?m :v ?v } } } ;
           INSERT { :kept :n ?n } WHERE { { SELECT (COUNT(*) AS ?n) WHERE { { BATCH { ?m :v ?v } } UNION { WINDOW :w { ?m :v ?v } } } } } }",
    );
    let message = scene.message(":m :v 2");
    scene
        .run(&ProcedureInput {
            batches: &[vec![&message]],
            slides: &[WindowSlide {
                window: 0,
                leave: Vec::new(),
                enter: vec![&message],
                sets_off: true,
            }],
            ..CALL
        })
        .expect("it commits");
    assert_eq!(
        scene.query("SELECT ?s ?g { ?s :graph ?g } ORDER BY ?s"),
        "<also> <g> | <seen> <g>"
    );
    assert_eq!(
        scene.query("SELECT ?s ?n { ?s :n ?n } ORDER BY ?s"),
        "<kept> \"2\" | <stored> \"0\""
    );
    // A value that is the reserved name is a plain IRI.
    let kept = somersault_lang::KeptGraph::Window(iri("w")).name();
    let named = compiled(
        "CREATE PROCEDURE it (?g IRI) AS { RETURN SELECT ?m WHERE { GRAPH ?g { ?m ?p ?v } } }",
    );
    scene.procedure = scene.state.install(Arc::new(named.expect("a procedure")));
    assert_eq!(scene.call(&[kept.into()]), Ok(String::new()));
}

const WINDOW: &str = "CREATE PROCEDURE it ON STREAM :s BATCH 1 MESSAGE
  OWNS WINDOW :w ON :s [LAST 2 MESSAGES] OWNS WINDOW :u ON :s [LAST 1 MESSAGE]
  WHEN :w SLIDES { DELETE { :t :sum ?old } INSERT { :t :sum ?sum } WHERE {
    { SELECT (SUM(?v) AS ?sum) (COUNT(*) AS ?c) WHERE { WINDOW :w { ?m :v ?v } } } OPTIONAL { :t :sum ?old } } }
  AS { INSERT { :s :v ?v } WHERE { BATCH { ?m :v ?v } } ; IF ASK { BATCH { ?m :v 99 } } { ABORT CONCAT(\"no \", \"99\") } }";

fn slide<'m>(leave: &[&'m [QuadIds]], enter: &[&'m [QuadIds]], sets_off: bool) -> WindowSlide<'m> {
    WindowSlide {
        window: 0,
        leave: leave.to_vec(),
        enter: enter.to_vec(),
        sets_off,
    }
}

#[test]
fn after_each_slide_its_trigger_runs_and_an_abort_undoes_the_slide() {
    let mut scene = Scene::new("", WINDOW);
    let messages: Vec<Vec<QuadIds>> = [":a :v 1 , 2", ":b :v 2 . :a :v 2", ":c :v 99", ":d :v 7"]
        .iter()
        .map(|text| scene.message(text))
        .collect();
    let input = |at: usize| vec![messages[at].as_slice()];
    let first = [slide(&[], &[&messages[0], &messages[1]], true)];
    let run = |scene: &mut Scene, at: usize, slides: &[WindowSlide<'_>]| {
        let batches = [input(at)];
        let input = ProcedureInput {
            batches: &batches,
            slides,
            ..CALL
        };
        scene.run(&input).map(|_| ())
    };
    assert_eq!(run(&mut scene, 1, &first), Ok(()));
    assert_eq!(
        scene.query("SELECT ?n { :t :sum ?n }"),
        "\"5\"",
        "a set: 1, 2 and 2"
    );
    let second = [slide(&[&messages[0]], &[&messages[2]], true)];
    let abort = run(&mut scene, 2, &second).expect_err("99 aborts");
    assert_eq!((abort.cause, &*abort.reason), (AbortCause::Stated, "no 99"));
    assert_eq!(scene.query("SELECT ?n { :t :sum ?n }"), "\"5\"");
    assert_eq!(scene.state.window(&scene.procedure, 0).len(), 3);
    let third = [slide(&[&messages[0]], &[&messages[3]], true)];
    assert_eq!(run(&mut scene, 3, &third), Ok(()));
    assert_eq!(
        scene.query("SELECT ?n { :t :sum ?n }"),
        "\"11\"",
        "2, 2 and 7"
    );
    assert!(scene.state.window(&scene.procedure, 1).is_empty());
}

#[test]
fn or_replace_keeps_a_window_with_the_same_clause_and_empties_another() {
    let mut scene = Scene::new("", WINDOW);
    let message = scene.message(":a :v 1");
    let mut slides = [
        slide(&[], &[&message], false),
        slide(&[], &[&message], false),
    ];
    slides[1].window = 1;
    let batches = [vec![message.as_slice()]];
    let input = ProcedureInput {
        batches: &batches,
        slides: &slides,
        ..CALL
    };
    scene.run(&input).expect("it commits");
    let other = WINDOW.replace("[LAST 1 MESSAGE]", "[LAST 5 MESSAGES]");
    let other = compiled(&other).expect("a procedure");
    let Scene {
        mut state,
        procedure,
    } = scene;
    let replaced = state.replace(procedure, Arc::new(other));
    assert_eq!(state.window(&replaced, 0).len(), 1);
    assert_eq!(state.window(&replaced, 1).len(), 0);
    state.remove(replaced);
    let again = state.install(Arc::new(compiled(WINDOW).expect("a procedure")));
    assert_eq!(state.window(&again, 0).len(), 0);
}

#[test]
fn emit_makes_one_message_and_an_empty_graph_none() {
    let mut scene = Scene::new(
        ":a :p 1 , 2 , 2",
        "CREATE PROCEDURE it AS {
           EMIT INTO :out CONSTRUCT { ?s :is ?v ; :again ?v } WHERE { ?s :p ?v } ;
           EMIT INTO :out CONSTRUCT { ?s :is ?v } WHERE { ?s :none ?v } ;
           FOR EACH (?v) IN SELECT ?v WHERE { ?s :p ?v } ORDER BY ?v { EMIT INTO :other CONSTRUCT { :a :same :b ; :v ?v } WHERE { } } ;
           EMIT INTO :out CONSTRUCT { ?unbound :is ?v . :left :out ?none } WHERE { ?s :p ?v } }",
    );
    let (executed, effects) = scene.run(&CALL).expect("it commits");
    assert!(effects.is_empty());
    let made: Vec<(usize, String)> = (executed.emissions.iter())
        .map(|emission| (emission.stream, scene.statements(&emission.statements)))
        .collect();
    let first = "<a> <again> \"1\" . <a> <again> \"2\" . <a> <is> \"1\" . <a> <is> \"2\"";
    assert_eq!(
        made,
        [
            (0, first.to_owned()),
            (1, "<a> <same> <b> . <a> <v> \"1\"".to_owned()),
            (1, "<a> <same> <b> . <a> <v> \"2\"".to_owned()),
        ]
    );
}

#[test]
fn when_into_reads_the_message_just_emitted_and_ends_before_the_next_step() {
    let mut scene = Scene::new(
        "",
        "CREATE PROCEDURE it (?n)
           WHEN INTO :one { INSERT { :log :saw ?v } WHERE { BATCH :one { ?m :v ?v } } ;
             EMIT INTO :two CONSTRUCT { ?m :w ?w } WHERE { BATCH :one { ?m :v ?v } BIND(?v * 10 AS ?w) } }
           WHEN INTO :two { INSERT { :log :deep ?w } WHERE { BATCH :two { ?m :w ?w } } ;
             IF ASK { BATCH :two { ?m :w 30 } } { ABORT \"thirty\" } }
         AS {
           EMIT INTO :one CONSTRUCT { :m :v ?n } WHERE { } ;
           INSERT { :log :after ?x } WHERE { :log :deep ?x } ;
           EMIT INTO :one CONSTRUCT { :m :v ?k } WHERE { BIND(?n + 1 AS ?k) } }",
    );
    let mut run = |n: i64| {
        let mut txn = begin(&mut scene.state, execution());
        let argument = [txn.id(&Literal::from(n).into())];
        let input = ProcedureInput {
            arguments: &argument,
            ..CALL
        };
        let executed = txn.execute(&scene.procedure, &input)?;
        txn.commit();
        let streams = (executed.emissions.iter())
            .map(|it| scene.procedure.compiled().emits()[it.stream].clone());
        Ok::<Vec<NamedNode>, Abort>(streams.collect())
    };
    let [one, two] = [iri("one"), iri("two")];
    assert_eq!(run(5), Ok(vec![one.clone(), two.clone(), one, two]));
    let abort = run(2).expect_err("3 becomes 30");
    assert_eq!(abort, Abort::stated("thirty"));
    let log = "SELECT ?p ?v { :log ?p ?v } ORDER BY ?p ?v";
    assert_eq!(
        scene.query(log),
        "<after> \"50\" | <deep> \"50\" | <deep> \"60\" | <saw> \"5\" | <saw> \"6\""
    );
}

#[test]
fn an_abort_leaves_nothing_and_its_reason_is_the_text_of_the_expression() {
    let mut scene = Scene::new(
        ":a :p 1",
        "CREATE PROCEDURE it (?why) AS {
           DELETE WHERE { ?s ?p ?o } ; INSERT DATA { :b :p 2 . GRAPH :g { :c :d :e } } ;
           EMIT INTO :out CONSTRUCT { :a :b :c } WHERE { } ; ABORT ?why }",
    );
    for (why, reason) in [
        (Literal::new_simple_literal("unknown").into(), "unknown"),
        (Literal::from(7).into(), "7"),
        (named("a"), "http://x/a"),
    ] {
        assert_eq!(scene.call(&[why]), Err(Abort::stated(reason)));
        assert_eq!(scene.query("SELECT * { ?s ?p ?o }"), "<a> <p> \"1\"");
        assert_eq!(scene.query("ASK { GRAPH ?g { ?s ?p ?o } }"), "false");
    }
    assert!(!scene.state.has_unsealed());
    let error = "CREATE PROCEDURE it (?n) AS { ABORT 1 / ?n }";
    scene.procedure = scene
        .state
        .install(Arc::new(compiled(error).expect("a procedure")));
    let abort = scene
        .call(&[Literal::from(0).into()])
        .expect_err("no value");
    assert_eq!(abort.cause, AbortCause::Error);
    assert_eq!(
        abort.reason,
        "the expression of ABORT has no value (the step at line 3, column 31)"
    );
}

#[test]
fn return_does_not_end_the_procedure_and_a_second_one_reached_aborts() {
    let mut scene = Scene::new(
        "",
        "CREATE PROCEDURE it (?n) AS {
           IF ASK { FILTER(?n = 1) } { RETURN ASK { ?s ?p ?o } } ;
           IF ASK { FILTER(?n > 1) } { RETURN CONSTRUCT { :a :is ?n } WHERE { } } ;
           INSERT { :a :n ?n } WHERE { } ;
           IF ASK { FILTER(?n > 2) } { RETURN SELECT ?n WHERE { } } }",
    );
    let call = |scene: &mut Scene, n: i64| scene.call(&[Literal::from(n).into()]);
    assert_eq!(call(&mut scene, 1), Ok("false".to_owned()));
    assert_eq!(call(&mut scene, 2), Ok("<a> <is> \"2\"".to_owned()));
    assert_eq!(call(&mut scene, 0), Ok(String::new()));
    let abort = call(&mut scene, 3).expect_err("two RETURN");
    assert!(
        abort.reason.starts_with("a second RETURN is reached"),
        "{}",
        abort.reason
    );
    assert_eq!(
        scene.query("SELECT ?n { :a :n ?n } ORDER BY ?n"),
        "\"0\" | \"1\" | \"2\""
    );
}

#[test]
fn now_is_the_time_of_the_batch_and_random_values_are_keyed_by_round_step_and_row() {
    let text = "CREATE PROCEDURE it AS {
       INSERT { ?x :now ?now ; :r ?r ; :u ?u ; :b [ :of ?x ] } WHERE { ?x :p ?v BIND(NOW() AS ?now) BIND(RAND() AS ?r) BIND(STRUUID() AS ?u) } ;
       LET (?r) BE SELECT (RAND() AS ?r2) WHERE { } ; INSERT { :step :r ?r } WHERE { } }";
    let data = ":a :p 1 . :b :p 2 . :c :p 3";
    let run = |round: u64, procedure: u32| {
        let mut scene = Scene::new(data, text);
        let mut input = CALL;
        input.key.round = round;
        input.key.procedure = procedure;
        input.now = EventTime(86_400_000);
        let (_, effects) = scene.run(&input).expect("it commits");
        scene.statements(&effects.inserts)
    };
    let first = run(1, 1);
    assert_eq!(run(1, 1), first, "a replay gives the same");
    assert!(
        first.contains("<a> <now> \"1970-01-02T00:00:00Z\""),
        "{first}"
    );
    let values = |text: &str| -> Vec<String> {
        let lines = text
            .split(" . ")
            .filter(|line| line.contains("<r>") || line.contains("<u>"));
        lines
            .filter_map(|line| line.rsplit(' ').next().map(str::to_owned))
            .collect()
    };
    let mut all = values(&first);
    all.extend(values(&run(2, 1)));
    all.extend(values(&run(1, 2)));
    assert_eq!(all.len(), 3 * 7);
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 3 * 7, "all differ");
}

#[test]
fn a_nest_rolls_back_to_its_start_or_to_a_savepoint() {
    let mut scene = Scene::new(
        ":a :p 1",
        "CREATE PROCEDURE it AS { INSERT DATA { :b :p 2 } ; EMIT INTO :o CONSTRUCT { :x :y :z } WHERE { } }",
    );
    let mut txn = begin(&mut scene.state, execution());
    txn.execute(&scene.procedure, &CALL).expect("it runs");
    let savepoint = txn.savepoint();
    let two = Term::from(Literal::from(2));
    let [b, p, two] = [&named("b"), &named("p"), &two].map(|term| txn.id(term));
    let quad = somersault_model::TripleIds::new(b, p, two).in_graph(TermId::DEFAULT_GRAPH);
    assert!(txn.holds(quad));
    txn.delete(quad);
    txn.clear(TermId::DEFAULT_GRAPH);
    txn.insert(quad);
    txn.rollback(savepoint);
    assert!(txn.holds(quad));
    let effects = txn.commit();
    assert_eq!(
        (effects.inserts, effects.deletes, effects.clears),
        (vec![quad], vec![], vec![])
    );
    assert_eq!(
        scene.query("SELECT ?s { ?s ?p ?o } ORDER BY ?s"),
        "<a> | <b>"
    );
}

#[test]
fn a_graph_cleared_by_name_is_empty_until_something_is_inserted() {
    let mut scene = Scene::new(
        ":a :p 1 , 2 . GRAPH :g { :a :p 3 }",
        "CREATE PROCEDURE it AS { INSERT DATA { :a :p 5 } }",
    );
    let mut txn = begin(&mut scene.state, execution());
    txn.execute(&scene.procedure, &CALL).expect("it runs");
    txn.clear(TermId::DEFAULT_GRAPH);
    txn.execute(&scene.procedure, &CALL).expect("it runs");
    let effects = txn.commit();
    assert_eq!(effects.clears, [TermId::DEFAULT_GRAPH]);
    assert_eq!(scene.statements(&effects.inserts), "<a> <p> \"5\"");
    assert_eq!(effects.deletes, []);
    assert_eq!(scene.query("SELECT ?o { ?s ?p ?o }"), "\"5\"");
    assert_eq!(scene.query("SELECT ?o { GRAPH ?g { ?s ?p ?o } }"), "\"3\"");
}

#[test]
fn limits_of_time_and_memory_abort_with_the_place_of_the_step() {
    let data: Vec<String> = (0..200).map(|n| format!(":n :v {n} .")).collect();
    let text = "CREATE PROCEDURE it AS {
       FOR EACH (?a) IN SELECT ?a WHERE { :n :v ?a } { INSERT { ?x :made ?b } WHERE { :n :v ?b BIND(IRI(CONCAT(\"http://x/m\", STR(?a))) AS ?x) } } }";
    let mut scene = Scene::new(&data.join(" "), text);
    let mut small = execution();
    small.limits.query_memory_bytes = 200_000;
    let mut txn = begin(&mut scene.state, small);
    let abort = txn.execute(&scene.procedure, &CALL).expect_err("too much");
    assert_eq!(abort.cause, AbortCause::Limit);
    assert!(abort.reason.contains("200000 bytes"), "{}", abort.reason);
    assert!(
        abort.reason.ends_with("(the step at line 4, column 56)"),
        "{}",
        abort.reason
    );
    drop(txn);
    let mut late = execution();
    late.limits.query_time = Duration::ZERO;
    let mut txn = begin(&mut scene.state, late);
    let abort = txn.execute(&scene.procedure, &CALL).expect_err("too late");
    assert_eq!(abort.cause, AbortCause::Limit);
    drop(txn);
    assert!(!scene.state.has_unsealed());
    let cancelled = Execution {
        cancel: Some(Arc::new(true.into())),
        ..execution()
    };
    let mut txn = begin(&mut scene.state, cancelled);
    let abort = txn
        .execute(&scene.procedure, &CALL)
        .expect_err("the engine ends");
    assert!(abort.is_interruption(), "it is no abort of the procedure");
}

#[test]
fn layers_may_say_what_the_snapshot_says_already() {
    let mut scene = Scene::new(
        ":a :p 1 . :a :q 1",
        "CREATE PROCEDURE it AS { INSERT DATA { :a :p 2 . :b :p 2 } ; DELETE DATA { :a :q 1 } }",
    );
    scene.run(&CALL).expect("it commits");
    assert!(scene.state.seal());
    assert!(!scene.state.seal(), "the older layer is in no snapshot yet");
    let texts = [
        "SELECT ?o { :a :p ?o } ORDER BY ?o",
        "SELECT ?s { ?s :p 2 } ORDER BY ?s",
        "SELECT ?p { :a ?p ?o } ORDER BY ?p ?o",
    ];
    let before: Vec<String> = texts.iter().map(|text| scene.query(text)).collect();
    assert_eq!(before, ["\"1\" | \"2\"", "<a> | <b>", "<p> | <p>"]);
    scene.run(&CALL).expect("it commits again");
    let again: Vec<String> = texts.iter().map(|text| scene.query(text)).collect();
    assert_eq!(again, before);
    let snapshot = scene.state.base().store().pin_stable();
    scene.state.rebase(snapshot);
    let rebased: Vec<String> = texts.iter().map(|text| scene.query(text)).collect();
    assert_eq!(rebased, before);
}

/// A declaration of a native procedure.
fn declared(text: &str) -> CreateProcedure {
    let statement = Parser::new().parse_statement(&format!("{PREFIXES}{text}"));
    match statement.expect("it parses") {
        Statement::CreateProcedure(procedure) => *procedure,
        other => panic!("{other:?} is no procedure"),
    }
}

#[test]
fn a_procedure_in_rust_has_the_same_inputs_and_leaves_the_same() {
    let text = "CREATE PROCEDURE it ON STREAM :s BATCH 1 MESSAGE OWNS WINDOW :w ON :s [LAST 2 MESSAGES] EMITS INTO :out AS NATIVE";
    let procedure = declared(text);
    let mut scene = Scene::new(":limit :is 5", text);
    let steps = |text: &str, values: &[&str]| {
        let text = format!("{PREFIXES}{text}");
        let parser = Parser::new();
        let read = match text.contains("INSERT") {
            true => parser.parse_update_of(&text, &procedure, values),
            false => (parser.parse_query_of(&text, &procedure, values)).map(|step| vec![step]),
        };
        let compiled = CompiledProcedure::new(&procedure).expect("it compiles");
        NativeSteps::new(&compiled, &text, &read.expect("it parses"), values).expect("steps")
    };
    let limit = steps("SELECT ?n { :limit :is ?n }", &[]);
    let seen = steps("ASK { BATCH { ?m :v ?v } WINDOW :w { ?m :v ?v } }", &["v"]);
    let note = steps("INSERT { ?m :seen ?v } WHERE { BATCH { ?m :v ?v } }", &[]);
    let mut run = |text: &str| {
        let message = scene.message(text);
        let batches = [vec![message.as_slice()]];
        let slides = [slide(&[], &[&message], true)];
        let input = ProcedureInput {
            batches: &batches,
            slides: &slides,
            ..CALL
        };
        let mut txn = begin(&mut scene.state, execution());
        let executed = txn.execute_native(&scene.procedure, &input, |mut tx| {
            assert_eq!(tx.now(), EventTime(1_000));
            let batch = tx.batch(&iri("s")).expect("it consumes :s");
            assert_eq!(tx.batch(&iri("other")), None);
            let Some(Answer::Solutions(limit)) = tx.run(&limit, &[])? else {
                return Err(Abort::stated("no limit"));
            };
            let value = Some(batch[0].object.clone());
            let Some(Answer::Boolean(true)) = tx.run(&seen, &[value])? else {
                return Err(Abort::stated("the batch is not in the window"));
            };
            let shown = tx.window(&iri("w")).expect("it owns :w");
            if shown.len() > 2 {
                let reason = format!("{} shown of {}", shown.len(), limit.len());
                return Err(Abort::stated(reason));
            }
            tx.emit(&iri("out"), &batch)?;
            tx.run(&note, &[])?;
            tx.insert(&batch[0].clone().in_graph(GraphName::DefaultGraph))?;
            tx.random()
        })?;
        let effects = txn.commit();
        assert!((0.0..1.0).contains(&executed.answer));
        Ok::<_, Abort>((executed.emissions.len(), effects.inserts.len()))
    };
    assert_eq!(run(":a :v 1"), Ok((1, 2)));
    assert_eq!(run(":b :v 2"), Ok((1, 2)));
    assert_eq!(run(":c :v 3"), Err(Abort::stated("3 shown of 1")));
    assert_eq!(
        scene.state.window(&scene.procedure, 0).len(),
        2,
        "the slide is undone"
    );
    assert_eq!(
        scene.query("SELECT ?s { ?s :v ?v ; :seen ?v } ORDER BY ?s"),
        "<a> | <b>"
    );
}

#[test]
fn a_body_in_rust_that_panics_aborts_and_leaves_nothing() {
    let mut scene = Scene::new(
        "",
        "CREATE PROCEDURE it ON STREAM :s BATCH 1 MESSAGE AS NATIVE",
    );
    let message = scene.message(":a :v 1");
    let batches = [vec![message.as_slice()]];
    let input = ProcedureInput {
        batches: &batches,
        ..CALL
    };
    let mut txn = begin(&mut scene.state, execution());
    let abort = txn
        .execute_native(&scene.procedure, &input, |mut tx| {
            let batch = tx.batch(&iri("s")).expect("it consumes :s");
            tx.insert(&batch[0].clone().in_graph(GraphName::DefaultGraph))?;
            if tx.arguments().is_empty() {
                panic!("no argument");
            }
            Ok(())
        })
        .expect_err("it panicked");
    assert_eq!(abort.cause, AbortCause::Error);
    assert_eq!(
        abort.reason,
        "the body of procedure it panicked: no argument"
    );
    drop(txn);
    assert_eq!(scene.query("SELECT ?s { ?s ?p ?o }"), "");
    let batch_is_gone = |mut tx: NativeRun<'_, '_>| {
        assert_eq!(tx.batch(&iri("s")), Some(Vec::new()));
        let emitted = tx.emit(&iri("out"), &[]);
        emitted.map_err(|abort| Abort::stated(abort.reason))
    };
    let input = ProcedureInput {
        batches: &[Vec::new()],
        ..CALL
    };
    let mut txn = begin(&mut scene.state, execution());
    let abort = txn
        .execute_native(&scene.procedure, &input, batch_is_gone)
        .expect_err("it emits into nothing");
    assert!(
        abort.reason.contains("EMITS INTO <http://x/out>"),
        "{abort:?}"
    );
}

#[test]
fn a_body_in_rust_draws_the_same_numbers_when_it_runs_again() {
    let mut scene = Scene::new("", "CREATE PROCEDURE it AS NATIVE");
    let mut draw = |round: u64| {
        let input = ProcedureInput {
            key: ExecutionKey { round, ..CALL.key },
            ..CALL
        };
        let mut txn = begin(&mut scene.state, execution());
        let drawn = txn.execute_native(&scene.procedure, &input, |mut tx| {
            Ok([tx.random()?, tx.random()?])
        });
        drawn.expect("it commits").answer
    };
    let first = draw(1);
    assert_eq!(first, draw(1));
    assert_ne!(first, draw(2));
    assert_ne!(first[0], first[1]);
}

#[test]
fn what_cannot_be_compiled_is_refused_with_its_place() {
    for (text, refused) in [
        (
            "CREATE PROCEDURE it (?x) AS { INSERT { :a :b ?x } WHERE { BIND(1 AS ?x) } }",
            "has a value here already",
        ),
        (
            "CREATE PROCEDURE it (?x) AS { RETURN SELECT (COUNT(*) AS ?x) WHERE { ?s ?p ?o } }",
            "has a value here already",
        ),
        (
            "CREATE PROCEDURE it AS { CLEAR DEFAULT }",
            "cannot stand in a procedure",
        ),
    ] {
        let Err(error) = compiled(text) else {
            panic!("{text} compiles");
        };
        assert!(error.contains(refused), "{error}");
    }
}
