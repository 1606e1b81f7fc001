//! The activity of people: posts, likes, photos, photo likes and GPS fixes, at fixed rates, in
//! order of time.
//!
//! Past activity (before time 0) belongs to the stored graph; GPS fixes leave no past. The triples
//! of one event share one time.

use crate::people::{BROWSERS, address};
use crate::population::Population;
use crate::random::Random;
use crate::vocabulary::{Ns, coordinate, forum, iri, moment, rdf_type, text, thing, triple, user};
use crate::{Parameters, StreamKind};
use oxrdf::{NamedNode, Triple};

/// The purpose of the draws of this file.
const PURPOSE: u64 = 3;
const TAGS: u32 = 400;
const PLACES: u32 = 500;
const WORDS: [&str; 22] = [
    "album", "song", "band", "city", "river", "people", "game", "train", "winter", "summer",
    "photo", "friend", "music", "harbour", "market", "house", "garden", "light", "story", "film",
    "bridge", "island",
];
const AGENTS: [&str; 3] = ["iPhone", "Android", "Blackberry"];

/// A triple of a stream, with its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Streamed {
    /// Which stream.
    pub kind: StreamKind,
    /// Event time in milliseconds, from 1.
    pub at_ms: i64,
    /// The triple.
    pub triple: Triple,
}

/// Everything that happens, from the past to the end of the streams.
pub struct Activity<'n> {
    population: &'n Population,
    random: Random,
    rates: [u32; 5],
    history_ms: i64,
    end_ms: i64,
    now_ms: i64,
    kind: usize,
    emitted: [u64; 5],
    /// Authors of the posts so far; a post's number is its index.
    posts: Vec<u32>,
    photos: Vec<u32>,
    comments: u32,
    albums: u32,
    fixes: u32,
    album: Option<Album>,
    ready: std::vec::IntoIter<Triple>,
}

struct Album {
    name: NamedNode,
    owner: u32,
    left: u32,
}

impl<'n> Activity<'n> {
    pub(crate) fn new(population: &'n Population, parameters: &Parameters) -> Self {
        let history_ms = parameters.history_ms.max(0);
        Self {
            population,
            random: Random::new(parameters.seed, PURPOSE),
            rates: StreamKind::ALL.map(|kind| parameters.rates.of(kind)),
            history_ms,
            end_ms: parameters.streams_ms.max(0),
            now_ms: -history_ms + 1,
            kind: 0,
            emitted: [0; 5],
            posts: Vec::new(),
            photos: Vec::new(),
            comments: 0,
            albums: 0,
            fixes: 0,
            album: None,
            ready: Vec::new().into_iter(),
        }
    }

    /// The activity before time 0: stored, not streamed. Call it first; it can be read once.
    pub fn past(&mut self) -> impl Iterator<Item = Triple> + use<'_, 'n> {
        std::iter::from_fn(move || {
            loop {
                if self.now_ms >= 1 && self.ready.as_slice().is_empty() {
                    return None;
                }
                if let Some(triple) = self.ready.next() {
                    if StreamKind::ALL[self.kind] != StreamKind::Gps {
                        return Some(triple);
                    }
                    continue;
                }
                if !self.happen(1) {
                    return None;
                }
            }
        })
    }

    /// Makes the next event before `end_ms`, or says that there is none.
    fn happen(&mut self, end_ms: i64) -> bool {
        while self.now_ms < end_ms {
            while self.kind < StreamKind::ALL.len() {
                let due = u128::from(self.rates[self.kind])
                    * (self.now_ms + self.history_ms).unsigned_abs() as u128
                    / 1000;
                if u128::from(self.emitted[self.kind]) < due {
                    let event = self.event(StreamKind::ALL[self.kind]);
                    if !event.is_empty() {
                        self.emitted[self.kind] += event.len() as u64;
                        self.ready = event.into_iter();
                        return true;
                    }
                }
                self.kind += 1;
            }
            self.kind = 0;
            self.now_ms += 1;
        }
        false
    }

    fn event(&mut self, kind: StreamKind) -> Vec<Triple> {
        match kind {
            StreamKind::Posts if !self.posts.is_empty() && self.random.chance(0.1) => {
                self.comment()
            }
            StreamKind::Posts => self.post(),
            StreamKind::PostLikes => self.like(StreamKind::Posts),
            StreamKind::Photos => self.photo(),
            StreamKind::PhotoLikes => self.like(StreamKind::Photos),
            StreamKind::Gps => self.fix(),
        }
    }

    /// A random user; active ones are drawn more often.
    fn somebody(&mut self) -> u32 {
        self.random.skewed(self.population.len(), 4)
    }

