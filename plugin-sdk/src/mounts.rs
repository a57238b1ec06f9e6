//! Mounts, as handles. A plugin never names a path here, and keeps no handle after its call.
//!
//! ```
//! use volhost_plugin_sdk::prelude::*;
//! # let host = volhost_plugin_sdk::testing::TestHost::new();
//! # host.grant("/srv").directory("/srv/data");
//! # let place = host.target("data");
//! # let target = place.handle();
//! /// Shows a folder of the host, read-only, unless it is there already.
//! fn show(source: &MountSource, target: &MountTarget) -> Result<()> {
//!     if source.kind() != SourceKind::Directory {
//!         return Err(Error::invalid_argument(format!("it is {}, and must be a directory", source.kind())));
//!     }
//!     match target.state()? {
//!         TargetState::Mounted => return Ok(()),
//!         TargetState::Absent | TargetState::Plain => {}
//!     }
//!     let mount: DetachedMount = source.bind(true)?;
//!     // No process sees it yet: it is read-only before it becomes visible.
//!     mount.set_options(&["ro", "nosuid"], true)?;
//!     target.attach(mount)
//! }
//!
//! show(&host_paths::open("/srv/data")?, &target)?;
//! assert!(target.is_mounted()?);
//! log::info(format_args!("{} of pod {}: {:?} {:?}", target.spec_name(), target.pod_uid(), target.mounted_type()?, target.mounted_options()?));
//! target.make_inner_folder("a/b", 0o755)?;
//! target.detach()?;
//!
//! // A folder of the pod's own, in place of a mount:
//! target.make_folder(0o2770, Some(2000))?;
//! target.apply_fs_group(&Pod::builder().fs_group(2000).handle(), false)?;
//! assert_eq!((target.group()?, target.other_pods()?), (2000, 0));
//! target.delete_folder()?;
//! # Ok::<(), Error>(())
//! ```

use std::fmt;

use crate::backend;
use crate::error::Result;

/// Something that can be bind-mounted: a folder, file, socket or device that the host opened for
/// this plugin.
/// [`crate::host_paths`] gives some.
pub struct MountSource(backend::MountSource);

impl MountSource {
    pub(crate) fn new(handle: backend::MountSource) -> Self {
        Self(handle)
    }

    pub(crate) fn handle(&self) -> &backend::MountSource {
        &self.0
    }

    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> SourceKind {
        SourceKind::from_word(self.0.kind())
    }

    /// A copy of the mount at this place, invisible until attached. With `recursive`, the mounts
    /// below come too.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn bind(&self, recursive: bool) -> Result<DetachedMount> {
        self.0.bind(recursive).map(DetachedMount::new).map_err(backend::error_in)
    }
}

impl fmt::Debug for MountSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MountSource({:?})", self.kind())
    }
}

/// The kind of a [`MountSource`]. `Display` gives words for a sentence: "a directory".
///
/// ```
/// use volhost_plugin_sdk::prelude::*;
/// let bindable = |kind: SourceKind| match kind {
///     SourceKind::Directory | SourceKind::File => true,
///     SourceKind::Socket | SourceKind::Fifo | SourceKind::CharDevice | SourceKind::BlockDevice => false,
///     // A later host may know others.
///     SourceKind::Other(_) => false,
///     _ => false,
/// };
/// assert!(bindable(SourceKind::File) && !bindable(SourceKind::Socket));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SourceKind {
    /// A folder.
    Directory,
    /// A regular file.
    File,
    /// A unix socket.
    Socket,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
    /// A named pipe.
    Fifo,
    /// A word of a later contract.
    Other(String),
}

impl SourceKind {
    fn from_word(word: String) -> Self {
        match word.as_str() {
            "directory" => Self::Directory,
            "file" => Self::File,
            "socket" => Self::Socket,
            "char-device" => Self::CharDevice,
            "block-device" => Self::BlockDevice,
            "fifo" => Self::Fifo,
            _ => Self::Other(word),
        }
    }
}

impl fmt::Display for SourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Directory => "a directory",
            Self::File => "a file",
            Self::Socket => "a socket",
            Self::CharDevice => "a character device",
            Self::BlockDevice => "a block device",
            Self::Fifo => "a named pipe",
            Self::Other(word) => return write!(f, "a {word}"),
        })
    }
}

/// A mount that no process can see yet. [`MountTarget::attach`] makes it visible; dropping it
/// discards it, so an early return or a panic leaves nothing behind.
pub struct DetachedMount(backend::DetachedMount);

impl DetachedMount {
    pub(crate) fn new(handle: backend::DetachedMount) -> Self {
        Self(handle)
    }

