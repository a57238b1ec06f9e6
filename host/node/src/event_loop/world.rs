//! The state machine and what surrounds it: its clock, its operations, its waiting callers, its
//! events.
#![deny(clippy::disallowed_methods)]

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{broadcast, oneshot};
use tokio::time::Instant;
use tracing::{debug, info, warn};
use volhost_core::{Core, CoreCommand, Event, Notice, OperationId, OperationReport, Time, WaitFailure, WaiterId};
use volhost_model::names::{PluginName, PodUid, UniqueVolumeName};
use volhost_model::view::{EventKind, EventView, PastOperationView};
use volhost_recording::{BaseWork, Recorder, Recording};

use super::event_log::EventLog;
use super::executor::Executor;
use super::operation_history::OperationHistory;
use super::requests::RequestError;
use super::running_operation::RunningOperation;
use volhost_metrics::Operations;
use volhost_model::clock::{Clock, micros};
use volhost_model::view::Change;
use volhost_volume_ops::events::NewEvent;

/// Microseconds in a second.
const MICROS_PER_SECOND: u64 = 1_000_000;

/// The channel for the answer to a waiting caller.
pub(crate) type WaitAnswer = oneshot::Sender<Result<Result<(), WaitFailure>, RequestError>>;

/// The state machine at work. Everything happens on the loop's thread; only operations run on other
/// threads.
#[derive(Debug)]
pub(crate) struct World {
    core: Core,
    recorder: Recorder,
    clock: Clock,
    executor: Executor,
    events: EventLog,
    operations: Arc<Operations>,
    history: OperationHistory,
    changes: broadcast::Sender<Change>,
    waiters: HashMap<WaiterId, WaitAnswer>,
    next_waiter: WaiterId,
    timer: Option<Time>,
    /// A listed object has changed since watchers were notified.
    changed: bool,
    /// An event was emitted since watchers were notified.
    has_new_events: bool,
}

impl World {
    /// Creates a world in which nothing has happened yet.
    pub(crate) fn new(core: Core, clock: Clock, executor: Executor, changes: broadcast::Sender<Change>) -> Self {
        Self {
            recorder: Recorder::new(core.clone()),
            core,
            clock,
            executor,
            events: EventLog::default(),
            operations: Arc::default(),
            history: OperationHistory::default(),
            changes,
            waiters: HashMap::new(),
            next_waiter: 0,
            timer: None,
            changed: false,
            has_new_events: false,
        }
    }

    /// Returns the state machine. It changes only by [`World::dispatch`].
    pub(super) const fn core(&self) -> &Core {
        &self.core
    }

    /// Returns the last steps of the state machine.
    pub(super) fn recording(&mut self) -> Recording {
        self.recorder.recording()
    }

    /// Returns the running operations.
    pub(super) const fn executor(&self) -> &Executor {
        &self.executor
    }

    /// Returns the running operations, to start or resize some.
    pub(super) const fn executor_mut(&mut self) -> &mut Executor {
        &mut self.executor
    }

    /// Returns the figures of operations.
    pub(crate) const fn operations(&self) -> &Arc<Operations> {
        &self.operations
    }

    /// Returns the events after this sequence number, oldest first.
    pub(super) fn events_after(&self, sequence: u64) -> Vec<EventView> {
        self.events.after(sequence)
    }

    /// Returns the last operations that have ended, oldest first.
    pub(super) fn history(&self) -> Vec<PastOperationView> {
        self.history.all()
    }

    /// Returns the time.
    pub(super) fn now(&self) -> Time {
        self.clock.now()
    }

    /// Whether every source has been read completely, and it is known of every volume whether it is
    /// attached.
    pub(super) fn is_synced(&self) -> bool {
        self.core.sources_synced() && self.core.states_synced()
    }

    /// Lets the state machine take a step and executes its commands.
    pub(super) fn dispatch(&mut self, event: Event) {
        self.changed = true;
        match &event {
            Event::PodGone { uid } => self.executor.cancel_mounts_for(uid),
            Event::Drain => self.executor.cancel_all_mounts(),
            _ => {}
        }
        let now = self.clock.now();
        let recorded = event.clone();
        let commands = Arc::new(self.core.step(now, event));
        if let Some(work) = self.recorder.record(now, recorded, Arc::clone(&commands)) {
            start_base_work(work);
        }
        for command in commands.iter() {
            match command {
                CoreCommand::Start(operation) => self.executor.start(operation.clone()),
                CoreCommand::ArmTimer(at) => self.timer = Some(*at),
                CoreCommand::Publish(notice) => self.emit_notice(notice),
                CoreCommand::Answer { waiter, result } => {
                    let result = result.clone().map_err(|failure| self.with_running_steps(failure));
                    if let Some(answer) = self.waiters.remove(waiter) {
                        // The caller may have gone away.
                        let _ = answer.send(Ok(result));
                    }
                }
            }
        }
    }

    /// Adds to the failure, for each volume with a running operation, the step it is at and since
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

    fn emit_notice(&mut self, notice: &Notice) {
        let object = match (&notice.pod_uid, notice.pod.as_str(), &notice.volume) {
            (None, _, Some(volume)) => format!("volume {volume}"),
            (None, _, None) => "node".to_owned(),
            (Some(uid), "", _) => format!("pod {uid}"),
            (Some(_), pod, _) => format!("pod {pod}"),
        };
        self.emit(notice.kind, notice.reason, &object, &notice.message);
    }

