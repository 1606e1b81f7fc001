//! What a holder of the engine may do: rights, their text, and the one place that checks them.
//!
//! The one thing to know before changing it: an [`Access`] travels with a handle of the engine
//! ([`Engine::with_access`](crate::Engine::with_access)), and each call checks it before it looks
//! at what exists. So a refusal depends on the rights and the request alone, and tells nothing
//! about data, names or texts of others.

use crate::error::EngineError;
use somersault_lang::{Footprint, Graphs};
use somersault_query::{GraphRights, GraphSet, NameSet};
use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

/// The kind of a right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum RightKind {
    /// To read a stored graph.
    Read,
    /// To write a stored graph.
    Write,
    /// To push into a stream and to move its time.
    Push,
    /// To read a stream in windows.
    Window,
    /// To read the answers of a registered query.
    Subscribe,
    /// To declare, change and drop what has a name: a stream, query, procedure or dataflow.
    Register,
    /// To call a procedure.
    Call,
    /// To reach other machines by SERVICE and LOAD.
    Remote,
    /// To see counters, the condition of the whole server, and the plans of shared queries.
    Monitor,
    /// To do everything, backups and tokens included.
    Admin,
}

impl RightKind {
    /// All kinds.
    pub const ALL: [RightKind; 10] = [
        RightKind::Read,
        RightKind::Write,
        RightKind::Push,
        RightKind::Window,
        RightKind::Subscribe,
        RightKind::Register,
        RightKind::Call,
        RightKind::Remote,
        RightKind::Monitor,
        RightKind::Admin,
    ];

    /// The word for it in the text of a right.
    ///
    /// ```
    /// assert_eq!(somersault::RightKind::Read.as_str(), "read");
    /// ```
    pub fn as_str(self) -> &'static str {
        match self {
            RightKind::Read => "read",
            RightKind::Write => "write",
            RightKind::Push => "push",
            RightKind::Window => "window",
            RightKind::Subscribe => "subscribe",
            RightKind::Register => "register",
            RightKind::Call => "call",
            RightKind::Remote => "remote",
            RightKind::Monitor => "monitor",
            RightKind::Admin => "admin",
        }
    }

    /// Whether a right of this kind may be limited to some names.
    fn is_limitable(self) -> bool {
        !matches!(
            self,
            RightKind::Remote | RightKind::Monitor | RightKind::Admin
        )
    }

    fn is_of_graphs(self) -> bool {
        matches!(self, RightKind::Read | RightKind::Write)
    }
}

/// The names that a right is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum RightScope {
    All,
    /// For graphs: the default graph.
    DefaultGraph,
    Name(Box<str>),
    Beginning(Box<str>),
}

/// One right: `read`, `read:default`, `read:http://example.org/graph` or
/// `read:http://example.org/*`.
///
/// ```
/// use somersault::Right;
/// let right: Right = "push:http://example.org/rooms/*".parse()?;
/// assert_eq!(right.to_string(), "push:http://example.org/rooms/*");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Right {
    kind: RightKind,
    scope: RightScope,
}

/// The word for the default graph in the text of a right. It is no IRI, because it has no colon.
const DEFAULT_GRAPH: &str = "default";

impl FromStr for Right {
    type Err = String;

    fn from_str(text: &str) -> Result<Right, String> {
        let (word, scope) = match text.split_once(':') {
            None => (text, None),
            Some((word, scope)) => (word, Some(scope)),
        };
        let kind = RightKind::ALL
            .into_iter()
            .find(|kind| kind.as_str() == word);
        let kind = kind.ok_or_else(|| {
            let known = RightKind::ALL.map(RightKind::as_str).join(", ");
            format!("\"{text}\" is no right; a right begins with one of {known}")
        })?;
        let scope = match scope {
            None => RightScope::All,
            Some(_) if !kind.is_limitable() => {
                return Err(format!(
                    "\"{text}\": the right {word} cannot be limited to names; write {word} alone"
                ));
            }
            Some("") => {
                return Err(format!(
                    "\"{text}\" has no name after the colon; write {word} alone for all names"
                ));
            }
            Some(scope) => Right::scope(kind, scope).ok_or_else(|| {
                format!(
                    "\"{text}\": a graph is an IRI, the beginning of IRIs with a * at its end, or {DEFAULT_GRAPH}"
                )
            })?,
        };
        Ok(Right { kind, scope })
    }
}

