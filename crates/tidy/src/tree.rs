//! The sources of the workspace, read and parsed once.

use std::fs;
use std::path::{Path, PathBuf};
use syn::visit_mut::VisitMut;

/// One source file of a crate.
pub struct Source {
    /// The path below the root of the workspace.
    pub path: String,
    /// The text.
    pub text: String,
    /// Its module path inside the crate; empty for `lib.rs` and `main.rs`.
    pub module: Vec<String>,
    /// The syntax tree without what is compiled for tests only.
    pub file: syn::File,
}

/// The sources of one crate, its tests and examples apart.
pub struct SourceCrate {
    /// The folder below `crates/`.
    pub name: String,
    /// All files below `src/`, in the order of their paths, without files that only tests use.
    pub sources: Vec<Source>,
}

impl Source {
    /// Parses a file whose path below `src/` is `inside`, for example `streams/clock.rs`.
    ///
    /// # Errors
    /// If the text is not Rust: a sentence with the place.
    pub fn parse(path: &str, inside: &str, text: &str) -> Result<Source, String> {
        let mut file = syn::parse_file(text).map_err(|error| {
            let start = error.span().start();
            format!("{path}:{}: {error}", start.line)
        })?;
        WithoutTests.visit_file_mut(&mut file);
        Ok(Source {
            path: path.to_owned(),
            text: text.to_owned(),
            module: module_path(inside),
            file,
        })
    }
}

impl SourceCrate {
    /// A crate of these files, for planted mistakes: paths below `src/` and texts.
    ///
    /// # Panics
    /// If a text is not Rust.
    pub fn planted(name: &str, files: &[(&str, &str)]) -> SourceCrate {
        let sources = files.iter().map(|(inside, text)| {
            let path = format!("crates/{name}/src/{inside}");
            Source::parse(&path, inside, text).expect("planted sources are Rust")
        });
        SourceCrate {
            name: name.to_owned(),
            sources: sources.collect(),
        }
    }

    /// The file at the root of the crate.
    pub fn root(&self) -> Option<&Source> {
        self.sources.iter().find(|source| source.module.is_empty())
    }
}

/// The root of the workspace, and all crates below `crates/`.
///
/// # Errors
/// If a file cannot be read or parsed.
pub fn workspace() -> Result<(PathBuf, Vec<SourceCrate>), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let root = root
        .canonicalize()
        .map_err(|error| format!("{} cannot be found: {error}", root.display()))?;
    let mut crates = Vec::new();
    for folder in entries(&root.join("crates"))? {
        let src = folder.join("src");
        if !src.is_dir() {
            continue;
        }
        let mut sources = Vec::new();
        read_sources(&root, &src, &src, &mut sources)?;
        let name = folder.file_name().unwrap_or_default();
        crates.push(SourceCrate {
            name: name.to_string_lossy().into_owned(),
            sources,
        });
    }
    Ok((root, crates))
}

/// The contents of a folder, in the order of names.
pub(crate) fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let unread = |error| format!("{} cannot be read: {error}", folder.display());
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(unread)? {
        paths.push(entry.map_err(unread)?.path());
    }
    paths.sort();
    Ok(paths)
}

fn read_sources(
    root: &Path,
    src: &Path,
    folder: &Path,
    sources: &mut Vec<Source>,
) -> Result<(), String> {
    for path in entries(folder)? {
        if path.is_dir() {
            read_sources(root, src, &path, sources)?;
            continue;
        }
        let inside = below(src, &path);
        let for_tests = inside.ends_with("tests.rs") || inside.contains("tests/");
        if !inside.ends_with(".rs") || for_tests {
            continue;
        }
        let text = fs::read_to_string(&path)
            .map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
        sources.push(Source::parse(&below(root, &path), &inside, &text)?);
    }
    Ok(())
}

/// The path below a folder, with `/` between its parts.
pub(crate) fn below(folder: &Path, path: &Path) -> String {
    let inside = path.strip_prefix(folder).unwrap_or(path);
    let parts: Vec<_> = inside.iter().map(|part| part.to_string_lossy()).collect();
    parts.join("/")
}

fn module_path(inside: &str) -> Vec<String> {
    let stem = inside.strip_suffix(".rs").unwrap_or(inside);
    let mut parts: Vec<String> = stem.split('/').map(str::to_owned).collect();
    let is_root = matches!(stem, "lib" | "main");
    if is_root || parts.last().is_some_and(|last| last == "mod") {
        parts.pop();
    }
    parts
}

/// Removes items that are compiled for tests only.
struct WithoutTests;

impl VisitMut for WithoutTests {
    fn visit_file_mut(&mut self, file: &mut syn::File) {
        file.items.retain(|item| !is_for_tests(item));
        syn::visit_mut::visit_file_mut(self, file);
    }

    fn visit_item_mod_mut(&mut self, module: &mut syn::ItemMod) {
        if let Some((_, items)) = &mut module.content {
            items.retain(|item| !is_for_tests(item));
        }
        syn::visit_mut::visit_item_mod_mut(self, module);
    }
}

fn is_for_tests(item: &syn::Item) -> bool {
    let attributes = match item {
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        _ => return false,
    };
    attributes.iter().any(|attribute| {
        let syn::Meta::List(list) = &attribute.meta else {
            return false;
        };
        list.path.is_ident("cfg") && list.tokens.to_string() == "test"
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_named_by_their_files() {
        for (inside, module) in [
            ("lib.rs", ""),
            ("clock.rs", "clock"),
            ("streams/mod.rs", "streams"),
            ("streams/clock.rs", "streams::clock"),
        ] {
            assert_eq!(module_path(inside).join("::"), module, "{inside}");
        }
    }

    #[test]
    fn files_used_by_tests_only_are_left_out() {
        let text = "fn kept() {}\n#[cfg(test)]\nmod tests { fn gone() {} }\n";
        let source = Source::parse("a.rs", "a.rs", text).unwrap();
        assert_eq!(source.file.items.len(), 1);
        assert!(Source::parse("a.rs", "a.rs", "fn {").is_err());
    }
}
