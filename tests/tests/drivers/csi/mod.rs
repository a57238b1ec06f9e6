//! CSI drivers beside a node: registration, the whole life of a volume, and drivers that misbehave.
//! Real processes, sockets and mounts.

mod asked_once;
mod device_layout;
mod drivers_shown;
mod faults;
mod flapping;
mod growth;
mod layout;
mod node_info;
mod staging;
mod upgrade;

use std::fs;

use volhost_tests::csi::CsiDriver;
use volhost_tests::manifests::{csi_volume, device_pod, pod};
use volhost_tests::wait::eventually;
use volhost_tests::{Node, artifacts};

const NAME: &str = "csi.test";

fn node() -> Node {
    let mut node = Node::builder().plugin(artifacts::plugin("csi")).build();
    let registry = node.folder().join(volhost_tests::csi::REGISTRY).display().to_string();
    node.add_arguments(&["--plugin-registry", &registry]);
    node.start();
    node
}

/// A PersistentVolume of the driver, and its claim.
fn volume(name: &str, more: &str, mode: &str) -> String {
    csi_volume(NAME, name, more, mode)
}

fn claimed(name: &str) -> String {
    format!("name: data, persistentVolumeClaim: {{ claimName: {name}-claim }}")
}

fn object(spec: &str) -> String {
    format!("apiVersion: storage.k8s.io/v1\nkind: CSIDriver\nmetadata: {{ name: {NAME} }}\nspec: {spec}\n")
}

/// Nothing is left of any volume: no mount, no folder.
fn assert_clean(node: &Node) {
    assert_eq!(node.pod_mounts(), []);
    for folder in ["pods", "plugins/kubernetes.io"] {
        let path = node.path(&node.root().join(folder));
        let left = || fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()).collect::<Vec<_>>();
        assert!(eventually(|| left().is_empty()), "{:?}", left());
    }
}

#[test]
fn a_volume_lives_from_attach_to_detach() {
    let node = node();
    let driver = CsiDriver::start(&node, NAME, &["stage", "attach", "stats"]);
    node.wait_event(&["DriverRegistered", NAME]);
    let registered = driver.folder().join("registered");
    assert!(eventually(|| fs::read_to_string(&registered).is_ok_and(|registered| registered == "true \n")));
    let shown = node.ok(&["get", "drivers"]);
    assert!(shown.contains(NAME) && shown.contains("7.8.9") && shown.contains("Ready"), "{shown}");
    node.manifest("pv.yaml", &volume("pv", ", volumeAttributes: { pool.name/x: fast }", "Filesystem"));
    node.manifest("a.yaml", &pod("a", "uid-a", &[&claimed("pv")]));
    node.wait_mounted("default/a");
    fs::write(node.volume("uid-a", "kubernetes.io~csi", "pv").join("hello"), "x").unwrap();
    assert!(driver.folder().join("volumes/pv-id/hello").exists(), "the pod writes into the driver's volume");
    let attached = driver.last("ControllerPublishVolume");
    assert!(attached.contains("node_id: \"test-node\"") && attached.contains("pv-id"), "{attached}");
    let staged = driver.last("NodeStageVolume");
    assert!(staged.contains("\"lun\": \"4\"") && staged.contains("\"pool.name/x\": \"fast\""), "{staged}");
    let published = driver.last("NodePublishVolume");
    assert!(published.contains("\"lun\": \"4\"") && published.contains("globalmount"), "{published}");
    assert_eq!(node.wait_usage("pv")["abnormal"], "a disk is slow");
    let described = node.ok(&["describe", "volume", "pv"]);
    assert!(described.contains("a disk is slow"), "{described}");
    node.wait_event(&["VolumeConditionAbnormal", "csi.test^pv-id", "a disk is slow"]);

    // A second pod stages nothing anew that matters, and keeps the volume on the node when the
    // first goes.
    node.manifest("b.yaml", &pod("b", "uid-b", &[&claimed("pv")]));
    node.wait_mounted("default/b");
    node.remove_manifest("a.yaml");
    node.wait_unmounted("default/a");
    assert_eq!((driver.count("NodeUnpublishVolume"), driver.count("NodeUnstageVolume")), (1, 0));
    node.remove_manifest("b.yaml");
    node.wait_unmounted("default/b");
    node.ok(&["drain"]);
    assert_eq!((driver.count("NodeUnpublishVolume"), driver.count("NodeUnstageVolume")), (2, 1));
    assert_eq!(driver.count("ControllerUnpublishVolume"), 1);
    assert_clean(&node);
}

