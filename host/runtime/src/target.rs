//! Where a volume goes, and what a call about it needs of the node.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Debug;
use std::sync::Arc;

use volhost_kernel::{BlockDevice, Directory, KernelError};
use volhost_model::{PodUid, SpecName};

use crate::private::PrivateFolder;

/// A name in a folder that the host holds open.
#[derive(Debug)]
pub struct Place {
    /// The folder.
    pub parent: Directory,
    /// The name in it.
    pub name: OsString,
}

/// The one place where a volume stands, for a pod or for the node.
#[derive(Debug)]
pub struct Target {
    /// The folder.
    pub parent: Directory,
    /// The name in it.
    pub name: OsString,
    /// The pod; none for the node's own mount.
    pub pod_uid: Option<PodUid>,
    /// The volume's name in pods' folders.
    pub spec_name: SpecName,
    /// Where the node's own mount of the volume stands, for a pod's target of a volume that has one.
    pub staging_mount: Option<Place>,
    /// The folder where the target's note is kept; for a pod's target also the volume's private folder.
    pub private: Option<PrivateFolder>,
    /// Who else has the volume, likewise.
    pub sharers: Option<Arc<dyn Sharers>>,
    /// The pod's other volumes that this one is made of.
    pub needed: Vec<NeededPlace>,
}

/// Where another volume of the pod stands.
#[derive(Debug)]
pub struct NeededPlace {
    /// Its name in the pod.
    pub name: String,
    /// Where.
    pub place: Place,
    /// It was set up as a mount: a folder there is not it.
    pub is_mount: bool,
}

/// The other pods that have a volume which is mounted for the node.
pub trait Sharers: Send + Sync + Debug {
    /// In how many other pods' folders the node's own mount is shown now.
    ///
    /// # Errors
    /// What the kernel said when it was asked for its mounts.
    fn other_pods(&self) -> Result<u32, KernelError>;
}

/// What is known of an attached volume.
#[derive(Debug, Clone)]
pub struct Attachment {
    /// What the plugin answered when it attached the volume, or what the controller reported that did.
    pub attached_as: String,
    /// What the controller's report says of it beside that.
    pub metadata: BTreeMap<String, String>,
    /// Its device, once it was found.
    pub device: Option<Arc<BlockDevice>>,
}