    /// Emits an event, and logs it.
    pub(super) fn emit(&mut self, kind: EventKind, reason: &str, object: &str, message: &str) {
        match kind {
            EventKind::Normal => info!(reason, object, "{message}"),
            EventKind::Warning => warn!(reason, object, "{message}"),
        }
        self.events.add(self.clock.now(), kind, reason, object, message);
        self.has_new_events = true;
    }

    /// Emits an event that a worker thread reported.
    pub(super) fn emit_event(&mut self, NewEvent { kind, reason, object, message }: &NewEvent) {
        self.emit(*kind, reason, object, message);
    }

    /// Reports the end of an operation to the state machine. Returns the pod whose last volume this
    /// may have been.
    pub(super) fn operation_done(&mut self, id: OperationId, report: OperationReport) -> Option<PodUid> {
        let RunningOperation { name, plugin, volume, pod, begun, span, mounts, unmounts, mounts_for, .. } =
            self.executor.remove(id)?;
        let took = begun.elapsed();
        self.operations.ended(&plugin, name, took, &report.result);
        let failure = report.result.as_ref().err().cloned();
        let ended = self.clock.now();
        self.history.add(PastOperationView {
            name: name.to_owned(),
            volume: volume.to_string(),
            pod: pod.to_string(),
            plugin: plugin.to_string(),
            began: ended.saturating_sub(micros(took)),
            ended,
            failure: failure.clone(),
        });
        let mounts = mounts.filter(|_| failure.is_none());
        span.in_scope(|| self.dispatch(Event::OperationDone { id, report }));
        if let Some(failure) = failure {
            RunningOperation::mark_failed(&span, &failure);
        }
        if let Some(took) = mounts.and_then(|(pod, volume)| self.core.mount_took(&pod, &volume)) {
            self.operations.mounted(&plugin, Duration::from_micros(took));
        }
        // A mount that failed for a pod that is gone by now leaves nothing to unmount.
        unmounts.or(mounts_for)
    }

    /// Reports the volumes that a plugin does not find attached.
    pub(super) fn attachments_verified(&mut self, plugin: &PluginName, missing: Vec<UniqueVolumeName>) {
        self.executor.verified(plugin);
        if !missing.is_empty() {
            self.dispatch(Event::NotAttached(missing));
        }
    }

    /// Lets a caller wait; `make` turns the waiter's id and deadline into the event.
    pub(super) fn wait(&mut self, timeout: Duration, answer: WaitAnswer, make: impl FnOnce(WaiterId, Time) -> Event) {
        self.next_waiter += 1;
        let waiter = self.next_waiter;
        let deadline = self.clock.now().saturating_add(micros(timeout));
        self.waiters.insert(waiter, answer);
        self.dispatch(make(waiter, deadline));
    }

    /// Returns the earlier of `other` and the time at which a timer of the world ends.
    pub(super) fn next_wake(&self, other: Option<Time>) -> Option<Instant> {
        let timers = self.timer.into_iter().chain(self.executor.next_overdue()).chain(other);
        let timer = timers.min().map(|at| self.clock.instant(at));
        timer.into_iter().chain(self.executor.next_scale_up()).min().map(Instant::from_std)
    }

    /// Does what has become due.
    pub(super) fn wake(&mut self) {
        self.executor.scale_up(std::time::Instant::now());
        let now = self.clock.now();
        for (id, message) in self.executor.take_overdue(now) {
            self.dispatch(Event::OperationOverdue { id, message });
        }
        if self.timer.is_some_and(|at| at <= now) {
            self.timer = None;
            self.dispatch(Event::Timer);
        }
    }

    /// Notes that a listed object has changed.
    pub(super) const fn mark_changed(&mut self) {
        self.changed = true;
    }

    /// Whether a listed object has changed since watchers were notified.
    pub(super) const fn has_changed(&self) -> bool {
        self.changed
    }

    /// Notifies watchers of the changes since the last call.
    pub(super) fn notify_watchers(&mut self) {
        // There may be no watcher.
        if std::mem::take(&mut self.changed) {
            let _ = self.changes.send(Change::World);
        }
        if std::mem::take(&mut self.has_new_events) {
            let _ = self.changes.send(Change::Events);
        }
    }

    /// Notifies watchers that plugins have changed.
    pub(super) fn notify_plugins_changed(&self) {
        let _ = self.changes.send(Change::Plugins);
    }

    /// Removes the waiters whose callers have gone away.
    pub(super) fn forget_closed_waiters(&mut self) {
        let closed: Vec<WaiterId> =
            self.waiters.iter().filter(|(_, answer)| answer.is_closed()).map(|(id, _)| *id).collect();
        for waiter in closed {
            self.waiters.remove(&waiter);
            self.dispatch(Event::WaitCancelled { waiter });
        }
    }
}

/// Has a thread of its own take the steps that left the recording: those that wait for storage may
/// all be taken. If there can be no thread now, the next steps that leave ask again.
fn start_base_work(work: BaseWork) {
    let started = std::thread::Builder::new().name("recording".to_owned()).spawn(move || work.run());
    if let Err(error) = started {
        debug!(%error, "the oldest steps of the recording stay in memory");
    }
}
