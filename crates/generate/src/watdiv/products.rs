//! The products of fifteen categories, and the retailers that offer them, where and for how long.

use super::{
    CATEGORIES, COUNTRIES, FOAF, GR, Kind, LANGUAGES, MO, OG, SORG, SUB_GENRES, TOPICS, WSDBM,
    WatDiv, day, entity, product, user, website,
};
use crate::lines::{Subject, name, words};
use crate::random::Random;
use oxrdf::Triple;

/// The properties by which queries select products.
#[derive(Debug, Clone)]
pub(super) struct Product {
    pub(super) category: u32,
    pub(super) genres: Vec<u32>,
    pub(super) topics: Vec<u32>,
    pub(super) homepage: Option<u32>,
    pub(super) caption: bool,
    pub(super) description: bool,
    pub(super) text: bool,
    pub(super) keywords: bool,
    pub(super) rating: bool,
    pub(super) size: bool,
    pub(super) language: Option<u32>,
    pub(super) trailer: bool,
    pub(super) publisher: bool,
    pub(super) conductor: bool,
}

/// Music, films and books have properties that no other category has.
const MUSIC: u32 = 1;
const FILMS: u32 = 2;
const BOOKS: u32 = 3;

impl WatDiv {
    /// Draws a product.
    pub(super) fn product_of(&self, number: u32) -> Product {
        let random = &mut self.random(Kind::Product, number);
        let category = random.skewed(CATEGORIES, 2);
        let genres = 1 + random.below(4);
        let topics = 1 + random.skewed(12, 3);
        let music = category == MUSIC && random.chance(0.3);
        let film = category == FILMS && random.chance(0.3);
        let book = category == BOOKS && random.chance(0.7);
        Product {
            category,
            genres: (0..genres).map(|_| random.skewed(SUB_GENRES, 3)).collect(),
            topics: (0..topics).map(|_| random.skewed(TOPICS, 3)).collect(),
            homepage: random
                .chance(0.25)
                .then(|| random.skewed(self.websites(), 3)),
            caption: random.chance(0.1),
            description: random.chance(0.6),
            text: random.chance(0.3),
            keywords: random.chance(0.3),
            rating: random.chance(0.3),
            size: random.chance(0.1),
            language: random.chance(0.25).then(|| random.skewed(LANGUAGES, 4)),
            trailer: film,
            publisher: book,
            conductor: music,
        }
    }

    pub(super) fn product(&self, number: u32, out: &mut Vec<Triple>) {
        let drawn = self.product_of(number);
        // The draws that no query's constant depends on.
        let random = &mut self.random(Kind::Product, self.products() + number);
        let mut subject = Subject::named(product(number), out);
        subject.class(entity("ProductCategory", drawn.category));
        let genres = drawn.genres.iter().copied();
        subject.distinct(&name(WSDBM, "hasGenre"), genres, |genre| {
            entity("SubGenre", genre)
        });
        let topics = drawn.topics.iter().copied();
        subject.distinct(&name(OG, "tag"), topics, |topic| entity("Topic", topic));
        let texts = [
            (drawn.caption, "caption", 5),
            (drawn.description, "description", 20),
            (drawn.text, "text", 30),
            (drawn.keywords, "keywords", 4),
            (drawn.trailer, "trailer", 2),
        ];
        for (there, predicate, length) in texts {
            if there {
                subject.text(name(SORG, predicate), words(random, length));
            }
        }
        subject.text(name(OG, "title"), words(random, 3));
        if drawn.rating {
            subject.integer(name(SORG, "contentRating"), 6 + random.below(13));
        }
        if drawn.size {
            subject.integer(name(SORG, "contentSize"), random.below(5_000));
        }
        if random.chance(0.3) {
            subject.text(name(SORG, "expires"), day(random));
        }
        if let Some(language) = drawn.language {
            subject.link(name(SORG, "language"), entity("Language", language));
        }
        if let Some(homepage) = drawn.homepage {
            subject.link(name(FOAF, "homepage"), website(homepage));
        }
        self.credits(&drawn, &mut subject, random);
    }

    /// The people and companies that made the product.
    fn credits(&self, drawn: &Product, subject: &mut Subject<'_>, random: &mut Random) {
        let users = self.users();
        match drawn.category {
            MUSIC => {
                let artists = 1 + random.below(8);
                let drawn_artists = (0..artists).map(|_| random.skewed(users, 3));
                subject.distinct(&name(MO, "artist"), drawn_artists, user);
                if drawn.conductor {
                    subject.link(name(MO, "conductor"), user(random.skewed(users, 3)));
                }
                subject.text(name(MO, "release"), day(random));
            }
            FILMS => {
                let actors = 1 + random.below(12);
                let drawn_actors = (0..actors).map(|_| random.skewed(users, 3));
                subject.distinct(&name(SORG, "actor"), drawn_actors, user);
                subject.link(name(SORG, "director"), user(random.skewed(users, 3)));
                subject.integer(name(SORG, "duration"), 60 + random.below(120));
            }
            BOOKS => {
                let authors = 1 + random.below(4);
                let drawn_authors = (0..authors).map(|_| random.skewed(users, 3));
                subject.distinct(&name(SORG, "author"), drawn_authors, user);
                subject.link(name(SORG, "editor"), user(random.skewed(users, 3)));
                if drawn.publisher {
                    subject.text(name(SORG, "publisher"), words(random, 2));
                }
                subject.integer(name(SORG, "numberOfPages"), 50 + random.below(900));
            }
            _ => {}
        }
    }

    pub(super) fn retailer(&self, number: u32, out: &mut Vec<Triple>) {
        let random = &mut self.random(Kind::Retailer, number);
        let mut subject = Subject::named(entity("Retailer", number), out);
        subject.text(name(SORG, "legalName"), words(random, 2));
        if random.chance(0.5) {
            subject.text(name(SORG, "openingHours"), "Mo-Fr 9-18");
        }
        let (first, last) = (
            u64::from(self.offers()) * u64::from(number) / u64::from(self.retailers()),
            u64::from(self.offers()) * u64::from(number + 1) / u64::from(self.retailers()),
        );
        let own = (first..last).filter_map(|offer| u32::try_from(offer).ok());
        // A retailer has its own offers, and some that it shares with others.
        let shared = (0..25).map(|_| random.below(self.offers()));
        let offers: Vec<u32> = own.chain(shared).collect();
        subject.distinct(&name(GR, "offers"), offers.into_iter(), |offer| {
            entity("Offer", offer)
        });
    }

    pub(super) fn offer(&self, number: u32, out: &mut Vec<Triple>) {
        let random = &mut self.random(Kind::Offer, number);
        let mut subject = Subject::named(entity("Offer", number), out);
        let included = product(random.skewed(self.products(), 3));
        subject.link(name(GR, "includes"), included);
        subject.integer(name(GR, "price"), 1 + random.below(1_000));
        subject.integer(name(GR, "serialNumber"), random.below(100_000_000));
        subject.integer(name(SORG, "eligibleQuantity"), 1 + random.below(20));
        if random.chance(0.4) {
            subject.text(name(GR, "validFrom"), day(random));
            subject.text(name(GR, "validThrough"), day(random));
            subject.text(name(SORG, "priceValidUntil"), day(random));
        }
        if random.chance(0.5) {
            let regions = 1 + random.below(3);
            let drawn = (0..regions).map(|_| random.skewed(COUNTRIES, 2));
            subject.distinct(&name(SORG, "eligibleRegion"), drawn, |country| {
                entity("Country", country)
            });
        }
    }
}
