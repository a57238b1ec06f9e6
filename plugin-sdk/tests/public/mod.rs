//! Checks the SDK's public items against the record, and that the documentation uses each of them.

mod examples;
mod surface;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Set to write the record anew.
const RECORD: &str = "RECORD_API";

fn record() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("api.txt")
}

#[test]
fn the_api_is_as_it_is_recorded() {
    let current: BTreeSet<String> =
        surface::read().into_iter().map(|one| format!("{}: {}", one.name, one.line)).collect();
    if std::env::var_os(RECORD).is_some() {
        let text: Vec<&str> = current.iter().map(String::as_str).collect();
        fs::write(record(), format!("{}\n", text.join("\n"))).unwrap();
        return;
    }
    let text = fs::read_to_string(record()).unwrap();
    let recorded: BTreeSet<String> = text.lines().map(str::to_owned).collect();
    let list = |lines: Vec<&String>| lines.iter().map(|line| format!("  {line}\n")).collect::<String>();
    let broken = list(recorded.difference(&current).collect());
    assert!(
        broken.is_empty(),
        "Plugins that use these do not compile any more:\n{broken}If that is meant, it needs a new minor version (docs/compatibility.md), \
         and the record: {RECORD}=1 cargo test --test sdk"
    );
    let new = list(current.difference(&recorded).collect());
    assert!(new.is_empty(), "These are new, and not recorded:\n{new}Record them: {RECORD}=1 cargo test --test sdk");
}

#[test]
fn the_list_contains_the_well_known_items() {
    let found = surface::read();
    let has = |name: &str, words: &str| found.iter().any(|one| one.name == name && one.line.contains(words));
    for (name, words) in [
        ("VolumePlugin", "trait"),
        ("VolumePlugin::publish", "fn publish(volume: &Volume"),
        ("BlockMapper::map_device", "{ given }"),
        ("MountTarget::attach", "mount: DetachedMount"),
        ("tmpfs::Tmpfs::size", "bytes: u64"),
        ("log::info", "fn info("),
        ("Error::Uncertain", "variant(String)"),
        ("SourceKind", "non_exhaustive"),
        ("export_plugin", "macro"),
        ("testing::TestHost::fail", "call"),
        ("testing::TestMount.fs_type", "String"),
    ] {
        assert!(has(name, words), "{name}: {words}");
    }
    assert!(!found.iter().any(|one| one.name.contains("__") || one.name.starts_with("wasm")), "hidden items");
}

#[test]
fn every_public_item_is_used_in_an_example() {
    let missing = examples::missing(&surface::read());
    assert!(
        missing.is_empty(),
        "no example of the documentation uses these:\n{}",
        missing.iter().map(|name| format!("  {name}\n")).collect::<String>()
    );
}
