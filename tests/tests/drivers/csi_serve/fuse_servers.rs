//! A plugin with a FUSE server: it runs as long as the CO wants the volume, and the volume of one
//! that died is published again.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};
use volhost_proto::csi::*;
use volhost_tests::artifacts;
use volhost_tests::wait::eventually;

use crate::csi_serve::kit::{Host, SINGLE_NODE_WRITER, map, mount};

fn served() -> (Host, Volume, NodePublishVolumeRequest) {
    let host = Host::serve(&artifacts::fixture("fixture-helped"), &[]);
    let disk = host.node.folder().join("disk/data");
    let disk = disk.display();
    let sources = format!(r#"{{"lower":"{disk}/lower","upper":"{disk}/upper","work":"{disk}/work"}}"#);
    let context = map(&[("server", "cow"), ("sources", &sources)]);
    let volume = Volume { volume_id: "data".to_owned(), volume_context: context, ..Volume::default() };
    let mut capability = mount(SINGLE_NODE_WRITER);
    if let Some(volume_capability::AccessType::Mount(mount)) = &mut capability.access_type {
        mount.fs_type = String::new();
    }
    let request = NodePublishVolumeRequest {
        staging_target_path: String::new(),
        ..host.publish_request(&volume, capability, "a")
    };
    (host, volume, request)
}

/// The processes on the driver's record.
fn servers(host: &Host) -> Vec<Pid> {
    let records = fs::read_dir(host.node.path(&host.served.state().join("fuse-servers"))).unwrap();
    let read = records.filter_map(|record| {
        let text = fs::read_to_string(record.unwrap().path()).ok()?;
        serde_json::from_str::<serde_json::Value>(&text).ok()
    });
    read.filter_map(|record| Pid::from_raw(i32::try_from(record["process"]["pid"].as_i64()?).ok()?)).collect()
}

fn runs(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

#[test]
fn a_server_outlives_the_driver_and_ends_with_its_volume() {
    let (mut host, volume, request) = served();
    host.publish(request.clone()).unwrap();
    let file = host.seen(&host.target("a")).join("file");
    fs::write(&file, "written").unwrap();
    let before = servers(&host);
    assert_eq!(before.len(), 1);
    host.served.kill();
    host.revive();
    assert!(runs(before[0]));
    host.publish(request).unwrap();
    assert_eq!(servers(&host), before, "it is the same one");
    assert_eq!(fs::read_to_string(&file).unwrap(), "written");
    assert!(host.figures(&volume.volume_id, "a").unwrap().usage[0].total > 0);

    for _ in 0..2 {
        host.unpublish(&volume.volume_id, "a").unwrap();
    }
    assert!(eventually(|| !runs(before[0]) && servers(&host).is_empty()), "{}", host.served.log());
    host.assert_clean();
    assert_eq!(fs::read_to_string(host.node.folder().join("disk/data/upper/file")).unwrap(), "written");
}

#[test]
fn the_volume_of_a_server_that_died_is_published_again_on_request() {
    for driver_down in [false, true] {
        let (mut host, volume, request) = served();
        host.publish(request.clone()).unwrap();
        let file = host.seen(&host.target("a")).join("file");
        fs::write(&file, "written").unwrap();
        let first = servers(&host)[0];
        if driver_down {
            host.served.kill();
        }
        kill_process(first, Signal::KILL).unwrap();
        assert!(eventually(|| !runs(first)));
        if driver_down {
            host.revive();
        }
        assert!(eventually(|| host.served.log().contains("FUSE server cow")), "{}", host.served.log());
        // Not the node's disk below the mount: what pods write now must not end there.
        assert!(fs::write(&file, "lost").is_err());
        let said = host.figures(&volume.volume_id, "a").unwrap_err();
        assert!(said.message().contains("not connected"), "{said}");

        host.publish(request).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "written");
        assert_ne!(servers(&host), [first]);
        host.unpublish(&volume.volume_id, "a").unwrap();
        assert!(eventually(|| servers(&host).is_empty()), "{}", host.served.log());
        host.assert_clean();
    }
}
