//! The fields of pods, claims and nodes that attaching depends on. Of some hundred thousand pods,
//! the others would take most of the memory.

use k8s_openapi::api::core::v1::{AttachedVolume, Taint, Volume};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use serde::{Deserialize, Serialize};

use crate::snapshots::resource;

/// The node's attachments are the controller's, not the kubelet's.
const MANAGED: &str = "volumes.kubernetes.io/controller-managed-attach-detach";
/// The kubelet keeps the volumes of pods that have ended, until they are deleted.
const KEEPS_TERMINATED: &str = "volumes.kubernetes.io/keep-terminated-pod-volumes";
/// The node is shut down, and does not come back by itself.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// A pod.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Pod {
    pub(super) metadata: ObjectMeta,
    pub(super) spec: PodSpec,
    pub(super) status: PodStatus,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodSpec {
    pub(super) node_name: Option<String>,
    pub(super) volumes: Vec<Volume>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodStatus {
    phase: Option<String>,
    container_statuses: Vec<ContainerStatus>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct ContainerStatus {
    state: ContainerState,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct ContainerState {
    waiting: Option<Present>,
    terminated: Option<Present>,
}

/// A part that is there, with any fields.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Present {}

impl Pod {
    /// Whether its containers have ended for good, as Kubernetes sees it: it has ended, or it is
    /// deleted and none runs.
    pub(super) fn has_ended(&self) -> bool {
        let is_idle =
            |container: &ContainerStatus| container.state.terminated.is_some() || container.state.waiting.is_some();
        matches!(self.status.phase.as_deref(), Some("Failed" | "Succeeded"))
            || (self.metadata.deletion_timestamp.is_some() && self.status.container_statuses.iter().all(is_idle))
    }
}

/// A claim.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct PersistentVolumeClaim {
    pub(super) metadata: ObjectMeta,
    spec: ClaimSpec,
    status: ClaimStatus,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClaimSpec {
    volume_name: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct ClaimStatus {
    phase: Option<String>,
}

impl PersistentVolumeClaim {
    /// The PersistentVolume that it names.
    pub(super) fn volume(&self) -> Option<&str> {
        self.spec.volume_name.as_deref().filter(|name| !name.is_empty())
    }

    /// Whether Kubernetes has bound it.
    pub(super) fn is_bound(&self) -> bool {
        self.status.phase.as_deref() == Some("Bound")
    }
}

/// A node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Node {
    pub(super) metadata: ObjectMeta,
    spec: NodeSpec,
    status: NodeStatus,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct NodeSpec {
    taints: Vec<Taint>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeStatus {
    conditions: Vec<Condition>,
    volumes_attached: Vec<AttachedVolume>,
    volumes_in_use: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
}

impl Node {
    /// Whether the kubelet leaves attaching to the controller.
    pub(super) fn is_managed(&self) -> bool {
        self.is_annotated(MANAGED)
    }

    /// Whether volumes of pods that have ended stay.
    pub(super) fn keeps_terminated(&self) -> bool {
        self.is_annotated(KEEPS_TERMINATED)
    }

    /// Whether an administrator, or Kubernetes, says that nothing runs on it.
    pub(super) fn is_out_of_service(&self) -> bool {
        self.spec.taints.iter().any(|taint| taint.key == OUT_OF_SERVICE)
    }

    /// Whether its kubelet reports that it is ready.
    pub(super) fn is_ready(&self) -> bool {
        self.status.conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
    }

    /// `status.volumesAttached`.
    pub(super) fn volumes_attached(&self) -> &[AttachedVolume] {
        &self.status.volumes_attached
    }

    /// `status.volumesInUse`: unique names.
    pub(super) fn volumes_in_use(&self) -> &[String] {
        &self.status.volumes_in_use
    }

    fn is_annotated(&self, key: &str) -> bool {
        self.metadata.annotations.as_ref().and_then(|all| all.get(key)).is_some_and(|value| value == "true")
    }
}

resource!(Pod, "pods", NamespaceResourceScope, "", "v1");
resource!(PersistentVolumeClaim, "persistentvolumeclaims", NamespaceResourceScope, "", "v1");
resource!(Node, "nodes", ClusterResourceScope, "", "v1");

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pod_has_ended_when_no_container_can_run_again() {
        let pod = |value: serde_json::Value| serde_json::from_value::<Pod>(value).unwrap();
        let running = json!([{ "name": "c", "state": { "running": { "startedAt": null } } }]);
        let ended = json!([{ "name": "c", "state": { "terminated": { "exitCode": 0 } } }]);
        let deleted = json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" });
        assert!(!pod(json!({ "status": { "phase": "Running", "containerStatuses": running } })).has_ended());
        assert!(!pod(json!({ "status": { "phase": "Running", "containerStatuses": ended } })).has_ended());
        assert!(!pod(json!({ "metadata": deleted, "status": { "containerStatuses": running } })).has_ended());
        assert!(pod(json!({ "metadata": deleted, "status": { "containerStatuses": ended } })).has_ended());
        assert!(pod(json!({ "status": { "phase": "Succeeded" } })).has_ended());
    }
}
