//! How a container uses a volume: one entry of its `volumeMounts`.

use serde::{Deserialize, Serialize};

use crate::names::SpecName;

/// `mountPropagation`: which mounts travel between the host and a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum MountPropagation {
    /// None; a private mount.
    #[default]
    None,
    /// Later mounts of the host in the volume appear in the container; a slave mount.
    HostToContainer,
    /// Both ways; a shared mount, for privileged containers alone.
    Bidirectional,
}

impl MountPropagation {
    /// Kubernetes' word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::HostToContainer => "HostToContainer",
            Self::Bidirectional => "Bidirectional",
        }
    }
}

/// `recursiveReadOnly`: whether mounts inside a read-only volume are read-only too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum RecursiveReadOnly {
    /// They stay as they are.
    #[default]
    Disabled,
    /// They are, where the node can do that.
    IfPossible,
    /// They are; a node that cannot do that refuses the volume.
    Enabled,
}

/// One entry of a container's `volumeMounts`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerMount {
    /// The container.
    pub container: String,
    /// Its place in the container's `volumeMounts`, from 0.
    pub index: u32,
    /// Where the container has it.
    pub mount_path: String,
    /// The part of the volume that the container gets, as a relative path of plain names,
    /// `subPathExpr` expanded; none for the whole volume, empty for its root folder by itself.
    pub sub_path: Option<String>,
    /// The container can only read it.
    pub read_only: bool,
    /// Whether mounts inside are read-only too.
    pub recursive_read_only: RecursiveReadOnly,
    /// Which mounts travel.
    pub propagation: MountPropagation,
}

impl ContainerMount {
    /// Where the host shows the sub-path, in the pod's folder, as the kubelet lays it out.
    pub fn sub_path_place(&self, volume: &SpecName) -> String {
        format!("volume-subpaths/{volume}/{}/{}", self.container, self.index)
    }

    /// The entry, as messages name it: `volumeMounts[1] of container "main"`.
    pub fn shown(&self) -> String {
        format!("volumeMounts[{}] of container {:?}", self.index, self.container)
    }
}
