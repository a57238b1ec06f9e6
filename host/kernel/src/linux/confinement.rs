//! What a program that works on a device can reach: the device, the program itself, its libraries
//! and its configuration. The program reads, as root, what strangers wrote; one that such bytes
//! take over finds nothing else.
//!
//! It runs from a thread that gives up the rest first. What a thread gives up, the programs that it
//! starts lack, and no other thread does: a mount namespace, the capabilities, Landlock's rules and
//! the filter of system calls each belong to a thread.
//!
//! A copy of the host's mount namespace would have a copy of every pod's mount, and keep busy what
//! the host unmounts meanwhile. So one namespace is emptied once, and each run starts from a copy
//! of that.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use nix::sched::{CloneFlags, setns, unshare};
use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags,
};
use rustix::thread::CapabilitySet;

use super::landlock::restrict;
use super::mountinfo::parse;
use super::syscall::mount_setattr;
use crate::block_devices::BlockDevice;
use crate::call_filter::forbid_all_but_device_work;
use crate::capabilities::limit_bounding_set;
use crate::types::DeviceNumber;

/// Where libraries and the loader are. A name that is a symbolic link on the host is one for the
/// program, too.
const LIBRARIES: [&str; 6] = ["/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64"];
/// What the loader and e2fsprogs read.
const CONFIGURATION: [&str; 3] = ["/etc/ld.so.cache", "/etc/mke2fs.conf", "/etc/e2fsck.conf"];
/// Lists of what is mounted or used for swap, which the programs insist on. They are empty: that
/// nothing has the device for itself the host has seen before, and the programs see by opening it
/// exclusively.
const EMPTY: [&str; 4] = ["/etc/mtab", "/proc/mounts", "/proc/self/mounts", "/proc/swaps"];
/// How often the list of mounts is read again while the namespace is emptied: a mount below another
/// shows when that one is gone.
const PASSES: usize = 16;
/// The stack of a thread that starts a program and waits for its end, in bytes.
const STACK_BYTES: usize = 256 << 10;
/// The capabilities of root that a program keeps: file systems' tools set the block size of a
/// device and flush it.
const KEPT: CapabilitySet = CapabilitySet::SYS_ADMIN;

/// The program was not started, for it would reach more than it may.
#[derive(Debug)]
pub(super) struct NotConfined {
    /// What could not be done.
    pub(super) what: &'static str,
    /// The kernel's answer.
    pub(super) errno: Errno,
}

type Result<T> = std::result::Result<T, NotConfined>;

fn at<E: Into<SetupErrno>>(what: &'static str) -> impl Fn(E) -> NotConfined {
    move |error| NotConfined { what, errno: error.into().0 }
}

/// An error's number, whichever library reported it.
struct SetupErrno(Errno);

impl From<Errno> for SetupErrno {
    fn from(errno: Errno) -> Self {
        Self(errno)
    }
}

impl From<nix::errno::Errno> for SetupErrno {
    fn from(errno: nix::errno::Errno) -> Self {
        Self(Errno::from_raw_os_error(errno as i32))
    }
}

impl From<std::io::Error> for SetupErrno {
    fn from(error: std::io::Error) -> Self {
        Self(Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }
}

/// The emptied mount namespace, made when the first program needs it.
#[derive(Debug, Clone, Default)]
pub(super) struct Confinement(Arc<Mutex<Option<Arc<OwnedFd>>>>);

impl Confinement {
    /// Does `job` on a thread from which a program reaches nothing but the device, at the device's
    /// own path, itself and its libraries.
    ///
    /// # Errors
    /// [`NotConfined`], and the job was not begun.
    pub(super) fn run<T: Send>(
        &self,
        program: &Path,
        device: &BlockDevice,
        node: BorrowedFd<'_>,
        job: impl FnOnce() -> T + Send,
    ) -> Result<T> {
        let namespace = self.namespace()?;
        let furniture = VisibleFiles::gather(program, device, node)?;
        on_a_thread(|| {
            furniture.enter(&namespace)?;
            Ok(job())
        })
    }

    fn namespace(&self) -> Result<Arc<OwnedFd>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(namespace) = &*known {
            return Ok(Arc::clone(namespace));
        }
        let made = Arc::new(on_a_thread(empty_namespace)?);
        *known = Some(Arc::clone(&made));
        Ok(made)
    }
}

