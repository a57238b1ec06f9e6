//! What the machine is able to do: questions that change nothing.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{FsOpenFlags, MoveMountFlags, OpenTreeFlags};

use super::LinuxKernel;
use super::files::errno_of;
use super::filesystem::{BASIC_TOOLS, OTHER_TOOLS};
use super::inspect::MountInspection;
use super::mountinfo::{is_shared, parse};
use super::stat::{IdKind, look};
use super::syscall::mount_setattr;
use super::usage::of_file_system;
use crate::error::{KernelError, Result};
use crate::machine::{CallReport, PathMount, ToolReport};
use crate::names::text;
use crate::step::Step;
use crate::types::MountId;
use crate::usage::Usage;

/// The mounts of this thread's mount namespace.
const MOUNT_INFO: &str = "/proc/thread-self/mountinfo";
/// The kernel's release.
const RELEASE: &str = "/proc/sys/kernel/osrelease";
/// A file system that no kernel has.
const NO_FILE_SYSTEM: &str = "volhost-none";

impl LinuxKernel {
    /// The kernel's release, as `uname -r`; empty if it is unknown.
    #[must_use]
    pub fn release(&self) -> String {
        fs::read_to_string(RELEASE).map_or_else(|_| String::new(), |text| text.trim().to_owned())
    }

    /// Asks whether the calls for mounts exist, with arguments that the kernel refuses before it
    /// does anything.
    ///
    /// Without `CAP_SYS_ADMIN` the kernel answers `PERM` for most of them.
    #[must_use]
    pub fn mount_calls(&self) -> Vec<CallReport> {
        let report = |name, since, answer: std::result::Result<(), Errno>, refusal: Option<Errno>| {
            let problem = answer.err().filter(|errno| Some(*errno) != refusal);
            CallReport { name, since, problem }
        };
        // An empty path without AT_EMPTY_PATH names nothing.
        let open_tree = rustix::mount::open_tree(CWD, "", OpenTreeFlags::OPEN_TREE_CLOEXEC).map(drop);
        let move_mount = rustix::mount::move_mount(CWD, "", CWD, "", MoveMountFlags::empty());
        let fsopen = rustix::mount::fsopen(NO_FILE_SYSTEM, FsOpenFlags::FSOPEN_CLOEXEC).map(drop);
        let path = OFlags::PATH | OFlags::CLOEXEC;
        let openat2 = rustix::fs::openat2(CWD, "/", path, Mode::empty(), ResolveFlags::NO_MAGICLINKS).map(drop);
        vec![
            report("open_tree", "5.2", open_tree, Some(Errno::NOENT)),
            report("move_mount", "5.2", move_mount, Some(Errno::NOENT)),
            report("fsopen", "5.2", fsopen, Some(Errno::NODEV)),
            report("openat2", "5.6", openat2, None),
            // Nothing to set and nothing to clear.
            report("mount_setattr", "5.12", mount_setattr(CWD, false, 0, 0, 0), None),
        ]
    }

    /// Whether the kernel reports mounts by `statmount` and `listmount` with all that volhost reads
    /// (Linux 6.13). If not, volhost reads `mountinfo`, which takes longer with many mounts.
    #[must_use]
    pub const fn has_statmount(&self) -> bool {
        matches!(self.inspection, MountInspection::StatMount)
    }

    /// The mount that an existing path lies on.
    ///
    /// # Errors
    /// `Failed`.
    pub fn mount_of(&self, path: &Path) -> Result<PathMount> {
        let failed = |errno| KernelError::failed(Step::Inspect, text(path), errno);
        let id = look(CWD, path, IdKind::Reused).map_err(failed)?.mount_id();
        let table = fs::read(MOUNT_INFO).map_err(|error| failed(errno_of(&error)))?;
        let mount = parse(&table).into_iter().find(|mount| mount.id == MountId(id));
        let mount = mount.ok_or_else(|| failed(Errno::NOENT))?;
        Ok(PathMount {
            point: mount.point,
            fs_type: mount.fs_type,
            is_shared: is_shared(&table, id),
            read_only: mount.read_only,
        })
    }

    /// How many mounts this mount namespace has.
    ///
    /// # Errors
    /// `Failed`.
    pub fn mount_count(&self) -> Result<usize> {
        let table = fs::read(MOUNT_INFO)
            .map_err(|error| KernelError::failed(Step::ListMounts, MOUNT_INFO, errno_of(&error)))?;
        Ok(parse(&table).len())
    }

    /// What the file system of a path says of itself.
    ///
    /// # Errors
    /// `Failed`.
    pub fn space_of(&self, path: &Path) -> Result<Usage> {
        let stat = rustix::fs::statvfs(path).map_err(|errno| KernelError::failed(Step::AskUsage, text(path), errno))?;
        Ok(of_file_system(&stat))
    }

    /// Opens a device and closes it, as its users do first.
    ///
    /// # Errors
    /// The kernel's: `NOENT` without the device, `PERM` if the control group forbids it.
    pub fn try_device(&self, path: &Path) -> std::result::Result<(), Errno> {
        rustix::fs::openat(CWD, path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map(drop)
    }

    /// The programs that make and check file systems, and where they are.
    #[must_use]
    pub fn tools(&self) -> Vec<ToolReport> {
        let report = |is_basic| {
            move |tool: &super::tool::Tool| ToolReport {
                name: tool.name,
                package: tool.package,
                is_basic,
                found: tool.places().find(|path: &PathBuf| path.is_file()),
            }
        };
        BASIC_TOOLS.iter().map(report(true)).chain(OTHER_TOOLS.iter().map(report(false))).collect()
    }
}
