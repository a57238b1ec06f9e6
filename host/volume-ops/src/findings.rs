//! What operations find out besides their result.

use volhost_core::DeviceReport;

/// What an operation learns on its way, whatever its result.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// What the volume is attached as.
    pub(super) device_path: Option<String>,
    /// What became of the staging.
    pub(super) device: Option<DeviceReport>,
    /// The volume's size in bytes.
    pub(super) size: Option<u64>,
    /// The size that the volume cannot have, in bytes.
    pub(super) refused_size: Option<u64>,
    /// The other node that has the volume.
    pub(super) other_node: Option<String>,
}
