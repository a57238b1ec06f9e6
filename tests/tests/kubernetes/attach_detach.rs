//! `volhost attach-detach-controller` in place of Kubernetes' own, which does not run: with a stock
//! kubelet, and with nodes that are objects alone.

use std::collections::BTreeSet;
use std::fs;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use serde_json::{Value, json};
use volhost_tests::artifacts;
use volhost_tests::attach_detach::{AttachDetach, NAME, NAMESPACE};
use volhost_tests::cluster::{Cluster, NODE};
use volhost_tests::csi_serve::CsiServe;
use volhost_tests::wait::eventually;

use crate::controllers::Controller;
use crate::kit::Driver;
use crate::storage::Storage;

/// The cluster without Kubernetes' controller that tests of this file share now. One controller
/// works for all of them.
fn cluster() -> Arc<Cluster> {
    static SHARED: Mutex<Weak<Cluster>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let cluster = Arc::new(Cluster::start_without_attach_detach());
        AttachDetach::deploy(&cluster);
        *shared = Arc::downgrade(&cluster);
        cluster
    })
}

/// A driver with a class, its controller, and nodes of its own that have no kubelet.
struct World {
    storage: Storage,
    controller: Controller,
    name: &'static str,
}

impl World {
    fn start(name: &'static str) -> Self {
        let driver = Driver::start_in(cluster(), name, &["--enable-attach", "--any-node"], true);
        driver.wait_registered();
        let storage = Storage::of(driver, name, "Immediate", "ext4", "16Mi");
        let controller = Controller::start(&storage.driver, &format!("{name}-controller"), &[]);
        Self { storage, controller, name }
    }

    fn cluster(&self) -> &Cluster {
        &self.storage.driver.cluster
    }

    fn node(&self, node: &str) -> String {
        format!("{}-{node}", self.name)
    }

    /// Makes a node that leaves attaching to the controller, and that the driver knows.
    fn make_node(&self, node: &str) {
        let (node, driver) = (self.node(node), self.storage.driver.driver());
        self.cluster().apply(&format!(
            "apiVersion: v1
kind: Node
metadata:
  name: {node}
  annotations: {{ volumes.kubernetes.io/controller-managed-attach-detach: 'true' }}
---
apiVersion: storage.k8s.io/v1
kind: CSINode
metadata: {{ name: {node} }}
spec: {{ drivers: [{{ name: {driver}, nodeID: {node}, topologyKeys: null }}] }}
"
        ));
    }

    /// Acts as the node's kubelet: it reports these volumes in use.
    fn report(&self, node: &str, volumes: &[String]) {
        let status = json!({ "status": { "volumesInUse": volumes } }).to_string();
        let node = self.node(node);
        self.cluster().kubectl(&["patch", "node", &node, "--subresource=status", "--type=merge", "-p", &status]);
    }

    /// Makes a claim, and returns its volume's name.
    fn claim(&self, claim: &str) -> String {
        self.storage.claim(claim, "");
        self.cluster().wait(&["pvc", claim], "jsonpath={.status.phase}=Bound");
        self.get(&["pvc", claim], ".spec.volumeName")
    }

    /// Makes a pod on a node, without the scheduler.
    fn pod(&self, pod: &str, node: &str, claim: &str) {
        self.cluster().apply(&pod_text(pod, &self.node(node), &[claim]));
    }

    /// The unique name of a volume.
    fn unique(&self, volume: &str) -> String {
        let handle = self.get(&["pv", volume], ".spec.csi.volumeHandle");
        format!("kubernetes.io/csi/{}^{handle}", self.storage.driver.driver())
    }

    /// The nodes that a volume is attached to.
    fn attached(&self, volume: &str) -> BTreeSet<String> {
        self.attachments(&format!("@.spec.source.persistentVolumeName==\"{volume}\""), ".status.attached")
            .into_iter()
            .filter_map(|(node, attached)| (attached == "true").then_some(node))
            .collect()
    }

    fn attachments(&self, which: &str, field: &str) -> Vec<(String, String)> {
        let of = format!("{{range .items[?({which})]}}{{.spec.nodeName}} {{{field}}}{{\"\\n\"}}{{end}}");
        let found = self.cluster().kubectl(&["get", "volumeattachments", "-o", &format!("jsonpath={of}")]);
        found.lines().filter_map(|line| line.split_once(' ')).map(|(a, b)| (a.to_owned(), b.to_owned())).collect()
    }