#[test]
fn a_csi_driver_object_decides_on_attaching_and_on_volumes_of_pods() {
    let node = node();
    let driver = CsiDriver::start(&node, NAME, &["attach"]);
    node.manifest("inline.yaml", &pod("i", "uid-i", &[&format!("name: data, csi: {{ driver: {NAME} }}")]));
    node.wait_blocked("i", &["volumeLifecycleModes", "Ephemeral"]);
    let spec = "{ attachRequired: false, podInfoOnMount: true, volumeLifecycleModes: [Persistent, Ephemeral] }";
    node.manifest("driver.yaml", &object(spec));
    node.wait_mounted("default/i");
    let published = driver.last("NodePublishVolume");
    assert!(published.contains("\"csi.storage.k8s.io/pod.name\": \"i\""), "{published}");
    assert!(published.contains("\"csi.storage.k8s.io/ephemeral\": \"true\""), "{published}");
    node.manifest("pv.yaml", &volume("pv", "", "Filesystem"));
    node.manifest("a.yaml", &pod("a", "uid-a", &[&claimed("pv")]));
    node.wait_mounted("default/a");
    assert_eq!(driver.count("ControllerPublishVolume"), 0);
    for pod in ["inline", "a"] {
        node.remove_manifest(&format!("{pod}.yaml"));
    }
    node.wait_unmounted("default/i");
    node.wait_unmounted("default/a");
    node.ok(&["drain"]);
    assert_clean(&node);
}

#[test]
fn secrets_reach_the_driver_and_no_log() {
    let node = node();
    let driver = CsiDriver::start(&node, NAME, &["stage"]);
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: { name: login, namespace: store }\nstringData: { password: s3cret-word }\n";
    node.manifest("secret.yaml", secret);
    let references = ", nodeStageSecretRef: { name: login, namespace: store }, nodePublishSecretRef: { name: login, namespace: store }";
    node.manifest("pv.yaml", &volume("pv", references, "Filesystem"));
    node.manifest("a.yaml", &pod("a", "uid-a", &[&claimed("pv")]));
    node.wait_mounted("default/a");
    for call in ["NodeStageVolume", "NodePublishVolume"] {
        assert!(driver.last(call).contains("\"password\": \"s3cret-word\""), "{}", driver.last(call));
    }
    assert!(node.log().contains("audit: secret store/login was used"), "{}", node.log());
    for shown in [node.log(), node.ok(&["events"]), node.ok(&["describe", "volume", "pv"])] {
        assert!(!shown.contains("s3cret-word"), "{shown}");
    }
    node.ok(&["drain"]);
}

#[test]
fn a_device_is_handed_over_and_taken_back() {
    let node = node();
    let driver = CsiDriver::start(&node, NAME, &["stage"]);
    node.manifest("pv.yaml", &volume("pv", "", "Block"));
    node.manifest("a.yaml", &device_pod("a", "uid-a", "pv-claim"));
    node.wait_mounted("default/a");
    let link = node.root().join("pods/uid-a/volumeDevices/kubernetes.io~csi/pv");
    let seen = node.inside("stat").args(["-L", "-c", "%F"]).arg(&link).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&seen.stdout).trim(), "block special file");
    node.remove_manifest("a.yaml");
    node.wait_unmounted("default/a");
    node.ok(&["drain"]);
    assert_eq!((driver.count("NodeUnpublishVolume"), driver.count("NodeUnstageVolume")), (1, 1));
    assert_clean(&node);
}

