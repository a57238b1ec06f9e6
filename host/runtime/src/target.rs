//! Where a volume goes, and what a call about it needs of the node.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Debug;
use std::sync::Arc;

use volhost_kernel::{BlockDevice, Directory, KernelError};
use volhost_model::{PodUid, SpecName};

use crate::private::PrivateFolder;

/// A name in a folder that the host has open.
#[derive(Debug, Clone)]
pub struct Place {
    /// The folder.
    pub parent: Directory,
    /// The name in it.
    pub name: OsString,
}

/// The one place where a volume is published for a pod, or staged for the node.
#[derive(Debug)]
pub struct Target {
    /// The folder.
    pub parent: Directory,
    /// The name in it.
    pub name: OsString,
    /// The pod; none for the staging mount.
    pub pod_uid: Option<PodUid>,
    /// The volume's name in pods' folders.
    pub spec_name: SpecName,
    /// The staging mount, for a pod's target of a volume that is staged.
    pub staging_mount: Option<Place>,
    /// The folder where the target's note is kept; for a pod's target also the volume's private
    /// folder.
    pub private: Option<PrivateFolder>,
    /// The other pods that use the volume, likewise.
    pub other_pods: Option<Arc<dyn OtherPods>>,
    /// The pod's other volumes that this one is made of.
    pub needed: Vec<NeededPlace>,
}

/// The place of another volume of the pod.
#[derive(Debug, Clone)]
pub struct NeededPlace {
    /// Its name in the pod.
    pub name: String,
    /// Where.
    pub place: Place,
    /// It was set up as a mount: a folder there is not it.
    pub is_mount: bool,
}

/// The other pods that use a staged volume.
pub trait OtherPods: Send + Sync + Debug {
    /// Returns in how many other pods' folders the staging mount is mounted now.
    ///
    /// # Errors
    /// What the kernel said when it was asked for its mounts.
    fn other_pods(&self) -> Result<u32, KernelError>;
}

/// Facts of an attached volume.
#[derive(Debug, Clone)]
pub struct Attachment {
    /// What the plugin answered when it attached the volume, or what the controller reported that
    /// did.
    pub attached_as: String,
    /// What the controller's report says of it beside that.
    pub metadata: BTreeMap<String, String>,
    /// Its device, once it was found.
    pub device: Option<Arc<BlockDevice>>,
}
