//! EXPLAIN of a procedure: its steps with the plans of their queries; and of a dataflow: its graph
//! as a drawing in text and as DOT.
//!
//! The one thing to know before changing it: a plan is made for values that no statement has, on
//! the stable snapshot, and batches and windows are empty there. It shows the order of the
//! patterns, not how many rows a real batch gives.

use super::Engine;
use super::dataflows::{SEE_DATAFLOW, not_found};
use super::options::QueryOptions;
use crate::error::EngineError;
use crate::info::ProcedureInfo;
use oxrdf::{NamedNode, Term};
use somersault_lang::{
    Bound, CreateDataflow, CreateProcedure, DataflowPart, Query, Step, StepKind, TriggerEvent,
    UpdateOperation,
};
use somersault_query::{Dataset, Invocation, Prepared, SnapshotView};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

/// The longest part of a step's text that is shown.
const SHOWN: usize = 90;

/// # Explain
///
/// How procedures and dataflows run.
impl Engine {
    /// Describes the steps of a procedure, each with the plan of its query.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// engine.declare("CREATE PROCEDURE see(?who IRI) AS { RETURN ASK { ?who <urn:p> ?o } }")?;
    /// let shown = engine.explain_procedure("see")?;
    /// assert!(shown.starts_with("PROCEDURE see (?who IRI)"), "{shown}");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// There is no such procedure.
    pub fn explain_procedure(&self, name: &str) -> Result<String, EngineError> {
        self.access.require_one(SEE_DATAFLOW, name)?;
        self.check_running()?;
        let found = self.inner.driver.procedure(name)?;
        let status = found.ok_or_else(|| not_found("procedure", name))?;
        let declaration = &status.declaration;
        let parameters = declaration.parameters.iter();
        let parameters: Vec<String> = parameters
            .map(|parameter| format!("?{} {}", parameter.name, parameter.kind))
            .collect();
        let mut text = format!("PROCEDURE {name} ({})\n", parameters.join(", "));
        for consumed in &declaration.consumes {
            let _ = writeln!(text, "ON STREAM {} {}", consumed.stream, consumed.batch);
        }
        for window in &declaration.windows {
            let (name, stream, extent) = (&window.name, &window.stream, &window.extent);
            let _ = writeln!(text, "OWNS WINDOW {name} ON {stream} [{extent}]");
        }
        for trigger in &declaration.triggers {
            let _ = match &trigger.event {
                TriggerEvent::Slides(window) => writeln!(text, "WHEN {window} SLIDES"),
                TriggerEvent::Into(stream) => writeln!(text, "WHEN INTO {stream}"),
            };
            self.explain_steps(declaration, &trigger.steps, "  ", &mut text)?;
        }
        if declaration.native.is_some() {
            for stream in declaration.emits() {
                let _ = writeln!(text, "EMITS INTO {stream}");
            }
            text.push_str("AS NATIVE\n");
            return Ok(text);
        }
        text.push_str("AS\n");
        self.explain_steps(declaration, &declaration.steps, "  ", &mut text)?;
        Ok(text)
    }