    pub(crate) fn handle(&self) -> &backend::DetachedMount {
        &self.0
    }

    /// Sets per-mount options by mount(8)'s names; see [`PER_MOUNT_OPTIONS`]. With `recursive`, on
    /// the mounts below too. They are set before the mount becomes visible.
    ///
    /// # Errors
    /// [`InvalidArgument`](crate::Error::InvalidArgument) for another name; else the kernel's
    /// error.
    pub fn set_options(&self, options: &[&str], recursive: bool) -> Result<()> {
        let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        self.0.set_options(&options, recursive).map_err(backend::error_in)
    }

    /// The root of this mount, for use while the mount is detached: [`crate::overlays::mount`] can
    /// use it as its top.
    ///
    /// # Errors
    /// The kernel's error.
    ///
    /// ```
    /// use volhost_plugin_sdk::prelude::*;
    /// # let _host = volhost_plugin_sdk::testing::TestHost::new();
    /// // A detached tmpfs, as the top of an overlay.
    /// let top = Tmpfs::new().create()?;
    /// assert_eq!(top.source()?.kind(), SourceKind::Directory);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn source(&self) -> Result<MountSource> {
        self.0.source().map(MountSource::new).map_err(backend::error_in)
    }
}

impl fmt::Debug for DetachedMount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DetachedMount")
    }
}

/// The options [`DetachedMount::set_options`] knows.
///
/// ```
/// use volhost_plugin_sdk::PER_MOUNT_OPTIONS;
/// assert!(PER_MOUNT_OPTIONS.contains(&"noexec"), "the rest are options of the file system");
/// ```
pub const PER_MOUNT_OPTIONS: &[&str] =
    &["ro", "nosuid", "nodev", "noexec", "noatime", "nodiratime", "relatime", "strictatime", "nosymfollow"];

/// The state of a [`MountTarget`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetState {
    /// Nothing.
    Absent,
    /// A folder or file of the host's own, not a mount.
    Plain,
    /// A mount.
    Mounted,
}

/// The path at which the host wants this volume: the pod's, or, in [`Stager`](crate::Stager), the
/// staging path.
pub struct MountTarget<'call>(pub(crate) &'call backend::MountTarget);

impl<'call> MountTarget<'call> {
    pub(crate) fn new(handle: &'call backend::MountTarget) -> Self {
        Self(handle)
    }

    /// The pod's uid; empty for a staging target.
    #[must_use]
    pub fn pod_uid(&self) -> String {
        self.0.pod_uid()
    }

    /// The name in the pod's folder.
    #[must_use]
    pub fn spec_name(&self) -> String {
        self.0.spec_name()
    }

