//! Counts for metrics.

use volhost_core::PluginCounts;
use volhost_model::FailureClass;

use crate::kit::*;

fn counted(world: &World) -> PluginCounts {
    world.core.counts().plugins.get(&plugin()).copied().unwrap_or_default()
}

#[test]
fn a_volume_is_counted_where_it_is_from_its_pods_wish_to_its_end() {
    let mut world = World::new();
    assert!(world.core.counts().plugins.is_empty());
    world.desire("a", vec![plain("a", "data")]);
    let nothing = PluginCounts::default();
    assert_eq!(counted(&world), PluginCounts { desired: 1, to_mount: 1, running: 1, ..nothing });
    world.done("volume_mount data a");
    assert_eq!(counted(&world), PluginCounts { desired: 1, actual: 1, ..nothing });
    world.gone("a");
    assert_eq!(counted(&world), PluginCounts { actual: 1, to_unmount: 1, running: 1, ..nothing });
    world.fails("volume_unmount data a", FailureClass::Uncertain);
    assert_eq!(counted(&world), PluginCounts { uncertain: 1, to_unmount: 1, waiting: 1, ..nothing });
    world.tick();
    world.done("volume_unmount data a");
    assert!(world.core.counts().plugins.is_empty());
}

#[test]
fn an_unresolved_volume_has_no_plugin_and_is_counted_all_the_same() {
    let mut world = World::new();
    world.desire_with("a", vec![], vec!["data"]);
    assert_eq!(world.core.counts().unresolved, 1);
    world.gone("a");
    assert_eq!(world.core.counts().unresolved, 0);
}

#[test]
fn a_claim_that_two_pods_use_is_named_once_and_only_while_it_is_mounted() {
    let mut world = World::new();
    for pod in ["a", "b"] {
        world.desire(pod, vec![staged("disk")]);
    }
    assert!(world.core.counts().claims.is_empty());
    world.settle();
    let claims = world.core.counts().claims;
    assert_eq!(claims.len(), 1);
    assert_eq!((claims[0].claim.as_str(), claims[0].pod.as_str()), ("ns/disk", "a"));
    assert_eq!(counted(&world).actual, 2, "a volume counts once for each pod");
    for pod in ["a", "b"] {
        world.gone(pod);
    }
    world.settle();
    assert!(world.core.counts().claims.is_empty());
}

#[test]
fn the_wait_for_a_volume_includes_its_retries() {
    let mut world = World::new();
    let volume = plain("a", "data");
    world.desire("a", vec![volume.clone()]);
    world.fails("volume_mount data a", FailureClass::Final);
    assert_eq!(world.core.mount_took(&uid("a"), &volume.unique_name), None);
    world.tick();
    world.done("volume_mount data a");
    let took = world.core.mount_took(&uid("a"), &volume.unique_name);
    assert!(took.is_some_and(|took| FIRST_WAIT.contains(&took)), "{took:?}");
}
