//! The reference page: every interface and function of the contract, with its documentation.

use std::fmt::Write as _;

use wit_parser::{Docs, Function, Interface, TypeDefKind};

use crate::contract::{Contract, HOST_WORLD};
use crate::surface::plain;
use crate::{grants, words};

/// The interfaces that each plugin exports.
const REQUIRED: [&str; 2] = ["plugin", "publisher"];

/// The page, in Markdown.
pub fn render(contract: &Contract) -> String {
    let mut page = format!(
        "# The contract's reference\n\n\
         `{}`, interface by interface: what a plugin exports, and what it may import. The files are in [wit/](../wit); [what a plugin must keep to](contract.md) \
         and [what of it may change](compatibility.md) have pages of their own.\n\n",
        contract.name()
    );
    table(&mut page, contract, true);
    table(&mut page, contract, false);
    for (name, interface) in contract.interfaces() {
        section(&mut page, contract, name, interface);
    }
    worlds(&mut page, contract);
    page
}

fn table(page: &mut String, contract: &Contract, exported: bool) {
    let (title, column) =
        if exported { ("What plugins export", "needed by") } else { ("What plugins may import", "grant") };
    let _ = writeln!(page, "## {title}\n\n| interface | {column} | in a sentence |\n|---|---|---|");
    for (name, interface) in
        contract.interfaces().into_iter().filter(|(name, _)| contract.is_exported(name) == exported)
    {
        let _ = writeln!(
            page,
            "| [`{name}`](#{name}) | {} | {} |",
            availability(name, exported),
            sentence(&interface.docs)
        );
    }
    page.push('\n');
}

fn availability(name: &str, exported: bool) -> String {
    match (exported, grants::line(name)) {
        (true, _) if REQUIRED.contains(&name) => "every plugin".to_owned(),
        (true, _) => "the capability".to_owned(),
        (false, None) => "everyone".to_owned(),
        (false, Some(line)) => format!("`{line}`"),
    }
}

/// The first sentence of the documentation.
fn sentence(docs: &Docs) -> String {
    let text = docs.contents.as_deref().unwrap_or_default();
    let paragraph = text.split("\n\n").next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
    let end = paragraph.find(". ").map_or(paragraph.len(), |dot| dot + 1);
    paragraph.get(..end).unwrap_or(&paragraph).replace('|', "\\|")
}

fn section(page: &mut String, contract: &Contract, name: &str, interface: &Interface) {
    let _ = writeln!(page, "## {name}\n");
    let exported = contract.is_exported(name);
    let availability = match (exported, grants::line(name)) {
        (true, _) if REQUIRED.contains(&name) => "Exported by every plugin.".to_owned(),
        (true, _) => format!("Exported by plugins with the capability `{name}`."),
        (false, None) => "Imported; no grant is needed.".to_owned(),
        (false, Some(line)) => format!("Imported; needs a grant: `{line}`."),
    };
    let _ = writeln!(page, "*{availability}*\n");
    text(page, &interface.docs, "");
    let resolve = &contract.resolve;
    let types: Vec<_> =
        interface.types.iter().filter_map(|(name, id)| Some((name, *id, resolve.types.get(*id)?))).collect();
    for (kind, _, definition) in &types {
        if matches!(definition.kind, TypeDefKind::Resource) {
            continue;
        }
        if let Some(meaning) = words::of_definition(resolve, definition) {
            let _ = writeln!(page, "### {name}.{kind}\n\n```wit\n{meaning}\n```\n");
            text(page, &definition.docs, "");
            parts(page, &definition.kind);
        }
    }
    let free = interface.functions.values().filter(|function| function.kind.resource().is_none());
    functions(page, contract, free);
    for (kind, id, definition) in &types {
        if !matches!(definition.kind, TypeDefKind::Resource) {
            continue;
        }
        let _ = writeln!(page, "### {name}.{kind}\n\n*A resource: a handle that the host gives.*\n");
        text(page, &definition.docs, "");
        functions(
            page,
            contract,
            interface.functions.values().filter(|function| function.kind.resource() == Some(*id)),
        );
    }
}

/// The documentation of a type's parts.
fn parts(page: &mut String, kind: &TypeDefKind) {
    let named: Vec<(&str, &Docs)> = match kind {
        TypeDefKind::Record(record) => record.fields.iter().map(|field| (field.name.as_str(), &field.docs)).collect(),
        TypeDefKind::Variant(variant) => variant.cases.iter().map(|case| (case.name.as_str(), &case.docs)).collect(),
        TypeDefKind::Enum(words) => words.cases.iter().map(|case| (case.name.as_str(), &case.docs)).collect(),
        TypeDefKind::Flags(flags) => flags.flags.iter().map(|flag| (flag.name.as_str(), &flag.docs)).collect(),
        _ => Vec::new(),
    };
    let mut any = false;
    for (name, docs) in named.into_iter().filter(|(_, docs)| docs.contents.is_some()) {
        any = true;
        let _ =
            writeln!(page, "- `{name}`: {}", docs.contents.as_deref().unwrap_or_default().trim().replace('\n', "\n  "));
    }
    if any {
        page.push('\n');
    }
}

fn functions<'a>(page: &mut String, contract: &Contract, all: impl Iterator<Item = &'a Function>) {
    let mut any = false;
    for function in all {
        any = true;
        let name = plain(&function.name);
        let short = name.rsplit('.').next().unwrap_or(name);
        let _ = writeln!(page, "- `{short}: {}`", words::of_function(&contract.resolve, function));
        text(page, &function.docs, "  ");
    }
    if any && !page.ends_with("\n\n") {
        page.push('\n');
    }
}

/// The documentation of an item.
fn text(page: &mut String, docs: &Docs, indent: &str) {
    let Some(contents) = docs.contents.as_deref() else { return };
    if !indent.is_empty() {
        page.push('\n');
    }
    for line in contents.trim().lines() {
        let line = if line.is_empty() { String::new() } else { format!("{indent}{line}") };
        let _ = writeln!(page, "{line}");
    }
    page.push('\n');
}

fn worlds(page: &mut String, contract: &Contract) {
    let _ = writeln!(page, "## Worlds\n\n| world | description | exports |\n|---|---|---|");
    for (name, world) in contract.worlds() {
        let exports = contract.names(world.exports.keys());
        let listed = match name {
            HOST_WORLD => "all of them".to_owned(),
            _ => exports.iter().map(|name| format!("[`{name}`](#{name})")).collect::<Vec<_>>().join(", "),
        };
        let _ = writeln!(
            page,
            "| `{name}` | {} | {} |",
            sentence(&world.docs),
            if listed.is_empty() { "-" } else { &listed }
        );
    }
}
