//! The watch of the volumes in use.

use std::time::Instant;

use tokio_util::sync::CancellationToken;
use volhost_api::pb::VolumesInUse;
use volhost_model::view::Change;
use volhost_node::event_loop::NodeHandle;

use super::watcher::{UpdateSender, UpdateStream, WatchEnded};
use crate::status::refused;

/// Streams the attachable volumes that are desired or attached: at once, and whenever they have
/// changed. Lists nothing else of the node: an agent has this watch open all the time.
pub(crate) fn volumes_in_use(node: NodeHandle, shutdown: CancellationToken) -> UpdateStream<VolumesInUse> {
    let (watcher, stream) = UpdateSender::stream(shutdown);
    drop(tokio::spawn(async move {
        // Either way, the watcher has been notified.
        let _: Result<(), WatchEnded> = follow(&node, &watcher).await;
    }));
    stream
}

async fn follow(node: &NodeHandle, watcher: &UpdateSender<VolumesInUse>) -> Result<(), WatchEnded> {
    let mut changes = node.changes();
    let mut sent = None;
    loop {
        let began = Instant::now();
        let volumes = match watcher.or_over(node.volumes_in_use()).await? {
            Ok(volumes) => volumes,
            Err(error) => return Err(watcher.fail(refused(&error)).await),
        };
        if sent.as_ref() != Some(&volumes) {
            watcher.send(VolumesInUse { volumes: volumes.clone() }).await?;
            sent = Some(volumes);
        }
        watcher.rest(began).await?;
        watcher.change(&mut changes, &[Change::World]).await?;
    }
}
