use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use k8s_openapi::api::storage::v1::VolumeAttachment;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::names;
use super::objects::Node;
use super::plan::{Detach, Force, NodePlan};
use super::state::{Change, ClusterState, Planned};

const DRIVER: &str = "disk.example";
const AFTER: Option<Duration> = Some(Duration::from_secs(360));

fn object<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

/// A cluster with a claim `data` of one node and a claim `shared` of many, each bound to a volume of
/// its name, and two nodes.
struct World {
    state: ClusterState,
    now: Instant,
    version: u64,
}

impl World {
    fn new() -> Self {
        let mut world = Self { state: ClusterState::default(), now: Instant::now(), version: 0 };
        for (name, mode) in [("data", "ReadWriteOnce"), ("shared", "ReadWriteMany")] {
            world.volume(name, json!({ "accessModes": [mode], "csi": { "driver": DRIVER, "volumeHandle": name } }));
            world.claim(name, json!({ "phase": "Bound" }));
        }
        world.node("a", json!({}));
        world.node("b", json!({}));
        world
    }

    fn version(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }

    fn volume(&mut self, name: &str, mut spec: Value) {
        spec["claimRef"] = json!({ "namespace": "default", "name": name, "uid": format!("uid-{name}") });
        self.state.volumes(Change::Applied(object(json!({ "metadata": { "name": name }, "spec": spec }))));
    }

    fn claim(&mut self, name: &str, status: Value) {
        self.state.claims(Change::Applied(object(json!({
            "metadata": { "namespace": "default", "name": name, "uid": format!("uid-{name}") },
            "spec": { "volumeName": name },
            "status": status,
        }))));
    }

    fn pod(&mut self, name: &str, node: &str, volume: Value) -> BTreeSet<String> {
        self.state.pods(Change::Applied(object(pod(name, node, volume))))
    }

    fn delete_pod(&mut self, name: &str) -> BTreeSet<String> {
        self.state.pods(Change::Deleted(object(pod(name, "", json!({})))))
    }

    /// A node with these parts in place of the usual ones.
    fn node(&mut self, name: &str, parts: Value) {
        let node = node(name, &self.version(), parts);
        self.state.nodes(Change::Applied(node));
    }

    fn attachment(&mut self, volume: &str, node: &str, status: Value) -> String {
        let name = names::attachment(&names::csi_volume(DRIVER, volume), node);
        let version = self.version();
        self.state.attachments(Change::Applied(attachment(&name, volume, node, &version, status)));
        name
    }

    fn planned(&mut self, node: &str) -> Planned {
        self.state.plan(node, AFTER, self.now)
    }

    fn plan(&mut self, node: &str) -> NodePlan {
        self.planned(node).plan
    }
}

fn pod(name: &str, node: &str, mut volume: Value) -> Value {
    volume["name"] = json!("v");
    json!({
        "metadata": { "namespace": "default", "name": name, "uid": format!("uid-{name}") },
        "spec": { "nodeName": node, "volumes": [volume] },
    })
}

fn of_claim(name: &str) -> Value {
    json!({ "persistentVolumeClaim": { "claimName": name } })
}

fn node(name: &str, version: &str, parts: Value) -> Node {
    let managed = json!({ "volumes.kubernetes.io/controller-managed-attach-detach": "true" });
    let ready = json!([{ "type": "Ready", "status": parts.get("ready").unwrap_or(&json!("True")) }]);
    object(json!({
        "metadata": {
            "name": name,
            "uid": format!("uid-{name}"),
            "resourceVersion": version,
            "annotations": parts.get("annotations").unwrap_or(&managed),
        },
        "spec": { "taints": parts.get("taints").unwrap_or(&json!([])) },
        "status": {
            "conditions": ready,
            "volumesAttached": parts.get("listed").unwrap_or(&json!([])),
            "volumesInUse": parts.get("used").unwrap_or(&json!([])),
        },
    }))
}

