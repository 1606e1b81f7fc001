//! What a declared text touches when it runs by itself: the graphs that it reads and writes, and
//! the streams behind its windows and messages. A right for each of these is asked for once, when
//! the text is declared.
//!
//! The one thing to know before changing it: a footprint may say more than the text does, and never
//! less. A graph whose name is a variable counts as all named graphs.

use crate::algebra::continuous::{ContinuousQuery, DerivedStream, Dialect};
use crate::algebra::procedure::{CreateProcedure, KeptGraph, Step, StepKind, StepQuery, StepWrite};
use crate::algebra::query::{DatasetClause, Query, QueryForm};
use crate::algebra::stream::{Classification, CreateStream, StreamSource};
use crate::algebra::update::UpdateOperation;
use crate::algebra::{NameOrVariable, Pattern, QuadTemplate, TemplateGraph};
use oxrdf::{GraphName, NamedNode};
use std::collections::BTreeSet;

/// Some graphs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Graphs {
    /// The default graph is one of them.
    pub default: bool,
    /// Any named graph may be one of them.
    pub any_named: bool,
    /// Those with these names are.
    pub named: BTreeSet<NamedNode>,
}

impl Graphs {
    fn all() -> Graphs {
        Graphs {
            default: true,
            any_named: true,
            named: BTreeSet::new(),
        }
    }

    fn add(&mut self, graph: &GraphName) {
        match graph {
            GraphName::DefaultGraph => self.default = true,
            GraphName::NamedNode(name) => _ = self.named.insert(name.clone()),
            GraphName::BlankNode(_) => self.any_named = true,
        }
    }

    fn add_name(&mut self, name: &NameOrVariable) {
        match name {
            NameOrVariable::NamedNode(name) => _ = self.named.insert(name.clone()),
            NameOrVariable::Variable(_) => self.any_named = true,
        }
    }
}

/// What a declared text touches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Footprint {
    /// The stored graphs that it reads.
    pub reads: Graphs,
    /// The stored graphs that it writes.
    pub writes: Graphs,
    /// The streams whose statements it sees.
    pub windows: BTreeSet<NamedNode>,
    /// The streams that it sends messages into.
    pub pushes: BTreeSet<NamedNode>,
    /// Whether it calls other machines.
    pub is_remote: bool,
}

impl ContinuousQuery {
    /// What the query touches at its firings.
    #[must_use]
    pub fn footprint(&self) -> Footprint {
        let mut touched = Footprint::default();
        touched.query(&self.query);
        for window in &self.windows {
            touched.windows.insert(window.stream.clone());
            touched.reads.named.remove(&window.name);
        }
        // GRAPH ?g ranges over windows and FROM NAMED, unless windows are not a dataset clause.
        let has_window_clauses = self.dialect != Dialect::CqelsQl && !self.windows.is_empty();
        let ranges_over_stored = !has_window_clauses && !self.query.dataset.present;
        touched.reads.any_named &= ranges_over_stored;
        if let Some(DerivedStream {
            classification,
            into,
            ..
        }) = &self.derives
        {
            touched.absorbs(classification, into.as_ref());
            if let QueryForm::Construct { template } = &self.query.form
                && *classification != Classification::TimingAll
                && into.is_none()
            {
                touched.writes.any_named = false;
                touched.template(template);
            }
        }
        touched
    }
}

impl CreateStream {
    /// What the statements pushed into the stream touch.
    #[must_use]
    pub fn footprint(&self) -> Footprint {
        let mut touched = Footprint::default();
        if self.source == StreamSource::Outside {
            touched.absorbs(&self.classification, self.into.as_ref());
        }
        touched.pushes.extend(self.dead_letters.clone());
        touched
    }
}

impl CreateProcedure {
    /// What the procedure touches in its executions.
    #[must_use]
    pub fn footprint(&self) -> Footprint {
        let mut touched = Footprint::default();
        touched
            .windows
            .extend(self.consumes.iter().map(|consumed| consumed.stream.clone()));
        touched.steps(&self.steps);
        for trigger in &self.triggers {
            touched.steps(&trigger.steps);
        }
        if let Some(native) = &self.native {
            // Its text does not say what the body does.
            touched.reads = Graphs::all();
            touched.writes = Graphs::all();
            touched.pushes.extend(native.emits.iter().cloned());
        }
        touched
            .reads
            .named
            .retain(|name| KeptGraph::of(name).is_none());
        touched
    }
}

impl Footprint {
    /// The graphs that a stream's timeless statements go to.
    fn absorbs(&mut self, classification: &Classification, into: Option<&NamedNode>) {
        match (classification, into) {
            (Classification::TimingAll, _) => {}
            (_, Some(graph)) => _ = self.writes.named.insert(graph.clone()),
            (_, None) => {
                self.writes.default = true;
                self.writes.any_named = true;
            }
        }
    }

