//! The file that grants stand in, watched: what the operator grants or takes back counts at once.

use std::path::{Path, PathBuf};

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;
use tracing::warn;
use volhost_runtime::{GrantPolicy, ShippedPlugins};

use volhost_config::ConfigError;

/// The configuration file, as far as grants stand in it.
#[derive(Debug)]
pub struct GrantFile {
    path: PathBuf,
    /// Whose the built-in grants are: the daemon's own option, which the file does not change.
    shipped: ShippedPlugins,
    /// Holds the watch on the file's folder.
    _watcher: Option<RecommendedWatcher>,
}

impl GrantFile {
    /// The grants of this configuration file. It is not watched yet.
    pub fn new(path: PathBuf, shipped: ShippedPlugins) -> Self {
        Self { path, shipped, _watcher: None }
    }

    /// Reads them: what the plugins that come with volhost need, overridden by the file.
    ///
    /// # Errors
    /// [`ConfigError`]: the whole file must be right, as it must at the start.
    pub fn read(&self) -> Result<GrantPolicy, ConfigError> {
        Ok(volhost_config::grants(Some(&self.path))?.with_shipped(self.shipped.clone()))
    }

    /// The same, watched: `changed` is told when the file may hold something else. Its folder is watched, because editors and configuration
    /// management put a new file in its place.
    pub(super) fn watched(self, changed: mpsc::Sender<()>) -> Self {
        let file = self.path.clone();
        let told = move |event: notify::Result<notify::Event>| {
            if event.map_or(true, |event| concerns(&file, &event)) {
                // A full channel means that a look is due already.
                let _ = changed.try_send(());
            }
        };
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let watching = notify::recommended_watcher(told).and_then(|mut watcher| {
            watcher.watch(folder, RecursiveMode::NonRecursive)?;
            Ok(watcher)
        });
        match watching {
            Ok(watcher) => Self { _watcher: Some(watcher), ..self },
            Err(error) => {
                warn!(file = %self.path.display(), %error, "the file of grants cannot be watched; send SIGHUP after changing it");
                self
            }
        }
    }
}

/// Whether the event may have changed the file. Reading it is an event too.
fn concerns(file: &Path, event: &notify::Event) -> bool {
    let reading = matches!(event.kind, EventKind::Access(kind) if kind != AccessKind::Close(AccessMode::Write));
    let same = |path: &PathBuf| path.file_name() == file.file_name();
    !reading && (event.paths.is_empty() || event.paths.iter().any(same))
}
