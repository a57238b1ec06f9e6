//! File systems on block devices.

use std::collections::BTreeMap;

use volhost_kernel::filesystems::LABEL_OPTION;
use volhost_kernel::implement::{Family, check_device_options, text};
use volhost_kernel::{
    BlockDevice, CheckOutcome, Contents, DetachedMount, DeviceError, DeviceNumber, Directory, Errno, FilesystemError,
    Filesystems, FormatOptions, FsOption, KernelError, Result, Step,
};

use super::devices::{Backing, Damage, Medium, SimulatedDevice};
use super::state::{At, FileSystem, Inode, InodeContent, MachineState};
use super::{InMemoryKernel, lock};

/// What a file system on no device has for one; Linux gives it a number that no device has.
const NO_DEVICE: DeviceNumber = DeviceNumber { major: 0, minor: 0 };
/// The unit of the file systems, in bytes.
const BLOCK: u64 = 4096;

impl MachineState {
    /// The device with storage, or the error of a step on one that has none.
    fn with_storage(&self, device: &BlockDevice, step: Step) -> Result<SimulatedDevice> {
        let empty = || KernelError::Failed {
            step,
            path: text(device.path()),
            errno: Errno::NOMEDIUM,
            detail: "it has no storage".to_owned(),
        };
        self.storage(device)?.filter(|found| found.bytes > 0).ok_or_else(empty)
    }

    fn medium_of(&mut self, device: &BlockDevice, step: Step) -> Result<&mut Medium> {
        self.with_storage(device, step)?;
        let gone = || KernelError::Device(DeviceError::Gone { path: text(device.path()), wanted: device.number() });
        self.devices.medium(device.number()).ok_or_else(gone)
    }

    /// Returns what every call that writes a file system asks first.
    fn ready_to_write(&mut self, device: &BlockDevice, step: Step) -> Result<()> {
        self.check_device_path(device)?;
        self.check_unshown(device, step)?;
        if self.is_in_use(device.number()) {
            return Err(KernelError::failed(step, text(device.path()), Errno::BUSY));
        }
        if self.with_storage(device, step)?.read_only {
            return Err(KernelError::Device(DeviceError::ReadOnly { path: text(device.path()) }));
        }
        Ok(())
    }

    /// Refuses a device that a pod has as a device.
    fn check_unshown(&self, device: &BlockDevice, step: Step) -> Result<()> {
        match self.devices.pin_over(device.number()) {
            None => Ok(()),
            Some(pin) => {
                let (path, by) = (text(device.path()), format!("/dev/loop{}", pin.minor));
                Err(KernelError::Device(DeviceError::Shown { step, path, by }))
            }
        }
    }

    /// The content of a device. Bytes of a file that no formatting here has put there are a user's.
    fn contents_of(&mut self, device: &BlockDevice) -> Result<Contents> {
        let contents = self.medium_of(device, Step::ReadDevice)?.contents.clone();
        let backing = self.devices.all.get(&device.number()).map(|device| device.backing);
        let (Contents::Blank, Some(Backing::File(node))) = (&contents, backing) else { return Ok(contents) };
        let first = match self.node(node).map(|node| &node.content) {
            Ok(InodeContent::File(bytes)) => bytes.iter().position(|byte| *byte != 0),
            _ => None,
        };
        Ok(first
            .map_or(contents, |at| Contents::Other(format!("data that no tool recognises (the first at byte {at})"))))
    }

    /// Makes an empty file system on a medium.
    fn make_file_system(&mut self, device: &BlockDevice, fs_type: &str, label: Option<&str>, bytes: u64) -> Result<()> {
        let id = self.fresh();
        let content = InodeContent::Folder(BTreeMap::new());
        let root = Inode { content, mode: 0o755, owner: 0, group: 0, file_system: id, parent: None };
        self.nodes.insert(id, root);
        let options = Vec::new();
        let made = FileSystem { fs_type: fs_type.to_owned(), options, max_bytes: Some(bytes), max_inodes: None };
        self.file_systems.insert(id, made);
        let medium = self.medium_of(device, Step::FormatDevice)?;
        medium.contents = Contents::Filesystem { fs_type: fs_type.to_owned(), label: label.map(str::to_owned) };
        medium.file_system = Some((id, id));
        medium.bytes = bytes;
        medium.damage = None;
        Ok(())
    }