    fn explain_steps(
        &self,
        procedure: &CreateProcedure,
        steps: &[Step],
        indent: &str,
        text: &mut String,
    ) -> Result<(), EngineError> {
        let deeper = format!("{indent}  ");
        for (number, step) in (1..).zip(steps) {
            let said = procedure.text.get(step.span.clone()).unwrap_or_default();
            let _ = writeln!(text, "{indent}{number}. {}", first_words(said));
            match &step.kind {
                StepKind::Let { select, .. } => {
                    self.explain_query(&select.query, &select.bound, &deeper, text)?;
                }
                StepKind::Emit { construct: it, .. }
                | StepKind::Abort(it)
                | StepKind::Return(it) => {
                    self.explain_query(&it.query, &it.bound, &deeper, text)?;
                }
                StepKind::Write(write) => {
                    if let UpdateOperation::DeleteInsert(operation) = &write.operation {
                        self.explain_query(&operation.query, &write.bound, &deeper, text)?;
                    }
                }
                StepKind::If {
                    branches,
                    otherwise,
                } => {
                    for branch in branches {
                        let condition = &branch.condition;
                        self.explain_query(&condition.query, &condition.bound, &deeper, text)?;
                        self.explain_steps(procedure, &branch.steps, &deeper, text)?;
                    }
                    if !otherwise.is_empty() {
                        let _ = writeln!(text, "{deeper}ELSE");
                        self.explain_steps(procedure, otherwise, &deeper, text)?;
                    }
                }
                StepKind::ForEach { select, steps, .. } => {
                    self.explain_query(&select.query, &select.bound, &deeper, text)?;
                    self.explain_steps(procedure, steps, &deeper, text)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Appends the plan of a query whose scope has values.
    fn explain_query(
        &self,
        query: &Query,
        bound: &[Bound],
        indent: &str,
        text: &mut String,
    ) -> Result<(), EngineError> {
        let names: Vec<&str> = bound
            .iter()
            .map(|it| query.variables[it.variable.0 as usize].as_str())
            .collect();
        let value = |name: &&str| -> Term {
            NamedNode::new_unchecked(format!("urn:somersault:value:{name}")).into()
        };
        let values: Vec<Term> = names.iter().map(value).collect();
        let options = QueryOptions::default();
        let dataset = Dataset::of_clause(&query.dataset, self.inner.store.dictionary());
        let snapshot = self.pin_stable(self.query_time(None));
        let view = SnapshotView::new(snapshot, Vec::new(), dataset);
        let execution = self.one_shot_execution(options.timeout, options.result_rows);
        let invocation = Invocation::new(&view, &execution);
        // A value may also stand where no parameter can.
        let (prepared, invocation) = match Prepared::with_parameters(query.clone(), &names) {
            Ok(prepared) => (prepared, invocation.terms(&values)),
            Err(_) => (Prepared::new(query.clone()), invocation),
        };
        let mut plan = prepared.explain(invocation, false)?.to_string();
        // A value of the scope is shown by its name.
        for (number, name) in names.iter().enumerate() {
            let placeholder = format!("<urn:somersault:parameter:{number}:>");
            plan = plan.replace(&placeholder, &format!("?{name}"));
        }
        for line in plan.lines() {
            let _ = writeln!(text, "{indent}{line}");
        }
        Ok(())
    }

    /// Draws the graph of a dataflow as text: each stream with the procedures that consume it, and
    /// each procedure with the streams that it emits into.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// engine.create_stream(None, "CREATE STREAM <urn:in> BATCH 1s")?;
    /// let never = "CREATE PROCEDURE p ON STREAM <urn:in> BATCH 1 MESSAGE AS { ABORT \"no\" }";
    /// engine.declare(never)?;
    /// engine.declare("CREATE DATAFLOW flow { p }")?;
    /// assert_eq!(
    ///     engine.explain_dataflow("flow")?,
    ///     "DATAFLOW flow RECOVERY STRONG ON ABORT SKIP\n\
    ///      <urn:in>\n\
    ///      └▶ p  BATCH 1 MESSAGE\n"
    /// );
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// There is no such dataflow.
    pub fn explain_dataflow(&self, name: &str) -> Result<String, EngineError> {
        let drawing = self.drawing(name)?;
        let info = self.dataflow_info(name)?;
        let mut text = format!(
            "DATAFLOW {name} RECOVERY {} ON ABORT {}\n",
            info.recovery, info.on_abort
        );
        drawing.write_text(&mut text);
        Ok(text)
    }

    /// Returns the graph of a dataflow in DOT, which Graphviz draws.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// engine.declare("CREATE PROCEDURE p() AS { RETURN ASK { } }")?;
    /// engine.declare("CREATE DATAFLOW flow { p }")?;
    /// assert!(engine.dataflow_dot("flow")?.starts_with("digraph \"flow\" {"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// There is no such dataflow.
    pub fn dataflow_dot(&self, name: &str) -> Result<String, EngineError> {
        Ok(self.drawing(name)?.dot(name))
    }

    fn drawing(&self, name: &str) -> Result<Drawing, EngineError> {
        self.access.require_one(SEE_DATAFLOW, name)?;
        self.check_running()?;
        let found = self.inner.driver.dataflow(name)?;
        let listing = found.ok_or_else(|| not_found("dataflow", name))?;
        let of_it = |it: &ProcedureInfo| it.dataflow.as_deref() == Some(name);
        Ok(Drawing {
            declaration: listing.declaration,
            procedures: self.procedures()?.into_iter().filter(of_it).collect(),
        })
    }
}

/// The first line of a step, cut where it is long.
pub(super) fn first_words(step: &str) -> String {
    let line = step.lines().next().unwrap_or_default().trim_end();
    match line.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None if step.lines().count() > 1 => format!("{line} …"),
        None => line.to_owned(),
    }
}

/// The graph of a dataflow.
struct Drawing {
    declaration: Arc<CreateDataflow>,
    procedures: Vec<ProcedureInfo>,
}

impl Drawing {
    /// The number of the nest that a procedure is in, from 1.
    fn nest(&self, procedure: &str) -> Option<usize> {
        let nests = self.declaration.parts.iter().filter_map(|part| match part {
            DataflowPart::Nest(nest) => Some(nest),
            DataflowPart::Procedure(_) => None,
        });
        let mut nests = (1..).zip(nests);
        let found = nests.find(|(_, nest)| nest.procedures.iter().any(|it| it == procedure));
        found.map(|(number, _)| number)
    }

    /// Streams that none of the procedures fills, in the order of the procedures.
    fn borders(&self) -> Vec<&str> {
        let emitted: BTreeSet<&str> = (self.procedures.iter())
            .flat_map(|it| it.emits.iter().map(String::as_str))
            .collect();
        let consumed = self.procedures.iter().flat_map(|it| &it.streams);
        let mut borders = Vec::new();
        for stream in consumed.map(|it| it.stream.as_str()) {
            if !emitted.contains(stream) && !borders.contains(&stream) {
                borders.push(stream);
            }
        }
        borders
    }

    fn write_text(&self, text: &mut String) {
        let mut drawn = BTreeSet::new();
        for stream in self.borders() {
            let _ = writeln!(text, "<{stream}>");
            self.write_consumers(stream, "", &mut drawn, text);
        }
        for called in self.procedures.iter().filter(|it| it.streams.is_empty()) {
            let _ = writeln!(text, "CALL {}", called.name);
            self.write_emissions(called, "", &mut drawn, text);
        }
    }

    fn write_consumers<'d>(
        &'d self,
        stream: &str,
        indent: &str,
        drawn: &mut BTreeSet<&'d str>,
        text: &mut String,
    ) {
        for procedure in &self.procedures {
            let mut streams = procedure.streams.iter();
            let Some(consumed) = streams.find(|it| it.stream == stream) else {
                continue;
            };
            let nest = self.nest(&procedure.name);
            let nest = nest.map_or_else(String::new, |number| format!("  NEST {number}"));
            let windows = procedure.windows.iter();
            let windows = windows.filter(|window| window.stream == stream);
            let windows: String = windows
                .map(|window| format!("  WINDOW <{}> [{}]", window.name, window.extent))
                .collect();
            let (name, batch) = (&procedure.name, &consumed.batch);
            let is_new = drawn.insert(name);
            let again = if is_new { "" } else { "  (drawn above)" };
            let _ = writeln!(text, "{indent}└▶ {name}  {batch}{windows}{nest}{again}");
            if is_new {
                self.write_emissions(procedure, &format!("{indent}   "), drawn, text);
            }
        }
    }

    fn write_emissions<'d>(
        &'d self,
        procedure: &'d ProcedureInfo,
        indent: &str,
        drawn: &mut BTreeSet<&'d str>,
        text: &mut String,
    ) {
        for stream in &procedure.emits {
            let _ = writeln!(text, "{indent}└▶ <{stream}>");
            self.write_consumers(stream, &format!("{indent}   "), drawn, text);
        }
    }

    fn dot(&self, name: &str) -> String {
        let mut text = format!(
            "digraph {} {{\n  rankdir=LR;\n  node [shape=box];\n",
            quoted(name)
        );
        let mut streams = BTreeSet::new();
        let mut edges = String::new();
        for procedure in &self.procedures {
            let node = quoted(&procedure.name);
            for consumed in &procedure.streams {
                streams.insert(consumed.stream.as_str());
                let (stream, batch) = (quoted(&stream_node(&consumed.stream)), &consumed.batch);
                let _ = writeln!(edges, "  {stream} -> {node} [label={}];", quoted(batch));
            }
            for stream in &procedure.emits {
                streams.insert(stream);
                let _ = writeln!(edges, "  {node} -> {};", quoted(&stream_node(stream)));
            }
        }
        for stream in streams {
            let _ = writeln!(text, "  {} [shape=ellipse];", quoted(&stream_node(stream)));
        }
        for procedure in self
            .procedures
            .iter()
            .filter(|it| self.nest(&it.name).is_none())
        {
            let _ = writeln!(text, "  {};", quoted(&procedure.name));
        }
        for (number, part) in self.declaration.parts.iter().enumerate() {
            let DataflowPart::Nest(nest) = part else {
                continue;
            };
            let nodes: String = nest
                .procedures
                .iter()
                .map(|it| format!(" {};", quoted(it)))
                .collect();
            let _ = writeln!(
                text,
                "  subgraph cluster_{number} {{ label=\"NEST\";{nodes} }}"
            );
        }
        text.push_str(&edges);
        text.push_str("}\n");
        text
    }
}

/// A stream and a procedure may have the same name.
fn stream_node(stream: &str) -> String {
    format!("<{stream}>")
}

/// A string of DOT.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
