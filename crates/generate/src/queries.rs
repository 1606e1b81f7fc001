//! The queries of a network: shapes from `queries/`, constants from the network.

use crate::population::Population;
use crate::random::Random;

/// A query's name and text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedQuery {
    /// The name that its benchmark gives it: L1 … L6, E1 … E3, S1 … S6 for the social network.
    pub name: &'static str,
    /// The text, with its constants filled in.
    pub text: String,
}

const CONTINUOUS: [(&str, &str); 9] = [
    ("L1", include_str!("../queries/L1.csparql")),
    ("L2", include_str!("../queries/L2.csparql")),
    ("L3", include_str!("../queries/L3.csparql")),
    ("L4", include_str!("../queries/L4.csparql")),
    ("L5", include_str!("../queries/L5.csparql")),
    ("L6", include_str!("../queries/L6.csparql")),
    ("E1", include_str!("../queries/E1.csparql")),
    ("E2", include_str!("../queries/E2.csparql")),
    ("E3", include_str!("../queries/E3.csparql")),
];

const ONE_SHOT: [(&str, &str); 6] = [
    ("S1", include_str!("../queries/S1.rq")),
    ("S2", include_str!("../queries/S2.rq")),
    ("S3", include_str!("../queries/S3.rq")),
    ("S4", include_str!("../queries/S4.rq")),
    ("S5", include_str!("../queries/S5.rq")),
    ("S6", include_str!("../queries/S6.rq")),
];

pub(crate) fn continuous(population: &Population) -> Vec<NamedQuery> {
    fill(&CONTINUOUS, population)
}

pub(crate) fn one_shot(population: &Population) -> Vec<NamedQuery> {
    fill(&ONE_SHOT, population)
}

/// Queries of the shapes L1–L3 in turn, each about a random user, under names of their own.
pub(crate) fn standing(
    population: &Population,
    seed: u64,
) -> impl Iterator<Item = (String, String)> {
    /// The purpose of the draws.
    const PURPOSE: u64 = 7;
    let mut random = Random::new(seed, PURPOSE);
    let shapes = CONTINUOUS[..3].iter().cycle();
    shapes.zip(0u64..).map(move |((shape, template), at)| {
        let name = format!("{shape}-{at}");
        let person = population
            .number(random.below(population.len()))
            .to_string();
        let text = template
            .replace(&format!("QUERY {shape} "), &format!("QUERY {name} "))
            .replace("{active}", &person)
            .replace("{sociable}", &person);
        (name, text)
    })
}

/// Person 0 is the most active, and the ones after are nearly as active and know each other.
fn fill(templates: &[(&'static str, &str)], population: &Population) -> Vec<NamedQuery> {
    let active = population.number(0).to_string();
    let sociable = (0..population.len().min(50))
        .max_by_key(|&one| population.friends(one).len())
        .unwrap_or(0);
    let sociable = population.number(sociable).to_string();
    let group = population
        .groups
        .iter()
        .position(|group| group.members.len() > 5)
        .unwrap_or(0)
        .to_string();
    templates
        .iter()
        .map(|&(name, template)| NamedQuery {
            name,
            text: template
                .replace("{active}", &active)
                .replace("{sociable}", &sociable)
                .replace("{group}", &group),
        })
        .collect()
}
