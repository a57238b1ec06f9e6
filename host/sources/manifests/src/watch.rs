//! Keeps reading the folder as it changes. Nothing polls and nothing waits for quiet: the first
//! event starts a reading, and what arrives while it runs is covered by one more.

use std::io;
use std::sync::Arc;

use thiserror::Error;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinError;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use volhost_folder_watch::Wake;

use super::folder::ManifestFolder;
use super::inotify::ManifestInotify;
use volhost_objects::changes::Changes;

/// Why watching ended by itself.
#[derive(Debug, Error)]
pub enum WatchError {
    /// The thread that read the folder panicked.
    #[error("reading the manifest folder ended unexpectedly: {0}")]
    Reading(#[source] JoinError),
}

/// Reads the folder now, at every change, and at every `reload`; sends what changed.
///
/// # Guarantees
/// - The first message is sent after the first reading, even when the folder is empty: it carries
///   [`Changes::complete`].
/// - A file is read when its writer has closed it; until then it stays as it was. On a file system
///   without events of writers, a `reload` reads it all the same.
/// - The folder may be missing, deleted, replaced and made again at any time.
/// - Ends when `shutdown` is cancelled or the receiver is dropped. Cancel-safe: no state but the
///   folder's own, which goes with it.
///
/// A file that a link in the folder leads to is noticed when the link changes, not when the file it
/// leads to does; `reload` then reads it.
///
/// # Errors
/// [`WatchError`]. A folder that cannot be watched is no error: it is a problem in [`Changes`], and every `reload` tries again.
pub async fn watch(
    mut folder: ManifestFolder,
    reload: Arc<Notify>,
    changes: mpsc::Sender<Changes>,
    shutdown: CancellationToken,
) -> Result<(), WatchError> {
    let mut watcher = None;
    let mut reported: Option<bool> = None;
    loop {
        let reading = tokio::task::spawn_blocking(move || {
            // Here too, for it looks the folder up, which may hang.
            let mut watcher = watcher.unwrap_or_else(|| ManifestWatcher::new(&folder));
            let found = read(&mut folder, &mut watcher);
            (folder, watcher, found)
        });
        let (mut watched, found);
        (folder, watched, found) = reading.await.map_err(WatchError::Reading)?;
        if !found.is_empty() || reported != Some(found.complete) {
            reported = Some(found.complete);
            tokio::select! {
                () = shutdown.cancelled() => return Ok(()),
                sent = changes.send(found) => if sent.is_err() {
                    return Ok(());
                },
            }
        }
        let due = folder.next_reading().map(Instant::from_std);
        loop {
            if watched.watch.as_ref().is_some_and(ManifestInotify::has_changed) {
                break;
            }
            tokio::select! {
                () = shutdown.cancelled() => return Ok(()),
                () = changes.closed() => return Ok(()),
                () = reload.notified() => {
                    folder.forget_stamps();
                    if let Some(watch) = watched.watch.as_mut() {
                        watch.forget_writers();
                    }
                    break;
                }
                () = watched.event() => {}
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => break,
            }
        }
        // Without a watch, the next reading tries again to make one.
        watcher = Some(watched).filter(|watched| watched.watch.is_some());
    }
}

/// One reading. Files that were written meanwhile are not used.
fn read(folder: &mut ManifestFolder, watcher: &mut ManifestWatcher) -> Changes {
    let begun = match watcher.watch.as_mut() {
        Some(watch) => watch.begin_reading(),
        None => Ok(Default::default()),
    };
    let unwatched = match (&begun, &watcher.failure) {
        (Err(error), _) | (Ok(_), Some(error)) => Some(format!(
            "{}: changes are not noticed: inotify: {error}; free or raise fs.inotify.max_user_instances and max_user_watches. SIGHUP reads the folder again",
            folder.path().display()
        )),
        (Ok(_), None) => None,
    };
    folder.set_unwatched(unwatched);
    let mut moved = || watcher.watch.as_mut().is_some_and(ManifestInotify::take_moved);
    let scan = folder.scan(&begun.unwrap_or_default(), &mut moved);
    let meanwhile = watcher.watch.as_mut().map(ManifestInotify::written_meanwhile).unwrap_or_default();
    folder.commit(scan, &meanwhile)
}

/// The watch, or why there is none.
struct ManifestWatcher {
    watch: Option<ManifestInotify>,
    wake: Option<Wake>,
    failure: Option<io::Error>,
}

impl ManifestWatcher {
    fn new(folder: &ManifestFolder) -> Self {
        let made = ManifestInotify::new(folder.path()).and_then(|watch| Ok((watch.wake()?, watch)));
        match made {
            Ok((wake, watch)) => Self { watch: Some(watch), wake: Some(wake), failure: None },
            Err(error) => Self { watch: None, wake: None, failure: Some(error) },
        }
    }

    /// Waits for events and takes them in; for ever without a watch. Cancel-safe: events that are
    /// not taken stay queued.
    async fn event(&mut self) {
        let (Some(wake), Some(watch)) = (&self.wake, &mut self.watch) else {
            return std::future::pending().await;
        };
        wake.wait(|| watch.drain()).await;
    }
}