#[test]
fn a_device_is_published_for_each_pod_and_the_driver_learns_which() {
    let mut node = node();
    let driver = CsiDriver::start(&node, NAME, &["stage", "expand"]);
    node.manifest("driver.yaml", &object("{ podInfoOnMount: true }"));
    node.manifest("pv.yaml", &volume("pv", "", "Block"));
    for name in ["a", "b"] {
        node.manifest(&format!("{name}.yaml"), &device_pod(name, &format!("uid-{name}"), "pv-claim"));
        node.wait_mounted(&format!("default/{name}"));
        let published = driver.last("NodePublishVolume");
        assert!(published.contains(&format!("\"csi.storage.k8s.io/pod.name\": \"{name}\"")), "{published}");
        assert!(published.contains(&format!("/publish/pv/uid-{name}\"")), "{published}");
    }
    assert_eq!(driver.count("NodePublishVolume"), 2);
    node.manifest("pv.yaml", &volume("pv", "", "Block").replace("storage: 32Mi", "storage: 64Mi"));
    node.wait_event(&["FileSystemResizeSuccessful"]);
    assert!(driver.last("NodeExpandVolume").contains("/publish/pv/uid-"), "{}", driver.last("NodeExpandVolume"));
    node.kill();
    node.start();
    node.remove_manifest("a.yaml");
    node.wait_unmounted("default/a");
    assert!(
        driver.last("NodeUnpublishVolume").contains("/publish/pv/uid-a\""),
        "{}",
        driver.last("NodeUnpublishVolume")
    );
    assert_eq!((driver.count("NodeUnpublishVolume"), driver.count("NodeUnstageVolume")), (1, 0));
    node.remove_manifest("b.yaml");
    node.wait_unmounted("default/b");
    node.ok(&["drain"]);
    assert_eq!((driver.count("NodeUnpublishVolume"), driver.count("NodeUnstageVolume")), (2, 1));
    assert_clean(&node);
}

#[test]
fn a_volume_grows_on_the_node() {
    let node = node();
    let driver = CsiDriver::start(&node, NAME, &["stage", "expand"]);
    node.manifest("pv.yaml", &volume("pv", "", "Filesystem"));
    node.manifest("a.yaml", &pod("a", "uid-a", &[&claimed("pv")]));
    node.wait_mounted("default/a");
    let larger = volume("pv", "", "Filesystem").replace("storage: 32Mi", "storage: 64Mi");
    node.manifest("pv.yaml", &larger);
    node.wait_event(&["FileSystemResizeSuccessful", "default/a"]);
    let grown = driver.last("NodeExpandVolume");
    assert!(grown.contains("required_bytes: 67108864") && grown.contains("/volumes/kubernetes.io~csi/pv"), "{grown}");
    node.ok(&["drain"]);
}

