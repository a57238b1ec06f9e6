//! The real kernel. One file a job:
//!
//! | file | job |
//! |---|---|
//! | `root` | the root folder as a mount of its own |
//! | `walk` | opening, making and listing folders beneath a handle |
//! | `mount` | copying and attaching mounts |
//! | `mount_point` | the folder or file below a mount: made before, removed after |
//! | `detach` | unmounting |
//! | `fs_context` | new file systems (`fsopen` ...) |
//! | `fuse` | file systems that programs serve |
//! | `inspect` | which mounts there are (`listmount`, `statmount`) |
//! | `mountinfo` | the same from `/proc`, for older kernels |
//! | `folder` | plain folders: exact mode and group, removal of empty ones |
//! | `removal` | the one recursive removal |
//! | `files` | small records, written atomically |
//! | `append` | files that only grow |
//! | `payload` | sets of files, published whole |
//! | `sub_paths` | parts of volumes, opened and made |
//! | `detach_tree` | unmounting everything in a folder |
//! | `quota` | folders that cannot grow beyond a limit |
//! | `usage` | how full volumes are |
//! | `driver_mounts` | programs that mount by themselves |
//! | `labels` | what the kernel and its policy say of SELinux |
//! | `last_resorts` | servers that do not answer; hearing of changes of mounts |
//! | `tree` | walking whole trees on several threads |
//! | `ownership` | a volume's group and modes |
//! | `id_map` | mounts with other ids |
//! | `host_path` | granted paths of the host |
//! | `lock` | one volhost a root folder |
//! | `block_device` | opening block devices, asking about them |
//! | `device_lock` | locks for steps that take a device as a file system |
//! | `device_map` | block devices shown to pods: mapped, linked, pinned |
//! | `loop_device` | files as block devices |
//! | `loop_table` | which loop devices there are; giving them files |
//! | `filesystem` | what is on a device; formatting, checking |
//! | `blank` | whether a device was ever written |
//! | `filesystem_mount` | mounting what is on a device |
//! | `filesystem_size` | how large a mounted one is; growing it |
//! | `image_file` | mounting what is in a file |
//! | `image_store` | folders of image files |
//! | `image_copy` | copying one image, or several as of one moment |
//! | `freeze` | freezing file systems for a moment |
//! | `network_mount` | mounting what a server exports |
//! | `rpc_ping`, `smb_ping` | whether a server answers |
//! | `overlay` | folders laid on one another |
//! | `tool` | running programs that make and check file systems |
//! | `confinement`, `landlock` | what such a program can reach |
//! | `sector` | the sector size that an image's loop device has |
//! | `head` | the marks by which file systems are recognised |
//! | `machine` | what the machine is able to do |
//! | `ioctl` | device calls |
//! | `stat` | looking without touching |
//! | `spawn` | making a child that becomes a program |
//! | `syscall` | raw system calls; with `ioctl`, `landlock`, `quota/quotactl` and `spawn` the only `unsafe` |

mod append;
mod blank;
mod block_device;
mod confinement;
mod detach;
mod detach_tree;
mod device_lock;
mod device_map;
mod driver_mounts;
mod ext_superblock;
mod files;
mod filesystem;
mod filesystem_mount;
mod filesystem_size;
mod folder;
mod format_mark;
mod freeze;
mod fresh;
mod fs_context;
mod fuse;
mod head;
mod host_path;
mod id_map;
mod image_copy;
mod image_file;
mod image_store;
mod inspect;
mod ioctl;
mod labels;
mod landlock;
mod last_resorts;
mod lease;
mod lock;
mod loop_device;
mod loop_table;
mod machine;
mod mount;
mod mount_point;
mod mountinfo;
mod network_mount;
mod overlay;
mod ownership;
mod payload;
mod quota;
mod removal;
mod root;
mod rpc_ping;
mod sector;
mod smb_ping;
mod spawn;
mod stat;
mod sub_paths;
mod syscall;
mod tmpfs_size;
mod tool;
mod tree;
mod usage;
mod walk;
mod walk_progress;
mod work_queue;

