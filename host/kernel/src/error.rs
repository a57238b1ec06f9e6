//! What can go wrong, said so that a person knows what stood in the way and what to do.

use std::fmt;

pub use rustix::io::Errno;
use thiserror::Error;

use crate::block_devices::DeviceNumber;
use crate::step::Step;

/// What a caller can do about an error, coarse enough to map to a plugin's error cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The request itself is wrong; repeating it can't help.
    InvalidArgument,
    /// What was asked for does not exist.
    NotFound,
    /// Something else stands there: a mount, a file of another type, a folder that is not empty.
    Conflict,
    /// Something uses it; it may be free later.
    Busy,
    /// Not allowed: by the grant, or by the kernel.
    PermissionDenied,
    /// This kernel or file system can't do it.
    Unsupported,
    /// The file system is full.
    NoSpace,
    /// The machine is short of handles or memory for now.
    Exhausted,
    /// Anything else that the kernel or a device reported.
    Io,
}

/// Why a kernel operation did not do what it was asked. Paths are as the caller knows them: relative to the root
/// folder where they lie in it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum KernelError {
    /// The kernel refused a step.
    #[error("{step} {path}: {}{}{}", words(*.errno), detail_suffix(.detail), hint(*.step, *.errno))]
    Failed {
        /// The step that failed.
        step: Step,
        /// What it was done to.
        path: String,
        /// The kernel's answer.
        errno: Errno,
        /// What else the kernel said (the file-system context's log); often empty.
        detail: String,
    },
    /// A step failed, and taking back what came before it failed too.
    #[error("{cause}; undoing it failed too: {undo}")]
    UndoFailed {
        /// Why it failed.
        #[source]
        cause: Box<KernelError>,
        /// Why what it left could not be taken back.
        undo: Box<KernelError>,
    },
    /// A name or a path is not of the form this call takes.
    #[error("{path:?} is not allowed: {rule}")]
    InvalidPath {
        /// The beginning of what was given.
        path: String,
        /// What would be right.
        rule: &'static str,
    },
    /// No such mount option, or a value the file system refuses.
    #[error("option {option:?} of {subject}: {reason}")]
    InvalidOption {
        /// What the option was for.
        subject: String,
        /// The option.
        option: String,
        /// Why not.
        reason: String,
    },
    /// This kernel or user namespace lacks an option.
    #[error("option {option:?} of {subject} is not supported here: {reason}")]
    UnsupportedOption {
        /// What the option was for.
        subject: String,
        /// The option.
        option: String,
        /// The kernel's words.
        reason: String,
    },
    /// A mount stands there already.
    #[error("{path}: a mount stands here already; unmount it first")]
    AlreadyMounted {
        /// Where.
        path: String,
    },
    /// A mount stands at it or below it, so it is not removed.
    #[error("{path}: a mount stands here, nothing is removed through it; unmount it first")]
    MountInside {
        /// The mount that is in the way.
        path: String,
    },
    /// A symbolic link stands where the host follows none.
    #[error("{path}: a symbolic link stands here or on the way, and the host follows none; remove it")]
    SymbolicLink {
        /// Where.
        path: String,
    },
    /// It is of another type than the call takes.
    #[error("{path}: expected {expected}, found {found}")]
    WrongType {
        /// Where.
        path: String,
        /// What the call takes.
        expected: &'static str,
        /// What stands there.
        found: &'static str,
    },
    /// A folder or file holds something, and the call removes no data.
    #[error("{path}: not empty, and nothing is deleted from it; look at what is in it and remove it by hand")]
    NotEmpty {
        /// Where.
        path: String,
    },
    /// After it was attached, another mount stands there; somebody else works at the same place.
    #[error("{path}: another mount appeared here at the same moment; the volume's own was taken back")]
    Replaced {
        /// Where.
        path: String,
    },
    /// Entries keep coming, or folders are moved, while the folder is deleted.
    #[error("{path}: somebody works in it while it is deleted; stop what writes here")]
    StillWritten {
        /// The folder.
        path: String,
    },
    /// The path is not within what the operator granted, or leads out of it. Whether anything exists there is not said.
    #[error("{path}: not within a folder that is granted")]
    OutsideGrant {
        /// The path asked for.
        path: String,
    },
    /// A file is larger than the caller takes.
    #[error("{path}: larger than {limit} bytes")]
    TooLarge {
        /// The file.
        path: String,
        /// The limit in bytes.
        limit: usize,
    },
    /// Another process holds the lock.
    #[error("{path}: in use by another volhost{}", pid_suffix(.pid))]
    InUse {
        /// The lock file.
        path: String,
        /// Who holds it, if the lock file says.
        pid: Option<u32>,
    },
    /// It stands for another device than the one meant.
    #[error("{path}: this is device {found}, not {wanted}; take that one away first")]
    OtherDevice {
        /// Where.
        path: String,
        /// The device that is there.
        found: DeviceNumber,
        /// The device that was meant.
        wanted: DeviceNumber,
    },
    /// No block device is mapped there.
    #[error("{path}: no block device is mapped here")]
    NotMapped {
        /// Where.
        path: String,
    },
    /// The node at the device's path is no longer that device's: it was detached, or replaced.
    #[error("{path}: no longer block device {wanted}; it was taken away meanwhile")]
    DeviceGone {
        /// The device's path.
        path: String,
        /// The device.
        wanted: DeviceNumber,
    },
    /// The device refuses writes.
    #[error("{path}: the block device is read-only; mount it read-only, or attach it for writing")]
    ReadOnlyDevice {
        /// The device's path, or its file.
        path: String,
    },
    /// A pod has the device, or the image's device, as a device.
    #[error(
        "{step} {path}: {by} is over it, as for a pod that has it as a block device; a volume is used as a device or as a \
         file system, not as both: remove the pod that has it first"
    )]
    DeviceShown {
        /// The step that was refused.
        step: Step,
        /// The device's path, or the image's.
        path: String,
        /// The loop device over it.
        by: String,
    },
    /// The device is mounted as a file system, so it is not given to a pod as a device.
    #[error(
        "{path}: it is mounted as a file system, or swap, RAID or LVM has it; a volume is used as a device or as a file \
         system, not as both: remove the pod that has it mounted first"
    )]
    DeviceMounted {
        /// The device's path.
        path: String,
    },
    /// The device's sectors are larger than its file system was made for.
    #[error(
        "{path}: does not mount, for it has sectors of {sector} bytes, and its {fs_type} was made for {wanted}; take the device \
         away (losetup --detach {path}), and it is made anew with {wanted}: {}", words(*.errno)
    )]
    SectorsTooLarge {
        /// The device's path.
        path: String,
        /// The type of the file system.
        fs_type: String,
        /// The device's sector size in bytes.
        sector: u32,
        /// What the file system can be on at most, in bytes.
        wanted: u32,
        /// The kernel's answer.
        errno: Errno,
    },
    /// There is something on the device, and nothing is ever formatted over.
    #[error(
        "{path}: not formatted, for there is {found} on it; if nobody needs that, or it is what a killed format left, erase it \
         by hand: blkdiscard --force --zeroout {path}"
    )]
    NotBlank {
        /// The device's path.
        path: String,
        /// What is on it.
        found: String,
    },
    /// The device holds something, and that is no file system.
    #[error(
        "{path}: holds {found}, and no {wanted}; only what is blank is formatted. If nobody needs what is there, or it is what a \
         killed format left, erase it by hand: blkdiscard --force --zeroout {path}"
    )]
    NoFilesystem {
        /// The device's path.
        path: String,
        /// What it holds.
        found: String,
        /// The type that was asked for.
        wanted: String,
    },
    /// The device has a file system of another type.
    #[error("{path}: has a file system of type {found}, not {wanted}; ask for {found}, or use another volume")]
    FilesystemMismatch {
        /// The device's path.
        path: String,
        /// The type it has.
        found: String,
        /// The type that was asked for.
        wanted: String,
    },
    /// The file system is damaged beyond what may be repaired without asking.
    #[error("{path}: the {fs_type} file system is damaged; save what is on it, then run {repair} {path}; if nothing was ever stored on it, as after a format that was killed, `blkdiscard --force --zeroout {path}` lets it be formatted again{}", said_suffix(.said))]
    FilesystemDamaged {
        /// The device's path.
        path: String,
        /// The type.
        fs_type: String,
        /// What the tool or the kernel said.
        said: String,
        /// The command that repairs it.
        repair: &'static str,
    },
    /// Not a type that the host formats, mounts or grows.
    #[error("{path}: no file system of type {fs_type:?} here; there are ext2, ext3, ext4, xfs and btrfs")]
    UnsupportedFilesystem {
        /// The device's path.
        path: String,
        /// The type.
        fs_type: String,
    },
    /// Not a type of file system that is mounted from a file.
    #[error("{path}: no image of type {fs_type:?} is mounted here; there are {}", crate::image_files::IMAGE_TYPES.join(", "))]
    UnsupportedImage {
        /// The image.
        path: String,
        /// The type.
        fs_type: String,
    },
    /// A file holds something else than the image that was asked for.
    #[error("{path}: holds {found}, not an image of type {wanted}; ask for what it is, or use another file")]
    ImageMismatch {
        /// The file.
        path: String,
        /// What it holds.
        found: String,
        /// The type that was asked for.
        wanted: String,
    },
    /// An image can't be read as the type that it is of.
    #[error("{path}: the {fs_type} image is damaged or cut short; make it anew: {}{}", words(*.errno), said_suffix(.said))]
    ImageDamaged {
        /// The image.
        path: String,
        /// The type.
        fs_type: String,
        /// The kernel's answer.
        errno: Errno,
        /// What else the kernel said.
        said: String,
    },
    /// An image has less than it says that it has.
    #[error(
        "{path}: the {fs_type} image is cut short: it says that it has {claimed} bytes, and has {bytes}; make it anew"
    )]
    ImageCutShort {
        /// The image.
        path: String,
        /// The type.
        fs_type: String,
        /// What it says.
        claimed: u64,
        /// What it has.
        bytes: u64,
    },
    /// The kernel does not lay these folders on one another.
    #[error("laying on one another {layers}: {why}: {}{}", words(*.errno), said_suffix(.said))]
    LayersRefused {
        /// The folders.
        layers: String,
        /// What the kernel's answer means, and the way out.
        why: &'static str,
        /// The kernel's answer.
        errno: Errno,
        /// What else the kernel said.
        said: String,
    },
    /// A program that does the work is not installed.
    #[error("{step} {path}: {tool} is not installed; install it (Debian: apt-get install {package})")]
    ToolMissing {
        /// The step that needs it.
        step: Step,
        /// What it was to be done to.
        path: String,
        /// The program.
        tool: &'static str,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// A program that does the work was not started, for it would reach more than the device.
    #[error("{step} {path}: {tool} was not started, for it cannot be confined to the device: {what}: {}", words(*.errno))]
    ToolNotConfined {
        /// The step that needs it.
        step: Step,
        /// What it was to be done to.
        path: String,
        /// The program.
        tool: &'static str,
        /// What could not be done.
        what: &'static str,
        /// The kernel's answer.
        errno: Errno,
    },
    /// A program that does the work failed.
    #[error("{step} {path}: {tool} ended with {status}{}", said_suffix(.said))]
    ToolFailed {
        /// The step.
        step: Step,
        /// What it was done to.
        path: String,
        /// The program.
        tool: &'static str,
        /// How it ended.
        status: String,
        /// What it said.
        said: String,
    },
    /// A program that does the work did not end in time, and was ended.
    #[error("{step} {path}: {tool} did not end within {seconds} seconds and was stopped; does the device answer?{}", said_suffix(.said))]
    ToolTimedOut {
        /// The step.
        step: Step,
        /// What it was done to.
        path: String,
        /// The program.
        tool: &'static str,
        /// How long it had, in seconds.
        seconds: u64,
        /// What it said.
        said: String,
    },
    /// A sub-path leads out of its volume.
    #[error(
        "{path}: leads out of its volume, by an absolute link or one with `..`; link only to what lies in the volume"
    )]
    OutsideVolume {
        /// The sub-path.
        path: String,
    },
    /// The caller ended a walk over a volume's files before it was done.
    #[error("{path}: the caller cancelled the walk over its files after {visited} of them")]
    Cancelled {
        /// The volume.
        path: String,
        /// How many files were looked at.
        visited: u64,
    },
    /// Some of a volume's files could not be given to the group.
    #[error("{path}: {failed} of its files kept their old group or mode: {}", listed(.first, *.failed))]
    OwnershipIncomplete {
        /// The volume.
        path: String,
        /// How many.
        failed: u64,
        /// The first of them.
        first: Vec<KernelError>,
    },
    /// The file system lacks what was asked of it.
    #[error("{path}: its file system does not support {feature}: {reason}")]
    FilesystemLacks {
        /// What lies on it.
        path: String,
        /// What it lacks.
        feature: &'static str,
        /// The kernel's words.
        reason: String,
    },
    /// A handle of another kernel implementation was given: a mistake of the calling program.
    #[error("{path}: the handle belongs to another kernel implementation; this is a defect of volhost")]
    ForeignHandle {
        /// What the handle is of.
        path: String,
    },
}

