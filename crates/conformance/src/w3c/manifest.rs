//! Reads the W3C manifests. Every file called `manifest*.ttl` under the folder is one suite, found
//! by walking and not by following `mf:include`, so that no folder is left out silently.

use crate::error::ConformanceError;
use oxrdf::vocab::rdf;
use oxrdf::{Graph, NamedNode, NamedNodeRef, NamedOrBlankNode, Term, TermRef};
use oxrdfio::{RdfFormat, RdfParser};
use std::path::{Path, PathBuf};

/// The address at which the suites are published; the IRIs of tests and files are resolved against
/// it.
pub const PUBLISHED: &str = "https://w3c.github.io/rdf-tests/";

/// Names of the manifest vocabularies.
pub mod vocabulary {
    use oxrdf::NamedNodeRef;

    macro_rules! names {
        ($($name:ident = $iri:expr;)*) => {
            $(#[doc = concat!("`", $iri, "`")] pub const $name: NamedNodeRef<'static> = NamedNodeRef::new_unchecked($iri);)*
        };
    }

    names! {
        ENTRIES = "http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#entries";
        ACTION = "http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#action";
        RESULT = "http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#result";
        RESULT_CARDINALITY = "http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#resultCardinality";
        LAX_CARDINALITY = "http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#LaxCardinality";
        EXPECTED_STATUS = "http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#expectedStatus";
        EXPECTED_BOOLEAN = "http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#expectedBoolean";
        EXPECTED_FORMAT = "http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#expectedFormat";
        EXPECTED_LOCATION = "http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#expectedLocation";
        QUERY = "http://www.w3.org/2001/sw/DataAccess/tests/test-query#query";
        DATA = "http://www.w3.org/2001/sw/DataAccess/tests/test-query#data";
        GRAPH_DATA = "http://www.w3.org/2001/sw/DataAccess/tests/test-query#graphData";
        SERVICE_DATA = "http://www.w3.org/2001/sw/DataAccess/tests/test-query#serviceData";
        ENDPOINT = "http://www.w3.org/2001/sw/DataAccess/tests/test-query#endpoint";
        REQUEST = "http://www.w3.org/2009/sparql/tests/test-update#request";
        UPDATE_DATA = "http://www.w3.org/2009/sparql/tests/test-update#data";
        UPDATE_GRAPH_DATA = "http://www.w3.org/2009/sparql/tests/test-update#graphData";
        UPDATE_GRAPH = "http://www.w3.org/2009/sparql/tests/test-update#graph";
        LABEL = "http://www.w3.org/2000/01/rdf-schema#label";
        HTTP_REQUESTS = "http://www.w3.org/2011/http#requests";
        HTTP_PATH = "http://www.w3.org/2011/http#absolutePath";
        HTTP_METHOD = "http://www.w3.org/2011/http#methodName";
        HTTP_BODY = "http://www.w3.org/2011/http#body";
        HTTP_HEADERS = "http://www.w3.org/2011/http#headers";
        HTTP_FIELD_NAME = "http://www.w3.org/2011/http#fieldName";
        HTTP_FIELD_VALUE = "http://www.w3.org/2011/http#fieldValue";
        HTTP_RESPONSE = "http://www.w3.org/2011/http#resp";
        CONTENT_CHARS = "http://www.w3.org/2011/content#chars";
        CONTENT_ENCODING = "http://www.w3.org/2011/content#characterEncoding";
        RESULT_SET = "http://www.w3.org/2001/sw/DataAccess/tests/result-set#ResultSet";
        RESULT_VARIABLE = "http://www.w3.org/2001/sw/DataAccess/tests/result-set#resultVariable";
        SOLUTION = "http://www.w3.org/2001/sw/DataAccess/tests/result-set#solution";
        BINDING = "http://www.w3.org/2001/sw/DataAccess/tests/result-set#binding";
        VALUE = "http://www.w3.org/2001/sw/DataAccess/tests/result-set#value";
        VARIABLE = "http://www.w3.org/2001/sw/DataAccess/tests/result-set#variable";
        INDEX = "http://www.w3.org/2001/sw/DataAccess/tests/result-set#index";
        BOOLEAN = "http://www.w3.org/2001/sw/DataAccess/tests/result-set#boolean";
    }
}

/// The folder of the suites, and the way between its files and their published IRIs.
#[derive(Debug, Clone)]
pub struct Folder {
    root: PathBuf,
}

impl Folder {
    /// The folder that holds `sparql/` and `rdf/`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// All manifests, in the order of their paths.
    pub fn manifests(&self) -> Result<Vec<PathBuf>, ConformanceError> {
        let mut found = Vec::new();
        let mut open = vec![self.root.clone()];
        while let Some(folder) = open.pop() {
            let unreadable = |source| ConformanceError::Unreadable {
                path: folder.clone(),
                source,
            };
            for entry in std::fs::read_dir(&folder).map_err(unreadable)? {
                let path = entry.map_err(unreadable)?.path();
                if path.is_dir() {
                    open.push(path);
                } else if is_manifest(&path) {
                    found.push(path);
                }
            }
        }
        found.sort();
        Ok(found)
    }

