//! Seeded data for the demo and the benches: a social network with its streams ([`SocialNetwork`]),
//! a shop with its customers ([`WatDiv`]), a bibliography ([`Sp2Bench`]) and universities
//! ([`Universities`]), each with the queries that are asked of it, and a voting show
//! ([`VotingShow`]) with its procedures.
//!
//! The network has people, friendships and groups to store, and five streams of what they do. The
//! vocabulary, the shapes and the proportions are those of LSBench as the Wukong+S paper (SOSP
//! 2017, section 6) uses it: posts, likes of posts, photos, likes of photos, GPS fixes at 10 : 86 :
//! 10 : 7.5 : 20. The same parameters give the same triples, on every machine. Nothing is held in
//! memory but who knows whom and who wrote what.
//!
//! ```
//! use somersault_generate::{Parameters, SocialNetwork};
//!
//! let parameters = Parameters { users: 50, streams_ms: 100, ..Parameters::default() };
//! let network = SocialNetwork::new(parameters);
//! let stored = network.people().count();
//! let mut activity = network.activity();
//! let past = activity.past().count();
//! let streamed = activity.count();
//! assert!(stored > 1_000 && past > 0 && streamed > 0);
//! ```

mod activity;
mod lines;
mod people;
mod population;
mod queries;
mod random;
mod sp2bench;
mod universities;
mod vocabulary;
mod voting;
mod watdiv;

pub use activity::{Activity, Streamed};
pub use queries::NamedQuery;
pub use sp2bench::Sp2Bench;
pub use universities::Universities;
pub use voting::{VOTES_STREAM, Verdict, Vote, Votes, VotingFlow, VotingShow};
pub use watdiv::WatDiv;

use oxrdf::Triple;
use population::Population;

/// The graph that stored statements are in, and that timeless streams are absorbed into.
pub const STORED_GRAPH: &str = "http://example.org/lsbench/stored";

/// Size, shape and seed of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameters {
    /// The number of users.
    pub users: u32,
    /// The seed of everything random.
    pub seed: u64,
    /// Tuples per second of each stream.
    pub rates: Rates,
    /// Milliseconds of activity before time 0, which belong to the stored graph.
    pub history_ms: i64,
    /// Event time at which the streams end (exclusive).
    pub streams_ms: i64,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            users: 1_000,
            seed: 1,
            rates: Rates::PAPER,
            history_ms: 5_000,
            streams_ms: 5_000,
        }
    }
}

/// Tuples per second of each stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    /// Posts and comments.
    pub posts: u32,
    /// Likes of posts.
    pub post_likes: u32,
    /// Photos and albums.
    pub photos: u32,
    /// Likes of photos.
    pub photo_likes: u32,
    /// GPS fixes.
    pub gps: u32,
}

impl Rates {
    /// The paper's: 133,500 a second in all.
    pub const PAPER: Self = Self {
        posts: 10_000,
        post_likes: 86_000,
        photos: 10_000,
        photo_likes: 7_500,
        gps: 20_000,
    };

    /// The paper's proportions at another total.
    pub fn in_total(tuples_per_second: u32) -> Self {
        let share = |of: u32| {
            let exact =
                u64::from(of) * u64::from(tuples_per_second) / u64::from(Self::PAPER.total());
            u32::try_from(exact).unwrap_or(u32::MAX)
        };
        Self {
            posts: share(Self::PAPER.posts),
            post_likes: share(Self::PAPER.post_likes),
            photos: share(Self::PAPER.photos),
            photo_likes: share(Self::PAPER.photo_likes),
            gps: share(Self::PAPER.gps),
        }
    }

    /// All streams together.
    pub const fn total(&self) -> u32 {
        self.posts + self.post_likes + self.photos + self.photo_likes + self.gps
    }

    /// The rate of one stream.
    pub fn of(&self, kind: StreamKind) -> u32 {
        match kind {
            StreamKind::Posts => self.posts,
            StreamKind::PostLikes => self.post_likes,
            StreamKind::Photos => self.photos,
            StreamKind::PhotoLikes => self.photo_likes,
            StreamKind::Gps => self.gps,
        }
    }
}

