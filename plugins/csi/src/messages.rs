//! The messages of `csi.v1` (version 1.12.0) that this plugin sends and reads, by the numbers of
//! `proto/csi.proto`. Fields that it does not use are left out, and ignored when read.
//!
//! There are no maps of secrets: the host puts them into the encoded message.

use std::collections::BTreeMap;

use prost::{Enumeration, Message, Oneof};

/// A pod's use of a volume.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct VolumeCapability {
    #[prost(oneof = "AccessType", tags = "1, 2")]
    pub(crate) access_type: Option<AccessType>,
    #[prost(message, optional, tag = "3")]
    pub(crate) access_mode: Option<AccessMode>,
}

/// As a device, or mounted.
#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum AccessType {
    #[prost(message, tag = "1")]
    Block(Empty),
    #[prost(message, tag = "2")]
    Mount(MountVolume),
}

/// A message of which no field is used.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Empty {}

/// The file system and options of a mounted volume.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct MountVolume {
    #[prost(string, tag = "1")]
    pub(crate) fs_type: String,
    #[prost(string, repeated, tag = "2")]
    pub(crate) mount_flags: Vec<String>,
    #[prost(string, tag = "3")]
    pub(crate) volume_mount_group: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AccessMode {
    #[prost(enumeration = "Mode", tag = "1")]
    pub(crate) mode: i32,
}

/// The access mode of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(crate) enum Mode {
    Unknown = 0,
    SingleNodeWriter = 1,
    MultiNodeReaderOnly = 3,
    MultiNodeMultiWriter = 5,
    SingleNodeSingleWriter = 6,
    SingleNodeMultiWriter = 7,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CapacityRange {
    #[prost(int64, tag = "1")]
    pub(crate) required_bytes: i64,
    #[prost(int64, tag = "2")]
    pub(crate) limit_bytes: i64,
}

impl CapacityRange {
    /// A range of sizes in bytes.
    pub(crate) fn at_least(bytes: u64) -> Self {
        Self { required_bytes: i64::try_from(bytes).unwrap_or(i64::MAX), limit_bytes: 0 }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ControllerPublishVolumeRequest {
    #[prost(string, tag = "1")]
    pub(crate) volume_id: String,
    #[prost(string, tag = "2")]
    pub(crate) node_id: String,
    #[prost(message, optional, tag = "3")]
    pub(crate) volume_capability: Option<VolumeCapability>,
    #[prost(bool, tag = "4")]
    pub(crate) readonly: bool,
    #[prost(btree_map = "string, string", tag = "6")]
    pub(crate) volume_context: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ControllerPublishVolumeResponse {
    #[prost(btree_map = "string, string", tag = "1")]
    pub(crate) publish_context: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ControllerUnpublishVolumeRequest {
    #[prost(string, tag = "1")]
    pub(crate) volume_id: String,
    #[prost(string, tag = "2")]
    pub(crate) node_id: String,
}

/// The answer of `NodeGetCapabilities` and of `ControllerGetCapabilities`: both have this form, and
/// differ in the meaning of the numbers.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Capabilities {
    #[prost(message, repeated, tag = "1")]
    pub(crate) capabilities: Vec<Capability>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Capability {
    #[prost(message, optional, tag = "1")]
    pub(crate) rpc: Option<Rpc>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Rpc {
    #[prost(int32, tag = "1")]
    pub(crate) kind: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct NodeStageVolumeRequest {
    #[prost(string, tag = "1")]
    pub(crate) volume_id: String,
    #[prost(btree_map = "string, string", tag = "2")]
    pub(crate) publish_context: BTreeMap<String, String>,
    #[prost(string, tag = "3")]
    pub(crate) staging_target_path: String,
    #[prost(message, optional, tag = "4")]
    pub(crate) volume_capability: Option<VolumeCapability>,
    #[prost(btree_map = "string, string", tag = "6")]
    pub(crate) volume_context: BTreeMap<String, String>,
}

/// Of `NodeUnstageVolume` and of `NodeUnpublishVolume`: a volume and the path to unmount.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct LeavePathRequest {
    #[prost(string, tag = "1")]
    pub(crate) volume_id: String,
    #[prost(string, tag = "2")]
    pub(crate) path: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct NodePublishVolumeRequest {
    #[prost(string, tag = "1")]
    pub(crate) volume_id: String,
    #[prost(btree_map = "string, string", tag = "2")]
    pub(crate) publish_context: BTreeMap<String, String>,
    #[prost(string, tag = "3")]
    pub(crate) staging_target_path: String,
    #[prost(string, tag = "4")]
    pub(crate) target_path: String,
    #[prost(message, optional, tag = "5")]
    pub(crate) volume_capability: Option<VolumeCapability>,
    #[prost(bool, tag = "6")]
    pub(crate) readonly: bool,
    #[prost(btree_map = "string, string", tag = "8")]
    pub(crate) volume_context: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct NodeGetVolumeStatsRequest {
    #[prost(string, tag = "1")]
    pub(crate) volume_id: String,
    #[prost(string, tag = "2")]
    pub(crate) volume_path: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct NodeGetVolumeStatsResponse {
    #[prost(message, repeated, tag = "1")]
    pub(crate) usage: Vec<VolumeUsage>,
    #[prost(message, optional, tag = "2")]
    pub(crate) volume_condition: Option<VolumeCondition>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct VolumeUsage {
    #[prost(int64, tag = "1")]
    pub(crate) available: i64,
    #[prost(int64, tag = "2")]
    pub(crate) total: i64,
    #[prost(int64, tag = "3")]
    pub(crate) used: i64,
    #[prost(enumeration = "Unit", tag = "4")]
    pub(crate) unit: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(crate) enum Unit {
    Unknown = 0,
    Bytes = 1,
    Inodes = 2,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct VolumeCondition {
    #[prost(bool, tag = "1")]
    pub(crate) abnormal: bool,
    #[prost(string, tag = "2")]
    pub(crate) message: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct NodeExpandVolumeRequest {
    #[prost(string, tag = "1")]
    pub(crate) volume_id: String,
    #[prost(string, tag = "2")]
    pub(crate) volume_path: String,
    #[prost(message, optional, tag = "3")]
    pub(crate) capacity_range: Option<CapacityRange>,
    #[prost(string, tag = "4")]
    pub(crate) staging_target_path: String,
    #[prost(message, optional, tag = "5")]
    pub(crate) volume_capability: Option<VolumeCapability>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct NodeExpandVolumeResponse {
    #[prost(int64, tag = "1")]
    pub(crate) capacity_bytes: i64,
}