    /// The published IRI of a file of the folder.
    pub fn iri_of(&self, path: &Path) -> String {
        let inside = path.strip_prefix(&self.root).unwrap_or(path);
        let mut iri = PUBLISHED.to_owned();
        for (at, part) in inside.iter().enumerate() {
            if at > 0 {
                iri.push('/');
            }
            iri.push_str(&part.to_string_lossy());
        }
        iri
    }

    /// The file that is published at an IRI.
    pub fn path_of(&self, iri: &str) -> Result<PathBuf, String> {
        iri.strip_prefix(PUBLISHED)
            .map(|inside| self.root.join(inside))
            .ok_or_else(|| format!("<{iri}> is not a file of these suites"))
    }

    /// The bytes of the file that is published at an IRI.
    pub fn bytes(&self, iri: &str) -> Result<Vec<u8>, String> {
        let path = self.path_of(iri)?;
        std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// The text of the file that is published at an IRI.
    pub fn text(&self, iri: &str) -> Result<String, String> {
        String::from_utf8(self.bytes(iri)?).map_err(|_| format!("<{iri}> is not UTF-8"))
    }

    /// The graph in the file that is published at an IRI; its syntax is told by the file's ending.
    pub fn graph(&self, iri: &str) -> Result<Graph, String> {
        let format = format_of(iri)?;
        let parser = RdfParser::from_format(format)
            .with_base_iri(iri)
            .map_err(|error| format!("<{iri}>: {error}"))?;
        let mut graph = Graph::new();
        for quad in parser.for_slice(&self.bytes(iri)?) {
            graph.insert(&oxrdf::Triple::from(
                quad.map_err(|error| format!("<{iri}>: {error}"))?,
            ));
        }
        Ok(graph)
    }
}

fn is_manifest(path: &Path) -> bool {
    path.file_name()
        .and_then(|name| name.to_str())
        .is_some_and(|name| name.starts_with("manifest") && name.ends_with(".ttl"))
}

/// The RDF syntax that a file's ending tells.
pub fn format_of(name: &str) -> Result<RdfFormat, String> {
    name.rsplit_once('.')
        .and_then(|(_, ending)| RdfFormat::from_extension(ending))
        .ok_or_else(|| format!("<{name}> has an ending that names no RDF syntax"))
}

/// One manifest: a suite of tests, and the statements that describe them.
pub struct Manifest {
    /// The folder's path below the root, with the file's name where it is not `manifest.ttl`.
    pub suite: String,
    /// The tests in their order.
    pub tests: Vec<Test>,
}

/// One test as its manifest describes it.
pub struct Test {
    /// The IRI of the test, by which the skip list names it.
    pub id: String,
    /// The local name of the class of the test, such as `QueryEvaluationTest`.
    pub kind: String,
    graph: std::rc::Rc<Graph>,
    node: NamedOrBlankNode,
}

impl Manifest {
    /// Reads a manifest; one that only includes others has no tests.
    pub fn read(folder: &Folder, path: &Path) -> Result<Self, ConformanceError> {
        let iri = folder.iri_of(path);
        let graph = std::rc::Rc::new(
            folder
                .graph(&iri)
                .map_err(|reason| ConformanceError::broken(path, reason))?,
        );
        let suite = iri[PUBLISHED.len()..]
            .trim_end_matches(".ttl")
            .trim_end_matches("/manifest")
            .to_owned();
        let mut tests = Vec::new();
        for list in graph.triples_for_predicate(vocabulary::ENTRIES) {
            for entry in items(&graph, list.object) {
                let Some(node) = resource(entry.as_ref()) else {
                    return Err(ConformanceError::broken(
                        path,
                        format!("{entry} is not a test"),
                    ));
                };
                if let Some(test) = Test::read(&graph, node) {
                    tests.push(test);
                }
            }
        }
        Ok(Self { suite, tests })
    }
}

impl Test {
    /// `None` for an entry that has no class: the published lists name a few tests that were taken
    /// out.
    fn read(graph: &std::rc::Rc<Graph>, node: NamedOrBlankNode) -> Option<Self> {
        let kind = graph
            .objects_for_subject_predicate(&node, rdf::TYPE)
            .find_map(|class| match class {
                TermRef::NamedNode(class) => {
                    Some(class.as_str().rsplit(['#', '/']).next()?.to_owned())
                }
                _ => None,
            })?;
        let id = match &node {
            NamedOrBlankNode::NamedNode(iri) => iri.as_str().to_owned(),
            NamedOrBlankNode::BlankNode(label) => label.to_string(),
        };
        Some(Self {
            id,
            kind,
            graph: std::rc::Rc::clone(graph),
            node,
        })
    }