impl Right {
    fn scope(kind: RightKind, text: &str) -> Option<RightScope> {
        if text.chars().any(char::is_control) {
            return None;
        }
        if kind.is_of_graphs() {
            if text == DEFAULT_GRAPH {
                return Some(RightScope::DefaultGraph);
            }
            if text != "*" && !text.contains(':') {
                return None;
            }
        }
        Some(match text.strip_suffix('*') {
            Some("") => RightScope::All,
            Some(beginning) => RightScope::Beginning(beginning.into()),
            None => RightScope::Name(text.into()),
        })
    }

    /// The kind of the right.
    ///
    /// ```
    /// use somersault::{Right, RightKind};
    /// assert_eq!("read:urn:g".parse::<Right>()?.kind(), RightKind::Read);
    /// # Ok::<(), String>(())
    /// ```
    pub fn kind(&self) -> RightKind {
        self.kind
    }
}

impl Display for Right {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind.as_str();
        match &self.scope {
            RightScope::All => write!(formatter, "{kind}"),
            RightScope::DefaultGraph => write!(formatter, "{kind}:{DEFAULT_GRAPH}"),
            RightScope::Name(name) => write!(formatter, "{kind}:{name}"),
            RightScope::Beginning(beginning) => write!(formatter, "{kind}:{beginning}*"),
        }
    }
}

/// What a handle of the engine may do. Cheap to clone.
///
/// ```
/// use somersault::{Access, Engine, EngineConfig, EngineError, Right};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let engine = Engine::open(EngineConfig::default())?;
/// engine.update("INSERT DATA { <urn:a> <urn:p> 1 . GRAPH <urn:g> { <urn:a> <urn:p> 2 } }").run()?;
/// let rights = ["read:urn:g".parse::<Right>()?];
/// let reader = engine.with_access(Access::of(&rights));
/// let found = reader.query("SELECT ?o { { ?s ?p ?o } UNION { GRAPH ?g { ?s ?p ?o } } }").run()?;
/// assert_eq!(found.answer.len(), 1, "the default graph is as if it were empty");
/// let refused = reader.update("CLEAR GRAPH <urn:g>").run();
/// assert!(matches!(refused, Err(EngineError::Forbidden { right, .. }) if right == "write:urn:g"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access(Option<Arc<Granted>>);

/// The rights of an access that has not all of them.
#[derive(Debug, PartialEq, Eq)]
struct Granted {
    graphs: Arc<GraphRights>,
    names: BTreeMap<RightKind, NameSet>,
    /// The same for equal rights.
    scope: u64,
}

impl Access {
    /// The access to everything.
    ///
    /// ```
    /// assert!(somersault::Access::full().is_full());
    /// ```
    pub fn full() -> Access {
        Access(None)
    }

    /// The access that these rights give.
    ///
    /// ```
    /// use somersault::{Access, Right, RightKind};
    /// let access = Access::of(&["call:transfer".parse::<Right>()?]);
    /// assert!(access.allows(RightKind::Call, Some("transfer")));
    /// assert!(!access.allows(RightKind::Call, Some("other")));
    /// # Ok::<(), String>(())
    /// ```
    pub fn of(rights: &[Right]) -> Access {
        if rights.iter().any(|right| right.kind == RightKind::Admin) {
            return Access::full();
        }
        let mut graphs = GraphRights::default();
        let mut names: BTreeMap<RightKind, NameSet> = BTreeMap::new();
        for Right { kind, scope } in rights {
            let names = match kind {
                RightKind::Read => add_graphs(&mut graphs.read, scope),
                RightKind::Write => add_graphs(&mut graphs.write, scope),
                kind => names.entry(*kind).or_default(),
            };
            match scope {
                RightScope::All => names.add_all(),
                RightScope::DefaultGraph => {}
                RightScope::Name(name) => names.add(name),
                RightScope::Beginning(beginning) => names.add_beginning(beginning),
            }
        }
        let mut hasher = DefaultHasher::new();
        (&graphs, &names).hash(&mut hasher);
        Access(Some(Arc::new(Granted {
            graphs: Arc::new(graphs),
            names,
            // 0 is the scope of the full access.
            scope: hasher.finish().max(1),
        })))
    }