    /// The target's state now.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn state(&self) -> Result<TargetState> {
        self.0.state().map(backend::target_state).map_err(backend::error_in)
    }

    /// Whether the target is a mount.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn is_mounted(&self) -> Result<bool> {
        Ok(self.state()? == TargetState::Mounted)
    }

    /// The file-system type of the mount at the target (`tmpfs`); none if it is not a mount.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn mounted_type(&self) -> Result<Option<String>> {
        self.0.mounted_type().map_err(backend::error_in)
    }

    /// The options of the mount at the target, per-mount ones and the file system's, as the
    /// kernel writes them (`ro`, `size=1024k`); empty if it is not a mount.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn mounted_options(&self) -> Result<Vec<String>> {
        self.0.mounted_options().map_err(backend::error_in)
    }

    /// The staging mount of this volume, as [`Stager::stage`](crate::Stager::stage) made it, to be
    /// bound for the pod. None if the volume has none.
    ///
    /// # Errors
    /// The kernel's error.
    ///
    /// ```
    /// use volhost_plugin_sdk::prelude::*;
    /// /// `publish` of a staged volume.
    /// fn publish(pod: &Pod, target: &MountTarget) -> Result<()> {
    ///     let Some(staged) = target.staging_mount()? else {
    ///         return Err(Error::precondition("the volume is not staged on this node"));
    ///     };
    ///     target.attach(staged.bind(false)?)?;
    ///     // Only the first pod's group gets the files: a later pod must not change their group.
    ///     target.apply_fs_group_of_first_pod(pod)
    /// }
    /// ```
    pub fn staging_mount(&self) -> Result<Option<MountSource>> {
        Ok(self.0.staging_mount().map_err(backend::error_in)?.map(MountSource::new))
    }

    /// Attaches the mount here, creating the mount point: a folder or a file, like the mount's
    /// root. All or nothing.
    ///
    /// # Errors
    /// [`Conflict`](crate::Error::Conflict) if the target is a mount already; else the kernel's
    /// error.
    pub fn attach(&self, mount: DetachedMount) -> Result<()> {
        self.0.attach(mount.0).map_err(backend::error_in)
    }

    /// Makes the target a plain folder with exactly this mode (permission, setuid, setgid and
    /// sticky bits), and this group if given. Repeating it on a plain folder sets mode and group
    /// again and leaves the content alone.
    ///
    /// # Errors
    /// [`Conflict`](crate::Error::Conflict) if the target is a mount; else the kernel's error.
    pub fn make_folder(&self, mode: u32, group: Option<u32>) -> Result<()> {
        self.0.make_folder(mode, group).map_err(backend::error_in)
    }

    /// Makes a folder inside the volume at the target, with its missing parents, each with this
    /// mode. Existing ones stay as they are. No symbolic link is followed.
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound) when the target is absent,
    /// [`Conflict`](crate::Error::Conflict) for a file or a link on the way.
    pub fn make_inner_folder(&self, path: &str, mode: u32) -> Result<()> {
        self.0.make_inner_folder(path, mode).map_err(backend::error_in)
    }

    pub(crate) fn handle(&self) -> &'call backend::MountTarget {
        self.0
    }

    /// Gives every file of the volume at the target to the pod's
    /// [`fs_group`](crate::Pod::fs_group), by the pod's change policy: the group can read it and,
    /// unless `read_only`, write it. Without a group it does nothing. Repeating it finishes an
    /// interrupted walk.
    ///
    /// # Errors
    /// [`Uncertain`](crate::Error::Uncertain), since some files may have been changed: the text
    /// names the first files that were not.
    pub fn apply_fs_group(&self, pod: &crate::Pod<'_>, read_only: bool) -> Result<()> {
        self.0.apply_fs_group(pod.0, read_only).map_err(backend::error_in)
    }

    /// As [`apply_fs_group`](Self::apply_fs_group), for a volume that several pods may share: the
    /// group of the first pod counts. If another pod uses the volume it changes nothing, and
    /// reports the kubelet's event `AlreadyMountedVolume` if the files have another group. Without
    /// a group it does nothing.
    ///
    /// # Errors
    /// As [`apply_fs_group`](Self::apply_fs_group), [`group`](Self::group) and
    /// [`other_pods`](Self::other_pods).
    pub fn apply_fs_group_of_first_pod(&self, pod: &crate::Pod<'_>) -> Result<()> {
        let Some(group) = pod.fs_group() else {
            return Ok(());
        };
        if self.other_pods()? == 0 {
            return self.apply_fs_group(pod, false);
        }
        let theirs = self.group()?;
        if theirs != group {
            crate::events::warning(
                "AlreadyMountedVolume",
                format_args!(
                    "The requested fsGroup is {group}, but the volume {} has GID {theirs}. The volume may not be shareable.",
                    self.spec_name()
                ),
            );
        }
        Ok(())
    }

    /// The group of the target's root.
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound) when the target is absent; else the kernel's error.
    pub fn group(&self) -> Result<u32> {
        self.0.group().map_err(backend::error_in)
    }

    /// How many other pods this volume's staging mount is published to now; 0 if the volume has no
    /// staging mount.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn other_pods(&self) -> Result<u32> {
        self.0.other_pods().map_err(backend::error_in)
    }

    /// Unmounts what is mounted here and removes the mount point. Nothing there: ok. Never
    /// removes data.
    ///
    /// # Errors
    /// [`Conflict`](crate::Error::Conflict) for a folder that is not empty; else the kernel's
    /// error.
    pub fn detach(&self) -> Result<()> {
        self.0.detach().map_err(backend::error_in)
    }

    /// Removes the plain folder and all that is in it. Nothing there: ok.
    ///
    /// # Errors
    /// [`Busy`](crate::Error::Busy) for a mount here or below; else the kernel's error.
    pub fn delete_folder(&self) -> Result<()> {
        self.0.delete_folder().map_err(backend::error_in)
    }

    /// A folder that belongs to this volume of this pod, on the host's disk, beside what the pod
    /// sees: made with mode 0700 if it is missing, kept over restarts of host and machine. The host
    /// removes it, with all that is in it, when the volume has been unpublished.
    ///
    /// # Errors
    /// [`Unsupported`](crate::Error::Unsupported) for a staging target; else the kernel's error.
    pub fn private_folder(&self) -> Result<MountSource> {
        self.0.private_folder().map(MountSource::new).map_err(backend::error_in)
    }
}

impl fmt::Debug for MountTarget<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MountTarget({}/{})", self.pod_uid(), self.spec_name())
    }
}
