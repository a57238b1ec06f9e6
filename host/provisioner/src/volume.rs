//! One volume: its next step, and the outcome of a step.

use volhost_model::BackOff;

use crate::Time;
use crate::command::{ClaimState, JobOutcome, JobStep, ProvisionerCommand, Severity};
use crate::missing::{self, MissingClaim};
use crate::record::{ClaimName, CreatedStorage, Phase, ProvisionRecord};
use crate::terms::Reclaim;

/// A volume, and what is known of it beside its record.
#[derive(Debug)]
pub(crate) struct ProvisionedVolume {
    pub(crate) record: ProvisionRecord,
    /// The job that runs.
    pub(crate) running: Option<JobStep>,
    /// The record on disk equals this one.
    pub(crate) kept: bool,
    /// The storage may have it although it is not known to.
    pub(crate) may_exist: bool,
    /// What `may_exist` was before the job that runs.
    pub(crate) may_have_existed: bool,
    pub(crate) retry_at: Option<Time>,
    pub(crate) failures: u32,
    /// Why the last try failed.
    pub(crate) problem: Option<String>,
    /// The size that the storage has refused.
    pub(crate) refused_size: Option<u64>,
    /// An event has reported that pods still use it.
    pub(crate) reported_used: bool,
    /// The claim's absence, as seen by this run.
    pub(crate) missing: MissingClaim,
    /// The last message about that.
    pub(crate) missing_message: Option<String>,
}

impl ProvisionedVolume {
    pub(crate) fn new(record: ProvisionRecord) -> Self {
        Self {
            record,
            running: None,
            kept: false,
            may_exist: false,
            may_have_existed: false,
            retry_at: None,
            failures: 0,
            problem: None,
            refused_size: None,
            reported_used: false,
            missing: MissingClaim::default(),
            missing_message: None,
        }
    }

    pub(crate) fn is_for(&self, claim: &ClaimName) -> bool {
        self.record.claim == *claim && self.is_a_claims()
    }

    /// Whether it belongs to a claim still.
    pub(crate) fn is_a_claims(&self) -> bool {
        matches!(self.record.phase, Phase::Asked | Phase::Made(_) | Phase::Undoing(_))
    }

    /// When it has to be examined again without an event.
    pub(crate) fn next_wake(&self) -> Option<Time> {
        match self.running {
            Some(_) => None,
            None => self.retry_at.or_else(|| self.missing.next_wake()),
        }
    }

    /// Takes note that the claim was deleted.
    pub(crate) fn state_deletion(&mut self) {
        self.kept &= self.record.deletion_stated;
        self.record.deletion_stated = true;
    }

    /// The state of the claim, by the rules for missing claims. Only a created volume can be lost.
    pub(crate) fn judged(
        &mut self,
        now: Time,
        grace: Time,
        claim_state: ClaimState,
        commands: &mut Vec<ProvisionerCommand>,
    ) -> ClaimState {
        if !matches!(self.record.phase, Phase::Made(_)) {
            return match claim_state {
                ClaimState::Missing { in_use } => ClaimState::Gone { in_use },
                other => other,
            };
        }
        match claim_state {
            ClaimState::Unknown | ClaimState::Unread => self.missing.forget(),
            ClaimState::Wants { .. } => self.is_back(commands),
            // Its release writes the record.
            ClaimState::Gone { in_use: false } => self.record.deletion_stated = true,
            ClaimState::Gone { in_use: true } => self.state_deletion(),
            ClaimState::Missing { in_use } if self.record.deletion_stated => return ClaimState::Gone { in_use },
            ClaimState::Missing { in_use } => return self.is_missing(now, grace, in_use, commands),
        }
        claim_state
    }

    fn is_back(&mut self, commands: &mut Vec<ProvisionerCommand>) {
        self.missing.forget();
        self.missing_message = None;
        let was_missing = self.record.missing_since.take().is_some();
        self.record.missing_for = 0;
        let was_deleted = std::mem::take(&mut self.record.deletion_stated);
        if was_missing || was_deleted {
            self.kept = false;
            let message = format!("it exists again, and keeps its volume {}", self.record.name);
            commands.push(self.claim_event(Severity::Normal, "ClaimFound", message));
        }
    }

