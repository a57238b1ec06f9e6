//! The table of kinds and grants in the documents is what the built plugins say of themselves.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests may panic"
)]

use std::fs;
use std::process::Command;

use volhost_tests::artifacts::{plugin, volhost, workspace};

const BEGIN: &str = "<!-- made from the built plugins by `tests/tests/volume_kinds.rs` -->\n";
const END: &str = "<!-- end -->";
/// Interfaces that every plugin may use.
const FREE: [&str; 9] = ["types", "volumes", "mounts", "tmpfs", "log", "events", "node", "devices", "filesystems"];
/// Set to write the table instead of comparing it.
const WRITE: &str = "VOLHOST_WRITE_DOCS";

fn list(value: &serde_json::Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(|item| item.as_str().unwrap().to_owned()).collect()
}

fn row(name: &str) -> String {
    let output =
        Command::new(volhost()).args(["plugin", "inspect", "-o", "json"]).arg(plugin(name)).output().expect("it runs");
    let about: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let code = |names: &[String]| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let grants: Vec<String> =
        list(&about["imports"]).into_iter().filter(|name| !FREE.contains(&name.as_str())).collect();
    let grants = if grants.is_empty() { "none".to_owned() } else { code(&grants) };
    format!("| {} | `{}` | {} |\n", code(&list(&about["sources"])), about["name"].as_str().unwrap(), grants)
}

#[test]
fn the_table_of_kinds_and_grants_is_what_the_plugins_ask_for() {
    let mut names: Vec<String> = fs::read_dir(workspace().join("plugins"))
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().join("Cargo.toml").is_file())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    names.sort();
    let rows: String = names.iter().map(|name| row(name)).collect();
    let table = format!("\n| source | plugin | grants |\n|---|---|---|\n{rows}\n");

    let page = workspace().join("docs/volume-kinds.md");
    let text = fs::read_to_string(&page).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("the table's beginning is marked");
    let (standing, after) = rest.split_once(END).expect("the table's end is marked");
    if std::env::var_os(WRITE).is_some() {
        fs::write(&page, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(standing, table, "docs/volume-kinds.md is stale; run this test with {WRITE}=1 to write it anew");
}