fn attachment(name: &str, volume: &str, node: &str, version: &str, status: Value) -> VolumeAttachment {
    let deleted = status.get("deleted").cloned().unwrap_or_default();
    object(json!({
        "metadata": {
            "name": name, "uid": format!("uid-{name}"), "resourceVersion": version, "deletionTimestamp": deleted,
        },
        "spec": { "attacher": DRIVER, "nodeName": node, "source": { "persistentVolumeName": volume } },
        "status": { "attached": status["attached"].as_bool().unwrap_or_default(),
                    "attachError": status.get("error").map(|error| json!({ "message": error })) },
    }))
}

fn csi(volume: &str) -> String {
    names::csi_volume(DRIVER, volume)
}

fn entries(volumes: &[String]) -> Value {
    volumes.iter().map(|volume| json!({ "name": volume, "devicePath": "" })).collect()
}

fn listed(plan: &NodePlan) -> Option<Vec<&str>> {
    plan.list.as_ref().map(|list| list.iter().map(|entry| entry.name.as_str()).collect())
}

fn detached(plan: &NodePlan) -> Vec<(&str, Option<Force>)> {
    plan.detach.iter().map(|Detach { name, force, .. }| (name.as_str(), *force)).collect()
}

#[test]
fn a_volume_is_listed_once_its_attachment_is_attached() {
    let mut world = World::new();
    assert_eq!(world.pod("web", "a", of_claim("data")), BTreeSet::from(["a".to_owned()]));
    let name = names::attachment(&csi("data"), "a");
    assert_eq!(world.plan("a").create, [name.as_str()]);
    // The request is under way.
    assert_eq!(world.plan("a"), NodePlan::default());
    world.attachment("data", "a", json!({}));
    assert_eq!(world.plan("a"), NodePlan::default());
    world.attachment("data", "a", json!({ "attached": true }));
    let plan = world.plan("a");
    assert_eq!((listed(&plan), plan.newly_listed.as_slice()), (Some(vec![csi("data").as_str()]), [name].as_slice()));
    world.node("a", json!({ "listed": entries(&[csi("data")]) }));
    assert_eq!(world.plan("a"), NodePlan::default());
}

#[test]
fn a_volume_is_detached_once_the_node_does_not_use_it() {
    let mut world = World::new();
    let name = world.attachment("data", "a", json!({ "attached": true }));
    world.node("a", json!({ "listed": entries(&[csi("data")]), "used": [csi("data")] }));
    let plan = world.plan("a");
    assert_eq!((detached(&plan), listed(&plan)), (vec![], None));
    world.node("a", json!({ "listed": entries(&[csi("data")]) }));
    let plan = world.plan("a");
    assert_eq!((listed(&plan), detached(&plan)), (Some(vec![]), vec![(name.as_str(), None)]));
    // A kubelet that has begun to use it meanwhile gets it back.
    world.node("a", json!({ "used": [csi("data")] }));
    let plan = world.plan("a");
    assert_eq!((listed(&plan), detached(&plan)), (Some(vec![csi("data").as_str()]), vec![]));
    // Also without an entry, the list is written first: the answer shows what the kubelet reports.
    world.node("a", json!({}));
    let plan = world.plan("a");
    assert_eq!((listed(&plan), detached(&plan).len()), (Some(vec![]), 1));
}

#[test]
fn a_node_that_uses_a_volume_loses_it_by_its_taint_or_after_the_time() {
    let used = json!({ "used": [csi("data")], "listed": entries(&[csi("data")]) });
    let with = |more: Value| {
        let mut parts = used.clone();
        parts.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        parts
    };
    let mut world = World::new();
    let name = world.attachment("data", "a", json!({ "attached": true }));
    world.node("a", with(json!({ "ready": "Unknown" })));
    let plan = world.plan("a");
    assert_eq!((detached(&plan), plan.look_again), (vec![], world.now.checked_add(AFTER.unwrap())));
    world.now += AFTER.unwrap() / 2;
    assert_eq!(detached(&world.plan("a")), []);
    // Wanted in between: the time begins again.
    world.pod("web", "a", of_claim("data"));
    assert_eq!(world.plan("a"), NodePlan::default());
    world.delete_pod("web");
    assert_eq!(detached(&world.plan("a")), []);
    world.now += AFTER.unwrap() / 2;
    assert_eq!(detached(&world.plan("a")), []);
    world.now += AFTER.unwrap() / 2;
    assert_eq!(detached(&world.plan("a")), [(name.as_str(), Some(Force::Timeout))]);
    assert_eq!(detached(&world.state.plan("a", None, world.now).plan), [], "never");
    // A node that is ready keeps it as long as it uses it.
    world.node("a", with(json!({})));
    assert_eq!((detached(&world.plan("a")), world.plan("a").look_again), (vec![], None));
    let taint = json!([{ "key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute" }]);
    world.node("a", with(json!({ "taints": taint, "ready": "Unknown" })));
    world.pod("web", "a", of_claim("data"));
    assert_eq!(detached(&world.plan("a")), [], "a pod is there");
    world.delete_pod("web");
    assert_eq!(detached(&world.plan("a")), [(name.as_str(), Some(Force::OutOfService))]);
}

