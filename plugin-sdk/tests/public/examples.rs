//! Finds the public items that the examples use. `cargo test --doc` compiles the examples; this
//! test checks that every item has one.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::surface::Public;

/// The items whose names are in no example.
pub(crate) fn missing(items: &[Public]) -> Vec<String> {
    let mut used = BTreeSet::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut used);
    // Foreign traits of a type are not items of the SDK.
    let ours = items.iter().filter(|item| !item.line.starts_with("impl "));
    let own = |item: &&Public| item.name.rsplit(['.', ':']).next().is_some_and(|name| used.contains(name));
    let unused: BTreeSet<String> = ours.filter(|item| !own(item)).map(|item| item.name.clone()).collect();
    unused.into_iter().collect()
}

fn collect(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, found);
        } else {
            words(&fs::read_to_string(&path).unwrap(), found);
        }
    }
}

/// The words of a file's examples.
fn words(text: &str, found: &mut BTreeSet<String>) {
    let mut inside = false;
    for line in text.lines() {
        let line = line.trim_start();
        let Some(comment) = line.strip_prefix("//!").or_else(|| line.strip_prefix("///")) else { continue };
        let comment = comment.trim_start();
        if let Some(kind) = comment.strip_prefix("```") {
            // A block that is not compiled is not an example.
            inside = !inside && (kind.is_empty() || kind == "no_run");
        } else if inside && !comment.starts_with("//") {
            found.extend(comment.split(|letter: char| !letter.is_alphanumeric() && letter != '_').map(str::to_owned));
        }
    }
}