#[test]
fn answers_are_final_or_uncertain_and_both_end_well() {
    let node = node();
    let driver = CsiDriver::start(&node, NAME, &["stage"]);
    node.manifest("pv.yaml", &volume("pv", "", "Filesystem"));
    // Final: nothing was published, so nothing is taken back when the pod goes.
    driver.order("NodePublishVolume answer 13");
    node.manifest("a.yaml", &pod("a", "uid-a", &[&claimed("pv")]));
    node.wait_event(&["FailedMount", "default/a", "NodePublishVolume", "as ordered (gRPC code 13)"]);
    node.remove_manifest("a.yaml");
    node.wait_unmounted("default/a");
    assert_eq!(driver.count("NodeUnpublishVolume"), 0);
    // Nothing of it was ever mounted, so only a look at what gone pods have left removes its
    // folders.
    node.poke("-HUP");
    let folder = node.path(&node.root().join("pods/uid-a"));
    assert!(eventually(|| !folder.exists()), "{folder:?} stays");
    // Uncertain: it is published, whatever the driver says, and is taken back.
    driver.order("NodePublishVolume late 4");
    node.manifest("b.yaml", &pod("b", "uid-b", &[&claimed("pv")]));
    node.wait_event(&["FailedMount", "default/b", "NodePublishVolume", "gRPC code 4"]);
    node.remove_manifest("b.yaml");
    node.wait_unmounted("default/b");
    assert_eq!(driver.count("NodeUnpublishVolume"), 1);
    // It says that it has mounted, and has not.
    driver.order("NodePublishVolume idle");
    node.manifest("c.yaml", &pod("c", "uid-c", &[&claimed("pv")]));
    node.wait_event(&["FailedMount", "default/c", "was answered with ok", "has mounted nothing"]);
    driver.order("NodeUnpublishVolume leave");
    node.wait_mounted("default/c");
    // It says that it has unmounted, and has not: the host does.
    node.remove_manifest("c.yaml");
    node.wait_unmounted("default/c");
    node.ok(&["drain"]);
    assert!(node.log().contains("has left a mount"), "{}", node.log());
    assert_clean(&node);
}

#[test]
fn a_daemon_killed_between_two_calls_finds_what_was_published() {
    let mut node = node();
    let driver = CsiDriver::start(&node, NAME, &["stage"]);
    node.manifest("pv.yaml", &volume("pv", "", "Filesystem"));
    node.manifest("a.yaml", &pod("a", "uid-a", &[&claimed("pv")]));
    node.wait_mounted("default/a");
    node.kill();
    node.remove_manifest("a.yaml");
    node.start();
    node.wait_unmounted("default/a");
    node.ok(&["drain"]);
    assert_eq!((driver.count("NodeUnpublishVolume"), driver.count("NodeUnstageVolume")), (1, 1));
    assert_clean(&node);
}

#[test]
fn a_registrar_learns_why_its_driver_is_refused() {
    let node = node();
    let registry = node.folder().join(volhost_tests::csi::REGISTRY);
    for (name, file, content, why) in [
        ("old.test", "versions", "0.3.0 2.0.0", "only versions from 1.0.0 up to before 2.0.0"),
        ("other.test", "type", "DevicePlugin", "only CSIPlugin can register here"),
        ("lost.test", "endpoint", "/nowhere/csi.sock", "is no socket on this node"),
    ] {
        let folder = node.folder().join("disk").join(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(file), content).unwrap();
        let driver = CsiDriver::start(&node, name, &[]);
        let registered = || fs::read_to_string(folder.join("registered")).unwrap_or_default();
        assert!(eventually(|| registered().contains(why)), "{}", registered());
        assert!(registered().starts_with("false "), "{}", registered());
        let shown = || node.ok(&["get", "drivers", "-o", "wide"]);
        assert!(eventually(|| shown().contains(name) && shown().contains("Failed")), "{}", shown());
        // With its socket the driver goes.
        drop(driver);
        fs::remove_file(registry.join(format!("{name}-reg.sock"))).unwrap();
        assert!(eventually(|| !node.ok(&["get", "drivers"]).contains(name)));
    }
}

#[test]
fn a_driver_that_goes_and_comes_back_is_used_again() {
    let node = node();
    node.manifest("pv.yaml", &volume("pv", "", "Filesystem"));
    node.manifest("a.yaml", &pod("a", "uid-a", &[&claimed("pv")]));
    node.wait_event(&["default/a", "CSI driver csi.test is not registered on this node"]);
    let mut driver = CsiDriver::start(&node, NAME, &["stage"]);
    node.wait_mounted("default/a");
    driver.kill();
    fs::remove_file(driver.registration()).unwrap();
    node.remove_manifest("a.yaml");
    node.wait_event(&["default/a", "FailedUnmount", "is not registered on this node"]);
    let printed = node.ok(&["events"]);
    let mut unmounts = printed.lines().filter(|line| line.contains("FailedUnmount"));
    assert!(unmounts.all(|line| !line.contains("may have happened")), "the driver was never asked: {printed}");
    assert_eq!(node.pod_mounts().len(), 1, "published volumes stay while the driver cannot be called");
    driver.run(&node);
    node.wait_unmounted("default/a");
    node.ok(&["drain"]);
    assert_clean(&node);
}

