//! Streams of changes.
//!
//! The node says only *that* something has changed. A watch then takes a snapshot, compares it with
//! what it sent last, and sends the difference: no history is kept for watchers, a slow one does
//! not delay others, and several changes between two snapshots arrive as one.

mod diff;
mod drain;
mod events;
mod in_use;
mod objects;
mod watcher;

use tokio_util::sync::CancellationToken;
use tonic::Status;

use self::watcher::{UpdateSender, UpdateStream};
use super::filter::Filter;
use volhost_api::pb;
use volhost_node::event_loop::NodeHandle;

pub(super) use drain::drain;
pub(super) use in_use::volumes_in_use;

/// Begins a watch.
///
/// # Errors
/// `INVALID_ARGUMENT` when the kind is not known, or the filter is none for it.
pub(super) fn watch(
    node: NodeHandle,
    request: pb::WatchRequest,
    shutdown: CancellationToken,
) -> Result<UpdateStream<pb::WatchUpdate>, Status> {
    let kind = pb::Kind::try_from(request.kind).unwrap_or_default();
    let (watcher, stream) = UpdateSender::stream(shutdown);
    let filter = request.filter.unwrap_or_default();
    let filter = match kind {
        pb::Kind::Plugins => Filter::without_labels(filter, "plugins")?,
        pb::Kind::Drivers => Filter::without_labels(filter, "drivers")?,
        _ => Filter::try_from(filter)?,
    };
    match kind {
        pb::Kind::Unspecified => {
            return Err(Status::invalid_argument(format!(
                "the watch request names no kind that this volhost knows ({}): pods, volumes, plugins, drivers, operations or events",
                request.kind
            )));
        }
        pb::Kind::Events => drop(tokio::spawn(events::run(node, request.events.unwrap_or_default(), watcher))),
        pb::Kind::Pods
        | pb::Kind::Volumes
        | pb::Kind::Plugins
        | pb::Kind::Drivers
        | pb::Kind::Operations
        | pb::Kind::Claims
        | pb::Kind::PersistentVolumes => {
            drop(tokio::spawn(objects::run(node, kind, filter, watcher)));
        }
    }
    Ok(stream)
}
