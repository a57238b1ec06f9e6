//! A small cluster in memory: pods come and go, kubelets mount and report, a driver attaches, watches
//! lag, requests are lost, and the controller is killed at any step. Each seed is one run.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use k8s_openapi::api::storage::v1::VolumeAttachment;
use serde_json::{Value, json};

use super::names;
use super::objects::{Node, Pod};
use super::plan::still_unused;
use super::source::Through;
use super::state::{Change, ClusterState, Nodes, facts};

const DRIVER: &str = "disk.example";
const NODES: [&str; 3] = ["a", "b", "c"];
/// The first ones may be attached to one node.
const EXCLUSIVE: usize = 3;
const VOLUMES: usize = 4;
const SEEDS: u64 = 100;
const STEPS: usize = 400;

/// xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16;
        usize::try_from(number % u64::try_from(limit).unwrap()).unwrap()
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// A pod: its node and its volume.
#[derive(Clone)]
struct ModelPod {
    node: String,
    volume: usize,
}

#[derive(Default, Clone)]
struct ModelNode {
    version: u64,
    listed: Vec<String>,
    in_use: BTreeSet<String>,
    mounted: BTreeSet<String>,
}

#[derive(Clone)]
struct ModelAttachment {
    node: String,
    volume: usize,
    version: u64,
    uid: String,
    attached: bool,
    deleted: bool,
    /// It was created with the finalizer of the driver's controller.
    is_protected: bool,
}

/// What a watch will show.
enum Shown {
    Pod(Box<Change<Pod>>),
    Node(Box<Change<Node>>),
    Attachment(Box<Change<VolumeAttachment>>),
}

struct Model {
    random: Random,
    now: Instant,
    version: u64,
    pods: BTreeMap<String, ModelPod>,
    nodes: BTreeMap<String, ModelNode>,
    attachments: BTreeMap<String, ModelAttachment>,
    /// By kind, in order.
    watches: [VecDeque<Shown>; 3],
    state: ClusterState,
    queue: Nodes,
    named: usize,
    calm: bool,
}

fn unique(volume: usize) -> String {
    names::csi_volume(DRIVER, &format!("v{volume}"))
}

fn object<K: serde::de::DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

