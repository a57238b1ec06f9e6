//! The labels of the metrics. Values are names of plugins, operations and states, and for volumes
//! the claim: never a pod.

use prometheus_client::encoding::EncodeLabelSet;

/// An operation and its outcome, as the kubelet labels `storage_operation_duration_seconds`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct StorageOperationLabels {
    /// The plugin.
    pub volume_plugin: String,
    /// The kind of operation: `volume_mount`.
    pub operation_name: &'static str,
    /// `success` or `fail-unknown`.
    pub status: &'static str,
    /// Always `false`: volhost moves no volume from one plugin to another.
    pub migrated: &'static str,
}

/// An operation and its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct EndedOperationLabels {
    /// The plugin.
    pub volume_plugin: String,
    /// The kind of operation: `volume_mount`.
    pub operation_name: &'static str,
    /// `success`, or the class of the failure: `final`, `uncertain`, `transient`.
    pub status: &'static str,
}

/// A plugin and a kind of operation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct PluginOperationLabels {
    /// The plugin.
    pub plugin_name: String,
    /// The kind of operation.
    pub operation_name: &'static str,
}

/// A plugin and a state.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct PluginStateLabels {
    /// The plugin; empty for volumes that have none yet.
    pub plugin_name: String,
    /// The state.
    pub state: &'static str,
}

/// A plugin.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct PluginLabels {
    /// The plugin.
    pub plugin_name: String,
}

/// A kind of external driver and a state.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct DriverLabels {
    /// `flex` or `csi`.
    pub kind: &'static str,
    /// The state.
    pub state: &'static str,
}

/// A FUSE server.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct FuseServerLabels {
    /// Its name in a grant.
    pub server: String,
}

/// A claim.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ClaimLabels {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub persistentvolumeclaim: String,
}

/// The daemon's version.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct VersionLabels {
    /// As `volhost version` prints it.
    pub version: &'static str,
}