impl KernelError {
    /// The kernel's answer, where a system call failed.
    #[must_use]
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::Failed { errno, .. }
            | Self::ImageDamaged { errno, .. }
            | Self::LayersRefused { errno, .. }
            | Self::SectorsTooLarge { errno, .. }
            | Self::ToolNotConfined { errno, .. } => Some(*errno),
            Self::UndoFailed { cause, .. } => cause.errno(),
            _ => None,
        }
    }

    /// The step that failed, where one did.
    #[must_use]
    pub fn step(&self) -> Option<Step> {
        match self {
            Self::Failed { step, .. }
            | Self::DeviceShown { step, .. }
            | Self::ToolMissing { step, .. }
            | Self::ToolNotConfined { step, .. }
            | Self::ToolFailed { step, .. }
            | Self::ToolTimedOut { step, .. } => Some(*step),
            Self::UndoFailed { cause, .. } => cause.step(),
            _ => None,
        }
    }

    /// What a caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::LayersRefused { errno: Errno::INVAL, .. } => ErrorKind::Unsupported,
            Self::Failed { errno, .. } | Self::LayersRefused { errno, .. } | Self::ToolNotConfined { errno, .. } => {
                kind_of(*errno)
            }
            Self::UndoFailed { cause, .. } => cause.kind(),
            Self::InvalidPath { .. } | Self::InvalidOption { .. } | Self::ForeignHandle { .. } => {
                ErrorKind::InvalidArgument
            }
            Self::UnsupportedOption { .. }
            | Self::UnsupportedFilesystem { .. }
            | Self::UnsupportedImage { .. }
            | Self::FilesystemLacks { .. }
            | Self::ToolMissing { .. } => ErrorKind::Unsupported,
            Self::OwnershipIncomplete { first, .. } => first.first().map_or(ErrorKind::Io, Self::kind),
            Self::AlreadyMounted { .. }
            | Self::SymbolicLink { .. }
            | Self::WrongType { .. }
            | Self::NotEmpty { .. }
            | Self::TooLarge { .. }
            | Self::OtherDevice { .. }
            | Self::NotBlank { .. }
            | Self::NoFilesystem { .. }
            | Self::FilesystemMismatch { .. }
            | Self::ImageMismatch { .. } => ErrorKind::Conflict,
            Self::NotMapped { .. } | Self::DeviceGone { .. } => ErrorKind::NotFound,
            Self::FilesystemDamaged { .. }
            | Self::ImageDamaged { .. }
            | Self::ImageCutShort { .. }
            | Self::ToolFailed { .. }
            | Self::SectorsTooLarge { .. }
            | Self::ToolTimedOut { .. } => ErrorKind::Io,
            Self::Cancelled { .. }
            | Self::MountInside { .. }
            | Self::Replaced { .. }
            | Self::StillWritten { .. }
            | Self::DeviceShown { .. }
            | Self::DeviceMounted { .. }
            | Self::InUse { .. } => ErrorKind::Busy,
            Self::OutsideGrant { .. } | Self::OutsideVolume { .. } | Self::ReadOnlyDevice { .. } => {
                ErrorKind::PermissionDenied
            }
        }
    }

    /// A failed system call.
    pub(crate) fn failed(step: Step, path: impl fmt::Display, errno: Errno) -> Self {
        Self::Failed { step, path: path.to_string(), errno, detail: String::new() }
    }

    /// A failed walk: words of their own for symbolic links and for things that are no folder.
    pub(crate) fn walking(step: Step, path: impl fmt::Display, errno: Errno) -> Self {
        match errno {
            Errno::LOOP => Self::SymbolicLink { path: path.to_string() },
            Errno::NOTDIR => Self::WrongType {
                path: path.to_string(),
                expected: "a folder",
                found: "something else, here or on the way",
            },
            errno => Self::failed(step, path, errno),
        }
    }

    /// This error, and that undoing failed as well, if it did.
    pub(crate) fn undone(self, undo: Result<(), KernelError>) -> Self {
        match undo {
            Ok(()) => self,
            Err(undo) => Self::UndoFailed { cause: Box::new(self), undo: Box::new(undo) },
        }
    }
}

