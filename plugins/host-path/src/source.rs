//! The fields of `hostPath`, and how to open the path.

use volhost_plugin_sdk::prelude::*;

use crate::path_type::PathType;

/// A checked `hostPath`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) path_type: PathType,
}

impl Source {
    /// Reads and checks every field.
    ///
    /// # Errors
    /// `invalid-argument` naming the field.
    pub(crate) fn read(volume: &Volume) -> Result<Self> {
        volume.known_fields(&["path", "type"])?;
        let path = volume.absolute_path("path")?;
        let path_type = volume.one_of("type", PathType::WORDS)?.unwrap_or(PathType::Any);
        Ok(Self { path, path_type })
    }

    /// Opens the path, creating it if the type says so, and checks what was opened.
    ///
    /// # Errors
    /// `not-found` if it is missing, `precondition` if it is something else; each with the way out.
    pub(crate) fn open(&self) -> Result<MountSource> {
        let source = match host_paths::open(&self.path) {
            Err(Error::NotFound(why)) => self.create(why)?,
            opened => opened.context("hostPath.path")?,
        };
        self.path_type.check(&self.path, &source.kind())?;
        Ok(source)
    }

    fn create(&self, why_missing: String) -> Result<MountSource> {
        match self.path_type {
            PathType::DirectoryOrCreate => host_paths::create_directory(&self.path).context("hostPath.path"),
            PathType::FileOrCreate => host_paths::create_file(&self.path).map_err(|error| match error {
                Error::NotFound(why) => Error::not_found(format!(
                    "hostPath.path: type FileOrCreate creates no folder, create it first: {why}"
                )),
                other => other.context("hostPath.path"),
            }),
            _ => Err(self.path_type.missing(&self.path, &why_missing)),
        }
    }
}
