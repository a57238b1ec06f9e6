//! Volumes for claims: reports the objects to the provisioner and executes its commands.
#![deny(clippy::disallowed_methods)]

mod situation;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tracing::warn;
use volhost_model::view::EventKind;
use volhost_provisioner::{
    ClaimName, Job, JobOutcome, ProvisionRecord, Provisioner, ProvisionerCommand, Severity, Time,
};

use super::reports::WorkerReport;
use super::requests::RequestError;
use super::sources::Sources;
use super::world::World;
use crate::provision::{self, ClaimBlockedReason, PendingClaims, ProvisionRecordError, Runner};
use situation::ClaimContext;
use volhost_model::clock::micros;
use volhost_objects::{Kind, ObjectKey, ObjectSource};
use volhost_volume_ops::worker_pool::WorkerPool;

/// How many volumes are made or deleted at once. A driver that hangs blocks a thread for each of
/// its volumes.
const WORKERS: usize = 32;

/// Makes volumes for claims on this node.
#[derive(Debug)]
pub(crate) struct Provisioning {
    machine: Provisioner,
    runner: Arc<Runner>,
    /// The threads of its jobs.
    workers: WorkerPool,
    reports: mpsc::UnboundedSender<WorkerReport>,
    /// Objects or volumes may have changed since the last run of the provisioner.
    due: bool,
    /// Why claims get no volume for now; an event was emitted for each.
    not_asked: BTreeMap<ObjectKey, ClaimBlockedReason>,
    /// The event was emitted that volumes are retained because no manifest was read.
    reported_retained: bool,
    /// The commands of the start.
    restored: Vec<ProvisionerCommand>,
    /// Records that cannot be read.
    problems: Vec<String>,
}

/// Reports the end of a job when it is dropped, also if the thread unwinds.
struct JobGuard {
    name: String,
    outcome: Option<JobOutcome>,
    reports: mpsc::UnboundedSender<WorkerReport>,
}

impl JobGuard {
    fn send(mut self, outcome: JobOutcome) {
        self.outcome = Some(outcome);
    }
}

impl Drop for JobGuard {
    fn drop(&mut self) {
        let outcome = self.outcome.take().unwrap_or_else(|| {
            JobOutcome::Uncertain("its thread ended early, or there was none for it; see the log".to_owned())
        });
        let name = std::mem::take(&mut self.name);
        // The loop ends only with the process.
        let _ = self.reports.send(WorkerReport::Provisioned { name, outcome });
    }
}

impl Provisioning {
    /// Continues from the records. Jobs report to `reports`. The volumes of missing claims are
    /// retained for `grace`. Blocks on the disk.
    ///
    /// # Errors
    /// [`ProvisionRecordError::Folder`] when the records cannot be read.
    pub(crate) fn restore(
        runner: Runner,
        grace: Duration,
        reports: mpsc::UnboundedSender<WorkerReport>,
    ) -> Result<Self, ProvisionRecordError> {
        let (records, problems) = runner.records().all()?;
        let (machine, restored) = Provisioner::restored(records);
        let machine = machine.with_grace(micros(grace));
        let problems = problems.iter().map(ToString::to_string).collect();
        Ok(Self {
            machine,
            runner: Arc::new(runner),
            workers: WorkerPool::eager(WORKERS),
            reports,
            due: true,
            not_asked: BTreeMap::new(),
            reported_retained: false,
            restored,
            problems,
        })
    }

    fn run(&self, job: Job) {
        let runner = Arc::clone(&self.runner);
        let guard = JobGuard { name: job.record.name.clone(), outcome: None, reports: self.reports.clone() };
        let work = move || guard.send(runner.run(&job));
        // The guard of a dropped job reports its end.
        if let Err((_, error)) = self.workers.push(Box::new(work)) {
            warn!(%error, "no thread can be started to make or delete a volume; it is tried again");
        }
    }

