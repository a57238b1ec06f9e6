//! The daemon's events about pods, as events of the cluster.

use tonic::Status;
use volhost_api::pb;
use volhost_api::pb::watch_update::Object;
use volhost_cluster_client::Events;

use crate::daemon::{Daemon, daemon_ends};
use crate::mirror::PodReferences;

/// Events that tell of no problem, and that the kubelet publishes, too.
const NORMAL: [&str; 3] = ["FileSystemResizeSuccessful", "SuccessfulAttachVolume", "VolumeResizeSuccessful"];

/// Publishes the events from now on, until the daemon is lost.
pub(crate) async fn publish(daemon: &Daemon, pods: &PodReferences, events: &Events) -> Result<(), Status> {
    let last = daemon.last_event().await?;
    let mut updates = daemon.watch(pb::Kind::Events, last).await?;
    while let Some(update) = updates.message().await? {
        let Some(Object::Event(event)) = update.object else { continue };
        let Some(pod) = event.object.strip_prefix("pod ").and_then(|name| pods.get(name)) else { continue };
        if event.kind() == pb::EventKind::Warning {
            events.warning(&pod, &event.reason, &event.message);
        } else if NORMAL.contains(&event.reason.as_str()) {
            events.normal(&pod, &event.reason, &event.message);
        }
    }
    Err(daemon_ends())
}
