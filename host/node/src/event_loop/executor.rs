//! Runs operations on per-plugin worker pools and tracks those in flight.
//!
//! A plugin's operations share a [`WorkerPool`] of bounded size: storage that hangs blocks the
//! threads of its own plugin, never all.
#![deny(clippy::disallowed_methods)]

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tracing::{debug, debug_span, warn};
use volhost_core::{Operation, OperationId, OperationKind, OperationReport, Time};
use volhost_model::names::{PluginName, PodUid, UniqueVolumeName};
use volhost_model::{Failure, FailureClass};
use volhost_runtime::{Call, Environment, Progress};

use super::reports::WorkerReport;
use super::running_operation::{RunningOperation, pod_of};
use super::sink::OperationSink;
use super::volume_accounts::VolumeAccounts;
use volhost_model::clock::{Clock, micros};
use volhost_plugin_folder::{IdentifyAnswer, PluginRegistry, Question};
use volhost_volume_ops::volume_ops::VolumeOps;
use volhost_volume_ops::worker_pool::WorkerPool;

/// The limits of operations.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// A running operation is reported as overdue after this time.
    pub overdue_after: Duration,
    /// How long a plugin's own code may run in one operation.
    pub plugin_time: Duration,
    /// How many operations of one plugin run at once.
    pub max_workers: usize,
}

/// The running operations.
#[derive(Debug)]
pub(crate) struct Executor {
    volume_ops: Arc<VolumeOps>,
    plugins: Arc<PluginRegistry>,
    environment: Arc<Environment>,
    clock: Clock,
    /// A running operation is reported as overdue after this time.
    overdue_after: Duration,
    /// How long a plugin's own code may run in one operation.
    plugin_time: Duration,
    reports: mpsc::UnboundedSender<WorkerReport>,
    /// How many operations of one plugin run at once.
    max_workers: usize,
    pools: HashMap<PluginName, WorkerPool>,
    /// The threads on which each plugin identifies volumes. They are not the threads of its
    /// operations: `identify` calls nothing that could hang, and must not wait for an operation
    /// that hangs.
    identify_pools: HashMap<PluginName, WorkerPool>,
    accounts: Arc<VolumeAccounts>,
    running: HashMap<OperationId, RunningOperation>,
    /// Those that mount a volume, by pod: many pods go at once, while operations of all of them
    /// run.
    mounting: HashMap<PodUid, Vec<OperationId>>,
    /// Plugins that are being asked which of their volumes are attached.
    verifying: BTreeSet<PluginName>,
    /// Operations by the time at which they become overdue.
    overdue: BTreeSet<(Time, OperationId)>,
}

/// Reports the end of an operation when it is dropped, also if the thread unwinds.
struct ReportGuard {
    id: OperationId,
    reports: mpsc::UnboundedSender<WorkerReport>,
    report: Option<OperationReport>,
}

impl ReportGuard {
    fn send(mut self, report: OperationReport) {
        self.report = Some(report);
    }
}

impl Drop for ReportGuard {
    fn drop(&mut self) {
        let report = self.report.take().unwrap_or_else(|| {
            OperationReport::failed(Failure::new(
                FailureClass::Uncertain,
                "operation",
                "its thread ended early: a fault of volhost; please report it",
            ))
        });
        // The loop ends only with the process.
        let _ = self.reports.send(WorkerReport::Done(self.id, report));
    }
}

/// Answers the question, at the latest when it is dropped, also if the thread unwinds.
struct PendingQuestion {
    question: Option<Question>,
    reports: mpsc::UnboundedSender<WorkerReport>,
}

impl PendingQuestion {
    fn answer(mut self, plugins: &PluginRegistry) {
        let Some(question) = &self.question else { return };
        let answer = plugins.ask(question.clone());
        self.question = None;
        self.send(answer);
    }

    fn send(&self, answer: IdentifyAnswer) {
        // The loop ends only with the process.
        let _ = self.reports.send(WorkerReport::Identified(Box::new(answer)));
    }
}

impl Drop for PendingQuestion {
    fn drop(&mut self) {
        if let Some(question) = self.question.take() {
            self.send(IdentifyAnswer::none(question));
        }
    }
}

