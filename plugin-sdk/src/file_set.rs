//! The common part of the Kubernetes volumes that contain files: modes with and without `fsGroup`,
//! a folder or a tmpfs for the files, folders for volumes that are mounted inside, and the
//! roll-back when the first publish fails.
//!
//! ```
//! use volhost_plugin_sdk::prelude::*;
//! use volhost_plugin_sdk::FileSet;
//! use volhost_plugin_sdk::file_set::{self, DEFAULT_MODE};
//!
//! fn publish(volume: &Volume, pod: &Pod, target: &MountTarget) -> Result<()> {
//!     let files = FileSet::for_pod(pod);
//!     files.add("hello.txt", b"hello", DEFAULT_MODE)?;
//!     files.show_in_folder(volume, pod, target)
//! }
//!
//! let host = volhost_plugin_sdk::testing::TestHost::new();
//! let (volume, pod) = (Volume::builder("greeting"), Pod::builder());
//! publish(&volume.handle(), &pod.handle(), &host.target("greeting").handle())?;
//! assert_eq!(host.target("greeting").payload().unwrap().files["hello.txt"].text(), "hello");
//! file_set::unpublish(&host.target("greeting").handle())?;
//! assert!(host.target("greeting").is_absent());
//! # Ok::<(), Error>(())
//! ```

use std::fmt;

use crate::error::{Context, Error, Result};
use crate::files::{Content, Payload};
use crate::mounts::{DetachedMount, MountTarget, TargetState};
use crate::pod::Pod;
use crate::tmpfs::Tmpfs;
use crate::volume::Volume;
use crate::{events, quote::quoted};

/// The mode of files when the volume sets none.
pub const DEFAULT_MODE: u32 = 0o644;
/// The mode of folders, the volume's own included. Kubernetes makes it writable for all users and
/// relies on the container runtime to forbid that; here only root may write to it.
const FOLDER_MODE: u32 = 0o755;
/// The mode bits that a group adds: it may read files, and folders pass it on (setgid).
const GROUP_READS: u32 = 0o440;
const GROUP_ENTERS: u32 = 0o2550;
/// The mode of a token that only a certain user or group may read.
const TOKEN_MODE: u32 = 0o600;
/// The size of the tmpfs, in bytes: the least at which the host publishes a [`Content`], so that no
/// set of files fills it. It is a bound; only written pages take memory.
const MEMORY_BYTES: u64 = 512 << 20;
/// The reason of the event when memory can reach the disk, in the kubelet's spelling.
const SWAP_EVENT: &str = "PossibleMemoryBackedVolumesOnDisk";

/// The files of a volume for one pod.
pub struct FileSet {
    payload: Payload,
    group: Option<u32>,
    user: Option<u32>,
}

impl FileSet {
    /// No files yet. With `fsGroup` all belong to that group, which may read them whatever their
    /// mode is.
    #[must_use]
    pub fn for_pod(pod: &Pod) -> Self {
        let payload = Payload::new();
        let group = pod.fs_group();
        payload.owned_by(None, group);
        payload.folder_mode(folder_mode(group));
        Self { payload, group, user: pod.fs_user() }
    }

    /// Adds a file with this content. Adding a path again replaces its file.
    ///
    /// # Errors
    /// As [`Payload::add`].
    pub fn add(&self, path: &str, bytes: &[u8], mode: u32) -> Result<()> {
        self.payload.add(path, bytes, self.file_mode(mode))
    }

    /// Adds a file with a content that the host keeps. Adding a path again replaces its file.
    ///
    /// # Errors
    /// As [`Payload::add`].
    pub fn add_content(&self, path: &str, content: &Content, mode: u32) -> Result<()> {
        self.payload.add_content(path, content, self.file_mode(mode))
    }

    /// Adds a file that only the pod may read, such as a token: it belongs to the user that all
    /// containers run as. Where that user or the group is known, no other user can read it,
    /// whatever `mode` is.
    ///
    /// # Errors
    /// As [`Payload::add`].
    pub fn add_private(&self, path: &str, content: &Content, mode: u32) -> Result<()> {
        let private = self.user.is_some() || self.group.is_some();
        self.add_content(path, content, if private { TOKEN_MODE } else { mode })?;
        match self.user {
            Some(user) => self.payload.file_owner(path, user),
            None => Ok(()),
        }
    }

