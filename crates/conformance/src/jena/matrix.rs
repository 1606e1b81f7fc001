//! Every operator and function over terms of all kinds: edge values of all numeric types, invalid
//! forms, texts, dates, times, durations, an IRI, a blank node, and nothing.

use super::term_text::XSD;
use std::fmt::Write;

/// A term, with the name by which the list of differences speaks of it.
pub(super) struct Operand {
    pub(super) name: &'static str,
    /// In N-Triples, with `xsd:` for XML Schema; empty for nothing.
    term: &'static str,
}

const fn operand(name: &'static str, term: &'static str) -> Operand {
    Operand { name, term }
}

const OPERANDS: [Operand; 55] = [
    operand("int-0", "\"0\"^^xsd:integer"),
    operand("int-1", "\"1\"^^xsd:integer"),
    operand("int-neg", "\"-7\"^^xsd:integer"),
    operand("int-007", "\"007\"^^xsd:integer"),
    operand("int-max64", "\"9223372036854775807\"^^xsd:integer"),
    operand(
        "int-wide",
        "\"-100000000000000000000000000000\"^^xsd:integer",
    ),
    operand("int-byte", "\"12\"^^xsd:byte"),
    operand("int-unsigned", "\"18446744073709551615\"^^xsd:unsignedLong"),
    operand("dec-0", "\"0.0\"^^xsd:decimal"),
    operand("dec-1.5", "\"1.50\"^^xsd:decimal"),
    operand("dec-neg", "\"-0.25\"^^xsd:decimal"),
    operand("dec-wide", "\"0.1234567890123456789012345\"^^xsd:decimal"),
    operand("dbl-1", "\"1e0\"^^xsd:double"),
    operand("dbl-1.5e6", "\"1.5E6\"^^xsd:double"),
    operand("dbl-neg", "\"-2.5\"^^xsd:double"),
    operand("dbl-inf", "\"INF\"^^xsd:double"),
    operand("dbl-nan", "\"NaN\"^^xsd:double"),
    operand("flt-neg0", "\"-0\"^^xsd:float"),
    operand("flt-0.1", "\"0.1\"^^xsd:float"),
    operand("flt-nan", "\"NaN\"^^xsd:float"),
    operand("bad-byte", "\"1200\"^^xsd:byte"),
    operand("bad-int", "\"abc\"^^xsd:integer"),
    operand("bad-double", "\"Infinity\"^^xsd:double"),
    operand("bad-bool", "\"maybe\"^^xsd:boolean"),
    operand("bad-dateTime", "\"2020-13-01T00:00:00Z\"^^xsd:dateTime"),
    operand("space-int", "\" 1 \"^^xsd:integer"),
    operand("bool-true", "\"true\"^^xsd:boolean"),
    operand("bool-0", "\"0\"^^xsd:boolean"),
    operand("str-empty", "\"\""),
    operand("str-abc", "\"abc\""),
    operand("str-10", "\"10\""),
    operand("str-en", "\"en\""),
    operand("str-uni", "\"\u{c9}t\u{e9} \u{65e5}\u{1f600}\""),
    operand("lang-abc", "\"abc\"@en"),
    operand("lang-empty", "\"\"@en"),
    operand("lang-gb", "\"bc\"@en-GB"),
    operand("dateTime-z", "\"2020-02-29T12:00:00Z\"^^xsd:dateTime"),
    operand(
        "dateTime-off",
        "\"2020-02-29T06:30:00.250-05:30\"^^xsd:dateTime",
    ),
    operand("dateTime-bare", "\"2020-02-29T12:00:00\"^^xsd:dateTime"),
    operand("date-z", "\"2020-02-29Z\"^^xsd:date"),
    operand("date-bare", "\"2020-03-01\"^^xsd:date"),
    operand("time-z", "\"12:30:00Z\"^^xsd:time"),
    operand("time-bare", "\"23:59:59.5\"^^xsd:time"),
    operand("dtd-36h", "\"PT36H\"^^xsd:dayTimeDuration"),
    operand("dtd-1d12h", "\"P1DT12H\"^^xsd:dayTimeDuration"),
    operand("dtd-neg", "\"-PT5H30M\"^^xsd:dayTimeDuration"),
    operand("ymd-14m", "\"P1Y2M\"^^xsd:yearMonthDuration"),
    operand("ymd-0", "\"P0M\"^^xsd:yearMonthDuration"),
    operand("dur-1m", "\"P1M\"^^xsd:duration"),
    operand("dur-30d", "\"P30D\"^^xsd:duration"),
    operand("dur-mixed", "\"P1Y1DT1S\"^^xsd:duration"),
    operand("other", "\"x\"^^<http://x/t>"),
    operand("iri", "<http://x/i>"),
    operand("blank", "_:b"),
    operand("unbound", ""),
];

