//! Rooms: the top-level modules of a crate, ranked. Imports between rooms go strictly downwards.
//!
//! A crate declares its rooms in the documentation of its `lib.rs`, in one sentence:
//! `Rooms, lowest first: model, view, plan, exec.` The check reads paths as text (`crate::…`,
//! `super::…`, and what `lib.rs` exports again), so a path made by a macro of another crate is not
//! seen.

use crate::tree::{Source, SourceCrate};
use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use std::collections::{BTreeMap, BTreeSet};

/// The sentence that declares rooms begins so.
const SENTENCE: &str = "Rooms, lowest first: ";

/// The rooms that a crate declares, lowest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rooms(Vec<String>);

impl Rooms {
    /// The rooms that the documentation of `lib.rs` declares; `None` if it declares none.
    pub fn declared(of: &SourceCrate) -> Option<Rooms> {
        let header: Vec<&str> = of
            .root()?
            .text
            .lines()
            .map_while(|line| line.strip_prefix("//!"))
            .map(str::trim)
            .collect();
        let header = header.join(" ");
        let (_, rest) = header.split_once(SENTENCE)?;
        let (list, _) = rest.split_once('.')?;
        let names = list
            .split(',')
            .map(|name| name.trim().trim_matches('`').to_owned());
        Some(Rooms(names.collect()))
    }

    fn rank(&self, room: &str) -> Option<usize> {
        self.0.iter().position(|name| name == room)
    }
}

/// Breaches of the declared ranks, as sentences: a room without a rank, a rank without a room, and
/// imports that do not go downwards. A crate without declared rooms has the breaches of
/// [`Rooms`] that a cycle between its top-level modules would be.
pub fn room_breaches(of: &SourceCrate) -> Vec<String> {
    let rooms: BTreeSet<&str> = of.sources.iter().filter_map(room_of).collect();
    let arrows = arrows(of, &rooms);
    match Rooms::declared(of) {
        Some(declared) => against_ranks(of, &rooms, &declared, &arrows),
        None => cycles(of, &rooms, &arrows),
    }
}

/// Rows of ARCHITECTURE.md's table of rooms that are not what the crates declare, as sentences. A
/// crate that declares rooms and has no row is one too.
pub fn room_table_breaches(page: &str, crates: &[SourceCrate]) -> Vec<String> {
    let rows: BTreeMap<&str, Rooms> = page.lines().filter_map(table_row).collect();
    let mut found = Vec::new();
    for of in crates {
        let Some(declared) = Rooms::declared(of) else {
            continue;
        };
        let row = rows.get(of.name.as_str());
        if row != Some(&declared) {
            found.push(format!(
                "ARCHITECTURE.md: the row of `{}` lists the rooms {}; its sources declare {}",
                of.name,
                row.map_or_else(|| "of no row".to_owned(), |row| row.0.join(", ")),
                declared.0.join(", ")
            ));
        }
    }
    found
}

/// A row ``| `crate` | room, room (a remark), … |`` of the table.
fn table_row(line: &str) -> Option<(&str, Rooms)> {
    let mut cells = line.strip_prefix("| `")?.split(" | ");
    let name = cells.next()?.strip_suffix('`')?;
    let mut depth = 0;
    let list = cells.next()?.trim_end_matches(" |").chars();
    let without_remarks: String = list
        .filter(|letter| match letter {
            '(' => {
                depth += 1;
                false
            }
            ')' => {
                depth -= 1;
                false
            }
            _ => depth == 0,
        })
        .collect();
    let rooms = without_remarks
        .split(',')
        .map(|room| room.trim().to_owned());
    Some((name, Rooms(rooms.collect())))
}

/// Imports from one room to another, with one place of each.
type Arrows<'a> = BTreeMap<(&'a str, &'a str), &'a str>;

fn room_of(source: &Source) -> Option<&str> {
    source.module.first().map(String::as_str)
}

fn arrows<'a>(of: &'a SourceCrate, rooms: &BTreeSet<&'a str>) -> Arrows<'a> {
    let exported = of
        .root()
        .map(|root| exports(root, rooms))
        .unwrap_or_default();
    let mut arrows = Arrows::new();
    for source in &of.sources {
        let Some(from) = room_of(source) else {
            continue;
        };
        let mut named = BTreeSet::new();
        imported(source.file.to_token_stream(), &source.module, &mut named);
        for name in &named {
            let to = exported
                .get(name)
                .copied()
                .or_else(|| rooms.get(name.as_str()).copied());
            if let Some(to) = to.filter(|&to| to != from) {
                arrows.entry((from, to)).or_insert(&source.path);
            }
        }
    }
    arrows
}

