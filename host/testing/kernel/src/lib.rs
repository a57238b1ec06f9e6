//! A kernel in memory for tests of everything above `volhost-kernel`: the same trait and the same
//! answers as Linux, no privilege, and steps that fail when a test says so. One suite
//! (`tests/suite`) runs against Linux and this kernel.
//!
//! Dev-only: no program that users run links this crate.
//!
//! | file | job |
//! |---|---|
//! | `kernel` | the trait, over the files below |
//! | `handles` | the descriptors that name places and mounts |
//! | `state` | nodes, file systems, mounts, and how paths lead through them |
//! | `mounts` | copying, attaching, detaching and describing mounts |
//! | `tmpfs` | new memory file systems |
//! | `folders` | folders and files of the host's own |
//! | `payload` | sets of files, published whole |
//! | `ownership` | a volume's group and modes, and id maps |
//! | `sub_paths` | parts of volumes, and clearing them away |
//! | `huge_pages` | file systems made of huge pages |
//! | `quota` | folders that cannot grow beyond a limit |
//! | `labels` | SELinux labels |
//! | `usage` | how full volumes are |
//! | `host_path` | granted paths |
//! | `network_mounts` | servers on the network, and what they export |
//! | `overlays` | folders laid on one another |
//! | `image_files` | file systems in files |
//! | `devices` | block devices and what lies on them |
//! | `block_devices`, `loop_devices`, `image_stores`, `filesystems` | the parts of the trait about them |
//! | `disks` | what a test does to devices |
//! | `driver_mounts` | programs that mount by themselves |
//! | `faults` | steps that a test lets fail |
//! | `machine` | what a test does and sees on the machine |
//!
//! What it leaves out: permission checks, hard links, writes to an overlay that appear in its top
//! folder, and propagation between namespaces (there is one). A [`Directory`] inside a mount does
//! not keep it busy; [`machine::BusyMount`] does.

mod block_devices;
mod devices;
pub mod disks;
mod driver_mounts;
mod faults;
mod filesystems;
mod folders;
mod fuse;
mod handles;
mod host_path;
mod huge_pages;
mod image_files;
mod image_stores;
mod kernel;
mod labels;
mod last_resorts;
mod loop_devices;
pub mod machine;
mod mounts;
mod network_mounts;
mod overlays;
mod ownership;
mod payload;
mod quota;
mod state;
mod sub_paths;
mod tmpfs;
mod usage;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use volhost_kernel::implement::text;
use volhost_kernel::{DetachedMount, Directory, Errno, KernelError, MountSource, Result, SourceKind, Step};

pub use self::devices::Damage;
use self::handles::{Handles, OpenHandle};
use self::state::{At, InodeContent, MachineState, MountKey};

/// A machine in memory. A clone is the same machine: keep one to look at what a host did with the
/// other, or to start a second host on what the first one left.
#[derive(Debug, Clone)]
pub struct InMemoryKernel {
    state: Arc<Mutex<MachineState>>,
    handles: Arc<Handles>,
}

/// The machine; a test that failed while it held the lock leaves it usable.
fn lock(state: &Mutex<MachineState>) -> MutexGuard<'_, MachineState> {
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    state.follow_closed_handles();
    state
}

impl Default for InMemoryKernel {
    fn default() -> Self {
        Self::new()
    }
}

impl InMemoryKernel {
    /// A machine with an empty root folder.
    #[must_use]
    pub fn new() -> Self {
        Self { state: Arc::new(Mutex::new(MachineState::new())), handles: Arc::default() }
    }

    fn directory(&self, at: At, label: PathBuf) -> Result<Directory> {
        Ok(Directory::from_fd(self.handles.add_place(at, &label)?, label))
    }

    fn host_source(&self, at: At, label: &Path, kind: SourceKind) -> Result<MountSource> {
        Ok(MountSource::from_fd(self.handles.add_place(at, label)?, label.to_owned(), kind))
    }

    /// The place of a handle; refuses one of another machine.
    fn at(&self, source: &MountSource) -> Result<At> {
        self.handles.place(source, source.label())
    }

    fn folder(&self, directory: &Directory) -> Result<At> {
        self.handles.place(directory, directory.label())
    }

    fn mount_of(&self, mount: &DetachedMount) -> Result<MountKey> {
        self.handles.mount(mount, mount.label())
    }

    /// A handle of a mount that was just made; without one, the mount is discarded.
    fn detached(&self, state: &mut MachineState, mount: MountKey, label: PathBuf) -> Result<DetachedMount> {
        let handle = self.handles.add_mount(mount, &label).and_then(|fd| Ok((OpenHandle::of(&fd, &label)?, fd)));
        let (held, fd) = handle.inspect_err(|_| state.drop_tree(mount))?;
        state.detached.insert(mount, held);
        Ok(DetachedMount::from_fd(fd, label))
    }

    fn make_root(&self, state: &mut MachineState, path: &Path) -> Result<At> {
        state.step(Step::CreateRoot, path)?;
        let failed = |errno| KernelError::walking(Step::CreateRoot, text(path), errno);
        let mut here = PathBuf::from("/");
        let mut at = state.top(state::ROOT);
        for name in path.iter().skip(1) {
            here.push(name);
            let mode = if here == path { 0o750 } else { 0o755 };
            at = match state.resolve(&here) {
                Err(Errno::NOENT) => state
                    .create(at, name, InodeContent::Folder(std::collections::BTreeMap::new()), mode)
                    .map_err(failed)?,
                found => found.map_err(failed)?,
            };
        }
        Ok(at)
    }
}
