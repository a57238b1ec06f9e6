//! One volume: its next step, and the outcome of a step.

use volhost_model::BackOff;

use crate::Time;
use crate::command::{Command, Outcome, Severity, Standing, Step};
use crate::missing::{self, Missing};
use crate::record::{ClaimName, Made, Phase, Record};
use crate::terms::Reclaim;

/// A volume, and what is known of it beside its record.
#[derive(Debug)]
pub(crate) struct Volume {
    pub(crate) record: Record,
    /// The job that runs.
    pub(crate) running: Option<Step>,
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
    pub(crate) missing: Missing,
    /// The last message about that.
    pub(crate) missing_message: Option<String>,
}

impl Volume {
    pub(crate) fn new(record: Record) -> Self {
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
            missing: Missing::default(),
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
        standing: Standing,
        commands: &mut Vec<Command>,
    ) -> Standing {
        if !matches!(self.record.phase, Phase::Made(_)) {
            return match standing {
                Standing::Missing { in_use } => Standing::Gone { in_use },
                other => other,
            };
        }
        match standing {
            Standing::Unknown | Standing::Unread => self.missing.forget(),
            Standing::Wants { .. } => self.is_back(commands),
            // Its release writes the record.
            Standing::Gone { in_use: false } => self.record.deletion_stated = true,
            Standing::Gone { in_use: true } => self.state_deletion(),
            Standing::Missing { in_use } if self.record.deletion_stated => return Standing::Gone { in_use },
            Standing::Missing { in_use } => return self.is_missing(now, grace, in_use, commands),
        }
        standing
    }

