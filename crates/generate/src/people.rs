//! The stored graph's people: users and persons, friendships, groups. One entity's triples at a
//! time.

use crate::population::Population;
use crate::random::Random;
use crate::vocabulary::{
    Ns, coordinate, forum, iri, moment, person, rdf_type, text, thing, triple, typed, user,
};
use oxrdf::Triple;

/// The purpose of the draws of this file.
const PURPOSE: u64 = 2;
const ARTISTS: u32 = 60;
const DAY_MS: i64 = 86_400_000;
pub(crate) const BROWSERS: [&str; 5] =
    ["Firefox", "Safari", "Chrome", "Internet Explorer", "Opera"];

/// The triples of everybody and everything that does not stream.
pub(crate) struct People<'n> {
    population: &'n Population,
    random: Random,
    next: Entity,
    memberships: u32,
    ready: std::vec::IntoIter<Triple>,
}

#[derive(Clone, Copy)]
enum Entity {
    Person(u32),
    Friendship(u32),
    Group(u32),
}

impl<'n> People<'n> {
    pub(crate) fn new(population: &'n Population, seed: u64) -> Self {
        Self {
            population,
            random: Random::new(seed, PURPOSE),
            next: Entity::Person(0),
            memberships: 0,
            ready: Vec::new().into_iter(),
        }
    }

    /// The triples of the next entity, or `None` when all have been given.
    fn entity(&mut self) -> Option<Vec<Triple>> {
        let mut out = Vec::with_capacity(32);
        self.next = match self.next {
            Entity::Person(one) if one < self.population.len() => {
                self.describe_person(one, &mut out);
                self.describe_user(one, &mut out);
                Entity::Person(one + 1)
            }
            Entity::Person(_) => Entity::Friendship(0),
            Entity::Friendship(n) if (n as usize) < self.population.friendships.len() => {
                self.describe_friendship(n, &mut out);
                Entity::Friendship(n + 1)
            }
            Entity::Friendship(_) => Entity::Group(0),
            Entity::Group(n) if (n as usize) < self.population.groups.len() => {
                self.describe_group(n, &mut out);
                Entity::Group(n + 1)
            }
            Entity::Group(_) => return None,
        };
        Some(out)
    }

    fn describe_person(&mut self, one: u32, out: &mut Vec<Triple>) {
        let number = self.population.number(one);
        let country = self.population.country(one);
        let subject = person(number);
        let random = &mut self.random;
        out.push(triple(&subject, rdf_type(), iri(Ns::Foaf, "Person")));
        out.push(triple(
            &subject,
            iri(Ns::Foaf, "firstName"),
            text(format!("First{}", random.below(300))),
        ));
        out.push(triple(
            &subject,
            iri(Ns::Foaf, "lastName"),
            text(format!("Last{}", random.below(500))),
        ));
        out.push(triple(
            &subject,
            iri(Ns::Foaf, "based_near"),
            iri(Ns::Dbr, country.name),
        ));
        out.push(triple(
            &subject,
            iri(Ns::Foaf, "based_near"),
            text(country.name),
        ));
        out.push(triple(
            &subject,
            iri(Ns::DbProp, "latd"),
            coordinate(country.latitude + random.unit() * 2.0),
        ));
        out.push(triple(
            &subject,
            iri(Ns::DbProp, "longd"),
            coordinate(country.longitude + random.unit() * 2.0),
        ));
        if random.chance(0.8) {
            out.push(triple(
                &subject,
                iri(Ns::Foaf, "organization"),
                text(format!("University {}", random.below(200))),
            ));
            out.push(triple(
                &subject,
                iri(Ns::Sib, "class_year"),
                typed(format!("{}-01-01", 1970 + random.below(40)), "date"),
            ));
        }
        if random.chance(0.8) {
            out.push(triple(
                &subject,
                iri(Ns::Sib, "workAt"),
                text(format!("Company {}", random.below(300))),
            ));
        }
        if random.chance(0.8) {
            out.push(triple(
                &subject,
                iri(Ns::Foaf, "gender"),
                text(*random.pick(&["male", "female"])),
            ));
        }
        if random.chance(0.8) {
            let date = format!(
                "{}-{:02}-{:02}",
                1950 + random.below(45),
                1 + random.below(12),
                1 + random.below(28)
            );
            out.push(triple(
                &subject,
                iri(Ns::Foaf, "birthday"),
                typed(date, "date"),
            ));
        }
        if random.chance(0.8) {
            out.push(triple(
                &subject,
                iri(Ns::Sioc, "email"),
                text(format!("user{number}@example.org")),
            ));
        }
        out.push(triple(
            &subject,
            iri(Ns::Sib, "browser"),
            text(*random.pick(&BROWSERS)),
        ));
        out.push(triple(
            &subject,
            iri(Ns::Sioc, "ip_address"),
            text(address(random)),
        ));
    }