    /// `status.volumesAttached`.
    fn listed(&self, node: &str) -> Vec<String> {
        let listed = self.get(&["node", &self.node(node)], ".status.volumesAttached[*].name");
        listed.split_whitespace().map(str::to_owned).collect()
    }

    fn get(&self, object: &[&str], path: &str) -> String {
        let path = format!("jsonpath={{{path}}}");
        self.cluster().try_kubectl(&[&["get"], object, &["-o", &path]].concat()).unwrap_or_default()
    }

    fn events(&self, pod: &str) -> String {
        let of = format!("involvedObject.name={pod}");
        let what = "jsonpath={range .items[*]}{.type} {.reason} {.message}{\"\\n\"}{end}";
        self.cluster().kubectl(&["get", "events", "--field-selector", &of, "-o", what])
    }

    fn delete_pod(&self, pod: &str) {
        self.cluster().kubectl(&["delete", "pod", pod, "--force", "--grace-period=0"]);
    }

    fn wait(&self, replica: &AttachDetach, what: &str, condition: impl FnMut() -> bool) {
        assert!(eventually(condition), "{what}\n{}\n{}", replica.log(), self.controller.known());
    }

    /// Deletes the claims and the nodes, and checks that nothing is left.
    fn end(self, claims: &[String], nodes: &[&str]) {
        for claim in claims {
            self.cluster().kubectl(&["delete", "pvc", claim]);
        }
        self.storage.assert_gone(&self.controller);
        for node in nodes {
            self.cluster().kubectl(&["delete", "node,csinode", &self.node(node), "--ignore-not-found"]);
        }
    }
}

/// A pod that tolerates that its node is none.
fn pod_text(pod: &str, node: &str, claims: &[&str]) -> String {
    let volumes: Vec<Value> =
        claims.iter().map(|claim| json!({ "name": claim, "persistentVolumeClaim": { "claimName": claim } })).collect();
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": pod },
        "spec": {
            "nodeName": node, "automountServiceAccountToken": false, "tolerations": [{ "operator": "Exists" }],
            "containers": [{ "name": "main", "image": "none" }], "volumes": volumes,
        },
    })
    .to_string()
}

/// The tests share a cluster, for which one controller works: they take turns.
static TURN: Mutex<()> = Mutex::new(());

#[test]
fn a_container_writes_to_a_volume_that_is_attached_and_then_detached_by_few_requests() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let world = World::start("wired");
    let cluster = world.cluster();
    let before = AttachDetach::requests(cluster).len();
    let mut replica = AttachDetach::start(cluster, "wired", &[]);
    replica.wait_leads();
    let volume = world.claim("wired-claim");
    let unique = world.unique(&volume);
    world.storage.pod("wired-writer", "wired-claim");
    cluster.exec("wired-writer", "echo written > /data/word; sync");
    assert_eq!(world.attached(&volume), BTreeSet::from([NODE.to_owned()]));
    assert_eq!(world.get(&["node", NODE], ".status.volumesAttached[*].name"), unique);
    let success = format!("Normal SuccessfulAttachVolume AttachVolume.Attach succeeded for volume \"{volume}\"");
    let said = || world.events("wired-writer");
    world.wait(&replica, "the event", || said().contains(&success));
    let metrics = replica.metrics();
    let plugin = "plugin_name=\"kubernetes.io/csi:wired.test\"";
    for line in [
        format!("attachdetach_controller_total_volumes{{{plugin},state=\"desired_state_of_world\"}} 1"),
        format!("attachdetach_controller_total_volumes{{{plugin},state=\"actual_state_of_world\"}} 1"),
        format!("leader_election_master_status{{name=\"{NAME}\"}} 1"),
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line}\n{metrics}");
    }

    // The kubelet unmounts it first, and reports that.
    cluster.delete_pod("wired-writer");
    let is_gone =
        || world.attached(&volume).is_empty() && world.get(&["node", NODE], ".status.volumesAttached").is_empty();
    world.wait(&replica, "the volume is detached", is_gone);
    world.storage.pod("wired-reader", "wired-claim");
    assert_eq!(cluster.exec("wired-reader", "cat /data/word"), "written\n");
    cluster.delete_pod("wired-reader");
    world.wait(&replica, "the volume is detached", is_gone);

    let requests = AttachDetach::requests(cluster).split_off(before);
    let count = |verb: &str, resource: &str| {
        requests.iter().filter(|request| **request == (verb.to_owned(), resource.to_owned())).count()
    };
    // Each of the two times: created, listed; taken from the list, deleted.
    assert_eq!(count("create", "volumeattachments"), 2, "{requests:?}");
    assert_eq!(count("delete", "volumeattachments"), 2, "{requests:?}");
    assert_eq!(count("patch", "nodes/status"), 4, "{requests:?}");
    let read = requests.iter().filter(|(verb, resource)| verb == "get" && resource != "leases");
    assert_eq!(read.count(), 0, "{requests:?}");
    // The driver's controller: each time attached; the finalizer that was created is removed.
    let requests = world.controller.requests();
    let patches: Vec<&str> =
        requests.iter().filter(|(verb, _)| verb == "patch").map(|(_, resource)| resource.as_str()).collect();
    let patched = |resource: &str| patches.iter().filter(|patched| **patched == resource).count();
    assert_eq!((patched("volumeattachments/status"), patched("volumeattachments")), (2, 2), "{requests:?}");
    for (verb, resource) in [("get", "secrets"), ("delete", "pods"), ("patch", "nodes"), ("create", "pods")] {
        let account = format!("--as=system:serviceaccount:{NAMESPACE}:{NAME}");
        let allowed = cluster.try_kubectl(&["auth", "can-i", verb, resource, &account]);
        assert!(allowed.is_err_and(|answer| !answer.contains("yes")), "{verb} {resource}");
    }
    assert!(replica.terminate(), "{}", replica.log());
    let holder = ["lease", NAME, "-n", NAMESPACE];
    assert_eq!(world.get(&holder, ".spec.holderIdentity"), "");
    world.end(&["wired-claim".to_owned()], &[]);
}

