//! Freezing file systems for a moment, so that the images of several of them can be copied as of that
//! moment.
//!
//! A frozen file system stops every process that writes to it, for as long as it is frozen: a
//! thread of its own ends that after [`LONGEST`], whatever the copies do. Should this process be
//! killed meanwhile, [`LinuxKernel::thaw_loops`] ends it when the next one begins.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::LinuxKernel;
use super::block_device::in_use;
use super::ioctl::{freeze, thaw};
use super::loop_table::{Loop, attached};
use super::walk::path_of;
use crate::error::{KernelError, Result};
use crate::names::text;
use crate::step::Step;

/// How long file systems stay frozen at most. What is to be written has been written before, so
/// that a copy that shares blocks takes milliseconds.
const LONGEST: Duration = Duration::from_secs(5);
/// What the watching thread needs.
const STACK_BYTES: usize = 64 << 10;
/// What images may have.
const TYPES: [&str; 5] = ["ext4", "xfs", "btrfs", "ext3", "ext2"];

/// A file system that is mounted from a device, held open: it stays mounted meanwhile. Whoever has
/// mounted it may have done so in a mount namespace that this process does not see.
#[derive(Debug)]
pub(super) struct MountedDevice {
    folder: OwnedFd,
    device: PathBuf,
}

impl MountedDevice {
    /// Writes what is only in memory yet.
    pub(super) fn sync(&self) -> Result<()> {
        rustix::fs::syncfs(&self.folder)
            .map_err(|errno| KernelError::failed(Step::FreezeFilesystem, text(&self.device), errno))
    }

    fn thaw(&self) -> Result<()> {
        thaw(&self.folder).map_err(|errno| match errno {
            Errno::INVAL => lost(&self.device),
            errno => KernelError::Failed {
                step: Step::ThawFilesystem,
                path: text(&self.device),
                errno,
                detail: "nothing can write to it until `fsfreeze --unfreeze` succeeds where it is mounted".to_owned(),
            },
        })
    }
}

/// Somebody could write before the copies were made.
fn lost(device: &Path) -> KernelError {
    KernelError::Failed {
        step: Step::FreezeFilesystem,
        path: text(device),
        errno: Errno::BUSY,
        detail: format!(
            "it was writable again before everything was copied, which has to be done within {} s; it is tried again",
            LONGEST.as_secs()
        ),
    }
}

/// The file systems that are frozen now; none once they are not frozen any more.
type Frozen = Arc<Mutex<Option<Vec<MountedDevice>>>>;

fn lock(frozen: &Frozen) -> MutexGuard<'_, Option<Vec<MountedDevice>>> {
    frozen.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A moment in which file systems are frozen. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Moment {
    frozen: Frozen,
    end: Sender<()>,
    watcher: JoinHandle<Result<()>>,
}

impl Moment {
    /// Begins one, in which nothing is frozen yet.
    ///
    /// # Errors
    /// `Failed` if there can be no further thread.
    pub(super) fn begin() -> Result<Self> {
        Self::begin_for(LONGEST)
    }

    fn begin_for(longest: Duration) -> Result<Self> {
        let frozen: Frozen = Arc::new(Mutex::new(Some(Vec::new())));
        let (end, ended) = channel();
        let watched = Arc::clone(&frozen);
        let watch = move || {
            let is_late = matches!(ended.recv_timeout(longest), Err(RecvTimeoutError::Timeout));
            let all = lock(&watched).take().unwrap_or_default();
            let mut result = Ok(());
            // The last one first: it may lie in one that was frozen before.
            for mounted in all.iter().rev() {
                let thawed = mounted.thaw();
                let thawed = if is_late { thawed.and(Err(lost(&mounted.device))) } else { thawed };
                result = result.and(thawed);
            }
            result
        };
        let thread = std::thread::Builder::new().name("thaw".into()).stack_size(STACK_BYTES);
        let watcher = thread.spawn(watch).map_err(|error| {
            KernelError::failed(
                Step::FreezeFilesystem,
                "the images, for which a thread is needed",
                Errno::from_io_error(&error).unwrap_or(Errno::AGAIN),
            )
        })?;
        Ok(Self { frozen, end, watcher })
    }

