//! What a test does to the disks, and which loop devices it finds.

use std::path::{Path, PathBuf};

use volhost_kernel::{Contents, DeviceNumber, Errno};

use super::devices::{Backing, Damage};
use super::state::{MachineState, Sys};
use super::{InMemoryKernel, lock};

/// A device that a program has open, until this is dropped: a loop device stays.
#[derive(Debug)]
pub struct OpenDevice {
    kernel: InMemoryKernel,
    token: u64,
}

impl Drop for OpenDevice {
    fn drop(&mut self) {
        lock(&self.kernel.state).devices.opened.retain(|(token, _)| *token != self.token);
    }
}

impl MachineState {
    fn disk(&self, path: &Path) -> Sys<DeviceNumber> {
        self.device_at(self.resolve(path)?).ok_or(Errno::NOTBLK)
    }

    pub(super) fn is_opened(&self, number: DeviceNumber) -> bool {
        self.devices.opened.iter().any(|(_, opened)| *opened == number)
    }
}

impl InMemoryKernel {
    /// Makes a blank disk of this many bytes.
    ///
    /// # Errors
    /// As `mknod`.
    pub fn add_disk(&self, path: impl AsRef<Path>, bytes: u64) -> Result<(), Errno> {
        lock(&self.state).new_disk(path.as_ref(), bytes).map(drop)
    }

    /// Takes a disk away; its node stays, as one in a folder that nothing watches.
    ///
    /// # Errors
    /// `NOTBLK` if it is none.
    pub fn unplug(&self, path: impl AsRef<Path>) -> Result<(), Errno> {
        let mut state = lock(&self.state);
        let number = state.disk(path.as_ref())?;
        state.devices.all.remove(&number);
        Ok(())
    }

    /// Gives a disk another size, and says whether it refuses writes.
    ///
    /// # Errors
    /// `NOTBLK` if it is none, `NXIO` if it was removed.
    pub fn change_disk(&self, path: impl AsRef<Path>, bytes: u64, read_only: bool) -> Result<(), Errno> {
        let mut state = lock(&self.state);
        let number = state.disk(path.as_ref())?;
        let device = state.devices.all.get_mut(&number).ok_or(Errno::NXIO)?;
        (device.bytes, device.read_only) = (bytes, read_only);
        Ok(())
    }

    /// Puts something on a device, as a stranger would; a file system put there this way can't be
    /// mounted.
    ///
    /// # Errors
    /// `NOTBLK` if it is none, `NXIO` if it was removed.
    pub fn put_on_device(&self, path: impl AsRef<Path>, contents: Contents) -> Result<(), Errno> {
        let mut state = lock(&self.state);
        let number = state.disk(path.as_ref())?;
        let medium = state.devices.medium(number).ok_or(Errno::NXIO)?;
        (medium.contents, medium.file_system) = (contents, None);
        Ok(())
    }

    /// Damages the file system on a device.
    ///
    /// # Errors
    /// `NOTBLK` if it is none, `NXIO` if it was removed.
    pub fn damage(&self, path: impl AsRef<Path>, damage: Damage) -> Result<(), Errno> {
        let mut state = lock(&self.state);
        let number = state.disk(path.as_ref())?;
        state.devices.medium(number).ok_or(Errno::NXIO)?.damage = Some(damage);
        Ok(())
    }

    /// Opens a device as a program would, for as long as the value lives.
    ///
    /// # Errors
    /// `NOTBLK` if it is none.
    pub fn open_device(&self, path: impl AsRef<Path>) -> Result<OpenDevice, Errno> {
        let mut state = lock(&self.state);
        let number = state.disk(path.as_ref())?;
        let token = state.fresh();
        state.devices.opened.push((token, number));
        Ok(OpenDevice { kernel: self.clone(), token })
    }

    /// Every loop device that has a file or pins a device, in the order of their numbers.
    #[must_use]
    pub fn loops(&self) -> Vec<PathBuf> {
        let state = lock(&self.state);
        let loops = state.devices.all.iter().filter(|(_, device)| !matches!(device.backing, Backing::Own(_)));
        loops.map(|(number, _)| PathBuf::from(format!("/dev/loop{}", number.minor))).collect()
    }
}
