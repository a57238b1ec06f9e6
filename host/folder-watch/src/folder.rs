//! One folder, and the nearest folder above it that exists.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::inotify::WatchFlags;

use super::queue::{InotifyEvent, InotifyQueue, Wake, WatchId};

/// How often watching is tried again while folders above come and go.
const MAX_TRIES: usize = 8;

/// What may change the content of a folder. Reading it is not among that.
const INSIDE: WatchFlags = WatchFlags::MODIFY
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::CREATE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVE)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF);
/// What may make the folder appear, go, or become another one.
const ABOVE: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF);

/// Which folders below the folder are watched with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Below {
    /// None.
    Nothing,
    /// Those in the folder itself. Symbolic links are followed.
    Folders,
    /// All, down to this many levels. Symbolic links are not followed.
    Tree(usize),
}

/// Reports that a folder may have changed.
///
/// # Guarantees
/// A change after [`Self::arm`] completes [`Self::changed`], whenever that is called. One change
/// may complete it several times.
#[derive(Debug)]
pub struct FolderWatch {
    queue: InotifyQueue,
    wake: Wake,
    folder: PathBuf,
    below: Below,
    /// The only entry of the folder whose changes count.
    only: Option<OsString>,
    /// The folders below that are not watched.
    skipped: fn(&Path) -> bool,
    inside: BTreeSet<WatchId>,
    above: Option<WatchedAncestor>,
}

/// The nearest folder above, and the name in it that leads to the watched folder.
#[derive(Debug, PartialEq, Eq)]
struct WatchedAncestor {
    watch: WatchId,
    name: OsString,
}

impl FolderWatch {
    /// A watch on a folder, which may be missing. Needs a tokio runtime, and [`Self::arm`].
    ///
    /// # Errors
    /// The kernel's: too many inotify queues of this user (`fs.inotify.max_user_instances`).
    pub fn folder(folder: &Path, below: Below) -> io::Result<Self> {
        let queue = InotifyQueue::open()?;
        let (wake, folder) = (queue.wake()?, std::path::absolute(folder)?);
        let (inside, above) = (BTreeSet::new(), None);
        Ok(Self { queue, wake, folder, below, only: None, skipped: |_| false, inside, above })
    }

    /// A watch on a file by its name: editors and configuration management put a new file in place
    /// of the old one.
    ///
    /// # Errors
    /// As [`Self::folder`].
    pub fn file(file: &Path) -> io::Result<Self> {
        let file = std::path::absolute(file)?;
        let watch = Self::folder(file.parent().unwrap_or(&file), Below::Nothing)?;
        Ok(Self { only: file.file_name().map(OsStr::to_owned), ..watch })
    }

    /// Watches no folder below, nor what is in it, for whose path `skipped` returns true.
    #[must_use]
    pub fn with_skipped(mut self, skipped: fn(&Path) -> bool) -> Self {
        self.skipped = skipped;
        self
    }

    /// Watches what exists now. To be called before each reading of the folder, so that no change
    /// is missed between the two.
    ///
    /// # Errors
    /// The first of the kernel's: too many watches of this user (`fs.inotify.max_user_watches`).
    /// What could be watched is. A missing folder is no error.
    pub fn arm(&mut self) -> io::Result<()> {
        let mut outcome = Ok(());
        for _ in 0..MAX_TRIES {
            let (mut inside, mut found) = (BTreeSet::new(), Ok(()));
            let above = self.watch_above()?;
            self.watch_inside(&self.folder, self.below, &mut inside, &mut found);
            let is_same = above == self.above && inside == self.inside;
            let kept = above.as_ref().map(|above| above.watch);
            let old = self.inside.iter().copied().chain(self.above.as_ref().map(|above| above.watch));
            for gone in old.filter(|watch| !inside.contains(watch) && kept != Some(*watch)) {
                self.queue.forget(gone);
            }
            (self.inside, self.above, outcome) = (inside, above, found);
            // A missing folder may have appeared after the folder above was looked up and before
            // its watch was set: look again until nothing changes.
            if !self.inside.is_empty() || is_same {
                break;
            }
        }
        outcome
    }

    /// Waits until the folder may have changed. Cancel-safe.
    pub async fn changed(&mut self) {
        let Self { queue, wake, inside, above, only, .. } = self;
        let mut has_changed = false;
        while !has_changed {
            wake.wait(|| {
                let drained =
                    queue.drain(|event| has_changed |= concerns(inside, above.as_ref(), only.as_deref(), event));
                has_changed |= drained.is_err();
            })
            .await;
        }
    }

    fn watch_above(&self) -> io::Result<Option<WatchedAncestor>> {
        let mut below = self.folder.as_path();
        while let Some(folder) = below.parent() {
            if let Some(watch) = self.queue.watch(folder, ABOVE)? {
                return Ok(below.file_name().map(|name| WatchedAncestor { watch, name: name.to_owned() }));
            }
            below = folder;
        }
        Ok(None)
    }

    fn watch_inside(&self, folder: &Path, below: Below, inside: &mut BTreeSet<WatchId>, outcome: &mut io::Result<()>) {
        match self.queue.watch(folder, INSIDE) {
            Ok(Some(watch)) => {
                inside.insert(watch);
            }
            Ok(None) => return,
            Err(error) => {
                if outcome.is_ok() {
                    *outcome = Err(error);
                }
                return;
            }
        }
        let (deeper, follows_links) = match below {
            Below::Nothing | Below::Tree(0) => return,
            Below::Folders => (Below::Nothing, true),
            Below::Tree(levels) => (Below::Tree(levels - 1), false),
        };
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir() || follows_links && kind.is_symlink());
            if is_folder && !(self.skipped)(&entry.path()) {
                self.watch_inside(&entry.path(), deeper, inside, outcome);
            }
        }
    }
}

