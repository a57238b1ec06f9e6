//! What is known of the cluster: the VolumePlugins, the Nodes, and their NodePlugins.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::runtime::reflector::store::WriterDropped;
use tokio::sync::Notify;
use volhost_cluster_client::plugins::{NodePlugins, VolumePlugin};

use crate::cache::{Cache, OnChange};

/// The objects, kept by watches. Cloning is cheap.
#[derive(Debug, Clone)]
pub(super) struct Cluster {
    pub(super) plugins: Cache<VolumePlugin>,
    pub(super) on_nodes: Cache<NodePlugins>,
    nodes: Cache<Node>,
}

/// What counts of a Node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct NodeFacts {
    pub(super) labels: BTreeMap<String, String>,
    /// It answers, as far as the cluster knows.
    pub(super) is_live: bool,
}

impl Cluster {
    /// Starts the watches. `changed` is notified of each change. Needs a tokio runtime.
    pub(super) fn start(client: &Client, changed: &Arc<Notify>) -> Self {
        // A permit is kept while nothing waits, so that no change is missed.
        Self {
            plugins: Cache::start(client, notifying(changed)),
            on_nodes: Cache::start(client, notifying(changed)),
            nodes: Cache::start(client, notifying(changed)),
        }
    }

    /// Waits until all objects are known.
    pub(super) async fn wait_ready(&self) -> Result<(), WriterDropped> {
        self.plugins.wait_ready().await?;
        self.nodes.wait_ready().await?;
        self.on_nodes.wait_ready().await
    }

    /// The Nodes, by name.
    pub(super) fn nodes(&self) -> BTreeMap<String, NodeFacts> {
        let nodes = self.nodes.all().into_iter();
        nodes.map(|node| (node.metadata.name.clone().unwrap_or_default(), NodeFacts::of(&node))).collect()
    }
}

fn notifying<K>(changed: &Arc<Notify>) -> OnChange<K> {
    let changed = Arc::clone(changed);
    Box::new(move |_, _| changed.notify_one())
}

/// The reason of a Node's condition Ready if no kubelet has ever reported on it.
const NEVER_REPORTED: &str = "NodeStatusNeverUpdated";

impl NodeFacts {
    /// A Node that no kubelet reports on counts as live.
    fn of(node: &Node) -> Self {
        let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
        let ready = conditions.into_iter().flatten().find(|condition| condition.type_ == "Ready");
        Self {
            labels: node.metadata.labels.clone().unwrap_or_default(),
            is_live: node.metadata.deletion_timestamp.is_none()
                && ready.is_none_or(|ready| ready.status == "True" || ready.reason.as_deref() == Some(NEVER_REPORTED)),
        }
    }

    /// Returns whether the node has these labels.
    pub(super) fn matches(&self, selector: &BTreeMap<String, String>) -> bool {
        selector.iter().all(|(key, value)| self.labels.get(key) == Some(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_node_is_live_unless_the_cluster_says_otherwise() {
        let of = |node| NodeFacts::of(&serde_json::from_value(node).unwrap()).is_live;
        let ready = |status| json!({ "status": { "conditions": [{ "type": "Ready", "status": status }] } });
        assert!(of(json!({})) && of(ready("True")));
        let unknown = json!({ "type": "Ready", "status": "Unknown", "reason": NEVER_REPORTED });
        assert!(of(json!({ "status": { "conditions": [unknown] } })));
        assert!(!of(ready("False")) && !of(ready("Unknown")));
        assert!(!of(json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } })));
    }
}