    fn describe_user(&mut self, one: u32, out: &mut Vec<Triple>) {
        let number = self.population.number(one);
        let subject = user(number);
        let random = &mut self.random;
        out.push(triple(&subject, rdf_type(), iri(Ns::Sib, "User")));
        out.push(triple(&subject, rdf_type(), iri(Ns::Sioc, "user")));
        out.push(triple(
            &subject,
            iri(Ns::Sioc, "account_of"),
            person(number),
        ));
        for own in [forum(2 * number), forum(2 * number + 1)] {
            out.push(triple(&subject, iri(Ns::Sioc, "moderator_of"), own.clone()));
            out.push(triple(&subject, iri(Ns::Sioc, "subscriber_of"), own));
        }
        if random.chance(0.5) {
            out.push(triple(
                &subject,
                iri(Ns::Sib, "status"),
                text(*random.pick(&["Single", "Married", "Engaged"])),
            ));
        }
        out.push(triple(&subject, iri(Ns::Dc, "date"), past(300, random)));
        let mut liked = Vec::new();
        for _ in 0..=random.below(6) {
            let artist = random.skewed(ARTISTS, 10);
            if !liked.contains(&artist) {
                liked.push(artist);
                out.push(triple(
                    &subject,
                    iri(Ns::Sib, "interest"),
                    text(format!("Artist {artist}")),
                ));
            }
        }
    }

    fn describe_friendship(&mut self, n: u32, out: &mut Vec<Triple>) {
        let (one, other) = self.population.friendships[n as usize];
        let [one, other] = [one, other].map(|person| user(self.population.number(person)));
        let subject = thing("friendship/fr", n);
        let random = &mut self.random;
        let initiator = if random.chance(0.5) { &one } else { &other };
        out.push(triple(&subject, iri(Ns::Sib, "memb"), one.clone()));
        out.push(triple(&subject, iri(Ns::Sib, "memb"), other.clone()));
        out.push(triple(
            &subject,
            iri(Ns::Sib, "initiator"),
            initiator.clone(),
        ));
        out.push(triple(
            &subject,
            iri(Ns::Sib, "requested"),
            past(200, random),
        ));
        if random.chance(0.98) {
            out.push(triple(
                &subject,
                iri(Ns::Sib, "approved"),
                past(200, random),
            ));
            out.push(triple(&one, iri(Ns::Foaf, "knows"), other.clone()));
            out.push(triple(&other, iri(Ns::Foaf, "knows"), one));
        } else {
            out.push(triple(
                &subject,
                iri(Ns::Sib, "declined"),
                past(200, random),
            ));
        }
    }

    fn describe_group(&mut self, n: u32, out: &mut Vec<Triple>) {
        let group = &self.population.groups[n as usize];
        let subject = thing("group/g", n);
        let creator = user(self.population.number(group.creator));
        let random = &mut self.random;
        out.push(triple(&subject, rdf_type(), iri(Ns::Sib, "Group")));
        out.push(triple(&subject, rdf_type(), iri(Ns::Sioc, "Usergroup")));
        out.push(triple(
            &subject,
            iri(Ns::Sioc, "name"),
            text(format!("Group {n}")),
        ));
        out.push(triple(&subject, iri(Ns::Dc, "created"), past(100, random)));
        out.push(triple(
            &creator,
            iri(Ns::Sioc, "creator_of"),
            subject.clone(),
        ));
        for own in [forum(group.forum), forum(group.forum + 1)] {
            out.push(triple(
                &subject,
                iri(Ns::Sioc, "subscriber_of"),
                own.clone(),
            ));
            out.push(triple(&creator, iri(Ns::Sioc, "moderator_of"), own));
        }
        for &member in &group.members {
            let member = user(self.population.number(member));
            let membership = thing("group/membership/gm", self.memberships);
            self.memberships += 1;
            out.push(triple(
                &subject,
                iri(Ns::Sioc, "has_member"),
                member.clone(),
            ));
            out.push(triple(
                &membership,
                iri(Ns::Sib, "member_of_membership"),
                member,
            ));
            out.push(triple(
                &membership,
                iri(Ns::Sib, "group_of_membership"),
                subject.clone(),
            ));
            out.push(triple(&membership, iri(Ns::Sib, "added"), past(60, random)));
        }
    }
}

impl Iterator for People<'_> {
    type Item = Triple;

    fn next(&mut self) -> Option<Triple> {
        loop {
            if let Some(triple) = self.ready.next() {
                return Some(triple);
            }
            self.ready = self.entity()?.into_iter();
        }
    }
}

/// A moment within the last `days` days before the streams start.
fn past(days: u32, random: &mut Random) -> oxrdf::Literal {
    moment(-i64::from(random.below(days)) * DAY_MS - i64::from(random.below(86_400)) * 1000)
}

/// An IPv4 address as text.
pub(crate) fn address(random: &mut Random) -> String {
    format!(
        "{}.{}.{}.{}",
        1 + random.below(220),
        random.below(256),
        random.below(256),
        random.below(256)
    )
}