/// Expressions of one operand.
const UNARY: [&str; 61] = [
    "!?a",
    "-?a",
    "+?a",
    "(?a || false)",
    "(?a && true)",
    "IF(?a, 1, 2)",
    "STR(?a)",
    "LANG(?a)",
    "DATATYPE(?a)",
    "BOUND(?a)",
    "isIRI(?a)",
    "isBlank(?a)",
    "isLiteral(?a)",
    "isNumeric(?a)",
    "ABS(?a)",
    "CEIL(?a)",
    "FLOOR(?a)",
    "ROUND(?a)",
    "STRLEN(?a)",
    "STRLEN(STR(?a))",
    "UCASE(?a)",
    "LCASE(?a)",
    "ENCODE_FOR_URI(?a)",
    "ENCODE_FOR_URI(STR(?a))",
    "YEAR(?a)",
    "MONTH(?a)",
    "DAY(?a)",
    "HOURS(?a)",
    "MINUTES(?a)",
    "SECONDS(?a)",
    "TIMEZONE(?a)",
    "TZ(?a)",
    "MD5(?a)",
    "SHA1(?a)",
    "SHA256(?a)",
    "SHA384(STR(?a))",
    "SHA512(STR(?a))",
    "IRI(?a)",
    "isBlank(BNODE(?a))",
    "xsd:boolean(?a)",
    "xsd:integer(?a)",
    "xsd:decimal(?a)",
    "xsd:float(?a)",
    "xsd:double(?a)",
    "xsd:string(?a)",
    "xsd:dateTime(?a)",
    "xsd:date(?a)",
    "xsd:time(?a)",
    "xsd:duration(?a)",
    "xsd:dayTimeDuration(?a)",
    "xsd:yearMonthDuration(?a)",
    "xsd:integer(STR(?a))",
    "xsd:decimal(STR(?a))",
    "xsd:double(STR(?a))",
    "xsd:float(STR(?a))",
    "xsd:boolean(STR(?a))",
    "xsd:dateTime(STR(?a))",
    "xsd:date(STR(?a))",
    "xsd:dayTimeDuration(STR(?a))",
    "STRLANG(STR(?a), \"en\")",
    "SUBSTR(?a, 2)",
];

/// Expressions of two operands.
const BINARY: [&str; 43] = [
    "?a = ?b",
    "?a != ?b",
    "?a < ?b",
    "?a <= ?b",
    "?a > ?b",
    "?a >= ?b",
    "?a + ?b",
    "?a - ?b",
    "?a * ?b",
    "?a / ?b",
    "?a || ?b",
    "?a && ?b",
    "?a IN (?b, 1)",
    "?a NOT IN (?b, \"abc\")",
    "sameTerm(?a, ?b)",
    "COALESCE(?a, ?b)",
    "COALESCE(?a / ?b, \"none\")",
    "IF(?a, ?b, \"else\")",
    "CONCAT(?a, ?b)",
    "CONTAINS(?a, ?b)",
    "STRSTARTS(?a, ?b)",
    "STRENDS(?a, ?b)",
    "STRBEFORE(?a, ?b)",
    "STRAFTER(?a, ?b)",
    "LANGMATCHES(?a, ?b)",
    "LANGMATCHES(LANG(?a), LANG(?b))",
    "REGEX(?a, ?b)",
    "REGEX(STR(?a), STR(?b), \"i\")",
    "REPLACE(?a, ?b, \"z\")",
    "REPLACE(STR(?a), STR(?b), \"[$0]\")",
    "SUBSTR(?a, ?b)",
    "SUBSTR(?a, 1, ?b)",
    "STRDT(?a, ?b)",
    "STRLANG(?a, ?b)",
    "STRLANG(STR(?a), STR(?b))",
    "ADJUST(?a, ?b)",
    "?a - ?b = ?b",
    "SUM",
    "AVG",
    "COUNT",
    "COUNT(DISTINCT)",
    "MIN",
    "MAX",
];

