//! A pod's volumes, and their uses by containers.

use volhost_model::selinux::SelinuxOptions;
use volhost_model::{ContainerMount, OuterName};

use super::written_source::WrittenSource;

/// A volume of a pod as the manifest has it.
#[derive(Debug, Clone, PartialEq)]
pub struct PodVolume {
    /// Its name.
    pub name: OuterName,
    /// Its line in the file.
    pub line: u32,
    /// Every field but the name: the source, or by mistake none or several.
    pub source: WrittenSource,
}

/// A container's use of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeUse {
    /// The volume it names.
    pub volume: OuterName,
    /// The field: `spec.containers[0].volumeMounts[1]`.
    pub path: String,
    /// The field's line in the file.
    pub line: u32,
    /// `seLinuxOptions` of the container, or else of the pod; none for a device.
    pub selinux: Option<SelinuxOptions>,
    /// The mount, for a file system; none for a device.
    pub mount: Option<MountUse>,
    /// The device; none for a file system.
    pub device: Option<DeviceUse>,
}

impl VolumeUse {
    /// Whether it is a use as a device (`volumeDevices`), not as a file system.
    pub const fn is_device(&self) -> bool {
        self.device.is_some()
    }
}

/// An entry of `volumeDevices`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceUse {
    /// The container.
    pub container: String,
    /// Its place in the container's `volumeDevices`, from 0.
    pub index: u32,
    /// The path of the device in the container.
    pub device_path: String,
}

/// An entry of `volumeMounts`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountUse {
    /// Its fields, `subPath` included.
    pub mount: ContainerMount,
    /// `subPathExpr`, not expanded.
    pub sub_path_expr: Option<String>,
}