    /// Gives the file system on a device another size.
    fn resize(&mut self, device: &BlockDevice, bytes: u64) -> Result<()> {
        let medium = self.medium_of(device, Step::GrowFileSystem)?;
        medium.bytes = bytes;
        let id = medium.file_system.map(|(id, _)| id);
        if let Some(resized) = id.and_then(|id| self.file_systems.get_mut(&id)) {
            resized.max_bytes = Some(bytes);
        }
        Ok(())
    }

    /// Sizes in blocks of the device and of the file system that is mounted at a folder, which must
    /// be that of the device.
    fn blocks(&mut self, device: &BlockDevice, folder: At, shown: &Directory) -> Result<(u64, u64)> {
        let bytes = self.with_storage(device, Step::MeasureFileSystem)?.bytes;
        let medium = self.medium_of(device, Step::MeasureFileSystem)?.clone();
        let mounted = self.nodes.get(&folder.node).map(|node| node.file_system);
        if medium.file_system.map(|(id, _)| id) == mounted {
            return Ok((bytes / BLOCK, medium.bytes / BLOCK));
        }
        let numbers: Vec<DeviceNumber> = self.devices.all.keys().copied().collect();
        let found = numbers.into_iter().find(|number| {
            let lies_here = self.devices.medium(*number).and_then(|medium| medium.file_system);
            lies_here.map(|(id, _)| id) == mounted
        });
        let found = found.unwrap_or(NO_DEVICE);
        Err(KernelError::Device(DeviceError::Other { path: text(shown.label()), found, wanted: device.number() }))
    }
}

/// The error for a device that has not the type that was asked for.
fn other_type(device: &BlockDevice, contents: &Contents, wanted: &str) -> KernelError {
    match contents {
        Contents::Filesystem { fs_type: found, .. } => KernelError::Filesystem(FilesystemError::Mismatch {
            path: text(device.path()),
            found: found.clone(),
            wanted: wanted.to_owned(),
        }),
        Contents::Blank => KernelError::failed(Step::MountFileSystem, text(device.path()), Errno::INVAL),
        found => KernelError::Filesystem(FilesystemError::Missing {
            path: text(device.path()),
            found: found.to_string(),
            wanted: wanted.to_owned(),
        }),
    }
}

impl Filesystems for InMemoryKernel {
    fn probe(&self, device: &BlockDevice) -> Result<Contents> {
        self.node(device)?;
        let mut state = lock(&self.state);
        state.step(Step::ReadDevice, device.path())?;
        state.check_device_path(device)?;
        state.step(Step::ProbeDevice, device.path())?;
        state.contents_of(device)
    }

    fn format(&self, device: &BlockDevice, fs_type: &str, options: &FormatOptions) -> Result<()> {
        Family::of(device, fs_type)?;
        options.arguments(fs_type)?;
        self.node(device)?;
        {
            let mut state = lock(&self.state);
            state.step(Step::CheckUse, device.path())?;
            state.ready_to_write(device, Step::FormatDevice)?;
        }
        match self.probe(device)? {
            Contents::Blank => {}
            found => {
                return Err(KernelError::Filesystem(FilesystemError::NotBlank {
                    path: text(device.path()),
                    found: found.to_string(),
                }));
            }
        }
        let mut state = lock(&self.state);
        state.step(Step::FormatDevice, device.path())?;
        let bytes = state.with_storage(device, Step::FormatDevice)?.bytes;
        state.make_file_system(device, fs_type, options.label.as_deref(), bytes)
    }

    fn check(&self, device: &BlockDevice, fs_type: &str) -> Result<CheckOutcome> {
        let family = Family::of(device, fs_type)?;
        self.node(device)?;
        if family != Family::Ext {
            return Ok(CheckOutcome::AtMount);
        }
        let mut state = lock(&self.state);
        state.ready_to_write(device, Step::CheckFileSystem)?;
        state.step(Step::CheckFileSystem, device.path())?;
        let contents = state.contents_of(device)?;
        let medium = state.medium_of(device, Step::CheckFileSystem)?;
        let is_ext = matches!(&medium.contents, Contents::Filesystem { fs_type, .. } if fs_type.starts_with("ext"));
        if !is_ext {
            return Err(other_type(device, &contents, fs_type));
        }
        match medium.damage.take() {
            None => Ok(CheckOutcome::Clean),
            Some(Damage::Repairable) => Ok(CheckOutcome::Repaired),
            Some(Damage::Lasting) => {
                medium.damage = Some(Damage::Lasting);
                Err(damaged(device, fs_type, family))
            }
        }
    }