    fn user(&self, person: u32) -> NamedNode {
        user(self.population.number(person))
    }

    fn friend_of(&mut self, person: u32) -> u32 {
        let friends = self.population.friends(person);
        if friends.is_empty() {
            person
        } else {
            *self.random.pick(friends)
        }
    }

    fn words(&mut self, count: u32) -> String {
        let mut words = String::new();
        for n in 0..count {
            if n > 0 {
                words.push(' ');
            }
            let word: &&str = self.random.pick(&WORDS);
            words.push_str(word);
        }
        words
    }

    fn comment(&mut self) -> Vec<Triple> {
        let recent = self.random.below((self.posts.len() as u32).min(200));
        let post = self.posts.len() as u32 - 1 - recent;
        let author = self.friend_of(self.posts[post as usize]);
        let (post, comment) = (
            thing("post/po", post),
            thing("post/comment/co", self.comments),
        );
        self.comments += 1;
        let count = 3 + self.random.below(6);
        let content = self.words(count);
        vec![
            triple(&comment, rdf_type(), iri(Ns::Sib, "Comment")),
            triple(&comment, rdf_type(), iri(Ns::Sioc, "Item")),
            triple(&comment, iri(Ns::Dc, "created"), moment(self.now_ms)),
            triple(&comment, iri(Ns::Sioc, "reply_of"), post.clone()),
            triple(
                &comment,
                iri(Ns::Sib, "browser"),
                text(*self.random.pick(&BROWSERS)),
            ),
            triple(
                &comment,
                iri(Ns::Sioc, "ip_address"),
                text(address(&mut self.random)),
            ),
            triple(&comment, iri(Ns::Sioc, "content"), text(content)),
            triple(&post, iri(Ns::Sioc, "container_of"), comment.clone()),
            triple(&self.user(author), iri(Ns::Sioc, "creator_of"), comment),
        ]
    }

    fn post(&mut self) -> Vec<Triple> {
        let mut author = self.somebody();
        let mut channel = 2 * self.population.number(author);
        let groups = &self.population.groups;
        if !groups.is_empty() && self.random.chance(0.1) {
            let group = self.random.pick(groups);
            if !group.members.is_empty() {
                author = *self.random.pick(&group.members);
                channel = group.forum;
            }
        }
        let post = thing("post/po", self.posts.len() as u32);
        self.posts.push(author);
        let (title, count) = (self.words(2), 6 + self.random.below(12));
        let content = self.words(count);
        let mut out = vec![
            triple(&post, rdf_type(), iri(Ns::Sib, "Post")),
            triple(&post, rdf_type(), iri(Ns::Sioc, "Post")),
            triple(&post, iri(Ns::DcTerms, "title"), text(title)),
            triple(&post, iri(Ns::Dc, "created"), moment(self.now_ms)),
        ];
        if self.random.chance(0.4) {
            out.push(triple(
                &post,
                iri(Ns::Sib, "agent"),
                text(*self.random.pick(&AGENTS)),
            ));
        }
        out.push(triple(
            &post,
            iri(Ns::Sib, "browser"),
            text(*self.random.pick(&BROWSERS)),
        ));
        out.push(triple(
            &post,
            iri(Ns::Sioc, "ip_address"),
            text(address(&mut self.random)),
        ));
        out.push(triple(&post, iri(Ns::Sioc, "content"), text(content)));
        out.push(triple(
            &forum(channel),
            iri(Ns::Sioc, "container_of"),
            post.clone(),
        ));
        out.push(triple(
            &self.user(author),
            iri(Ns::Sioc, "creator_of"),
            post.clone(),
        ));
        let mut tags = Vec::new();
        for _ in 0..=self.random.below(4) {
            let tag = self.random.skewed(TAGS, 5);
            if !tags.contains(&tag) {
                tags.push(tag);
                out.push(triple(
                    &post,
                    iri(Ns::Sib, "hashtag"),
                    text(format!("tag{tag}")),
                ));
            }
        }
        out
    }

