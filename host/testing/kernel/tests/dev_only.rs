//! What only tests need is no part of what users run.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests may panic")]

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Folders of the workspace whose packages only tests use.
const DEV_ONLY: [&str; 2] = ["host/testing/", "tests/"];

/// The platform that cargo builds for: packages of others were never downloaded.
fn platform() -> String {
    let output = Command::new("rustc").arg("-vV").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().find_map(|line| line.strip_prefix("host: ")).unwrap().to_owned()
}

/// The packages of the workspace and what each is compiled with, as cargo resolves them. Needs no
/// network.
fn build_graph() -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version=1", "--offline", "--locked", "--filter-platform", &platform()])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The packages that each package is compiled with, tests excepted.
fn dependencies(graph: &Value) -> HashMap<&str, Vec<&str>> {
    let is_linked = |dependency: &&Value| {
        let kinds = dependency["dep_kinds"].as_array().unwrap();
        kinds.iter().any(|kind| kind["kind"] != "dev")
    };
    let nodes = graph["resolve"]["nodes"].as_array().unwrap().iter();
    nodes
        .map(|node| {
            let linked = node["deps"].as_array().unwrap().iter().filter(is_linked);
            (node["id"].as_str().unwrap(), linked.map(|dependency| dependency["pkg"].as_str().unwrap()).collect())
        })
        .collect()
}

#[test]
fn nothing_that_users_run_is_built_with_what_only_tests_need() {
    let graph = build_graph();
    let root = Path::new(graph["workspace_root"].as_str().unwrap());
    let packages = graph["packages"].as_array().unwrap();
    let dev_only: HashSet<&str> = packages
        .iter()
        .filter(|package| {
            let manifest = Path::new(package["manifest_path"].as_str().unwrap());
            let folder =
                manifest.strip_prefix(root).map(|path| path.to_string_lossy().into_owned()).unwrap_or_default();
            DEV_ONLY.iter().any(|dev_only| folder.starts_with(dev_only))
        })
        .map(|package| package["id"].as_str().unwrap())
        .collect();
    assert!(!dev_only.is_empty());

    let dependencies = dependencies(&graph);
    let members = graph["workspace_members"].as_array().unwrap().iter().map(|id| id.as_str().unwrap());
    for member in members.filter(|member| !dev_only.contains(member)) {
        let mut seen = HashSet::from([member]);
        let mut next = vec![member];
        while let Some(package) = next.pop() {
            assert!(!dev_only.contains(package), "{member} is built with {package}, which is for tests");
            next.extend(dependencies[package].iter().filter(|one| seen.insert(one)));
        }
    }
}
