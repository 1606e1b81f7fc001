//! Lines of a stream in one pass, against `oxttl` reading each line by itself.

use crate::lines::statement;
use oxrdf::Quad;
use oxttl::NQuadsParser;
use proptest::prelude::*;
use somersault_lines::TimedLines;

fn in_one_pass(text: &[u8]) -> Option<Vec<(i64, Quad)>> {
    let lines = TimedLines::read(text, u64::MAX)?;
    let statements = lines.statements().map(|quad| quad.into_owned());
    let owned = lines.times().map(|time| time.0).zip(statements);
    Some(owned.collect())
}

/// None where a line is wrong.
fn line_by_line(text: &[u8]) -> Option<Vec<(i64, Quad)>> {
    let mut all = Vec::new();
    for line in text.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() || line[0] == b'#' {
            continue;
        }
        let tab = line.iter().position(|byte| *byte == b'\t')?;
        let time = std::str::from_utf8(&line[..tab]).ok()?.parse().ok()?;
        let mut quads = NQuadsParser::new().for_slice(&line[tab + 1..]);
        let quad = quads.next()?.ok()?;
        if quads.next().is_some() {
            return None;
        }
        all.push((time, quad));
    }
    Some(all)
}

/// Lines that are right and few that are not.
fn document() -> impl Strategy<Value = Vec<u8>> {
    let time = prop_oneof![
        12 => any::<i64>().prop_map(|time| time.to_string()),
        4 => "[0-9]{1,18}",
        1 => prop::sample::select(&["", "-", "+5", "x", "1 ", "9223372036854775808"][..]).prop_map(str::to_owned),
    ];
    let line = prop_oneof![
        40 => (time, prop_oneof![30 => Just("\t"), 1 => Just(" "), 1 => Just("")], statement())
            .prop_map(|(time, tab, statement)| format!("{time}{tab}{statement}")),
        2 => Just(String::new()),
        2 => "#[a-z <>\"\r]{0,9}",
        1 => Just(" ".to_owned()),
        1 => Just("7\t".to_owned()),
        1 => Just("7\t# nothing".to_owned()),
        1 => Just("7\t<http://e/a> <http://e/p> \"open .".to_owned()),
        1 => Just("7\t<http://e/a> <http://e/p> <http://e/b> . <http://e/a> <http://e/p> <http://e/c> .".to_owned()),
    ];
    let end = prop_oneof![20 => Just("\n"), 4 => Just("\r\n"), 1 => Just("\r"), 1 => Just("")];
    let struck = prop::option::weighted(0.1, (any::<prop::sample::Index>(), any::<u8>()));
    (prop::collection::vec((line, end), 0..6), struck).prop_map(|(lines, struck)| {
        let mut text: Vec<u8> = (lines.iter())
            .flat_map(|(line, end)| line.bytes().chain(end.bytes()))
            .collect();
        if let (Some((at, byte)), false) = (struck, text.is_empty()) {
            let at = at.index(text.len());
            text[at] = byte;
        }
        text
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn one_pass_reads_the_same_as_line_by_line(text in document()) {
        if let Some(read) = in_one_pass(&text) {
            prop_assert_eq!(Some(read), line_by_line(&text), "{}", String::from_utf8_lossy(&text));
        }
    }

    /// Else everything could be left to the library, and the test above would see nothing.
    #[test]
    fn correct_lines_without_triple_terms_are_read(lines in prop::collection::vec((0..1_000_000_000_000i64, statement()), 0..6)) {
        let lines = lines.iter().filter(|(_, statement)| !statement.contains("<<"));
        let text: String = lines.map(|(at, statement)| format!("{at}\t{statement}\n")).collect();
        if let Some(expected) = line_by_line(text.as_bytes()) {
            prop_assert_eq!(in_one_pass(text.as_bytes()), Some(expected), "{}", text);
        }
    }
}

#[test]
fn more_than_the_limit_are_left_to_others() {
    let text = "1\t<http://e/a> <http://e/p> \"x\" .\n".repeat(3);
    assert!(TimedLines::read(text.as_bytes(), 3).is_some_and(|lines| lines.len() == 3));
    assert!(TimedLines::read(text.as_bytes(), 2).is_none());
    assert!(TimedLines::read(b"# nothing\n\r\n", 0).is_some_and(|lines| lines.is_empty()));
}