impl Executor {
    /// Creates an executor for plugins in this environment, whose operations report to `reports`.
    pub(crate) fn new(
        volume_ops: Arc<VolumeOps>,
        plugins: Arc<PluginRegistry>,
        environment: Environment,
        clock: Clock,
        bounds: Bounds,
        reports: mpsc::UnboundedSender<WorkerReport>,
    ) -> Self {
        Self {
            volume_ops,
            plugins,
            environment: Arc::new(environment),
            clock,
            overdue_after: bounds.overdue_after,
            plugin_time: bounds.plugin_time,
            reports,
            max_workers: bounds.max_workers,
            pools: HashMap::new(),
            identify_pools: HashMap::new(),
            accounts: Arc::default(),
            running: HashMap::new(),
            mounting: HashMap::new(),
            verifying: BTreeSet::new(),
            overdue: BTreeSet::new(),
        }
    }

    /// Returns how many operations of the plugin may run at once.
    fn max_workers_for(&self, plugin: &PluginName) -> usize {
        let granted = self.plugins.ready(plugin).and_then(|plugin| plugin.concurrency());
        granted.unwrap_or(self.max_workers).min(self.max_workers)
    }

    /// Starts the operation. It is reported as [`WorkerReport::Done`] exactly once.
    pub(super) fn start(&mut self, operation: Operation) {
        let progress = Arc::new(Progress::default());
        progress.enter("waiting for a thread");
        let due = self.clock.now().saturating_add(micros(self.overdue_after));
        self.overdue.insert((due, operation.id));
        let pod = pod_of(&operation);
        let running = RunningOperation::new(&operation, &pod, due, progress.clone());
        let (span, cancellation) = (running.span.clone(), running.cancellation.clone());
        let queued = debug_span!(parent: &span, "waiting for a thread");
        if let Some(pod) = running.mounts_for.clone() {
            self.mounting.entry(pod).or_default().push(operation.id);
        }
        self.running.insert(operation.id, running);

        let volume_ops = self.volume_ops.clone();
        let (accounts, account) = (Arc::clone(&self.accounts), self.accounts.of(&operation.volume));
        let call = Call::new(Arc::clone(&self.environment), self.plugin_time)
            .with_sink(Arc::new(OperationSink::new(pod, operation.volume.clone(), self.reports.clone())))
            .with_progress(progress)
            .with_cancellation(cancellation)
            .with_account(account.clone());
        let (id, max_workers) = (operation.id, self.max_workers_for(&operation.plugin));
        let pool = self.pools.entry(operation.plugin.clone()).or_insert_with(|| WorkerPool::new(max_workers));
        // From now on, so that the pod's next operation finds open what this one has opened.
        let kept_open = operation.pod_uid.as_ref().map(|pod| self.volume_ops.keep_open(pod));
        let guard = ReportGuard { id, reports: self.reports.clone(), report: None };
        let work = move || {
            drop(queued);
            let _entered = span.enter();
            debug!("operation begins");
            let report = volume_ops.execute(&operation, &call);
            drop(kept_open);
            let unmounted = report.result.is_ok() && matches!(operation.kind, OperationKind::Unmount);
            if unmounted || account.is_empty() {
                accounts.close(&operation.volume);
            }
            guard.send(report);
        };
        if let Err((job, error)) = pool.push(Box::new(work)) {
            let failure =
                format!("no thread can be started for it: {error}; see the limits of the service and of the machine");
            let report = OperationReport::failed(Failure::new(FailureClass::Transient, "StartThread", failure));
            // The first report of an operation counts. The dropped job sends another one
            // afterwards.
            let _ = self.reports.send(WorkerReport::Done(id, report));
            drop(job);
        }
    }

    /// Starts to ask a plugin to identify a volume. The answer is reported as
    /// [`WorkerReport::Identified`].
    pub(super) fn ask(&mut self, question: Question) {
        let (plugins, reports) = (Arc::clone(&self.plugins), self.reports.clone());
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let max_workers = self.max_workers_for(question.plugin()).min(processors);
        let pool =
            self.identify_pools.entry(question.plugin().clone()).or_insert_with(|| WorkerPool::eager(max_workers));
        let pending = PendingQuestion { question: Some(question), reports };
        let work = move || pending.answer(&plugins);
        // A job that is dropped answers that the plugin was not asked.
        if let Err((_, error)) = pool.push(Box::new(work)) {
            warn!(%error, "no thread can be started to ask a plugin what a volume is; it is asked again");
        }
    }

