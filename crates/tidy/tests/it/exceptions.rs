//! Exceptions from the rules today, with reasons. These lists only shrink.

/// Functions of more than 70 lines.
pub(crate) const LONG_FUNCTIONS: &[(&str, &str)] = &[
    ("crates/conformance/src/rsp/mod.rs::run_on", "to be cut"),
    (
        "crates/generate/src/people.rs::describe_person",
        "data: one line a statement of the generated person",
    ),
    (
        "crates/lang/src/sparql/convert.rs::pattern",
        "one match over the algebra",
    ),
    (
        "crates/query/src/exec/row_scan.rs::scan",
        "one match over what is bound",
    ),
    (
        "crates/query/src/plan/estimate.rs::of",
        "one match over the algebra",
    ),
    (
        "crates/query/src/exec/path/mod.rs::follow_rows",
        "one match over the ends of a path",
    ),
    (
        "crates/query/src/plan/sample.rs::look",
        "one match over the positions",
    ),
    (
        "crates/server/src/routes/openapi/schemas.rs::queries",
        "data: one line a metric or field",
    ),
];

/// Names that stand for several types of a crate.
pub(crate) const REPEATED_NAMES: &[(&str, &str)] = &[];

/// Crates whose modules import each other in a circle, or whose rooms are not ranked yet.
pub(crate) const WITHOUT_RANKS: &[&str] = &[];