/// An expression of one or two operands, `?a` and `?b`.
pub(super) struct Expression {
    pub(super) text: &'static str,
    is_binary: bool,
    /// Whether its digits are left open.
    pub(super) is_quotient: bool,
}

pub(super) fn expressions() -> impl Iterator<Item = Expression> {
    let of = |is_binary| {
        move |text: &'static str| Expression {
            text,
            is_binary,
            is_quotient: text.contains('/') || text == "AVG",
        }
    };
    (UNARY.into_iter().map(of(false))).chain(BINARY.into_iter().map(of(true)))
}

impl Expression {
    /// The query whose rows are the numbers of the operands, and the value.
    pub(super) fn query(&self) -> String {
        let value = |subject: &str, variable: &str| {
            format!("OPTIONAL {{ {subject} <http://x/value> {variable} }}")
        };
        let (x, y) = ("?x <http://x/at> ?i .", "?y <http://x/at> ?j .");
        let prefix = "BASE <http://x/base/>\nPREFIX xsd: <http://www.w3.org/2001/XMLSchema#>\n";
        let (a, b) = (value("?x", "?a"), value("?y", "?b"));
        if !self.is_binary {
            let text = self.text;
            return format!("{prefix}SELECT ?i (\"\" AS ?j) ({text} AS ?f) {{ {x} {a} }}");
        }
        if self.text.starts_with(|c: char| c.is_ascii_uppercase()) && !self.text.contains('?') {
            let aggregate = match self.text {
                "COUNT(DISTINCT)" => "COUNT(DISTINCT ?v)".to_owned(),
                name => format!("{name}(?v)"),
            };
            let both = "{ ?x <http://x/value> ?v } UNION { ?y <http://x/value> ?v }";
            return format!(
                "{prefix}SELECT ?i ?j ({aggregate} AS ?f) {{ {x} {y} {both} }} GROUP BY ?i ?j"
            );
        }
        format!(
            "{prefix}SELECT ?i ?j ({} AS ?f) {{ {x} {y} {a} {b} }}",
            self.text
        )
    }

    /// The operands in parts of one first operand, and in pairs.
    pub(super) fn parts(&self) -> Vec<Part> {
        let all = self.operands();
        let seconds = all.len() / OPERANDS.len();
        let of = |pairs: &[(&'static Operand, &'static Operand)]| Part {
            values: format!("VALUES ?i {{ {} }}", number(pairs[0].0)),
            pairs: (pairs.iter())
                .map(|(a, b)| {
                    let values = match number(b) {
                        second if second.is_empty() => format!("VALUES ?i {{ {} }}", number(a)),
                        second => format!("VALUES (?i ?j) {{ ({} {second}) }}", number(a)),
                    };
                    (format!("{}\t{}", key(a), key(b)), values)
                })
                .collect(),
        };
        all.chunks(seconds.max(1)).map(of).collect()
    }

    /// The operands, or pairs of them.
    pub(super) fn operands(&self) -> Vec<(&'static Operand, &'static Operand)> {
        let all = || OPERANDS.iter();
        match self.is_binary {
            true => all().flat_map(|a| all().map(move |b| (a, b))).collect(),
            false => all().map(|a| (a, &NONE)).collect(),
        }
    }
}

/// Pairs of operands with the same first operand: the VALUES for all of them, and for each.
pub(super) struct Part {
    pub(super) values: String,
    pub(super) pairs: Vec<(String, String)>,
}

/// A query of the matrix, restricted to some operands.
pub(super) fn among(query: &str, values: &str) -> String {
    query.replacen("{ ?x", &format!("{{ {values} ?x"), 1)
}

