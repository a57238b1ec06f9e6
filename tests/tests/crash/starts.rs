//! The start and the stop of the daemon, killed at every call.

use volhost_tests::Node;
use volhost_tests::kill_points::{KillPoint, KilledProcess};
use volhost_tests::manifests::pod;
use volhost_tests::wait::eventually;

use crate::exhaustive::report;
use crate::pods::Known;
use crate::site::Site;
use crate::subjects::Device;
use crate::witness::Witness;

#[test]
fn a_start_that_adopts_and_unmounts() {
    let mut site = Site::start().with_witness(Witness::of_folders());
    let known = Known::learn(Device, &site);
    let (mut points, mut point) = (Vec::new(), 0);
    loop {
        known.name(&site);
        known.assert_up(&site);
        site.node.kill();
        known.forget(&site);
        let (following, readiness) = site.start_followed(KillPoint { who: KilledProcess::Daemon, before: Some(point) });
        assert!(eventually(|| following.has_ended() || known.is_down(&site)), "{}", site.node.log());
        let seen = following.end();
        drop(readiness);
        site.node.kill();
        site.revive();
        known.assert_down(&site);
        site.check_witness();
        if !seen.killed {
            break;
        }
        points.extend(seen.calls.last().cloned());
        point += 1;
    }
    report("start with volumes to adopt and to unmount", &points, points.len());
    assert!(points.len() > 10, "{points:?}");
}

#[test]
fn a_first_start_and_a_drained_stop() {
    let mut site = Site::start();
    let manifest = pod("a", "uid-a", &["name: fast, emptyDir: { medium: Memory }"]);
    site.node.ok(&["drain"]);
    assert!(site.node.terminate().success());
    site.node.manifest("a.yaml", &manifest);
    let (mut points, mut point) = (Vec::new(), 0);
    loop {
        let (following, readiness) = site.start_followed(KillPoint { who: KilledProcess::Daemon, before: Some(point) });
        if readiness.is_ready() {
            // Any of these may find it dead.
            site.node.cli(&["wait", "pod", "default/a", "--timeout", "60s"]);
            if site.node.cli(&["drain"]).status.success() {
                site.node.poke("-TERM");
                assert!(eventually(|| following.has_ended()), "{}", site.node.log());
            }
        }
        let seen = following.end();
        site.node.kill();
        site.revive();
        site.node.wait_mounted("default/a");
        assert_plain_after_stop(&mut site.node);
        if !seen.killed {
            break;
        }
        points.extend(seen.calls.last().cloned());
        point += 1;
    }
    report("first start, drain and stop", &points, points.len());
    assert!(points.len() > 10, "{points:?}");
}

#[test]
fn a_start_on_the_state_of_another_layout_changes_nothing() {
    let mut site = Site::start();
    site.node.manifest("a.yaml", &pod("a", "uid-a", &["name: fast, emptyDir: { medium: Memory }"]));
    site.node.wait_mounted("default/a");
    site.node.kill();
    let version = site.node.path(&site.node.root().join("state/version"));
    let number = std::fs::read(&version).unwrap();
    for (other, found) in [(None, "without a number"), (Some("99\n"), "layout 99")] {
        match other {
            Some(text) => std::fs::write(&version, text).unwrap(),
            None => std::fs::remove_file(&version).unwrap(),
        }
        let before = site.inventory();
        let refused = || {
            assert!(!site.node.try_start(), "{}", site.log());
            site.log().contains("was written by another version of volhost") && site.log().contains(found)
        };
        assert!(eventually(refused), "{}", site.log());
        assert_eq!(site.inventory(), before);
    }
    std::fs::write(&version, number).unwrap();
    site.revive();
    site.node.wait_mounted("default/a");
}

/// After a drain and a stop the root folder is a plain folder with nothing in it but the lock, and
/// what is known of plugins.
fn assert_plain_after_stop(node: &mut Node) {
    node.ok(&["drain"]);
    assert!(node.terminate().success(), "{}", node.log());
    assert_eq!(node.all_mounts(), Vec::new());
    let left = std::fs::read_dir(node.path(&node.root())).unwrap();
    let mut left: Vec<String> = left.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    left.retain(|name| !["approvals", "lock", "plugins", "pods", "state"].contains(&name.as_str()));
    assert_eq!(left, Vec::<String>::new());
}
