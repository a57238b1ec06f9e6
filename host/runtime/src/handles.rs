//! The host's objects behind the contract's resources, for which a plugin has handles.

use std::collections::BTreeMap;
use std::sync::Arc;

use volhost_kernel::{MountId, MountSnapshot};
use volhost_model::{Pod, VolumeSpec};

use crate::fuse_servers::FuseServerDescriptor;
use crate::measured::Measured;
use crate::provisioned::{MadeSnapshot, MadeVolume, Page, WantedGroup, WantedSnapshot, WantedVolume};
use crate::settings::DeclaredSetting;
use crate::target::{Attachment, Place, Target};
use volhost_model::driver_programs::{DriverAnswer, DriverOutcome};
use volhost_model::images::StoredImage;
use volhost_model::iscsi::{ChapUser, LogicalUnit};
use volhost_model::objects::KeyedObject;

/// A plugin's description of itself, as `describe` fills it in.
#[derive(Debug, Default)]
pub struct Description {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) sources: Vec<String>,
    pub(crate) accepts_mount_options: bool,
    pub(crate) follows_its_source: bool,
    pub(crate) read_only: bool,
    pub(crate) settings: Vec<DeclaredSetting>,
}

/// A plugin's description of a volume, as `identify` fills it in.
#[derive(Debug, Default)]
pub struct Identity {
    pub(crate) name: Option<String>,
    pub(crate) attachable: Option<bool>,
    pub(crate) stageable: Option<bool>,
    pub(crate) needs: Vec<String>,
    pub(crate) selinux_mount: bool,
    pub(crate) attach_limit: Option<u32>,
    pub(crate) attach_limit_of: Option<(String, u32)>,
    pub(crate) refreshed: bool,
}

/// How full a volume is and how well, as `measure` fills it in.
#[derive(Debug, Default)]
pub struct Measurement(pub(crate) Measured);

/// A volume that is to be made.
#[derive(Debug)]
pub struct VolumeRequest(pub(crate) WantedVolume);

/// A volume that there is, as a plugin fills it in.
#[derive(Debug, Default)]
pub struct VolumeAnswer(pub(crate) MadeVolume);

/// A page of volumes, likewise.
#[derive(Debug, Default)]
pub struct VolumePage(pub(crate) Page<MadeVolume>);

/// A snapshot that is to be made.
#[derive(Debug)]
pub struct SnapshotRequest(pub(crate) WantedSnapshot);

/// Snapshots of several volumes that are to be made.
#[derive(Debug)]
pub struct GroupRequest(pub(crate) WantedGroup);

/// A page of snapshots, as a plugin fills it in.
#[derive(Debug, Default)]
pub struct SnapshotPage(pub(crate) Page<MadeSnapshot>);

/// A volume, as a plugin sees it.
#[derive(Debug)]
pub struct VolumeHandle(pub(crate) Arc<VolumeSpec>);

/// A pod, as a plugin sees it.
#[derive(Debug)]
pub struct PodHandle(pub(crate) Arc<Pod>);

/// Where the volume goes.
#[derive(Debug)]
pub struct MountTarget(pub(crate) Arc<Target>);

/// The content of a file; a plugin never sees it, nor learns how long it is.
pub struct Content {
    pub(crate) bytes: Arc<[u8]>,
    /// The identity of the content, which stays the same when it changes and however often it is
    /// opened.
    pub(crate) identity: String,
    /// What it counts for against the limit of a payload, in bytes.
    pub(crate) charge: usize,
}

impl Content {
    /// The content of an object that the volume names.
    pub(crate) fn of_object(identity: String, bytes: Arc<[u8]>) -> Self {
        let charge = bytes.len();
        Self { bytes, identity, charge }
    }

    /// A token. All count the same: a plugin can ask for many of them.
    pub(crate) fn of_token(identity: String, bytes: Arc<[u8]>) -> Self {
        /// More than any token has, in bytes.
        const CHARGE: usize = 64 << 10;
        Self { bytes, identity, charge: CHARGE }
    }
}

impl std::fmt::Debug for Content {
    /// Its identity alone: it may be a secret (rule R10).
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Content({})", self.identity)
    }
}

/// Files that a volume is to show.
#[derive(Debug)]
pub struct Payload {
    pub(crate) files: BTreeMap<String, volhost_kernel::PayloadFile>,
    /// What the plugin itself wrote, in bytes.
    pub(crate) bytes: usize,
    /// Of the contents that the host keeps, by their identities.
    pub(crate) kept: BTreeMap<String, KeptContent>,
    /// What these count for together, in bytes.
    pub(crate) kept_charge: usize,
    /// The identity of the content of a file, where the host keeps it.
    pub(crate) kept_at: BTreeMap<String, String>,
    pub(crate) owner: Option<u32>,
    pub(crate) group: Option<u32>,
    pub(crate) folder_mode: u32,
}