#[test]
fn a_volume_of_one_node_moves_when_the_node_has_released_it_or_is_lost() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let world = World::start("moved");
    let cluster = world.cluster();
    for node in ["a", "b", "c", "d"] {
        world.make_node(node);
    }
    // Kubernetes takes nodes without a kubelet for not ready after 40 s.
    let mut replica = AttachDetach::start(cluster, "moved", &["--force-detach-after", "never"]);
    replica.wait_leads();
    let volume = world.claim("moved-claim");
    let unique = world.unique(&volume);
    let is_at = |node: &str| {
        world.attached(&volume) == BTreeSet::from([world.node(node)]) && world.listed(node) == [unique.clone()]
    };
    world.pod("moved-one", "a", "moved-claim");
    world.wait(&replica, "attached to a", || is_at("a"));
    world.report("a", std::slice::from_ref(&unique));

    world.pod("moved-two", "b", "moved-claim");
    let used = format!(
        "Warning FailedAttachVolume Multi-Attach error for volume \"{volume}\" Volume is already used by pod(s) moved-one"
    );
    world.wait(&replica, "the event", || world.events("moved-two").contains(&used));
    world.delete_pod("moved-one");
    // The event of a pod that comes later says what the controller knows by then.
    world.pod("moved-late", "d", "moved-claim");
    let waits = format!(
        "Warning FailedAttachVolume Multi-Attach error for volume \"{volume}\" Volume is already exclusively attached to one node"
    );
    world.wait(&replica, "the event", || world.events("moved-late").contains(&waits));
    assert!(is_at("a"), "the kubelet of a uses it: {}", replica.log());
    world.delete_pod("moved-late");
    world.report("a", &[]);
    world.wait(&replica, "attached to b", || is_at("b") && world.listed("a").is_empty());
    assert!(world.events("moved-two").contains("SuccessfulAttachVolume"));

    // A node that is shut down: an administrator says so.
    world.report("b", std::slice::from_ref(&unique));
    world.pod("moved-three", "c", "moved-claim");
    cluster.kubectl(&["taint", "node", &world.node("b"), "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"]);
    world.delete_pod("moved-two");
    world.wait(&replica, "attached to c", || is_at("c"));
    let has_forced = |replica: &AttachDetach, reason: &str| {
        let line = format!("attach_detach_controller_attachdetach_controller_forced_detaches{{reason=\"{reason}\"}} 1");
        replica.metrics().lines().any(|found| found == line)
    };
    assert!(has_forced(&replica, "out-of-service"), "{}", replica.metrics());

    // A node that does not answer: after the time.
    world.report("c", std::slice::from_ref(&unique));
    world.pod("moved-four", "d", "moved-claim");
    world.delete_pod("moved-three");
    assert!(replica.terminate(), "{}", replica.log());
    let replica = AttachDetach::start(cluster, "moved-again", &["--force-detach-after", "2s"]);
    world.wait(&replica, "attached to d", || is_at("d"));
    assert!(has_forced(&replica, "timeout"), "{}", replica.metrics());

    // A node that is deleted, while its kubelet reported the volume in use.
    world.report("d", std::slice::from_ref(&unique));
    cluster.kubectl(&["delete", "node", &world.node("d")]);
    world.delete_pod("moved-four");
    world.wait(&replica, "detached", || world.attached(&volume).is_empty());
    AttachDetach::requests(cluster);
    world.end(&["moved-claim".to_owned()], &["a", "b", "c", "d"]);
}

