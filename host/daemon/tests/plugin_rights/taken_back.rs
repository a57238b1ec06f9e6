//! A grant that is taken back counts for plugins that are not in service yet, too.

use crate::world::{World, grants, load, name, plugin, reaching};

const X: &str = "a.b/x";

#[test]
fn a_grant_is_taken_back_from_a_plugin_that_waits_for_other_files() {
    let world = World::new();
    let x = world.file("x.wasm", &reaching(plugin(X, &["one"])));
    let registry = world.start(grants("[\"a.b/x\"]\nhost-paths = [\"/srv\"]", &[]));
    assert!(registry.load(&x).unwrap().is_none(), "its name is new");
    assert!(registry.has_candidates());

    let again = registry.regrant(grants("", &[])).unwrap();
    assert!(again.contains(&x), "it is loaded again: {again:?}");
    load(&registry, &again.iter().collect::<Vec<_>>());
    assert!(!registry.has_candidates());
    assert!(registry.ready(&name(X)).is_none(), "it has the rights of a grant that is gone");
    assert!(registry.failures()[0].1.contains("is not granted"), "{:?}", registry.failures());
}

#[test]
fn a_file_that_is_replaced_by_a_bad_one_while_it_waits_is_not_taken_into_service() {
    let world = World::new();
    let x = world.file("x.wasm", &plugin(X, &["one"]));
    let registry = world.start(grants("", &[]));
    assert!(registry.load(&x).unwrap().is_none());
    std::fs::write(&x, "no plugin").unwrap();
    load(&registry, &[&x]);
    assert!(registry.ready(&name(X)).is_none());
}
