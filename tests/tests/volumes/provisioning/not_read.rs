//! A manifest that cannot be read when volhost starts: what is known to be wanted is worked on, and
//! nothing else.

use volhost_tests::wait::eventually;

use crate::provisioning::kit::Host;

#[test]
fn an_unreadable_manifest_at_the_start_delays_only_what_may_depend_on_it() {
    let mut host = Host::native();
    host.class("fast", "allowVolumeExpansion: true\n");
    host.claim("data", "fast", "4Mi");
    let volume = host.bound("data");
    for empty in ["", "# nothing here yet\n"] {
        host.node.kill();
        host.node.manifest("empty.yaml", empty);
        let size = if empty.is_empty() { "8Mi" } else { "12Mi" };
        host.claim("data", "fast", size);
        host.claim("new", "fast", "4Mi");
        host.node.start();
        // The volume that was made before grows.
        host.node.wait_event(&["VolumeResizeSuccessful", "default/data", &volume]);
        // The file may contain the PersistentVolume of the other claim.
        host.node.wait_event(&["ManifestsNotRead", "default/new", "empty.yaml"]);
        assert_ne!(host.seen("new")["phase"], "Bound");
        // It may contain a claim, too.
        host.remove_claim("data");
        host.node.poke("-HUP");
        assert!(eventually(|| host.seen("data").is_null()));
        host.claim("data", "fast", size);
        assert_eq!(host.bound("data"), volume);
        host.node.remove_manifest("empty.yaml");
        host.bound("new");
        host.remove_claim("new");
        host.node.wait_event(&["VolumeDeleted"]);
    }
}
