//! What operators, casts and functions say of values written out, by the clauses of SPARQL 1.1 (17.x),
//! XPath and XQuery Functions and Operators 3.1 (F&O) and XML Schema 1.1. spareval departs from some
//! of them, so that its word is not asked here.

use crate::naive::NaiveView;
use somersault_lang::Parser;
use somersault_model::{EventTime, Limits};
use somersault_query::{Answer, Execution, GraphView, Prepared};

const PREFIX: &str = "PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>\n";

/// The value of an expression as N-Triples, without the IRI of XML Schema; empty where it is an error.
fn value(expression: &str) -> String {
    let text = format!("{PREFIX}SELECT ({expression} AS ?f) {{}}");
    let parsed = Parser::new().parse_query(&text);
    let prepared = Prepared::new(parsed.unwrap_or_else(|error| panic!("{text}: {error}")));
    let view = NaiveView::with_windows(&[], &[]);
    let execution = Execution::new(Limits::default(), EventTime(0));
    let Ok(Answer::Solutions(solutions)) = prepared.execute(&view, &execution) else {
        panic!("{text} has solutions");
    };
    let mut rows = solutions.rows(view.dictionary());
    let cell = rows.next().expect("one row").remove(0);
    let text = cell.map_or_else(String::new, |term| term.to_string());
    text.replace("<http://www.w3.org/2001/XMLSchema#", "xsd:")
        .replace("^^xsd:boolean>", "")
        .replace('>', "")
}

