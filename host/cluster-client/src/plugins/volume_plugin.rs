//! `VolumePlugin`: a plugin that a cluster's nodes are to have.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use serde::{Deserialize, Serialize};

use super::revision::{Revision, StoredRevision};

/// How long a node may take to load a revision before the rollout counts as failed.
const DEFAULT_DEADLINE: Duration = Duration::from_secs(600);

/// A plugin that a cluster's nodes are to have.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumePlugin {
    /// The API server wants both with an object that is replaced as a whole.
    api_version: String,
    kind: String,
    /// The object's metadata.
    pub metadata: ObjectMeta,
    /// What the user asks for.
    pub spec: VolumePluginSpec,
    /// How far the rollout is; written by the controller.
    pub status: VolumePluginStatus,
}

super::resource!(VolumePlugin, "volumeplugins");

impl VolumePlugin {
    /// Returns the object with this status, as it is written.
    #[must_use]
    pub fn with_status(&self, status: VolumePluginStatus) -> Self {
        let api_version = format!("{}/{}", super::GROUP, super::VERSION);
        Self { api_version, kind: "VolumePlugin".to_owned(), status, ..self.clone() }
    }
}

/// What the user asks for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumePluginSpec {
    /// What is to be installed.
    #[serde(flatten)]
    pub revision: Revision,
    /// The nodes, by their labels; all that take plugins from the cluster, if it is empty.
    pub node_selector: BTreeMap<String, String>,
    /// How a new revision reaches the nodes.
    pub rollout: Rollout,
}

/// How a new revision reaches the nodes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rollout {
    /// How many nodes may be without a ready plugin at once, because of the rollout.
    pub max_unavailable: MaxUnavailable,
    /// No further node gets a new revision. A failed one is still rolled back.
    pub paused: bool,
    /// How long a node may take to load a revision, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress_deadline_seconds: Option<u32>,
}

impl Rollout {
    /// How long a node may take to load a revision before the rollout counts as failed.
    #[must_use]
    pub fn deadline(&self) -> Duration {
        self.progress_deadline_seconds.map_or(DEFAULT_DEADLINE, |seconds| Duration::from_secs(seconds.into()))
    }
}

/// A number of nodes, or a part of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum MaxUnavailable {
    /// So many nodes.
    Nodes(u32),
    /// A percentage, such as `20%`.
    Part(String),
}

impl Default for MaxUnavailable {
    fn default() -> Self {
        Self::Nodes(1)
    }
}

impl MaxUnavailable {
    /// How many of `nodes` that is: 1 at the least. A part is rounded up, as a DaemonSet does; one
    /// that cannot be read counts as 1.
    #[must_use]
    pub fn of(&self, nodes: usize) -> usize {
        let wanted = match self {
            Self::Nodes(number) => usize::try_from(*number).unwrap_or(usize::MAX),
            Self::Part(text) => {
                let percent: usize = text.strip_suffix('%').and_then(|digits| digits.parse().ok()).unwrap_or_default();
                nodes.saturating_mul(percent.min(100)).div_ceil(100)
            }
        };
        wanted.max(1)
    }
}

/// How far the rollout is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumePluginStatus {
    /// The generation of the spec that the status is about.
    pub observed_generation: i64,
    /// The last revision that was ready on every node: what a failed rollout goes back to, and what
    /// new nodes get.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<StoredRevision>,
    /// The one before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous: Option<StoredRevision>,
    /// The revision that failed, if the spec still asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rolled_back: Option<FailedRevision>,
    /// How many nodes are how far.
    pub nodes: NodeCounts,
    /// The wanted digest, short enough for a column.
    pub short_digest: String,
    /// The state in a word, for a column.
    pub phase: String,
    /// The state in detail.
    pub conditions: Vec<Condition>,
}

/// How many nodes are how far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeCounts {
    /// Nodes that are to have the plugin.
    pub desired: u32,
    /// Of these, nodes that have been given the wanted revision.
    pub updated: u32,
    /// Of these, nodes whose plugin is ready with the wanted revision.
    pub ready: u32,
    /// Nodes whose plugin has failed.
    pub failed: u32,
}

/// A revision that failed on a node, and was rolled back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FailedRevision {
    /// Its name.
    pub revision: String,
    /// The first node on which it failed.
    pub node: String,
    /// Why, as one word.
    pub reason: String,
    /// Why.
    pub message: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_nodes_is_rounded_up_and_never_none() {
        let of = |text: &str, nodes| serde_json::from_str::<MaxUnavailable>(text).unwrap().of(nodes);
        assert_eq!((of("3", 10), of("0", 10), of("3", 1)), (3, 1, 3));
        assert_eq!((of("\"20%\"", 10), of("\"1%\"", 10), of("\"0%\"", 10), of("\"100%\"", 7)), (2, 1, 1, 7));
        assert_eq!((of("\"30%\"", 0), of("\"many\"", 10)), (1, 1));
    }
}