#[test]
fn the_lease_is_kept_while_all_other_requests_wait() {
    const WATCHES: usize = 7;
    let cluster = Cluster::start_control_plane();
    AttachDetach::deploy(&cluster);
    // A connection has as many requests at once as there are watches, which never end.
    cluster.kill_component("kube-apiserver");
    let requests = format!("--http2-max-streams-per-connection={WATCHES}");
    cluster.start_component_with("kube-apiserver", &[&requests]);
    let replica = AttachDetach::start(&cluster, "busy", &[]);
    replica.wait_leads();
    // More renewals than fit between the first one, which comes before all watches, and its expiry.
    let mut renewals = BTreeSet::new();
    let is_kept = || {
        let path = "jsonpath={.spec.renewTime}";
        renewals.insert(cluster.kubectl(&["get", "lease", "-n", NAMESPACE, NAME, "-o", path]));
        renewals.len() > 10
    };
    assert!(eventually(is_kept), "{}", replica.log());
}

#[test]
fn a_replica_that_is_killed_is_followed_by_another_and_nothing_is_lost_or_attached_twice() {
    const CLAIMS: usize = 24;
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let world = World::start("heirs");
    let cluster = world.cluster();
    let nodes = ["a", "b", "c", "d"];
    nodes.iter().for_each(|node| world.make_node(node));
    let mut first = AttachDetach::start(cluster, "heirs-first", &[]);
    first.wait_leads();
    let mut second = AttachDetach::start(cluster, "heirs-second", &[]);
    let claims: Vec<String> = (0..CLAIMS).map(|number| format!("heirs-{number}")).collect();
    cluster.apply(&claims.iter().map(|claim| world.storage.claim_text(claim, "")).collect::<String>());
    for claim in &claims {
        cluster.wait(&["pvc", claim], "jsonpath={.status.phase}=Bound");
    }
    let node_of = |number: usize, turn: usize| nodes[(number + turn) % nodes.len()];
    let pods = |turn: usize| -> String {
        let pods = claims.iter().enumerate();
        let text = pods.map(|(number, claim)| {
            let pod = pod_text(&format!("{claim}-{turn}"), &world.node(node_of(number, turn)), &[claim]);
            format!("---\n{pod}\n")
        });
        text.collect()
    };
    let attached = || {
        let driver = format!("@.spec.attacher==\"{}\"", world.storage.driver.driver());
        let all = world.attachments(&driver, ".status.attached");
        all.iter().filter(|(_, attached)| attached == "true").count()
    };
    let is_placed =
        || attached() == CLAIMS && nodes.iter().all(|node| world.listed(node).len() == CLAIMS / nodes.len());
    cluster.apply(&pods(0));
    world.wait(&first, "some are attached", || attached() > 2);
    first.kill();
    second.wait_leads();
    world.wait(&second, "all are attached", is_placed);

    // All pods move to the next node.
    let third = AttachDetach::start(cluster, "heirs-third", &[]);
    let all: Vec<String> = claims.iter().map(|claim| format!("{claim}-0")).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    cluster.apply(&pods(1));
    cluster.kubectl(&[&["delete", "pod", "--force", "--grace-period=0", "--wait=false"], &all[..]].concat());
    second.kill();
    third.wait_leads();
    world.wait(&third, "all have moved", || {
        let moved = |number: usize| world.node(node_of(number, 1));
        is_placed()
            && [0, CLAIMS - 1].iter().all(|number| {
                let volume = world.get(&["pvc", &claims[*number]], ".spec.volumeName");
                world.attached(&volume) == BTreeSet::from([moved(*number)])
            })
    });
    cluster.kubectl(&["delete", "pods", "--all", "--force", "--grace-period=0"]);
    world
        .wait(&third, "all are detached", || attached() == 0 && nodes.iter().all(|node| world.listed(node).is_empty()));
    AttachDetach::requests(cluster);
    world.end(&claims, &nodes);
}

