//! Volumes whose size the file system does not limit: they are measured periodically, and an event
//! notifies their pods when they are too large.
//!
//! ```text
//!  publish, recovery ──> watched volumes ──> every period, one pool for all ──> disk_usage (kernel) ──> event, once a crossing
//!  unpublish ───────────────┘ (forgotten)
//! ```
//!
//! Measuring reads every folder of the volume, so a volume that takes long is measured less often.
//! A volume whose storage hangs occupies a thread of the pool, and is not measured again before it
//! answers.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use tracing::debug;
use volhost_kernel::{DiskUsage, KernelError};

use super::events::EventSink;
use super::size_watch::PodVolumeKey;
use super::volume_ops::VolumeOps;
use super::worker_pool::WorkerPool;

/// Threads that measuring may occupy. With so many hung, no volume is measured.
const MAX_WORKERS: usize = 4;

/// Measures what is due, until it is stopped or the node has ended.
pub async fn measure(volume_ops: Weak<VolumeOps>, events: EventSink, stop: CancellationToken) {
    let pool = WorkerPool::new(MAX_WORKERS);
    loop {
        let Some(node) = volume_ops.upgrade() else { return };
        let now = Instant::now();
        for key in node.sizes().take_due(now) {
            let (volume_ops, events) = (Arc::clone(&node), events.clone());
            let measured = key.clone();
            let pushed = pool.push(Box::new(move || {
                let begun = Instant::now();
                let usage = usage(&volume_ops, &measured);
                let bytes = match usage {
                    Ok(usage) => Some(usage.bytes),
                    Err(error) => {
                        debug!(pod = %measured.0, volume = %measured.2, %error, "the volume could not be measured");
                        None
                    }
                };
                if let Some(event) = volume_ops.sizes().measured(&measured, bytes, begun.elapsed()) {
                    events.emit(event);
                }
            }));
            if pushed.is_err() {
                // Without a thread for it, it is tried again.
                node.sizes().measured(&key, None, Duration::ZERO);
            }
        }
        pool.scale_up(now);
        let next = [node.sizes().next_due(), pool.next_scale_up()].into_iter().flatten().min();
        let changed = node.sizes().changed();
        // Once the node has ended, no task may keep the root folder open.
        drop(node);
        tokio::select! {
            () = stop.cancelled() => return,
            () = changed.notified() => {}
            () = tokio::time::sleep_until(next.unwrap_or(now).into()), if next.is_some() => {}
        }
    }
}

/// Adds up what the volume's files take; may hang as long as the storage does.
fn usage(volume_ops: &VolumeOps, (pod, plugin, spec_name): &PodVolumeKey) -> Result<DiskUsage, KernelError> {
    let kernel = volume_ops.kernel();
    let place = volume_ops.folders().existing_place(plugin, spec_name, pod)?;
    kernel.disk_usage(&place.parent, &place.name)
}