#[test]
fn a_volume_of_one_node_waits_until_the_other_node_has_released_it() {
    let mut world = World::new();
    world.pod("old", "a", of_claim("data"));
    world.attachment("data", "a", json!({ "attached": true }));
    world.node("a", json!({ "used": [csi("data")], "listed": entries(&[csi("data")]) }));
    world.pod("new", "b", of_claim("data"));
    let planned = world.planned("b");
    let name = names::attachment(&csi("data"), "b");
    assert_eq!((planned.plan.blocked.as_slice(), planned.plan.create.len()), ([name.clone()].as_slice(), 0));
    assert_eq!(planned.users[&name].iter().map(|pod| pod.name.as_str()).collect::<Vec<_>>(), ["old"]);
    world.delete_pod("old");
    world.node("a", json!({}));
    let version = world.version();
    let old = names::attachment(&csi("data"), "a");
    let gone = attachment(&old, "data", "a", &version, json!({ "attached": false, "deleted": "2026-01-01T00:00:00Z" }));
    world.state.attachments(Change::Applied(gone.clone()));
    assert_eq!(world.plan("b").create, [""; 0], "it may be attached still");
    // Its end is what the other node waits for.
    assert!(world.state.attachments(Change::Deleted(gone)).contains("b"));
    assert_eq!(world.plan("b").create, [name]);
}

#[test]
fn a_volume_of_one_node_is_created_for_one_of_two_nodes_at_a_time() {
    let mut world = World::new();
    world.pod("one", "a", of_claim("data"));
    world.pod("two", "b", of_claim("data"));
    let first = world.plan("a").create;
    assert_eq!((first.len(), world.plan("b").blocked.len()), (1, 1));
    // The answer is lost: it may exist, and is asked for again.
    world.state.may_be_created(&first[0]);
    assert_eq!(world.plan("b").blocked.len(), 1);
    assert_eq!(world.plan("a").create, first);
    // It was refused: the other node may have it.
    assert!(world.state.not_created(&first[0]).contains("b"));
    assert_eq!(world.plan("b").create.len(), 1);
    // One that may exist and is not wanted any more is deleted by its name.
    let second = names::attachment(&csi("data"), "b");
    world.state.may_be_created(&second);
    world.delete_pod("two");
    assert_eq!(world.plan("b").detach, [Detach { name: second.clone(), uid: None, force: None }]);
    assert!(world.state.deleted_attachment(&second, None).contains("b"));
    assert_eq!(world.plan("a").create.len(), 1);
}

#[test]
fn a_volume_of_many_nodes_is_attached_to_all_of_them() {
    let mut world = World::new();
    for (pod, node) in [("one", "a"), ("two", "b")] {
        world.pod(pod, node, of_claim("shared"));
        assert_eq!(world.plan(node).create.len(), 1);
    }
}

#[test]
fn what_is_missing_detaches_nothing() {
    let mut world = World::new();
    world.attachment("data", "a", json!({ "attached": true }));
    world.node("a", json!({ "listed": entries(&[csi("data")]) }));
    world.pod("web", "a", of_claim("data"));
    let volume = object(json!({ "metadata": { "name": "data" } }));
    assert!(world.state.volumes(Change::Deleted(volume)).contains("a"));
    assert_eq!(world.plan("a"), NodePlan::default(), "the PersistentVolume is gone");
    world.claim("data", json!({ "phase": "Lost" }));
    assert_eq!(world.plan("a"), NodePlan::default(), "the claim is lost");
    assert!(world.state.claims(Change::Listed(Vec::new())).contains("a"));
    assert_eq!(world.plan("a"), NodePlan::default(), "the claim is gone");
    world.delete_pod("web");
    assert_eq!(detached(&world.plan("a")).len(), 1);
}

