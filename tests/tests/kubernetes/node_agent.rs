//! `volhost node-agent`: a node of a cluster whose volumes volhost mounts, without a kubelet.

use std::fs;
use std::sync::Arc;

use serde_json::Value;
use volhost_tests::artifacts;
use volhost_tests::csi_serve::CsiServe;
use volhost_tests::loop_devices::LoopDevices;
use volhost_tests::wait::eventually;

use crate::agent_node::{AgentNode, config_map};
use crate::controllers::Controller;

#[test]
fn pods_of_a_cluster_have_their_volumes_and_leave_nothing() {
    let node = AgentNode::start("agent-volumes");
    node.cluster.apply(&config_map("agent-map", "one"));
    node.cluster
        .apply("{ apiVersion: v1, kind: Secret, metadata: { name: agent-secret }, stringData: { word: hidden } }");
    let disk = node.node.folder().join("disk");
    fs::write(disk.join("marker"), "of the volume").unwrap();
    // The zone is known by the Node's label alone.
    node.cluster.apply(&format!(
        "apiVersion: v1
kind: PersistentVolume
metadata: {{ name: agent-pv }}
spec:
  capacity: {{ storage: 1Gi }}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  storageClassName: ''
  claimRef: {{ namespace: default, name: agent-claim }}
  hostPath: {{ path: {} }}
  nodeAffinity: {{ required: {{ nodeSelectorTerms: [{{ matchExpressions: [{{ key: zone, operator: In, values: [of-agent-volumes] }}] }}] }} }}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{ name: agent-claim }}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: ''
  volumeName: agent-pv
  resources: {{ requests: {{ storage: 1Gi }} }}
",
        disk.display()
    ));
    let uid = node.pod(
        "agent-web",
        "[{ name: vscratch, emptyDir: {} }, { name: vmap, configMap: { name: agent-map } },
    { name: vsecret, secret: { secretName: agent-secret } }, { name: vdata, persistentVolumeClaim: { claimName: agent-claim } },
    { name: vtoken, projected: { sources: [{ serviceAccountToken: { path: token, expirationSeconds: 3600 } }] } }]",
    );
    node.assert_content(&node.file(&uid, "kubernetes.io~configmap", "vmap/text"), "one");
    node.assert_content(&node.file(&uid, "kubernetes.io~secret", "vsecret/word"), "hidden");
    node.assert_content(&node.file(&uid, "kubernetes.io~host-path", "agent-pv/marker"), "of the volume");

    // The API server knows whose token it is.
    let token = node.file(&uid, "kubernetes.io~projected", "vtoken/token");
    assert!(eventually(|| token.exists()), "{}\n{}", node.log(), node.node.log());
    let token = fs::read_to_string(token).unwrap();
    let review = node.cluster.kubectl_with(
        &["create", "-o", "json", "-f", "-"],
        &format!("{{ apiVersion: authentication.k8s.io/v1, kind: TokenReview, spec: {{ token: {token} }} }}"),
    );
    let review: Value = serde_json::from_str(&review).unwrap();
    assert_eq!(review["status"]["authenticated"], true, "{review}");
    assert_eq!(review["status"]["user"]["extra"]["authentication.kubernetes.io/pod-uid"][0], *uid, "{review}");

    node.cluster.apply(&config_map("agent-map", "two"));
    node.assert_content(&node.file(&uid, "kubernetes.io~configmap", "vmap/text"), "two");

    node.delete_pod("agent-web");
    node.assert_unmounted();
    node.assert_permitted();
    // The daemon keeps nothing of what no pod uses.
    let held = || node.node.ok(&["get", "claims,persistentvolumes", "-A", "-o", "name"]);
    assert!(eventually(|| held().is_empty()), "{}", held());
    node.cluster.kubectl(&["delete", "pvc", "agent-claim", "--wait=false"]);
    node.cluster.kubectl(&["delete", "pv", "agent-pv", "--wait=false"]);
}

#[test]
fn a_pod_waits_for_what_it_names_and_says_so_in_the_cluster() {
    let node = AgentNode::start("agent-waiting");
    let uid = node.pod("agent-waits", "[{ name: vmap, configMap: { name: agent-late } }]");
    let events = || {
        let all = [
            "get",
            "events",
            "--field-selector",
            "involvedObject.name=agent-waits",
            "-o",
            "jsonpath={.items[*].message}",
        ];
        node.cluster.kubectl(&all)
    };
    assert!(eventually(|| events().contains("agent-late")), "{}\n{}\n{}", events(), node.log(), node.node.log());
    node.cluster.apply(&config_map("agent-late", "here"));
    node.assert_content(&node.file(&uid, "kubernetes.io~configmap", "vmap/text"), "here");
    node.delete_pod("agent-waits");
    node.assert_unmounted();
}