#[test]
fn a_secret_that_a_driver_repeats_is_redacted() {
    let node = node();
    let driver = CsiDriver::start(&node, NAME, &["stage"]);
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: { name: login, namespace: store }\nstringData: { password: s3cret-word }\n";
    node.manifest("secret.yaml", secret);
    let references = ", nodeStageSecretRef: { name: login, namespace: store }, nodePublishSecretRef: { name: login, namespace: store }";
    node.manifest("pv.yaml", &volume("pv", references, "Filesystem"));
    for call in ["NodeStageVolume", "NodePublishVolume"] {
        driver.order(&format!("{call} echo 16"));
        node.manifest("a.yaml", &pod("a", "uid-a", &[&claimed("pv")]));
        node.wait_event(&["FailedMount", "default/a", call, "cannot log in with", "[redacted]"]);
    }
    let shown = [
        node.log(),
        node.ok(&["events"]),
        node.ok(&["describe", "pod", "a"]),
        node.ok(&["get", "operations", "-o", "json"]),
    ];
    for shown in shown {
        assert!(!shown.contains("s3cret-word"), "{shown}");
    }
    assert!(driver.last("NodePublishVolume").contains("s3cret-word"), "the driver had it");
    driver.order("");
    node.wait_mounted("default/a");
    node.ok(&["drain"]);
}

#[test]
fn a_driver_that_wants_it_is_asked_to_publish_again_from_time_to_time() {
    let mut node = Node::builder().plugin(artifacts::plugin("csi")).build();
    let registry = node.folder().join(volhost_tests::csi::REGISTRY).display().to_string();
    node.add_arguments(&["--plugin-registry", &registry, "--refresh-period", "50ms"]);
    node.start();
    let driver = CsiDriver::start(&node, NAME, &["stage"]);
    node.manifest("pv.yaml", &volume("pv", "", "Filesystem"));
    node.manifest("a.yaml", &pod("a", "uid-a", &[&claimed("pv")]));
    node.wait_mounted("default/a");
    node.manifest("driver.yaml", &object("{ requiresRepublish: true }"));
    assert!(eventually(|| driver.count("NodePublishVolume") >= 4), "{:#?}", driver.calls());
    // It may refuse: what the pod has stays.
    driver.order("NodePublishVolume answer 13");
    node.wait_event(&["FailedMount", "default/a", "as ordered"]);
    assert_eq!(node.pod_mounts().len(), 1);
    driver.order("");
    node.remove_manifest("a.yaml");
    node.wait_unmounted("default/a");
    node.ok(&["drain"]);
    assert_clean(&node);
}

#[test]
fn what_a_volume_attachment_says_is_the_publish_context() {
    let mut node = Node::builder().plugin(artifacts::plugin("csi")).build();
    let registry = node.folder().join(volhost_tests::csi::REGISTRY).display().to_string();
    node.add_arguments(&["--plugin-registry", &registry, "--controller-attaches"]);
    node.start();
    let driver = CsiDriver::start(&node, NAME, &["stage", "attach", "group"]);
    node.manifest("pv.yaml", &volume("pv", "", "Filesystem"));
    let with_group =
        pod("a", "uid-a", &[&claimed("pv")]).replacen("spec:\n", "spec:\n  securityContext: { fsGroup: 77 }\n", 1);
    node.manifest("a.yaml", &with_group);
    node.wait_event(&["DriverRegistered", NAME]);
    let attachment = format!(
        "apiVersion: storage.k8s.io/v1\nkind: VolumeAttachment\nmetadata: {{ name: va }}\nspec: {{ attacher: {NAME}, nodeName: test-node, source: {{ persistentVolumeName: pv }} }}\nstatus: {{ attached: true, attachmentMetadata: {{ lun: '9' }} }}\n"
    );
    node.manifest("va.yaml", &attachment);
    node.wait_mounted("default/a");
    for call in ["NodeStageVolume", "NodePublishVolume"] {
        let sent = driver.last(call);
        assert!(sent.contains("\"lun\": \"9\"") && sent.contains("volume_mount_group: \"77\""), "{sent}");
    }
    assert_eq!(driver.count("ControllerPublishVolume"), 0, "the controller has done that");
    node.remove_manifest("a.yaml");
    node.wait_unmounted("default/a");
    node.ok(&["drain"]);
    assert_clean(&node);
}