#[test]
fn after_a_restart_objects_say_what_an_attachment_is() {
    let mut world = World::new();
    let volume = object(json!({ "metadata": { "name": "data" } }));
    world.state.volumes(Change::Deleted(volume));
    let name = world.attachment("data", "a", json!({ "attached": true }));
    // Its volume is unknown, and its name says that it is in use.
    world.node("a", json!({ "used": [csi("data")], "listed": entries(&[csi("data")]) }));
    assert_eq!(detached(&world.plan("a")), []);
    world.volume(
        "data",
        json!({ "accessModes": ["ReadWriteOnce"], "csi": { "driver": DRIVER, "volumeHandle": "data" } }),
    );
    world.pod("web", "b", of_claim("data"));
    assert_eq!(world.plan("b").blocked.len(), 1);
    world.node("a", json!({}));
    assert_eq!(detached(&world.plan("a")), [(name.as_str(), None)]);
}

#[test]
fn the_attachments_of_others_and_of_other_nodes_are_left_alone() {
    let mut world = World::new();
    let version = world.version();
    world.state.attachments(Change::Applied(attachment("mine", "data", "a", &version, json!({ "attached": true }))));
    assert_eq!(world.plan("a"), NodePlan::default());
    // It is attached there all the same.
    world.pod("web", "b", of_claim("data"));
    assert_eq!(world.plan("b").blocked.len(), 1);
    // A kubelet that attaches by itself.
    world.attachment("shared", "a", json!({ "attached": true }));
    world.pod("own", "a", of_claim("data"));
    world.node("a", json!({ "annotations": {}, "listed": entries(&[csi("data")]) }));
    assert_eq!(world.plan("a"), NodePlan::default());
}

#[test]
fn a_node_that_is_gone_releases_its_volumes_after_its_pods() {
    let mut world = World::new();
    world.pod("web", "a", of_claim("data"));
    let name = world.attachment("data", "a", json!({ "attached": true }));
    world.node("a", json!({ "used": [csi("data")], "listed": entries(&[csi("data")]) }));
    world.state.nodes(Change::Deleted(node("a", "9", json!({}))));
    assert_eq!(world.plan("a"), NodePlan::default());
    world.delete_pod("web");
    let plan = world.plan("a");
    assert_eq!((detached(&plan), listed(&plan)), (vec![(name.as_str(), None)], None));
}

#[test]
fn a_driver_that_does_not_attach_has_no_attachments() {
    let mut world = World::new();
    world.pod("web", "a", of_claim("data"));
    let driver = json!({ "metadata": { "name": DRIVER }, "spec": { "attachRequired": false } });
    assert!(world.state.drivers(Change::Applied(object(driver))).contains("a"));
    assert_eq!(world.plan("a"), NodePlan::default());
    let driver = json!({ "metadata": { "name": DRIVER }, "spec": { "attachRequired": true } });
    assert!(world.state.drivers(Change::Applied(object(driver))).contains("a"));
    assert_eq!(world.plan("a").create.len(), 1);
}

/// kube-controller-manager runs the drivers on its own machine; a controller in a pod has none.
#[test]
fn a_flex_volume_that_a_node_waits_for_is_reported_and_nothing_is_written() {
    let mut world = World::new();
    world.volume("data", json!({ "flexVolume": { "driver": "acme/lun" } }));
    world.pod("web", "a", of_claim("data"));
    world.pod("own", "a", json!({ "flexVolume": { "driver": "acme/share" } }));
    let waiting = |world: &mut World| -> Vec<(String, String)> {
        let planned = world.planned("a");
        assert_eq!(planned.plan, NodePlan::default());
        let pods = |pods: Vec<super::state::PodName>| pods.into_iter().map(|pod| pod.name).collect::<String>();
        planned.flex.into_iter().map(|(flex, users)| (flex.name, pods(users))).collect()
    };
    assert_eq!(waiting(&mut world), [], "a driver that does not attach is no controller's");
    world.node("a", json!({ "used": ["flexvolume-acme/lun/data"] }));
    assert_eq!(waiting(&mut world), [("data".to_owned(), "web".to_owned())]);
    // Kubernetes' controller has attached it before.
    let listed = json!([{ "name": "flexvolume-acme/lun/data", "devicePath": "/dev/x" }]);
    world.node("a", json!({ "used": ["flexvolume-acme/lun/data"], "listed": listed }));
    assert_eq!(waiting(&mut world), []);
    world.node("a", json!({ "used": ["volhost.io/flex-volume/acme~share/v_3f2a"] }));
    assert_eq!(waiting(&mut world), [("v".to_owned(), "own".to_owned())]);
    world.delete_pod("own");
    assert_eq!(waiting(&mut world), []);
}

