//! Citations lead somewhere: sentences (S1), invariants (WI-1), decisions (ADR 5), documents with
//! their sections, and paths of source files.

use crate::tree::{SourceCrate, below, entries};
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Crates in whose comments `S1` to `S6` are queries of a benchmark, and no sentence of the design.
const WITH_QUERIES_OF_THAT_NAME: [&str; 3] = ["bench", "generate", "conformance"];

/// The documents of the repository, and what they define.
#[derive(Debug, Default)]
pub struct Documents {
    /// The text of each, by its path below the root.
    pages: BTreeMap<String, String>,
    /// All files below the root that are not built.
    files: BTreeSet<String>,
}

impl Documents {
    /// Reads every Markdown page, and the names of all files.
    ///
    /// # Errors
    /// If a folder or a page cannot be read.
    pub fn read(root: &Path) -> Result<Documents, String> {
        let mut documents = Documents::default();
        documents.add(root, root)?;
        Ok(documents)
    }

    /// Documents of these pages and of no other file, for planted mistakes.
    pub fn planted(pages: &[(&str, &str)]) -> Documents {
        let pages: BTreeMap<String, String> = pages
            .iter()
            .map(|&(path, text)| (path.to_owned(), text.to_owned()))
            .collect();
        Documents {
            files: pages.keys().cloned().collect(),
            pages,
        }
    }

    fn add(&mut self, root: &Path, folder: &Path) -> Result<(), String> {
        for path in entries(folder)? {
            let inside = below(root, &path);
            let name = inside.rsplit('/').next().unwrap_or_default();
            if path.is_dir() {
                if !matches!(name, "target" | ".git") {
                    self.add(root, &path)?;
                }
                continue;
            }
            if name.ends_with(".md") {
                let text = fs::read_to_string(&path)
                    .map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
                self.pages.insert(inside.clone(), text);
            }
            self.files.insert(inside);
        }
        Ok(())
    }

    /// The page that a citation by this name means: by its path, or by its file name alone.
    fn page(&self, name: &str) -> Option<&str> {
        let text = self.pages.get(name).or_else(|| {
            let end = format!("/{name}");
            let mut pages = self.pages.iter().filter(|(path, _)| path.ends_with(&end));
            pages.next().map(|(_, text)| text)
        });
        text.map(String::as_str)
    }

    /// Whether some file's path ends with this one.
    fn has_file(&self, path: &str) -> bool {
        let end = format!("/{path}");
        self.files.contains(path) || self.files.iter().any(|file| file.ends_with(&end))
    }

    fn defines_sentence(&self, sentence: &str) -> bool {
        let mark = format!("**{sentence}**");
        self.page("docs/design.md")
            .is_some_and(|text| text.contains(&mark))
    }

    fn defines_invariant(&self, invariant: &str) -> bool {
        let row = format!("| {invariant} |");
        self.page("docs/invariants.md")
            .is_some_and(|text| text.contains(&row))
    }

    fn has_decision(&self, number: &str) -> bool {
        let start = format!("docs/adr/{number:0>4}-");
        self.pages.keys().any(|path| path.starts_with(&start))
    }
}

