//! The words of the language: which are keywords, which are functions and with how many arguments.

/// Words that structure a query; no bare name can be one.
pub(crate) const KEYWORDS: [&str; 61] = [
    "ADD",
    "ALL",
    "AS",
    "ASC",
    "ASK",
    "BASE",
    "BIND",
    "BY",
    "CLEAR",
    "COMPUTED",
    "CONSTRUCT",
    "COPY",
    "CREATE",
    "DATA",
    "DEFAULT",
    "DELETE",
    "DESC",
    "DESCRIBE",
    "DISTINCT",
    "DROP",
    "EVERY",
    "EXISTS",
    "FALSE",
    "FILTER",
    "FROM",
    "GRAPH",
    "GROUP",
    "HAVING",
    "IN",
    "INSERT",
    "INTO",
    "LIMIT",
    "LOAD",
    "MINUS",
    "MOVE",
    "NAMED",
    "NOT",
    "OFFSET",
    "OPTIONAL",
    "ORDER",
    "PREFIX",
    "RANGE",
    "REDUCED",
    "REGISTER",
    "SELECT",
    "SEPARATOR",
    "SERVICE",
    "SILENT",
    "SLIDE",
    "STEP",
    "STREAM",
    "TO",
    "TRUE",
    "TUMBLING",
    "UNDEF",
    "UNION",
    "USING",
    "VALUES",
    "VERSION",
    "WHERE",
    "WITH",
];

/// The built-in functions with the least and greatest number of arguments.
pub(crate) const FUNCTIONS: [(&str, usize, usize); 62] = [
    ("ABS", 1, 1),
    ("BNODE", 0, 1),
    ("CEIL", 1, 1),
    ("COALESCE", 0, usize::MAX),
    ("CONCAT", 0, usize::MAX),
    ("CONTAINS", 2, 2),
    ("DATATYPE", 1, 1),
    ("DAY", 1, 1),
    ("ENCODE_FOR_URI", 1, 1),
    ("FLOOR", 1, 1),
    ("HASLANG", 1, 1),
    ("HASLANGDIR", 1, 1),
    ("HOURS", 1, 1),
    ("IF", 3, 3),
    ("IRI", 1, 1),
    ("ISBLANK", 1, 1),
    ("ISIRI", 1, 1),
    ("ISLITERAL", 1, 1),
    ("ISNUMERIC", 1, 1),
    ("ISTRIPLE", 1, 1),
    ("ISURI", 1, 1),
    ("LANG", 1, 1),
    ("LANGDIR", 1, 1),
    ("LANGMATCHES", 2, 2),
    ("LCASE", 1, 1),
    ("MD5", 1, 1),
    ("MINUTES", 1, 1),
    ("MONTH", 1, 1),
    ("NOW", 0, 0),
    ("OBJECT", 1, 1),
    ("PREDICATE", 1, 1),
    ("RAND", 0, 0),
    ("REGEX", 2, 3),
    ("REPLACE", 3, 4),
    ("ROUND", 1, 1),
    ("SAMETERM", 2, 2),
    ("SECONDS", 1, 1),
    ("SHA1", 1, 1),
    ("SHA256", 1, 1),
    ("SHA384", 1, 1),
    ("SHA512", 1, 1),
    ("STR", 1, 1),
    ("STRAFTER", 2, 2),
    ("STRBEFORE", 2, 2),
    ("STRDT", 2, 2),
    ("STRENDS", 2, 2),
    ("STRLANG", 2, 2),
    ("STRLANGDIR", 3, 3),
    ("STRLEN", 1, 1),
    ("STRSTARTS", 2, 2),
    ("STRUUID", 0, 0),
    ("SUBJECT", 1, 1),
    ("SUBSTR", 2, 3),
    ("TIMEZONE", 1, 1),
    ("TRIPLE", 3, 3),
    ("TZ", 1, 1),
    ("UCASE", 1, 1),
    ("URI", 1, 1),
    ("UUID", 0, 0),
    ("YEAR", 1, 1),
    ("ADJUST", 2, 2),
    ("BOUND", 1, 1),
];

/// The aggregates.
pub(crate) const AGGREGATES: [&str; 7] = [
    "AVG",
    "COUNT",
    "GROUP_CONCAT",
    "MAX",
    "MIN",
    "SAMPLE",
    "SUM",
];

/// Whether a word is a keyword, so no bare name.
pub(crate) fn is_keyword(word: &str) -> bool {
    KEYWORDS
        .iter()
        .any(|keyword| keyword.eq_ignore_ascii_case(word))
}

/// The least and greatest number of arguments of a function.
pub(crate) fn function_arity(word: &str) -> Option<(usize, usize)> {
    FUNCTIONS
        .iter()
        .find(|(name, ..)| name.eq_ignore_ascii_case(word))
        .map(|&(_, least, most)| (least, most))
}

/// Whether a word is an aggregate.
pub(crate) fn is_aggregate(word: &str) -> bool {
    AGGREGATES
        .iter()
        .any(|name| name.eq_ignore_ascii_case(word))
}

/// The keyword or function that a word may be a misspelling of.
pub(crate) fn near_keyword(word: &str) -> Option<&'static str> {
    let upper = word.to_ascii_uppercase();
    if upper.len() < 3 || upper.len() > 20 || is_keyword(word) {
        return None;
    }
    let allowed = if upper.len() < 5 { 1 } else { 2 };
    let names = KEYWORDS
        .iter()
        .copied()
        .chain(FUNCTIONS.iter().map(|f| f.0))
        .chain(AGGREGATES);
    let near = names
        .map(|name| (edits(&upper, name), name))
        .filter(|(distance, _)| (1..=allowed).contains(distance));
    near.min().map(|(_, name)| name)
}

/// The edit distance of two words, a swap of neighbours counting as one.
fn edits(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut table = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            table[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let replaced = table[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                let swapped = if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    table[i - 2][j - 2] + 1
                } else {
                    usize::MAX
                };
                replaced
                    .min(swapped)
                    .min(table[i - 1][j] + 1)
                    .min(table[i][j - 1] + 1)
            };
        }
    }
    table[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspellings() {
        assert_eq!(near_keyword("FILTRE"), Some("FILTER"));
        assert_eq!(near_keyword("selct"), Some("SELECT"));
        assert_eq!(near_keyword("SELECT"), None);
        assert_eq!(near_keyword("Tweet_Stream"), None);
    }
}