    fn template(&mut self, template: &[QuadTemplate]) {
        for quad in template {
            match &quad.graph {
                TemplateGraph::Default => self.writes.default = true,
                TemplateGraph::Named(name) => self.writes.add_name(name),
            }
        }
    }

    fn query(&mut self, query: &Query) {
        let mut reads = Graphs {
            default: matches!(query.form, QueryForm::Describe { .. }),
            ..Graphs::default()
        };
        self.is_remote |= pattern(&query.pattern, &mut reads);
        let DatasetClause { default, named, .. } = &query.dataset;
        // FROM stands for the default graph, and FROM NAMED for what GRAPH ranges over.
        self.reads.default |= reads.default && default.is_empty();
        self.reads.any_named |= reads.any_named && named.is_empty();
        let all = reads.named.iter().chain(default).chain(named);
        self.reads.named.extend(all.cloned());
    }

    fn steps(&mut self, steps: &[Step]) {
        for step in steps {
            match &step.kind {
                StepKind::Write(write) => self.write(write),
                StepKind::Let { select: query, .. }
                | StepKind::Abort(query)
                | StepKind::Return(query) => self.step_query(query),
                StepKind::If {
                    branches,
                    otherwise,
                } => {
                    for branch in branches {
                        self.step_query(&branch.condition);
                        self.steps(&branch.steps);
                    }
                    self.steps(otherwise);
                }
                StepKind::ForEach { select, steps, .. } => {
                    self.step_query(select);
                    self.steps(steps);
                }
                StepKind::Emit { stream, construct } => {
                    self.pushes.insert(stream.clone());
                    self.step_query(construct);
                }
            }
        }
    }

    fn step_query(&mut self, step: &StepQuery) {
        self.query(&step.query);
    }

    fn write(&mut self, write: &StepWrite) {
        match &write.operation {
            UpdateOperation::InsertData(quads) | UpdateOperation::DeleteData(quads) => {
                for quad in quads {
                    self.writes.add(&quad.graph_name);
                }
            }
            UpdateOperation::DeleteInsert(change) => {
                self.template(&change.delete);
                self.template(&change.insert);
                self.query(&change.query);
            }
            // A step has none of these; a later one that has counts as everything.
            UpdateOperation::Load { .. }
            | UpdateOperation::Clear { .. }
            | UpdateOperation::Create { .. }
            | UpdateOperation::Drop { .. } => {
                self.writes.default = true;
                self.writes.any_named = true;
                self.is_remote = true;
            }
        }
    }
}

/// Adds the graphs that a pattern reads outside GRAPH and by GRAPH. Returns whether it has a
/// SERVICE.
fn pattern(whole: &Pattern, reads: &mut Graphs) -> bool {
    let mut is_remote = false;
    // A pattern, and whether it stands in GRAPH.
    let mut patterns = vec![(whole, false)];
    while let Some((pattern, is_in_graph)) = patterns.pop() {
        let mut inside = is_in_graph;
        match pattern {
            Pattern::Bgp(triples) => reads.default |= !inside && !triples.is_empty(),
            Pattern::Path { .. } => reads.default |= !inside,
            Pattern::Graph { name, .. } => {
                reads.add_name(name);
                inside = true;
            }
            Pattern::Service { .. } => {
                is_remote = true;
                continue;
            }
            _ => {}
        }
        patterns.extend(pattern.inner_patterns().into_iter().map(|it| (it, inside)));
    }
    is_remote
}

#[cfg(test)]
mod tests {
    use crate::algebra::footprint::{Footprint, Graphs};
    use crate::{Parser, Statement};
    use oxrdf::NamedNode;

    fn names(names: &[&str]) -> std::collections::BTreeSet<NamedNode> {
        names
            .iter()
            .map(|name| NamedNode::new_unchecked(*name))
            .collect()
    }

    fn graphs(default: bool, any_named: bool, named: &[&str]) -> Graphs {
        Graphs {
            default,
            any_named,
            named: names(named),
        }
    }

    fn query(clauses: &str, pattern: &str) -> Footprint {
        let text = format!(
            "SELECT ?x {clauses} FROM STREAM <urn:s> [RANGE 2s STEP 1s] WHERE {{ {pattern} }}"
        );
        let parsed = Parser::default().parse_continuous(&text);
        parsed
            .unwrap_or_else(|error| panic!("{text}: {error}"))
            .footprint()
    }

    #[test]
    fn a_live_query_may_range_over_all_stored_graphs() {
        let touched = |text: &str| {
            let parsed = Parser::default().parse_continuous(text);
            let parsed = parsed.unwrap_or_else(|error| panic!("{text}: {error}"));
            parsed.footprint().reads
        };
        let all = touched("SELECT ?g WHERE { GRAPH ?g { ?x ?p ?o } }");
        assert_eq!(all, graphs(false, true, &[]));
        let named = touched("SELECT ?g FROM NAMED <urn:b> WHERE { GRAPH ?g { ?x ?p ?o } }");
        assert_eq!(named, graphs(false, false, &["urn:b"]));
        let default = touched("SELECT ?x WHERE { ?x ?p ?o }");
        assert_eq!(default, graphs(true, false, &[]));
    }

