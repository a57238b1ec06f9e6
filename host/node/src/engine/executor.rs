//! Starts operations on threads that may block, and knows which are running and since when.
//!
//! A plugin's operations share a [`WorkerPool`] of bounded width: storage that hangs holds its own plugin's threads, never all of them.
#![deny(clippy::disallowed_methods)]

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tracing::{debug, debug_span, warn};
use volhost_core::{Operation, OperationId, OperationKind, OperationReport, Time};
use volhost_model::names::{PluginName, PodUid, UniqueVolumeName};
use volhost_model::{Failure, FailureClass};
use volhost_provisioner::Outcome;
use volhost_runtime::{Call, Environment, Progress};

use super::accounts::Accounts;
use super::running::Running;
use super::sink::OperationSink;
use volhost_csi::DriverNote;
use volhost_model::clock::{Clock, micros};
use volhost_plugin_folder::{Answer, PluginRegistry, Question};
use volhost_volume_ops::events::NewEvent;
use volhost_volume_ops::volume_ops::VolumeOps;
use volhost_volume_ops::worker_pool::WorkerPool;

/// What comes back from the threads.
#[derive(Debug)]
pub enum FromOperation {
    /// It has ended.
    Done(OperationId, OperationReport),
    /// Users are to read of an event.
    Event(NewEvent),
    /// A CSI driver can be called now, or says something else of this node: what waited for it need not wait longer.
    Driver(DriverNote),
    /// What the pod's volumes show has come to its end: they are to be set up again.
    SourceChanged(PodUid),
    /// A job for the volume of a claim has ended.
    Provisioned {
        /// The volume.
        name: String,
        /// How.
        outcome: Outcome,
    },
    /// A plugin was asked what a volume is.
    Identified(Box<Answer>),
    /// A plugin was asked which of its volumes are attached.
    Verified {
        /// Which plugin.
        plugin: PluginName,
        /// Those that it does not find.
        missing: Vec<UniqueVolumeName>,
    },
}

/// What bounds operations.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// When a running operation is called overdue.
    pub patience: Duration,
    /// How long a plugin's own code may run in one operation.
    pub plugin_time: Duration,
    /// How many operations of one plugin run at once.
    pub max_workers: usize,
}

/// The running operations.
#[derive(Debug)]
pub struct Executor {
    volume_ops: Arc<VolumeOps>,
    plugins: Arc<PluginRegistry>,
    environment: Arc<Environment>,
    clock: Clock,
    /// When a running operation is called overdue.
    patience: Duration,
    /// How long a plugin's own code may run in one operation.
    plugin_time: Duration,
    outcomes: mpsc::UnboundedSender<FromOperation>,
    /// How many operations of one plugin run at once.
    max_workers: usize,
    pools: HashMap<PluginName, WorkerPool>,
    /// Threads of each plugin for questions what volumes are. They are not the threads of its
    /// operations: `identify` reaches nothing that could hang, and must not wait behind what hangs.
    askers: HashMap<PluginName, WorkerPool>,
    accounts: Arc<Accounts>,
    running: HashMap<OperationId, Running>,
    /// Plugins that are being asked which of their volumes are attached.
    verifying: BTreeSet<PluginName>,
    /// When which operation becomes overdue.
    overdue: BTreeSet<(Time, OperationId)>,
}

/// Reports that the operation has ended, also if its thread unwinds.
struct Promise {
    id: OperationId,
    outcomes: mpsc::UnboundedSender<FromOperation>,
    report: Option<OperationReport>,
}

impl Promise {
    fn fulfil(mut self, report: OperationReport) {
        self.report = Some(report);
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        let report = self.report.take().unwrap_or_else(|| {
            OperationReport::failed(Failure::new(
                FailureClass::Uncertain,
                "operation",
                "its thread ended early: a fault of volhost; please report it",
            ))
        });
        // Nobody listens any more only when the process ends.
        let _ = self.outcomes.send(FromOperation::Done(self.id, report));
    }
}

