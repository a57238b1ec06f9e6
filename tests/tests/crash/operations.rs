//! Every operation, killed at every call. The names of the tests are the operations'.

use volhost_tests::artifacts;
use volhost_tests::images::Podman;
use volhost_tests::kill_points::KilledProcess;

use crate::exhaustive::kill_everywhere;
use crate::pods::{Arrival, Change, Departure, Known, Requested, Subject};
use crate::site::{LOOP, Site, builder};
use crate::subjects::{Device, Folders, Image, Layers, Owned, Parts, Payloads, Pulled, Scratch, Shared, shared_volume};
use crate::witness::Witness;

fn site() -> Site {
    Site::start().with_witness(Witness::of_folders())
}

/// The pod comes, and goes.
fn comes_and_goes<S: Subject>(name: &str, mut site: Site, subject: S) {
    let mut arrival = Arrival(Known::learn(subject, &site));
    kill_everywhere(&format!("{name}: set up"), KilledProcess::Daemon, &mut site, &mut arrival);
    let mut departure = Departure(arrival.0);
    kill_everywhere(&format!("{name}: unmounted"), KilledProcess::Daemon, &mut site, &mut departure);
}

#[test]
fn folders_tmpfs_and_binds() {
    let site = site();
    let disk = site.node.folder().join("disk/local");
    std::fs::create_dir(&disk).unwrap();
    comes_and_goes("empty-dir, host-path, local", site, Folders { disk });
}

#[test]
fn an_image_that_is_pulled() {
    let site = Site::of(builder().plugin(artifacts::plugin("image"))).with_witness(Witness::of_folders());
    let layout = site.node.folder().join("disk/layout");
    let podman = Podman::new();
    podman.image("app", &[("file", &[b'x'; 100_000]), ("folder/other", b"other")]);
    podman.run(&["push", "--quiet", "--format", "oci", "app", &format!("oci:{}:1", layout.display())]);
    comes_and_goes("image: pulled from a layout", site, Pulled { layout });
}

#[test]
fn payloads_of_objects() {
    comes_and_goes("config-map, secret, projected", site(), Payloads);
}

#[test]
fn payloads_that_change() {
    let mut site = site();
    let mut change = Change(Known::learn(Payloads, &site));
    kill_everywhere("config-map, secret, projected: updated", KilledProcess::Daemon, &mut site, &mut change);
}

#[test]
fn a_file_system_from_attach_to_set_up() {
    let mut site = site();
    let mut arrival = Arrival(Known::learn(Image::new("ext4", 16).fresh(), &site));
    kill_everywhere("attach, wait-for-attach, format, stage, publish", KilledProcess::Daemon, &mut site, &mut arrival);
}

#[test]
fn a_file_system_from_tear_down_to_detach() {
    let mut site = site();
    let mut departure = Departure(Known::learn(Image::new("ext4", 16), &site));
    kill_everywhere("unpublish, unstage, detach", KilledProcess::Daemon, &mut site, &mut departure);
}

#[test]
fn a_device_from_attach_to_map_and_back() {
    comes_and_goes("device: attach, stage-device, map, and back", site(), Device);
}

#[test]
fn an_overlay_over_another_volume() {
    comes_and_goes("overlay over a staged volume", site(), Layers);
}

#[test]
fn a_volume_that_another_pod_uses() {
    let site = Site::start();
    site.node.manifest("shared.yaml", &shared_volume());
    let claimed = "name: shared, persistentVolumeClaim: { claimName: shared-claim }";
    let site = site.with_witness(Witness::new(vec![(LOOP, "shared", claimed.to_owned())]));
    comes_and_goes("second pod of a staged volume", site, Shared);
}

#[test]
fn a_file_system_that_grows_in_use() {
    let mut site = site();
    let mut change = Change(Known::learn(Image::new("xfs", 512).growing(16), &site));
    kill_everywhere("expand in use", KilledProcess::Daemon, &mut site, &mut change);
}

#[test]
fn a_file_system_that_grows_while_it_is_mounted() {
    let mut site = site();
    let mut arrival = Arrival(Known::learn(Image::new("xfs", 512).growing(16), &site));
    kill_everywhere("expand while mounting", KilledProcess::Daemon, &mut site, &mut arrival);
}

#[test]
fn files_that_are_given_to_a_group() {
    let mut site = site();
    let mut arrival = Arrival(Known::learn(Owned, &site));
    kill_everywhere("mount with fsGroup", KilledProcess::Daemon, &mut site, &mut arrival);
}

#[test]
fn parts_of_volumes() {
    comes_and_goes("subPath of empty-dir and of a file system", site(), Parts);
}

#[test]
fn a_pod_that_is_added_by_request() {
    let mut site = site();
    let mut added = Requested::learn(Scratch, &site);
    kill_everywhere("AddPods", KilledProcess::Daemon, &mut site, &mut added);
}

#[test]
fn a_pod_that_is_removed_by_request() {
    let mut site = site();
    let mut removed = Requested::learn(Scratch, &site).removal();
    kill_everywhere("RemovePod", KilledProcess::Daemon, &mut site, &mut removed);
}
