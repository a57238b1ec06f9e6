//! The watch of pods, volumes, plugins, drivers or operations.

use std::time::Instant;

use super::diff::SentObjects;
use super::watcher::{UpdateSender, WatchEnded};
use crate::filter::Filter;
use crate::status::refused;
use volhost_api::pb::watch_update::{Object, Type};
use volhost_api::pb::{Kind, WatchUpdate};
use volhost_model::view::Change;
use volhost_node::event_loop::NodeHandle;
use volhost_node::event_loop::requests::RequestError;

/// Sends what there is, then what changes, until the watcher goes or volhost ends.
pub(super) async fn run(node: NodeHandle, kind: Kind, filter: Filter, watcher: UpdateSender<WatchUpdate>) {
    // Either way, the watcher has been notified.
    let _: Result<(), WatchEnded> = follow(&node, kind, &filter, &watcher).await;
}

async fn follow(
    node: &NodeHandle,
    kind: Kind,
    filter: &Filter,
    watcher: &UpdateSender<WatchUpdate>,
) -> Result<(), WatchEnded> {
    let kinds: &[Change] = match kind {
        // The plugins' lists count volumes, so they change with the world too.
        Kind::Plugins => &[Change::Plugins, Change::World],
        // A driver shows the plugin that drives it.
        Kind::Drivers => &[Change::Drivers, Change::Plugins],
        _ => &[Change::World],
    };
    let mut changes = node.changes();
    let mut seen = SentObjects::default();
    let mut synced = false;
    loop {
        let began = Instant::now();
        let listed = match watcher.or_over(list(node, kind, filter)).await? {
            Ok(listed) => listed,
            Err(error) => return Err(watcher.fail(refused(&error)).await),
        };
        for (change, object) in seen.replace(listed) {
            watcher.send(WatchUpdate { r#type: change.into(), object: Some(object) }).await?;
        }
        if !synced {
            synced = true;
            watcher.send(WatchUpdate { r#type: Type::Synced.into(), object: None }).await?;
        }
        watcher.rest(began).await?;
        watcher.change(&mut changes, kinds).await?;
    }
}

async fn list(node: &NodeHandle, kind: Kind, filter: &Filter) -> Result<Vec<Object>, RequestError> {
    Ok(match kind {
        Kind::Pods => filter.pods(node.snapshot().await?).map(|pod| Object::Pod(pod.into())).collect(),
        Kind::Volumes => filter.volumes(node.snapshot().await?).map(|volume| Object::Volume(volume.into())).collect(),
        Kind::Plugins => filter.plugins(node.plugins().await?).map(|plugin| Object::Plugin(plugin.into())).collect(),
        Kind::Drivers => filter.drivers(node.drivers().await?).map(|driver| Object::Driver(driver.into())).collect(),
        Kind::Operations => {
            let operations = filter.operations(node).await?.into_iter();
            operations.map(|operation| Object::Operation(operation.into())).collect()
        }
        Kind::Claims => filter.claims(node.claims().await?.claims).map(|claim| Object::Claim(claim.into())).collect(),
        Kind::PersistentVolumes => {
            let volumes = filter.persistent_volumes(node.claims().await?.volumes);
            volumes.map(|volume| Object::PersistentVolume(volume.into())).collect()
        }
        Kind::Events | Kind::Unspecified => Vec::new(),
    })
}
