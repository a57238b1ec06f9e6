//! The selection of keys of a config map or secret that become files: `items`, `optional` and
//! modes, as `configMap` and `secret` volumes and the sources of `projected` volumes have them.
//!
//! ```
//! use volhost_plugin_sdk::prelude::*;
//! use volhost_plugin_sdk::objects::ConfigMap;
//! use volhost_plugin_sdk::{FileSet, KeySelection};
//!
//! fn publish(volume: &Volume, pod: &Pod, target: &MountTarget) -> Result<()> {
//!     let keys = KeySelection::read(volume, "", 0o644)?;
//!     let files = FileSet::for_pod(pod);
//!     keys.show(volume, ConfigMap::open(volume, pod, "app"), &files)?;
//!     log::debug(if keys.is_optional() { "it may be missing" } else { "it must be there" });
//!     files.show_in_folder(volume, pod, target)
//! }
//!
//! # let host = volhost_plugin_sdk::testing::TestHost::new();
//! # host.config_map("app", &[("a", b"1"), ("b", b"2")]);
//! # let volume = Volume::builder("configMap").field("name", "app").field("items.0.key", "a").field("items.0.path", "x/a");
//! # publish(&volume.handle(), &Pod::builder().handle(), &host.target("c").handle())?;
//! # assert_eq!(host.target("c").payload().unwrap().paths(), ["x/a"]);
//! # Ok::<(), Error>(())
//! ```

use crate::error::{Error, Result};
use crate::file_set::FileSet;
use crate::objects::Keyed;
use crate::quote::quoted;
use crate::volume::Volume;

/// The longest key, in bytes: Kubernetes' limit.
const LONGEST_KEY: usize = 253;

/// One entry of `items`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct KeyToPath {
    /// Its path in the source: `items.0`.
    at: String,
    key: String,
    path: String,
    mode: Option<u32>,
}

/// The selection of keys that become files, and the files' paths and modes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeySelection {
    /// None: every key, under its own name.
    items: Option<Vec<KeyToPath>>,
    optional: bool,
    default_mode: u32,
}

impl KeySelection {
    /// Reads and checks `items` and `optional` of the map at this path of the source (empty: the
    /// source itself).
    ///
    /// # Errors
    /// [`InvalidArgument`](Error::InvalidArgument) naming the field.
    pub fn read(volume: &Volume, at: &str, default_mode: u32) -> Result<Self> {
        let below = |field: &str| crate::volume::join(at, field);
        let mut items = Vec::new();
        for at in volume.list(&below("items"))? {
            volume.known_fields_at(&at, &["key", "path", "mode"])?;
            let field = |name: &str| format!("{at}.{name}");
            items.push(KeyToPath {
                key: volume.required(&field("key"))?,
                path: volume.file_path(&field("path"))?,
                mode: volume.mode(&field("mode"))?,
                at,
            });
        }
        let optional = volume.boolean(&below("optional"))?.unwrap_or(false);
        Ok(Self { items: Some(items).filter(|items| !items.is_empty()), optional, default_mode })
    }

    /// Whether object and keys may be missing.
    #[must_use]
    pub fn is_optional(&self) -> bool {
        self.optional
    }

    /// Adds the files of the opened object. An optional object that is known not to exist adds
    /// none.
    ///
    /// # Errors
    /// The error of opening; [`NotFound`](Error::NotFound) for a key that the object lacks.
    pub fn show<T: Keyed>(&self, volume: &Volume, opened: Result<T>, files: &FileSet) -> Result<()> {
        let object = match opened {
            Err(Error::NotFound(_)) if self.optional => return Ok(()),
            opened => opened?,
        };
        match &self.items {
            Some(items) => items.iter().try_for_each(|item| self.show_item(volume, &object, item, files)),
            None => object.keys().iter().try_for_each(|key| self.show_key(volume, &object, key, files)),
        }
    }

    fn show_item(&self, volume: &Volume, object: &dyn Keyed, item: &KeyToPath, files: &FileSet) -> Result<()> {
        match object.content(&item.key) {
            Some(content) => files
                .add_content(&item.path, &content, item.mode.unwrap_or(self.default_mode))
                .map_err(|error| error.context(volume.place(&item.at))),
            None if self.optional => Ok(()),
            None => Err(Error::not_found(format!(
                "{}: {} has no key {}",
                volume.place(&format!("{}.key", item.at)),
                object.label(),
                quoted(&item.key)
            ))),
        }
    }

    fn show_key(&self, volume: &Volume, object: &dyn Keyed, key: &str, files: &FileSet) -> Result<()> {
        if !is_key(key) {
            return Err(Error::invalid_argument(format!(
                "{}: {}: the key {} cannot be a file's name; letters, digits, `-`, `_` and `.` can, {LONGEST_KEY} of \
                 them at most, not beginning with `..`",
                volume.source(),
                object.label(),
                quoted(key)
            )));
        }
        // The object is a snapshot: nothing changes between the list and this call.
        object.content(key).map_or(Ok(()), |content| {
            files.add_content(key, &content, self.default_mode).map_err(|error| error.context(volume.source()))
        })
    }
}

fn is_key(key: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !key.is_empty() && key.len() <= LONGEST_KEY && key.bytes().all(allowed) && key != "." && !key.starts_with("..")
}