    /// Whether it allows everything.
    ///
    /// ```
    /// use somersault::{Access, Right};
    /// assert!(Access::of(&["admin".parse::<Right>()?]).is_full());
    /// # Ok::<(), String>(())
    /// ```
    pub fn is_full(&self) -> bool {
        self.0.is_none()
    }

    /// Whether it allows this for a name; without a name, for all names. The name of a graph is its
    /// IRI; the default graph is `default`.
    ///
    /// ```
    /// use somersault::{Access, Right, RightKind};
    /// let access = Access::of(&["read:urn:g:*".parse::<Right>()?]);
    /// assert!(access.allows(RightKind::Read, Some("urn:g:1")));
    /// assert!(!access.allows(RightKind::Read, Some("default")));
    /// assert!(!access.allows(RightKind::Read, None));
    /// # Ok::<(), String>(())
    /// ```
    pub fn allows(&self, kind: RightKind, name: Option<&str>) -> bool {
        let Some(granted) = &self.0 else {
            return true;
        };
        let graphs = match kind {
            RightKind::Read => Some(&granted.graphs.read),
            RightKind::Write => Some(&granted.graphs.write),
            _ => None,
        };
        match (graphs, name) {
            (Some(graphs), None) => graphs.is_all(),
            (Some(graphs), Some(DEFAULT_GRAPH)) => graphs.default,
            (Some(graphs), Some(name)) => graphs.named.contains(name),
            (None, name) => granted.names.get(&kind).is_some_and(|names| match name {
                None => names.is_all(),
                Some(name) => names.contains(name),
            }),
        }
    }

    /// Whether it allows this for some name at least.
    ///
    /// ```
    /// use somersault::{Access, Right, RightKind};
    /// let access = Access::of(&["push:urn:s".parse::<Right>()?]);
    /// assert!(access.allows_some(RightKind::Push) && !access.allows_some(RightKind::Read));
    /// # Ok::<(), String>(())
    /// ```
    pub fn allows_some(&self, kind: RightKind) -> bool {
        let Some(granted) = &self.0 else {
            return true;
        };
        let has = |graphs: &GraphSet| graphs.default || !graphs.named.is_empty();
        match kind {
            RightKind::Read => has(&granted.graphs.read),
            RightKind::Write => has(&granted.graphs.write),
            kind => (granted.names.get(&kind)).is_some_and(|names| !names.is_empty()),
        }
    }

    /// Refuses what is not allowed.
    ///
    /// ```
    /// use somersault::{Access, RightKind};
    /// let refused = Access::of(&[]).require(RightKind::Push, Some("urn:s"));
    /// assert!(refused.is_err_and(|error| error.to_string().contains("push:urn:s")));
    /// ```
    ///
    /// # Errors
    /// [`EngineError::Forbidden`] with the right that is missing.
    pub fn require(&self, kind: RightKind, name: Option<&str>) -> Result<(), EngineError> {
        match self.allows(kind, name) {
            true => Ok(()),
            false => Err(missing_right(kind, name)),
        }
    }

    /// Whether a right of one of these kinds allows a name.
    pub(crate) fn allows_one(&self, kinds: &[RightKind], name: &str) -> bool {
        self.is_full() || kinds.iter().any(|kind| self.allows(*kind, Some(name)))
    }

    /// Refuses a name that none of these kinds of rights allows; the error names the first kind.
    ///
    /// ```
    /// use somersault::{Access, Right, RightKind};
    /// let access = Access::of(&["subscribe:alarms".parse::<Right>()?]);
    /// let kinds = [RightKind::Register, RightKind::Subscribe];
    /// assert!(access.require_one(&kinds, "alarms").is_ok());
    /// # Ok::<(), String>(())
    /// ```
    ///
    /// # Errors
    /// [`EngineError::Forbidden`] with the first right.
    pub fn require_one(&self, kinds: &[RightKind], name: &str) -> Result<(), EngineError> {
        match kinds.first() {
            Some(first) if !self.allows_one(kinds, name) => Err(missing_right(*first, Some(name))),
            _ => Ok(()),
        }
    }