    /// Returns the state machine of made volumes.
    pub(super) const fn machine(&self) -> &Provisioner {
        &self.machine
    }

    /// Adds the volumes of an earlier run to the sources, before other sources are read.
    pub(super) fn begin(&mut self, world: &mut World, sources: &mut Sources) {
        for problem in std::mem::take(&mut self.problems) {
            let object = format!("path {}", provision::FOLDER);
            world.emit(EventKind::Warning, "RecoveryProblem", &object, &problem);
        }
        let restored = std::mem::take(&mut self.restored);
        self.execute(restored, world, sources);
    }

    /// Notes that objects or volumes have changed.
    pub(super) const fn mark_due(&mut self) {
        self.due = true;
    }

    /// Retries every failed job at once: a driver or a plugin has appeared.
    pub(super) fn retry_now(&mut self) {
        self.machine.retry_now();
        self.due = true;
    }

    /// Retries the failed jobs of this driver at once.
    pub(super) fn retry_now_by(&mut self, driver: &str) {
        self.machine.retry_provisioner_now(driver);
        self.due = true;
    }

    /// Returns when the next retry is due.
    pub(super) fn next_wake(&self) -> Option<Time> {
        self.machine.next_wake()
    }

    /// Handles the end of a job.
    pub(super) fn job_done(&mut self, name: &str, outcome: JobOutcome, world: &mut World, sources: &mut Sources) {
        let commands = self.machine.ended(world.now(), name, outcome);
        self.due = true;
        self.execute(commands, world, sources);
    }

    /// Runs the provisioner over all claims, if objects have changed or a retry is due. Until every
    /// source has been read, it only works on volumes that are known to be wanted.
    pub(super) fn run_when_due(&mut self, world: &mut World, sources: &mut Sources) {
        let now = world.now();
        let timed = self.machine.next_wake().is_some_and(|at| at <= now);
        let freed = world.has_changed() && self.machine.waits_for_pods();
        if !(self.due || timed || freed) {
            return;
        }
        self.due = false;
        let store = sources.store();
        self.machine.note_sources(|claim| {
            let key = ObjectKey::new(Kind::PersistentVolumeClaim, &claim.namespace, &claim.name);
            let exists = store.get(&key).is_some_and(|object| object.uid == claim.uid);
            store.source(&key).filter(|_| exists).map(|source| source == ObjectSource::Manifest)
        });
        // Pods may be missing that were added by request before a reboot; claims are not.
        let is_complete = sources.is_complete();
        let machine = &self.machine;
        let mut asked = provision::wants(store, sources.node(), |claim| machine.name_for(claim));
        if !is_complete {
            let is_known = |claim: &ClaimName| machine.progress(claim).is_some();
            asked.leave_out_unknown(sources.unread_manifests(), is_known);
        }
        let PendingClaims { wants, not_asked } = asked;
        let situation = ClaimContext::new(world.core(), sources, is_complete);
        let commands = self.machine.look(now, wants, |record| situation.claim(record));
        let retained = self.machine.records().find(|record| is_complete && situation.is_retained(record)).cloned();
        self.execute(commands, world, sources);
        self.report_not_asked(not_asked, world, sources);
        self.report_retained(retained, world);
    }

    fn execute(&self, commands: Vec<ProvisionerCommand>, world: &mut World, sources: &mut Sources) {
        let (mut shown, mut hidden) = (Vec::new(), Vec::new());
        for command in commands {
            match command {
                ProvisionerCommand::Run(job) => self.run(*job),
                ProvisionerCommand::Show(record) => match provision::object(&record) {
                    Ok(object) => shown.push(object),
                    Err(why) => {
                        let message =
                            format!("the answer of {} makes no PersistentVolume: {why}", record.terms.provisioner);
                        let object = format!("volume {}", record.name);
                        world.emit(EventKind::Warning, "ProvisioningFailed", &object, &message);
                    }
                },
                ProvisionerCommand::Hide(name) => hidden.push(ObjectKey::persistent_volume(name)),
                ProvisionerCommand::Emit { severity, reason, object, message } => {
                    let kind = match severity {
                        Severity::Normal => EventKind::Normal,
                        Severity::Warning => EventKind::Warning,
                    };
                    world.emit(kind, reason, &object, &message);
                }
            }
        }
        if !shown.is_empty() || !hidden.is_empty() {
            sources.provide(shown, hidden);
        }
    }

