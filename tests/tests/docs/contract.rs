//! The contract's files say what the documents say of them.

use volhost_tests::artifacts::workspace;
use wit_parser::{Resolve, WorldKey};

#[test]
fn the_contract_and_the_plan_for_the_rest_of_it_are_valid_wit() {
    let mut resolve = Resolve::default();
    let (contract, _) = resolve.push_dir(workspace().join("wit")).unwrap();
    let name = resolve.packages[contract].name.to_string();
    assert_eq!(name, "volhost:plugin@0.1.0");
    let world = resolve.select_world(&[contract], Some("volume-plugin")).unwrap();
    let exports: Vec<String> = resolve.worlds[world].exports.keys().map(|key| resolve.name_world_key(key)).collect();
    assert_eq!(exports, ["volhost:plugin/plugin@0.1.0", "volhost:plugin/publisher@0.1.0"]);

    let (plan, _) = resolve.push_dir(workspace().join("wit/planned")).unwrap();
    for capability in [
        "attacher",
        "other-nodes",
        "stager",
        "block-mapper",
        "expander",
        "stats",
        "controller",
        "snapshotter",
        "modifier",
        "group-snapshotter",
    ] {
        let world = format!("{capability}-capability");
        let world = resolve.select_world(&[contract], Some(&world)).unwrap();
        let exports: Vec<String> =
            resolve.worlds[world].exports.keys().map(|key| resolve.name_world_key(key)).collect();
        assert_eq!(exports, [format!("volhost:plugin/{capability}@0.1.0")]);
    }
    assert!(resolve.packages[plan].interfaces.contains_key("recovery"), "recovery is not planned");
    assert!(
        !resolve.packages[contract].interfaces.contains_key("recovery"),
        "recovery has landed: take it out of the plan"
    );
}

#[test]
fn what_a_minimal_plugin_imports_needs_no_grant() {
    let mut resolve = Resolve::default();
    let (contract, _) = resolve.push_dir(workspace().join("wit")).unwrap();
    let world = resolve.select_world(&[contract], Some("minimal-plugin")).unwrap();
    let names = |items: &mut dyn Iterator<Item = &WorldKey>| -> Vec<String> {
        let full = items.map(|key| resolve.name_world_key(key));
        full.map(|name| name.trim_start_matches("volhost:plugin/").trim_end_matches("@0.1.0").to_owned()).collect()
    };
    assert_eq!(names(&mut resolve.worlds[world].exports.keys()), ["plugin", "publisher"]);
    let imports = names(&mut resolve.worlds[world].imports.keys());
    assert_eq!(imports, ["types", "volumes", "mounts", "log"]);
    let page = std::fs::read_to_string(workspace().join("docs/plugins.md")).unwrap();
    for import in imports.iter().filter(|import| *import != "types") {
        let row = page.lines().find(|line| line.starts_with("| `") && line.contains(&format!("`{import}`")));
        assert!(row.unwrap().ends_with("| everyone |"), "{import}: {row:?}");
    }
}

#[test]
fn every_function_of_the_contract_says_what_it_does() {
    let mut resolve = Resolve::default();
    let (contract, _) = resolve.push_dir(workspace().join("wit")).unwrap();
    // What a plain getter of the pod or node returns is its name.
    let obvious = ["uid", "namespace", "name", "service-account", "label", "annotation", "write"];
    for (interface, id) in &resolve.packages[contract].interfaces {
        for (name, function) in &resolve.interfaces[*id].functions {
            let short = name.rsplit('.').next().unwrap();
            assert!(
                function.docs.contents.is_some() || obvious.contains(&short),
                "{interface}: {name} has no documentation"
            );
        }
    }
}
