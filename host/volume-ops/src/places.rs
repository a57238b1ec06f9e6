//! Where one volume is staged and published: the parameter of the [`steps`](super::steps).
//!
//! The daemon takes these places from its [`NodeFolders`](super::node_folders::NodeFolders). A
//! container orchestrator names them to a CSI driver in each request.

use std::ffi::OsString;
use std::sync::Arc;

use volhost_kernel::{Detach, Directory, Entry, Kernel, KernelError};
use volhost_model::names::{PodUid, SpecName};
use volhost_runtime::{NeededPlace, OtherPods, Place, PrivateFolder, Target};

use super::other_users::OtherUsers;

/// Where a volume is staged.
#[derive(Debug)]
pub struct StagingPlace {
    /// The folder that contains the staging mount.
    pub folder: Directory,
    /// The name of the staging mount in it.
    pub name: OsString,
    /// The volume's name in pods' folders.
    pub spec_name: SpecName,
    /// The folder with the note that the plugin keeps about the staged volume.
    pub note: PrivateFolder,
}

impl StagingPlace {
    /// Returns the place as the plugin's target.
    pub fn target(&self) -> Target {
        Target {
            parent: self.folder.clone(),
            name: self.name.clone(),
            pod_uid: None,
            spec_name: self.spec_name.clone(),
            staging_mount: None,
            private: Some(self.note.clone()),
            other_pods: None,
            needed: Vec::new(),
        }
    }

    /// Returns whether the volume is mounted there; a driver may stage without a mount.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn is_mounted(&self, kernel: &dyn Kernel) -> Result<bool, KernelError> {
        Ok(matches!(kernel.entry(&self.folder, &self.name)?, Entry::Mount(_)))
    }

    /// Unmounts the staging mount without asking a plugin: the host made every mount at that place.
    ///
    /// # Errors
    /// The kernel's error; `NotEmpty` for a folder with data.
    pub fn unmount(&self, kernel: &dyn Kernel) -> Result<(), KernelError> {
        kernel.detach(&self.folder, &self.name, Detach::Normal)
    }
}

/// Where a volume is published for one pod.
#[derive(Debug)]
pub struct PublishPlace {
    /// The folder that contains the target.
    pub folder: Directory,
    /// The target's name in it.
    pub name: OsString,
    /// The pod.
    pub pod: PodUid,
    /// The volume's name in pods' folders.
    pub spec_name: SpecName,
    /// The volume's staging mount, if it has one.
    pub staging: Option<Place>,
    /// The folder with what the volume keeps besides what the pod sees.
    pub private: Option<PrivateFolder>,
    /// Who else uses the volume.
    pub other_users: Option<Arc<OtherUsers>>,
    /// The pod's other volumes that this one is made of.
    pub needed: Vec<NeededPlace>,
}

impl PublishPlace {
    /// Returns the place as the plugin's target.
    pub fn target(&self) -> Target {
        Target {
            parent: self.folder.clone(),
            name: self.name.clone(),
            pod_uid: Some(self.pod.clone()),
            spec_name: self.spec_name.clone(),
            staging_mount: self.staging.clone(),
            private: self.private.clone(),
            other_pods: self.other_users.clone().map(|users| users as Arc<dyn OtherPods>),
            needed: self.needed.clone(),
        }
    }

    /// Looks at the target.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn entry(&self, kernel: &dyn Kernel) -> Result<Entry, KernelError> {
        kernel.entry(&self.folder, &self.name)
    }

    /// Unmounts the target without asking a plugin: the host made every mount at a target. An empty
    /// folder is removed.
    ///
    /// # Errors
    /// The kernel's error; `NotEmpty` for a folder with data, which only its plugin may remove.
    pub fn unmount(&self, kernel: &dyn Kernel) -> Result<(), KernelError> {
        kernel.detach(&self.folder, &self.name, Detach::Normal)
    }

    /// Removes what the volume kept besides what the pod saw. Call it after the unmount: the mount
    /// may have shown it.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn remove_private(&self, kernel: &dyn Kernel) -> Result<(), KernelError> {
        self.private.as_ref().map_or(Ok(()), |private| private.remove(kernel))
    }
}