/// One of the five streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StreamKind {
    /// Posts and comments; timeless.
    Posts,
    /// Likes of posts; timeless.
    PostLikes,
    /// Photos and albums; timeless.
    Photos,
    /// Likes of photos; timeless.
    PhotoLikes,
    /// GPS fixes; timing.
    Gps,
}

impl StreamKind {
    /// All of them, in the order of their index.
    pub const ALL: [Self; 5] = [
        Self::Posts,
        Self::PostLikes,
        Self::Photos,
        Self::PhotoLikes,
        Self::Gps,
    ];

    /// Its place in [`Self::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// Its IRI.
    pub fn iri(self) -> &'static str {
        match self {
            Self::Posts => "http://deri.org/poststream",
            Self::PostLikes => "http://deri.org/likedpoststream",
            Self::Photos => "http://deri.org/photostream",
            Self::PhotoLikes => "http://deri.org/likedphotostream",
            Self::Gps => "http://deri.org/gpsstream",
        }
    }

    /// The short name that its file has.
    pub fn short_name(self) -> &'static str {
        match self {
            Self::Posts => "PO",
            Self::PostLikes => "POL",
            Self::Photos => "PH",
            Self::PhotoLikes => "PHL",
            Self::Gps => "GPS",
        }
    }

    /// Its CREATE STREAM text: GPS fixes matter only while a window covers them, everything else is
    /// absorbed.
    pub fn declaration(self) -> String {
        self.declaration_by(100)
    }

    /// The same with batches of `batch_ms` milliseconds.
    pub fn declaration_by(self, batch_ms: i64) -> String {
        match self {
            Self::Gps => self.passing_declaration(batch_ms),
            _ => self.declared(&format!("TIMELESS INTO GRAPH <{STORED_GRAPH}>"), batch_ms),
        }
    }

    /// The text that declares this stream so that none of its statements is absorbed: each matters
    /// only while a window covers it.
    pub fn passing_declaration(self, batch_ms: i64) -> String {
        self.declared("TIMING ALL", batch_ms)
    }

    fn declared(self, classification: &str, batch_ms: i64) -> String {
        format!(
            "CREATE STREAM <{}> {classification} BATCH {batch_ms}ms IDLE NEVER",
            self.iri()
        )
    }
}

/// A network, drawn.
#[derive(Debug)]
pub struct SocialNetwork {
    parameters: Parameters,
    population: Population,
}

impl SocialNetwork {
    /// Draws homes, friendships and groups.
    ///
    /// A network of no users gets one, so that there is always a user to post.
    pub fn new(parameters: Parameters) -> Self {
        let parameters = Parameters {
            users: parameters.users.max(1),
            ..parameters
        };
        Self {
            parameters,
            population: Population::new(parameters.users, parameters.seed),
        }
    }

    /// The parameters that it was drawn from.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The triples of users, friendships and groups.
    pub fn people(&self) -> impl Iterator<Item = Triple> + use<'_> {
        people::People::new(&self.population, self.parameters.seed)
    }

    /// The activity of the people: first [`Activity::past`], which belongs to the stored graph,
    /// then the streams.
    pub fn activity(&self) -> Activity<'_> {
        Activity::new(&self.population, &self.parameters)
    }

    /// The nine continuous queries L1–L6 and E1–E3, with constants that this network has.
    pub fn continuous_queries(&self) -> Vec<NamedQuery> {
        queries::continuous(&self.population)
    }

    /// Continuous queries without end, of the shapes L1–L3 by turns, each about a person at random:
    /// names and texts.
    pub fn standing_queries(&self) -> impl Iterator<Item = (String, String)> + use<'_> {
        queries::standing(&self.population, self.parameters.seed)
    }

    /// The six one-shot queries S1–S6, with constants that this network has; they read
    /// [`STORED_GRAPH`] by default.
    pub fn one_shot_queries(&self) -> Vec<NamedQuery> {
        queries::one_shot(&self.population)
    }
}
