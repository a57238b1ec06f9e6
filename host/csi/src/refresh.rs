//! Asks a registered driver again what it says of this node: from time to time when its CSIDriver object wants that
//! (`nodeAllocatableUpdatePeriodSeconds`), and when one of its volumes could not be attached for want of room.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};
use tracing::warn;
use volhost_model::objects::Objects as _;

use super::about_node::AboutNode;
use super::registry::CsiDrivers;

/// The shortest period, as with Kubernetes.
const SHORTEST: u64 = 10;

/// Keeps what the driver says of this node up to date. Ends when the driver is not registered any more; else to be dropped.
pub(super) async fn keep_current(
    drivers: &CsiDrivers,
    name: &str,
    asked: Arc<Notify>,
    mut objects: watch::Receiver<u64>,
) {
    let mut last = Instant::now();
    loop {
        let due = period(drivers, name).map(|period| last + period);
        tokio::select! {
            () = sleep_until(due.unwrap_or(last)), if due.is_some() => {}
            () = asked.notified() => {}
            changed = objects.changed() => match changed {
                // The period may be another now.
                Ok(()) => continue,
                Err(_) => return,
            }
        }
        last = Instant::now();
        let Some(connection) = drivers.connection_of(name) else { return };
        match AboutNode::ask(&connection).await {
            Ok(said) => drivers.says_now(name, said),
            Err(why) => warn!(driver = name, why, "what the driver says of this node could not be read again"),
        }
    }
}

/// How often the driver's object wants it asked; none when it does not, or cannot be read now.
fn period(drivers: &CsiDrivers, name: &str) -> Option<Duration> {
    let spec = drivers.objects.csi_driver(name).ok()??;
    let spec: serde_json::Value = serde_json::from_str(&spec).ok()?;
    let seconds = spec.get("nodeAllocatableUpdatePeriodSeconds")?.as_u64()?;
    Some(Duration::from_secs(seconds.max(SHORTEST)))
}
