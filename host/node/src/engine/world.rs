//! The state machine and what surrounds it: its clock, its operations, its waiting callers, its events.
#![deny(clippy::disallowed_methods)]

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{broadcast, oneshot};
use tracing::{info, warn};
use volhost_core::{Command, Core, Event, Notice, Time, WaitFailure, WaiterId};
use volhost_model::names::PodUid;
use volhost_model::view::EventKind;

use super::event_log::EventLog;
use super::executor::{Executor, FromOperation};
use super::requests::RequestError;
use super::running::Running;
use volhost_metrics::Operations;
use volhost_model::clock::{Clock, micros};
use volhost_model::view::Change;
use volhost_volume_ops::events::NewEvent;
use volhost_volume_ops::volume_ops::VolumeOps;
use volhost_volume_ops::worker_pool::WorkerPool;

/// Microseconds in a second.
const MICROS_PER_SECOND: u64 = 1_000_000;

/// Where the answer to a waiting caller goes.
pub type WaitAnswer = oneshot::Sender<Result<Result<(), WaitFailure>, RequestError>>;

/// How many folders of gone pods are worked on at once. A folder that hangs holds a thread, and
/// this many may hang before others wait: the node's pods need none of these threads.
const CHORES: usize = 16;

/// The state machine at work. Everything happens on one task; only operations run elsewhere.
#[derive(Debug)]
pub struct World {
    /// The state machine.
    pub core: Core,
    /// The clock.
    pub clock: Clock,
    /// The running operations.
    pub executor: Executor,
    /// The last events.
    pub events: EventLog,
    /// The figures of operations.
    pub operations: Arc<Operations>,
    pub(super) volume_ops: Arc<VolumeOps>,
    changes: broadcast::Sender<Change>,
    /// Threads for the folders of pods that are gone.
    chores: WorkerPool,
    waiters: HashMap<WaiterId, WaitAnswer>,
    next_waiter: WaiterId,
    timer: Option<Time>,
    changed: bool,
    told: bool,
}

impl World {
    /// A world in which nothing has happened yet.
    pub fn new(
        core: Core,
        clock: Clock,
        executor: Executor,
        volume_ops: Arc<VolumeOps>,
        changes: broadcast::Sender<Change>,
    ) -> Self {
        Self {
            core,
            clock,
            executor,
            events: EventLog::default(),
            operations: Arc::default(),
            volume_ops,
            changes,
            chores: WorkerPool::eager(CHORES),
            waiters: HashMap::new(),
            next_waiter: 0,
            timer: None,
            changed: false,
            told: false,
        }
    }

    /// Lets the state machine take a step and carries out what it wants.
    pub fn feed(&mut self, event: Event) {
        self.changed = true;
        match &event {
            Event::PodGone { uid } => self.executor.cancel_set_ups(uid),
            Event::Drain => self.executor.cancel_all_set_ups(),
            _ => {}
        }
        for command in self.core.step(self.clock.now(), event) {
            match command {
                Command::Start(operation) => self.executor.start(operation),
                Command::ArmTimer(at) => self.timer = Some(at),
                Command::Publish(notice) => self.publish(&notice),
                Command::Answer { waiter, result } => {
                    let result = result.map_err(|failure| self.with_running_steps(failure));
                    if let Some(answer) = self.waiters.remove(&waiter) {
                        // The caller may have gone away.
                        let _ = answer.send(Ok(result));
                    }
                }
            }
        }
    }

    /// The failure, naming for each volume with a running operation the step it is at, and since
    /// when.
    fn with_running_steps(&self, mut failure: WaitFailure) -> WaitFailure {
        for volume in &mut failure.volumes {
            let Some((id, since)) = volume.running else { continue };
            let seconds = self.clock.now().saturating_sub(since) / MICROS_PER_SECOND;
            volume.step.push_str(&format!(" for {seconds} s"));
            if let Some(step) = self.executor.step_of(id) {
                volume.step.push_str(&format!(", at `{step}`"));
            }
        }
        failure
    }

    fn publish(&mut self, notice: &Notice) {
        let object = match (&notice.pod_uid, notice.pod.as_str(), &notice.volume) {
            (None, _, Some(volume)) => format!("volume {volume}"),
            (None, _, None) => "node".to_owned(),
            (Some(uid), "", _) => format!("pod {uid}"),
            (Some(_), pod, _) => format!("pod {pod}"),
        };
        self.tell(notice.kind, notice.reason, &object, &notice.message);
    }

    /// Tells users that something happened, in the log and as an event.
    pub fn tell(&mut self, kind: EventKind, reason: &str, object: &str, message: &str) {
        match kind {
            EventKind::Normal => info!(reason, object, "{message}"),
            EventKind::Warning => warn!(reason, object, "{message}"),
        }
        self.events.add(self.clock.now(), kind, reason, object, message);
        self.told = true;
    }