impl Model {
    fn new(seed: u64) -> Self {
        let mut model = Self {
            random: Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1),
            now: Instant::now(),
            version: 0,
            pods: BTreeMap::new(),
            nodes: NODES.map(|node| (node.to_owned(), ModelNode::default())).into(),
            attachments: BTreeMap::new(),
            watches: [VecDeque::new(), VecDeque::new(), VecDeque::new()],
            state: ClusterState::default(),
            queue: Nodes::new(),
            named: 0,
            calm: false,
        };
        model.restart();
        model
    }

    /// Another replica takes over: it lists all objects.
    fn restart(&mut self) {
        self.watches = [VecDeque::new(), VecDeque::new(), VecDeque::new()];
        self.state = ClusterState::default();
        for volume in 0..VOLUMES {
            let mode = if volume < EXCLUSIVE { "ReadWriteOnce" } else { "ReadWriteMany" };
            let name = format!("v{volume}");
            self.state.claims(Change::Applied(object(json!({
                "metadata": { "namespace": "default", "name": name, "uid": name },
                "spec": { "volumeName": name }, "status": { "phase": "Bound" },
            }))));
            self.state.volumes(Change::Applied(object(json!({
                "metadata": { "name": name },
                "spec": {
                    "accessModes": [mode],
                    "claimRef": { "namespace": "default", "name": name, "uid": name },
                    "csi": { "driver": DRIVER, "volumeHandle": name },
                },
            }))));
        }
        self.state.pods(Change::Listed(self.pods.keys().map(|name| self.pod_object(name)).collect()));
        self.state.nodes(Change::Listed(self.nodes.keys().map(|name| self.node_object(name)).collect()));
        self.state.attachments(Change::Begun);
        let all = self.attachments.keys().map(|name| self.attachment_object(name)).collect();
        self.state.attachments(Change::Listed(all));
        self.queue = self.state.all_nodes();
    }

    fn pod_object(&self, name: &str) -> Pod {
        let pod = &self.pods[name];
        object(json!({
            "metadata": { "namespace": "default", "name": name, "uid": name },
            "spec": { "nodeName": pod.node, "volumes": [
                { "name": "v", "persistentVolumeClaim": { "claimName": format!("v{}", pod.volume) } },
            ] },
        }))
    }

    fn node_object(&self, name: &str) -> Node {
        let node = &self.nodes[name];
        let listed: Vec<Value> = node.listed.iter().map(|one| json!({ "name": one, "devicePath": "" })).collect();
        object(json!({
            "metadata": {
                "name": name, "uid": name, "resourceVersion": node.version.to_string(),
                "annotations": { "volumes.kubernetes.io/controller-managed-attach-detach": "true" },
            },
            "status": {
                "conditions": [{ "type": "Ready", "status": "True" }],
                "volumesAttached": listed, "volumesInUse": node.in_use,
            },
        }))
    }

    fn attachment_object(&self, name: &str) -> VolumeAttachment {
        let known = &self.attachments[name];
        object(json!({
            "metadata": {
                "name": name, "uid": known.uid, "resourceVersion": known.version.to_string(),
                "deletionTimestamp": known.deleted.then_some("2026-01-01T00:00:00Z"),
            },
            "spec": {
                "attacher": DRIVER, "nodeName": known.node,
                "source": { "persistentVolumeName": format!("v{}", known.volume) },
            },
            "status": { "attached": known.attached },
        }))
    }

    fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    fn show_node(&mut self, name: &str) {
        let version = self.next_version();
        self.nodes.get_mut(name).unwrap().version = version;
        let shown = self.node_object(name);
        self.watches[1].push_back(Shown::Node(Box::new(Change::Applied(shown))));
    }

    fn show_attachment(&mut self, name: &str) {
        let version = self.next_version();
        self.attachments.get_mut(name).unwrap().version = version;
        let shown = self.attachment_object(name);
        self.watches[2].push_back(Shown::Attachment(Box::new(Change::Applied(shown))));
    }

    fn remove_attachment(&mut self, name: &str) {
        let shown = self.attachment_object(name);
        self.attachments.remove(name);
        self.watches[2].push_back(Shown::Attachment(Box::new(Change::Deleted(shown))));
    }

    /// A user or the scheduler.
    fn change_pods(&mut self) {
        if self.pods.len() < 5 && self.random.chance(60) {
            self.named += 1;
            let name = format!("pod-{}", self.named);
            let node = NODES[self.random.below(NODES.len())].to_owned();
            let volume = self.random.below(VOLUMES);
            self.pods.insert(name.clone(), ModelPod { node, volume });
            let shown = self.pod_object(&name);
            self.watches[0].push_back(Shown::Pod(Box::new(Change::Applied(shown))));
        } else if !self.pods.is_empty() {
            let at = self.random.below(self.pods.len());
            let name = self.pods.keys().nth(at).unwrap().clone();
            self.delete_pod(&name);
        }
    }

    fn delete_pod(&mut self, name: &str) {
        let shown = self.pod_object(name);
        self.pods.remove(name);
        self.watches[0].push_back(Shown::Pod(Box::new(Change::Deleted(shown))));
    }

    /// A kubelet reports a volume before it looks whether it is attached, and mounts it then.
    fn kubelet(&mut self, name: &str) {
        let wanted: BTreeSet<String> =
            self.pods.values().filter(|pod| pod.node == name).map(|pod| unique(pod.volume)).collect();
        let node = self.nodes.get_mut(name).unwrap();
        let reported: BTreeSet<String> = wanted.union(&node.mounted).cloned().collect();
        if node.in_use != reported {
            node.in_use = reported;
            self.show_node(name);
            return;
        }
        node.mounted.retain(|volume| wanted.contains(volume));
        for volume in wanted {
            let is_attached = self
                .attachments
                .get(&names::attachment(&volume, name))
                .is_some_and(|known| known.attached && !known.deleted);
            if is_attached && node.listed.contains(&volume) {
                node.mounted.insert(volume);
            }
        }
    }

    /// A driver's controller.
    fn driver(&mut self) {
        if self.attachments.is_empty() {
            return;
        }
        let at = self.random.below(self.attachments.len());
        let name = self.attachments.keys().nth(at).unwrap().clone();
        let known = self.attachments.get_mut(&name).unwrap();
        if known.deleted {
            self.remove_attachment(&name);
        } else if !known.attached {
            known.attached = true;
            self.show_attachment(&name);
        }
    }

    fn watch(&mut self, kind: usize) {
        let nodes = match self.watches[kind].pop_front() {
            None => return,
            Some(Shown::Pod(change)) => self.state.pods(*change),
            Some(Shown::Node(change)) => self.state.nodes(*change),
            Some(Shown::Attachment(change)) => self.state.attachments(*change),
        };
        self.queue.extend(nodes);
    }

    /// A worker has a node. Returns false if the controller was killed.
    fn work(&mut self, node: &str) -> bool {
        let planned = self.state.plan(node, Some(Duration::from_secs(360)), self.now);
        for name in &planned.plan.create {
            if self.is_killed() {
                return false;
            }
            let Through::Driver { source, .. } = &planned.wanted[name].source.through else { panic!("{name}") };
            let volume = source.persistent_volume_name.as_ref().unwrap()[1..].parse().unwrap();
            self.create(node, name, volume);
        }
        if let Some(list) = &planned.plan.list {
            if self.is_killed() {
                return false;
            }
            self.nodes.get_mut(node).unwrap().listed = list.iter().map(|entry| entry.name.clone()).collect();
            self.show_node(node);
            // The kubelet goes on.
            self.kubelet(node);
            let shown = self.node_object(node);
            let unused = still_unused(&planned.plan.detach, &facts(node, &shown));
            let nodes = self.state.nodes(Change::Applied(shown));
            self.queue.extend(nodes);
            if unused.len() < planned.plan.detach.len() {
                self.queue.insert(node.to_owned());
            }
            for detach in &unused {
                if self.is_killed() {
                    return false;
                }
                self.kubelet(node);
                self.delete(&detach.name, detach.uid.as_deref());
            }
        }
        true
    }

    fn create(&mut self, node: &str, name: &str, volume: usize) {
        if self.attachments.contains_key(name) {
            self.state.may_be_created(name);
            self.queue.insert(node.to_owned());
            return;
        }
        if !self.calm && self.random.chance(5) {
            let nodes = self.state.not_created(name);
            self.queue.extend(nodes);
            self.queue.insert(node.to_owned());
            return;
        }
        let uid = format!("{name}-{}", self.version);
        let known = ModelAttachment {
            node: node.to_owned(),
            volume,
            version: 0,
            uid,
            attached: false,
            deleted: false,
            is_protected: self.random.chance(50),
        };
        self.attachments.insert(name.to_owned(), known);
        self.show_attachment(name);
        if !self.calm && self.random.chance(10) {
            // The answer is lost.
            self.state.may_be_created(name);
            self.queue.insert(node.to_owned());
        } else {
            let object = self.attachment_object(name);
            let nodes = self.state.wrote_attachment(&object);
            self.queue.extend(nodes);
        }
    }

    fn delete(&mut self, name: &str, uid: Option<&str>) {
        let Some(known) = self.attachments.get_mut(name).filter(|known| uid.is_none_or(|uid| known.uid == uid)) else {
            let nodes = self.state.deleted_attachment(name, uid);
            self.queue.extend(nodes);
            return;
        };
        let mounted = &self.nodes[&known.node].mounted;
        assert!(!mounted.contains(&unique(known.volume)), "a mounted volume is detached");
        if known.attached || known.deleted || known.is_protected {
            known.deleted = true;
            self.show_attachment(name);
            let object = self.attachment_object(name);
            let nodes = self.state.wrote_attachment(&object);
            self.queue.extend(nodes);
        } else {
            // The driver's controller has not seen it: no finalizer.
            self.remove_attachment(name);
            let nodes = self.state.deleted_attachment(name, uid);
            self.queue.extend(nodes);
        }
    }

    fn is_killed(&mut self) -> bool {
        if !self.calm && self.random.chance(3) {
            self.restart();
            return true;
        }
        false
    }

    fn step(&mut self) {
        self.now += Duration::from_millis(10);
        match self.random.below(10) {
            0 if !self.calm => self.change_pods(),
            0..=2 => {
                let node = NODES[self.random.below(NODES.len())];
                self.kubelet(node);
            }
            3 => self.driver(),
            4..=6 => {
                let kind = self.random.below(3);
                self.watch(kind);
            }
            _ => {
                if let Some(node) = self.queue.pop_first() {
                    self.work(&node);
                }
            }
        }
        self.check();
    }

    fn check(&self) {
        for volume in 0..EXCLUSIVE {
            let nodes = self.attachments.values().filter(|known| known.volume == volume);
            assert!(nodes.count() <= 1, "volume {volume} is attached to several nodes");
        }
        for (name, node) in &self.nodes {
            for volume in &node.mounted {
                let known = self.attachments.get(&names::attachment(volume, name));
                assert!(known.is_some_and(|known| known.attached && !known.deleted), "{volume} is mounted on {name}");
            }
        }
    }

    /// Lets all that has begun come to its end.
    fn settle(&mut self) {
        self.calm = true;
        (0..STEPS * 4).for_each(|_| self.step());
        assert!(self.queue.is_empty() && self.watches.iter().all(VecDeque::is_empty), "it comes to no end");
    }
}

