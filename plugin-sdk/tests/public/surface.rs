//! The SDK's public items, read from its source: stable Rust has no other list of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use quote::ToTokens;
use syn::{Attribute, Fields, ImplItem, Item, TraitItem, Type, UseTree, Visibility};

/// A public item.
#[derive(Debug, Clone)]
pub(crate) struct Public {
    /// Its path as an author writes it: `MountTarget::attach`, `log::info`.
    pub(crate) name: String,
    /// Its signature, on one line.
    pub(crate) line: String,
}

/// All of them, in the order of their names.
pub(crate) fn read() -> Vec<Public> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut reader = Reader { found: BTreeMap::new(), modules: BTreeMap::new() };
    reader.load(&root, &root.join("lib.rs"), "");
    reader.module("", "");
    for path in reader.modules.keys().cloned().collect::<Vec<_>>() {
        reader.inherent(&path);
    }
    reader.found.into_values().collect()
}

struct Reader {
    /// By name and line.
    found: BTreeMap<(String, String), Public>,
    /// By path, the crate's own being empty.
    modules: BTreeMap<String, Vec<Item>>,
}

impl Reader {
    /// Parses a file, and the files of its modules.
    fn load(&mut self, root: &Path, file: &Path, path: &str) {
        let text = fs::read_to_string(file).unwrap();
        let items = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display())).items;
        for item in &items {
            let Item::Mod(module) = item else { continue };
            if module.content.is_some() || is_hidden(&module.attrs) {
                continue;
            }
            let inner = join(path, &module.ident.to_string());
            let place = root.join(inner.replace("::", "/"));
            let file = [place.with_extension("rs"), place.join("mod.rs")].into_iter().find(|file| file.is_file());
            self.load(root, &file.unwrap_or_else(|| panic!("no file for {inner}")), &inner);
        }
        self.modules.insert(path.to_owned(), items);
    }

    /// The public items of a module, listed under the path `shown`.
    fn module(&mut self, path: &str, shown: &str) {
        let items = self.modules[path].clone();
        for item in &items {
            match item {
                Item::Mod(module) if is_public(&module.vis) && !is_hidden(&module.attrs) => {
                    let name = module.ident.to_string();
                    if module.content.is_none() {
                        self.add(&join(shown, &name), "mod".to_owned());
                        self.module(&join(path, &name), &join(shown, &name));
                    }
                }
                Item::Use(one) if is_public(&one.vis) && !is_hidden(&one.attrs) => {
                    let mut names = Vec::new();
                    leaves(&one.tree, "", &mut names);
                    for name in names {
                        let (within, name) = name.rsplit_once("::").unwrap();
                        self.item(&join(path, within), name, shown);
                    }
                }
                _ => {
                    if let Some(name) = name_of(item).or_else(|| made_by(item)) {
                        self.item(path, &name, shown);
                    }
                }
            }
        }
        // Macros belong to the crate, whatever module they are in.
        if path.is_empty() {
            for inner in self.modules.keys().filter(|key| !key.is_empty()).cloned().collect::<Vec<_>>() {
                for item in self.modules[&inner].clone() {
                    if let Item::Macro(one) = item
                        && one.attrs.iter().any(|attribute| attribute.path().is_ident("macro_export"))
                        && !is_hidden(&one.attrs)
                    {
                        self.add(&one.ident.unwrap().to_string(), "macro".to_owned());
                    }
                }
            }
        }
    }

    /// The item `name` of a module, if it is public.
    fn item(&mut self, path: &str, name: &str, shown: &str) {
        let Some(module) = self.modules.get(path) else { panic!("no module {path} for {name}") };
        let items: Vec<Item> = module.iter().filter(|item| name_of(item).as_deref() == Some(name)).cloned().collect();
        let full = join(shown, name);
        if items.is_empty() {
            self.add(&full, "struct".to_owned());
        }
        for item in items {
            match item {
                Item::Fn(one) => self.add(&full, spaced(one.sig.to_token_stream())),
                Item::Const(one) => self.add(&full, format!("const: {}", spaced(one.ty.to_token_stream()))),
                Item::Type(one) => self.add(&full, format!("type = {}", spaced(one.ty.to_token_stream()))),
                Item::Struct(one) => {
                    self.add(&full, format!("struct{}{}", spaced(one.generics.to_token_stream()), marks(&one.attrs)));
                    for field in one.fields.iter().filter(|field| is_public(&field.vis)) {
                        let Some(ident) = &field.ident else { continue };
                        self.add(&format!("{full}.{ident}"), spaced(field.ty.to_token_stream()));
                    }
                }
                Item::Enum(one) => {
                    self.add(&full, format!("enum{}{}", spaced(one.generics.to_token_stream()), marks(&one.attrs)));
                    for variant in &one.variants {
                        let fields = match &variant.fields {
                            Fields::Unit => String::new(),
                            fields => spaced(fields.to_token_stream()),
                        };
                        self.add(&format!("{full}::{}", variant.ident), format!("variant{fields}"));
                    }
                }
                Item::Trait(one) => {
                    self.add(&full, format!("trait: {}", spaced(one.supertraits.to_token_stream())));
                    for item in &one.items {
                        if let TraitItem::Fn(function) = item {
                            let given = if function.default.is_some() { " { given }" } else { "" };
                            let line = format!("{}{given}", spaced(function.sig.to_token_stream()));
                            self.add(&format!("{full}::{}", function.sig.ident), line);
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// The items of a module's `impl` blocks, for public types.
    fn inherent(&mut self, path: &str) {
        for item in self.modules[path].clone() {
            let Item::Impl(block) = item else { continue };
            let Type::Path(of) = &*block.self_ty else { continue };
            let name = of.path.segments.last().unwrap().ident.to_string();
            let is_it = |shown: &&Public| {
                shown.name.rsplit("::").next() == Some(&name)
                    && (shown.line.starts_with("struct") || shown.line.starts_with("enum"))
            };
            let Some(shown) = self.found.values().find(is_it).map(|public| public.name.clone()) else { continue };
            if let Some((_, of, _)) = &block.trait_ {
                self.add(&shown, format!("impl {}", spaced(of.to_token_stream())));
                continue;
            }
            for item in &block.items {
                match item {
                    ImplItem::Fn(one) if is_public(&one.vis) && !is_hidden(&one.attrs) => {
                        self.add(&format!("{shown}::{}", one.sig.ident), spaced(one.sig.to_token_stream()));
                    }
                    ImplItem::Const(one) if is_public(&one.vis) && !is_hidden(&one.attrs) => {
                        let line = format!("const: {}", spaced(one.ty.to_token_stream()));
                        self.add(&format!("{shown}::{}", one.ident), line);
                    }
                    _ => {}
                }
            }
        }
    }

    fn add(&mut self, name: &str, line: String) {
        let key = (name.to_owned(), line.clone());
        self.found.insert(key, Public { name: name.to_owned(), line });
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}::{name}") }
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// Hidden, or there for tests, or for components alone.
fn is_hidden(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let text = attribute.to_token_stream().to_string().replace(' ', "");
        text.contains("doc(hidden)") || text.contains("cfg(test)") || text == "#[cfg(target_family=\"wasm\")]"
    })
}

fn marks(attributes: &[Attribute]) -> String {
    let open = attributes.iter().any(|attribute| attribute.path().is_ident("non_exhaustive"));
    let derives = attributes.iter().filter(|attribute| attribute.path().is_ident("derive"));
    let derived: String = derives.map(|derive| format!(" {}", spaced(derive.meta.to_token_stream()))).collect();
    format!("{}{derived}", if open { " non_exhaustive" } else { "" })
}

fn name_of(item: &Item) -> Option<String> {
    let (name, visibility, attributes) = match item {
        Item::Fn(one) => (&one.sig.ident, &one.vis, &one.attrs),
        Item::Const(one) => (&one.ident, &one.vis, &one.attrs),
        Item::Type(one) => (&one.ident, &one.vis, &one.attrs),
        Item::Struct(one) => (&one.ident, &one.vis, &one.attrs),
        Item::Enum(one) => (&one.ident, &one.vis, &one.attrs),
        Item::Trait(one) => (&one.ident, &one.vis, &one.attrs),
        _ => return None,
    };
    (is_public(visibility) && !is_hidden(attributes)).then(|| name.to_string())
}

/// The type that a macro of the SDK's own makes: the first name among its words.
fn made_by(item: &Item) -> Option<String> {
    let Item::Macro(one) = item else { return None };
    if one.ident.is_some() || !one.attrs.is_empty() {
        return None;
    }
    let words = one.mac.tokens.clone().into_iter().map(|token| token.to_string());
    words.into_iter().find(|word| word.starts_with(|letter: char| letter.is_ascii_uppercase()))
}

fn leaves(tree: &UseTree, path: &str, found: &mut Vec<String>) {
    match tree {
        UseTree::Path(one) => leaves(&one.tree, &join(path, &one.ident.to_string()), found),
        UseTree::Name(one) => found.push(join(path, &one.ident.to_string())),
        UseTree::Group(group) => group.items.iter().for_each(|one| leaves(one, path, found)),
        UseTree::Rename(_) | UseTree::Glob(_) => panic!("{path}: name the items that are exported"),
    }
}

/// Tokens with the usual spaces, more or less: equal tokens give equal text.
fn spaced(tokens: impl ToString) -> String {
    let mut text = tokens.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    for (from, to) in [
        (" ,", ","),
        (" :", ":"),
        (" (", "("),
        ("( ", "("),
        (" )", ")"),
        (" <", "<"),
        ("< ", "<"),
        (" >", ">"),
        ("& ", "&"),
        (" ;", ";"),
        (":: ", "::"),
        (",)", ")"),
        ("-> ", "-> "),
        ("->", " ->"),
    ] {
        text = text.replace(from, to);
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
