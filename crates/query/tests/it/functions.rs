//! Functions of any value: what spareval says of each, and a few values written out.

use crate::equals_spareval::{Data, native, oracle};
use somersault_lang::Parser;
use somersault_query::Prepared;

const PREFIX: &str = "PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>\n";

/// Terms of all kinds, spelled as spareval spells them, and no value.
const VALUES: &str = r#"VALUES ?x {
    1 1.5 "2"^^xsd:double true "" "abc" "日本" "en" "rtl" "ltr" "abc"@en "abc"@ar--rtl "abc"@en--ltr <http://x/i> UNDEF
    "2020-02-29T12:00:00Z"^^xsd:dateTime "2020-02-29T12:00:00-05:30"^^xsd:dateTime
    "2020-02-29T12:00:00.25+14:00"^^xsd:dateTime "2020-02-29T12:00:00"^^xsd:dateTime
    "2020-02-29Z"^^xsd:date "x"^^<http://x/t> "x"^^xsd:integer <<( <http://x/s> <http://x/p> 1 )>>
}"#;

const CALLS: [&str; 19] = [
    "MD5(?x)",
    "SHA1(?x)",
    "SHA256(?x)",
    "SHA384(?x)",
    "SHA512(?x)",
    "TZ(?x)",
    "TIMEZONE(?x)",
    "HASLANG(?x)",
    "HASLANGDIR(?x)",
    "LANGDIR(?x)",
    "STRLANGDIR(?x, \"en\", \"ltr\")",
    "STRLANGDIR(\"text\", ?x, \"rtl\")",
    "STRLANGDIR(\"text\", \"en\", ?x)",
    "TRIPLE(?x, <http://x/p>, \"o\")",
    "TRIPLE(<http://x/s>, ?x, \"o\")",
    "TRIPLE(<http://x/s>, <http://x/p>, ?x)",
    "OBJECT(TRIPLE(<http://x/s>, <http://x/p>, ?x))",
    "DATATYPE(TIMEZONE(?x))",
    "STRLEN(MD5(STR(?x)))",
];

fn no_data() -> Data {
    Data {
        default: Vec::new(),
        named: [Vec::new(), Vec::new()],
        windows: [Vec::new(), Vec::new()],
    }
}

fn answers(text: &str) -> [Vec<Vec<String>>; 2] {
    let query = Parser::new().parse_query(&format!("{PREFIX}{text}"));
    let prepared = Prepared::new(query.expect("a query"));
    let data = no_data();
    let both = [
        native(&data.view(), &prepared),
        oracle(&data.oracle(), &prepared),
    ];
    both.map(|mut rows| {
        rows.sort();
        rows
    })
}

#[test]
fn each_function_agrees_with_spareval_on_each_value() {
    for call in CALLS {
        let [ours, theirs] = answers(&format!("SELECT ?x ({call} AS ?f) {{ {VALUES} }}"));
        assert_eq!(ours, theirs, "{call}");
        let has_value = |row: &Vec<String>| row.last().is_some_and(|cell| !cell.is_empty());
        assert!(ours.iter().any(has_value), "{call} is an error everywhere");
    }
}

#[test]
fn some_values() {
    let time = "\"2020-02-29T12:00:00-05:30\"^^xsd:dateTime";
    for (call, expected) in [
        (
            "MD5(\"abc\")".to_owned(),
            "\"900150983cd24fb0d6963f7d28e17f72\"",
        ),
        (format!("TZ({time})"), "\"-05:30\""),
        (
            format!("TIMEZONE({time})"),
            "\"-PT5H30M\"^^<http://www.w3.org/2001/XMLSchema#dayTimeDuration>",
        ),
        ("LANGDIR(\"a\"@ar--rtl)".to_owned(), "\"rtl\""),
        (
            "STRLANGDIR(\"a\", \"ar\", \"rtl\")".to_owned(),
            "\"a\"@ar--rtl",
        ),
        // The part keeps its spelling.
        (
            "STR(OBJECT(TRIPLE(<http://x/s>, <http://x/p>, \"01\"^^xsd:integer)))".to_owned(),
            "\"01\"",
        ),
    ] {
        let [ours, _] = answers(&format!("SELECT ({call} AS ?f) {{}}"));
        assert_eq!(ours, [[expected]], "{call}");
    }
}
