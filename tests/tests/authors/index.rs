//! An index of plugins: in a folder, and in a registry.

use std::fs;

use serde_json::Value;
use volhost_tests::registry::Registry;

use crate::registry::{Desk, refused, said};

#[test]
fn a_plugin_is_found_in_an_index_and_pulled_by_its_digest() {
    let (registry, desk) = (Registry::plain(), Desk::new());
    let plugin = desk.plugin("fixture-well-behaved");
    let pinned = said(&desk.publish(&registry, &registry.reference("acme/well-behaved:1"), &plugin, &[]));
    let folder = desk.path().join("index");
    fs::create_dir(&folder).unwrap();
    let (file, index) = (plugin.to_str().unwrap(), folder.to_str().unwrap());
    let unpinned = registry.reference("acme/well-behaved:1");
    let usage = registry.untrusting(desk.path(), &["index", "add", file, &unpinned, "--index", index]);
    assert_eq!(usage.status.code(), Some(2), "another plugin may get the tag");
    let add = ["index", "add", file, &pinned, "--index", index, "--description", "Folders for tests"];
    let written = said(&registry.untrusting(desk.path(), &add));
    assert!(written.ends_with("/index/fixture.volhost~well-behaved.json"), "{written}");

    let reference = registry.reference("acme/plugins:latest");
    said(&registry.volhost(desk.path(), &["index", "publish", &reference, "--index", index]));
    let in_registry = format!("oci://{reference}");
    for source in [index, &reference, &in_registry] {
        let found = said(&registry.volhost(desk.path(), &["search", "FOLDERS", "fixture", "--index", source]));
        let rows: Vec<&str> = found.lines().collect();
        assert_eq!(rows.len(), 2, "{found}");
        assert!(
            rows[1].starts_with("fixture.volhost/well-behaved") && rows[1].ends_with("Folders for tests"),
            "{found}"
        );
        let info = ["info", "well-behaved", "--index", source, "-o", "json"];
        let info: Value = serde_json::from_str(&said(&registry.volhost(desk.path(), &info))).unwrap();
        assert_eq!(info["reference"], *pinned, "{info}");
        assert!(info["sources"].as_array().unwrap().iter().any(|one| one == "wellBehaved"), "{info}");
    }
    said(&desk.pull(&registry, &pinned, &desk.path().join("out")));
    assert_eq!(fs::read(desk.path().join("out/well-behaved.wasm")).unwrap(), fs::read(&plugin).unwrap());
}

#[test]
fn what_cannot_be_used_in_an_index_is_named_and_takes_nothing_else_down() {
    let (registry, desk) = (Registry::plain(), Desk::new());
    let good = format!(
        r#"{{"name": "acme.org/good", "version": "1", "reference": "r.example/a:1@sha256:{}"}}"#,
        "0".repeat(64)
    );
    let large = good.replace(r#""version""#, &format!(r#""description": "{}", "version""#, "x".repeat(70_000)));
    let unpinned = good.replace("@sha256", "-sha256");
    let files =
        [("a.json", good.as_str()), ("b.json", "{"), ("c.json", "[1]"), ("d.json", &large), ("e.json", &unpinned)];
    for (name, text) in files {
        fs::write(desk.path().join(name), text).unwrap();
    }
    let index = desk.path().to_str().unwrap();
    let found = registry.volhost(desk.path(), &["search", "--index", index]);
    let (rows, notes) = (said(&found), String::from_utf8_lossy(&found.stderr).into_owned());
    assert_eq!(rows.lines().count(), 2, "{rows}");
    for (name, _) in &files[1..] {
        assert!(notes.contains(&format!("{name} is left out: ")), "{name}: {notes}");
    }
    let printed = refused(&registry.volhost(desk.path(), &["info", "better", "--index", index]));
    assert!(printed.contains("no plugin better"), "{printed}");
    let usage = registry.volhost(desk.path(), &["search", "--index", "nowhere"]);
    assert_eq!(usage.status.code(), Some(2), "{}", String::from_utf8_lossy(&usage.stderr));

    // A plugin is no index.
    let plugin = desk.plugin("fixture-well-behaved");
    let reference = registry.reference("acme/well-behaved:1");
    said(&desk.publish(&registry, &reference, &plugin, &[]));
    let printed = refused(&registry.volhost(desk.path(), &["search", "--index", &reference]));
    assert!(printed.contains("application/vnd.volhost.plugin-index.v1+json was expected"), "{printed}");
}