    fn mount_filesystem(
        &self,
        device: &BlockDevice,
        fs_type: &str,
        options: &[FsOption],
        read_only: bool,
    ) -> Result<DetachedMount> {
        let family = Family::of(device, fs_type)?;
        check_device_options(fs_type, options)?;
        self.node(device)?;
        let mut state = lock(&self.state);
        state.check_device_path(device)?;
        state.check_unshown(device, Step::MountFileSystem)?;
        state.step(Step::MountFileSystem, device.path())?;
        let contents = state.contents_of(device)?;
        let refuses_writes = state.with_storage(device, Step::MountFileSystem)?.read_only;
        let medium = state.medium_of(device, Step::MountFileSystem)?.clone();
        let found = match &medium.contents {
            Contents::Filesystem { fs_type: found, .. } => found.as_str(),
            _ => "",
        };
        // ext4 reads its ancestors too.
        let served = found == fs_type || (fs_type == "ext4" && matches!(found, "ext2" | "ext3"));
        let (true, Some((id, root))) = (served, medium.file_system) else {
            return Err(other_type(device, &contents, fs_type));
        };
        if medium.damage == Some(Damage::Lasting) {
            return Err(damaged(device, fs_type, family));
        }
        if refuses_writes && !read_only {
            return Err(KernelError::failed(Step::MountFileSystem, text(device.path()), Errno::ACCESS));
        }
        if let Some(label) = options.iter().find(|option| option.key == LABEL_OPTION) {
            if state.container_file_label.is_none() {
                let (subject, option) = (fs_type.to_owned(), LABEL_OPTION.to_owned());
                let reason = "Unknown parameter 'context'".to_owned();
                return Err(KernelError::UnsupportedOption { subject, option, reason });
            }
            if let Some(file_system) = state.file_systems.get_mut(&id) {
                file_system.options = vec![format!("{LABEL_OPTION}={}", label.value.as_deref().unwrap_or_default())];
            }
        }
        state.devices.sources.insert(id, device.path().to_owned());
        let mount = state.add_mount(root, if read_only { libc::MOUNT_ATTR_RDONLY } else { 0 });
        self.detached(&mut state, mount, device.path().to_owned())
    }

    fn needs_grow(&self, device: &BlockDevice, mounted: &Directory) -> Result<bool> {
        self.node(device)?;
        let folder = self.folder(mounted)?;
        let mut state = lock(&self.state);
        state.step(Step::MeasureFileSystem, device.path())?;
        let (device, file_system) = state.blocks(device, folder, mounted)?;
        Ok(file_system < device)
    }

    fn grow_filesystem(&self, device: &BlockDevice, mounted: &Directory) -> Result<u64> {
        self.node(device)?;
        let folder = self.folder(mounted)?;
        let mut state = lock(&self.state);
        state.step(Step::MeasureFileSystem, device.path())?;
        let (blocks, has) = state.blocks(device, folder, mounted)?;
        let failed = |errno| KernelError::failed(Step::GrowFileSystem, text(device.path()), errno);
        if has < blocks {
            state.step(Step::GrowFileSystem, device.path())?;
            state.writable(folder).map_err(failed)?;
        }
        let bytes = has.max(blocks) * BLOCK;
        state.resize(device, bytes)?;
        Ok(bytes)
    }

    fn grow_unmounted(&self, device: &BlockDevice, fs_type: &str) -> Result<Option<u64>> {
        if Family::of(device, fs_type)? != Family::Ext {
            return Ok(None);
        }
        self.check(device, fs_type)?;
        let mut state = lock(&self.state);
        state.step(Step::GrowFileSystem, device.path())?;
        let bytes = state.with_storage(device, Step::GrowFileSystem)?.bytes / BLOCK * BLOCK;
        state.resize(device, bytes)?;
        Ok(Some(bytes))
    }
}

fn damaged(device: &BlockDevice, fs_type: &str, family: Family) -> KernelError {
    let (path, said) = (text(device.path()), String::new());
    KernelError::Filesystem(FilesystemError::Damaged {
        path,
        fs_type: fs_type.to_owned(),
        said,
        repair: family.repair(),
    })
}
