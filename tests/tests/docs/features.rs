//! The end-to-end tests run the program that users build. Cargo compiles a library once for all
//! that it builds together, with the features that any of them asks for: for the tests, these have
//! to be those that volhost asks for itself.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use volhost_tests::artifacts::workspace;

/// Libraries with more features in the tests' build, and why that does not change the program.
const RICHER: [(&str, &str); 2] = [
    ("getrandom", "proptest asks the system for random numbers, by a function that volhost does not call"),
    ("regex-syntax", "proptest knows Unicode's classes, which only a filter of log fields could name"),
];

/// The features of each library that is linked into what these arguments select.
fn features(arguments: &[&str]) -> BTreeMap<String, BTreeSet<String>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let tree = Command::new(cargo)
        .args(["tree", "--locked", "--offline", "--prefix", "none", "--format", "{p} [{f}]"])
        .args(arguments)
        // As cargo builds unless a configuration above the checkout says otherwise.
        .env("CARGO_RESOLVER_FEATURE_UNIFICATION", "selected")
        .current_dir(workspace())
        .output()
        .expect("cargo runs");
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let text = String::from_utf8(tree.stdout).expect("cargo writes text");
    for line in text.lines().filter(|line| !line.is_empty()) {
        let line = line.trim_end_matches(" (*)");
        let (package, features) = line.rsplit_once(" [").unwrap_or_else(|| panic!("no features: {line}"));
        all.entry(package.to_owned()).or_default().insert(features.trim_end_matches(']').to_owned());
    }
    all
}

/// Libraries of the command line that the process that mounts must not link: what they do is not
/// needed to serve volumes.
const NOT_IN_THE_DAEMON: [&str; 13] = [
    "clap_complete",
    "clap_mangen",
    "kube",
    "ratatui",
    "rustls",
    "toml_edit",
    "volhost",
    "volhost-conformance",
    "volhost-plugin-build",
    "volhost-plugin-new",
    "volhost-registry",
    "wit-component",
    "wit-parser",
];

#[test]
fn the_tests_run_the_programs_that_users_build() {
    let programs = [
        "--package",
        "volhost",
        "--package",
        "volhostd",
        "--package",
        "volhost-controller",
        "--package",
        "volhost-kubectl",
    ];
    let built = features(&[&programs[..], &["--edges", "normal,no-proc-macro"]].concat());
    let tested = features(&["--workspace", "--edges", "normal,dev,no-proc-macro"]);
    assert!(built.keys().any(|package| package.starts_with("wasmtime ")), "the programs' libraries are listed");
    let is_known = |package: &str| RICHER.iter().any(|(name, _)| package.split(' ').next() == Some(*name));
    let differ: Vec<_> = built
        .iter()
        .filter(|(package, features)| tested.get(*package) != Some(*features) && !is_known(package))
        .map(|(package, features)| (package, features, tested.get(package)))
        .collect();
    assert!(differ.is_empty(), "built by users, and by the tests: {differ:#?}");
}

#[test]
fn the_process_that_mounts_links_nothing_that_only_people_use() {
    let linked = features(&["--package", "volhostd", "--edges", "normal,no-proc-macro"]);
    let name = |package: &String| package.split(' ').next().unwrap_or_default().to_owned();
    let linked: BTreeSet<String> = linked.keys().map(name).collect();
    assert!(linked.contains("volhost-node"), "the daemon's libraries are listed: {linked:?}");
    let wrong: Vec<_> = NOT_IN_THE_DAEMON.iter().filter(|name| linked.contains(**name)).collect();
    assert!(wrong.is_empty(), "volhostd links {wrong:?}");
}