/// Waits until the watched folder may have changed; for ever without a watch. Cancel-safe.
pub async fn changed(watch: &mut Option<FolderWatch>) {
    match watch {
        Some(watch) => watch.changed().await,
        None => std::future::pending().await,
    }
}

fn concerns(
    inside: &BTreeSet<WatchId>,
    above: Option<&WatchedAncestor>,
    only: Option<&OsStr>,
    event: InotifyEvent<'_>,
) -> bool {
    let is_about = |name: &OsStr| event.name == Some(name.as_bytes());
    if event.is_overflow() {
        true
    } else if inside.contains(&event.watch) {
        event.is_watch_lost() || only.is_none_or(is_about)
    } else {
        above.is_some_and(|above| above.watch == event.watch && (event.is_watch_lost() || is_about(&above.name)))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;

    /// Far longer than the kernel takes to queue an event.
    const LONG: Duration = Duration::from_secs(20);

    async fn is_noticed(watch: &mut FolderWatch) {
        tokio::time::timeout(LONG, watch.changed()).await.unwrap();
        watch.arm().unwrap();
        drain(watch);
    }

    /// Takes what is left in the queue. Returns whether any of it counts.
    fn drain(watch: &FolderWatch) -> bool {
        let mut has_changed = false;
        let take = |event: InotifyEvent<'_>| {
            has_changed |= concerns(&watch.inside, watch.above.as_ref(), watch.only.as_deref(), event);
        };
        watch.queue.drain(take).unwrap();
        has_changed
    }

    fn armed(folder: &Path, below: Below) -> FolderWatch {
        let mut watch = FolderWatch::folder(folder, below).unwrap();
        watch.arm().unwrap();
        watch
    }

    #[tokio::test]
    async fn files_that_come_change_and_go_are_noticed_and_reading_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a");
        let mut watch = armed(dir.path(), Below::Nothing);
        fs::write(&file, "1").unwrap();
        is_noticed(&mut watch).await;
        fs::write(&file, "2").unwrap();
        is_noticed(&mut watch).await;
        fs::read(&file).unwrap();
        fs::read_dir(dir.path()).unwrap().count();
        assert!(!drain(&watch));
        fs::rename(&file, dir.path().join("b")).unwrap();
        is_noticed(&mut watch).await;
        fs::remove_file(dir.path().join("b")).unwrap();
        is_noticed(&mut watch).await;
    }

    #[tokio::test]
    async fn a_folder_may_be_missing_and_deleted_and_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("one/two");
        let mut watch = armed(&folder, Below::Nothing);
        fs::create_dir_all(&folder).unwrap();
        is_noticed(&mut watch).await;
        fs::write(folder.join("a"), "1").unwrap();
        is_noticed(&mut watch).await;
        fs::rename(&folder, dir.path().join("one/old")).unwrap();
        fs::create_dir(&folder).unwrap();
        is_noticed(&mut watch).await;
        fs::write(folder.join("a"), "1").unwrap();
        is_noticed(&mut watch).await;
        fs::remove_dir_all(dir.path().join("one")).unwrap();
        is_noticed(&mut watch).await;
        fs::create_dir_all(&folder).unwrap();
        is_noticed(&mut watch).await;
        // A sibling is not ours.
        fs::create_dir(dir.path().join("one/other")).unwrap();
        assert!(!drain(&watch));
    }

    #[tokio::test]
    async fn folders_below_are_watched_as_deep_as_asked() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("a/b/c")).unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), dir.path().join("link")).unwrap();
        let mut folders = armed(dir.path(), Below::Folders);
        let mut tree = armed(dir.path(), Below::Tree(2));
        fs::write(dir.path().join("a/x"), "").unwrap();
        is_noticed(&mut folders).await;
        is_noticed(&mut tree).await;
        fs::write(dir.path().join("a/b/x"), "").unwrap();
        is_noticed(&mut tree).await;
        assert!(!drain(&folders));
        fs::write(dir.path().join("a/b/c/x"), "").unwrap();
        assert!(!drain(&tree));
        fs::write(elsewhere.path().join("x"), "").unwrap();
        is_noticed(&mut folders).await;
        assert!(!drain(&tree));
    }

    #[tokio::test]
    async fn a_skipped_folder_is_not_watched_nor_are_those_in_it() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("built/deep")).unwrap();
        fs::create_dir_all(dir.path().join("source/deep")).unwrap();
        let watch = FolderWatch::folder(dir.path(), Below::Tree(5)).unwrap();
        let mut watch = watch.with_skipped(|folder| folder.ends_with("built"));
        watch.arm().unwrap();
        fs::write(dir.path().join("built/x"), "").unwrap();
        fs::write(dir.path().join("built/deep/x"), "").unwrap();
        assert!(!drain(&watch));
        fs::write(dir.path().join("source/deep/x"), "").unwrap();
        is_noticed(&mut watch).await;
    }

    #[tokio::test]
    async fn of_one_file_only_its_own_name_counts() {
        let dir = tempfile::tempdir().unwrap();
        let mut watch = FolderWatch::file(&dir.path().join("config.toml")).unwrap();
        watch.arm().unwrap();
        fs::write(dir.path().join("other"), "").unwrap();
        assert!(!drain(&watch));
        fs::rename(dir.path().join("other"), dir.path().join("config.toml")).unwrap();
        is_noticed(&mut watch).await;
    }
}