/// Answers the question, also if its thread unwinds.
struct Asked {
    question: Option<Question>,
    outcomes: mpsc::UnboundedSender<FromOperation>,
}

impl Asked {
    fn answer(mut self, plugins: &PluginRegistry) {
        let Some(question) = &self.question else { return };
        let answer = plugins.ask(question.clone());
        self.question = None;
        self.send(answer);
    }

    fn send(&self, answer: Answer) {
        // Nobody listens any more only when the process ends.
        let _ = self.outcomes.send(FromOperation::Identified(Box::new(answer)));
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if let Some(question) = self.question.take() {
            self.send(Answer::none(question));
        }
    }
}

impl Executor {
    /// Creates an executor for plugins in this environment, whose operations report to `outcomes`.
    pub fn new(
        volume_ops: Arc<VolumeOps>,
        plugins: Arc<PluginRegistry>,
        environment: Environment,
        clock: Clock,
        bounds: Bounds,
        outcomes: mpsc::UnboundedSender<FromOperation>,
    ) -> Self {
        Self {
            volume_ops,
            plugins,
            environment: Arc::new(environment),
            clock,
            patience: bounds.patience,
            plugin_time: bounds.plugin_time,
            outcomes,
            max_workers: bounds.max_workers,
            pools: HashMap::new(),
            askers: HashMap::new(),
            accounts: Arc::default(),
            running: HashMap::new(),
            verifying: BTreeSet::new(),
            overdue: BTreeSet::new(),
        }
    }

    /// Returns the loaded plugins.
    pub fn plugins(&self) -> &PluginRegistry {
        &self.plugins
    }

    /// How many operations of the plugin may run at once.
    fn width_for(&self, plugin: &PluginName) -> usize {
        let granted = self.plugins.ready(plugin).and_then(|plugin| plugin.concurrency());
        granted.unwrap_or(self.max_workers).min(self.max_workers)
    }

    /// Begins the operation. Its report comes later, exactly once.
    pub fn start(&mut self, operation: Operation) {
        let progress = Arc::new(Progress::default());
        progress.enter("waiting for a thread");
        let due = self.clock.now().saturating_add(micros(self.patience));
        self.overdue.insert((due, operation.id));
        let running = Running::new(&operation, due, progress.clone());
        let (span, cancellation) = (running.span.clone(), running.cancellation.clone());
        let queued = debug_span!(parent: &span, "waiting for a thread");
        self.running.insert(operation.id, running);

        let volume_ops = self.volume_ops.clone();
        let (accounts, account) = (Arc::clone(&self.accounts), self.accounts.of(&operation.volume));
        let call = Call::new(Arc::clone(&self.environment), self.plugin_time)
            .with_sink(Arc::new(OperationSink::new(&operation, self.outcomes.clone())))
            .with_progress(progress)
            .with_cancellation(cancellation)
            .with_account(account.clone());
        let (id, width) = (operation.id, self.width_for(&operation.plugin));
        let pool = self.pools.entry(operation.plugin.clone()).or_insert_with(|| WorkerPool::new(width));
        let promise = Promise { id, outcomes: self.outcomes.clone(), report: None };
        let work = move || {
            drop(queued);
            let _entered = span.enter();
            debug!("operation begins");
            let report = volume_ops.execute(&operation, &call);
            let unmounted = report.result.is_ok() && matches!(operation.kind, OperationKind::Unmount);
            if unmounted || account.is_empty() {
                accounts.close(&operation.volume);
            }
            promise.fulfil(report);
        };
        if let Err((job, error)) = pool.push(Box::new(work)) {
            let failure =
                format!("no thread can be started for it: {error}; see the limits of the service and of the machine");
            let report = OperationReport::failed(Failure::new(FailureClass::Transient, "StartThread", failure));
            // First told, first believed: what the dropped job tells afterwards is of an operation that has ended.
            let _ = self.outcomes.send(FromOperation::Done(id, report));
            drop(job);
        }
    }