    /// Takes what a thread reports. Returns the pod, when an operation on a volume of it has ended
    /// after which the pod may have none.
    pub fn from_operation(&mut self, report: FromOperation) -> Option<PodUid> {
        match report {
            FromOperation::Done(id, report) => {
                let Running { name, plugin, begun, span, mounts, unmounts, sets_up_for, .. } =
                    self.executor.ended(id)?;
                self.operations.ended(&plugin, name, begun.elapsed(), &report.result);
                let failure = report.result.as_ref().err().cloned();
                let mounts = mounts.filter(|_| failure.is_none());
                span.in_scope(|| self.feed(Event::OperationDone { id, report }));
                if let Some(failure) = failure {
                    Running::mark_failed(&span, &failure);
                }
                if let Some(took) = mounts.and_then(|(pod, volume)| self.core.mount_took(&pod, &volume)) {
                    self.operations.mounted(&plugin, Duration::from_micros(took));
                }
                // A set-up that failed for a pod that has gone meanwhile leaves nothing to unmount.
                unmounts.or(sets_up_for)
            }
            FromOperation::Event(NewEvent { kind, reason, object, message }) => {
                self.tell(kind, &reason, &object, &message);
                None
            }
            FromOperation::Verified { plugin, missing } => {
                self.executor.verified(&plugin);
                if !missing.is_empty() {
                    self.feed(Event::NotAttached(missing));
                }
                None
            }
            FromOperation::Driver(note) => {
                self.driver_noted(&note);
                None
            }
            // The engine's, which makes volumes for claims and resolves pods.
            FromOperation::Provisioned { .. } | FromOperation::Identified(_) => None,
            FromOperation::SourceChanged(uid) => {
                self.feed(Event::SourceChanged { uid });
                None
            }
        }
    }

    /// Lets a caller wait; `make` turns the waiter's id and deadline into the event.
    pub fn wait(&mut self, timeout: Duration, answer: WaitAnswer, make: impl FnOnce(WaiterId, Time) -> Event) {
        self.next_waiter += 1;
        let waiter = self.next_waiter;
        let deadline = self.clock.now().saturating_add(micros(timeout));
        self.waiters.insert(waiter, answer);
        self.feed(make(waiter, deadline));
    }

    /// When something is to be done although nothing happens.
    pub fn next_wake(&self) -> Option<Time> {
        self.timer.into_iter().chain(self.executor.next_overdue()).min()
    }

    /// Does what has become due.
    pub fn wake(&mut self) {
        self.executor.scale_up(std::time::Instant::now());
        let now = self.clock.now();
        for (id, message) in self.executor.take_overdue(now) {
            self.feed(Event::OperationOverdue { id, message });
        }
        if self.timer.is_some_and(|at| at <= now) {
            self.timer = None;
            self.feed(Event::Timer);
        }
    }

    /// Takes note that something which is listed has changed.
    pub fn touch(&mut self) {
        self.changed = true;
    }

    /// Whether something has changed since watchers were told.
    pub fn has_changed(&self) -> bool {
        self.changed
    }

    /// Tells watchers what has changed since the last call.
    pub fn announce(&mut self) {
        // Nobody may be watching.
        if std::mem::take(&mut self.changed) {
            let _ = self.changes.send(Change::World);
        }
        if std::mem::take(&mut self.told) {
            let _ = self.changes.send(Change::Events);
        }
    }

    /// Tells watchers that plugins have changed.
    pub fn announce_plugins(&self) {
        let _ = self.changes.send(Change::Plugins);
    }

    /// Forgets waiting callers that have gone away.
    pub fn forget_gone_waiters(&mut self) {
        let gone: Vec<WaiterId> =
            self.waiters.iter().filter(|(_, answer)| answer.is_closed()).map(|(id, _)| *id).collect();
        for waiter in gone {
            self.waiters.remove(&waiter);
            self.feed(Event::WaitCancelled { waiter });
        }
    }

    /// Removes, on a thread that may block, the empty folders of a pod that has no volumes any more.
    pub fn forget_pod_folders(&self, pod: PodUid) {
        let volume_ops = self.volume_ops.clone();
        self.do_chore(move || {
            if let Err(error) = volume_ops.forget_pod(&pod) {
                warn!(%pod, %error, "the empty folders of a pod could not be removed");
            }
        });
    }

    /// Runs work on the folders of pods that are gone, on one of a few threads that may block.
    /// Whether there is a thread for it.
    pub(super) fn do_chore(&self, chore: impl FnOnce() + Send + 'static) -> bool {
        match self.chores.push(Box::new(chore)) {
            Ok(()) => true,
            Err((_, error)) => {
                warn!(%error, "no thread can be started for the folders of pods that are gone; they are looked at later");
                false
            }
        }
    }
}
