//! The daemon's operations and volumes at one moment.

use std::cmp::Reverse;
use std::path::Path;

use volhost_api::pb;
use volhost_model::view::{OperationView, VolumeState, VolumeView};

use super::super::arguments::TopSort;
use super::super::client::{ANSWER_TIME, Client, within};
use super::super::error::CliError;
use super::super::format::now_us;
use super::super::usage;
use super::latency::{self, Latency};

/// The node at one moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Board {
    /// Operations that run, or that failed and wait for their next try.
    pub(super) operations: Vec<OperationView>,
    /// How long operations took since the daemon started, by plugin and kind.
    pub(super) latencies: Vec<Latency>,
    /// Volumes that failed, or whose state is uncertain.
    pub(super) troubles: Vec<VolumeView>,
    /// The fullest volumes, after those whose storage does not answer or is unhealthy.
    pub(super) fullest: Vec<VolumeView>,
    mounted: usize,
    volumes: usize,
}

/// Volumes in the list of the fullest: more would push the rest off the screen.
const FULLEST: usize = 8;

impl Board {
    /// Asks the daemon.
    pub(super) async fn gather(client: &mut Client, socket: &Path) -> Result<Self, CliError> {
        let all = pb::ListRequest::default;
        let operations = within(ANSWER_TIME, socket, client.inspect.list_operations(all())).await?.operations;
        let volumes = within(ANSWER_TIME, socket, client.inspect.list_volumes(all())).await?.volumes;
        let metrics = within(ANSWER_TIME, socket, client.inspect.metrics(pb::MetricsRequest {})).await?.text;
        let operations: Result<Vec<OperationView>, _> = operations.into_iter().map(TryInto::try_into).collect();
        let volumes: Result<Vec<VolumeView>, _> = volumes.into_iter().map(TryInto::try_into).collect();
        let mut volumes = volumes?;
        usage::fill(&mut volumes, all(), client, socket).await?;
        Ok(Self::of(operations?, volumes, latency::read(&metrics)))
    }

    /// A board of these views.
    pub(super) fn of(operations: Vec<OperationView>, volumes: Vec<VolumeView>, latencies: Vec<Latency>) -> Self {
        let mounted = volumes.iter().filter(|volume| volume.state == VolumeState::Mounted).count();
        let all = volumes.len();
        let troubled = |volume: &VolumeView| {
            volume.failure.is_some() || matches!(volume.state, VolumeState::Uncertain | VolumeState::Unresolved)
        };
        let mut fullest: Vec<VolumeView> = volumes.iter().filter(|volume| volume.usage.is_some()).cloned().collect();
        let now = now_us();
        fullest.sort_by_key(|volume| {
            let usage = volume.usage.as_deref();
            let troubled = usage.is_some_and(|usage| usage::trouble(usage, now).is_some());
            Reverse((troubled, usage.and_then(usage::percent)))
        });
        fullest.truncate(FULLEST);
        let troubles = volumes.into_iter().filter(troubled).collect();
        Self { operations, latencies, troubles, fullest, mounted, volumes: all }
    }

    /// Sorts the lists.
    pub(super) fn sort(&mut self, by: TopSort) {
        match by {
            // The oldest need attention first.
            TopSort::Age => {
                self.operations.sort_by_key(|operation| (!operation.running, operation.since));
                self.troubles.sort_by_key(|volume| volume.since);
                self.latencies.sort_by(|a, b| b.p99.total_cmp(&a.p99));
            }
            TopSort::Plugin => {
                self.operations.sort_by(|a, b| (&a.plugin, a.since).cmp(&(&b.plugin, b.since)));
                self.troubles.sort_by(|a, b| (&a.plugin, a.since).cmp(&(&b.plugin, b.since)));
                self.latencies.sort_by(|a, b| (&a.plugin, &a.operation).cmp(&(&b.plugin, &b.operation)));
            }
            TopSort::Failures => {
                self.operations.sort_by_key(|operation| Reverse(operation.failures));
                self.troubles.sort_by_key(|volume| Reverse(volume.failures));
                self.latencies.sort_by_key(|latency| Reverse(latency.failed));
            }
        }
    }

    /// The node in one line.
    pub(super) fn summary(&self) -> String {
        let running = self.operations.iter().filter(|operation| operation.running).count();
        let overdue = self.operations.iter().filter(|operation| operation.running && operation.overdue).count();
        let waiting = self.operations.len().saturating_sub(running);
        format!(
            "{} of {} volumes mounted, {} in trouble; operations: {running} running ({overdue} overdue), {waiting} waiting",
            self.mounted,
            self.volumes,
            self.troubles.len()
        )
    }
}