pub use lease::is_being_written;
pub(crate) use spawn::spawn;
pub use syscall::{PollTarget, release_free_memory, wait_ready};

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::confinement::Confinement;
use self::inspect::MountInspection;
use self::stat::IdKind;
use crate::error::{KernelError, Result};
use crate::handle::{AppendFile, DetachedMount, Directory, MountSource, RootLock};
use crate::kernel::Kernel;
use crate::step::Step;
use crate::tools::RunTool;
use crate::types::{Detach, Durability, Entry, FsOption, MountId, MountInfo, Propagation};

/// The kernel that runs this machine. Needs Linux 5.12, and `CAP_SYS_ADMIN` for whatever mounts.
#[derive(Debug, Clone)]
pub struct LinuxKernel {
    inspection: MountInspection,
    confinement: Confinement,
    tools: Arc<dyn RunTool>,
}

impl LinuxKernel {
    /// Asks the running kernel how it reports mounts, once. `tools` runs the programs that make and
    /// check file systems.
    #[must_use]
    pub fn new(tools: Arc<dyn RunTool>) -> Self {
        Self { inspection: MountInspection::probe(), confinement: Confinement::default(), tools }
    }

    /// Reads mounts from `/proc/thread-self/mountinfo` whatever the kernel could do better. Slower,
    /// and only ids that the kernel uses again; for kernels before 6.13 (chosen by
    /// [`LinuxKernel::new`] itself) and to compare the two.
    #[must_use]
    pub fn with_mountinfo(self) -> Self {
        Self { inspection: MountInspection::MountInfo, ..self }
    }

    /// Which ids of mounts this instance compares.
    fn ids(&self) -> IdKind {
        match self.inspection {
            MountInspection::StatMount => IdKind::Unique,
            MountInspection::MountInfo => IdKind::Reused,
        }
    }
}

impl Kernel for LinuxKernel {
    fn prepare_root(&self, path: &Path, propagation: Propagation) -> Result<Directory> {
        self.prepare_root_at(path, propagation)
    }

    fn release_root(&self, path: &Path) -> Result<()> {
        self.release_root_at(path)
    }

    fn open_directory(&self, path: &Path) -> Result<Directory> {
        self.open_directory_at(path)
    }

    fn walk(&self, directory: &Directory, rel: &Path) -> Result<Directory> {
        self.walk_to(directory, rel)
    }

    fn make_dirs(&self, directory: &Directory, rel: &Path, mode: u32) -> Result<Directory> {
        self.make_dirs_to(directory, rel, mode)
    }

    fn mount_changes(&self) -> Result<Option<OwnedFd>> {
        last_resorts::mount_changes().map(Some)
    }

    fn names(&self, directory: &Directory) -> Result<Vec<OsString>> {
        self.list_names(directory)
    }

    fn list(&self, directory: &Directory, rel: &Path) -> Result<(Directory, Vec<OsString>)> {
        self.list_below(directory, rel)
    }

    fn entry(&self, directory: &Directory, name: &OsStr) -> Result<Entry> {
        self.entry_at(directory, name)
    }

    fn mount_at(&self, directory: &Directory, name: &OsStr) -> Result<Option<MountInfo>> {
        self.mount_info_at(directory, name)
    }

    fn mounts_below(&self, directory: &Directory) -> Result<Vec<MountInfo>> {
        self.mount_infos_below(directory)
    }

    fn points_below(&self, directory: &Directory, fs_type: Option<&str>) -> Result<Vec<PathBuf>> {
        self.mount_points_below(directory, fs_type)
    }

    fn ids_below(&self, directory: &Directory) -> Result<Option<Vec<MountId>>> {
        self.mount_ids_below(directory)
    }