    /// Refuses a text that touches what is not allowed.
    pub(crate) fn require_all(&self, touched: &Footprint) -> Result<(), EngineError> {
        if self.is_full() {
            return Ok(());
        }
        self.require_graphs(RightKind::Read, &touched.reads)?;
        self.require_graphs(RightKind::Write, &touched.writes)?;
        for stream in &touched.windows {
            self.require(RightKind::Window, Some(stream.as_str()))?;
        }
        for stream in &touched.pushes {
            self.require(RightKind::Push, Some(stream.as_str()))?;
        }
        match touched.is_remote {
            true => self.require(RightKind::Remote, None),
            false => Ok(()),
        }
    }

    fn require_graphs(&self, kind: RightKind, graphs: &Graphs) -> Result<(), EngineError> {
        if graphs.any_named {
            self.require(kind, None)?;
        }
        if graphs.default {
            self.require(kind, Some(DEFAULT_GRAPH))?;
        }
        (graphs.named.iter()).try_for_each(|graph| self.require(kind, Some(graph.as_str())))
    }

    /// The graphs that an execution may read and write; `None` = all.
    pub(crate) fn graph_rights(&self) -> Option<&Arc<GraphRights>> {
        self.0.as_ref().map(|granted| &granted.graphs)
    }

    /// A number that is the same for equal rights; 0 for the full access.
    pub(crate) fn scope(&self) -> u64 {
        self.0.as_ref().map_or(0, |granted| granted.scope)
    }
}

/// The refusal of what a right for this name would allow; without a name, a right for all.
pub(crate) fn missing_right(kind: RightKind, name: Option<&str>) -> EngineError {
    let kind = kind.as_str();
    EngineError::forbidden(match name {
        None => kind.to_owned(),
        Some(name) => format!("{kind}:{name}"),
    })
}

fn add_graphs<'g>(graphs: &'g mut GraphSet, scope: &RightScope) -> &'g mut NameSet {
    graphs.default |= matches!(scope, RightScope::All | RightScope::DefaultGraph);
    &mut graphs.named
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(rights: &[&str]) -> Access {
        let rights: Vec<Right> = rights
            .iter()
            .map(|right| right.parse().expect("a right"))
            .collect();
        Access::of(&rights)
    }

    #[test]
    fn rights_are_read_as_they_are_written() {
        for text in [
            "read",
            "read:default",
            "write:http://e.org/g",
            "push:urn:s*",
            "call:transfer money",
            "admin",
        ] {
            let right: Right = text.parse().expect(text);
            assert_eq!(right.to_string(), text);
        }
        assert_eq!("read:*".parse::<Right>(), "read".parse::<Right>());
        for (bad, word) in [
            ("", "begins with one of read"),
            ("reads", "begins with one of read"),
            ("read:", "write read alone"),
            ("read:people", "IRI"),
            ("admin:x", "cannot be limited"),
            ("push:a\nb", "IRI"),
        ] {
            let said = bad.parse::<Right>().expect_err(bad);
            assert!(said.contains(word), "{said}");
        }
    }

    #[test]
    fn a_right_for_all_graphs_has_the_default_graph() {
        let all = access(&["read"]);
        assert!(all.allows(RightKind::Read, None) && all.allows(RightKind::Read, Some("default")));
        assert!(!all.allows(RightKind::Write, Some("default")));
        let named = access(&["read:default"]);
        assert!(!named.allows(RightKind::Read, Some("urn:g")));
        assert!(named.allows_some(RightKind::Read) && !named.allows_some(RightKind::Write));
    }

    #[test]
    fn equal_rights_have_one_scope_and_full_access_has_none() {
        let one = access(&["read:urn:a", "call:p"]);
        assert_eq!(one.scope(), access(&["call:p", "read:urn:a"]).scope());
        assert_ne!(one.scope(), access(&["call:p"]).scope());
        assert_eq!(access(&["read", "admin"]).scope(), Access::full().scope());
    }

    #[test]
    fn the_error_names_the_right() {
        let none = Access::of(&[]);
        for kind in RightKind::ALL {
            let EngineError::Forbidden { right, message } =
                none.require(kind, None).expect_err("no rights")
            else {
                panic!("{kind:?}")
            };
            assert_eq!(right, kind.as_str());
            assert!(message.contains(&right), "{message}");
        }
    }
}
