//! Volumes and snapshots that plugins are asked to make, and those that they have made.

use std::collections::{BTreeMap, BTreeSet};

/// A request for a volume.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WantedVolume {
    /// The requester's name for it; empty where only the capacity is asked for.
    pub name: String,
    /// At least this many bytes.
    pub required_bytes: Option<u64>,
    /// At most this many bytes.
    pub limit_bytes: Option<u64>,
    /// The operator's parameters.
    pub parameters: BTreeMap<String, String>,
    /// The file system that it is to be mounted with.
    pub fs_type: Option<String>,
    /// It is to be handed over as a device.
    pub as_device: bool,
    /// How it is to be used, in Kubernetes' spelling.
    pub access_modes: Vec<String>,
    /// The volume whose content it begins with.
    pub source_volume: Option<String>,
    /// The snapshot whose content it begins with.
    pub source_snapshot: Option<String>,
    /// What it is to be like at first, of what can be changed later.
    pub mutable_parameters: BTreeMap<String, String>,
}

/// A request for a snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WantedSnapshot {
    /// The requester's name for it.
    pub name: String,
    /// The volume.
    pub volume_id: String,
    /// The operator's parameters.
    pub parameters: BTreeMap<String, String>,
}

/// A request for snapshots of several volumes at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WantedGroup {
    /// The requester's name for the group.
    pub name: String,
    /// The volumes.
    pub volume_ids: BTreeSet<String>,
    /// The operator's parameters.
    pub parameters: BTreeMap<String, String>,
}

/// A volume that there is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MadeVolume {
    /// Its handle.
    pub id: String,
    /// Its size in bytes; 0 when the plugin does not say.
    pub capacity: u64,
    /// What its mounting needs.
    pub attributes: BTreeMap<String, String>,
    /// The labels of the nodes that it can be reached from: those of one of these; none for every
    /// node.
    pub reachable_from: Vec<BTreeMap<String, String>>,
}

/// A snapshot that there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MadeSnapshot {
    /// Its handle.
    pub id: String,
    /// The volume's.
    pub volume_id: String,
    /// What a volume made of it needs, in bytes.
    pub bytes: u64,
    /// When it was made, in seconds since 1970.
    pub made: u64,
    /// The group that it is one of, if it is.
    pub group: Option<String>,
}

/// A group of snapshots that there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MadeGroup {
    /// Its handle.
    pub id: String,
    /// Its snapshots, one a volume; at least one.
    pub snapshots: Vec<MadeSnapshot>,
}

/// A page of a list, and the token of the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// What is on it.
    pub entries: Vec<T>,
    /// What the next page begins with; none when this is the last.
    pub next: Option<String>,
}

impl<T> Default for Page<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), next: None }
    }
}
