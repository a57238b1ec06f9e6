//! Small files in a volume, replaced as a whole: a reader sees the old set or the new one, never a
//! mix.
//!
//! A plugin that calls one of these needs the grant `files`. [`crate::file_set`] adds the common
//! part of the volumes of Kubernetes.

use std::fmt;

use crate::backend;
use crate::error::Result;
use crate::mounts::MountTarget;

/// Bytes that the host keeps: a plugin can put them into a file, a request or an argument, and
/// cannot read them. So a secret never enters the sandbox, and no error or log line of a plugin can
/// contain it.
///
/// ```
/// use volhost_plugin_sdk::prelude::*;
/// use volhost_plugin_sdk::files::{Content, Payload};
///
/// fn show(content: &Content, target: &MountTarget) -> Result<()> {
///     let payload = Payload::new();
///     payload.add_content("secret", content, 0o400)?;
///     payload.file_owner("secret", 1000)?;
///     payload.owned_by(None, Some(2000));
///     payload.folder_mode(0o750);
///     payload.publish(target)
/// }
/// # let _ = show;
/// ```
pub struct Content(backend::files::Content);

impl Content {
    pub(crate) fn handle(&self) -> &backend::files::Content {
        &self.0
    }

    pub(crate) fn new(handle: backend::files::Content) -> Self {
        Self(handle)
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Content")
    }
}

/// The files of a volume. They are collected; nothing is visible before
/// [`Payload::publish`].
///
/// ```
/// # use volhost_plugin_sdk::prelude::*;
/// # use volhost_plugin_sdk::files::Payload;
/// # use volhost_plugin_sdk::testing::TestHost;
/// # let host = TestHost::new();
/// # fn example(target: &MountTarget) -> Result<()> {
/// target.make_folder(0o755, None)?;
/// let payload = Payload::new();
/// payload.add("greeting", b"hello", 0o444)?;
/// payload.publish(target)?;
/// # Ok(())
/// # }
/// example(&host.target("volume").handle())?;
/// assert_eq!(host.target("volume").payload().unwrap().files["greeting"].bytes, b"hello");
/// # Ok::<(), Error>(())
/// ```
pub struct Payload(backend::files::Payload);

impl Payload {
    /// An empty one: publishing it removes every file.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it creates a resource of the host, which a default should not")]
    pub fn new() -> Self {
        Self(backend::files::Payload::new())
    }

    /// Adds a file with this content and exactly this mode (permission bits). The path is relative,
    /// of names separated by `/`, none of them `.` or `..`, the first not beginning with `..`.
    /// Adding a path again replaces its file.
    ///
    /// # Errors
    /// [`InvalidArgument`](crate::Error::InvalidArgument) for the path, the mode, or more than the
    /// contract allows.
    pub fn add(&self, path: &str, bytes: &[u8], mode: u32) -> Result<()> {
        self.0.add(path, bytes, mode).map_err(backend::error_in)
    }

    /// As [`Payload::add`], with a content that the host keeps.
    ///
    /// # Errors
    /// As [`Payload::add`].
    pub fn add_content(&self, path: &str, content: &Content, mode: u32) -> Result<()> {
        self.0.add_content(path, &content.0, mode).map_err(backend::error_in)
    }

    /// Sets the owner of one file that was added, in place of [`Payload::owned_by`]'s.
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound) when it was not added.
    pub fn file_owner(&self, path: &str, user: u32) -> Result<()> {
        self.0.file_owner(path, user).map_err(backend::error_in)
    }

    /// Sets owner and group of every file and folder; none leaves them root's.
    pub fn owned_by(&self, user: Option<u32>, group: Option<u32>) {
        self.0.owned_by(user, group);
    }

    /// Sets the mode of every folder made for them (permission bits and setgid); 0755 if it is not
    /// called.
    pub fn folder_mode(&self, mode: u32) {
        self.0.folder_mode(mode);
    }

    /// Replaces the files of the volume at the target, a folder or a mount, by these, in one step.
    /// With the same paths, content, modes and owners, nothing is written. When it fails, the old
    /// files stay.
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound) when the target is absent,
    /// [`InvalidArgument`](crate::Error::InvalidArgument) when a path is a file and another lies
    /// below it, [`Precondition`](crate::Error::Precondition) when the target is a mount of less
    /// than 512 MiB and a [`Content`] is to be written to it; else the kernel's error.
    pub fn publish(&self, target: &MountTarget) -> Result<()> {
        self.0.publish(target.handle()).map_err(backend::error_in)
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Payload")
    }
}
