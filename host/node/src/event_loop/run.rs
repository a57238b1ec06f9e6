//! The event loop: one input after another.
//!
//! Everything here runs on the loop's thread, which does no I/O and runs no plugin code.
#![deny(clippy::disallowed_methods)]

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use volhost_flex_drivers::DriverEvent;
use volhost_objects::Changes;
use volhost_plugin_folder::PluginChanges;

use super::node_state::NodeState;
use super::reports::WorkerReport;
use super::requests::Request;
use super::turns::Turns;
use super::watchdog::{SignsOfLife, Watchdog};

/// How many requests are handled in one turn, so that a flood of them does not starve other inputs.
const REQUESTS: usize = 256;
/// How many reports of worker threads are handled in one turn. Each may begin an operation, so that
/// many of them take milliseconds, for which a request would wait.
const REPORTS: usize = 32;

/// The inputs of the loop.
#[derive(Debug)]
pub(crate) struct Inputs {
    /// Requests from the API.
    pub(crate) requests: mpsc::Receiver<Request>,
    /// Changes of the manifest folder.
    pub(crate) manifests: mpsc::Receiver<Changes>,
    /// Changes of the plugin folder.
    pub(crate) plugins: mpsc::Receiver<PluginChanges>,
    /// Changes of FlexVolume drivers.
    pub(crate) drivers: mpsc::Receiver<DriverEvent>,
    /// Reports of worker threads.
    pub(crate) workers: mpsc::UnboundedReceiver<WorkerReport>,
    /// Requests to search the pods' folder for leftovers.
    pub(crate) reload: Arc<Notify>,
}

/// Handles inputs until `shutdown`, then lets running operations end for at most `grace`. Returns
/// whether everything was drained and the next start needs no file on the mount of the records.
pub(crate) async fn run(
    mut node: NodeState,
    mut inputs: Inputs,
    watchdog: Option<Watchdog>,
    shutdown: CancellationToken,
    grace: Duration,
) -> bool {
    let mut reports = Vec::with_capacity(REPORTS);
    node.finish_turn();
    let mut turns = Turns::default();
    let mut signs = SignsOfLife::new(watchdog, Instant::now());
    loop {
        let wake = node.next_wake();
        let sign = signs.next();
        let begun;
        let input = tokio::select! {
            () = shutdown.cancelled() => break,
            _ = inputs.workers.recv_many(&mut reports, REPORTS) => {
                begun = std::time::Instant::now();
                node.workers_reported(reports.drain(..));
                "reports of worker threads"
            }
            Some(request) = inputs.requests.recv() => {
                begun = std::time::Instant::now();
                node.answer(request);
                for _ in 1..REQUESTS {
                    let Ok(request) = inputs.requests.try_recv() else { break };
                    node.answer(request);
                }
                "requests"
            }
            Some(changes) = inputs.manifests.recv() => {
                begun = std::time::Instant::now();
                node.manifests_changed(changes);
                "changed manifests"
            }
            Some(changes) = inputs.plugins.recv() => {
                begun = std::time::Instant::now();
                node.plugins_changed(changes);
                "changed plugins"
            }
            Some(event) = inputs.drivers.recv() => {
                begun = std::time::Instant::now();
                node.driver_changed(event);
                "a changed driver"
            }
            () = inputs.reload.notified() => {
                begun = std::time::Instant::now();
                node.search_orphans();
                "a reload"
            }
            () = sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => {
                begun = std::time::Instant::now();
                node.wake();
                "timers"
            }
            () = sleep_until(sign.unwrap_or_else(Instant::now)), if sign.is_some() => {
                begun = std::time::Instant::now();
                "the watchdog"
            }
        };
        node.finish_turn();
        if let Some(slow) = turns.ended(input, begun.elapsed(), std::time::Instant::now()) {
            warn!("{slow}");
        }
        signs.turned();
    }
    stop(node, inputs, grace).await
}

async fn stop(mut node: NodeState, mut inputs: Inputs, grace: Duration) -> bool {
    // Callers that wait get no answer: their connections end with the process.
    inputs.requests.close();
    let deadline = Instant::now() + grace;
    while node.running() > 0 {
        match timeout_at(deadline, inputs.workers.recv()).await {
            Ok(Some(WorkerReport::Done(id, _))) => node.operation_ended_at_stop(id),
            Ok(Some(_)) => {}
            Ok(None) => break,
            Err(_) => {
                let running = node.running();
                warn!(running, "operations did not end in time and are abandoned; the next start cleans up after them");
                break;
            }
        }
    }
    if node.is_drained() && node.needs_state() {
        info!("the mount of the records stays: objects were added by request, and the next start needs them");
        return false;
    }
    node.is_drained()
}
