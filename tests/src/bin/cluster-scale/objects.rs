//! The objects of the measurement.

use serde_json::{Value, json};

use crate::Size;

pub(crate) const NODE_LIST: &str = "/api/v1/nodes";
pub(crate) const POD_LIST: &str = "/api/v1/namespaces/default/pods";
pub(crate) const CLAIM_LIST: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
pub(crate) const VOLUME_LIST: &str = "/api/v1/persistentvolumes";
pub(crate) const ATTACHMENT_LIST: &str = "/apis/storage.k8s.io/v1/volumeattachments";
pub(crate) const CSI_NODE_LIST: &str = "/apis/storage.k8s.io/v1/csinodes";
pub(crate) const CONFIG_MAP_LIST: &str = "/api/v1/namespaces/default/configmaps";
/// The ConfigMap that all pods have.
const CONFIG: &str = "config";
/// The volumes that a pod has besides its claims: the ConfigMap, and the projected volume with its
/// service account's token that the API server adds to each pod.
pub(crate) const OTHER_VOLUMES: usize = 2;

pub(crate) fn node_name(node: usize) -> String {
    format!("node-{node}")
}

pub(crate) fn pod_name(pod: usize, generation: usize) -> String {
    format!("pod-{pod}-{generation}")
}

/// Where a pod runs; one that has moved, on the next node.
pub(crate) fn node_of(size: Size, pod: usize, generation: usize) -> usize {
    (pod / size.pods + generation) % size.nodes
}

/// A Node as its kubelet makes it. The agent adds the rest.
pub(crate) fn node(node: usize) -> Value {
    json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": node_name(node) } })
}

pub(crate) fn claim(claim: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": format!("claim-{claim}") },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "scale",
            "resources": { "requests": { "storage": "1Gi" } },
        },
    })
}

pub(crate) fn config_map() -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": CONFIG },
        "data": { "app.conf": "listen = 8080\nworkers = 4\n" },
    })
}

/// A pod that tolerates that nothing reports its node as ready.
pub(crate) fn pod(size: Size, pod: usize, generation: usize) -> Value {
    let mut volumes: Vec<Value> = (0..size.volumes)
        .map(|volume| {
            let claim = format!("claim-{}", pod * size.volumes + volume);
            json!({ "name": format!("v{volume}"), "persistentVolumeClaim": { "claimName": claim } })
        })
        .collect();
    volumes.push(json!({ "name": "config", "configMap": { "name": CONFIG } }));
    // A volume that no container uses is mounted, too; as in most pods, all are used.
    let mounts: Vec<Value> = volumes
        .iter()
        .map(|volume| json!({ "name": volume["name"], "mountPath": format!("/{}", volume["name"].as_str().expect("a name")) }))
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": pod_name(pod, generation) },
        "spec": {
            "nodeName": node_name(node_of(size, pod, generation)),
            "tolerations": [{ "operator": "Exists" }],
            "containers": [{ "name": "main", "image": "none", "volumeMounts": mounts }],
            "volumes": volumes,
        },
    })
}