/// The names that `lib.rs` exports again, each with its room.
fn exports<'a>(root: &Source, rooms: &BTreeSet<&'a str>) -> BTreeMap<String, &'a str> {
    let mut exported = BTreeMap::new();
    for item in &root.file.items {
        let syn::Item::Use(item) = item else { continue };
        let syn::UseTree::Path(path) = &item.tree else {
            continue;
        };
        let first = path.ident.to_string();
        if let Some(room) = rooms.get(first.as_str()) {
            leaves(&path.tree, &mut |name| {
                exported.insert(name, *room);
            });
        }
    }
    exported
}

/// Calls `take` with each name that a tree of `use` brings in.
fn leaves(tree: &syn::UseTree, take: &mut impl FnMut(String)) {
    match tree {
        syn::UseTree::Path(path) => leaves(&path.tree, take),
        syn::UseTree::Name(name) => take(name.ident.to_string()),
        syn::UseTree::Rename(rename) => take(rename.rename.to_string()),
        syn::UseTree::Group(group) => group.items.iter().for_each(|tree| leaves(tree, take)),
        _ => {}
    }
}

/// The names behind `crate::`, and behind as many `super::` as lead to the root of the crate.
fn imported(tokens: TokenStream, module: &[String], named: &mut BTreeSet<String>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for (index, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) => imported(group.stream(), module, named),
            TokenTree::Ident(ident) if ident == "crate" => first_names(&tokens[index + 1..], named),
            TokenTree::Ident(ident) if ident == "super" && !follows_path(&tokens, index) => {
                from_super(&tokens[index..], module, named);
            }
            _ => {}
        }
    }
}

/// Whether the token at `index` stands behind `::`.
fn follows_path(tokens: &[TokenTree], index: usize) -> bool {
    index > 0 && matches!(&tokens[index - 1], TokenTree::Punct(punct) if punct.as_char() == ':')
}

fn from_super(tokens: &[TokenTree], module: &[String], named: &mut BTreeSet<String>) {
    let mut rest = tokens;
    let mut left = module.len();
    while let [
        TokenTree::Ident(ident),
        TokenTree::Punct(_),
        TokenTree::Punct(_),
        ..,
    ] = rest
    {
        if ident != "super" || left == 0 {
            break;
        }
        left -= 1;
        rest = &rest[3..];
    }
    match module.get(..left) {
        // Still inside a room: whatever follows is in the same room.
        Some([_, ..]) | None => {}
        Some([]) => names_at(rest, named),
    }
}

/// The names behind `::`: one, or those of a group.
fn first_names(tokens: &[TokenTree], named: &mut BTreeSet<String>) {
    if let [TokenTree::Punct(_), TokenTree::Punct(_), rest @ ..] = tokens {
        names_at(rest, named);
    }
}

fn names_at(tokens: &[TokenTree], named: &mut BTreeSet<String>) {
    match tokens.first() {
        Some(TokenTree::Ident(name)) => {
            named.insert(name.to_string());
        }
        Some(TokenTree::Group(group)) => {
            let inner: Vec<TokenTree> = group.stream().into_iter().collect();
            let is_comma = |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ',');
            inner.split(is_comma).for_each(|part| names_at(part, named));
        }
        _ => {}
    }
}

fn against_ranks(
    of: &SourceCrate,
    rooms: &BTreeSet<&str>,
    declared: &Rooms,
    arrows: &Arrows<'_>,
) -> Vec<String> {
    let name = &of.name;
    let mut found = Vec::new();
    for room in rooms.iter().filter(|room| declared.rank(room).is_none()) {
        found.push(format!(
            "{name}: room `{room}` has no rank; name it in lib.rs"
        ));
    }
    for room in declared
        .0
        .iter()
        .filter(|room| !rooms.contains(room.as_str()))
    {
        found.push(format!(
            "{name}: lib.rs names room `{room}`, and there is none"
        ));
    }
    for (&(from, to), path) in arrows {
        if let (Some(own), Some(other)) = (declared.rank(from), declared.rank(to))
            && other >= own
        {
            found.push(format!(
                "{name}: room `{from}` imports `{to}`, which is not below it (first in {path})"
            ));
        }
    }
    found
}

