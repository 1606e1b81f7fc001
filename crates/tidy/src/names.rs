//! A type name stands once per crate, so that a search for it finds one type.

use crate::tree::SourceCrate;
use proc_macro2::Span;
use std::collections::BTreeMap;
use syn::visit::Visit;

/// Names of structs, enums, unions, traits and type aliases that a crate defines more than once.
pub fn repeated_type_names(of: &SourceCrate) -> Vec<String> {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in &of.sources {
        let mut definitions = Definitions::default();
        definitions.visit_file(&source.file);
        for (name, span) in definitions.found {
            let place = format!("{}:{}", source.path, span.start().line);
            places.entry(name).or_default().push(place);
        }
    }
    places
        .into_iter()
        .filter(|(_, places)| places.len() > 1)
        .map(|(name, places)| {
            format!(
                "{}: `{name}` names {} types ({}); give each a name of its own",
                of.name,
                places.len(),
                places.join(", ")
            )
        })
        .collect()
}

#[derive(Default)]
struct Definitions {
    found: Vec<(String, Span)>,
}

impl Definitions {
    fn note(&mut self, name: &syn::Ident) {
        self.found.push((name.to_string(), name.span()));
    }
}

impl<'ast> Visit<'ast> for Definitions {
    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.note(&item.ident);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.note(&item.ident);
    }

    fn visit_item_union(&mut self, item: &'ast syn::ItemUnion) {
        self.note(&item.ident);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.note(&item.ident);
        syn::visit::visit_item_trait(self, item);
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.note(&item.ident);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_type_of_one_name_is_reported() {
        let files = [
            ("a.rs", "struct Held;"),
            ("b.rs", "enum Held {}\nstruct Other;"),
        ];
        let found = repeated_type_names(&SourceCrate::planted("store", &files));
        assert_eq!(found.len(), 1, "{found:#?}");
        assert!(found[0].contains("`Held` names 2 types (crates/store/src/a.rs:1"));
    }
}
