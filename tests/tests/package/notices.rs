//! `deploy/notices.sh`: the licences of what is linked into the programs and plugins that are
//! passed on.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use volhost_tests::artifacts::{self, workspace};

use crate::succeeds;

/// The folder of a crate's source where cargo keeps it, which the places of panics name.
const SOURCE: &str = "/registry/src/[a-z0-9.-]+/[A-Za-z0-9_-]+-[0-9][A-Za-z0-9.+-]*/";

fn notices(folder: &Path) -> String {
    succeeds(Command::new(workspace().join("deploy/notices.sh")).arg(folder));
    fs::read_to_string(folder.join("third-party-notices.txt")).unwrap()
}

/// The packages of the list, as `NAME-VERSION`, with the numbers of their texts.
fn listed(notices: &str) -> impl Iterator<Item = (String, Vec<&str>)> {
    let list = notices.split("\n======== text 1 ").next().unwrap();
    list.lines().filter_map(|line| {
        let (package, texts) = line.split_once("): ")?;
        let name = package.split(" (").next().unwrap().replace(' ', "-");
        Some((name, texts.split(' ').collect()))
    })
}

/// The crates whose source these files name, as `NAME-VERSION`.
fn named_by(files: impl Iterator<Item = PathBuf>) -> BTreeSet<String> {
    let mut search = Command::new("grep");
    let folders = succeeds(search.env("LC_ALL", "C").args(["-aohE", SOURCE]).args(files));
    folders.lines().map(|folder| folder.rsplit('/').nth(1).unwrap().to_owned()).collect()
}

fn plugins() -> impl Iterator<Item = PathBuf> {
    let list = fs::read_to_string(artifacts::shipped_list()).unwrap();
    let names: Vec<String> = list.lines().map(|line| line.split_whitespace().nth(1).unwrap().to_owned()).collect();
    names.into_iter().map(|name| artifacts::plugin(name.strip_suffix(".wasm").unwrap()))
}

#[test]
fn every_crate_that_programs_and_plugins_name_is_listed_with_its_texts() {
    let folder = tempfile::tempdir().unwrap();
    let notices = notices(folder.path());
    let known: BTreeSet<String> = listed(&notices).map(|(name, _)| name).collect();
    let programs = ["volhost", "volhostd", "volhost-controller", "kubectl-volhost"];
    let programs = programs.map(|program| artifacts::volhost().with_file_name(program));
    let found = named_by(programs.into_iter().chain(plugins()));
    assert!(found.len() > 100, "the programs name too few to prove anything: {found:?}");
    let missing: Vec<&String> = found.difference(&known).collect();
    assert!(missing.is_empty(), "{missing:?}");

    for (name, texts) in listed(&notices) {
        for text in texts {
            assert!(notices.contains(&format!("\n======== text {text} ========\n")), "{name}: {text}");
        }
    }
    // Macros run in the compiler, and are in no program.
    assert!(!known.iter().any(|name| name.starts_with("serde_derive-")), "{known:?}");
    let library = fs::read_to_string(folder.path().join("rust-standard-library.html")).unwrap();
    assert!(library.contains("The Rust Project Developers"));
}

#[test]
fn the_notices_are_the_same_each_time_and_name_no_folder_of_this_machine() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = ["first", "second"].map(|name| notices(&folder.path().join(name)));
    assert!(first == second);
    let home = std::env::var("HOME").unwrap();
    assert!(!first.contains(&home) && !first.contains(workspace().to_str().unwrap()));
}

#[test]
fn a_crate_without_a_text_of_its_licence_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let [changed, out] = ["changed", "out"].map(|name| folder.path().join(name));
    // In a mount namespace of this command alone, another folder has the crate's place.
    let script = r#"source=$(cargo metadata --locked --format-version 1 | grep -o '[^"]*/itoa-[^"/]*/Cargo.toml')
        source=${source%/Cargo.toml}
        cp -r "$source" "$1"
        rm "$1"/LICENSE*
        mount --bind "$1" "$source"
        exec deploy/notices.sh "$2""#;
    let mut refused = Command::new("unshare");
    refused.args(["--mount", "sh", "-euc", script, "sh"]).args([&changed, &out]).current_dir(workspace());
    let output = refused.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let why = "has no text of its licence (MIT OR Apache-2.0)";
    assert!(!output.status.success() && said.contains("itoa v") && said.contains(why), "{said}");
    assert!(!out.exists(), "nothing is written");
}
