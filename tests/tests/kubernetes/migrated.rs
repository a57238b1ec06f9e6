//! Volumes of a former in-tree plugin, on a stock control plane: every program of it takes them for
//! volumes of the CSI driver that replaced the plugin.

use std::sync::Arc;

use volhost_tests::artifacts;
use volhost_tests::csi_serve::CsiServe;
use volhost_tests::loop_devices::LoopDevices;
use volhost_tests::wait::eventually;

use crate::agent_node::AgentNode;
use crate::controllers::Controller;

const PLUGIN: &str = "kubernetes.io/cinder";
const DRIVER: &str = "cinder.csi.openstack.org";
const NAME: &str = "migrated";

#[test]
fn a_claim_of_a_former_in_tree_class_is_made_attached_grown_and_deleted_by_the_driver() {
    let node = AgentNode::start_as_one(NAME, &[]);
    let cluster = Arc::clone(&node.cluster);
    let disk = node.node.folder().join("disk");
    let registry = node.node.folder().join("registry").display().to_string();
    let arguments = ["--driver-name", DRIVER, "--registration-dir", &registry, "--enable-attach", "--node-id", NAME];
    let served = CsiServe::start_on(&node.node, NAME, &artifacts::plugin("loop"), &disk, &arguments);
    let devices = LoopDevices::below(&disk);
    cluster.apply(&format!(
        "apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {{ name: {DRIVER} }}
spec: {{ attachRequired: true, fsGroupPolicy: File }}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {{ name: {NAME} }}
provisioner: {PLUGIN}
allowVolumeExpansion: true
parameters: {{ fsType: xfs, folder: {} }}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{ name: {NAME} }}
spec: {{ accessModes: [ReadWriteOnce], storageClassName: {NAME}, resources: {{ requests: {{ storage: 320Mi }} }} }}
",
        disk.display()
    ));
    let controller = Controller::start_for(&cluster, &served, DRIVER, NAME, &[]);
    let known = || format!("{}\n{}", controller.known(), node.node.log());
    let get = |object: &[&str], path: &str| {
        cluster.try_kubectl(&[&["get"], object, &["-o", &format!("jsonpath={{{path}}}")]].concat()).unwrap_or_default()
    };
    let volume = || get(&["pvc", NAME], ".spec.volumeName");
    assert!(eventually(|| get(&["pvc", NAME], ".status.phase") == "Bound"), "{}", known());
    // It is written as the plugin wrote its volumes.
    let name = volume();
    let handle = get(&["pv", &name], ".spec.cinder.volumeID");
    assert!(!handle.is_empty() && get(&["pv", &name], ".spec.csi").is_empty(), "{}", known());
    assert_eq!(get(&["pv", &name], ".spec.cinder.fsType"), "xfs");
    let annotation = |key: &str| get(&["pv", &name], &format!(".metadata.annotations.pv\\.kubernetes\\.io/{key}"));
    assert_eq!((annotation("provisioned-by").as_str(), annotation("migrated-to").as_str()), (PLUGIN, DRIVER));

    let uid = node.pod(NAME, &format!("[{{ name: vdata, persistentVolumeClaim: {{ claimName: {NAME} }} }}]"));
    let folder = node.file(&uid, "kubernetes.io~csi", &format!("{name}/mount"));
    let is_mounted =
        || node.node.all_mounts().iter().any(|mount| mount.point.ends_with(format!("kubernetes.io~csi/{name}/mount")));
    assert!(eventually(is_mounted), "{}", known());
    let in_use = || get(&["node", NAME], ".status.volumesInUse[*]");
    assert_eq!(in_use(), format!("kubernetes.io/csi/{DRIVER}^{handle}"));
    let attachers = || {
        get(&["volumeattachments"], &format!(".items[?(@.spec.source.persistentVolumeName==\"{name}\")].spec.attacher"))
    };
    assert_eq!(attachers(), DRIVER);

    cluster.kubectl(&["patch", "pvc", NAME, "-p", r#"{"spec":{"resources":{"requests":{"storage":"512Mi"}}}}"#]);
    let size = || get(&["pvc", NAME], ".status.capacity.storage");
    assert!(eventually(|| size() == "512Mi"), "{}\n{}", get(&["pvc", NAME], ".status"), known());
    let space = rustix::fs::statvfs(&folder).unwrap();
    assert!(space.f_blocks * space.f_frsize > 400 << 20, "{} blocks", space.f_blocks);

    std::fs::write(folder.join("marker"), "of the claim").unwrap();

    // A pod may also name the disk itself, as Kubernetes attaches it by an inline spec then.
    node.delete_pod(NAME);
    assert!(eventually(|| attachers().is_empty() && in_use().is_empty()), "{}", known());
    let own = node.pod("migrated-own", &format!("[{{ name: vown, cinder: {{ volumeID: '{handle}', fsType: xfs }} }}]"));
    let own_folder = node.file(&own, "kubernetes.io~csi", "vown/mount");
    let is_mounted = || {
        node.node
            .all_mounts()
            .iter()
            .any(|mount| mount.point.ends_with(format!("{own}/volumes/kubernetes.io~csi/vown/mount")))
    };
    assert!(eventually(is_mounted), "{}", known());
    node.assert_content(&own_folder.join("marker"), "of the claim");
    let inline = || {
        get(
            &["volumeattachments"],
            &format!(".items[?(@.spec.source.inlineVolumeSpec.csi.volumeHandle==\"{handle}\")].status.attached"),
        )
    };
    assert_eq!(inline(), "true", "{}", known());
    node.delete_pod("migrated-own");
    assert!(eventually(|| inline().is_empty() && in_use().is_empty()), "{}", known());
    node.assert_unmounted();

    cluster.kubectl(&["delete", "pvc", NAME]);
    assert!(eventually(|| get(&["pv", &name], ".metadata.name").is_empty()), "{}", known());
    assert!(eventually(|| devices.all().is_empty()), "{:?}", devices.all());
    node.assert_permitted();
    controller.assert_permitted();
}