    /// The description of the test itself.
    pub fn description(&self) -> Description<'_> {
        Description {
            graph: &self.graph,
            node: self.node.clone(),
        }
    }
}

/// A resource of a manifest with what is said about it.
#[derive(Clone)]
pub struct Description<'a> {
    graph: &'a Graph,
    node: NamedOrBlankNode,
}

impl<'a> Description<'a> {
    /// The resource itself.
    pub fn node(&self) -> &NamedOrBlankNode {
        &self.node
    }

    /// The values of a property.
    pub fn terms(&self, property: NamedNodeRef<'_>) -> Vec<Term> {
        self.graph
            .objects_for_subject_predicate(&self.node, property)
            .map(TermRef::into_owned)
            .collect()
    }

    /// The value of a property that is given at most once.
    pub fn term(&self, property: NamedNodeRef<'_>) -> Option<Term> {
        self.terms(property).into_iter().next()
    }

    /// The IRIs among the values of a property.
    pub fn iris(&self, property: NamedNodeRef<'_>) -> Vec<NamedNode> {
        self.terms(property)
            .into_iter()
            .filter_map(|term| match term {
                Term::NamedNode(iri) => Some(iri),
                _ => None,
            })
            .collect()
    }

    /// The IRI that a property must have.
    pub fn iri(&self, property: NamedNodeRef<'_>) -> Result<String, String> {
        self.iris(property)
            .into_iter()
            .next()
            .map(NamedNode::into_string)
            .ok_or_else(|| format!("the manifest gives no {property}"))
    }

    /// The text of a property whose value is a literal.
    pub fn text(&self, property: NamedNodeRef<'_>) -> Option<String> {
        self.terms(property)
            .into_iter()
            .find_map(|term| match term {
                Term::Literal(literal) => Some(literal.value().to_owned()),
                _ => None,
            })
    }

    /// The resources among the values of a property.
    pub fn resources(&self, property: NamedNodeRef<'_>) -> Vec<Self> {
        self.terms(property)
            .iter()
            .filter_map(|term| self.at(term.as_ref()))
            .collect()
    }

    /// The resource that a property must have.
    pub fn resource(&self, property: NamedNodeRef<'_>) -> Result<Self, String> {
        self.resources(property)
            .into_iter()
            .next()
            .ok_or_else(|| format!("the manifest gives no {property}"))
    }

    /// The members of the list that a property has; empty when it has none.
    pub fn list(&self, property: NamedNodeRef<'_>) -> Vec<Self> {
        self.graph
            .object_for_subject_predicate(&self.node, property)
            .map(|head| items(self.graph, head))
            .unwrap_or_default()
            .iter()
            .filter_map(|term| self.at(term.as_ref()))
            .collect()
    }

    fn at(&self, term: TermRef<'_>) -> Option<Self> {
        Some(Self {
            graph: self.graph,
            node: resource(term)?,
        })
    }
}

fn resource(term: TermRef<'_>) -> Option<NamedOrBlankNode> {
    match term {
        TermRef::NamedNode(node) => Some(node.into_owned().into()),
        TermRef::BlankNode(node) => Some(node.into_owned().into()),
        _ => None,
    }
}

fn items(graph: &Graph, head: TermRef<'_>) -> Vec<Term> {
    let mut found = Vec::new();
    let mut cell = resource(head);
    while let Some(node) = cell.take() {
        if let Some(first) = graph.object_for_subject_predicate(&node, rdf::FIRST) {
            found.push(first.into_owned());
            cell = graph
                .object_for_subject_predicate(&node, rdf::REST)
                .and_then(resource);
        }
    }
    found
}