/// Compares each expression with its value: an empty text stands for an error.
fn check(cases: &[(&str, &str)]) {
    let wrong: Vec<String> = (cases.iter())
        .map(|(expression, expected)| (expression, value(expression), expected))
        .filter(|(_, found, expected)| found != *expected)
        .map(|(expression, found, expected)| format!("{expression}: {found}, not {expected}"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// F&O 4.2.4 (op:numeric-divide).
#[test]
fn decimals_are_divided_whatever_their_digits() {
    check(&[
        ("0 / 1.5", "\"0\"^^xsd:decimal"),
        ("0.0 / 0.25", "\"0\"^^xsd:decimal"),
        ("-0.0 / 1.5", "\"0\"^^xsd:decimal"),
        ("0 / 0.0", ""),
        ("1.5 / 0", ""),
        ("3 / 1.5", "\"2\"^^xsd:decimal"),
        ("-1 / 3", "\"-0.333333333333333333\"^^xsd:decimal"),
        (
            "100000000000000000000.0 / 1.5",
            "\"66666666666666666666.666666666666666666\"^^xsd:decimal",
        ),
        (
            "1000000000000000.0 / 1.234567891",
            "\"810000006714900.055666521461475462\"^^xsd:decimal",
        ),
        (
            "0.000000000000000001 / 100000000000000000000.0",
            "\"0\"^^xsd:decimal",
        ),
    ]);
}

/// 17.3: `<`, `>`, `<=`, `>=` of two xsd:boolean (F&O 7.2: false is less than true).
#[test]
fn booleans_have_an_order() {
    check(&[
        ("true > false", "\"true\""),
        ("false > true", "\"false\""),
        ("false < true", "\"true\""),
        ("true < true", "\"false\""),
        ("true >= true", "\"true\""),
        ("false <= true", "\"true\""),
        ("false >= true", "\"false\""),
        ("\"1\"^^xsd:boolean = true", "\"true\""),
        ("\"0\"^^xsd:boolean < true", "\"true\""),
        ("\"1\"^^xsd:boolean > true", "\"false\""),
        ("true > 0", ""),
    ]);
}

/// 17.2.2.
#[test]
fn effective_boolean_values() {
    check(&[
        ("!\"x\"@en", "\"false\""),
        ("!\"\"@en", "\"true\""),
        ("!\"x\"@en--ltr", "\"false\""),
        ("!\"\"", "\"true\""),
        ("!\"abc\"^^xsd:integer", "\"true\""),
        ("!\"abc\"^^xsd:boolean", "\"true\""),
        ("!\"abc\"^^xsd:double", "\"true\""),
        ("!\"1200\"^^xsd:byte", "\"true\""),
        ("!\"12\"^^xsd:byte", "\"false\""),
        ("!\"NaN\"^^xsd:double", "\"true\""),
        ("!\"NaN\"^^xsd:float", "\"true\""),
        ("!0.0", "\"true\""),
        ("!(-0e0)", "\"true\""),
        ("!\"INF\"^^xsd:float", "\"false\""),
        ("!<http://x/i>", ""),
        ("!\"2020-01-01\"^^xsd:date", ""),
        ("!\"x\"^^<http://x/t>", ""),
        ("\"abc\"^^xsd:integer || false", "\"false\""),
        ("\"abc\"^^xsd:integer && true", "\"false\""),
        ("IF(\"x\"@en, 1, 2)", "\"1\"^^xsd:integer"),
        ("IF(\"abc\"^^xsd:int, 1, 2)", "\"2\"^^xsd:integer"),
    ]);
}

/// XML Schema 1.1 part 2, 3.4.13 to 3.4.25; 17.4.2.4 (isNumeric of "1200"^^xsd:byte is false).
#[test]
fn derived_integers_have_ranges() {
    for (datatype, least, most) in [
        ("byte", "-128", "127"),
        ("short", "-32768", "32767"),
        ("int", "-2147483648", "2147483647"),
        ("long", "-9223372036854775808", "9223372036854775807"),
        ("unsignedByte", "0", "255"),
        ("unsignedShort", "0", "65535"),
        ("unsignedInt", "0", "4294967295"),
        ("nonNegativeInteger", "0", "100"),
        ("positiveInteger", "1", "100"),
        ("nonPositiveInteger", "-100", "0"),
        ("negativeInteger", "-100", "-1"),
    ] {
        for inside in [least, most] {
            let call = format!("isNumeric(\"{inside}\"^^xsd:{datatype})");
            assert_eq!(value(&call), "\"true\"", "{call}");
        }
    }
    check(&[
        ("isNumeric(\"1200\"^^xsd:byte)", "\"false\""),
        ("isNumeric(\"-129\"^^xsd:byte)", "\"false\""),
        ("isNumeric(\"32768\"^^xsd:short)", "\"false\""),
        ("isNumeric(\"2147483648\"^^xsd:int)", "\"false\""),
        ("isNumeric(\"-1\"^^xsd:unsignedByte)", "\"false\""),
        ("isNumeric(\"256\"^^xsd:unsignedByte)", "\"false\""),
        ("isNumeric(\"65536\"^^xsd:unsignedShort)", "\"false\""),
        ("isNumeric(\"4294967296\"^^xsd:unsignedInt)", "\"false\""),
        ("isNumeric(\"-1\"^^xsd:unsignedLong)", "\"false\""),
        ("isNumeric(\"-1\"^^xsd:nonNegativeInteger)", "\"false\""),
        ("isNumeric(\"0\"^^xsd:positiveInteger)", "\"false\""),
        ("isNumeric(\"1\"^^xsd:nonPositiveInteger)", "\"false\""),
        ("isNumeric(\"0\"^^xsd:negativeInteger)", "\"false\""),
        ("\"1200\"^^xsd:byte + 1", ""),
        ("\"1200\"^^xsd:byte = 1200", ""),
        ("\"-0\"^^xsd:unsignedByte = 0", "\"true\""),
        ("\"+5\"^^xsd:byte + 1", "\"6\"^^xsd:integer"),
    ]);
}

/// F&O 5.6.4 (fn:replace): a pattern that matches the empty string is an error, FORX0003.
#[test]
fn nothing_replaces_the_empty_string() {
    check(&[
        ("REPLACE(\"x\", \"\", \"y\")", ""),
        ("REPLACE(\"abracadabra\", \".*?\", \"$1\")", ""),
        ("REPLACE(\"x\", \"a*\", \"y\")", ""),
        ("REPLACE(\"x\", \"^\", \"y\")", ""),
        ("REPLACE(\"x\", \"\", \"y\", \"q\")", ""),
        ("REPLACE(\"abracadabra\", \"bra\", \"*\")", "\"a*cada*\""),
        ("REPLACE(\"abracadabra\", \"a.*a\", \"*\")", "\"*\""),
        (
            "REPLACE(\"abracadabra\", \"a(.)\", \"a$1$1\")",
            "\"abbraccaddabbra\"",
        ),
        ("REPLACE(\"AAAA\", \"A+\", \"b\")", "\"b\""),
    ]);
}

/// XML Schema 1.1 part 2, 3.3.4.2 and 3.3.5.2.
#[test]
fn floating_numbers_have_the_spellings_of_xml_schema() {
    check(&[
        ("xsd:double(\"Infinity\")", ""),
        ("xsd:double(\"inf\")", ""),
        ("xsd:double(\"nan\")", ""),
        ("xsd:double(\"-NaN\")", ""),
        ("xsd:float(\"infinity\")", ""),
        ("xsd:double(\"INF\")", "\"INF\"^^xsd:double"),
        ("xsd:double(\"+INF\")", "\"INF\"^^xsd:double"),
        ("xsd:float(\"-INF\")", "\"-INF\"^^xsd:float"),
        ("xsd:double(\"NaN\")", "\"NaN\"^^xsd:double"),
        ("isNumeric(\"Infinity\"^^xsd:double)", "\"false\""),
        ("isNumeric(\"inf\"^^xsd:float)", "\"false\""),
        ("isNumeric(\"1.\"^^xsd:double)", "\"true\""),
        ("isNumeric(\".5e+3\"^^xsd:float)", "\"true\""),
    ]);
}

/// F&O 19.1.2.2 (casting to xs:string).
#[test]
fn numbers_as_strings() {
    check(&[
        ("xsd:string(1e6)", "\"1.0E6\""),
        ("xsd:string(1.5e6)", "\"1.5E6\""),
        ("xsd:string(-12345678e0)", "\"-1.2345678E7\""),
        ("xsd:string(999999e0)", "\"999999\""),
        ("xsd:string(1e0)", "\"1\""),
        ("xsd:string(0.000001e0)", "\"0.000001\""),
        ("xsd:string(0.0000001e0)", "\"1.0E-7\""),
        ("xsd:string(1e300)", "\"1.0E300\""),
        ("xsd:string(0e0)", "\"0\""),
        ("xsd:string(-0e0)", "\"-0\""),
        ("xsd:string(\"1e6\"^^xsd:float)", "\"1.0E6\""),
        ("xsd:string(\"0.1\"^^xsd:float)", "\"0.1\""),
        ("xsd:string(\"-INF\"^^xsd:double)", "\"-INF\""),
        ("xsd:string(\"NaN\"^^xsd:float)", "\"NaN\""),
        ("xsd:string(1.50)", "\"1.5\""),
        ("xsd:string(2.0)", "\"2\""),
        ("xsd:string(\"007\"^^xsd:integer)", "\"7\""),
        ("xsd:string(\"1\"^^xsd:boolean)", "\"true\""),
        ("xsd:string(\"abc\"^^xsd:integer)", "\"abc\""),
        ("xsd:string(<http://x/i>)", "\"http://x/i\""),
    ]);
}