#[test]
fn an_attachment_whose_volume_and_node_are_gone_before_it_was_attached_goes_too() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let world = World::start("late");
    let (cluster, driver) = (world.cluster(), world.storage.driver.driver());
    // As `volhost attach-detach-controller` creates it, if what it knows of the volume is old.
    let attachment = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
        "metadata": {
            "name": "late", "finalizers": [format!("external-attacher/{}", driver.replace('.', "-"))],
            "annotations": { "csi.alpha.kubernetes.io/node-id": "late-a", "volhost.io/volume-handle": "gone" },
        },
        "spec": { "attacher": driver, "nodeName": "late-a", "source": { "persistentVolumeName": "gone" } },
    });
    cluster.apply(&attachment.to_string());
    let refused = || world.get(&["volumeattachment", "late"], ".status.attachError.message");
    assert!(eventually(|| refused().contains("persistentvolume \"gone\" not found")), "{}", world.controller.known());
    cluster.kubectl(&["delete", "volumeattachment", "late", "--wait=false"]);
    cluster.wait(&["volumeattachment", "late"], "delete");
    world.end(&[], &[]);
}

#[test]
fn a_pods_own_disk_of_a_former_in_tree_plugin_is_attached_by_its_driver() {
    const DRIVER: &str = "cinder.csi.openstack.org";
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let cluster = cluster();
    let disk = cluster.node().folder().join("disk/old");
    fs::create_dir_all(&disk).unwrap();
    let arguments = ["--driver-name", DRIVER, "--enable-attach", "--any-node"];
    let served = CsiServe::start_on(cluster.node(), "old", &artifacts::plugin("loop"), &disk, &arguments);
    cluster.apply(&format!(
        "apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {{ name: {DRIVER} }}
spec: {{ attachRequired: true }}
---
apiVersion: v1
kind: Node
metadata:
  name: old-a
  annotations: {{ volumes.kubernetes.io/controller-managed-attach-detach: 'true' }}
---
apiVersion: storage.k8s.io/v1
kind: CSINode
metadata: {{ name: old-a }}
spec: {{ drivers: [{{ name: {DRIVER}, nodeID: old-a, topologyKeys: null }}] }}
"
    ));
    fs::File::create(disk.join("image")).unwrap().set_len(16 << 20).unwrap();
    let controller = Controller::start_for(&cluster, &served, DRIVER, "old-controller", &[]);
    let replica = AttachDetach::start(&cluster, "old", &[]);
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "old" },
        "spec": {
            "nodeName": "old-a", "automountServiceAccountToken": false, "tolerations": [{ "operator": "Exists" }],
            "containers": [{ "name": "main", "image": "none" }],
            "volumes": [
                { "name": "own", "cinder": { "volumeID": "image", "fsType": "ext4" } },
                // The node attaches it by itself, once it is listed.
                { "name": "lun", "iscsi": { "targetPortal": "192.0.2.1:3260", "iqn": "iqn.2026-01.example:disk", "lun": 0 } },
            ],
        },
    });
    cluster.apply(&pod.to_string());
    let get = |object: &[&str], path: &str| {
        cluster.try_kubectl(&[&["get"], object, &["-o", &format!("jsonpath={{{path}}}")]].concat()).unwrap_or_default()
    };
    let inline = || {
        let which = ".items[?(@.spec.source.inlineVolumeSpec.csi.volumeHandle==\"image\")]";
        (
            get(&["volumeattachments"], &format!("{which}.spec.attacher")),
            get(&["volumeattachments"], &format!("{which}.metadata.name")),
        )
    };
    let listed = || {
        let listed = get(&["node", "old-a"], ".status.volumesAttached[*].name");
        listed.split_whitespace().map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let wanted = BTreeSet::from([
        format!("kubernetes.io/csi/{DRIVER}^image"),
        "kubernetes.io/iscsi/192.0.2.1:3260:iqn.2026-01.example:disk:0".to_owned(),
    ]);
    let known = || format!("{:?} {:?}\n{}\n{}", inline(), listed(), replica.log(), controller.known());
    assert!(eventually(|| listed() == wanted), "{}", known());
    assert_eq!(inline().0, DRIVER);
    cluster.kubectl(&["delete", "pod", "old", "--force", "--grace-period=0"]);
    assert!(eventually(|| listed().is_empty() && inline().1.is_empty()), "{}", known());
    AttachDetach::requests(&cluster);
    cluster.kubectl(&["delete", "node,csinode", "old-a"]);
}