    fn is_missing(
        &mut self,
        now: Time,
        grace: Time,
        in_use: bool,
        commands: &mut Vec<ProvisionerCommand>,
    ) -> ClaimState {
        if grace == 0 {
            return ClaimState::Gone { in_use };
        }
        // The message shows when it was missed first. A clock that was turned back puts that into
        // the future.
        let since = self.record.missing_since.filter(|since| *since <= now).unwrap_or(now);
        self.kept &= self.record.missing_since == Some(since);
        self.record.missing_since = Some(since);
        let due = self.missing.is_missing(now, &mut self.record.missing_for, grace);
        if due <= now {
            self.missing.is_over();
            return ClaimState::Gone { in_use };
        }
        if self.missing.reminds(now, due) {
            // The time that has been counted so far is written down.
            self.kept = false;
            let (name, claim) = (&self.record.name, self.record.claim.full_name());
            let message = missing::message(name, &claim, self.record.terms.reclaim, since, due, now);
            commands.push(self.claim_event(Severity::Warning, "ClaimMissing", message.clone()));
            self.missing_message = Some(message);
        }
        ClaimState::Unknown
    }

    /// What is to be done now.
    pub(crate) fn next(&mut self, claim_state: ClaimState, commands: &mut Vec<ProvisionerCommand>) -> Option<JobStep> {
        match (self.record.phase.clone(), claim_state) {
            (_, ClaimState::Unread) => None,
            (Phase::Asked, ClaimState::Gone { .. }) if !self.may_exist => Some(JobStep::Forget),
            (Phase::Asked, ClaimState::Unknown) if !self.may_exist => None,
            (Phase::Asked, _) => {
                if self.failures == 0 {
                    let message = format!("{} is asked for volume {}", self.record.terms.provisioner, self.record.name);
                    commands.push(self.claim_event(Severity::Normal, "Provisioning", message));
                }
                self.may_have_existed = std::mem::replace(&mut self.may_exist, true);
                Some(JobStep::Create)
            }
            (Phase::Undoing(_), _) => Some(JobStep::Delete),
            (Phase::Made(_) | Phase::Forgotten, _) if !self.kept => Some(JobStep::Keep),
            // Announced once the record says it: the deletion that the event announces then
            // survives a crash.
            (Phase::Made(_), ClaimState::Gone { in_use: true }) => {
                if !std::mem::replace(&mut self.reported_used, true) {
                    let message = "its claim is gone, and pods of this node use it; it stays until they are gone, too";
                    commands.push(self.event(Severity::Normal, "VolumeStillUsed", message.to_owned()));
                }
                None
            }
            (Phase::Made(made), ClaimState::Wants { bytes, may_grow }) if bytes > made.capacity => {
                self.next_growth(bytes, may_grow, commands)
            }
            (Phase::Made(made), ClaimState::Gone { in_use: false }) => {
                self.record.phase = Phase::Released(made);
                self.kept = false;
                self.problem = None;
                commands.push(ProvisionerCommand::Show(Box::new(self.record.clone())));
                Some(match self.record.terms.reclaim {
                    Reclaim::Delete => JobStep::Delete,
                    Reclaim::Retain => JobStep::Keep,
                })
            }
            (Phase::Released(_), _) => match self.record.terms.reclaim {
                Reclaim::Delete => Some(JobStep::Delete),
                Reclaim::Retain => (!self.kept).then_some(JobStep::Keep),
            },
            // A claim that is missing is judged before: see `judged`.
            (Phase::Made(_) | Phase::Forgotten, _) => None,
        }
    }

    fn next_growth(&mut self, bytes: u64, may_grow: bool, commands: &mut Vec<ProvisionerCommand>) -> Option<JobStep> {
        if may_grow {
            self.refused_size = None;
            return Some(JobStep::Grow(bytes));
        }
        if self.refused_size.replace(bytes) != Some(bytes) {
            let message = format!(
                "it asks for {bytes} bytes now, and volume {} keeps its size: allowVolumeExpansion of StorageClass {} is not true",
                self.record.name, self.record.terms.class
            );
            commands.push(self.claim_event(Severity::Warning, "VolumeResizeFailed", message));
        }
        None
    }

