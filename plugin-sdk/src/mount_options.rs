//! A PersistentVolume's mount options, sorted into those of a mount and those of a file system.
//!
//! ```
//! use volhost_plugin_sdk::prelude::*;
//! use volhost_plugin_sdk::MountOptions;
//!
//! let volume = Volume::builder("share").persistent_volume("pv").mount_option("noatime").mount_option("vers=4.2");
//! # let _host = volhost_plugin_sdk::testing::TestHost::new();
//! let options = MountOptions::read(&volume.handle());
//! assert_eq!(options.of_mount, ["noatime"], "for `DetachedMount::set_options`");
//! assert_eq!(options.borrowed(), [("vers", Some("4.2"))], "for `filesystems::mount`");
//! assert_eq!(options.of_file_system.len(), 1);
//! // A plugin that mounts no file system of its own refuses the second kind.
//! assert!(options.of_mount_alone().is_err());
//! ```

use crate::error::{Error, Result};
use crate::mounts::PER_MOUNT_OPTIONS;
use crate::quote::quoted;
use crate::volume::Volume;

/// Mount options, each by itself: one item of the list may contain several, with commas, as in
/// `fstab`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MountOptions {
    /// Per-mount options: `ro`, `noatime`; see [`PER_MOUNT_OPTIONS`].
    pub of_mount: Vec<String>,
    /// The rest: options of a file system, without a value for a flag.
    pub of_file_system: Vec<(String, Option<String>)>,
}

impl MountOptions {
    /// Reads the options of a volume.
    #[must_use]
    pub fn read(volume: &Volume) -> Self {
        let mut options = Self::default();
        let items = volume.mount_options();
        for option in items.iter().flat_map(|item| item.split(',')).map(str::trim).filter(|option| !option.is_empty()) {
            if PER_MOUNT_OPTIONS.contains(&option) {
                options.of_mount.push(option.to_owned());
            } else {
                options.of_file_system.push(match option.split_once('=') {
                    Some((key, value)) => (key.to_owned(), Some(value.to_owned())),
                    None => (option.to_owned(), None),
                });
            }
        }
        options
    }

    /// Returns the per-mount options, for a volume that has no file system of its own.
    ///
    /// # Errors
    /// [`InvalidArgument`](Error::InvalidArgument) naming one of a file system.
    pub fn of_mount_alone(self) -> Result<Vec<String>> {
        match self.of_file_system.first() {
            None => Ok(self.of_mount),
            Some((option, _)) => Err(Error::invalid_argument(format!(
                "spec.mountOptions: {} can't be set on this kind of volume; known: {}",
                quoted(option),
                PER_MOUNT_OPTIONS.join(", ")
            ))),
        }
    }

    /// Returns the options of a file system, as [`crate::filesystems::mount`] and
    /// [`crate::image_files::mount`] take them.
    #[must_use]
    pub fn borrowed(&self) -> Vec<(&str, Option<&str>)> {
        self.of_file_system.iter().map(|(key, value)| (key.as_str(), value.as_deref())).collect()
    }
}
