//! Watches the plugin folder and keeps the registry up to date with it.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use volhost_folder_watch::{Below, FolderWatch, changed};
use volhost_model::PluginName;

use super::cluster::ClusterFolder;
use super::grant_file::GrantFile;
use super::loader::{Loaded, Loader, LoaderProgress};
use super::refusals::RegistryError;
use super::registry::{PluginChanges, PluginRegistry};

/// Distinguishes a file from an older one of the same name.
type PluginStamp = (FileStamp, [Option<FileStamp>; 3]);
type FileStamp = (u64, u64, Option<SystemTime>);

/// How long the first scan may delay the start for plugins whose code is cached. Loading one
/// takes 2 ms.
const FIRST_LOOK: Duration = Duration::from_secs(1);

/// How long the plugins of the first scan may be compiled until they count as missing. Volumes of
/// gone pods, and volumes whose driver may have a plugin of its own, wait that long at the most;
/// thirty plugins that the compiler refuses for their processor time fit in, for each processor.
const ALL_LOADED: Duration = Duration::from_secs(300);

/// How long a plugin that was refused because the record could not be written waits for the next
/// try. A full disk lasts minutes.
const TRY_TO_RECORD: Duration = Duration::from_secs(30);

/// Ends the compiler's children when the folder is watched no longer, for whatever reason.
struct StopCompiling(Arc<PluginRegistry>);

impl Drop for StopCompiling {
    fn drop(&mut self) {
        self.0.stop_compiling();
    }
}

/// Scans the plugin folder, loads what is new or changed, retires what is gone, and does so again
/// whenever the folder changes, until `shutdown`. What changed goes to `changes`; the first scan is
/// sent even when it found nothing, and as soon as no file but those that must be compiled is left
/// to load. `reload` asks for another scan, and gives plugins that are quarantined or were refused
/// by the compiler another chance.
pub async fn watch(
    folders: PluginFolders,
    registry: Arc<PluginRegistry>,
    mut grants: Option<GrantFile>,
    changes: mpsc::Sender<PluginChanges>,
    reload: Arc<Notify>,
    shutdown: CancellationToken,
) {
    let _stop = StopCompiling(Arc::clone(&registry));
    let mut grants_watch = grants.as_ref().and_then(GrantFile::watch);
    let folder = folders.operator.clone();
    let mut watch = watch_of(&folder);
    let mut cluster_watch = folders.cluster.as_ref().and_then(|cluster| watch_of(cluster.path()));
    let mut folder_now = Folder::new(folders, Arc::clone(&registry));
    let mut look = Some(None);
    let mut found = PluginChanges::default();
    let mut is_first = true;
    let first_due = Instant::now() + FIRST_LOOK;
    let all_due = Instant::now() + ALL_LOADED;
    let mut record_due = Instant::now() + TRY_TO_RECORD;
    loop {
        if let Some(again) = look.take() {
            for watch in [&mut watch, &mut cluster_watch] {
                if let Some(Err(error)) = watch.as_mut().map(FolderWatch::arm) {
                    warn!(folder = %folder.display(), %error, "the plugin folder cannot be watched");
                }
            }
            folder_now.look(again, &mut found).await;
        }
        folder_now.try_failed_again();
        folder_now.settle(&mut found).await;
        let was_starting = registry.is_starting();
        if folder_now.loader.is_idle() || Instant::now() >= all_due {
            registry.set_starting(false);
        }
        let is_due = is_first && (folder_now.loader.only_compiles() || Instant::now() >= first_due);
        if is_due || !is_first && (!found.is_empty() || was_starting && !registry.is_starting()) {
            is_first = false;
            found.is_complete = !registry.is_starting();
            if changes.send(std::mem::take(&mut found)).await.is_err() {
                return;
            }
        }
        tokio::select! {
            () = shutdown.cancelled() => return,
            progress = folder_now.loader.next() => folder_now.take(progress, &mut found).await,
            () = sleep_until(first_due), if is_first => {}
            () = sleep_until(all_due), if registry.is_starting() => {}
            () = sleep_until(record_due), if folder_now.waits_for_record() => {
                record_due = Instant::now() + TRY_TO_RECORD;
                folder_now.retry.extend(registry.not_recorded());
            }
            () = changed(&mut watch) => look = Some(None),
            // Its grants may have changed, too.
            () = changed(&mut cluster_watch) => look = Some(reread(&mut grants, &registry).await),
            () = changed(&mut grants_watch) => {
                if let Some(Err(error)) = grants_watch.as_mut().map(FolderWatch::arm) {
                    warn!(%error, "the file of grants cannot be watched");
                }
                look = Some(reread(&mut grants, &registry).await);
            }
            () = reload.notified() => {
                let forgetting = registry.clone();
                // Done before the scan, or given up with the host.
                let _ = tokio::task::spawn_blocking(move || forgetting.forget_refusals()).await;
                found.ready.extend(registry.release_all());
                folder_now.retry_failed();
                look = Some(reread(&mut grants, &registry).await);
            }
        }
    }
}