/// What an errno means to the caller.
fn kind_of(errno: Errno) -> ErrorKind {
    match errno {
        Errno::NOENT => ErrorKind::NotFound,
        Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR | Errno::ISDIR | Errno::LOOP => ErrorKind::Conflict,
        Errno::BUSY | Errno::AGAIN | Errno::TXTBSY => ErrorKind::Busy,
        Errno::PERM | Errno::ACCESS | Errno::ROFS | Errno::XDEV => ErrorKind::PermissionDenied,
        Errno::INVAL | Errno::NAMETOOLONG | Errno::RANGE => ErrorKind::InvalidArgument,
        Errno::NOSYS | Errno::OPNOTSUPP | Errno::NODEV => ErrorKind::Unsupported,
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => ErrorKind::NoSpace,
        Errno::MFILE | Errno::NFILE | Errno::NOMEM => ErrorKind::Exhausted,
        _ => ErrorKind::Io,
    }
}

/// The kernel's words with the constant's name: `No space left on device (ENOSPC)`.
fn words(errno: Errno) -> String {
    let known = nix::errno::Errno::from_raw(errno.raw_os_error());
    format!("{} ({known:?})", known.desc())
}

/// The first failures, and that there are more.
fn listed(first: &[KernelError], failed: u64) -> String {
    let mut text = first.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    if failed > first.len() as u64 {
        text.push_str("; ...");
    }
    text
}

