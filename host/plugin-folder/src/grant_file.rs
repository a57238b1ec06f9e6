//! The configuration file with the operator's grants, watched: a changed grant is enforced at once.

use std::path::PathBuf;

use tracing::warn;
use volhost_config::ConfigError;
use volhost_folder_watch::FolderWatch;
use volhost_runtime::{GrantPolicy, ShippedPlugins};

/// The configuration file, as far as grants are concerned.
#[derive(Debug)]
pub struct GrantFile {
    path: PathBuf,
    /// The plugins that get the built-in grants: the daemon's own option, which the file does not
    /// change.
    shipped: ShippedPlugins,
}

impl GrantFile {
    /// The grants of this configuration file.
    pub fn new(path: PathBuf, shipped: ShippedPlugins) -> Self {
        Self { path, shipped }
    }

    /// Reads the grants: the built-in ones, overridden by the file.
    ///
    /// # Errors
    /// [`ConfigError`]: the whole file must be right, as it must at the start.
    pub fn read(&self) -> Result<GrantPolicy, ConfigError> {
        Ok(volhost_config::grants(Some(&self.path))?.with_shipped(self.shipped.clone()))
    }

    /// Watches the file. Returns none, and logs why, if it cannot be watched.
    pub(super) fn watch(&self) -> Option<FolderWatch> {
        let watching = FolderWatch::file(&self.path).and_then(|mut watch| {
            watch.arm()?;
            Ok(watch)
        });
        watching
            .inspect_err(|error| {
                let file = self.path.display();
                warn!(%file, %error, "the file of grants cannot be watched; send SIGHUP after changing it");
            })
            .ok()
    }
}
