//! Starts operations on threads that may block, and knows which are running and since when.
//!
//! A plugin's operations share a lane of bounded width: storage that hangs holds its own plugin's threads, never all of them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};
use tracing::debug;
use volhost_core::{Operation, OperationId, OperationKind, OperationReport, Time};
use volhost_model::names::{PluginName, PodUid};
use volhost_model::view::EventKind;
use volhost_model::{Failure, FailureClass};
use volhost_runtime::{CallContext, NodeFacts, Progress};

use super::clock::{Clock, micros};
use super::operation::Workshop;
use super::sink::OperationSink;

/// What comes back from the threads.
#[derive(Debug)]
pub enum FromOperation {
    /// It has ended.
    Done(OperationId, OperationReport),
    /// Its plugin has something to tell users.
    Event {
        /// Worth acting on, or only knowing.
        kind: EventKind,
        /// One CamelCase word.
        reason: String,
        /// What it is about.
        object: String,
        /// What happened.
        message: String,
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
    pub lane_width: usize,
}

/// The running operations.
#[derive(Debug)]
pub struct Executor {
    workshop: Arc<Workshop>,
    node: Arc<NodeFacts>,
    clock: Clock,
    /// When a running operation is called overdue.
    patience: Duration,
    /// How long a plugin's own code may run in one operation.
    plugin_time: Duration,
    outcomes: mpsc::UnboundedSender<FromOperation>,
    /// How many operations of one plugin run at once.
    lane_width: usize,
    lanes: HashMap<PluginName, Arc<Semaphore>>,
    running: HashMap<OperationId, Running>,
    /// When which operation becomes overdue.
    overdue: BTreeSet<(Time, OperationId)>,
}

#[derive(Debug)]
struct Running {
    due: Time,
    progress: Arc<Progress>,
    /// The pod, if it is an unmount.
    unmounts: Option<PodUid>,
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

impl Executor {
    /// An executor whose operations report to `outcomes`.
    pub fn new(
        workshop: Arc<Workshop>,
        node: Arc<NodeFacts>,
        clock: Clock,
        bounds: Bounds,
        outcomes: mpsc::UnboundedSender<FromOperation>,
    ) -> Self {
        Self {
            workshop,
            node,
            clock,
            patience: bounds.patience,
            plugin_time: bounds.plugin_time,
            outcomes,
            lane_width: bounds.lane_width,
            lanes: HashMap::new(),
            running: HashMap::new(),
            overdue: BTreeSet::new(),
        }
    }

    /// Begins the operation. Its report comes later, exactly once.
    pub fn start(&mut self, operation: Operation) {
        let progress = Arc::new(Progress::default());
        progress.enter("waiting for a thread");
        let due = self.clock.now().saturating_add(micros(self.patience));
        self.overdue.insert((due, operation.id));
        let unmounts = operation.pod_uid.clone().filter(|_| operation.kind == OperationKind::Unmount);
        self.running.insert(operation.id, Running { due, progress: progress.clone(), unmounts });

        let lane_width = self.lane_width;
        let lane =
            self.lanes.entry(operation.plugin.clone()).or_insert_with(|| Arc::new(Semaphore::new(lane_width))).clone();
        let workshop = self.workshop.clone();
        let call = CallContext {
            node: self.node.clone(),
            sink: Arc::new(OperationSink::new(&operation, self.outcomes.clone())),
            deadline: self.plugin_time,
            progress,
        };
        let promise = Promise { id: operation.id, outcomes: self.outcomes.clone(), report: None };
        let work = move || {
            debug!(operation = operation.kind.name(), id = operation.id, volume = %operation.volume, "operation begins");
            promise.fulfil(workshop.carry_out(&operation, &call));
        };
        match lane.clone().try_acquire_owned() {
            Ok(permit) => {
                tokio::task::spawn_blocking(move || {
                    work();
                    drop(permit);
                });
            }
            Err(_) => {
                tokio::spawn(async move {
                    // The lane is never closed.
                    let permit = lane.acquire_owned().await;
                    tokio::task::spawn_blocking(move || {
                        work();
                        drop(permit);
                    });
                });
            }
        }
    }

    /// Takes note that an operation has ended. Returns its pod if it was an unmount.
    pub fn ended(&mut self, id: OperationId) -> Option<PodUid> {
        let running = self.running.remove(&id)?;
        self.overdue.remove(&(running.due, id));
        running.unmounts
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
