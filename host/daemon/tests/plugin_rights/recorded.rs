//! The record of approvals on a disk that is full for some time.

use crate::world::{World, grants, load, name, plugin, reaching};

const X: &str = "a.b/x";
const GRANT: &str = "[\"a.b/x\"]\nhost-paths = [\"/srv\"]";

#[test]
fn a_plugin_whose_approval_could_not_be_written_is_listed_for_another_try() {
    let world = World::new();
    let x = world.file("x.wasm", &reaching(plugin(X, &["one"])));
    let registry = world.start(grants(GRANT, &[]));
    world.kernel.crash_at(0);
    load(&registry, &[&x]);
    assert!(registry.ready(&name(X)).is_none());
    assert!(registry.failures()[0].1.contains("cannot be recorded"), "{:?}", registry.failures());
    assert_eq!(registry.not_recorded(), std::slice::from_ref(&x));

    world.kernel.clear_faults();
    load(&registry, &[&x]);
    assert!(registry.ready(&name(X)).is_some(), "{:?}", registry.failures());
    assert!(registry.not_recorded().is_empty());
}

#[test]
fn a_record_that_could_not_be_opened_at_the_start_is_opened_by_a_later_try() {
    let world = World::new();
    let x = world.file("x.wasm", &reaching(plugin(X, &["one"])));
    world.kernel.fail_at(0, rustix::io::Errno::NOSPC);
    let registry = world.start(grants(GRANT, &[]));
    load(&registry, &[&x]);
    assert!(registry.ready(&name(X)).is_some(), "{:?}", registry.failures());
    // And the grant belongs to that content from then on.
    drop(registry);
    let y = world.file("x.wasm", &reaching(plugin(X, &["one", "two"])));
    let registry = world.start(grants(GRANT, &[]));
    load(&registry, &[&y]);
    assert!(registry.failures()[0].1.contains("belongs to another content"), "{:?}", registry.failures());
}
