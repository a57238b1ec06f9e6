//! `NodePlugins`: the plugins of one node. It has the node's name.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::{Deserialize, Serialize};

use super::revision::StoredRevision;

/// The plugins of one node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodePlugins {
    /// The object's metadata.
    pub metadata: ObjectMeta,
    /// What the node is to have; written by the controller alone.
    pub spec: NodePluginsSpec,
    /// What it has; written by the node's agent alone.
    pub status: NodePluginsStatus,
}

super::resource!(NodePlugins, "nodeplugins");

/// What a node is to have.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodePluginsSpec {
    /// The plugins. None: the controller has not decided, and the node keeps what it has. An empty
    /// list: the node is to have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugins: Option<Vec<AssignedPlugin>>,
}

/// A plugin that a node is to have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AssignedPlugin {
    /// The name of the `VolumePlugin`.
    pub name: String,
    /// What the node is to have of it.
    #[serde(flatten)]
    pub revision: StoredRevision,
    /// Since when.
    pub since: Time,
}

impl AssignedPlugin {
    /// An assignment that begins now, in whole seconds as Kubernetes keeps times.
    #[must_use]
    pub fn new(name: String, revision: StoredRevision) -> Self {
        let now = Timestamp::now();
        Self { name, revision, since: Time(Timestamp::from_second(now.as_second()).unwrap_or(now)) }
    }
}

/// What a node has.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodePluginsStatus {
    /// Whether the node's operator lets the cluster install plugins.
    pub accepts_plugins: bool,
    /// The plugins.
    pub plugins: Vec<PluginReport>,
}

/// What a node reports of a plugin.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PluginReport {
    /// The name of the `VolumePlugin`.
    pub name: String,
    /// The plugin's own name.
    pub plugin: String,
    /// The revision that the report is about.
    pub revision: String,
    /// The digest of its manifest.
    pub digest: String,
    /// How far it is.
    pub state: PluginState,
    /// Why, as one word; empty when it is ready.
    pub reason: String,
    /// Why; empty when it is ready.
    pub message: String,
    /// What it asks for and is not granted.
    pub missing: Vec<String>,
    /// Since when it has this revision and state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
}

/// How far a plugin is on a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum PluginState {
    /// It is being pulled, compiled or loaded.
    #[default]
    Loading,
    /// Volumes can use it.
    Ready,
    /// It asks for more than it is granted.
    GrantNeeded,
    /// It cannot be used.
    Failed,
    /// It is to be removed, and volumes use it still.
    Removing,
}
