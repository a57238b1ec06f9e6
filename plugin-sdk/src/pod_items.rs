//! Fields of the pod as files: `items` of `downwardAPI` volumes, and of that source of `projected`
//! volumes.
//!
//! ```
//! use volhost_plugin_sdk::prelude::*;
//! use volhost_plugin_sdk::{FileSet, PodItems};
//!
//! fn publish(volume: &Volume, pod: &Pod, target: &MountTarget) -> Result<()> {
//!     let items = PodItems::read(volume, "", 0o644)?;
//!     let files = FileSet::for_pod(pod);
//!     items.show(volume, pod, &files)?;
//!     files.show_in_folder(volume, pod, target)
//! }
//! # let _ = publish;
//! ```

use crate::error::Result;
use crate::file_set::FileSet;
use crate::pod::Pod;
use crate::quote::quoted;
use crate::volume::{Volume, join};

/// The origin of a file's content.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Shows {
    Field(String),
    Resource { container: String, name: String, divisor: Option<String> },
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Item {
    /// Its path in the source: `items.0`.
    at: String,
    path: String,
    mode: Option<u32>,
    shows: Shows,
}

/// The fields of the pod that become files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodItems {
    items: Vec<Item>,
    default_mode: u32,
}

impl PodItems {
    /// Reads and checks `items` of the map at this path of the source (empty: the source itself).
    ///
    /// # Errors
    /// [`InvalidArgument`](crate::Error::InvalidArgument) naming the field.
    pub fn read(volume: &Volume, at: &str, default_mode: u32) -> Result<Self> {
        let list = volume.list(&join(at, "items"))?;
        let items = list.into_iter().map(|at| item(volume, at)).collect::<Result<_>>()?;
        Ok(Self { items, default_mode })
    }

    /// Adds the files.
    ///
    /// # Errors
    /// [`InvalidArgument`](crate::Error::InvalidArgument) naming the item, for an unknown field or
    /// resource.
    pub fn show(&self, volume: &Volume, pod: &Pod, files: &FileSet) -> Result<()> {
        for item in &self.items {
            let (field, text) = match &item.shows {
                Shows::Field(path) => ("fieldRef.fieldPath", pod.field(path)),
                Shows::Resource { container, name, divisor } => {
                    ("resourceFieldRef", pod.resource_value(container, name, divisor.as_deref()))
                }
            };
            let text = text.map_err(|error| error.context(volume.place(&format!("{}.{field}", item.at))))?;
            files
                .add(&item.path, text.as_bytes(), item.mode.unwrap_or(self.default_mode))
                .map_err(|error| error.context(volume.place(&item.at)))?;
        }
        Ok(())
    }
}

fn item(volume: &Volume, at: String) -> Result<Item> {
    volume.known_fields_at(&at, &["path", "mode", "fieldRef", "resourceFieldRef"])?;
    let field = |name: &str| format!("{at}.{name}");
    let (of_field, of_resource) = (field("fieldRef"), field("resourceFieldRef"));
    let shows = match (volume.kind(&of_field), volume.kind(&of_resource)) {
        (Some(_), None) => {
            volume.known_fields_at(&of_field, &["apiVersion", "fieldPath"])?;
            let version = format!("{of_field}.apiVersion");
            if let Some(other) = volume.string(&version).filter(|version| !matches!(version.as_str(), "" | "v1")) {
                return Err(volume.invalid(&version, format_args!("{} is not known; write v1", quoted(&other))));
            }
            Shows::Field(volume.required(&format!("{of_field}.fieldPath"))?)
        }
        (None, Some(_)) => {
            volume.known_fields_at(&of_resource, &["containerName", "resource", "divisor"])?;
            Shows::Resource {
                container: volume.required(&format!("{of_resource}.containerName"))?,
                name: volume.required(&format!("{of_resource}.resource"))?,
                divisor: volume.short(&format!("{of_resource}.divisor"))?,
            }
        }
        (Some(_), Some(_)) => return Err(volume.invalid(&at, "has both fieldRef and resourceFieldRef; remove one")),
        (None, None) => return Err(volume.invalid(&at, "has neither fieldRef nor resourceFieldRef; add one")),
    };
    Ok(Item { path: volume.file_path(&field("path"))?, mode: volume.mode(&field("mode"))?, shows, at })
}