#[test]
fn a_former_in_tree_source_is_served_by_the_csi_driver_that_replaced_it() {
    const DRIVER: &str = "ebs.csi.aws.com";
    let node = node();
    let disk = "name: data, awsElasticBlockStore: { volumeID: aws://us-east-1a/vol-1, fsType: ext4, partition: 2 }";
    node.manifest("own.yaml", &pod("own", "uid-own", &[disk]));
    node.wait_event(&["default/own", DRIVER, "which serves awsElasticBlockStore, is not registered on this node"]);
    let driver = CsiDriver::start(&node, DRIVER, &["stage", "attach"]);
    node.wait_mounted("default/own");
    let staged = driver.last("NodeStageVolume");
    assert!(staged.contains("volume_id: \"vol-1\""), "{staged}");
    assert!(staged.contains("\"partition\": \"2\"") && staged.contains("fs_type: \"ext4\""), "{staged}");
    assert!(node.volume("uid-own", "kubernetes.io~csi", "data").exists());
    node.manifest(
        "pv.yaml",
        "apiVersion: v1
kind: PersistentVolume
metadata: { name: disk-2, labels: { topology.kubernetes.io/zone: us-east-1b } }
spec: { capacity: { storage: 1Gi }, accessModes: [ReadWriteOnce], awsElasticBlockStore: { volumeID: vol-2 } }
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: { name: disk-2 }
spec: { accessModes: [ReadWriteOnce], volumeName: disk-2, resources: { requests: { storage: 1Gi } } }
",
    );
    let claimed = "name: data, persistentVolumeClaim: { claimName: disk-2 }";
    node.manifest("far.yaml", &pod("far", "uid-far", &[claimed]));
    node.wait_blocked("far", &["disk-2", "topology.ebs.csi.aws.com/zone in (us-east-1b)"]);
    for pod in ["own", "far"] {
        node.remove_manifest(&format!("{pod}.yaml"));
        node.wait_unmounted(&format!("default/{pod}"));
    }
    node.ok(&["drain"]);
    assert_eq!(driver.count("ControllerUnpublishVolume"), 1);
    assert_clean(&node);
}

#[test]
fn a_source_that_kubernetes_removed_is_told_with_what_to_write_instead() {
    let node = node();
    for (pod_name, source, words) in [
        ("rbd", "rbd: { image: i, monitors: [m] }", "driver rbd.csi.ceph.com"),
        ("cephfs", "cephfs: { monitors: [m] }", "driver cephfs.csi.ceph.com"),
        ("gluster", "glusterfs: { endpoints: e, path: p }", "removed it in 1.26"),
        (
            "scale",
            "scaleIO: { gateway: g, system: s, volumeName: v, secretRef: { name: s } }",
            "csi-vxflexos.dellemc.com",
        ),
        ("photon", "photonPersistentDisk: { pdID: p }", "does not serve it any more"),
    ] {
        node.manifest(
            &format!("{pod_name}.yaml"),
            &pod(pod_name, &format!("uid-{pod_name}"), &[&format!("name: data, {source}")]),
        );
        node.wait_blocked(pod_name, &["no loaded plugin serves the volume source", words]);
    }
}
