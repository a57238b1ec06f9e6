//! The configuration file with the operator's grants, and the cluster's, watched: a changed grant is enforced at once.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

use tracing::warn;
use volhost_config::ConfigError;
use volhost_folder_watch::FolderWatch;
use volhost_runtime::{GrantPolicy, ShippedPlugins};

use super::cluster::ClusterFolder;

/// Where grants come from while the daemon runs: the configuration file, as far as grants are
/// concerned, and the plugins that the cluster installs.
#[derive(Debug)]
pub struct GrantFile {
    /// None: there is no file.
    path: Option<PathBuf>,
    cluster: Option<Arc<ClusterFolder>>,
    /// The plugins that get the built-in grants: the daemon's own option, which the file does not
    /// change.
    shipped: ShippedPlugins,
}

/// What a reading of the file compares before and after; the default for one that cannot be opened.
#[derive(Default, PartialEq, Eq)]
struct FileState {
    is_being_written: bool,
    /// Inode, length, and time of the last change (seconds, nanoseconds).
    stamp: Option<(u64, u64, i64, i64)>,
}

impl GrantFile {
    /// The grants of this configuration file.
    pub fn new(path: Option<PathBuf>, shipped: ShippedPlugins) -> Self {
        Self { path, cluster: None, shipped }
    }

    /// Adds the grants of plugins that the cluster installs.
    #[must_use]
    pub fn with_cluster(mut self, folder: Option<Arc<ClusterFolder>>) -> Self {
        self.cluster = folder;
        self
    }

    /// Reads the grants: the built-in ones, overridden by the file.
    ///
    /// # Errors
    /// [`ConfigError`]: the whole file must be right, as it must at the start.
    pub fn read(&self) -> Result<GrantPolicy, ConfigError> {
        let policy = volhost_config::grants(self.path.as_deref())?.with_shipped(self.shipped.clone());
        Ok(match &self.cluster {
            Some(folder) => policy.with_cluster(folder.grants()),
            None => policy,
        })
    }

    /// Reads the grants as they are now. Returns none while a process has the file open for
    /// writing: it may have been truncated and not be written yet, and grants that are missing for
    /// a moment would be revoked. The watch reports when the writer closes it.
    ///
    /// # Errors
    /// [`ConfigError`], as [`GrantFile::read`].
    pub(super) fn read_again(&self) -> Result<Option<GrantPolicy>, ConfigError> {
        let before = self.seen();
        if before.is_being_written {
            return Ok(None);
        }
        let read = self.read();
        // Or it was truncated and written while it was read; the watch reports that too.
        if self.seen() != before {
            return Ok(None);
        }
        read.map(Some)
    }

    fn seen(&self) -> FileState {
        let Some(file) = self.path.as_ref().and_then(|path| File::open(path).ok()) else { return FileState::default() };
        let stamp = file.metadata().ok().map(|found| (found.ino(), found.len(), found.mtime(), found.mtime_nsec()));
        // Unknown where the file system has no leases.
        FileState { is_being_written: volhost_kernel::linux::is_being_written(&file) == Some(true), stamp }
    }

    /// Watches the file. Returns none, and logs why, if it cannot be watched.
    pub(super) fn watch(&self) -> Option<FolderWatch> {
        let path = self.path.as_ref()?;
        let watching = FolderWatch::file(path).and_then(|mut watch| {
            watch.arm()?;
            Ok(watch)
        });
        watching
            .inspect_err(|error| {
                let file = path.display();
                warn!(%file, %error, "the file of grants cannot be watched; send SIGHUP after changing it");
            })
            .ok()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_file_that_is_being_written_is_not_read_until_its_writer_has_closed_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        std::fs::write(&path, "[grants.\"example.org/a\"]\nhost-paths = [\"/srv\"]\n").unwrap();
        let file = GrantFile::new(Some(path.clone()), ShippedPlugins::default());
        let granted = file.read_again().unwrap();
        assert!(granted.is_some());
        // As a shell and most editors write: truncated first.
        let mut writer = File::create(&path).unwrap();
        assert_eq!(file.read_again().unwrap(), None);
        writer.write_all(b"[grants.\"example.org/a\"]\nhost-paths = [\"srv\"]\n").unwrap();
        assert_eq!(file.read_again().unwrap(), None);
        drop(writer);
        assert!(file.read_again().is_err(), "it is read, and refused");
    }
}
