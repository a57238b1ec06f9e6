//! Sources: who serves them does not depend on the order in which files are loaded.

use crate::world::{World, grants, load, name, plugin, serving};

const X: &str = "a.b/x";
const Y: &str = "a.b/y";

#[test]
fn a_plugin_keeps_its_other_sources_in_whichever_order_files_are_loaded() {
    for first in [X, Y] {
        let world = World::new();
        let x = world.file("x.wasm", &plugin(X, &["one", "two"]));
        let y = world.file("y.wasm", &plugin(Y, &["one"]));
        load(&world.start(grants("", &[])), &[&x]);

        let registry = world.start(grants("[\"a.b/y\"]\nsources = [\"one\"]", &[]));
        load(&registry, &if first == X { [&x, &y] } else { [&y, &x] });
        assert_eq!(serving(&registry, &["one", "two"]), [Y, X], "{first} first: {:?}", registry.failures());
        assert!(registry.failures().is_empty(), "{first} first: {:?}", registry.failures());
        assert!(registry.ready(&name(X)).is_some() && registry.ready(&name(Y)).is_some());

        // The owner on record has it back.
        let again = registry.regrant(grants("", &[])).unwrap();
        load(&registry, &again.iter().collect::<Vec<_>>());
        assert_eq!(serving(&registry, &["one", "two"]), [X, X], "{first} first");
        assert!(registry.ready(&name(Y)).is_none(), "{first} first");
    }
}

#[test]
fn a_source_of_kubernetes_that_was_granted_away_returns_when_the_grant_is_taken_back() {
    let world = World::new();
    let (theirs, mine) = (plugin("kubernetes.io/empty-dir", &["emptyDir"]), plugin(X, &["emptyDir"]));
    let shipped = world.file("empty-dir.wasm", &theirs);
    let x = world.file("x.wasm", &mine);
    let registry = world.start(grants("", &[&theirs]));
    load(&registry, &[&shipped, &x]);
    assert_eq!(serving(&registry, &["emptyDir"]), ["kubernetes.io/empty-dir"]);

    let again = registry.regrant(grants("[\"a.b/x\"]\nsources = [\"emptyDir\"]", &[&theirs])).unwrap();
    load(&registry, &again.iter().collect::<Vec<_>>());
    assert_eq!(serving(&registry, &["emptyDir"]), [X]);

    let again = registry.regrant(grants("", &[&theirs])).unwrap();
    load(&registry, &again.iter().collect::<Vec<_>>());
    assert_eq!(serving(&registry, &["emptyDir"]), ["kubernetes.io/empty-dir"]);
    assert!(registry.ready(&name(X)).is_none());

    // The same when the plugin's file is removed.
    let again = registry.regrant(grants("[\"a.b/x\"]\nsources = [\"emptyDir\"]", &[&theirs])).unwrap();
    load(&registry, &again.iter().collect::<Vec<_>>());
    assert_eq!(serving(&registry, &["emptyDir"]), [X]);
    registry.remove(&x);
    assert_eq!(serving(&registry, &["emptyDir"]), ["kubernetes.io/empty-dir"]);
}

#[test]
fn a_source_that_is_granted_to_two_plugins_is_served_by_none_from_then_on() {
    let world = World::new();
    let x = world.file("x.wasm", &plugin(X, &["one"]));
    let y = world.file("y.wasm", &plugin(Y, &["one"]));
    let registry = world.start(grants("[\"a.b/x\"]\nsources = [\"one\"]", &[]));
    load(&registry, &[&x, &y]);
    assert_eq!(serving(&registry, &["one"]), [X]);
    let both = "[\"a.b/x\"]\nsources = [\"one\"]\n[\"a.b/y\"]\nsources = [\"one\"]";
    let again = registry.regrant(grants(both, &[])).unwrap();
    load(&registry, &again.iter().collect::<Vec<_>>());
    assert_eq!(serving(&registry, &["one"]), [""]);
    assert_eq!(registry.failures().len(), 2, "{:?}", registry.failures());
}

#[test]
fn a_new_plugin_never_becomes_the_owner_of_a_source_that_is_granted_to_another() {
    for y_first in [true, false] {
        let world = World::new();
        let x = world.file("x.wasm", &plugin(X, &["one"]));
        let y = world.file("y.wasm", &plugin(Y, &["one"]));
        let registry = world.start(grants("[\"a.b/y\"]\nsources = [\"one\"]", &[]));
        load(&registry, &if y_first { [&y, &x] } else { [&x, &y] });
        assert_eq!(serving(&registry, &["one"]), [Y]);
        assert!(registry.failures()[0].1.contains("belongs to plugin a.b/y"), "{:?}", registry.failures());
    }
}
