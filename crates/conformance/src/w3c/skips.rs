//! The skip list: data, with a reason for each line. A skipped suite is not run. A skipped test is
//! run and must fail, so that the list cannot outlive its reasons.

use std::collections::BTreeMap;

/// The list that the crate carries: `test IRI or suite/ <TAB> reason` per line, `#` for remarks.
const LIST: &str = include_str!("../../w3c-skips.tsv");

/// Which tests are skipped, and why.
#[derive(Debug, Default)]
pub struct Skips {
    tests: BTreeMap<String, String>,
    suites: BTreeMap<String, String>,
}

impl Skips {
    /// The list of this crate.
    pub fn of_this_crate() -> Result<Self, String> {
        Self::parse(LIST)
    }

    /// Reads a list.
    pub fn parse(list: &str) -> Result<Self, String> {
        let mut skips = Self::default();
        for (at, line) in list.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let (name, reason) = line
                .split_once('\t')
                .filter(|(_, reason)| !reason.trim().is_empty())
                .ok_or_else(|| format!("line {} of the skip list has no reason: {line}", at + 1))?;
            let list = if name.contains("://") {
                &mut skips.tests
            } else {
                &mut skips.suites
            };
            if list
                .insert(
                    name.trim_end_matches('/').to_owned(),
                    reason.trim().to_owned(),
                )
                .is_some()
            {
                return Err(format!("line {} of the skip list repeats {name}", at + 1));
            }
        }
        Ok(skips)
    }

    /// Why a whole suite is not run.
    pub fn suite(&self, suite: &str) -> Option<&str> {
        self.suites
            .iter()
            .find(|(name, _)| {
                suite
                    .strip_prefix(name.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            })
            .map(|(_, reason)| reason.as_str())
    }

    /// Why a test is expected to fail.
    pub fn test(&self, id: &str) -> Option<&str> {
        self.tests.get(id).map(String::as_str)
    }

    /// The tests of the list that a whole run did not find: typing errors, or tests that no longer
    /// exist.
    pub fn unmet(&self, met: &std::collections::HashSet<String>) -> Vec<&str> {
        self.tests
            .keys()
            .map(String::as_str)
            .filter(|id| !met.contains(*id))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Skips;

    #[test]
    fn suites_are_skipped_with_what_is_below_them() {
        let skips = Skips::parse("# remark\na/b/\tout of scope\nhttp://example.org/t#1\tbroken\n")
            .expect("a good list");
        assert_eq!(skips.suite("a/b"), Some("out of scope"));
        assert_eq!(skips.suite("a/b/c"), Some("out of scope"));
        assert_eq!(skips.suite("a/bc"), None);
        assert_eq!(skips.test("http://example.org/t#1"), Some("broken"));
    }

    #[test]
    fn every_line_needs_a_reason() {
        assert!(Skips::parse("http://example.org/t#1\t \n").is_err());
        assert!(Skips::parse("http://example.org/t#1\n").is_err());
    }

    #[test]
    fn the_list_of_this_crate_reads() {
        Skips::of_this_crate().expect("a good list");
    }
}