/// An expression of the matrix with texts in the places of `?a` and `?b`.
pub(super) fn applied(form: &str, operands: &[String]) -> String {
    // The last place first: what an operand's text holds is then never taken for a place.
    let places = ["?a", "?b"].into_iter().zip(operands).rev();
    places.fold(form.to_owned(), |text, (place, operand)| {
        text.replacen(place, operand, 1)
    })
}

/// The name by which the list of differences speaks of a written term that the matrix may lack:
/// the operand's that it is, or else one that begins with its kind, as `str-drawn` does.
pub(super) fn name_of(written: &str) -> String {
    let own = OPERANDS
        .iter()
        .find(|operand| expanded(operand.term) == written);
    if let Some(operand) = own {
        return operand.name.to_owned();
    }
    let datatype = written.rsplit_once("\"^^").map(|(_, datatype)| datatype);
    let xsd = datatype.and_then(|name| name.strip_prefix(&format!("<{XSD}")));
    let kind = match xsd {
        Some("integer>") => "int-drawn",
        Some("byte>") => "int-byte",
        Some("decimal>") => "dec-drawn",
        Some("double>") => "dbl-drawn",
        Some("float>") => "flt-drawn",
        Some("boolean>") => "bool-drawn",
        Some("string>") => "str-drawn",
        Some("dateTime>") => "dateTime-drawn",
        Some("dayTimeDuration>") => "dtd-drawn",
        Some("yearMonthDuration>") => "ymd-drawn",
        Some("duration>") => "dur-drawn",
        _ if written.contains("\"@") => "lang-drawn",
        _ if written.starts_with('<') => "iri",
        _ => "other",
    };
    kind.to_owned()
}

/// A term of [`OPERANDS`] with its IRIs in full.
fn expanded(term: &str) -> String {
    match term.split_once("xsd:") {
        Some((form, name)) => format!("{form}<{XSD}{name}>"),
        None => term.to_owned(),
    }
}

/// Stands where there is no second operand.
static NONE: Operand = operand("", "");

/// The number of an operand in a query; empty for [`NONE`].
fn number(operand: &Operand) -> String {
    let place = OPERANDS.iter().position(|other| other.name == operand.name);
    place.map_or_else(String::new, |place| format!("\"{place}\""))
}

/// The number of an operand as a query gives it.
pub(super) fn key(operand: &Operand) -> String {
    let number = number(operand);
    let number = if number.is_empty() { "\"\"" } else { &number };
    format!("{number}^^<{XSD}string>")
}

/// The data of the matrix, in N-Quads.
pub(super) fn data() -> String {
    let mut data = String::new();
    for (place, operand) in OPERANDS.iter().enumerate() {
        let subject = format!("<http://x/l{place}>");
        // Writing to a String never fails.
        let _ = writeln!(data, "{subject} <http://x/at> \"{place}\" .");
        if !operand.term.is_empty() {
            let term = expanded(operand.term);
            let _ = writeln!(data, "{subject} <http://x/value> {term} .");
        }
    }
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_stand_where_their_places_are() {
        let of = |form, operands: [&str; 2]| applied(form, &operands.map(str::to_owned));
        assert_eq!(of("?a + ?b", ["?b", "?a"]), "?b + ?a");
        assert_eq!(
            of("COALESCE(?a, ?b)", ["(?b - ?a)", "1"]),
            "COALESCE((?b - ?a), 1)"
        );
        assert_eq!(applied("STR(?a)", &["?b".to_owned()]), "STR(?b)");
    }

    #[test]
    fn a_term_is_named_by_its_kind() {
        let of = |form: &str, datatype: &str| name_of(&format!("\"{form}\"^^<{XSD}{datatype}>"));
        assert_eq!(of("PT36H", "dayTimeDuration"), "dtd-36h");
        assert_eq!(of("PT1H", "dayTimeDuration"), "dtd-drawn");
        assert_eq!(of("3", "byte"), "int-byte");
        assert_eq!(name_of("\"x\"@en"), "lang-drawn");
        assert_eq!(name_of("<http://x/p>"), "iri");
        assert_eq!(of("x", "gYear"), "other");
        assert_eq!(name_of(""), "unbound");
    }
}