fn detail_suffix(detail: &str) -> String {
    if detail.is_empty() { String::new() } else { format!(": {detail}") }
}

fn said_suffix(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!(". It said: {said}") }
}

fn pid_suffix(pid: &Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" (process {pid}); stop it, or use another root folder"))
}

/// The way out, where there is one.
fn hint(step: Step, errno: Errno) -> &'static str {
    match (step, errno) {
        (Step::Attach | Step::CloneMount, Errno::NOSPC) => {
            "; this namespace holds as many mounts as it may, see fs.mount-max"
        }
        (Step::SetGroup, Errno::INVAL) => "; this user namespace has no such group",
        (_, Errno::NOSPC) => "; the file system is full or out of inodes",
        (_, Errno::DQUOT) => "; the disk quota is used up",
        (Step::Unmount | Step::UnmountRoot, Errno::BUSY) => "; a process uses it, fuser -vm names it",
        (Step::AttachLoop, Errno::BUSY) => "; others take every free loop device first, try again",
        (Step::DetachLoop, Errno::BUSY) => "; its device is mounted, pinned or opened, lsof or findmnt name by whom",
        (Step::FormatDevice | Step::CheckFileSystem, Errno::BUSY) => "; it is mounted, or a program has it for itself",
        (_, Errno::BUSY) => "; something uses it, or a mount stands here",
        (Step::GrowFileSystem, Errno::PERM) => {
            "; a mounted ext file system grows only with CAP_SYS_RESOURCE, without it before it is mounted"
        }
        (_, Errno::PERM) => "; volhost needs CAP_SYS_ADMIN (run it as root), and the file must not be immutable",
        (Step::MountFileSystem, Errno::ACCESS) => "; the block device is read-only, so mount it read-only",
        (Step::MountFileSystem, Errno::ROFS) => {
            "; its journal must be replayed and the block device is read-only: mount it once on a device that can be written, \
             or give up what is in the journal (option noload or norecovery)"
        }
        (_, Errno::ACCESS) => "; volhost may not enter or change it",
        (_, Errno::ROFS) => "; the file system is mounted read-only",
        (_, Errno::XDEV) => "; it leads out of its folder or onto another mount",
        (_, Errno::MFILE | Errno::NFILE) => "; raise the limit of open files (LimitNOFILE)",
        // XFS says so of a device whose sectors are too large, and of a feature that it does not
        // know.
        (Step::MountFileSystem | Step::MountImage, Errno::NOSYS) => {
            "; this kernel cannot mount it as it is, and its log (dmesg) tells why"
        }
        (_, Errno::NOSYS) => "; volhost needs Linux 5.12 or newer, and no seccomp filter in the way",
        _ => "",
    }
}
