//! The users, their purchases and reviews, and the places, topics and websites around them.

use super::{
    AGE_GROUPS, CITIES, COUNTRIES, DC, FOAF, GN, GR, Kind, LANGUAGES, OG, REV, ROLES, SORG,
    SUB_GENRES, TOPICS, WSDBM, WatDiv, day, entity, product, user, website,
};
use crate::lines::{Subject, name, words};
use crate::random::Random;
use oxrdf::Triple;

/// Friends and followed users of one user, on average; most triples of WatDiv are these two.
const FRIENDS: u32 = 45;
const FOLLOWED: u32 = 33;

impl WatDiv {
    pub(super) fn places(&self, out: &mut Vec<Triple>) {
        for city in 0..CITIES {
            let mut random = self.random(Kind::City, city);
            let mut subject = Subject::named(entity("City", city), out);
            let country = entity("Country", random.skewed(COUNTRIES, 3));
            subject.link(name(GN, "parentCountry"), country);
        }
        for genre in 0..SUB_GENRES {
            let mut random = self.random(Kind::SubGenre, genre);
            let mut subject = Subject::named(entity("SubGenre", genre), out);
            subject.class(entity("Genre", random.below(21)));
            let topics: Vec<u32> = self.topics_of_genre(genre);
            subject.distinct(&name(OG, "tag"), topics.into_iter(), |topic| {
                entity("Topic", topic)
            });
        }
    }

    /// The topics of a genre.
    pub(super) fn topics_of_genre(&self, genre: u32) -> Vec<u32> {
        let mut random = self.random(Kind::SubGenre, SUB_GENRES + genre);
        let count = 5 + random.below(20);
        (0..count).map(|_| random.skewed(TOPICS, 3)).collect()
    }

    /// The products that a user likes: few, and mostly popular ones.
    pub(super) fn likes(&self, number: u32) -> Vec<u32> {
        let mut random = self.random(Kind::User, self.users() + number);
        if !random.chance(0.24) {
            return Vec::new();
        }
        let count = 1 + random.skewed(10, 3);
        (0..count)
            .map(|_| random.skewed(self.products(), 3))
            .collect()
    }

    pub(super) fn user(&self, number: u32, out: &mut Vec<Triple>) {
        let random = &mut self.random(Kind::User, number);
        let mut subject = Subject::named(user(number), out);
        for role in 0..ROLES {
            if random.chance(0.45) {
                subject.class(entity("Role", role));
            }
        }
        subject.integer(name(WSDBM, "userId"), 1_000_000 + number);
        self.describe(&mut subject, random);
        if random.chance(0.4) {
            let friends = random.skewed(5 * FRIENDS, 2) + 1;
            let drawn = (0..friends).map(|_| random.below(self.users()));
            subject.distinct(&name(WSDBM, "friendOf"), drawn, user);
        }
        if random.chance(0.8) {
            let followed = random.skewed(FOLLOWED * 5 / 2, 2) + 1;
            let drawn = (0..followed).map(|_| random.skewed(self.users(), 3));
            subject.distinct(&name(WSDBM, "follows"), drawn, user);
        }
        let likes = self.likes(number).into_iter();
        subject.distinct(&name(WSDBM, "likes"), likes, product);
        if random.chance(0.2) {
            let count = 1 + random.skewed(20, 3);
            let drawn = (0..count).map(|_| random.skewed(self.websites(), 3));
            subject.distinct(&name(WSDBM, "subscribes"), drawn, website);
        }
        let purchases = self.purchases_of(number);
        subject.distinct(&name(WSDBM, "makesPurchase"), purchases, |purchase| {
            entity("Purchase", purchase)
        });
    }

