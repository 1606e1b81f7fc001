//! Draws the pattern of a query: patterns over its windows and graphs, joined, optional, united,
//! subtracted, filtered and counted.

use super::{GRAPHS, Generator, NODES, PREDICATES};
use crate::draw::Draw;
use crate::model::{
    Condition, Dialect, Element, Form, Group, Path, Pattern, Place, QueryModel, Slot, TemplateGraph,
};

/// The variables of subjects and objects.
const VARIABLES: u8 = 3;
/// The variable of predicates, and that of graphs.
const PREDICATE: u8 = 3;
const GRAPH: u8 = 4;
/// The variable of a time.
const TIME: u8 = 5;

/// Draws the pattern and the form of a query with given windows.
pub(crate) fn draw_pattern_and_form(draw: &mut Draw, query: &mut QueryModel) {
    let mut group = Group::default();
    for window in 0..query.windows.len() {
        let place = match query.windows[window].in_default && draw.chance(50) {
            true => Place::Default,
            false => Place::Window(window),
        };
        group.elements.push(draw_block(draw, place));
    }
    if draw.chance(45) {
        let place = draw_place(draw, query);
        group.elements.push(draw_block(draw, place));
    }
    if draw.chance(55) {
        let element = draw_element(draw, query);
        let at = match draw.chance(25) {
            true => 0,
            false => group.elements.len(),
        };
        group.elements.insert(at, element);
    }
    if draw.chance(45) {
        let condition = draw_condition(draw, query);
        group.filters.push(condition);
    }
    if draw.chance(20) {
        let slot = |draw: &mut Draw| draw_node(draw, 90);
        let statement = (slot(draw), draw.small(PREDICATES), slot(draw));
        group.elements.push(Element::Timestamp(TIME, statement));
    }
    query.form = draw_form(draw, &group);
    query.pattern = group;
}

/// Draws the template of a query that derives a stream: triples of nodes, so that they can be
/// statements.
pub(crate) fn draw_template(draw: &mut Draw) -> Vec<(Slot, u8, Slot, TemplateGraph)> {
    (0..1 + draw.below(2))
        .map(|_| {
            let graph = match draw.chance(30) {
                true => TemplateGraph::Named(draw.small(GRAPHS)),
                false => TemplateGraph::Default,
            };
            let (subject, object) = (draw_node(draw, 80), draw_node(draw, 80));
            (subject, draw.small(PREDICATES), object, graph)
        })
        .collect()
}

/// A variable in `percent` of 100 cases, otherwise a node.
fn draw_node(draw: &mut Draw, percent: u64) -> Slot {
    match draw.chance(percent) {
        true => Slot::Var(draw.small(VARIABLES)),
        false => Slot::Term(draw.small(NODES)),
    }
}

impl QueryModel {
    /// Whether it means the same in every dialect that can say its windows.
    pub fn is_common(&self) -> bool {
        let differs = |place: &Place| match place {
            Place::AnyGraph(_) | Place::AnyWindow(_) => true,
            Place::Graph(_) => self.reads_all(),
            Place::Window(_) | Place::Default => false,
        };
        self.changes.is_none() && !self.pattern.any_place(&differs)
    }

    /// Whether GRAPH reads all that is stored: windows of CQELS-QL are no dataset clause, and there
    /// is no other.
    fn reads_all(&self) -> bool {
        self.dialect == Dialect::CqelsQl && self.from.is_empty() && self.from_named.is_empty()
    }

    /// Whether GRAPH reads a stored graph.
    pub(crate) fn names(&self, graph: u8) -> bool {
        self.reads_all() || self.from_named.contains(&graph)
    }
}

impl Group {
    fn any_place(&self, test: &dyn Fn(&Place) -> bool) -> bool {
        let in_element = |element: &Element| match element {
            Element::Block(place, _) => test(place),
            Element::Optional(group) | Element::Minus(group) | Element::Distinct(_, group) => {
                group.any_place(test)
            }
            Element::Union(left, right) => left.any_place(test) || right.any_place(test),
            Element::Timestamp(..) => false,
        };
        let in_filter = |filter: &Condition| match filter {
            Condition::Exists(group) | Condition::NotExists(group) => group.any_place(test),
            _ => false,
        };
        self.elements.iter().any(in_element) || self.filters.iter().any(in_filter)
    }
}

/// Any place that the query's dialect has.
fn draw_place(draw: &mut Draw, query: &QueryModel) -> Place {
    let named: Vec<u8> = (0..GRAPHS).filter(|graph| query.names(*graph)).collect();
    match draw.below(10) {
        0..=3 => {
            let windows: Vec<usize> = (0..query.windows.len()).collect();
            Place::Window(*draw.pick(&windows))
        }
        4..=6 => Place::Default,
        7 if query.dialect == Dialect::RspQl => Place::AnyWindow(GRAPH),
        7 if !named.is_empty() || query.dialect == Dialect::CSparql => Place::AnyGraph(GRAPH),
        _ if !named.is_empty() => Place::Graph(*draw.pick(&named)),
        _ => Place::Default,
    }
}

fn draw_block(draw: &mut Draw, place: Place) -> Element {
    let patterns = (0..1 + usize::from(draw.chance(25)))
        .map(|_| draw_pattern(draw))
        .collect();
    Element::Block(place, patterns)
}

fn draw_pattern(draw: &mut Draw) -> Pattern {
    let node = |draw: &mut Draw| draw_node(draw, 85);
    let p = draw.small(PREDICATES);
    let path = match draw.below(20) {
        0 => Path::Var(PREDICATE),
        1 => Path::Inverse(p),
        2 => Path::Sequence(p, draw.small(PREDICATES)),
        3 => Path::Either(p, draw.small(PREDICATES)),
        4 => Path::OneOrMore(p),
        _ => Path::One(p),
    };
    (node(draw), path, node(draw))
}

