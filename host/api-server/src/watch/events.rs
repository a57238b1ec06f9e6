//! The watch of events.

use super::watcher::{UpdateSender, WatchEnded};
use crate::filter::event_is_about;
use crate::status::refused;
use volhost_api::pb::watch_update::{Object, Type};
use volhost_api::pb::{ListEventsRequest, WatchUpdate};
use volhost_model::view::Change;
use volhost_node::event_loop::NodeHandle;

/// Sends the events that are kept, then the new ones, until the watcher goes or volhost ends.
pub(super) async fn run(node: NodeHandle, request: ListEventsRequest, watcher: UpdateSender<WatchUpdate>) {
    // Either way, the watcher has been notified.
    let _: Result<(), WatchEnded> = follow(&node, &request, &watcher).await;
}

async fn follow(
    node: &NodeHandle,
    request: &ListEventsRequest,
    watcher: &UpdateSender<WatchUpdate>,
) -> Result<(), WatchEnded> {
    let mut changes = node.changes();
    let mut after = request.after;
    let mut synced = false;
    loop {
        let events = match watcher.or_over(node.events(after)).await? {
            Ok(events) => events,
            Err(error) => return Err(watcher.fail(refused(&error)).await),
        };
        for event in events {
            after = after.max(event.sequence);
            if event_is_about(&event, &request.object) {
                watcher
                    .send(WatchUpdate { r#type: Type::Added.into(), object: Some(Object::Event(event.into())) })
                    .await?;
            }
        }
        if !synced {
            synced = true;
            watcher.send(WatchUpdate { r#type: Type::Synced.into(), object: None }).await?;
        }
        watcher.change(&mut changes, &[Change::Events]).await?;
    }
}