fn watch_of(folder: &Path) -> Option<FolderWatch> {
    let failed = |error: &std::io::Error| {
        warn!(folder = %folder.display(), %error, "the plugin folder cannot be watched; send SIGHUP after changing it");
    };
    FolderWatch::folder(folder, Below::Nothing).inspect_err(failed).ok()
}

/// Reads the operator's grants again, on a thread that may block. Returns the files that are to be
/// loaded again, none if the grants are what they were; a file of grants that cannot be used
/// changes nothing.
async fn reread(grants: &mut Option<GrantFile>, registry: &Arc<PluginRegistry>) -> Option<Vec<PathBuf>> {
    let file = grants.take()?;
    let registry = Arc::clone(registry);
    let reading = move || {
        let again = match file.read_again() {
            Ok(Some(policy)) => registry.regrant(policy),
            Ok(None) => {
                info!("the file of grants is being written; it is read when its writer has closed it");
                None
            }
            Err(error) => {
                warn!(%error, "the grants cannot be read again; those that were read before stay in force");
                None
            }
        };
        (file, again)
    };
    // It ends early only with the host.
    let (file, again) = tokio::task::spawn_blocking(reading).await.ok()?;
    *grants = Some(file);
    again
}

/// The folders of plugins.
#[derive(Debug, Clone)]
pub struct PluginFolders {
    /// The operator's.
    pub operator: PathBuf,
    /// The cluster's, if the cluster may install plugins.
    pub cluster: Option<Arc<ClusterFolder>>,
}

impl PluginFolders {
    /// The plugin files, from both. Blocking.
    fn list(&self) -> Result<BTreeMap<PathBuf, PluginStamp>, (PathBuf, std::io::Error)> {
        let listed = |folder: &Path| list(folder).map_err(|error| (folder.to_owned(), error));
        let mut files = listed(&self.operator)?;
        if let Some(cluster) = &self.cluster {
            files.extend(listed(cluster.path())?);
        }
        Ok(files)
    }
}

/// The folders as of the last scan.
struct Folder {
    folders: PluginFolders,
    registry: Arc<PluginRegistry>,
    seen: BTreeMap<PathBuf, PluginStamp>,
    loader: Loader,
    /// Files that were refused, perhaps for a name or source that another file had: something has
    /// changed since, and they are loaded once more when all else is.
    retry: BTreeSet<PathBuf>,
}

impl Folder {
    fn new(folders: PluginFolders, registry: Arc<PluginRegistry>) -> Self {
        let loader = Loader::new(Arc::clone(&registry));
        Self { folders, registry, seen: BTreeMap::new(), loader, retry: BTreeSet::new() }
    }

    /// One scan: starts to load what is new or changed. A file that cannot be listed or read now
    /// keeps what it had. With `regranted`, grants have changed: loads these files again, and those
    /// that are being loaded.
    async fn look(&mut self, regranted: Option<Vec<PathBuf>>, found: &mut PluginChanges) {
        let folders = self.folders.clone();
        let listed = tokio::task::spawn_blocking(move || folders.list()).await;
        let early = |_| Err((self.folders.operator.clone(), std::io::Error::other("the scan ended early")));
        let files = match listed.unwrap_or_else(early) {
            Ok(files) => files,
            Err((folder, error)) => {
                warn!(folder = %folder.display(), %error, "the plugin folder cannot be read; the plugins loaded before stay");
                found.failed.push((folder, format!("the plugin folder cannot be read: {error}")));
                self.seen.clone()
            }
        };
        let mut gone = false;
        for file in self.seen.keys().filter(|file| !files.contains_key(*file)) {
            gone = true;
            if let Some(name) = self.registry.remove(file) {
                info!(plugin = %name, file = %file.display(), "plugin retired: its file is gone; it still unmounts its volumes");
                found.retired.push(name);
            }
        }
        let changed = files.iter().filter(|(file, stamp)| self.seen.get(*file) != Some(stamp));
        let mut again: BTreeSet<PathBuf> = changed.map(|(file, _)| file.clone()).collect();
        if let Some(regranted) = regranted {
            again.extend(regranted.into_iter().filter(|file| files.contains_key(file)));
            self.loader.start_again();
        }
        if !again.is_empty() || gone {
            self.retry_failed();
            self.retry.retain(|file| !again.contains(file));
        }
        self.seen = files;
        for file in again {
            self.loader.start(file);
        }
    }

