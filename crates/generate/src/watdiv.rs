//! Data in the schema and the proportions of WatDiv (Aluç, Hartig, Özsu, Daudjee: "Diversified
//! Stress Testing of RDF Data Management Systems", ISWC 2014): users who know, like and buy;
//! products of fifteen categories; retailers, offers, purchases, reviews, websites. An entity
//! depends only on the seed and on its own number, so that constants for queries are found without
//! making the data.

mod people;
mod products;
mod queries;

use crate::lines::name;
use crate::random::Random;
use oxrdf::{NamedNode, Triple};

pub(crate) const WSDBM: &str = "http://db.uwaterloo.ca/~galuc/wsdbm/";
pub(crate) const SORG: &str = "http://schema.org/";
pub(crate) const GR: &str = "http://purl.org/goodrelations/";
pub(crate) const GN: &str = "http://www.geonames.org/ontology#";
pub(crate) const OG: &str = "http://ogp.me/ns#";
pub(crate) const MO: &str = "http://purl.org/ontology/mo/";
pub(crate) const REV: &str = "http://purl.org/stuff/rev#";
pub(crate) const DC: &str = "http://purl.org/dc/terms/";
pub(crate) const FOAF: &str = "http://xmlns.com/foaf/0.1/";

/// Entities whose number does not grow with the data.
const TOPICS: u32 = 250;
const CITIES: u32 = 240;
const COUNTRIES: u32 = 25;
const SUB_GENRES: u32 = 145;
const LANGUAGES: u32 = 25;
const AGE_GROUPS: u32 = 9;
const CATEGORIES: u32 = 15;
const ROLES: u32 = 3;

/// A WatDiv data set.
#[derive(Debug, Clone, Copy)]
pub struct WatDiv {
    scale: u32,
    seed: u64,
}

/// The purposes of draws: each entity of each kind has its own generator of numbers.
#[derive(Debug, Clone, Copy)]
#[repr(u64)]
enum Kind {
    User = 1,
    Product,
    Retailer,
    Website,
    Offer,
    Review,
    Purchase,
    City,
    SubGenre,
    Constants,
}

impl WatDiv {
    /// A data set of this scale: about 106,000 triples each, as many as WatDiv's own scale factor
    /// gives.
    ///
    /// A scale of 0 counts as 1, so that there is always something to ask for.
    pub fn new(scale: u32, seed: u64) -> WatDiv {
        WatDiv {
            scale: scale.max(1),
            seed,
        }
    }

    /// Gives every triple once, subject by subject.
    pub fn generate(&self, mut emit: impl FnMut(Triple)) {
        let mut ready = Vec::new();
        let mut each = |count: u32, describe: &dyn Fn(u32, &mut Vec<Triple>)| {
            for number in 0..count {
                describe(number, &mut ready);
                ready.drain(..).for_each(&mut emit);
            }
        };
        each(1, &|_, out| self.places(out));
        each(self.users(), &|number, out| self.user(number, out));
        each(self.products(), &|number, out| self.product(number, out));
        each(self.retailers(), &|number, out| self.retailer(number, out));
        each(self.offers(), &|number, out| self.offer(number, out));
        each(self.purchases(), &|number, out| self.purchase(number, out));
        each(self.reviews(), &|number, out| self.review(number, out));
        each(self.websites(), &|number, out| self.website(number, out));
    }

    fn users(&self) -> u32 {
        1_000 * self.scale
    }

    fn products(&self) -> u32 {
        250 * self.scale
    }

    fn retailers(&self) -> u32 {
        12 * self.scale
    }

    fn websites(&self) -> u32 {
        50 * self.scale
    }

    fn offers(&self) -> u32 {
        900 * self.scale
    }

    fn reviews(&self) -> u32 {
        1_500 * self.scale
    }

    fn purchases(&self) -> u32 {
        1_500 * self.scale
    }

    fn random(&self, kind: Kind, number: u32) -> Random {
        Random::new(self.seed, (kind as u64) << 32 | u64::from(number))
    }
}

/// An entity's IRI, such as `wsdbm:User7`.
fn entity(kind: &str, number: u32) -> NamedNode {
    name(WSDBM, format_args!("{kind}{number}"))
}

fn user(number: u32) -> NamedNode {
    entity("User", number)
}

fn product(number: u32) -> NamedNode {
    entity("Product", number)
}

fn website(number: u32) -> NamedNode {
    entity("Website", number)
}

/// A day between 1990 and 2015, as WatDiv writes it.
fn day(random: &mut Random) -> String {
    format!(
        "{}-{:02}-{:02}",
        1990 + random.below(26),
        1 + random.below(12),
        1 + random.below(28)
    )
}