/// A kind of citation: what is cited, and whether it is there.
struct Citation {
    pattern: Regex,
    is_there: fn(&Documents, &regex::Captures<'_>) -> bool,
    remedy: &'static str,
}

fn citation(
    pattern: &str,
    is_there: fn(&Documents, &regex::Captures<'_>) -> bool,
    remedy: &'static str,
) -> Citation {
    Citation {
        pattern: Regex::new(pattern).expect("the pattern is constant and right"),
        is_there,
        remedy,
    }
}

fn sentences() -> Citation {
    citation(
        r"\b(S(?:1[0-9]|[1-9]))\b",
        |documents, found| documents.defines_sentence(&found[1]),
        "docs/design.md defines no such sentence",
    )
}

fn citations() -> Vec<Citation> {
    vec![
        citation(
            r"\b((?:VT|SN|WI|ST|DI|DL|LG|RC|CL|EX)-[0-9])\b",
            |documents, found| documents.defines_invariant(&found[1]),
            "docs/invariants.md has no such invariant",
        ),
        citation(
            r"\bADR ([0-9]{1,2})\b",
            |documents, found| documents.has_decision(&found[1]),
            "docs/adr/ has no such decision",
        ),
        citation(
            r#"\b(\w[\w/-]*\.md)\b(?:,? "([^"]+)")?"#,
            |documents, found| {
                let section = found.get(2).map(|section| section.as_str());
                documents
                    .page(&found[1])
                    .is_some_and(|text| section.is_none_or(|section| has_heading(text, section)))
            },
            "there is no such document, or it has no heading of that name",
        ),
    ]
}

/// Paths of files of this repository between backquotes, in documents alone.
fn paths() -> Citation {
    citation(
        r"`((?:crates|docs|fuzz|bench|[a-z]+)/[\w/.-]+\.(?:rs|md|toml))(?:`|::)",
        |documents, found| documents.has_file(&found[1]),
        "there is no such file",
    )
}

/// Links to files of this repository, in documents alone.
fn links() -> Citation {
    citation(
        r"\]\((?:\.\./)*((?:crates|docs|fuzz|bench)/[\w/.-]+\.(?:rs|md|toml))(?:#[\w-]*)?\)",
        |documents, found| documents.files.contains(&found[1]),
        "there is no such file",
    )
}

fn has_heading(text: &str, section: &str) -> bool {
    let mut headings = text.lines().filter(|line| line.starts_with('#'));
    headings.any(|line| line.trim_start_matches('#').trim() == section)
}

/// Citations in comments and documents that lead nowhere, as sentences with their places.
pub fn dangling_references(documents: &Documents, crates: &[SourceCrate]) -> Vec<String> {
    let mut found = Vec::new();
    let everywhere = citations();
    let sentence = sentences();
    for of in crates.iter().filter(|of| of.name != "tidy") {
        let with_sentences = !WITH_QUERIES_OF_THAT_NAME.contains(&of.name.as_str());
        for source in &of.sources {
            let comments = source.text.lines().enumerate().filter_map(|(index, line)| {
                let (_, comment) = line.split_once("//")?;
                Some((index, comment))
            });
            for (index, comment) in comments {
                let place = format!("{}:{}", source.path, index + 1);
                check(documents, &everywhere, comment, &place, &mut found);
                if with_sentences {
                    check(
                        documents,
                        std::slice::from_ref(&sentence),
                        comment,
                        &place,
                        &mut found,
                    );
                }
            }
        }
    }
    let in_documents: Vec<Citation> = everywhere.into_iter().chain([paths(), links()]).collect();
    for (path, text) in &documents.pages {
        let is_at_the_front = path.starts_with("docs/") || !path.contains('/');
        if path == "CHANGELOG.md" || !is_at_the_front {
            continue;
        }
        for (index, line) in text.lines().enumerate() {
            let place = format!("{path}:{}", index + 1);
            check(documents, &in_documents, line, &place, &mut found);
        }
    }
    found
}

fn check(
    documents: &Documents,
    citations: &[Citation],
    text: &str,
    place: &str,
    found: &mut Vec<String>,
) {
    for citation in citations {
        for cited in citation.pattern.captures_iter(text) {
            if !(citation.is_there)(documents, &cited) {
                found.push(format!("{place}: {}: {}", cited[0].trim(), citation.remedy));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn documents() -> Documents {
        Documents::planted(&[
            (
                "docs/design.md",
                "# Design\n## Words\n- **S5** Nothing is answered …",
            ),
            ("docs/invariants.md", "| WI-1 | a firing sees |"),
            ("docs/adr/0005-time.md", "# Time"),
        ])
    }

    #[test]
    fn citations_that_lead_somewhere_are_right() {
        let text = "// S5, WI-1, ADR 5; design.md, \"Words\"; docs/adr/0005-time.md\n";
        let crates = [SourceCrate::planted("stream", &[("a.rs", text)])];
        let found = dangling_references(&documents(), &crates);
        assert!(found.is_empty(), "{found:#?}");
    }

    #[test]
    fn each_kind_of_dangling_citation_is_reported() {
        for text in [
            "// S6 holds here",
            "// WI-2",
            "// ADR 6",
            "// gone.md",
            "// design.md, \"Parts\"",
        ] {
            let crates = [SourceCrate::planted("stream", &[("a.rs", text)])];
            let found = dangling_references(&documents(), &crates);
            assert_eq!(found.len(), 1, "{text}: {found:#?}");
        }
        let page = [(
            "docs/tour.md",
            "see `stream/src/cuts.rs` and `docs/tour.md`",
        )];
        assert_eq!(
            dangling_references(&Documents::planted(&page), &[]).len(),
            1
        );
        let page = [(
            "docs/tour.md",
            "see [there](../crates/stream/src/cuts.rs) and [here](../docs/tour.md#here)",
        )];
        assert_eq!(
            dangling_references(&Documents::planted(&page), &[]).len(),
            1
        );
    }

    #[test]
    fn queries_of_a_benchmark_are_no_sentences() {
        let crates = [SourceCrate::planted("bench", &[("a.rs", "// S1 to S6")])];
        assert!(dangling_references(&documents(), &crates).is_empty());
    }
}
