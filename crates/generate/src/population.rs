//! The people of the network: their homes, friendships and groups. Held in memory, a few words per
//! user.

use crate::random::Random;

/// The purpose of the draws of this file.
const PURPOSE: u64 = 1;
/// The most friends that a user has.
const MOST_FRIENDS: usize = 50;
/// Friends are mostly among the next this many people; they live nearby.
const NEIGHBOURHOOD: u32 = 400;

/// A country with its share of the users and a coordinate in it.
pub(crate) struct Country {
    pub(crate) name: &'static str,
    weight: u32,
    pub(crate) latitude: f64,
    pub(crate) longitude: f64,
}

const fn country(name: &'static str, weight: u32, latitude: f64, longitude: f64) -> Country {
    Country {
        name,
        weight,
        latitude,
        longitude,
    }
}

/// The countries of the published generator's most frequent locations.
pub(crate) const COUNTRIES: [Country; 15] = [
    country("Peoples_Republic_of_China", 222, 35.0, 103.0),
    country("India", 185, 22.0, 79.0),
    country("United_States", 80, 40.0, -98.0),
    country("Indonesia", 37, -5.0, 120.0),
    country("Brazil", 33, -10.0, -55.0),
    country("Russia", 26, 60.0, 100.0),
    country("Japan", 23, 36.0, 138.0),
    country("Pakistan", 22, 30.0, 70.0),
    country("Mexico", 17, 23.0, -102.0),
    country("Vietnam", 16, 16.0, 107.0),
    country("Philippines", 16, 13.0, 122.0),
    country("Germany", 15, 51.0, 10.0),
    country("Turkey", 12, 39.0, 35.0),
    country("France", 11, 46.0, 2.0),
    country("United_Kingdom", 11, 54.0, -2.0),
];

/// A group: its two forums start at `forum`, its creator and members are people.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub(crate) forum: u32,
    pub(crate) creator: u32,
    pub(crate) members: Vec<u32>,
}

/// The people, numbered by where they live, so that neighbours have near numbers.
#[derive(Debug)]
pub(crate) struct Population {
    /// The public user number of each person: not ordered by place.
    pub(crate) numbers: Vec<u32>,
    country: Vec<u8>,
    friends: Vec<Vec<u32>>,
    /// Each friendship once, in the order in which they were made.
    pub(crate) friendships: Vec<(u32, u32)>,
    pub(crate) groups: Vec<Group>,
}

impl Population {
    /// Draws a population of this size.
    pub(crate) fn new(users: u32, seed: u64) -> Self {
        let mut random = Random::new(seed, PURPOSE);
        let total: u32 = COUNTRIES.iter().map(|country| country.weight).sum();
        let mut country: Vec<u8> = (0..users)
            .map(|_| country_at(random.below(total)))
            .collect();
        country.sort_unstable();
        let numbers = shuffled(users, &mut random);
        let (friends, friendships) = befriend(users, &mut random);
        let groups = found_groups(users, &friends, &mut random);
        Self {
            numbers,
            country,
            friends,
            friendships,
            groups,
        }
    }

    /// The number of people.
    pub(crate) fn len(&self) -> u32 {
        u32::try_from(self.numbers.len()).unwrap_or(u32::MAX)
    }

    /// Where a person lives.
    pub(crate) fn country(&self, person: u32) -> &'static Country {
        &COUNTRIES[usize::from(self.country[person as usize])]
    }

    /// The people that a person knows.
    pub(crate) fn friends(&self, person: u32) -> &[u32] {
        &self.friends[person as usize]
    }

    /// The public number of a person.
    pub(crate) fn number(&self, person: u32) -> u32 {
        self.numbers[person as usize]
    }
}

fn country_at(mut drawn: u32) -> u8 {
    for (index, country) in COUNTRIES.iter().enumerate() {
        if drawn < country.weight {
            return index as u8;
        }
        drawn -= country.weight;
    }
    0
}

fn shuffled(count: u32, random: &mut Random) -> Vec<u32> {
    let mut numbers: Vec<u32> = (0..count).collect();
    for last in (1..count).rev() {
        numbers.swap(last as usize, random.below(last + 1) as usize);
    }
    numbers
}

/// Friendships with a heavy tail: most people have few, some have fifty; seven of ten live nearby.
fn befriend(users: u32, random: &mut Random) -> (Vec<Vec<u32>>, Vec<(u32, u32)>) {
    const ATTEMPTS: u32 = 200;
    let wanted: Vec<usize> = (0..users)
        .map(|_| wanted_friends(1.0 - random.unit()))
        .collect();
    let mut friends: Vec<Vec<u32>> = vec![Vec::new(); users as usize];
    let mut friendships = Vec::new();
    for one in 0..users {
        let mut attempts = 0;
        while friends[one as usize].len() < wanted[one as usize] && attempts < ATTEMPTS {
            attempts += 1;
            let other = if random.chance(0.7) {
                let near = (users - 1).min(NEIGHBOURHOOD);
                (one + 1 + random.skewed(near, 4)) % users
            } else {
                random.below(users)
            };
            if other == one
                || friends[other as usize].len() >= MOST_FRIENDS
                || friends[one as usize].contains(&other)
            {
                continue;
            }
            friends[one as usize].push(other);
            friends[other as usize].push(one);
            friendships.push((one, other));
        }
    }
    (friends, friendships)
}

/// `5 · u^(-11/16)`, at most fifty; by square roots, whose last bit is the same on every machine.
fn wanted_friends(unit: f64) -> usize {
    let half = unit.sqrt();
    let eighth = half.sqrt().sqrt();
    let power = half * eighth * eighth.sqrt();
    ((5.0 / power) as usize).min(MOST_FRIENDS)
}

/// One person in twenty founds up to three groups of up to a hundred members each, mostly friends.
fn found_groups(users: u32, friends: &[Vec<u32>], random: &mut Random) -> Vec<Group> {
    let mut groups = Vec::new();
    let mut forum = 2 * users;
    for creator in 0..users {
        if !random.chance(0.05) {
            continue;
        }
        for _ in 0..random.below(4) {
            let mut members = Vec::new();
            for _ in 0..random.below(100) {
                let known = &friends[creator as usize];
                let member = if !known.is_empty() && random.chance(0.6) {
                    *random.pick(known)
                } else {
                    (creator + random.below(users.min(NEIGHBOURHOOD))) % users
                };
                if !members.contains(&member) {
                    members.push(member);
                }
            }
            groups.push(Group {
                forum,
                creator,
                members,
            });
            forum += 2;
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn friendship_is_mutual_and_bounded() {
        let population = Population::new(500, 3);
        for one in 0..500 {
            assert!(population.friends(one).len() <= MOST_FRIENDS);
            for &other in population.friends(one) {
                assert!(other != one && population.friends(other).contains(&one));
            }
        }
        assert!(!population.groups.is_empty());
    }

    #[test]
    fn the_smallest_populations_exist() {
        for users in [1, 2, 3] {
            let population = Population::new(users, 1);
            assert_eq!(population.len(), users);
        }
    }
}