/// Does a job on a thread of its own and waits for it.
fn on_a_thread<T: Send>(job: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("tool".into()).stack_size(STACK_BYTES);
        let thread = thread.spawn_scoped(scope, job).map_err(at("making a thread"))?;
        thread.join().unwrap_or(Err(NotConfined { what: "ending its thread", errno: Errno::CANCELED }))
    })
}

/// Makes a mount namespace that has the host's root mount and no other.
fn empty_namespace() -> Result<OwnedFd> {
    unshare(CloneFlags::CLONE_FS | CloneFlags::CLONE_NEWNS).map_err(at("making a mount namespace"))?;
    // Else what is unmounted here would go from the host as well.
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", private).map_err(at("parting it from the host's"))?;
    // Both opened while /proc is there; the list shows what is mounted whenever it is read.
    let namespace = rustix::fs::open("/proc/thread-self/ns/mnt", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .map_err(at("opening /proc/thread-self/ns/mnt"))?;
    let mut list = File::open("/proc/thread-self/mountinfo").map_err(at("opening /proc/thread-self/mountinfo"))?;
    for _ in 0..PASSES {
        let mut text = Vec::new();
        list.seek(SeekFrom::Start(0)).and_then(|_| list.read_to_end(&mut text)).map_err(at("listing mounts"))?;
        let mut gone = false;
        for mount in parse(&text).into_iter().filter(|mount| mount.point != Path::new("/")) {
            // What was mounted on one that went before is gone with it.
            gone |= rustix::mount::unmount(&mount.point, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW).is_ok();
        }
        if !gone {
            break;
        }
    }
    Ok(namespace)
}

/// What a program gets to see.
struct VisibleFiles {
    pieces: Vec<VisibleFile>,
}

enum VisibleFile {
    /// Something of the host's, which the program can only read unless it is the device.
    Bound { tree: OwnedFd, at: PathBuf, is_folder: bool, is_device: bool },
    /// A symbolic link.
    Link { at: PathBuf, to: PathBuf },
    /// An empty file.
    Empty(PathBuf),
}

impl VisibleFiles {
    /// Opens everything while the host's mounts can be seen.
    fn gather(program: &Path, device: &BlockDevice, node: BorrowedFd<'_>) -> Result<Self> {
        let mut all = Self { pieces: Vec::new() };
        all.bind(program)?;
        for path in LIBRARIES {
            all.bind_or_link(Path::new(path))?;
        }
        for path in CONFIGURATION.map(Path::new).into_iter().filter(|path| path.is_file()) {
            all.bind(path)?;
        }
        all.describe(device.number());
        all.pieces.extend(EMPTY.map(|path| VisibleFile::Empty(path.into())));
        let tree = clone_tree(node, "", OpenTreeFlags::AT_EMPTY_PATH).map_err(at("binding the device"))?;
        all.pieces.push(VisibleFile::Bound { tree, at: device.path().to_owned(), is_folder: false, is_device: true });
        Ok(all)
    }

    fn bind_or_link(&mut self, path: &Path) -> Result<()> {
        match rustix::fs::readlinkat(CWD, path, Vec::new()) {
            Ok(to) => {
                let to = PathBuf::from(std::ffi::OsString::from(to.to_string_lossy().into_owned()));
                self.pieces.push(VisibleFile::Link { at: path.to_owned(), to });
                Ok(())
            }
            Err(Errno::INVAL) => self.bind(path),
            Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(at("looking for libraries")(errno)),
        }
    }

    fn bind(&mut self, path: &Path) -> Result<()> {
        let failed = at("binding the program and its libraries");
        let tree = clone_tree(CWD, path, OpenTreeFlags::empty()).map_err(&failed)?;
        let seen = rustix::fs::fstat(&tree).map_err(&failed)?;
        let is_folder = FileType::from_raw_mode(seen.st_mode) == FileType::Directory;
        self.pieces.push(VisibleFile::Bound { tree, at: path.to_owned(), is_folder, is_device: false });
        Ok(())
    }

    /// Returns what the kernel reports of the device in /sys, by which tools choose how to lay out
    /// a file system. They can do without.
    fn describe(&mut self, number: DeviceNumber) {
        let link = PathBuf::from(format!("/sys/dev/block/{number}"));
        let Ok(folder) = std::fs::canonicalize(&link) else { return };
        let Some(name) = folder.file_name().map(|name| name.to_owned()) else { return };
        // A partition is described in the disk's folder.
        let is_part = folder.join("partition").exists();
        let whole = if is_part { folder.parent().unwrap_or(&folder) } else { &folder };
        if self.bind(whole).is_ok() {
            let links = [link, Path::new("/sys/class/block").join(name)];
            self.pieces.extend(links.map(|at| VisibleFile::Link { at, to: folder.clone() }));
        }
    }

    /// Leaves the host's mounts and every right that the program does not need. For the thread that
    /// starts it.
    fn enter(self, namespace: &OwnedFd) -> Result<()> {
        // Entering a namespace is for a thread whose root folder is its own.
        unshare(CloneFlags::CLONE_FS).map_err(at("parting from the process's root folder"))?;
        setns(namespace, CloneFlags::CLONE_NEWNS).map_err(at("entering the empty namespace"))?;
        unshare(CloneFlags::CLONE_NEWNS).map_err(at("making a mount namespace"))?;
        let root = new_root().map_err(at("making a root folder"))?;
        let device = self.arrange().map_err(at("filling the root folder"))?;
        mount_setattr(root.as_fd(), false, libc::MOUNT_ATTR_RDONLY, 0, 0)
            .map_err(at("making the root folder read-only"))?;
        limit_bounding_set(KEPT).map_err(at("dropping capabilities"))?;
        rustix::thread::set_no_new_privs(true).map_err(at("renouncing new privileges"))?;
        if let Some(device) = device {
            restrict(root.as_fd(), device.as_fd()).map_err(at("setting Landlock's rules"))?;
        }
        forbid_all_but_device_work()
            .map_err(|_| NotConfined { what: "setting the filter of system calls", errno: Errno::INVAL })
    }

    /// Puts everything in its place below the new root. Returns the device.
    fn arrange(self) -> std::result::Result<Option<OwnedFd>, Errno> {
        let mut device = None;
        for piece in self.pieces {
            match piece {
                VisibleFile::Bound { tree, at, is_folder, is_device } => {
                    make_place(&at, is_folder)?;
                    let access = if is_device {
                        libc::MOUNT_ATTR_NOEXEC
                    } else {
                        libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NODEV
                    };
                    mount_setattr(tree.as_fd(), false, libc::MOUNT_ATTR_NOSUID | access, 0, 0)?;
                    rustix::mount::move_mount(&tree, "", CWD, &at, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
                    if is_device {
                        device = Some(tree);
                    }
                }
                VisibleFile::Link { at, to } => {
                    make_parents(&at)?;
                    rustix::fs::symlink(&to, &at)?;
                }
                VisibleFile::Empty(at) => make_place(&at, false)?,
            }
        }
        Ok(device)
    }
}

fn clone_tree(
    folder: impl AsFd,
    path: impl rustix::path::Arg,
    flags: OpenTreeFlags,
) -> std::result::Result<OwnedFd, Errno> {
    let flags = flags | OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    rustix::mount::open_tree(folder, path, flags)
}

/// Lays an empty folder in memory over the root folder, and makes it the thread's root folder.
fn new_root() -> std::result::Result<OwnedFd, Errno> {
    let context = rustix::mount::fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_set_string(&context, "mode", "755")?;
    rustix::mount::fsconfig_create(&context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    let root = rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    rustix::mount::move_mount(&root, "", CWD, "/", MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    rustix::process::fchdir(&root)?;
    rustix::process::chroot(".")?;
    Ok(root)
}

/// Makes the empty folder or file that something is bound to.
fn make_place(path: &Path, is_folder: bool) -> std::result::Result<(), Errno> {
    make_parents(path)?;
    if is_folder {
        return make_folder(path);
    }
    // Not by opening it: a child that another thread makes meanwhile has a copy of the descriptor
    // for a moment, and a file that is open for writing keeps the root folder from becoming
    // read-only.
    rustix::fs::mknodat(CWD, path, FileType::RegularFile, Mode::from_raw_mode(0o444), 0)
}

fn make_parents(path: &Path) -> std::result::Result<(), Errno> {
    let parents: Vec<&Path> = path.ancestors().skip(1).collect();
    parents.into_iter().rev().skip(1).try_for_each(make_folder)
}

fn make_folder(path: &Path) -> std::result::Result<(), Errno> {
    match rustix::fs::mkdir(path, Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno),
    }
}