    fn attach(&self, mount: DetachedMount, directory: &Directory, name: &OsStr) -> Result<()> {
        self.attach_at(&mount, directory, name)
    }

    fn make_read_only(&self, directory: &Directory, name: &OsStr) -> Result<()> {
        self.make_read_only_at(directory, name)
    }

    fn detach(&self, directory: &Directory, name: &OsStr, how: Detach) -> Result<()> {
        self.detach_at(directory, name, how)
    }

    fn make_folder(&self, directory: &Directory, name: &OsStr, mode: u32, group: Option<u32>) -> Result<()> {
        self.make_folder_at(directory, name, mode, group)
    }

    fn delete_folder(&self, directory: &Directory, name: &OsStr) -> Result<()> {
        self.delete_folder_at(directory, name)
    }

    fn remove_empty_dir(&self, directory: &Directory, name: &OsStr) -> Result<()> {
        self.remove_empty_dir_at(directory, name)
    }

    fn move_folder(&self, from: &Directory, name: &OsStr, to: &Directory, new_name: &OsStr) -> Result<()> {
        self.move_folder_to(from, name, to, new_name)
    }

    fn write_atomic(
        &self,
        directory: &Directory,
        name: &OsStr,
        bytes: &[u8],
        mode: u32,
        durability: Durability,
    ) -> Result<()> {
        self.write_file_at(directory, name, bytes, mode, durability)
    }

    fn read_file(&self, directory: &Directory, name: &OsStr, limit: usize) -> Result<Option<Vec<u8>>> {
        self.read_file_at(directory, name, limit)
    }

    fn remove_file(&self, directory: &Directory, name: &OsStr) -> Result<()> {
        self.remove_file_at(directory, name)
    }

    fn open_append(&self, directory: &Directory, name: &OsStr, make: Option<u32>) -> Result<Option<AppendFile>> {
        self.open_append_at(directory, name, make)
    }

    fn append(&self, file: &AppendFile, bytes: &[u8]) -> Result<()> {
        self.append_to(file, bytes)
    }

    fn source(&self, directory: &Directory) -> Result<MountSource> {
        self.source_of(directory)
    }

    fn bind(&self, source: &MountSource, recursive: bool) -> Result<DetachedMount> {
        self.bind_source(source, recursive)
    }

    fn set_options(&self, mount: &DetachedMount, options: &[&str], recursive: bool) -> Result<()> {
        self.set_mount_options(mount, options, recursive)
    }

    fn tmpfs(&self, options: &[FsOption]) -> Result<DetachedMount> {
        self.new_tmpfs(options)
    }

    fn grow_tmpfs(&self, directory: &Directory, name: &OsStr, bytes: u64) -> Result<bool> {
        self.grow_memory(directory, name, bytes)
    }

    fn huge_pages(&self, options: &[FsOption]) -> Result<DetachedMount> {
        self.new_huge_pages(options)
    }

    fn open_host_path(&self, path: &Path, roots: &[PathBuf]) -> Result<MountSource> {
        self.open_granted(path, roots)
    }

    fn create_host_directory(&self, path: &Path, roots: &[PathBuf]) -> Result<MountSource> {
        self.create_granted_directory(path, roots)
    }

    fn create_host_file(&self, path: &Path, roots: &[PathBuf]) -> Result<MountSource> {
        self.create_granted_file(path, roots)
    }

    fn lock_root(&self, directory: &Directory, name: &OsStr) -> Result<RootLock> {
        self.lock_at(directory, name)
    }

    fn total_memory(&self) -> Result<u64> {
        syscall::total_memory().map_err(|errno| KernelError::failed(Step::ReadMemory, "the machine", errno))
    }
}

/// A descriptor could not be duplicated.
fn lost_handle(label: &Path, error: &std::io::Error) -> KernelError {
    let errno = rustix::io::Errno::from_io_error(error).unwrap_or(rustix::io::Errno::IO);
    KernelError::failed(Step::CloneHandle, crate::names::text(label), errno)
}