/// A content that the host keeps, in a payload.
#[derive(Debug)]
pub(crate) struct KeptContent {
    /// How many files have it.
    pub(crate) files: usize,
}

/// A config map, and its name.
#[derive(Debug)]
pub struct ConfigMap {
    pub(crate) name: String,
    pub(crate) object: KeyedObject,
}

/// A secret, and its name for the log.
#[derive(Debug)]
pub struct Secret {
    pub(crate) name: String,
    pub(crate) object: KeyedObject,
}

/// A request to a driver. It may contain secrets.
pub struct GrpcRequest {
    pub(crate) message: Vec<u8>,
    /// How much of it the plugin wrote, in bytes.
    pub(crate) written: usize,
    /// How many contents that the host keeps are in it.
    pub(crate) contents: usize,
}

impl std::fmt::Debug for GrpcRequest {
    /// Its size alone (rule R10).
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "GrpcRequest({} bytes of the plugin's)", self.written)
    }
}

/// Something that can be bind-mounted.
#[derive(Debug)]
pub struct MountSource {
    pub(crate) source: volhost_kernel::MountSource,
    /// Nothing may be written through what is made of it.
    pub(crate) read_only: bool,
}

impl MountSource {
    /// Returns what may be written to, as far as its mount allows.
    pub(crate) fn writable(source: volhost_kernel::MountSource) -> Self {
        Self { source, read_only: false }
    }

    /// Returns what may only be read.
    pub(crate) fn read_only(source: volhost_kernel::MountSource) -> Self {
        Self { source, read_only: true }
    }
}

/// A detached mount, not visible yet.
#[derive(Debug)]
pub struct DetachedMount(pub(crate) volhost_kernel::DetachedMount);

/// A block device, as a plugin sees it.
#[derive(Debug)]
pub struct BlockDevice(pub(crate) Arc<volhost_kernel::BlockDevice>);

/// Where an external driver is to mount, and what was mounted before.
#[derive(Debug)]
pub struct DriverPlace {
    pub(crate) target: Arc<Target>,
    pub(crate) path: String,
    pub(crate) before: Option<MountId>,
    pub(crate) known: MountSnapshot,
}

/// Where an external driver is to make a device appear.
#[derive(Debug)]
pub struct DevicePlace {
    pub(crate) place: Place,
    pub(crate) path: String,
}

/// An attached volume, as a plugin sees it.
#[derive(Debug)]
pub struct AttachmentHandle(pub(crate) Attachment);

/// How a file system is to be made, as the plugin has said so far.
#[derive(Debug, Default)]
pub struct FormatOptions(pub(crate) volhost_kernel::FormatOptions);

/// A driver that was opened.
#[derive(Debug)]
pub struct Driver {
    pub(crate) name: String,
    pub(crate) init: DriverAnswer,
}

/// The arguments of a run; may contain secrets.
#[derive(Default)]
pub struct Arguments {
    pub(crate) call: String,
    pub(crate) texts: Vec<String>,
    pub(crate) secrets: Vec<String>,
}

/// The options of a run; may contain secrets.
#[derive(Default)]
pub struct Options {
    pub(crate) values: BTreeMap<String, String>,
    pub(crate) secrets: Vec<String>,
}

impl std::fmt::Debug for Arguments {
    /// Without what they say (rule R10).
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Arguments({} and {} more)", self.call, self.texts.len())
    }
}

impl std::fmt::Debug for Options {
    /// Without their values (rule R10).
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.values.keys()).finish()
    }
}

/// The result of a run.
#[derive(Debug)]
pub struct Outcome(pub(crate) DriverOutcome);

/// A logical unit of an iSCSI target, as the plugin has described it so far.
#[derive(Debug)]
pub struct LogicalUnitHandle {
    pub(crate) unit: LogicalUnit,
    /// How this node authenticates.
    pub(crate) node: Option<ChapUser>,
    /// How the target does.
    pub(crate) target: Option<ChapUser>,
}

/// An OCI image of the node's store.
#[derive(Debug)]
pub struct ImageHandle(pub(crate) StoredImage);

/// A FUSE server that is about to be started; none once it was.
#[derive(Debug)]
pub struct FuseServerHandle {
    pub(crate) name: String,
    pub(crate) slots: Option<BTreeMap<String, Filling>>,
}

/// The content of a slot.
#[derive(Debug)]
pub enum Filling {
    Text(String),
    Descriptor(FuseServerDescriptor),
}