#[test]
fn a_claim_of_a_csi_driver_is_attached_by_the_cluster_and_detached_after_its_pod() {
    let mut node = AgentNode::start("agent-csi");
    let (cluster, name) = (Arc::clone(&node.cluster), "agent-disk");
    let driver = format!("{name}.test");
    let disk = node.node.folder().join("disk");
    let registry = node.node.folder().join("registry").display().to_string();
    let own = ["--driver-name", &driver, "--registration-dir", &registry, "--enable-attach", "--node-id", "node-7"];
    let topology = format!("{name}.test/node=here");
    let arguments = [&own[..], &["--topology", &topology]].concat();
    let served = CsiServe::start_on(&node.node, name, &artifacts::plugin("loop"), &disk, &arguments);
    let devices = LoopDevices::below(&disk);
    cluster.apply(&format!(
        "apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {{ name: {driver} }}
spec: {{ attachRequired: true, podInfoOnMount: true, fsGroupPolicy: File, volumeLifecycleModes: [Persistent] }}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {{ name: {name} }}
provisioner: {driver}
allowVolumeExpansion: true
parameters: {{ csi.storage.k8s.io/fstype: xfs, folder: {} }}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{ name: {name} }}
spec: {{ accessModes: [ReadWriteOnce], storageClassName: {name}, resources: {{ requests: {{ storage: 320Mi }} }} }}
",
        disk.display()
    ));
    let controller = Controller::start_for(&cluster, &served, &driver, name, &[]);
    let get = |object: &[&str], path: &str| {
        cluster.try_kubectl(&[&["get"], object, &["-o", &format!("jsonpath={{{path}}}")]].concat()).unwrap_or_default()
    };
    let known = |node: &AgentNode| format!("{}\n{}\n{}", controller.known(), node.log(), node.node.log());
    assert!(eventually(|| get(&["csinode", "agent-csi"], ".spec.drivers[*].nodeID") == "node-7"), "{}", known(&node));
    assert_eq!(get(&["node", "agent-csi"], ".metadata.labels.agent-disk\\.test/node"), "here");
    let uid = node.pod(name, &format!("[{{ name: vdata, persistentVolumeClaim: {{ claimName: {name} }} }}]"));
    let volume = || get(&["pvc", name], ".spec.volumeName");
    let is_mounted = |node: &AgentNode| {
        let volume = format!("kubernetes.io~csi/{}/mount", volume());
        node.node.all_mounts().iter().any(|mount| mount.point.ends_with(&volume))
    };
    assert!(eventually(|| is_mounted(&node)), "{}", known(&node));
    let in_use = || get(&["node", "agent-csi"], ".status.volumesInUse[*]");
    assert!(in_use().starts_with(&format!("kubernetes.io/csi/{driver}^")), "{}", in_use());
    let attachments =
        || get(&["volumeattachments"], &format!(".items[?(@.spec.attacher==\"{driver}\")].metadata.name"));
    assert!(!attachments().is_empty());

    // Neither an agent nor a daemon that dies lets the volume go.
    node.kill_agent();
    node.node.kill();
    node.node.start();
    node.start_agent();
    assert!(eventually(|| node.log().matches("the daemon has all pods").count() >= 2), "{}", known(&node));
    assert!(is_mounted(&node));
    assert!(!attachments().is_empty(), "{}", known(&node));

    // It grows while it is used, and its claim says so.
    cluster.kubectl(&["patch", "pvc", name, "-p", r#"{"spec":{"resources":{"requests":{"storage":"512Mi"}}}}"#]);
    let status = || get(&["pvc", name], ".status.capacity.storage");
    assert!(eventually(|| status() == "512Mi"), "{}\n{}", get(&["pvc", name], ".status"), known(&node));
    assert_eq!(
        get(&["pvc", name], ".status.conditions") + &get(&["pvc", name], ".status.allocatedResourceStatuses"),
        ""
    );
    let space = rustix::fs::statvfs(node.file(&uid, "kubernetes.io~csi", &format!("{}/mount", volume()))).unwrap();
    assert!(space.f_blocks * space.f_frsize > 400 << 20, "{} blocks", space.f_blocks);

    // While the volume cannot be unmounted, it stays attached, though the pod is gone.
    let busy = node.file(&uid, "kubernetes.io~csi", &format!("{}/mount/busy", volume()));
    fs::write(&busy, "text").unwrap();
    let open = fs::File::open(&busy).unwrap();
    node.delete_pod(name);
    let seen = |words: &str| node.node.log().contains(words);
    assert!(eventually(|| seen("FailedUnMount") || seen("FailedUnmount") || seen("busy")), "{}", known(&node));
    assert!(in_use().starts_with("kubernetes.io/csi/"), "{}", known(&node));
    drop(open);
    assert!(eventually(|| attachments().is_empty() && in_use().is_empty()), "{}", known(&node));
    node.assert_unmounted();
    cluster.kubectl(&["delete", "pvc", name]);
    assert!(
        eventually(|| get(&["pv"], &format!(".items[?(@.spec.csi.driver==\"{driver}\")].metadata.name")).is_empty()),
        "{}",
        known(&node)
    );
    assert!(eventually(|| devices.all().is_empty()), "{:?}", devices.all());
    node.assert_permitted();
    controller.assert_permitted();
}