    fn photo(&mut self) -> Vec<Triple> {
        let mut out = Vec::with_capacity(20);
        let mut album = match self.album.take() {
            Some(album) if album.left > 0 => album,
            _ => self.new_album(&mut out),
        };
        album.left -= 1;
        let (owner, name) = (album.owner, album.name.clone());
        self.album = Some(album);
        let country = self.population.country(owner);
        let photo = thing("photoalbum/photo/pho", self.photos.len() as u32);
        self.photos.push(owner);
        let random = &mut self.random;
        out.push(triple(&photo, rdf_type(), iri(Ns::Sib, "Photo")));
        out.push(triple(&photo, rdf_type(), iri(Ns::Sioc, "Item")));
        out.push(triple(
            &photo,
            iri(Ns::Dbo, "location"),
            text(format!("Place {}", random.below(PLACES))),
        ));
        out.push(triple(
            &photo,
            iri(Ns::DbProp, "latd"),
            coordinate(country.latitude + random.unit() * 2.0),
        ));
        out.push(triple(
            &photo,
            iri(Ns::DbProp, "longd"),
            coordinate(country.longitude + random.unit() * 2.0),
        ));
        out.push(triple(
            &photo,
            iri(Ns::Sib, "browser"),
            text(*random.pick(&BROWSERS)),
        ));
        out.push(triple(
            &photo,
            iri(Ns::Sioc, "ip_address"),
            text(address(random)),
        ));
        out.push(triple(&photo, iri(Ns::Dc, "created"), moment(self.now_ms)));
        out.push(triple(&name, iri(Ns::Sioc, "container_of"), photo.clone()));
        // The tagged are a run of the owner's friends, so that no friend is tagged twice.
        let friends = self.population.friends(owner);
        let tagged = (self.random.below(10) as usize).min(friends.len());
        let first = self.random.below((friends.len() - tagged + 1) as u32) as usize;
        for &friend in &friends[first..first + tagged] {
            out.push(triple(&photo, iri(Ns::Sib, "usertag"), self.user(friend)));
        }
        out
    }

    fn new_album(&mut self, out: &mut Vec<Triple>) -> Album {
        let album = Album {
            name: thing("photoalbum/pa", self.albums),
            owner: self.somebody(),
            left: 1 + self.random.below(39),
        };
        self.albums += 1;
        let title = format!("Album {}", self.random.pick(&WORDS));
        let gallery = NamedNode::new_unchecked("http://rdfs.org/sioc/type#ImageGallery");
        out.push(triple(&album.name, rdf_type(), gallery));
        out.push(triple(&album.name, iri(Ns::DcTerms, "title"), text(title)));
        out.push(triple(
            &album.name,
            iri(Ns::Dc, "created"),
            moment(self.now_ms),
        ));
        out.push(triple(
            &self.user(album.owner),
            iri(Ns::Sioc, "creator_of"),
            album.name.clone(),
        ));
        album
    }

    /// Mostly a recent post, mostly by a friend of its author. Empty while nothing exists that
    /// could be liked.
    fn like(&mut self, of: StreamKind) -> Vec<Triple> {
        let (authors, path) = if of == StreamKind::Posts {
            (&self.posts, "post/po")
        } else {
            (&self.photos, "photoalbum/photo/pho")
        };
        let count = authors.len() as u32;
        if count == 0 {
            return Vec::new();
        }
        let item = if self.random.chance(0.7) {
            count - 1 - self.random.below(count.min((count / 20).max(50)))
        } else {
            self.random.below(count)
        };
        let author = authors[item as usize];
        let liker = if !self.population.friends(author).is_empty() && self.random.chance(0.8) {
            self.friend_of(author)
        } else {
            self.random.below(self.population.len())
        };
        vec![triple(
            &self.user(liker),
            iri(Ns::Sib, "like"),
            thing(path, item),
        )]
    }

    fn fix(&mut self) -> Vec<Triple> {
        let person = self.somebody();
        let country = self.population.country(person);
        let fix = thing("gps/gps", self.fixes);
        self.fixes += 1;
        vec![
            triple(&self.user(person), iri(Ns::Sib, "trackedAt"), fix.clone()),
            triple(
                &fix,
                iri(Ns::DbProp, "latd"),
                coordinate(country.latitude + self.random.unit() * 0.01),
            ),
            triple(
                &fix,
                iri(Ns::DbProp, "longd"),
                coordinate(country.longitude + self.random.unit() * 0.01),
            ),
            triple(&fix, iri(Ns::Sib, "trackedTime"), moment(self.now_ms)),
            triple(&fix, iri(Ns::Sib, "trackedLocation"), text(country.name)),
        ]
    }
}

/// The streams; a past that has not been read is passed over.
impl Iterator for Activity<'_> {
    type Item = Streamed;

    fn next(&mut self) -> Option<Streamed> {
        loop {
            if self.now_ms >= 1
                && let Some(triple) = self.ready.next()
            {
                return Some(Streamed {
                    kind: StreamKind::ALL[self.kind],
                    at_ms: self.now_ms,
                    triple,
                });
            }
            if !self.happen(self.end_ms) {
                return None;
            }
        }
    }
}