/// A small group: a block, at times with a filter.
fn draw_group(draw: &mut Draw, query: &QueryModel) -> Group {
    let place = draw_place(draw, query);
    let mut group = Group {
        elements: vec![draw_block(draw, place)],
        filters: Vec::new(),
    };
    if draw.chance(30) {
        group.filters.push(draw_comparison(draw));
    }
    group
}

fn draw_element(draw: &mut Draw, query: &QueryModel) -> Element {
    match draw.below(10) {
        0..=3 => Element::Optional(draw_group(draw, query)),
        4..=5 => Element::Union(draw_group(draw, query), draw_group(draw, query)),
        6..=7 => Element::Minus(draw_group(draw, query)),
        _ => {
            let inner = draw_group(draw, query);
            let mut variables: Vec<u8> = inner.variables().into_iter().collect();
            if variables.is_empty() {
                variables.push(0);
            }
            variables.truncate(1 + usize::from(draw.small(2)));
            Element::Distinct(variables, inner)
        }
    }
}

fn draw_comparison(draw: &mut Draw) -> Condition {
    let variable = Slot::Var(draw.small(VARIABLES));
    let other = match draw.chance(50) {
        true => Slot::Var(draw.small(VARIABLES)),
        false => Slot::Term(draw.small(NODES)),
    };
    match draw.chance(40) {
        true => Condition::Equal(variable, other),
        false => Condition::Unequal(variable, other),
    }
}

fn draw_condition(draw: &mut Draw, query: &QueryModel) -> Condition {
    match draw.below(10) {
        0..=2 => draw_comparison(draw),
        3 => Condition::Bound(draw.small(VARIABLES)),
        4 => Condition::Not(Box::new(draw_comparison(draw))),
        5 => Condition::Or(
            Box::new(draw_comparison(draw)),
            Box::new(draw_comparison(draw)),
        ),
        6..=7 => Condition::Exists(draw_group(draw, query)),
        _ => Condition::NotExists(draw_group(draw, query)),
    }
}

fn draw_form(draw: &mut Draw, group: &Group) -> Form {
    let all: Vec<u8> = group.variables().into_iter().collect();
    if all.is_empty() {
        return Form::Ask;
    }
    // Leaving variables out is what makes rows repeat.
    let kept = 1 + usize::try_from(draw.below(all.len() as u64)).unwrap_or(0);
    let variables: Vec<u8> = all.iter().copied().take(kept).collect();
    match draw.below(20) {
        0..=10 => Form::Select {
            variables,
            distinct: draw.chance(25),
            limit: draw.chance(10).then(|| 1 + usize::from(draw.small(4))),
        },
        11..=15 => {
            let counted = draw.chance(50).then(|| *draw.pick(&all));
            Form::Count {
                group_by: variables.into_iter().take(kept - 1).collect(),
                counted,
                distinct: counted.is_some() && draw.chance(50),
            }
        }
        16..=17 => Form::Ask,
        _ => {
            let slot = |draw: &mut Draw| match draw.chance(80) {
                true => Slot::Var(*draw.pick(&all)),
                false => Slot::Term(draw.small(NODES)),
            };
            let graph = |draw: &mut Draw| match draw.below(10) {
                0..=1 => TemplateGraph::Named(draw.small(GRAPHS)),
                2 => TemplateGraph::Var(*draw.pick(&all)),
                _ => TemplateGraph::Default,
            };
            let quads = 1 + draw.below(2);
            Form::Construct(
                (0..quads)
                    .map(|_| {
                        let (subject, object) = (slot(draw), slot(draw));
                        (subject, draw.small(PREDICATES), object, graph(draw))
                    })
                    .collect(),
            )
        }
    }
}

impl Generator {
    /// Replaces the constants of a query, which then has the same shape.
    pub(crate) fn draw_other_constants(&mut self, query: &mut QueryModel) {
        let draw = &mut self.draw;
        query
            .pattern
            .each_constant(&mut |node| *node = draw.small(NODES));
    }
}

impl Group {
    /// Visits the constants that stand as subjects, as objects and in comparisons.
    fn each_constant(&mut self, visit: &mut dyn FnMut(&mut u8)) {
        for element in &mut self.elements {
            match element {
                Element::Block(_, patterns) => {
                    for (subject, _, object) in patterns {
                        subject.constant(visit);
                        object.constant(visit);
                    }
                }
                Element::Optional(group) | Element::Minus(group) | Element::Distinct(_, group) => {
                    group.each_constant(visit);
                }
                Element::Union(left, right) => {
                    left.each_constant(visit);
                    right.each_constant(visit);
                }
                Element::Timestamp(_, (subject, _, object)) => {
                    subject.constant(visit);
                    object.constant(visit);
                }
            }
        }
        self.filters
            .iter_mut()
            .for_each(|filter| filter.each_constant(visit));
    }
}

impl Condition {
    fn each_constant(&mut self, visit: &mut dyn FnMut(&mut u8)) {
        match self {
            Condition::Equal(a, b) | Condition::Unequal(a, b) => {
                a.constant(visit);
                b.constant(visit);
            }
            Condition::Bound(_) => {}
            Condition::Not(inner) => inner.each_constant(visit),
            Condition::Or(a, b) => {
                a.each_constant(visit);
                b.each_constant(visit);
            }
            Condition::Exists(group) | Condition::NotExists(group) => group.each_constant(visit),
        }
    }
}

impl Slot {
    fn constant(&mut self, visit: &mut dyn FnMut(&mut u8)) {
        if let Slot::Term(node) = self {
            visit(node);
        }
    }
}