    /// Emits an event, once, that volumes are retained although their claims are missing.
    fn report_retained(&mut self, retained: Option<ProvisionRecord>, world: &mut World) {
        let Some(record) = retained.filter(|_| !std::mem::replace(&mut self.reported_retained, true)) else { return };
        let message = format!(
            "no manifest was read since the start, so claim {} and others of manifests are not known to be gone: their volumes stay. Mount the manifest folder, or put any manifest into it, and their reclaim policies decide",
            record.claim.full_name()
        );
        world.emit(EventKind::Warning, "VolumesHeld", &format!("volume {}", record.name), &message);
    }

    /// Emits an event, once, for each claim that gets no volume for now; pods that wait for the
    /// claim show it, too.
    fn report_not_asked(
        &mut self,
        not_asked: BTreeMap<ObjectKey, ClaimBlockedReason>,
        world: &mut World,
        sources: &mut Sources,
    ) {
        for (claim, why) in &not_asked {
            if self.not_asked.get(claim) == Some(why) {
                continue;
            }
            let (kind, reason) = match why {
                ClaimBlockedReason::Waits(_) => (EventKind::Normal, "WaitForFirstConsumer"),
                ClaimBlockedReason::Wrong(_) => (EventKind::Warning, "ProvisioningFailed"),
                ClaimBlockedReason::NotRead(_) => (EventKind::Warning, "ManifestsNotRead"),
            };
            world.emit(kind, reason, &format!("claim {}", claim.full_name()), why.text());
        }
        let mut notes: BTreeMap<ObjectKey, String> =
            not_asked.iter().map(|(claim, why)| (claim.clone(), why.text().to_owned())).collect();
        for record in self.machine.records() {
            let claim = &record.claim;
            if let Some((_, problem)) = self.machine.progress(claim) {
                let note = match problem {
                    Some(problem) => format!("volume {} could not be made: {problem}", record.name),
                    None => format!("{} is asked for volume {}", record.terms.provisioner, record.name),
                };
                let key = ObjectKey::new(Kind::PersistentVolumeClaim, &claim.namespace, &claim.name);
                notes.insert(key, note);
            }
        }
        self.not_asked = not_asked;
        sources.set_notes(notes);
    }

    /// Forgets a volume that was made here, by request. None when the object is no such volume;
    /// else what happens now, for the caller.
    pub(super) fn forget(
        &mut self,
        key: &ObjectKey,
        world: &mut World,
        sources: &mut Sources,
    ) -> Option<Result<String, RequestError>> {
        let is_made = self.machine.records().any(|record| record.name == key.name);
        if key.kind != Kind::PersistentVolume || !is_made {
            return None;
        }
        let forgotten = self.machine.forget(&key.name);
        self.due = true;
        Some(forgotten.map_err(|error| RequestError::Conflict(error.to_string())).map(|commands| {
            self.execute(commands, world, sources);
            "forgotten; its data stays in the storage".to_owned()
        }))
    }

    /// Notes that a claim of this name that no source has was deleted. Returns whether a volume was
    /// made for one.
    pub(super) fn delete_missing_claim(&mut self, key: &ObjectKey, sources: &Sources) -> bool {
        if key.kind != Kind::PersistentVolumeClaim {
            return false;
        }
        let existing = sources.store().get(key).map(|object| object.uid.as_str());
        self.due = true;
        self.machine.delete_claim(&key.namespace, &key.name, existing)
    }
}
