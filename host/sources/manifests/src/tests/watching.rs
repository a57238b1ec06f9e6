use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use super::{pod, pod_with, problems, removed, upserted, write};
use volhost_objects::Changes;

use crate::{ManifestFolder, watch};

/// Far more than any reading takes; a test that reaches it has failed.
const TIMEOUT: Duration = Duration::from_secs(180);

struct Watching {
    changes: mpsc::Receiver<Changes>,
    reload: Arc<Notify>,
    shutdown: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Watching {
    fn start(folder: &Path) -> Self {
        let (sender, changes) = mpsc::channel(16);
        let (reload, shutdown) = (Arc::new(Notify::new()), CancellationToken::new());
        let watching = watch(ManifestFolder::open(folder), Arc::clone(&reload), sender, shutdown.clone());
        Self { changes, reload, shutdown, task: tokio::spawn(async move { watching.await.unwrap() }) }
    }

    async fn next(&mut self) -> Changes {
        tokio::time::timeout(TIMEOUT, self.changes.recv()).await.unwrap().unwrap()
    }

    /// Skips what a writer's halves may have brought.
    async fn until(&mut self, mut wanted: impl FnMut(&Changes) -> bool) -> Changes {
        loop {
            let changes = self.next().await;
            if wanted(&changes) {
                return changes;
            }
        }
    }

    async fn stop(self) {
        self.shutdown.cancel();
        tokio::time::timeout(TIMEOUT, self.task).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn files_added_and_removed_take_effect_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut watching = Watching::start(dir.path());
    let first = watching.next().await;
    assert!(first.complete && first.is_empty());
    write(dir.path(), "a.yaml", &pod("a"));
    assert_eq!(upserted(&watching.next().await), ["Pod default/a"]);
    write(dir.path(), "a.yaml", &pod_with("a", "hostPath: {path: /x}"));
    assert_eq!(upserted(&watching.next().await), ["Pod default/a"]);
    fs::rename(dir.path().join("a.yaml"), dir.path().join("b.yaml")).unwrap();
    let moved = watching.next().await;
    assert!(removed(&moved).is_empty(), "{moved:?}");
    fs::remove_file(dir.path().join("b.yaml")).unwrap();
    assert_eq!(removed(&watching.next().await), ["Pod default/a"]);
    watching.stop().await;
}

#[tokio::test]
async fn a_half_written_file_takes_nothing_away() {
    let dir = tempfile::tempdir().unwrap();
    let both = format!("{}---\n{}", pod("a"), pod("b"));
    write(dir.path(), "a.yaml", &both);
    let mut watching = Watching::start(dir.path());
    assert_eq!(watching.next().await.upserted.len(), 2);
    // The writer has emptied the file and written the first pod alone, which is a good manifest of
    // its own.
    let mut writer = File::create(dir.path().join("a.yaml")).unwrap();
    writer.write_all(pod("a").as_bytes()).unwrap();
    write(dir.path(), "c.yaml", &pod("c"));
    let meanwhile = watching.until(|changes| !changes.upserted.is_empty()).await;
    assert_eq!((upserted(&meanwhile), removed(&meanwhile)), (vec!["Pod default/c".to_owned()], vec![]));
    writer.write_all(format!("---\n{}", pod_with("b", "hostPath: {path: /x}")).as_bytes()).unwrap();
    drop(writer);
    let closed = watching.next().await;
    assert_eq!((upserted(&closed), removed(&closed)), (vec!["Pod default/b".to_owned()], vec![]));
    watching.stop().await;
}

#[tokio::test]
async fn a_reload_while_a_file_is_being_written_takes_nothing_away() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "a.yaml", &format!("{}---\n{}", pod("a"), pod("b")));
    let mut watching = Watching::start(dir.path());
    assert_eq!(watching.next().await.upserted.len(), 2);
    let mut writer = File::create(dir.path().join("a.yaml")).unwrap();
    writer.write_all(pod("a").as_bytes()).unwrap();
    write(dir.path(), "c.yaml", &pod("c"));
    watching.reload.notify_one();
    let meanwhile = watching.until(|changes| !changes.upserted.is_empty()).await;
    assert_eq!((upserted(&meanwhile), removed(&meanwhile)), (vec!["Pod default/c".to_owned()], vec![]));
    drop(writer);
    assert_eq!(removed(&watching.until(|changes| !changes.removed.is_empty()).await), ["Pod default/b"]);
    watching.stop().await;
}