    /// Takes what the loader reports.
    async fn take(&mut self, progress: LoaderProgress, found: &mut PluginChanges) {
        for file in progress.compiling.into_iter().filter(|file| self.seen.contains_key(file)) {
            info!(file = %file.display(), "plugin is being compiled");
            self.registry.is_being_compiled(&file);
            found.compiling.push(file);
        }
        // The file of others has gone meanwhile.
        let loaded: Vec<_> = progress.loaded.into_iter().filter(|(file, _)| self.seen.contains_key(file)).collect();
        let registry = Arc::clone(&self.registry);
        // What they settle is written to the disk.
        let admitting = move || loaded.into_iter().map(|loaded| admit(&registry, loaded)).collect::<Vec<_>>();
        // It ends early only with the host.
        for admitted in tokio::task::spawn_blocking(admitting).await.unwrap_or_default() {
            note(admitted, found);
        }
    }

    /// Once all is loaded, decides which plugins get the names and sources that were free.
    async fn settle(&mut self, found: &mut PluginChanges) {
        if !self.loader.is_idle() || !self.registry.has_candidates() {
            return;
        }
        let registry = Arc::clone(&self.registry);
        let settling = move || {
            let settled = registry.settle().into_iter();
            settled.map(|(file, outcome)| admitted(&registry, file, outcome.map(Some))).collect::<Vec<_>>()
        };
        for admitted in tokio::task::spawn_blocking(settling).await.unwrap_or_default() {
            note(admitted, found);
        }
    }

    /// Whether files were refused because the record could not be written, and none is being
    /// loaded.
    fn waits_for_record(&self) -> bool {
        self.loader.is_idle() && !self.registry.not_recorded().is_empty()
    }

    /// Has what was refused loaded once more.
    fn retry_failed(&mut self) {
        self.retry.extend(self.registry.failures().into_iter().map(|(file, _)| file));
    }

    /// Loads once more what was refused, if something has changed since and all is loaded.
    fn try_failed_again(&mut self) {
        if !self.loader.is_idle() {
            return;
        }
        for file in std::mem::take(&mut self.retry) {
            if self.seen.contains_key(&file) {
                self.loader.start(file);
            }
        }
    }
}

/// The outcome of a file: the plugin in service, none while that is to be settled; and the plugin
/// that was retired.
struct AdmittedFile {
    file: PathBuf,
    outcome: Result<Option<PluginName>, RegistryError>,
    retired: Option<PluginName>,
}

/// Takes the outcome of a file into the registry.
fn admit(registry: &PluginRegistry, (file, loaded): Loaded) -> AdmittedFile {
    let outcome = registry.admit(&file, loaded);
    admitted(registry, file, outcome)
}

/// Retires the plugin of a file that may not run any more.
fn admitted(
    registry: &PluginRegistry,
    file: PathBuf,
    outcome: Result<Option<PluginName>, RegistryError>,
) -> AdmittedFile {
    let retired = outcome.as_ref().err().and_then(|error| registry.retire_ungranted(&file, error));
    AdmittedFile { file, outcome, retired }
}

/// Logs and reports the outcome of a file.
fn note(AdmittedFile { file, outcome, retired }: AdmittedFile, found: &mut PluginChanges) {
    match outcome {
        Ok(None) => found.waiting.push(file),
        Ok(Some(name)) => {
            info!(plugin = %name, file = %file.display(), "plugin loaded");
            found.ready.push(name);
        }
        Err(error) => {
            warn!(file = %file.display(), %error, "plugin not loaded");
            found.retired.extend(retired);
            found.failed.push((file, error.to_string()));
        }
    }
}

fn list(folder: &Path) -> std::io::Result<BTreeMap<PathBuf, PluginStamp>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if hidden || path.extension().is_none_or(|extension| extension != "wasm") {
            continue;
        }
        // A file that vanished since it was listed is gone.
        if let Ok(metadata) = std::fs::metadata(&path) {
            files.insert(path.clone(), (stamp(&metadata), signatures_of(&path)));
        }
    }
    Ok(files)
}

fn stamp(metadata: &std::fs::Metadata) -> FileStamp {
    (metadata.ino(), metadata.len(), metadata.modified().ok())
}

/// Distinguishes the signatures beside a plugin's file from older ones; none where there is no
/// signature.
fn signatures_of(plugin: &Path) -> [Option<FileStamp>; 3] {
    volhost_runtime::signature_files(plugin)
        .map(|signature| std::fs::metadata(signature).ok().map(|metadata| stamp(&metadata)))
}