    /// Adapts the number of workers to what the plugin is granted now.
    pub(super) fn resize(&self, plugin: &PluginName) {
        let max_workers = self.max_workers_for(plugin);
        for pool in self.pools.get(plugin).into_iter().chain(self.identify_pools.get(plugin)) {
            pool.resize(max_workers);
        }
    }

    /// Cancels the operations that mount volumes for this pod, because it is gone. Their plugins
    /// make no further host call, and the unmount that follows undoes what they left.
    pub(super) fn cancel_mounts_for(&self, pod: &PodUid) {
        self.cancel(self.mounting.get(pod).into_iter().flatten());
    }

    /// Cancels every operation that mounts a volume, because the node is drained.
    pub(super) fn cancel_all_mounts(&self) {
        self.cancel(self.mounting.values().flatten());
    }

    fn cancel<'a>(&self, operations: impl Iterator<Item = &'a OperationId>) {
        for running in operations.filter_map(|id| self.running.get(id)) {
            running.cancellation.cancel();
        }
    }

    /// Starts to ask the plugin which of these volumes are attached to the node, unless it is being
    /// asked already. The answer is reported as [`WorkerReport::Verified`]; a plugin that cannot
    /// answer finds all.
    pub(super) fn verify(&mut self, plugin: PluginName, volumes: Vec<UniqueVolumeName>) {
        if !self.verifying.insert(plugin.clone()) {
            return;
        }
        let (volume_ops, reports) = (self.volume_ops.clone(), self.reports.clone());
        let max_workers = self.max_workers_for(&plugin);
        let pool = self.pools.entry(plugin.clone()).or_insert_with(|| WorkerPool::new(max_workers));
        let asked = plugin.clone();
        let work = move || {
            let missing = volume_ops.not_attached(&asked, &volumes);
            // The loop ends only with the process.
            let _ = reports.send(WorkerReport::Verified { plugin: asked, missing });
        };
        if pool.push(Box::new(work)).is_err() {
            self.verifying.remove(&plugin);
        }
    }

    /// Notes that the plugin has answered.
    pub(super) fn verified(&mut self, plugin: &PluginName) {
        self.verifying.remove(plugin);
    }

    /// Returns when [`Executor::scale_up`] is to be called next.
    pub(super) fn next_scale_up(&self) -> Option<Instant> {
        self.pools.values().filter_map(WorkerPool::next_scale_up).min()
    }

    /// Adds threads to pools whose threads are all blocked.
    pub(super) fn scale_up(&self, now: Instant) {
        for pool in self.pools.values() {
            pool.scale_up(now);
        }
    }

    /// Removes an operation that has ended. None when it had ended before.
    pub(super) fn remove(&mut self, id: OperationId) -> Option<RunningOperation> {
        let running = self.running.remove(&id)?;
        self.overdue.remove(&(running.due, id));
        if let Some(pod) = &running.mounts_for
            && let Some(of_pod) = self.mounting.get_mut(pod)
        {
            of_pod.retain(|other| *other != id);
            if of_pod.is_empty() {
                self.mounting.remove(pod);
            }
        }
        Some(running)
    }

    /// Returns the step that a running operation is at.
    pub(super) fn step_of(&self, id: OperationId) -> Option<String> {
        self.running.get(&id).map(|running| running.progress.current().what.into_owned())
    }

    /// Returns the number of running operations.
    pub(super) fn running(&self) -> usize {
        self.running.len()
    }

    /// Returns when the next operation becomes overdue.
    pub(super) fn next_overdue(&self) -> Option<Time> {
        self.overdue.first().map(|(due, _)| *due)
    }

    /// Returns the operations that have become overdue, each once, with the step they are at.
    pub(super) fn take_overdue(&mut self, now: Time) -> Vec<(OperationId, String)> {
        let mut taken = Vec::new();
        while let Some((due, id)) = self.overdue.first().copied().filter(|(due, _)| *due <= now) {
            self.overdue.remove(&(due, id));
            if let Some(running) = self.running.get(&id) {
                let step = running.progress.current();
                taken.push((id, format!("at `{}` since {} s", step.what, step.since.elapsed().as_secs())));
            }
        }
        taken
    }
}
