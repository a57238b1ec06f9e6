//! Small files in a volume, replaced as a whole: whoever reads them sees the old set or the new
//! one, never a mix.
//!
//! A plugin that calls one of these needs the grant `files`. [`crate::file_set`] builds on it what
//! the volumes of Kubernetes have in common.

use std::fmt;

use crate::backend;
use crate::error::Result;
use crate::mounts::MountTarget;

/// What a file is to hold, kept by the host: a plugin can put it into a file and cannot see it. So
/// a secret never enters the sandbox, and nothing that a plugin says can hold it.
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

/// Files that a volume is to show. They are collected; nothing is visible before
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
    /// An empty one: publishing it takes every file away.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it makes a thing of the host's, which a default should not")]
    pub fn new() -> Self {
        Self(backend::files::Payload::new())
    }

    /// A file with this content and exactly this mode (permission bits). The path is relative, of
    /// names separated by `/`, none of them `.` or `..`, the first not beginning with `..`. Adding
    /// a path again replaces its file.
    ///
    /// # Errors
    /// [`InvalidArgument`](crate::Error::InvalidArgument) for the path, the mode, or too much of it all.
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

    /// The owner of one file that was added, in place of [`Payload::owned_by`]'s.
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound) when it was not added.
    pub fn file_owner(&self, path: &str, user: u32) -> Result<()> {
        self.0.file_owner(path, user).map_err(backend::error_in)
    }

    /// Owner and group of every file and folder; none leaves them root's.
    pub fn owned_by(&self, user: Option<u32>, group: Option<u32>) {
        self.0.owned_by(user, group);
    }

    /// The mode of every folder made for them (permission bits and setgid); 0755 if it is not
    /// called.
    pub fn folder_mode(&self, mode: u32) {
        self.0.folder_mode(mode);
    }

    /// Makes the volume that stands at the target show these files and no others, at once. With the
    /// same paths, content, modes and owners, nothing is touched. When it fails, the old files
    /// stay.
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound) when nothing stands at the target, [`InvalidArgument`](crate::Error::InvalidArgument) when a
    /// path is a file and another lies below it, [`Precondition`](crate::Error::Precondition) when
    /// a [`Content`] is to be shown on a mount of less than 512 MiB; else as the kernel says.
    pub fn publish(&self, target: &MountTarget) -> Result<()> {
        self.0.publish(target.handle()).map_err(backend::error_in)
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Payload")
    }
}