    #[test]
    fn a_query_reads_its_windows_and_what_its_clauses_and_patterns_name() {
        let plain = query("", "?x ?p ?o");
        assert_eq!(plain.windows, names(&["urn:s"]));
        assert_eq!(plain.reads, graphs(true, false, &[]));
        let from = query(
            "FROM <urn:a> FROM NAMED <urn:b>",
            "?x ?p ?o GRAPH ?g { ?x ?q ?r }",
        );
        assert_eq!(from.reads, graphs(false, false, &["urn:a", "urn:b"]));
        let window = query("", "GRAPH <urn:s> { ?x ?p ?o }");
        assert_eq!(window.reads, graphs(false, false, &[]));
        let inside = query(
            "FROM NAMED <urn:b>",
            "FILTER EXISTS { GRAPH <urn:b> { ?x ?p ?o } }",
        );
        assert_eq!(inside.reads, graphs(false, false, &["urn:b"]));
        let exists = query(
            "",
            "GRAPH <urn:s> { ?x ?p ?o } FILTER NOT EXISTS { ?x ?q ?r }",
        );
        assert_eq!(exists.reads, graphs(true, false, &[]));
        let remote = query("", "SERVICE <http://e.org/> { ?x ?p ?o }");
        assert_eq!((remote.is_remote, remote.reads), (true, Graphs::default()));
    }

    fn statement(text: &str) -> Footprint {
        match Parser::default().parse_statement(text) {
            Ok(Statement::CreateProcedure(procedure)) => procedure.footprint(),
            Ok(Statement::CreateStream(stream)) => stream.footprint(),
            Ok(other) => panic!("{text}: {other:?}"),
            Err(error) => panic!("{text}: {error}"),
        }
    }

    #[test]
    fn a_procedure_touches_what_all_its_steps_touch() {
        let touched = statement(
            "CREATE PROCEDURE p(?x) AS {
               LET (?n) BE SELECT (COUNT(*) AS ?n) { GRAPH <urn:read> { ?x ?p ?o } };
               IF ASK { ?x ?p 1 } { INSERT DATA { GRAPH <urn:data> { <urn:a> <urn:p> 1 } } }
               ELSE { DELETE { GRAPH ?g { ?x ?p ?o } } WHERE { GRAPH ?g { ?x ?p ?o } } };
               FOR EACH (?y) IN SELECT ?y { GRAPH <urn:each> { ?y ?p ?o } } {
                 INSERT { GRAPH <urn:inner> { ?x <urn:q> ?y } } WHERE { } }
             }",
        );
        assert_eq!(touched.reads, graphs(true, true, &["urn:each", "urn:read"]));
        assert_eq!(
            touched.writes,
            graphs(false, true, &["urn:data", "urn:inner"])
        );
        assert!(touched.windows.is_empty() && !touched.is_remote);
    }

    #[test]
    fn a_native_procedure_may_touch_every_graph() {
        let touched = statement(
            "CREATE PROCEDURE p ON STREAM <urn:in> BATCH 1 MESSAGE EMITS INTO <urn:out> AS NATIVE",
        );
        assert_eq!(touched.reads, graphs(true, true, &[]));
        assert_eq!(touched.writes, graphs(true, true, &[]));
        assert_eq!(touched.windows, names(&["urn:in"]));
        assert_eq!(touched.pushes, names(&["urn:out"]));
    }

    #[test]
    fn a_streaming_procedure_sees_its_stream_and_sends_into_others() {
        let touched = statement(
            "CREATE PROCEDURE p ON STREAM <urn:in> BATCH 1 MESSAGE AS {
               EMIT INTO <urn:out> CONSTRUCT { ?x <urn:p> 1 } WHERE { BATCH { ?x ?p ?o } } }",
        );
        assert_eq!(touched.windows, names(&["urn:in"]));
        assert_eq!(touched.pushes, names(&["urn:out"]));
        assert_eq!(touched.reads, Graphs::default());
        assert_eq!(touched.writes, Graphs::default());
    }

    #[test]
    fn a_stream_writes_where_it_absorbs() {
        let writes =
            |clauses: &str| statement(&format!("CREATE STREAM <urn:s> BATCH 1s {clauses}")).writes;
        assert_eq!(writes("TIMING ALL"), Graphs::default());
        assert_eq!(writes("TIMELESS"), graphs(true, true, &[]));
        assert_eq!(
            writes("TIMELESS INTO GRAPH <urn:g>"),
            graphs(false, false, &["urn:g"])
        );
    }
}