    /// Records the outcome of a step; returns whether nothing is left.
    pub(crate) fn took(
        &mut self,
        now: Time,
        step: JobStep,
        outcome: JobOutcome,
        commands: &mut Vec<ProvisionerCommand>,
    ) -> bool {
        let problem = match (step, outcome) {
            (JobStep::Create, JobOutcome::Created(made)) => return self.created(now, made, commands),
            (JobStep::Grow(_), JobOutcome::Grown(bytes)) => {
                self.succeeded();
                if let Phase::Made(made) = &mut self.record.phase {
                    made.capacity = bytes;
                }
                self.kept = false;
                let message = format!("volume {} has {bytes} bytes now", self.record.name);
                commands.push(self.claim_event(Severity::Normal, "VolumeResizeSuccessful", message));
                return false;
            }
            (JobStep::Keep, JobOutcome::Done) => {
                self.succeeded();
                self.kept = true;
                commands.extend(shown(&self.record).then(|| ProvisionerCommand::Show(Box::new(self.record.clone()))));
                return false;
            }
            (JobStep::Delete, JobOutcome::Done) if matches!(self.record.phase, Phase::Undoing(_)) => {
                // The failure that led here decides when it is asked for again.
                self.record.phase = Phase::Asked;
                self.may_exist = false;
                self.retry_at = Some(now.saturating_add(BackOff::KUBELET.micros(self.failures)));
                return false;
            }
            (JobStep::Delete, JobOutcome::Done) => {
                let message = format!("{} has deleted it", self.record.terms.provisioner);
                commands.push(self.event(Severity::Normal, "VolumeDeleted", message));
                return true;
            }
            (JobStep::Forget, JobOutcome::Done) => return true,
            (JobStep::Create, JobOutcome::Failed(why)) => {
                self.may_exist = false;
                why
            }
            (JobStep::Create, JobOutcome::NotBegun(why)) => {
                self.may_exist = self.may_have_existed;
                why
            }
            (_, JobOutcome::Failed(why) | JobOutcome::Uncertain(why) | JobOutcome::NotBegun(why)) => why,
            (_, JobOutcome::Created(_) | JobOutcome::Grown(_) | JobOutcome::Done) => {
                "it was answered out of turn".to_owned()
            }
        };
        self.failed(now, step, problem, commands);
        false
    }

    fn created(&mut self, now: Time, mut made: CreatedStorage, commands: &mut Vec<ProvisionerCommand>) -> bool {
        let asked = self.record.wanted.bytes;
        if made.capacity == 0 {
            // The storage may leave the capacity out.
            made.capacity = asked;
        }
        if made.capacity < asked {
            let problem = format!(
                "the storage created a volume of {} bytes, and {asked} were requested; it is deleted again",
                made.capacity
            );
            self.record.phase = Phase::Undoing(made);
            self.failed(now, JobStep::Create, problem, commands);
            self.retry_at = None;
            return false;
        }
        let message = format!("volume {} of {} bytes was created", self.record.name, made.capacity);
        self.record.phase = Phase::Made(made);
        self.kept = false;
        self.succeeded();
        commands.push(self.claim_event(Severity::Normal, "ProvisioningSucceeded", message));
        false
    }

    fn succeeded(&mut self) {
        self.failures = 0;
        self.retry_at = None;
        self.problem = None;
    }

    fn failed(&mut self, now: Time, step: JobStep, problem: String, commands: &mut Vec<ProvisionerCommand>) {
        self.failures = self.failures.saturating_add(1);
        self.retry_at = Some(now.saturating_add(BackOff::KUBELET.micros(self.failures)));
        commands.push(match step {
            JobStep::Create => self.claim_event(Severity::Warning, "ProvisioningFailed", problem.clone()),
            JobStep::Grow(_) => self.claim_event(Severity::Warning, "VolumeResizeFailed", problem.clone()),
            JobStep::Delete => self.event(Severity::Warning, "VolumeFailedDelete", problem.clone()),
            JobStep::Keep | JobStep::Forget => self.event(Severity::Warning, "VolumeNotRecorded", problem.clone()),
        });
        self.problem = Some(problem);
    }

    fn event(&self, severity: Severity, reason: &'static str, message: String) -> ProvisionerCommand {
        ProvisionerCommand::Emit { severity, reason, object: format!("volume {}", self.record.name), message }
    }

    fn claim_event(&self, severity: Severity, reason: &'static str, message: String) -> ProvisionerCommand {
        ProvisionerCommand::Emit {
            severity,
            reason,
            object: format!("claim {}", self.record.claim.full_name()),
            message,
        }
    }
}

/// Whether a record is one of a volume that users see.
pub(crate) fn shown(record: &ProvisionRecord) -> bool {
    matches!(record.phase, Phase::Made(_) | Phase::Released(_))
}
