//! The messages of `csi.v1` (version 1.12.0) that create, expand and delete volumes and snapshots;
//! see [`crate::messages`].

use std::collections::BTreeMap;

use prost::{Message, Oneof};

use crate::messages::{CapacityRange, VolumeCapability};

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CreateVolumeRequest {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) capacity_range: Option<CapacityRange>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) volume_capabilities: Vec<VolumeCapability>,
    #[prost(btree_map = "string, string", tag = "4")]
    pub(crate) parameters: BTreeMap<String, String>,
    #[prost(message, optional, tag = "6")]
    pub(crate) volume_content_source: Option<VolumeContentSource>,
    #[prost(message, optional, tag = "7")]
    pub(crate) accessibility_requirements: Option<TopologyRequirement>,
}

/// The source of a new volume's content.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct VolumeContentSource {
    #[prost(oneof = "Content", tags = "1, 2")]
    pub(crate) content: Option<Content>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Content {
    #[prost(message, tag = "1")]
    Snapshot(SourceId),
    #[prost(message, tag = "2")]
    Volume(SourceId),
}

/// The id of a snapshot or of a volume.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct SourceId {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TopologyRequirement {
    #[prost(message, repeated, tag = "1")]
    pub(crate) requisite: Vec<Topology>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) preferred: Vec<Topology>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Topology {
    #[prost(btree_map = "string, string", tag = "1")]
    pub(crate) segments: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CreateVolumeResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) volume: Option<CreatedVolume>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CreatedVolume {
    #[prost(int64, tag = "1")]
    pub(crate) capacity_bytes: i64,
    #[prost(string, tag = "2")]
    pub(crate) volume_id: String,
    #[prost(btree_map = "string, string", tag = "3")]
    pub(crate) volume_context: BTreeMap<String, String>,
    #[prost(message, optional, tag = "4")]
    pub(crate) content_source: Option<VolumeContentSource>,
    #[prost(message, repeated, tag = "5")]
    pub(crate) accessible_topology: Vec<Topology>,
}

/// Of `DeleteVolume` and of `DeleteSnapshot`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct DeleteRequest {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ControllerExpandVolumeRequest {
    #[prost(string, tag = "1")]
    pub(crate) volume_id: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) capacity_range: Option<CapacityRange>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ControllerExpandVolumeResponse {
    #[prost(int64, tag = "1")]
    pub(crate) capacity_bytes: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct GetCapacityRequest {
    #[prost(btree_map = "string, string", tag = "2")]
    pub(crate) parameters: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct GetCapacityResponse {
    #[prost(int64, tag = "1")]
    pub(crate) available_capacity: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CreateSnapshotRequest {
    #[prost(string, tag = "1")]
    pub(crate) source_volume_id: String,
    #[prost(string, tag = "2")]
    pub(crate) name: String,
    #[prost(btree_map = "string, string", tag = "4")]
    pub(crate) parameters: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CreateSnapshotResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) snapshot: Option<CreatedSnapshot>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CreatedSnapshot {
    #[prost(int64, tag = "1")]
    pub(crate) size_bytes: i64,
    #[prost(string, tag = "2")]
    pub(crate) snapshot_id: String,
    #[prost(string, tag = "3")]
    pub(crate) source_volume_id: String,
    #[prost(message, optional, tag = "4")]
    pub(crate) creation_time: Option<Timestamp>,
    #[prost(bool, tag = "5")]
    pub(crate) ready_to_use: bool,
}

/// A moment, by the seconds since 1970.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Timestamp {
    #[prost(int64, tag = "1")]
    pub(crate) seconds: i64,
}

/// The topology of this node, as the driver reports it.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct NodeGetInfoResponse {
    #[prost(message, optional, tag = "3")]
    pub(crate) accessible_topology: Option<Topology>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct GetPluginCapabilitiesResponse {
    #[prost(message, repeated, tag = "1")]
    pub(crate) capabilities: Vec<PluginCapability>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PluginCapability {
    #[prost(message, optional, tag = "1")]
    pub(crate) service: Option<Service>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Service {
    #[prost(int32, tag = "1")]
    pub(crate) kind: i32,
}