    fn describe(&self, subject: &mut Subject<'_>, random: &mut Random) {
        if random.chance(0.6) {
            subject.link(
                name(WSDBM, "gender"),
                entity("Gender", u32::from(random.chance(0.5))),
            );
        }
        if random.chance(0.5) {
            let age = entity("AgeGroup", random.skewed(AGE_GROUPS, 2));
            subject.link(name(FOAF, "age"), age);
        }
        if random.chance(0.7) {
            subject.text(name(FOAF, "givenName"), words(random, 1));
            subject.text(name(FOAF, "familyName"), words(random, 1));
        }
        if random.chance(0.2) {
            subject.link(
                name(SORG, "nationality"),
                entity("Country", random.skewed(COUNTRIES, 3)),
            );
            subject.text(name(SORG, "birthDate"), day(random));
        }
        if random.chance(0.9) {
            subject.text(name(SORG, "email"), words(random, 2));
        }
        if random.chance(0.05) {
            subject.text(name(SORG, "jobTitle"), words(random, 2));
        }
        if random.chance(0.05) {
            subject.text(
                name(SORG, "telephone"),
                random.below(100_000_000).to_string(),
            );
        }
        if random.chance(0.05) {
            let homepage = website(random.below(self.websites()));
            subject.link(name(FOAF, "homepage"), homepage);
        }
        if random.chance(0.4) {
            let city = entity("City", random.skewed(CITIES, 3));
            subject.link(name(DC, "Location"), city);
        }
    }

    /// Every purchase belongs to one user: some buy much, most buy nothing.
    fn purchases_of(&self, number: u32) -> impl Iterator<Item = u32> + use<> {
        // One user in four has the purchases of four, six in all.
        let buyer = number.is_multiple_of(4);
        let first = number / 4 * 6;
        let last = (first + 6).min(self.purchases());
        if buyer { first..last } else { 0..0 }
    }

    pub(super) fn purchase(&self, number: u32, out: &mut Vec<Triple>) {
        let random = &mut self.random(Kind::Purchase, number);
        let mut subject = Subject::named(entity("Purchase", number), out);
        let bought = product(random.skewed(self.products(), 3));
        subject.link(name(WSDBM, "purchaseFor"), bought);
        subject.integer(name(GR, "price"), 1 + random.below(1_000));
        if random.chance(0.3) {
            subject.text(name(WSDBM, "purchaseDate"), day(random));
        }
    }

    /// The product that a review is of: the first reviews are of the most reviewed products.
    pub(super) fn reviewed(&self, review: u32) -> u32 {
        self.random(Kind::Review, self.reviews() + review)
            .skewed(self.products(), 4)
    }

    pub(super) fn review(&self, number: u32, out: &mut Vec<Triple>) {
        let review = entity("Review", number);
        let reviewed = product(self.reviewed(number));
        Subject::named(reviewed, out).link(name(REV, "hasReview"), review.clone());
        let random = &mut self.random(Kind::Review, number);
        let mut subject = Subject::named(review, out);
        subject.integer(name(REV, "rating"), 1 + random.below(10));
        let reviewer = user(random.skewed(self.users(), 3));
        subject.link(name(REV, "reviewer"), reviewer);
        if random.chance(0.33) {
            subject.text(name(REV, "title"), words(random, 4));
        }
        if random.chance(0.5) {
            subject.text(name(REV, "text"), words(random, 20));
        }
        if random.chance(0.05) {
            subject.integer(name(REV, "totalVotes"), random.below(300));
        }
    }

    /// The language of a website, if it has one.
    pub(super) fn website_language(&self, number: u32) -> Option<u32> {
        let mut random = self.random(Kind::Website, self.websites() + number);
        random.chance(0.5).then(|| random.skewed(LANGUAGES, 4))
    }

    pub(super) fn website(&self, number: u32, out: &mut Vec<Triple>) {
        let random = &mut self.random(Kind::Website, number);
        let mut subject = Subject::named(website(number), out);
        subject.text(
            name(SORG, "url"),
            format!("http://{}.example/", words(random, 1)),
        );
        subject.integer(name(WSDBM, "hits"), random.below(10_000_000));
        if let Some(language) = self.website_language(number) {
            subject.link(name(SORG, "language"), entity("Language", language));
        }
    }
}