/// The modules that import each other in a circle, each circle once.
fn cycles(of: &SourceCrate, rooms: &BTreeSet<&str>, arrows: &Arrows<'_>) -> Vec<String> {
    let reaches = |from: &str| {
        let mut seen = BTreeSet::new();
        let mut open = vec![from];
        while let Some(room) = open.pop() {
            for &(source, target) in arrows.keys() {
                if source == room && seen.insert(target) {
                    open.push(target);
                }
            }
        }
        seen
    };
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        rooms.iter().map(|&room| (room, reaches(room))).collect();
    let mut told = BTreeSet::new();
    let mut found = Vec::new();
    for (&room, others) in &reached {
        if !others.contains(room) || told.contains(room) {
            continue;
        }
        let circle: Vec<&str> = others
            .iter()
            .copied()
            .filter(|other| reached[other].contains(room))
            .collect();
        told.extend(circle.iter().copied());
        found.push(format!(
            "{}: these modules import each other: {}",
            of.name,
            circle.join(", ")
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIB: &str = "//! A crate.\n//!\n//! Rooms, lowest first: low,\n//! high.\n\
                       mod high; mod low; pub use high::Tower;";

    #[test]
    fn ranks_are_read_over_line_ends() {
        let planted = SourceCrate::planted("store", &[("lib.rs", LIB)]);
        let rooms = Rooms(vec!["low".to_owned(), "high".to_owned()]);
        assert_eq!(Rooms::declared(&planted), Some(rooms));
    }

    #[test]
    fn a_row_that_has_drifted_or_is_missing_is_reported() {
        let planted = [SourceCrate::planted("store", &[("lib.rs", LIB)])];
        let right = "| crate | rooms |\n| `store` | low (a, b), high (c) |\n";
        assert!(room_table_breaches(right, &planted).is_empty());
        for wrong in [
            "| `store` | high, low |",
            "| `store` | low |",
            "| `log` | low, high |",
        ] {
            assert_eq!(room_table_breaches(wrong, &planted).len(), 1, "{wrong}");
        }
    }

    #[test]
    fn every_form_of_an_upward_import_is_reported() {
        for text in [
            "use crate::high::Tower;",
            "use crate::{high::Tower, low};",
            "use crate::Tower;",
            "use super::super::high;",
            "fn f() { crate::high::g() }",
            "fn f() { println!(\"{}\", crate::high::G) }",
        ] {
            let files = [("lib.rs", LIB), ("high.rs", ""), ("low/cellar.rs", text)];
            let found = room_breaches(&SourceCrate::planted("store", &files));
            assert_eq!(found.len(), 1, "{text}: {found:#?}");
        }
    }

    #[test]
    fn imports_downwards_and_inside_a_room_are_right() {
        let files = [
            ("lib.rs", LIB),
            ("high.rs", "use crate::low::cellar; use super::low;"),
            ("low/mod.rs", "mod cellar; mod stairs;"),
            (
                "low/cellar.rs",
                "use super::stairs; use crate::low::stairs as s; use super::*;",
            ),
            (
                "low/stairs.rs",
                "#[cfg(test)] mod tests { use crate::high; }",
            ),
        ];
        let found = room_breaches(&SourceCrate::planted("store", &files));
        assert!(found.is_empty(), "{found:#?}");
    }

    #[test]
    fn rooms_without_rank_and_ranks_without_room_are_reported() {
        let files = [("lib.rs", LIB), ("high.rs", ""), ("attic.rs", "")];
        assert_eq!(
            room_breaches(&SourceCrate::planted("store", &files)).len(),
            2
        );
    }

    #[test]
    fn a_circle_in_a_crate_without_ranks_is_reported_once() {
        let files = [
            ("lib.rs", "//! A crate."),
            ("a.rs", "use crate::b;"),
            ("b.rs", "use crate::c;"),
            ("c.rs", "use crate::a;"),
            ("d.rs", "use crate::a;"),
        ];
        let found = room_breaches(&SourceCrate::planted("store", &files));
        assert_eq!(found, ["store: these modules import each other: a, b, c"]);
    }
}
