//! The shape of files: a header, functions that fit on a screen, comments of 100 columns.

use crate::tree::{Source, SourceCrate};
use proc_macro2::Span;
use std::collections::BTreeMap;
use syn::spanned::Spanned;
use syn::visit::Visit;

/// The longest function, in lines from its `fn` to its closing brace.
const LONGEST_FUNCTION: usize = 70;

/// The widest comment, in characters.
const WIDEST_COMMENT: usize = 100;

/// Files that do not begin with `//!`.
pub fn missing_headers(of: &SourceCrate) -> Vec<String> {
    let without = |source: &&Source| !source.text.starts_with("//!");
    let found = of.sources.iter().filter(without).map(|source| {
        format!(
            "{}: the file has no header; say in `//!` what it is for and the one thing to know",
            source.path
        )
    });
    found.collect()
}

/// Functions over 70 lines, by `path::function`, with their lengths; those in `named` are left out.
///
/// A name in `named` that stands for no long function is a breach as well: the list only shrinks.
pub fn long_functions(crates: &[SourceCrate], named: &[(&str, &str)]) -> Vec<String> {
    let mut long: BTreeMap<String, usize> = BTreeMap::new();
    for source in crates.iter().flat_map(|of| &of.sources) {
        let mut functions = Functions::default();
        functions.visit_file(&source.file);
        for (name, lines) in functions.found {
            if lines > LONGEST_FUNCTION {
                long.insert(format!("{}::{name}", source.path), lines);
            }
        }
    }
    let mut found: Vec<String> = long
        .iter()
        .filter(|(place, _)| named.iter().all(|(name, _)| name != place))
        .map(|(place, lines)| {
            format!(
                "{place} has {lines} lines; cut it at {LONGEST_FUNCTION} or name it with a reason"
            )
        })
        .collect();
    found.extend(
        named
            .iter()
            .filter(|(name, _)| !long.contains_key(*name))
            .map(|(name, _)| format!("{name} is named as a long function and is none: remove it")),
    );
    found
}

#[derive(Default)]
struct Functions {
    found: Vec<(String, usize)>,
}

impl Functions {
    fn note(&mut self, name: &syn::Ident, start: Span, end: Span) {
        let lines = end.end().line - start.start().line + 1;
        self.found.push((name.to_string(), lines));
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.note(&item.sig.ident, item.sig.span(), item.block.span());
        syn::visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.note(&item.sig.ident, item.sig.span(), item.block.span());
        syn::visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.note(&item.sig.ident, item.sig.span(), block.span());
        }
        syn::visit::visit_trait_item_fn(self, item);
    }
}

/// Comment lines over 100 characters; one long word, such as an address, may be longer.
pub fn wide_comments(of: &SourceCrate) -> Vec<String> {
    let mut found = Vec::new();
    for source in &of.sources {
        for (index, line) in source.text.lines().enumerate() {
            let comment = line.trim_start();
            let words = comment.split_whitespace().count();
            if comment.starts_with("//") && words > 2 && line.chars().count() > WIDEST_COMMENT {
                found.push(format!(
                    "{}:{}: the comment is wider than {WIDEST_COMMENT} columns",
                    source.path,
                    index + 1
                ));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_header_is_reported() {
        let files = [("a.rs", "fn a() {}"), ("b.rs", "//! B.\nfn b() {}")];
        let found = missing_headers(&SourceCrate::planted("store", &files));
        assert_eq!(found.len(), 1, "{found:#?}");
    }

    #[test]
    fn a_long_function_is_reported_unless_it_is_named() {
        let text = format!(
            "fn long() {{\n{}}}\nfn short() {{}}\n",
            "    work();\n".repeat(80)
        );
        let crates = [SourceCrate::planted("store", &[("a.rs", text.as_str())])];
        assert_eq!(long_functions(&crates, &[]).len(), 1);
        let named = [("crates/store/src/a.rs::long", "one match")];
        assert!(long_functions(&crates, &named).is_empty());
        let gone = [named[0], ("crates/store/src/a.rs::short", "one match")];
        assert_eq!(long_functions(&crates, &gone).len(), 1);
    }

    #[test]
    fn a_wide_comment_is_reported() {
        let text = format!(
            "//! {}\n// https://{}\nfn a() {{}}\n",
            "word ".repeat(25),
            "a".repeat(120)
        );
        let found = wide_comments(&SourceCrate::planted("store", &[("a.rs", text.as_str())]));
        assert_eq!(found.len(), 1, "{found:#?}");
    }
}
