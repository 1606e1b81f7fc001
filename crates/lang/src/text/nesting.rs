//! The guard before `spargebra`: texts whose parse would exhaust the stack, or take forever, are
//! refused.
//!
//! Its parser and everything behind it recurse over the nesting of a text, and it reads the
//! arguments of some functions twice, so that nesting these costs a power of two.

use crate::text::error::ParseError;
use crate::token::{Token, TokenKind};
use std::collections::HashSet;

/// The greatest depth of brackets and prefix operators.
pub(crate) const DEEPEST: usize = 100;
/// The greatest depth of calls of functions with optional arguments.
const DEEPEST_OPTIONAL_CALLS: usize = 12;
/// The greatest number of operators, groups, paths or computed columns that may follow one another
/// at one level: each makes the algebra one deeper.
pub(crate) const LONGEST_CHAIN: usize = 500;
/// The greatest depth of the algebra that chains in each other may make.
const DEEPEST_CHAINS: usize = 1_000;
/// The number of tokens that `spargebra` may read again, because they are arguments of calls with
/// optional arguments. It reads a few in a microsecond.
const MOST_REPEATED: usize = 1 << 18;

/// The number of triple patterns that a text may have, without its data and templates. Planning
/// looks at each pattern for each that it places.
const MOST_PATTERNS: usize = 16_384;
/// The number of variables that a text may have: `spargebra` compares each with all before it.
const MOST_VARIABLES: usize = 16_384;

/// Refuses texts that are too deep, chained too long or too large. Returns the number of tokens
/// that `spargebra` will read.
pub(crate) fn check(source: &str, tokens: &[Token]) -> Result<usize, ParseError> {
    let repeated = check_nesting(source, tokens)?;
    check_size(source, tokens)?;
    Ok(tokens.len() + repeated)
}