    /// Begins to ask a plugin what a volume is. The answer comes later as
    /// [`FromOperation::Identified`].
    pub fn ask(&mut self, question: Question) {
        let (plugins, outcomes) = (Arc::clone(&self.plugins), self.outcomes.clone());
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let width = self.width_for(question.plugin()).min(processors);
        let pool = self.askers.entry(question.plugin().clone()).or_insert_with(|| WorkerPool::eager(width));
        let asked = Asked { question: Some(question), outcomes };
        let work = move || asked.answer(&plugins);
        // A job that is dropped answers that nobody was asked.
        if let Err((_, error)) = pool.push(Box::new(work)) {
            warn!(%error, "no thread can be started to ask a plugin what a volume is; it is asked again");
        }
    }

    /// Takes what the plugin is granted now as the bound of its operations.
    pub fn resize(&self, plugin: &PluginName) {
        let width = self.width_for(plugin);
        for pool in self.pools.get(plugin).into_iter().chain(self.askers.get(plugin)) {
            pool.resize(width);
        }
    }

    /// Cancels the operations that set volumes up for this pod, because it is gone. Their plugins
    /// make no further host call, and the unmount that follows undoes what they left.
    pub fn cancel_set_ups(&self, pod: &PodUid) {
        self.cancel(|for_pod| for_pod == pod);
    }

    /// Cancels every operation that sets a volume up, because no pod wants anything any more.
    pub fn cancel_all_set_ups(&self) {
        self.cancel(|_| true);
    }

    fn cancel(&self, concerns: impl Fn(&PodUid) -> bool) {
        for running in self.running.values().filter(|running| running.sets_up_for.as_ref().is_some_and(&concerns)) {
            running.cancellation.cancel();
        }
    }

    /// Begins to ask the plugin which of these volumes are attached to the node, unless it is being asked still. The answer comes as
    /// [`FromOperation::Verified`]; a plugin that cannot say answers nothing.
    pub fn verify(&mut self, plugin: PluginName, volumes: Vec<UniqueVolumeName>) {
        if !self.verifying.insert(plugin.clone()) {
            return;
        }
        let (volume_ops, outcomes, width) = (self.volume_ops.clone(), self.outcomes.clone(), self.width_for(&plugin));
        let pool = self.pools.entry(plugin.clone()).or_insert_with(|| WorkerPool::new(width));
        let asked = plugin.clone();
        let work = move || {
            let missing = volume_ops.not_attached(&asked, &volumes);
            // Nobody listens any more only when the process ends.
            let _ = outcomes.send(FromOperation::Verified { plugin: asked, missing });
        };
        if pool.push(Box::new(work)).is_err() {
            self.verifying.remove(&plugin);
        }
    }

    /// Takes note that the plugin has answered.
    pub fn verified(&mut self, plugin: &PluginName) {
        self.verifying.remove(plugin);
    }

    /// When [`Executor::scale_up`] is to be called next.
    pub fn next_scale_up(&self) -> Option<Instant> {
        self.pools.values().filter_map(WorkerPool::next_scale_up).min()
    }

    /// Gives pools more threads whose every thread is held up.
    pub fn scale_up(&self, now: Instant) {
        for pool in self.pools.values() {
            pool.scale_up(now);
        }
    }

    /// Takes note that an operation has ended. Returns what was kept of it; none when it had ended before.
    pub fn ended(&mut self, id: OperationId) -> Option<Running> {
        let running = self.running.remove(&id)?;
        self.overdue.remove(&(running.due, id));
        Some(running)
    }

    /// The step at which a running operation stands.
    pub fn step_of(&self, id: OperationId) -> Option<String> {
        self.running.get(&id).map(|running| running.progress.current().what.into_owned())
    }

    /// How many operations run.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// When the next operation becomes overdue.
    pub fn next_overdue(&self) -> Option<Time> {
        self.overdue.first().map(|(due, _)| *due)
    }

    /// The operations that have become overdue, each told once, with where they stand.
    pub fn take_overdue(&mut self, now: Time) -> Vec<(OperationId, String)> {
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