#[test]
fn an_attachment_is_created_protected_once_its_volume_and_its_node_say_how() {
    let mut world = World::new();
    let csi_node = json!({
        "metadata": { "name": "a" }, "spec": { "drivers": [{ "name": DRIVER, "nodeID": "id-a" }] },
    });
    let nodes = world.state.csi_nodes(Change::Applied(object(csi_node)));
    assert!(nodes.is_empty(), "no plan depends on it");
    let kept = json!({
        "metadata": {
            "name": "data", "finalizers": ["external-attacher/disk-example"],
            "annotations": { "volhost.io/attacher": "volhost-controller" },
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "csi": { "driver": DRIVER, "volumeHandle": "data" },
            "claimRef": { "namespace": "default", "name": "data", "uid": "uid-data" },
        },
    });
    world.pod("web", "a", of_claim("data"));
    let planned = world.planned("a");
    assert!(planned.plan.create.len() == 1 && planned.protected.is_empty(), "no attacher is bound to the volume");
    world.state.not_created(&planned.plan.create[0]);
    // The spec is the same.
    world.state.volumes(Change::Applied(object(kept)));
    let planned = world.planned("a");
    let metadata = &planned.protected[&planned.plan.create[0]];
    assert_eq!(metadata.finalizers.as_deref(), Some(["external-attacher/disk-example".to_owned()].as_slice()));
    assert_eq!(metadata.annotations.as_ref().unwrap()["csi.alpha.kubernetes.io/node-id"], "id-a");
    world.state.not_created(&planned.plan.create[0]);
    world.delete_pod("web");
    world.pod("other", "b", of_claim("data"));
    let planned = world.planned("b");
    assert!(planned.plan.create.len() == 1 && planned.protected.is_empty(), "the driver is not on the node");
}

#[test]
fn volumes_that_nodes_attach_by_themselves_are_listed() {
    let mut world = World::new();
    let target = json!({ "targetPortal": "10.0.0.1:3260", "iqn": "iqn.2026-01.example:disk", "lun": 2 });
    let name = "kubernetes.io/iscsi/10.0.0.1:3260:iqn.2026-01.example:disk:2";
    world.volume("data", json!({ "accessModes": ["ReadWriteOnce"], "iscsi": target }));
    world.pod("web", "a", of_claim("data"));
    assert_eq!(listed(&world.plan("a")), Some(vec![name]));
    world.node("a", json!({ "listed": [{ "name": name, "devicePath": "" }, { "name": "example.com/flex/x", "devicePath": "/dev/x" }], "used": [name] }));
    world.pod("other", "b", of_claim("data"));
    assert_eq!(world.plan("b").blocked, [name]);
    world.delete_pod("web");
    assert_eq!(world.plan("a").list, None, "the node uses it");
    world.node("a", json!({ "listed": [{ "name": name, "devicePath": "" }, { "name": "example.com/flex/x", "devicePath": "/dev/x" }] }));
    assert_eq!(listed(&world.plan("a")), Some(vec!["example.com/flex/x"]));
    world.node("a", json!({ "listed": [{ "name": "example.com/flex/x", "devicePath": "/dev/x" }] }));
    assert_eq!(listed(&world.plan("b")), Some(vec![name]));
    // A pod's own disk: nothing is known against several nodes.
    let disk = json!({ "fc": { "targetWWNs": ["50", "51"], "lun": 0 } });
    world.pod("own", "a", disk.clone());
    world.pod("too", "b", disk);
    for node in ["a", "b"] {
        assert!(world.plan(node).newly_listed.iter().any(|name| name == "kubernetes.io/fc/[50 51]:0"));
    }
}

