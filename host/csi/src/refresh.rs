//! Asks a registered driver for `NodeGetInfo` again: periodically if its CSIDriver object sets
//! `nodeAllocatableUpdatePeriodSeconds`, and after an attach that failed for lack of room.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};
use tracing::warn;
use volhost_model::objects::Objects as _;

use super::node_info::NodeInfo;
use super::registry::CsiDrivers;

/// The shortest period, in seconds: Kubernetes' minimum.
const SHORTEST: u64 = 10;

/// Keeps the driver's node info up to date. `refresh_now` has it asked at once. Ends when the
/// driver is no longer registered. Cancel-safe.
pub(super) async fn keep_current(
    drivers: &CsiDrivers,
    name: &str,
    refresh_now: Arc<Notify>,
    mut objects: watch::Receiver<u64>,
) {
    let mut last = Instant::now();
    loop {
        let due = period(drivers, name).map(|period| last + period);
        tokio::select! {
            () = sleep_until(due.unwrap_or(last)), if due.is_some() => {}
            () = refresh_now.notified() => {}
            changed = objects.changed() => match changed {
                // The period may have changed.
                Ok(()) => continue,
                Err(_) => return,
            }
        }
        last = Instant::now();
        let Some(connection) = drivers.connection_of(name) else { return };
        match NodeInfo::ask(&connection).await {
            Ok(info) => drivers.update_node_info(name, &info),
            Err(error) => warn!(driver = name, %error, "the driver's node info could not be read again"),
        }
    }
}

/// The period in the driver's object; none if it has none, or cannot be read now.
fn period(drivers: &CsiDrivers, name: &str) -> Option<Duration> {
    let spec = drivers.objects.csi_driver(name).ok()??;
    let spec: serde_json::Value = serde_json::from_str(&spec).ok()?;
    let seconds = spec.get("nodeAllocatableUpdatePeriodSeconds")?.as_u64()?;
    Some(Duration::from_secs(seconds.max(SHORTEST)))
}