#[test]
fn no_fault_attaches_twice_or_detaches_what_is_mounted_and_nothing_is_left() {
    let (mut attached, mut waited) = (0, 0);
    for seed in 1..=SEEDS {
        let mut model = Model::new(seed);
        (0..STEPS).for_each(|_| model.step());
        model.settle();
        // Each wanted volume is mounted: on each node, or on one of those that want it.
        let wanted: BTreeSet<(usize, String)> = model.pods.values().map(|pod| (pod.volume, pod.node.clone())).collect();
        for volume in 0..VOLUMES {
            let nodes = wanted.iter().filter(|(one, _)| *one == volume).count();
            let mounted = model.nodes.values().filter(|node| node.mounted.contains(&unique(volume))).count();
            let expected = if volume < EXCLUSIVE { nodes.min(1) } else { nodes };
            assert_eq!(mounted, expected, "seed {seed}, volume {volume}");
            attached += mounted;
            waited += nodes - mounted;
        }
        for name in model.pods.keys().cloned().collect::<Vec<_>>() {
            model.delete_pod(&name);
        }
        model.settle();
        assert!(model.attachments.is_empty(), "seed {seed}");
        assert!(model.nodes.values().all(|node| node.listed.is_empty() && node.in_use.is_empty()), "seed {seed}");
    }
    assert!(attached > 50 && waited > 10, "{attached} volumes attached, {waited} waited: the runs do too little");
}