#[test]
fn a_former_in_tree_volume_is_attached_by_its_driver() {
    let mut world = World::new();
    world.pod("own", "a", json!({ "cinder": { "volumeID": "disk", "fsType": "ext4" } }));
    let planned = world.planned("a");
    let name = names::attachment("kubernetes.io/csi/cinder.csi.openstack.org^disk", "a");
    assert_eq!(planned.plan.create, std::slice::from_ref(&name));
    assert!(planned.wanted[&name].source.is_exclusive);
    world.volume("data", json!({ "accessModes": ["ReadWriteOnce"], "cinder": { "volumeID": "disk" } }));
    world.pod("claimed", "b", of_claim("data"));
    assert_eq!(world.plan("b").blocked.len(), 1, "it is the same disk");
}

#[test]
fn an_older_version_changes_nothing() {
    let mut world = World::new();
    world.pod("web", "a", of_claim("data"));
    let name = world.plan("a").create.remove(0);
    // A list that was asked for before the creation does not have it.
    world.state.attachments(Change::Begun);
    let version = world.version();
    world.state.wrote_attachment(&attachment(&name, "data", "a", &version, json!({})));
    world.state.attachments(Change::Listed(Vec::new()));
    assert_eq!(world.plan("a"), NodePlan::default());
    // Another one that was asked for later shows that it is gone.
    world.state.attachments(Change::Begun);
    world.state.attachments(Change::Listed(Vec::new()));
    assert_eq!(world.plan("a").create.len(), 1);
    // What was deleted is not shown again by an older event.
    let version = world.version();
    let shown = attachment(&name, "data", "a", &version, json!({ "attached": true }));
    world.state.wrote_attachment(&shown);
    world.delete_pod("web");
    world.state.deleted_attachment(&name, shown.metadata.uid.as_deref());
    world.state.attachments(Change::Applied(shown));
    assert_eq!(world.plan("a"), NodePlan::default());
    let newer = node("a", "90", json!({ "listed": entries(&[csi("data")]) }));
    world.state.nodes(Change::Applied(newer));
    world.state.nodes(Change::Applied(node("a", "9", json!({}))));
    assert_eq!(listed(&world.plan("a")), Some(vec![]), "the newer one has the entry");
}

#[test]
fn pods_that_have_ended_keep_volumes_where_the_kubelet_does() {
    let mut world = World::new();
    let mut ended = pod("job", "a", of_claim("data"));
    ended["status"] = json!({ "phase": "Succeeded" });
    world.state.pods(Change::Applied(object(ended)));
    assert_eq!(world.plan("a"), NodePlan::default());
    world.node(
        "a",
        json!({ "annotations": {
        "volumes.kubernetes.io/controller-managed-attach-detach": "true",
        "volumes.kubernetes.io/keep-terminated-pod-volumes": "true",
    } }),
    );
    assert_eq!(world.plan("a").create.len(), 1);
}

#[test]
fn a_generic_ephemeral_claim_must_be_the_pods_own() {
    let mut world = World::new();
    let template = json!({ "ephemeral": { "volumeClaimTemplate": { "spec": {} } } });
    let claim = |owner: &str| {
        json!({
            "metadata": { "namespace": "default", "name": "web-v", "uid": "uid-web-v",
                "ownerReferences": [{ "apiVersion": "v1", "kind": "Pod", "name": "web", "uid": owner, "controller": true }] },
            "spec": { "volumeName": "web-v" }, "status": { "phase": "Bound" },
        })
    };
    world
        .volume("web-v", json!({ "accessModes": ["ReadWriteOnce"], "csi": { "driver": DRIVER, "volumeHandle": "e" } }));
    world.pod("web", "a", template);
    world.state.claims(Change::Applied(object(claim("uid-other"))));
    assert_eq!(world.plan("a"), NodePlan::default());
    assert!(world.state.claims(Change::Applied(object(claim("uid-web")))).contains("a"));
    assert_eq!(world.plan("a").create.len(), 1);
}
