//! What can go wrong, in words that name the place, the cause and the way out.
//!
//! | file | job |
//! |---|---|
//! | `device`, `filesystem`, `image`, `network`, `tool` | errors of one subject each |
//! | `kind` | what a caller can do about an error |
//! | `text` | the kernel's words, and the way out |

mod device;
mod filesystem;
mod image;
mod kind;
mod network;
mod text;
mod tool;

use std::fmt;

pub use rustix::io::Errno;
use thiserror::Error;

pub use self::device::DeviceError;
pub use self::filesystem::FilesystemError;
pub use self::image::ImageError;
pub use self::kind::ErrorKind;
use self::kind::kind_of;
pub use self::network::NetworkError;
use self::text::{detail_suffix, hint, pid_suffix, said_suffix, words};
pub use self::tool::ToolError;
use crate::step::Step;

/// The result of a call of a [`crate::Kernel`].
pub type Result<T> = std::result::Result<T, KernelError>;

/// Why a kernel operation did not do what it was asked. Paths are as the caller knows them:
/// relative to the root folder where they lie in it.
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
    /// A step failed, and undoing what came before it failed too.
    #[error("{cause}; undoing it failed too: {undo}")]
    UndoFailed {
        /// Why it failed.
        #[source]
        cause: Box<KernelError>,
        /// Why what it left could not be undone.
        undo: Box<KernelError>,
    },
    /// A block device was not used.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A file system was not made, mounted, checked or grown.
    #[error(transparent)]
    Filesystem(#[from] FilesystemError),
    /// An image was not mounted.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// A share was not mounted.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// A program did not do its work.
    #[error(transparent)]
    Tool(#[from] ToolError),
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
    /// Something is mounted there already.
    #[error("{path}: something is mounted here already; unmount it first")]
    AlreadyMounted {
        /// Where.
        path: String,
    },
    /// Something is mounted at it or below it, so it is not removed.
    #[error("{path}: something is mounted here, and nothing is removed through a mount; unmount it first")]
    MountInside {
        /// The mount that is in the way.
        path: String,
    },
    /// A symbolic link where the host follows none.
    #[error("{path}: this, or a folder on the way, is a symbolic link, and the host follows none; remove it")]
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
        /// What is there.
        found: &'static str,
    },
    /// A folder or file is not empty, and the call removes no data.
    #[error("{path}: not empty, and nothing is deleted from it; look at what is in it and remove it by hand")]
    NotEmpty {
        /// Where.
        path: String,
    },
    /// After it was attached, another mount is there: another process mounts at the same place.
    #[error("{path}: another mount appeared here at the same moment; the volume's own was unmounted")]
    Replaced {
        /// Where.
        path: String,
    },
    /// Entries keep coming, or folders are moved, while the folder is deleted.
    #[error("{path}: another process writes in it while it is deleted; stop that process")]
    StillWritten {
        /// The folder.
        path: String,
    },
    /// The path is not within what the operator granted, or leads out of it. Whether anything
    /// exists there is not said.
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
    /// The kernel does not lay these folders on one another.
    #[error("mounting an overlay of {layers}: {why}: {}{}", words(*.errno), said_suffix(.said))]
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
}

impl KernelError {
    /// The kernel's answer, where a system call failed.
    #[must_use]
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::Failed { errno, .. } | Self::LayersRefused { errno, .. } => Some(*errno),
            Self::Device(error) => error.errno(),
            Self::Image(error) => error.errno(),
            Self::Network(error) => error.errno(),
            Self::Tool(error) => error.errno(),
            Self::UndoFailed { cause, .. } => cause.errno(),
            _ => None,
        }
    }

    /// The step that failed, where one did.
    #[must_use]
    pub fn step(&self) -> Option<Step> {
        match self {
            Self::Failed { step, .. } => Some(*step),
            Self::Device(error) => error.step(),
            Self::Tool(error) => Some(error.step()),
            Self::UndoFailed { cause, .. } => cause.step(),
            _ => None,
        }
    }

    /// Returns what a caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::LayersRefused { errno: Errno::INVAL, .. } => ErrorKind::Unsupported,
            Self::Failed { errno, .. } | Self::LayersRefused { errno, .. } => kind_of(*errno),
            Self::UndoFailed { cause, .. } => cause.kind(),
            Self::Device(error) => error.kind(),
            Self::Filesystem(error) => error.kind(),
            Self::Image(error) => error.kind(),
            Self::Network(error) => error.kind(),
            Self::Tool(error) => error.kind(),
            Self::InvalidPath { .. } | Self::InvalidOption { .. } => ErrorKind::InvalidArgument,
            Self::UnsupportedOption { .. } | Self::FilesystemLacks { .. } => ErrorKind::Unsupported,
            Self::OwnershipIncomplete { first, .. } => first.first().map_or(ErrorKind::Io, Self::kind),
            Self::AlreadyMounted { .. }
            | Self::SymbolicLink { .. }
            | Self::WrongType { .. }
            | Self::NotEmpty { .. }
            | Self::TooLarge { .. } => ErrorKind::Conflict,
            Self::Cancelled { .. }
            | Self::MountInside { .. }
            | Self::Replaced { .. }
            | Self::StillWritten { .. }
            | Self::InUse { .. } => ErrorKind::Busy,
            Self::OutsideGrant { .. } | Self::OutsideVolume { .. } => ErrorKind::PermissionDenied,
        }
    }

    /// A failed system call.
    pub fn failed(step: Step, path: impl fmt::Display, errno: Errno) -> Self {
        Self::Failed { step, path: path.to_string(), errno, detail: String::new() }
    }

    /// A failed walk: words of their own for symbolic links and for things that are no folder.
    pub fn walking(step: Step, path: impl fmt::Display, errno: Errno) -> Self {
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
    pub fn undone(self, undo: Result<()>) -> Self {
        match undo {
            Ok(()) => self,
            Err(undo) => Self::UndoFailed { cause: Box::new(self), undo: Box::new(undo) },
        }
    }
}

/// The first failures, and that there are more.
fn listed(first: &[KernelError], failed: u64) -> String {
    let mut text = first.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    if failed > first.len() as u64 {
        text.push_str("; ...");
    }
    text
}
