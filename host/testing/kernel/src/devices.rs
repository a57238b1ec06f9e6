//! The block devices: their nodes in `/dev`, and what lies on them.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use volhost_kernel::implement::text;
use volhost_kernel::{BlockDevice, Contents, DeviceError, DeviceNumber, Errno, KernelError, Result, SourceKind};

use super::state::{At, InodeContent, MachineState, MountKey, NodeId, Sys};

/// The driver number of loop devices, as on Linux.
pub(super) const LOOP_MAJOR: u32 = 7;
/// The driver number of every other device.
const DISK_MAJOR: u32 = 259;

/// Where a device's bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Backing {
    /// In a file: a loop device.
    File(NodeId),
    /// In itself: a disk.
    Own(DeviceNumber),
    /// In another device, by the mount that shows it: a pin, which keeps that mount by an entry
    /// among the open files.
    Pinned { mount: MountKey, device: DeviceNumber, hold: u64 },
}

/// A device that has storage.
#[derive(Debug, Clone)]
pub(super) struct SimulatedDevice {
    pub(super) backing: Backing,
    pub(super) bytes: u64,
    pub(super) read_only: bool,
    /// The path of the file when it was attached by that.
    pub(super) attached_at: Option<PathBuf>,
}

/// How much is wrong with a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// A check repairs it.
    Repairable,
    /// Only a person can.
    Lasting,
}

/// The content of storage, whether or not a device shows it.
#[derive(Debug, Clone)]
pub(super) struct Medium {
    pub(super) contents: Contents,
    pub(super) damage: Option<Damage>,
    /// The file system, and its root folder; none before it was formatted here.
    pub(super) file_system: Option<(u64, NodeId)>,
    /// Bytes that the file system spans.
    pub(super) bytes: u64,
}

impl Default for Medium {
    fn default() -> Self {
        Self { contents: Contents::Blank, damage: None, file_system: None, bytes: 0 }
    }
}

#[derive(Debug, Default)]
pub(super) struct SimulatedDevices {
    pub(super) all: BTreeMap<DeviceNumber, SimulatedDevice>,
    /// The device of a node; it may have gone.
    pub(super) nodes: HashMap<NodeId, DeviceNumber>,
    pub(super) media: HashMap<Backing, Medium>,
    /// Sizes of files with holes, in bytes; others have their content's.
    pub(super) sizes: HashMap<NodeId, u64>,
    /// What of a file is reserved on the disk, in bytes.
    pub(super) reserved: HashMap<NodeId, u64>,
    /// Devices that programs have open.
    pub(super) opened: Vec<(u64, DeviceNumber)>,
    /// The device of a file system.
    pub(super) sources: HashMap<u64, PathBuf>,
}

impl SimulatedDevices {
    /// Returns what lies on a device.
    pub(super) fn medium(&mut self, number: DeviceNumber) -> Option<&mut Medium> {
        let backing = match self.all.get(&number)?.backing {
            // A pin shows the bytes of what it pins.
            Backing::Pinned { device, .. } => self.all.get(&device)?.backing,
            backing => backing,
        };
        Some(self.media.entry(backing).or_default())
    }

    /// The first device over this backing.
    pub(super) fn over(&self, backing: Backing) -> Option<DeviceNumber> {
        self.all.iter().find(|(_, device)| device.backing == backing).map(|(number, _)| *number)
    }

    /// The pin of the device that a mount shows.
    pub(super) fn pin_of(&self, shown: MountKey) -> Option<DeviceNumber> {
        let is_pin =
            |device: &SimulatedDevice| matches!(device.backing, Backing::Pinned { mount, .. } if mount == shown);
        self.all.iter().find(|(_, device)| is_pin(device)).map(|(number, _)| *number)
    }

    pub(super) fn is_pinned(&self, number: DeviceNumber) -> bool {
        self.pin_over(number).is_some()
    }

    /// A pin of this device, whichever mount shows it.
    pub(super) fn pin_over(&self, number: DeviceNumber) -> Option<DeviceNumber> {
        let pins =
            |device: &SimulatedDevice| matches!(device.backing, Backing::Pinned { device, .. } if device == number);
        self.all.iter().find(|(_, device)| pins(device)).map(|(number, _)| *number)
    }
}