    fn file_mode(&self, mode: u32) -> u32 {
        if self.group.is_some() { mode | GROUP_READS } else { mode }
    }

    /// Publishes these files in a plain folder at the target. When a first publish fails, it is
    /// rolled back; when a later one fails, the old files stay.
    ///
    /// # Errors
    /// [`Conflict`](Error::Conflict) when the target is a mount; else as [`Payload::publish`].
    pub fn show_in_folder(&self, volume: &Volume, pod: &Pod, target: &MountTarget) -> Result<()> {
        let first = target.state()? == TargetState::Absent;
        target.make_folder(folder_mode(self.group), self.group)?;
        self.fill(volume, pod, target).map_err(|error| roll_back(error, first, || target.delete_folder()))
    }

    /// Publishes these files in a tmpfs at the target. Its pages never reach a disk where the
    /// kernel can promise that; where it can't, the pod gets an event, once. When a first publish
    /// fails, it is rolled back; when a later one fails, the old files stay.
    ///
    /// # Errors
    /// [`Conflict`](Error::Conflict) when there is something else at the target; else as
    /// [`Payload::publish`].
    pub fn show_in_memory(&self, volume: &Volume, pod: &Pod, target: &MountTarget) -> Result<()> {
        let first = match target.state()? {
            TargetState::Mounted => match target.mounted_type()?.as_deref() {
                Some("tmpfs") => false,
                other => {
                    return Err(Error::conflict(format!(
                        "there is a {} mount in place of the tmpfs of this volume; unmount it, or delete the pod",
                        other.unwrap_or("foreign")
                    )));
                }
            },
            // A crash leaves the mount point without its mount. This removes it, and refuses if
            // there is data in it.
            TargetState::Plain => {
                target.detach().context("there is a plain folder in place of the tmpfs of this volume")?;
                true
            }
            TargetState::Absent => true,
        };
        if first {
            target.attach(memory(self.group)?)?;
        }
        self.fill(volume, pod, target).map_err(|error| roll_back(error, first, || target.detach()))
    }

    /// Makes the folders first, so that a file of such a name is refused.
    fn fill(&self, volume: &Volume, pod: &Pod, target: &MountTarget) -> Result<()> {
        for folder in pod.nested_mounts(&volume.spec_name()) {
            target.make_inner_folder(&folder, FOLDER_MODE).with_context(|| {
                format!("the folder {} for a volume that a container mounts inside this one", quoted(&folder))
            })?;
        }
        self.payload.publish(target)
    }
}

impl fmt::Debug for FileSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FileSet")
    }
}

/// Unmounts and removes what [`FileSet::show_in_folder`] or [`FileSet::show_in_memory`] made at the
/// target. Nothing there: ok.
///
/// # Errors
/// The kernel's error.
pub fn unpublish(target: &MountTarget) -> Result<()> {
    match target.state()? {
        TargetState::Absent => Ok(()),
        TargetState::Mounted => target.detach(),
        TargetState::Plain => target.delete_folder(),
    }
}

fn folder_mode(group: Option<u32>) -> u32 {
    if group.is_some() { FOLDER_MODE | GROUP_ENTERS } else { FOLDER_MODE }
}

/// The error of a publish. It is uncertain where the roll-back fails too: a part of the volume
/// remains.
fn roll_back(error: Error, first: bool, undo: impl FnOnce() -> Result<()>) -> Error {
    if !first {
        return error;
    }
    match undo() {
        Ok(()) => error,
        Err(undo) => Error::uncertain(format!("{error}; rolling back failed, too: {undo}")),
    }
}

fn memory(group: Option<u32>) -> Result<DetachedMount> {
    let mut tmpfs = Tmpfs::new().mode(folder_mode(group)).size(MEMORY_BYTES);
    if let Some(group) = group {
        tmpfs = tmpfs.group(group);
    }
    let mount = match tmpfs.clone().noswap().create() {
        // A kernel or a user namespace without it; another missing option would fail again below.
        Err(Error::Unsupported(why)) => {
            let mount = tmpfs.create()?;
            events::warning(
                SWAP_EVENT,
                format_args!(
                    "this node can't keep the memory of this volume out of swap, so it may reach a disk: {why}"
                ),
            );
            mount
        }
        done => done?,
    };
    mount.set_options(&["nosuid", "nodev"], false)?;
    Ok(mount)
}
