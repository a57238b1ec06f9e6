//! Whether a volume that recovery found without a record is a file system or a device: what is on
//! the node says so.
//!
//! A plugin is asked to undo what it did, and nothing else. A CSI driver that is asked to unstage a
//! volume at the path of a device, while the volume's file system is staged elsewhere, refuses it,
//! or may take away the storage below the mount.

use std::ffi::OsStr;
use std::path::Path;

use volhost_core::Operation;
use volhost_kernel::{Entry, KernelError};
use volhost_model::names::PodUid;

use super::layout;
use super::node_folders::{NodeFolders, VolumeRef};

/// The modes in which a volume has to be taken down: at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FoundModes {
    pub(super) file_system: bool,
    pub(super) device: bool,
}

impl FoundModes {
    /// Without a trace of either it may be either: attached only, or staged by a plugin that leaves
    /// no trace.
    fn by_traces(file_system: bool, device: bool) -> Self {
        let is_unknown = !file_system && !device;
        Self { file_system: file_system || is_unknown, device: device || is_unknown }
    }

    /// The modes in which the volume may be published for the pod, by what the pod's folder has.
    ///
    /// # Errors
    /// The kernel's error.
    pub(super) fn published(folders: &NodeFolders, operation: &Operation, pod: &PodUid) -> Result<Self, KernelError> {
        let name = OsStr::new(operation.spec_name.as_str());
        let is_in = |folder: &Path| -> Result<bool, KernelError> {
            match folders.open(folder)? {
                Some(folder) => Ok(folders.kernel().entry(&folder, name)? != Entry::Absent),
                None => Ok(false),
            }
        };
        Ok(Self::by_traces(
            is_in(&layout::plugin_folder(pod, &operation.plugin))?,
            is_in(&layout::pod_device_folder(pod, &operation.plugin))?,
        ))
    }

    /// The modes in which the volume may be staged. A staging mount decides: nothing is mounted for
    /// a device, and the empty folders of one may be left from before.
    ///
    /// # Errors
    /// The kernel's error.
    pub(super) fn staged(folders: &NodeFolders, operation: &Operation) -> Result<Self, KernelError> {
        let volume = VolumeRef::of(operation);
        let staging = folders.staging(volume)?;
        if let Some(place) = &staging
            && place.is_mounted(folders.kernel().as_ref())?
        {
            return Ok(Self { file_system: true, device: false });
        }
        Ok(Self::by_traces(staging.is_some(), folders.device(volume).exists()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_without_a_trace_may_be_either() {
        let modes = |file_system, device| FoundModes { file_system, device };
        assert_eq!(FoundModes::by_traces(false, false), modes(true, true));
        assert_eq!(FoundModes::by_traces(true, false), modes(true, false));
        assert_eq!(FoundModes::by_traces(false, true), modes(false, true));
        assert_eq!(FoundModes::by_traces(true, true), modes(true, true));
    }
}