/// Refuses texts with too many patterns or variables.
fn check_size(source: &str, tokens: &[Token]) -> Result<(), ParseError> {
    let refused = |token: &Token, count: usize, what: &str| {
        let message = format!(
            "the query has more than {count} {what} up to here; split it, or give lists of terms with VALUES"
        );
        Err(ParseError::semantics(source, token.start, message))
    };
    let mut variables = HashSet::new();
    let mut patterns = 0;
    // For each open bracket, whether it holds patterns.
    let mut open: Vec<bool> = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        let text = token.text(source);
        if token.kind == TokenKind::Variable && variables.insert(&text[1..]) {
            if variables.len() > MOST_VARIABLES {
                return refused(token, MOST_VARIABLES, "variables");
            }
        } else if token.kind == TokenKind::Punctuation {
            match text {
                "{" => open.push(index == 0 || !begins_data(tokens[index - 1].text(source))),
                "[" => open.push(open.last().copied().unwrap_or_default()),
                "(" | "<<" | "{|" => open.push(false),
                "}" | "]" | ")" | ">>" | "|}" => {
                    open.pop();
                }
                "." | ";" | "," if open.last() == Some(&true) => {
                    patterns += 1;
                    if patterns > MOST_PATTERNS {
                        return refused(token, MOST_PATTERNS, "triple patterns");
                    }
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// Whether what a word's braces hold are triples to be made, and not patterns.
fn begins_data(word: &str) -> bool {
    (["DATA", "INSERT", "DELETE", "CONSTRUCT"].iter()).any(|name| name.eq_ignore_ascii_case(word))
}

/// Returns the number of tokens that are read again.
fn check_nesting(source: &str, tokens: &[Token]) -> Result<usize, ParseError> {
    let mut nesting = Nesting {
        source,
        open: vec![Level::default()],
        prefix_run: 0,
        optional_calls: 0,
        repeated: 0,
    };
    let mut before = "";
    for token in tokens {
        nesting.take(token, before)?;
        before = token.text(source);
    }
    Ok(nesting.repeated)
}

/// The open brackets before a token, and what stands between them.
struct Nesting<'s> {
    source: &'s str,
    /// The outermost level stays.
    open: Vec<Level>,
    prefix_run: usize,
    optional_calls: usize,
    /// Tokens that `spargebra` reads again.
    repeated: usize,
}

#[derive(Default)]
struct Level {
    is_optional_call: bool,
    /// Data of an update becomes a list, however many groups it has.
    is_data: bool,
    is_bind: bool,
    /// The level is in a path, if it is not in an expression.
    is_in_pattern: bool,
    /// GROUP BY or HAVING of this level is read: each expression makes the algebra one deeper.
    is_grouping: bool,
    /// The pattern that is read has a path that is not one predicate. Such patterns are joined one
    /// by one.
    has_path: bool,
    links: usize,
    /// The depth of the deepest level that was closed in this one.
    deepest: usize,
}

impl Nesting<'_> {
    fn take(&mut self, token: &Token, before: &str) -> Result<(), ParseError> {
        let text = token.text(self.source);
        let is_punctuation = token.kind == TokenKind::Punctuation;
        self.prefix_run = match text {
            "!" | "-" | "+" | "^" if is_punctuation => self.prefix_run + 1,
            _ => 0,
        };
        if self.open.len() + self.prefix_run > DEEPEST {
            return self.refuse(
                token,
                format!(
                    "brackets and operators nest more than {DEEPEST} deep here; split the query, or take brackets away"
                ),
            );
        }
        self.repeated += (1 << self.optional_calls) - 1;
        if self.repeated > MOST_REPEATED {
            return self.refuse(
                token,
                "calls of REPLACE, REGEX, SUBSTR and GROUP_CONCAT are nested too deep too often up to here; split them with BIND".to_owned(),
            );
        }
        self.count_links(token)?;
        match (is_punctuation, text) {
            (true, "(" | "{" | "[" | "<<" | "{|") => self.open(token, before),
            (true, ")" | "}" | "]" | ">>" | "|}") => {
                self.close();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn level(&mut self) -> &mut Level {
        self.open.last_mut().expect("the outermost level stays")
    }

    fn refuse(&self, token: &Token, message: String) -> Result<(), ParseError> {
        Err(ParseError::semantics(self.source, token.start, message))
    }

    /// Counts a token that makes the algebra of a level one deeper.
    fn count_links(&mut self, token: &Token) -> Result<(), ParseError> {
        let text = token.text(self.source);
        let is_outermost = self.open.len() == 1;
        let level = self.level();
        let mut is_more = is_link(text, token.kind);
        match token.kind {
            TokenKind::Punctuation => match text {
                // Operations of an update become a list, however many there are.
                ";" if is_outermost => (level.links, level.deepest) = (0, 0),
                "." | ";" => is_more |= std::mem::take(&mut level.has_path),
                "," => is_more |= level.has_path,
                "?" | "!" | "*" | "+" | "|" => level.has_path = true,
                "(" => is_more |= level.is_grouping,
                _ => {}
            },
            TokenKind::Word => {
                if is_one_of(text, &["GROUP", "HAVING"]) {
                    level.is_grouping = true;
                } else if is_one_of(text, &["ORDER", "LIMIT", "OFFSET", "VALUES", "SELECT"]) {
                    level.is_grouping = false;
                } else if is_one_of(text, &["FILTER", "BIND"]) {
                    level.has_path = false;
                } else if text.eq_ignore_ascii_case("AS") && !level.is_bind && !is_outermost {
                    return self.count_column(token);
                }
            }
            _ => {}
        }
        match is_more && !level.is_data {
            true => self.add_link(self.open.len() - 1, token),
            false => Ok(()),
        }
    }

    /// Counts `(… AS ?column)` of the level around it. There the brackets of GROUP BY are counted.
    fn count_column(&mut self, token: &Token) -> Result<(), ParseError> {
        let around = self.open.len() - 2;
        match self.open[around].is_grouping {
            true => Ok(()),
            false => self.add_link(around, token),
        }
    }

    fn add_link(&mut self, level: usize, token: &Token) -> Result<(), ParseError> {
        self.open[level].links += 1;
        if self.open[level].links > LONGEST_CHAIN {
            return self.refuse(
                token,
                format!(
                    "more than {LONGEST_CHAIN} operators, groups, paths or computed columns follow one another here; use IN or VALUES for long lists, or split the query"
                ),
            );
        }
        let around: usize = self.open[..=level].iter().map(|level| level.links).sum();
        if around + self.open[level].deepest > DEEPEST_CHAINS {
            return self.refuse(
                token,
                format!(
                    "operators, groups, paths and computed columns stand in each other more than {DEEPEST_CHAINS} deep here; split the query"
                ),
            );
        }
        Ok(())
    }

    fn open(&mut self, token: &Token, before: &str) -> Result<(), ParseError> {
        let is_optional_call = has_optional_arguments(before);
        self.optional_calls += usize::from(is_optional_call);
        if self.optional_calls > DEEPEST_OPTIONAL_CALLS {
            return self.refuse(
                token,
                format!(
                    "calls of REPLACE, REGEX, SUBSTR and GROUP_CONCAT nest more than {DEEPEST_OPTIONAL_CALLS} deep here; split them with BIND"
                ),
            );
        }
        let text = token.text(self.source);
        let is_word = before.starts_with(|first: char| first.is_ascii_alphabetic());
        let is_in_pattern = match text {
            "(" => !is_word && self.level().is_in_pattern,
            _ => true,
        };
        self.open.push(Level {
            is_optional_call,
            is_data: text == "{" && before.eq_ignore_ascii_case("DATA"),
            is_bind: before.eq_ignore_ascii_case("BIND"),
            is_in_pattern,
            ..Level::default()
        });
        Ok(())
    }

    fn close(&mut self) {
        if self.open.len() == 1 {
            return;
        }
        if let Some(closed) = self.open.pop() {
            self.optional_calls -= usize::from(closed.is_optional_call);
            let is_path = closed.has_path && closed.is_in_pattern;
            let level = self.level();
            level.has_path |= is_path && level.is_in_pattern;
            level.deepest = level.deepest.max(closed.deepest + closed.links);
        }
    }
}

fn is_one_of(text: &str, words: &[&str]) -> bool {
    words.iter().any(|word| word.eq_ignore_ascii_case(text))
}

fn has_optional_arguments(word: &str) -> bool {
    is_one_of(word, &["REPLACE", "REGEX", "SUBSTR", "GROUP_CONCAT"])
}

/// Whether a token makes the algebra of its level one deeper.
fn is_link(text: &str, kind: TokenKind) -> bool {
    match kind {
        TokenKind::Punctuation => matches!(text, "||" | "&&" | "+" | "-" | "*" | "/" | "|" | "{"),
        TokenKind::Word => is_one_of(text, &["BIND", "FILTER", "VALUES", "OPTIONAL", "MINUS"]),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Parser;

    fn refusal(text: &str) -> Option<String> {
        Parser::new()
            .parse_query(text)
            .err()
            .map(|error| error.to_string())
    }

    #[test]
    fn too_many_patterns_or_variables_are_refused() {
        let patterns = |count: usize| -> String {
            (0..count)
                .map(|n| format!("?a <http://x/{n}> ?b . "))
                .collect()
        };
        let refused = refusal(&format!("ASK {{ {} }}", patterns(MOST_PATTERNS + 1)));
        let refused = refused.expect("one pattern too many");
        assert!(
            refused.contains("more than 16384 triple patterns"),
            "{refused}"
        );
        let objects = "<http://x/o>, ".repeat(MOST_PATTERNS + 1);
        assert!(refusal(&format!("ASK {{ ?a <http://x/p> {objects} 1 }}")).is_some());
        // It is not parsed any further: that alone would take seconds.
        let variables: String = (0..33_000)
            .map(|n| format!("?s{n} ?p{n} ?o{n} . "))
            .collect();
        let refused = refusal(&format!("ASK {{ {variables} }}")).expect("too many variables");
        assert!(refused.contains("more than 16384 variables"), "{refused}");
        assert_eq!(refusal(&format!("ASK {{ {} }}", patterns(2_000))), None);
    }

    fn repeated(count: usize, text: &str) -> String {
        (0..count)
            .map(|n| text.replace('#', &n.to_string()))
            .collect()
    }

    /// Each of these makes the algebra one deeper, and a deep algebra overflows the stack.
    #[test]
    fn long_chains_are_refused_wherever_they_stand() {
        for (before, link, after) in [
            ("SELECT ", "(1 AS ?c#) ", "{}"),
            ("SELECT * { { SELECT ", "(1 AS ?c#) ", "{} } }"),
            ("SELECT (1 AS ?x) {} GROUP BY ", "(?a AS ?c#) ", ""),
            ("SELECT (1 AS ?x) {} GROUP BY ", "STR(?c) ", "LIMIT 1"),
            ("SELECT ?x {} GROUP BY ?x HAVING ", "(COUNT(?o) > 1) ", ""),
            ("SELECT * { ", "?x <urn:p>? ?o . ", "}"),
            ("SELECT * { ?x ", "<urn:p>? ?o ; ", "}"),
            ("SELECT * { ?x <urn:p>? ", "?o , ", "1 }"),
            ("SELECT * { ", "?x !<urn:p> ?o . ", "}"),
            ("SELECT * { ", "?x (^<urn:p>)? ?o . ", "}"),
            ("SELECT * { [ ", "!(<urn:p>) ?o ; ", "] <urn:q> 1 }"),
            ("SELECT * { ", "BIND(1 AS ?c#) ", "}"),
        ] {
            let text = |count| format!("{before}{}{after}", repeated(count, link));
            assert_eq!(refusal(&text(LONGEST_CHAIN - 10)), None, "{link}");
            let refused = refusal(&text(LONGEST_CHAIN + 2)).expect(link);
            assert!(refused.contains("more than 500"), "{refused}");
        }
    }

    #[test]
    fn chains_in_each_other_are_refused() {
        let before_and_after = [
            ("SELECT * { FILTER(", "(", "1", "+1", ")", ") }"),
            ("SELECT * { FILTER(", "(", "?x", " && ?y || ?z", ")", ") }"),
            ("SELECT * { ", "{ ", "{}", " UNION {?x ?y 1}", " }", " }"),
            ("SELECT * { ", "{ ", "", "OPTIONAL {?x ?y 1} ", " }", " }"),
            ("SELECT * { ", "{ ", "", "BIND(1 AS ?v) ", " }", " }"),
            ("SELECT * { ?x ", "(", "<urn:p>", "/<urn:p>", ")", " ?y }"),
            ("SELECT * { ?x ", "(", "<urn:p>", "|<urn:p>", ")", " ?y }"),
        ];
        for (start, open, inner, link, close, end) in before_and_after {
            let inside = |levels: usize| {
                let links = link.repeat(100) + close;
                format!("{}{inner}{}", open.repeat(levels), links.repeat(levels))
            };
            let refused = refusal(&format!("{start}{}{end}", inside(50)));
            assert!(refused.is_some_and(|it| it.contains("1000 deep")), "{link}");
        }
        // Links before the inner level count as those behind it.
        let before = |levels: usize| {
            let level = format!("({}", "1+".repeat(100));
            format!(
                "ASK {{ FILTER({}1{}) }}",
                level.repeat(levels),
                ")".repeat(levels)
            )
        };
        assert_eq!(refusal(&before(9)), None);
        assert!(refusal(&before(11)).is_some());
        // Levels beside each other are not in each other.
        let beside = format!(
            "ASK {{ FILTER(1 IN ({})) }}",
            format!("({}1),", "1+".repeat(100)).repeat(20) + "1"
        );
        assert_eq!(refusal(&beside), None);
    }

    #[test]
    fn what_becomes_a_list_may_be_long() {
        for (before, link, after) in [
            ("SELECT * { ", "?x ^<urn:p> ?o . ", "}"),
            ("SELECT * { ", "?x <urn:p> ?o , 1 ; <urn:q> 2 . ", "}"),
            ("SELECT * {} ORDER BY ", "STR(?x) ", ""),
            ("SELECT * { VALUES (?a) { ", "(#) ", "} }"),
            ("SELECT * { FILTER(?x IN (", "#, ", "1)) }"),
            ("SELECT (1 AS ?x) {} GROUP BY ", "?c# ", ""),
        ] {
            let text = format!("{before}{}{after}", repeated(2_000, link));
            assert_eq!(refusal(&text), None, "{link}");
        }
    }

    /// `spargebra` reads the arguments of each call twice.
    #[test]
    fn calls_that_are_read_again_and_again_are_refused() {
        let deep = |depth: usize| {
            let call = "REPLACE(".repeat(depth) + "?x" + &",1,2)".repeat(depth);
            format!("FILTER({call}) ")
        };
        let asked = |depth, count| format!("SELECT * {{ {} }}", deep(depth).repeat(count));
        assert_eq!(refusal(&asked(12, 1)), None);
        assert_eq!(refusal(&asked(6, 100)), None);
        let refused = refusal(&asked(12, 60)).expect("seconds of parsing");
        assert!(refused.contains("too deep too often"), "{refused}");
        let quickly = |text: String| Parser::new().quickly().parse_query(&text);
        assert!(quickly(asked(6, 5)).is_ok());
        let error = quickly(asked(12, 1)).expect_err("takes long");
        assert_eq!(error.kind, crate::ParseErrorKind::TooLong);
    }

    #[test]
    fn data_and_templates_may_be_large() {
        let triples = "<http://x/s> <http://x/p> 1 . ".repeat(MOST_PATTERNS + 1);
        let check = |text: &str| {
            let tokens = crate::token::tokenize(text);
            check(text, &tokens)
        };
        assert!(check(&format!("INSERT DATA {{ {triples} }}")).is_ok());
        assert!(check(&format!("INSERT {{ {triples} }} WHERE {{}}")).is_ok());
        assert!(check(&format!("CONSTRUCT {{ {triples} }} WHERE {{}}")).is_ok());
        assert!(check(&format!("INSERT {{}} WHERE {{ {triples} }}")).is_err());
    }
}
