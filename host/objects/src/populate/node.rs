//! This node, and which pods are its own.

use std::collections::{BTreeMap, BTreeSet};

use volhost_model::spec::{NodeAffinity, NodeRequirement};

use crate::PodObject;

/// The field of a node that affinity can ask for.
const NAME_FIELD: &str = "metadata.name";

/// This node, as pods and PersistentVolumes choose nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeIdentity {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Where drivers say that it is: labels too, wherever the operator gave none of that name.
    pub topology: BTreeMap<String, String>,
    /// What the cluster calls it by: these take precedence.
    pub cluster_labels: BTreeMap<String, String>,
    /// The SELinux label that files of containers have by default; none on a node without SELinux.
    pub container_file_label: Option<String>,
}

impl NodeIdentity {
    /// A node with these labels, and with those that every Kubernetes node has:
    /// `kubernetes.io/hostname` (the node's name), `kubernetes.io/os` and `kubernetes.io/arch`,
    /// where `labels` does not give them.
    pub fn new(name: impl Into<String>, labels: BTreeMap<String, String>) -> Self {
        let name = name.into();
        // Kubernetes names machines as Go does.
        let arch = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        let mut all = BTreeMap::from([
            ("kubernetes.io/hostname".to_owned(), name.clone()),
            ("kubernetes.io/os".to_owned(), std::env::consts::OS.to_owned()),
            ("kubernetes.io/arch".to_owned(), arch.to_owned()),
        ]);
        all.extend(labels);
        Self {
            name,
            labels: all,
            topology: BTreeMap::new(),
            cluster_labels: BTreeMap::new(),
            container_file_label: None,
        }
    }

    /// The same, with SELinux, if it has it.
    #[must_use]
    pub fn with_selinux(self, container_file_label: Option<String>) -> Self {
        Self { container_file_label, ..self }
    }

    /// Every label that PersistentVolumes can ask for.
    pub(super) fn all_labels(&self) -> BTreeMap<String, String> {
        let mut all = self.topology.clone();
        let given = self.labels.iter().chain(&self.cluster_labels);
        all.extend(given.map(|(key, value)| (key.clone(), value.clone())));
        all
    }

    /// Describes this node's labels that `affinity` names.
    pub(super) fn describe_labels(&self, affinity: &NodeAffinity) -> String {
        let asked: BTreeSet<&str> =
            affinity.terms.iter().flat_map(|term| &term.labels).map(|one| one.key.as_str()).collect();
        let all = self.all_labels();
        let words: Vec<String> = asked
            .into_iter()
            .map(|key| match all.get(key) {
                Some(value) => format!("{key}={value}"),
                None => format!("no label {key}"),
            })
            .collect();
        if words.is_empty() { "none of these".to_owned() } else { words.join(", ") }
    }
}

/// The node of a pod, and whether it has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PodPlacement {
    /// It is to run on this node: its volumes are wanted.
    Runs,
    /// It has ended: its volumes are not wanted any more, as if it were gone.
    Finished,
    /// It is to run on another node.
    OtherNode {
        /// The node.
        node: String,
    },
}

/// Returns the placement of a pod. A pod without `spec.nodeName` runs on this node. A pod that is
/// being deleted keeps its volumes until its status says that its containers have ended.
pub fn placement(pod: &PodObject, node: &NodeIdentity) -> PodPlacement {
    if !pod.node_name.is_empty() && pod.node_name != node.name {
        return PodPlacement::OtherNode { node: pod.node_name.clone() };
    }
    let finished = matches!(pod.phase.as_str(), "Succeeded" | "Failed") || (pod.deleting && pod.containers_ended);
    if finished { PodPlacement::Finished } else { PodPlacement::Runs }
}

/// Describes an affinity: `zone in (a, b) and disk exists, or metadata.name in (node-1)`.
pub(super) fn describe(affinity: &NodeAffinity) -> String {
    let terms: Vec<String> = affinity
        .terms
        .iter()
        .map(|term| {
            let all: Vec<String> = term.labels.iter().chain(&term.fields).map(describe_one).collect();
            if all.is_empty() { "nothing matches (an empty term)".to_owned() } else { all.join(" and ") }
        })
        .collect();
    if terms.is_empty() { "nothing matches (no terms)".to_owned() } else { terms.join(", or ") }
}

fn describe_one(one: &NodeRequirement) -> String {
    let NodeRequirement { key, operator, values } = one;
    let key = if key == NAME_FIELD { "the node's name" } else { key };
    let values = values.join(", ");
    match operator.as_str() {
        "In" => format!("{key} in ({values})"),
        "NotIn" => format!("{key} not in ({values})"),
        "Exists" => format!("{key} exists"),
        "DoesNotExist" => format!("{key} does not exist"),
        "Gt" => format!("{key} > {values}"),
        "Lt" => format!("{key} < {values}"),
        other => format!("{key} {other} ({values}), an operator that Kubernetes lacks"),
    }
}