impl MachineState {
    /// Makes a loop device over a backing, with the lowest free number, and its node.
    pub(super) fn new_loop(&mut self, backing: Backing, bytes: u64, read_only: bool) -> Sys<DeviceNumber> {
        let taken = |minor: &u32| self.devices.all.contains_key(&DeviceNumber { major: LOOP_MAJOR, minor: *minor });
        let minor = (0..).find(|minor| !taken(minor)).ok_or(Errno::NOSPC)?;
        let number = DeviceNumber { major: LOOP_MAJOR, minor };
        let path = PathBuf::from(format!("/dev/loop{minor}"));
        self.device_node(&path, number)?;
        self.devices.all.insert(number, SimulatedDevice { backing, bytes, read_only, attached_at: None });
        Ok(number)
    }

    /// A disk of its own, at a path whose missing parents are made.
    pub(super) fn new_disk(&mut self, path: &Path, bytes: u64) -> Sys<DeviceNumber> {
        let number = self.fresh_disk_number()?;
        self.device_node(path, number)?;
        let backing = Backing::Own(number);
        self.devices.all.insert(number, SimulatedDevice { backing, bytes, read_only: false, attached_at: None });
        Ok(number)
    }

    /// A number that no device has had.
    pub(super) fn fresh_disk_number(&mut self) -> Sys<DeviceNumber> {
        let minor = u32::try_from(self.fresh()).map_err(|_| Errno::NOSPC)?;
        Ok(DeviceNumber { major: DISK_MAJOR, minor })
    }

    /// A node for a device, made if it is not there.
    fn device_node(&mut self, path: &Path, number: DeviceNumber) -> Sys<At> {
        let mut at = self.resolve(Path::new("/"))?;
        let mut names = path.iter().skip(1).peekable();
        while let Some(name) = names.next() {
            let content = if names.peek().is_some() {
                InodeContent::Folder(BTreeMap::new())
            } else {
                InodeContent::Other(SourceKind::BlockDevice)
            };
            at = match self.entry(at, name) {
                Err(Errno::NOENT) => self.create(at, name, content, 0o755)?,
                found => found?,
            };
        }
        self.devices.nodes.insert(at.node, number);
        Ok(at)
    }

    /// The device at a place.
    pub(super) fn device_at(&self, at: At) -> Option<DeviceNumber> {
        self.devices.nodes.get(&at.node).copied()
    }

    /// The device that is mapped at a name, and the mount that shows it.
    pub(super) fn mapped(&self, folder: At, name: &OsStr) -> Sys<Option<(MountKey, DeviceNumber)>> {
        match self.entry(folder, name) {
            Ok(at) if at.mount != folder.mount => Ok(self.device_at(at).map(|number| (at.mount, number))),
            Ok(_) | Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Returns whether a file system on the device is mounted, seen or unseen.
    pub(super) fn is_in_use(&mut self, number: DeviceNumber) -> bool {
        let Some((file_system, _)) = self.devices.medium(number).and_then(|medium| medium.file_system) else {
            return false;
        };
        let lies_on_it = |root: &NodeId| self.nodes.get(root).is_some_and(|node| node.file_system == file_system);
        self.mounts.values().any(|mount| lies_on_it(&mount.root))
    }

    /// The device behind a handle; a loop device without a file has no storage.
    pub(super) fn storage(&self, device: &BlockDevice) -> Result<Option<SimulatedDevice>> {
        match self.devices.all.get(&device.number()) {
            Some(found) => Ok(Some(found.clone())),
            None if device.number().major == LOOP_MAJOR => Ok(None),
            None => Err(KernelError::Device(DeviceError::Gone { path: text(device.path()), wanted: device.number() })),
        }
    }

    /// Makes sure that the device's path still names it.
    pub(super) fn check_device_path(&self, device: &BlockDevice) -> Result<()> {
        let named = self.resolve(device.path()).ok().and_then(|at| self.device_at(at));
        if named == Some(device.number()) {
            return Ok(());
        }
        Err(KernelError::Device(DeviceError::Gone { path: text(device.path()), wanted: device.number() }))
    }

    /// A file's size in bytes.
    pub(super) fn file_size(&self, node: NodeId) -> Sys<u64> {
        let InodeContent::File(bytes) = &self.node(node)?.content else {
            return Err(Errno::INVAL);
        };
        let written = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        Ok(self.devices.sizes.get(&node).copied().unwrap_or_default().max(written))
    }
}
