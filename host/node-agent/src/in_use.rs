//! `status.volumesInUse` of the node: an attach/detach controller does not detach what is in it.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::sync::watch;
use tonic::Status;
use tracing::warn;

use crate::daemon::{Daemon, VolumesInUse, daemon_ends};
use crate::watches::KnownNode;

/// Who writes fields, for server-side apply.
pub(crate) const MANAGER: &str = "volhost-node-agent";
/// How long after a failure it is tried again.
const AGAIN: Duration = Duration::from_secs(2);

/// The volumes that the daemon wants or has, as far as is known.
pub(crate) type InUse = watch::Receiver<BTreeSet<String>>;

/// Reads the volumes that the daemon wants or has, until the daemon is lost: who looks later sees
/// the last list alone.
pub(crate) async fn read(mut lists: VolumesInUse, in_use: watch::Sender<BTreeSet<String>>) -> Result<(), Status> {
    loop {
        let now = lists.next().await?;
        in_use.send_if_modified(|known| {
            let is_new = *known != now;
            *known = now;
            is_new
        });
    }
}

/// Reports the volumes in use, until the daemon is lost. A volume is reported before the daemon uses
/// it: the daemon waits for that.
pub(crate) async fn report(client: &Client, node: &str, daemon: &Daemon, mut in_use: InUse) -> Result<(), Status> {
    let mut reported = None;
    loop {
        let now = in_use.borrow_and_update().clone();
        if reported.as_ref() != Some(&now) {
            match write(client, node, &now).await {
                Ok(()) => {
                    daemon.reported_in_use(&now).await?;
                    reported = Some(now);
                }
                Err(error) => {
                    warn!(
                        node,
                        "the node's status.volumesInUse cannot be written now; volumes that are attached wait for it: {error}"
                    );
                    tokio::time::sleep(AGAIN).await;
                    continue;
                }
            }
        }
        in_use.changed().await.map_err(|_| daemon_ends())?;
    }
}

/// As [`report`], beside a kubelet, which owns the field: says which of the daemon's volumes the
/// kubelet has reported, and writes nothing. A kubelet mounts the volumes of the same pods.
pub(crate) async fn follow(daemon: &Daemon, mut in_use: InUse, mut node: KnownNode) -> Result<(), Status> {
    let mut reported = None;
    loop {
        let now = in_use.borrow_and_update().clone();
        let by_kubelet = node.borrow_and_update().as_ref().map(|node| node.in_use.clone()).unwrap_or_default();
        let both: BTreeSet<String> = now.intersection(&by_kubelet).cloned().collect();
        if reported.as_ref() != Some(&both) {
            daemon.reported_in_use(&both).await?;
            reported = Some(both);
        }
        tokio::select! {
            changed = in_use.changed() => changed.map_err(|_| daemon_ends())?,
            changed = node.changed() => changed.map_err(|_| Status::cancelled("the agent ends"))?,
        }
    }
}

async fn write(client: &Client, node: &str, volumes: &BTreeSet<String>) -> Result<(), kube::Error> {
    let status = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": node }, "status": { "volumesInUse": volumes },
    });
    let nodes = Api::<Node>::all(client.clone());
    // Of this field, nobody else knows what is right where no kubelet mounts volumes.
    nodes.patch_status(node, &PatchParams::apply(MANAGER).force(), &Patch::Apply(&status)).await.map(drop)
}