#[tokio::test]
async fn a_file_that_is_renamed_again_and_again_in_a_large_folder_keeps_its_pod() {
    const FILES: usize = 1_000;
    const RENAMES: usize = 3_000;
    let dir = tempfile::tempdir().unwrap();
    for number in 0..FILES {
        write(dir.path(), &format!("file-{number}.yaml"), &pod(&format!("p{number}")));
    }
    write(dir.path(), "moves-0.yaml", &pod("moves"));
    let mut watching = Watching::start(dir.path());
    let path = dir.path().to_owned();
    let renaming = std::thread::spawn(move || {
        for number in 0..RENAMES {
            let (from, to) = (format!("moves-{number}.yaml"), format!("moves-{}.yaml", number + 1));
            fs::rename(path.join(from), path.join(to)).unwrap();
        }
    });
    let last = format!("moves-{RENAMES}.yaml");
    let mut known = std::collections::BTreeSet::new();
    watching
        .until(|changes| {
            assert!(removed(changes).is_empty(), "{:?}", removed(changes));
            known.extend(upserted(changes));
            changes.upserted.iter().any(|object| *object.origin.file == *last)
        })
        .await;
    assert_eq!(known.len(), FILES + 1);
    renaming.join().unwrap();
    watching.stop().await;
}

#[tokio::test]
async fn a_folder_deleted_and_made_again_is_watched_again() {
    let above = tempfile::tempdir().unwrap();
    let path = above.path().join("deep/manifests");
    let mut watching = Watching::start(&path);
    let first = watching.next().await;
    assert!(!first.complete && problems(&first).contains("cannot be read"));
    fs::create_dir_all(&path).unwrap();
    assert!(watching.until(|changes| changes.complete).await.problems.is_empty());
    write(&path, "a.yaml", &pod("a"));
    assert_eq!(upserted(&watching.until(|changes| !changes.upserted.is_empty()).await), ["Pod default/a"]);
    fs::rename(&path, above.path().join("away")).unwrap();
    let gone = watching.until(|changes| !changes.problems.is_empty()).await;
    assert!(removed(&gone).is_empty(), "a missing folder says nothing of its pods");
    fs::create_dir(&path).unwrap();
    write(&path, "b.yaml", &pod("b"));
    let back = watching.until(|changes| !changes.upserted.is_empty()).await;
    assert_eq!(upserted(&back), ["Pod default/b"]);
    watching.stop().await;
}

#[tokio::test]
async fn a_file_behind_a_link_is_read_at_reload() {
    let dir = tempfile::tempdir().unwrap();
    let target = tempfile::tempdir().unwrap();
    write(target.path(), "real.yaml", &pod("a"));
    std::os::unix::fs::symlink(target.path().join("real.yaml"), dir.path().join("a.yaml")).unwrap();
    let mut watching = Watching::start(dir.path());
    assert_eq!(upserted(&watching.next().await), ["Pod default/a"]);
    write(target.path(), "real.yaml", &pod("b"));
    watching.reload.notify_one();
    assert_eq!(upserted(&watching.next().await), ["Pod default/b"]);
    watching.stop().await;
}

#[tokio::test]
async fn watching_ends_when_nobody_listens() {
    let dir = tempfile::tempdir().unwrap();
    let mut watching = Watching::start(dir.path());
    watching.next().await;
    drop(watching.changes);
    tokio::time::timeout(TIMEOUT, watching.task).await.unwrap().unwrap();
}