    fn is_back(&mut self, commands: &mut Vec<Command>) {
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

    fn is_missing(&mut self, now: Time, grace: Time, in_use: bool, commands: &mut Vec<Command>) -> Standing {
        if grace == 0 {
            return Standing::Gone { in_use };
        }
        // The message shows when it was missed first. A clock that was turned back puts that into the future.
        let since = self.record.missing_since.filter(|since| *since <= now).unwrap_or(now);
        self.kept &= self.record.missing_since == Some(since);
        self.record.missing_since = Some(since);
        let due = self.missing.is_missing(now, &mut self.record.missing_for, grace);
        if due <= now {
            self.missing.is_over();
            return Standing::Gone { in_use };
        }
        if self.missing.reminds(now, due) {
            // The time that has been counted so far is written down.
            self.kept = false;
            let (name, claim) = (&self.record.name, self.record.claim.full_name());
            let message = missing::message(name, &claim, self.record.terms.reclaim, since, due, now);
            commands.push(self.claim_event(Severity::Warning, "ClaimMissing", message.clone()));
            self.missing_message = Some(message);
        }
        Standing::Unknown
    }

    /// What is to be done now.
    pub(crate) fn next(&mut self, standing: Standing, commands: &mut Vec<Command>) -> Option<Step> {
        match (self.record.phase.clone(), standing) {
            (_, Standing::Unread) => None,
            (Phase::Asked, Standing::Gone { .. }) if !self.may_exist => Some(Step::Forget),
            (Phase::Asked, Standing::Unknown) if !self.may_exist => None,
            (Phase::Asked, _) => {
                if self.failures == 0 {
                    let message = format!("{} is asked for volume {}", self.record.terms.provisioner, self.record.name);
                    commands.push(self.claim_event(Severity::Normal, "Provisioning", message));
                }
                self.may_have_existed = std::mem::replace(&mut self.may_exist, true);
                Some(Step::Create)
            }
            (Phase::Undoing(_), _) => Some(Step::Delete),
            (Phase::Made(_) | Phase::Forgotten, _) if !self.kept => Some(Step::Keep),
            // Announced once the record says it: the deletion that the event announces then survives a crash.
            (Phase::Made(_), Standing::Gone { in_use: true }) => {
                if !std::mem::replace(&mut self.reported_used, true) {
                    let message = "its claim is gone, and pods of this node use it; it stays until they are gone, too";
                    commands.push(self.event(Severity::Normal, "VolumeStillUsed", message.to_owned()));
                }
                None
            }
            (Phase::Made(made), Standing::Wants { bytes, may_grow }) if bytes > made.capacity => {
                self.next_growth(bytes, may_grow, commands)
            }
            (Phase::Made(made), Standing::Gone { in_use: false }) => {
                self.record.phase = Phase::Released(made);
                self.kept = false;
                self.problem = None;
                commands.push(Command::Show(Box::new(self.record.clone())));
                Some(match self.record.terms.reclaim {
                    Reclaim::Delete => Step::Delete,
                    Reclaim::Retain => Step::Keep,
                })
            }
            (Phase::Released(_), _) => match self.record.terms.reclaim {
                Reclaim::Delete => Some(Step::Delete),
                Reclaim::Retain => (!self.kept).then_some(Step::Keep),
            },
            // A claim that is missing is judged before: see `judged`.
            (Phase::Made(_) | Phase::Forgotten, _) => None,
        }
    }

    fn next_growth(&mut self, bytes: u64, may_grow: bool, commands: &mut Vec<Command>) -> Option<Step> {
        if may_grow {
            self.refused_size = None;
            return Some(Step::Grow(bytes));
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

    /// Takes note of what a step has brought; whether nothing is left.
    pub(crate) fn took(&mut self, now: Time, step: Step, outcome: Outcome, commands: &mut Vec<Command>) -> bool {
        let problem = match (step, outcome) {
            (Step::Create, Outcome::Created(made)) => return self.created(now, made, commands),
            (Step::Grow(_), Outcome::Grown(bytes)) => {
                self.succeeded();
                if let Phase::Made(made) = &mut self.record.phase {
                    made.capacity = bytes;
                }
                self.kept = false;
                let message = format!("volume {} has {bytes} bytes now", self.record.name);
                commands.push(self.claim_event(Severity::Normal, "VolumeResizeSuccessful", message));
                return false;
            }
            (Step::Keep, Outcome::Done) => {
                self.succeeded();
                self.kept = true;
                commands.extend(shown(&self.record).then(|| Command::Show(Box::new(self.record.clone()))));
                return false;
            }
            (Step::Delete, Outcome::Done) if matches!(self.record.phase, Phase::Undoing(_)) => {
                // The failure that led here decides when it is asked for again.
                self.record.phase = Phase::Asked;
                self.may_exist = false;
                self.retry_at = Some(now.saturating_add(BackOff::KUBELET.micros(self.failures)));
                return false;
            }
            (Step::Delete, Outcome::Done) => {
                let message = format!("{} has deleted it", self.record.terms.provisioner);
                commands.push(self.event(Severity::Normal, "VolumeDeleted", message));
                return true;
            }
            (Step::Forget, Outcome::Done) => return true,
            (Step::Create, Outcome::Failed(why)) => {
                self.may_exist = false;
                why
            }
            (Step::Create, Outcome::NotBegun(why)) => {
                self.may_exist = self.may_have_existed;
                why
            }
            (_, Outcome::Failed(why) | Outcome::Uncertain(why) | Outcome::NotBegun(why)) => why,
            (_, Outcome::Created(_) | Outcome::Grown(_) | Outcome::Done) => "it was answered out of turn".to_owned(),
        };
        self.failed(now, step, problem, commands);
        false
    }

    fn created(&mut self, now: Time, mut made: Made, commands: &mut Vec<Command>) -> bool {
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
            self.failed(now, Step::Create, problem, commands);
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

    fn failed(&mut self, now: Time, step: Step, problem: String, commands: &mut Vec<Command>) {
        self.failures = self.failures.saturating_add(1);
        self.retry_at = Some(now.saturating_add(BackOff::KUBELET.micros(self.failures)));
        commands.push(match step {
            Step::Create => self.claim_event(Severity::Warning, "ProvisioningFailed", problem.clone()),
            Step::Grow(_) => self.claim_event(Severity::Warning, "VolumeResizeFailed", problem.clone()),
            Step::Delete => self.event(Severity::Warning, "VolumeFailedDelete", problem.clone()),
            Step::Keep | Step::Forget => self.event(Severity::Warning, "VolumeNotRecorded", problem.clone()),
        });
        self.problem = Some(problem);
    }

    fn event(&self, severity: Severity, reason: &'static str, message: String) -> Command {
        Command::Tell { severity, reason, object: format!("volume {}", self.record.name), message }
    }

    fn claim_event(&self, severity: Severity, reason: &'static str, message: String) -> Command {
        Command::Tell { severity, reason, object: format!("claim {}", self.record.claim.full_name()), message }
    }
}

/// Whether a record is one of a volume that users see.
pub(crate) fn shown(record: &Record) -> bool {
    matches!(record.phase, Phase::Made(_) | Phase::Released(_))
}
