//! The kernel in memory: the same trait, the same answers, no privilege, and faults to order. For tests of everything above
//! this crate; its own likeness to the real one is tested by running one suite against both.
//!
//! | file | job |
//! |---|---|
//! | `kernel` | the trait, over the files below |
//! | `state` | nodes, file systems, mounts, and how paths lead through them |
//! | `mounts` | copying, attaching, detaching, telling |
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
//! | `overlays` | folders laid on one another |
//! | `image_files` | file systems in files |
//! | `devices` | block devices and what lies on them |
//! | `block_devices`, `loop_devices`, `image_stores`, `filesystems` | the parts of the trait about them |
//! | `disks` | what a test does to devices |
//! | `driver_mounts` | programs that mount by themselves |
//! | `faults` | steps that fail on order |
//! | `machine` | what a test does and sees on the machine |
//!
//! What it leaves out: permission checks, hard links, that what is written to an overlay comes to lie in its top, propagation between namespaces (there is one), and that
//! a [`Directory`] held inside a mount keeps it busy; [`machine::Hold`] does.

mod block_devices;
mod devices;
pub mod disks;
mod driver_mounts;
mod faults;
mod filesystems;
mod folders;
mod fuse;
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

pub use self::devices::Damage;
use self::state::{At, Content, MountKey, NodeId, State};
use crate::error::{Errno, KernelError};
use crate::handle::{DetachedHandle, DetachedMount, Directory, DirectoryHandle, MountSource, SourceKind};
use crate::kernel::Result;
use crate::names::text;
use crate::step::Step;

/// A machine in memory. A clone is the same machine: keep one to look at what a host did with the other, or to start a second
/// host on what the first one left.
#[derive(Debug, Clone)]
pub struct TwinKernel {
    state: Arc<Mutex<State>>,
}

/// A folder or bind source of a twin.
pub(crate) struct Place {
    state: Arc<Mutex<State>>,
    at: At,
}

/// The node of a block device of a twin.
pub(crate) struct DeviceNode {
    state: Arc<Mutex<State>>,
    at: At,
}

/// A mount of a twin that nobody sees; dropped, it is gone.
pub(crate) struct Detached {
    state: Arc<Mutex<State>>,
    mount: MountKey,
}

impl Drop for Detached {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        if state.detached.contains(&self.mount) {
            state.drop_tree(self.mount);
        }
    }
}

/// A lock of a twin.
pub(crate) struct LockGuard {
    state: Arc<Mutex<State>>,
    node: NodeId,
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        lock(&self.state).locks.remove(&self.node);
    }
}

/// The machine; a test that failed while it held the lock leaves it usable.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Default for TwinKernel {
    fn default() -> Self {
        Self::new()
    }
}

impl TwinKernel {
    /// A machine with an empty root folder.
    #[must_use]
    pub fn new() -> Self {
        Self { state: Arc::new(Mutex::new(State::new())) }
    }

    fn directory(&self, at: At, label: PathBuf) -> Directory {
        let handle = DirectoryHandle::Twin(Place { state: Arc::clone(&self.state), at });
        Directory { handle, label }
    }

    fn host_source(&self, at: At, label: &Path, kind: SourceKind) -> MountSource {
        let handle = DirectoryHandle::Twin(Place { state: Arc::clone(&self.state), at });
        MountSource { handle, label: label.to_owned(), kind }
    }

    /// The place of a handle; refuses one of another machine.
    fn at(&self, handle: &DirectoryHandle, shown: &Path) -> Result<At> {
        match handle {
            DirectoryHandle::Twin(place) if Arc::ptr_eq(&place.state, &self.state) => Ok(place.at),
            _ => Err(KernelError::ForeignHandle { path: text(shown) }),
        }
    }

    fn folder(&self, directory: &Directory) -> Result<At> {
        self.at(&directory.handle, &directory.label)
    }

    fn mount_of(&self, mount: &DetachedMount) -> Result<MountKey> {
        match &mount.handle {
            DetachedHandle::Twin(detached) if Arc::ptr_eq(&detached.state, &self.state) => Ok(detached.mount),
            _ => Err(KernelError::ForeignHandle { path: text(&mount.label) }),
        }
    }

    fn detached(&self, state: &mut State, mount: MountKey, label: PathBuf) -> DetachedMount {
        state.detached.insert(mount);
        let handle = DetachedHandle::Twin(Detached { state: Arc::clone(&self.state), mount });
        DetachedMount { handle, label }
    }

    fn make_root(&self, state: &mut State, path: &Path) -> Result<At> {
        state.step(Step::CreateRoot, path)?;
        let failed = |errno| KernelError::walking(Step::CreateRoot, text(path), errno);
        let mut here = PathBuf::from("/");
        let mut at = state.top(state::ROOT);
        for name in path.iter().skip(1) {
            here.push(name);
            let mode = if here == path { 0o750 } else { 0o755 };
            at = match state.resolve(&here) {
                Err(Errno::NOENT) => {
                    state.create(at, name, Content::Folder(std::collections::BTreeMap::new()), mode).map_err(failed)?
                }
                found => found.map_err(failed)?,
            };
        }
        Ok(at)
    }
}
