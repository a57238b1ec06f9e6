//! Draining, with its progress.

use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use volhost_model::view::VolumeState;

use super::watcher::{UpdateSender, UpdateStream, WatchEnded};
use crate::status::refused;
use volhost_api::pb::DrainUpdate;
use volhost_model::view::Change;
use volhost_node::event_loop::NodeHandle;
use volhost_node::event_loop::requests::Snapshot;

/// Begins to drain and streams how far it is. The draining goes on when the watcher goes.
pub(crate) fn drain(node: NodeHandle, timeout: Duration, shutdown: CancellationToken) -> UpdateStream<DrainUpdate> {
    let (watcher, stream) = UpdateSender::stream(shutdown);
    drop(tokio::spawn(async move {
        // Either way, the watcher has been notified.
        let _: Result<(), WatchEnded> = follow(&node, timeout, &watcher).await;
    }));
    stream
}

async fn follow(node: &NodeHandle, timeout: Duration, watcher: &UpdateSender<DrainUpdate>) -> Result<(), WatchEnded> {
    let mut changes = node.changes();
    let drained = node.drain(timeout);
    tokio::pin!(drained);
    let report = async {
        let mut last = None;
        loop {
            let began = Instant::now();
            match watcher.or_over(node.snapshot()).await? {
                Ok(snapshot) => {
                    let update = progress(&snapshot);
                    if last.as_ref() != Some(&update) {
                        watcher.send(update.clone()).await?;
                        last = Some(update);
                    }
                }
                Err(error) => return Err(watcher.fail(refused(&error)).await),
            }
            watcher.rest(began).await?;
            watcher.change(&mut changes, &[Change::World]).await?;
        }
    };
    let left = tokio::select! {
        // Drain first: the request must be with the node before the first snapshot is taken.
        biased;
        left = &mut drained => left,
        over = report => return over,
    };
    let left = match left {
        Ok(left) => left,
        Err(error) => return Err(watcher.fail(refused(&error)).await),
    };
    let mut update = match watcher.or_over(node.snapshot()).await? {
        Ok(snapshot) => progress(&snapshot),
        Err(_) => DrainUpdate::default(),
    };
    update.done = true;
    update.left = left;
    watcher.send(update).await
}

/// How much is left: what is mounted, staged or attached, or may be.
fn progress(snapshot: &Snapshot) -> DrainUpdate {
    let is_mounted = |state: VolumeState| !matches!(state, VolumeState::Unresolved | VolumeState::Pending);
    let of_pod =
        |volumes: &[volhost_model::view::VolumeView]| volumes.iter().filter(|volume| is_mounted(volume.state)).count();
    let counts: Vec<usize> = snapshot.pods.iter().map(|pod| of_pod(&pod.volumes)).filter(|count| *count > 0).collect();
    let volumes = counts.iter().sum::<usize>() + snapshot.unused_volumes.len();
    DrainUpdate {
        pods_left: u32::try_from(counts.len()).unwrap_or(u32::MAX),
        volumes_left: u32::try_from(volumes).unwrap_or(u32::MAX),
        done: false,
        left: Vec::new(),
    }
}