    /// Freezes a file system until the end.
    ///
    /// # Errors
    /// `Failed`: `Busy` if it is frozen already, and when the moment is over; `Unsupported` where
    /// the file system cannot be frozen.
    pub(super) fn freeze(&self, mounted: MountedDevice) -> Result<()> {
        let failed = |errno, detail: &str| KernelError::Failed {
            step: Step::FreezeFilesystem,
            path: text(&mounted.device),
            errno,
            detail: detail.to_owned(),
        };
        match freeze(&mounted.folder) {
            Ok(()) => {}
            Err(Errno::BUSY) => {
                return Err(failed(Errno::BUSY, "another program has frozen it; wait until it is thawed"));
            }
            Err(errno) => return Err(failed(errno, "")),
        }
        match &mut *lock(&self.frozen) {
            Some(frozen) => {
                frozen.push(mounted);
                Ok(())
            }
            None => mounted.thaw().and(Err(lost(&mounted.device))),
        }
    }

    /// Ends it: everything can be written again.
    ///
    /// # Errors
    /// `Failed` (`Busy`) if something could be written before this call, so that what was done in
    /// the meantime is not of one moment; otherwise if it could not be thawed.
    pub(super) fn end(self) -> Result<()> {
        let Self { frozen: _, end, watcher } = self;
        drop(end);
        // It does not panic.
        watcher.join().unwrap_or(Ok(()))
    }
}

impl LinuxKernel {
    /// The file system that is mounted from a loop device; none if there is none.
    ///
    /// A further mount of a device that a file system has for itself is one of that file system,
    /// with whatever options; one of another type is refused before anything is read. So nothing is
    /// mounted that was not, and one type at most fits.
    pub(super) fn mounted(&self, of: &Loop) -> Result<Option<MountedDevice>> {
        if !in_use(&of.device)? {
            return Ok(None);
        }
        let mounts = TYPES.iter().flat_map(|fs_type| [false, true].map(|read_only| (*fs_type, read_only)));
        for (fs_type, read_only) in mounts {
            let Ok(mount) = self.new_mount(&of.device, fs_type, std::iter::empty(), read_only) else { continue };
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let folder = rustix::fs::openat(&mount, ".", flags, Mode::empty())
                .map_err(|errno| KernelError::failed(Step::FreezeFilesystem, text(&of.device.path), errno))?;
            return Ok(Some(MountedDevice { folder, device: of.device.path.clone() }));
        }
        Ok(None)
    }

    /// Ends what a killed process has begun: thaws every file system on a loop device over a file
    /// in these folders.
    pub(super) fn thaw_loops(&self, roots: &[PathBuf]) -> Result<Vec<PathBuf>> {
        let open = |root: &PathBuf| self.open_granted(root, roots).ok();
        let folders: Vec<PathBuf> =
            roots.iter().filter_map(open).filter_map(|folder| path_of(folder.as_fd()).ok()).collect();
        let is_within =
            |one: &Loop| one.backing_path().is_some_and(|file| folders.iter().any(|folder| file.starts_with(folder)));
        let mut thawed = Vec::new();
        for one in attached("images in the granted folders")?.into_iter().filter(is_within) {
            let Some(mounted) = self.mounted(&one)? else { continue };
            match thaw(&mounted.folder) {
                Ok(()) => thawed.push(mounted.device),
                // It is not frozen.
                Err(Errno::INVAL) => {}
                Err(errno) => return Err(KernelError::failed(Step::ThawFilesystem, text(&mounted.device), errno)),
            }
        }
        Ok(thawed)
    }
}
