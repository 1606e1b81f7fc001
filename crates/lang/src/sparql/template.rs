//! Templates, data and targets of CONSTRUCT and of updates, from `spargebra`'s types to ours.

use crate::algebra::query::DatasetClause;
use crate::algebra::{
    GraphTarget, NameOrVariable, QuadTemplate, TemplateGraph, TemplateTerm, TripleTemplate,
};
use crate::sparql::convert::Converter;
use oxrdf::{NamedNode, Quad, Term};
use spargebra::algebra as al;
use spargebra::term as at;

impl Converter<'_> {
    /// A CONSTRUCT template without GRAPH.
    pub(crate) fn template(&mut self, template: &[at::TriplePattern]) -> Vec<QuadTemplate> {
        self.template_nodes.clear();
        template
            .iter()
            .map(|triple| QuadTemplate {
                triple: self.template_triple(triple),
                graph: TemplateGraph::Default,
            })
            .collect()
    }

    fn template_triple(&mut self, triple: &at::TriplePattern) -> TripleTemplate {
        TripleTemplate {
            subject: self.template_term(&triple.subject),
            predicate: self.name(&triple.predicate),
            object: self.template_term(&triple.object),
        }
    }

    fn template_term(&mut self, term: &at::TermPattern) -> TemplateTerm {
        match term {
            at::TermPattern::NamedNode(node) => TemplateTerm::Term(node.clone().into()),
            at::TermPattern::Literal(literal) => TemplateTerm::Term(literal.clone().into()),
            at::TermPattern::Variable(variable) => TemplateTerm::Variable(self.variable(variable)),
            at::TermPattern::BlankNode(node) => {
                let next = u32::try_from(self.template_nodes.len())
                    .expect("a text of at most 4 GiB has fewer nodes");
                TemplateTerm::BlankNode(
                    *self
                        .template_nodes
                        .entry(node.as_str().to_owned())
                        .or_insert(next),
                )
            }
            at::TermPattern::Triple(triple) => {
                TemplateTerm::Triple(Box::new(self.template_triple(triple)))
            }
        }
    }

    /// An INSERT template, or one of CONSTRUCT with GRAPH.
    pub(crate) fn insert_template(&mut self, quads: &[at::QuadPattern]) -> Vec<QuadTemplate> {
        self.template_nodes.clear();
        quads
            .iter()
            .map(|quad| QuadTemplate {
                triple: TripleTemplate {
                    subject: self.template_term(&quad.subject),
                    predicate: self.name(&quad.predicate),
                    object: self.template_term(&quad.object),
                },
                graph: self.template_graph(&quad.graph_name),
            })
            .collect()
    }

    /// A DELETE template.
    pub(crate) fn delete_template(&mut self, quads: &[at::GroundQuadPattern]) -> Vec<QuadTemplate> {
        let open: Vec<at::QuadPattern> = quads.iter().map(open_quad).collect();
        self.insert_template(&open)
    }

    fn template_graph(&mut self, graph: &at::GraphNamePattern) -> TemplateGraph {
        match graph {
            at::GraphNamePattern::DefaultGraph => TemplateGraph::Default,
            at::GraphNamePattern::NamedNode(node) => {
                TemplateGraph::Named(NameOrVariable::NamedNode(node.clone()))
            }
            at::GraphNamePattern::Variable(variable) => {
                TemplateGraph::Named(NameOrVariable::Variable(self.variable(variable)))
            }
        }
    }
}

fn open_quad(quad: &at::GroundQuadPattern) -> at::QuadPattern {
    at::QuadPattern {
        subject: open_term(&quad.subject),
        predicate: quad.predicate.clone(),
        object: open_term(&quad.object),
        graph_name: quad.graph_name.clone(),
    }
}

fn open_term(term: &at::GroundTermPattern) -> at::TermPattern {
    match term {
        at::GroundTermPattern::NamedNode(node) => node.clone().into(),
        at::GroundTermPattern::Literal(literal) => literal.clone().into(),
        at::GroundTermPattern::Variable(variable) => variable.clone().into(),
        at::GroundTermPattern::Triple(triple) => at::TriplePattern {
            subject: open_term(&triple.subject),
            predicate: triple.predicate.clone(),
            object: open_term(&triple.object),
        }
        .into(),
    }
}

pub(crate) fn convert_graph_name(graph: &at::GraphName) -> oxrdf::GraphName {
    match graph {
        at::GraphName::NamedNode(node) => node.clone().into(),
        at::GraphName::DefaultGraph => oxrdf::GraphName::DefaultGraph,
    }
}

pub(crate) fn convert_quad(quad: &at::Quad) -> Quad {
    Quad::new(
        quad.subject.clone(),
        quad.predicate.clone(),
        quad.object.clone(),
        convert_graph_name(&quad.graph_name),
    )
}

pub(crate) fn convert_ground_quad(quad: &at::GroundQuad) -> Quad {
    let graph = convert_graph_name(&quad.graph_name);
    Quad::new(
        quad.subject.clone(),
        quad.predicate.clone(),
        Term::from(quad.object.clone()),
        graph,
    )
}

pub(crate) fn convert_target(target: &al::GraphTarget) -> GraphTarget {
    match target {
        al::GraphTarget::NamedNode(node) => GraphTarget::Graph(node.clone()),
        al::GraphTarget::DefaultGraph => GraphTarget::Default,
        al::GraphTarget::NamedGraphs => GraphTarget::AllNamed,
        al::GraphTarget::AllGraphs => GraphTarget::All,
    }
}

/// The stored graphs of a dataset clause, or of USING and WITH.
pub(crate) fn convert_dataset(dataset: Option<&al::QueryDataset>) -> DatasetClause {
    let Some(dataset) = dataset else {
        return DatasetClause::default();
    };
    let named: Vec<NamedNode> = dataset.named.clone().unwrap_or_default();
    DatasetClause {
        present: true,
        default: dataset.default.clone(),
        named,
        all_named: dataset.named.is_none(),
    }
}
