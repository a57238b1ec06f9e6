//! Watches the plugin folder and keeps the registry in step with it.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecursiveMode, Watcher};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::grant_file::GrantFile;
use super::registry::{PluginChanges, PluginRegistry};

/// What tells a file from an older one of the same name.
type Stamp = (FileStamp, Option<FileStamp>);
type FileStamp = (u64, u64, Option<SystemTime>);

/// Looks at the plugin folder, loads what is new or changed, retires what is gone, and does so again whenever the folder changes,
/// until `shutdown`. What changed goes to `changes`; the first look is sent even when it found nothing. `reload` asks for another look,
/// and gives plugins that were set aside another chance.
pub async fn watch(
    folder: PathBuf,
    registry: Arc<PluginRegistry>,
    grants: Option<GrantFile>,
    changes: mpsc::Sender<PluginChanges>,
    reload: Arc<Notify>,
    shutdown: CancellationToken,
) {
    let (poke, mut poked) = mpsc::channel::<()>(1);
    // A full channel means that a look is due already.
    let within = folder.clone();
    let (granted, mut regranted) = mpsc::channel::<()>(1);
    let mut grants = grants.map(|file| file.watched(granted));
    let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        if event.map_or(true, |event| concerns(&within, &event)) {
            let _ = poke.try_send(());
        }
    });
    let mut watcher = match watcher {
        Ok(watcher) => Some(watcher),
        Err(error) => {
            warn!(%error, "the plugin folder cannot be watched; send SIGHUP after changing it");
            None
        }
    };
    let mut seen = BTreeMap::new();
    let mut watched = false;
    let mut first = true;
    let mut released = Vec::new();
    let mut again = Vec::new();
    loop {
        if let Some(watcher) = watcher.as_mut().filter(|_| !watched) {
            // The parent too: a folder that is removed and made again is seen there.
            if let Some(parent) = folder.parent() {
                let _ = watcher.watch(parent, RecursiveMode::NonRecursive);
            }
            match watcher.watch(&folder, RecursiveMode::NonRecursive) {
                Ok(()) => watched = true,
                Err(error) => warn!(folder = %folder.display(), %error, "the plugin folder cannot be watched"),
            }
        }
        let look = {
            let (folder, registry, seen) = (folder.clone(), registry.clone(), std::mem::take(&mut seen));
            let again = std::mem::take(&mut again);
            tokio::task::spawn_blocking(move || look(&folder, &registry, seen, again)).await
        };
        let mut found = match look {
            Ok((now_seen, found)) => {
                seen = now_seen;
                found
            }
            Err(error) => {
                warn!(%error, "a look at the plugin folder ended early");
                PluginChanges::default()
            }
        };
        found.ready.append(&mut released);
        let nothing = found.ready.is_empty() && found.retired.is_empty() && found.failed.is_empty();
        if (first || !nothing) && changes.send(found).await.is_err() {
            return;
        }
        first = false;
        tokio::select! {
            () = shutdown.cancelled() => return,
            Some(()) = poked.recv() => watched &= folder.is_dir(),
            Some(()) = regranted.recv() => again = reread(grants.as_mut(), &registry),
            () = reload.notified() => {
                watched = false;
                again = reread(grants.as_mut(), &registry);
                released = registry.release_all();
            }
        }
    }
}

/// Reads the operator's grants again. Returns the files that are to be loaded again; a file of grants that cannot be used changes nothing.
fn reread(grants: Option<&mut GrantFile>, registry: &PluginRegistry) -> Vec<PathBuf> {
    let Some(grants) = grants else { return Vec::new() };
    match grants.read() {
        Ok(policy) => registry.regrant(policy),
        Err(error) => {
            warn!(%error, "the grants cannot be read again; those that were read before hold");
            Vec::new()
        }
    }
}

/// Whether the event may have changed what the folder holds. Reading it is an event too, and must not lead to another look.
fn concerns(folder: &Path, event: &notify::Event) -> bool {
    let reading = matches!(event.kind, EventKind::Access(kind) if kind != AccessKind::Close(AccessMode::Write));
    !reading && (event.paths.is_empty() || event.paths.iter().any(|path| path.starts_with(folder)))
}

/// One look: a file that cannot be listed or read now keeps what it had.
fn look(
    folder: &Path,
    registry: &PluginRegistry,
    seen: BTreeMap<PathBuf, Stamp>,
    regranted: Vec<PathBuf>,
) -> (BTreeMap<PathBuf, Stamp>, PluginChanges) {
    let mut found = PluginChanges::default();
    let files = match list(folder) {
        Ok(files) => files,
        Err(error) => {
            warn!(folder = %folder.display(), %error, "the plugin folder cannot be read; the plugins loaded before stay");
            found.failed.push((folder.to_owned(), format!("the plugin folder cannot be read: {error}")));
            return (seen, found);
        }
    };
    for file in seen.keys().filter(|file| !files.contains_key(*file)) {
        if let Some(name) = registry.remove(file) {
            info!(plugin = %name, file = %file.display(), "plugin retired: its file is gone; it still takes its volumes away");
            found.retired.push(name);
        }
    }
    let mut again: Vec<PathBuf> =
        files.iter().filter(|(file, stamp)| seen.get(*file) != Some(stamp)).map(|(file, _)| file.clone()).collect();
    for file in regranted {
        if files.contains_key(&file) && !again.contains(&file) {
            again.push(file);
        }
    }
    if again.is_empty() && found.retired.is_empty() {
        return (files, found);
    }
    // What was refused for a name or source that another file had may be acceptable now.
    for (file, _) in registry.failures() {
        if files.contains_key(&file) && !again.contains(&file) {
            again.push(file);
        }
    }
    for file in again {
        match registry.load(&file) {
            Ok(name) => {
                info!(plugin = %name, file = %file.display(), "plugin loaded");
                found.ready.push(name);
            }
            Err(error) => {
                warn!(file = %file.display(), %error, "plugin not loaded");
                found.retired.extend(registry.retire_ungranted(&file, &error));
                found.failed.push((file, error.to_string()));
            }
        }
    }
    (files, found)
}

fn list(folder: &Path) -> std::io::Result<BTreeMap<PathBuf, Stamp>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if hidden || path.extension().is_none_or(|extension| extension != "wasm") {
            continue;
        }
        // A file that vanished since it was listed is gone.
        if let Ok(metadata) = std::fs::metadata(&path) {
            files.insert(path.clone(), (stamp(&metadata), signature_of(&path)));
        }
    }
    Ok(files)
}

fn stamp(metadata: &std::fs::Metadata) -> FileStamp {
    (metadata.ino(), metadata.len(), metadata.modified().ok())
}

/// What tells the signature beside a plugin's file from an older one; none when there is none.
fn signature_of(plugin: &Path) -> Option<FileStamp> {
    std::fs::metadata(volhost_runtime::signature_file(plugin)).ok().map(|metadata| stamp(&metadata))
}
