//! The state machine: which job is run for which volume, and when.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::Time;
use crate::command::{ClaimState, Job, JobOutcome, JobStep, ProvisionerCommand, RunningJob};
use crate::record::{ClaimName, PendingClaim, Phase, ProvisionRecord};
use crate::terms::Reclaim;
use crate::volume::{ProvisionedVolume, shown};

/// How many jobs of one provisioner run at once: a driver that does not answer blocks a thread for
/// each.
const MOST_AT_ONCE: usize = 8;

/// Why a volume is not forgotten.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ForgetError {
    /// No record has the name.
    #[error("no volume {volume} was created here")]
    Unknown {
        /// The name.
        volume: String,
    },
    /// Its record is being written.
    #[error("volume {volume} is being recorded; try again")]
    Busy {
        /// The volume.
        volume: String,
    },
    /// Its reclaim policy deletes it.
    #[error("volume {volume} is being deleted already")]
    BeingDeleted {
        /// The volume.
        volume: String,
    },
    /// A claim has it.
    #[error("volume {volume} is kept for claim {claim}; remove the claim, and its reclaim policy decides")]
    InUse {
        /// The volume.
        volume: String,
        /// `namespace/name`.
        claim: String,
    },
}

/// All volumes, and their jobs.
#[derive(Debug, Default)]
pub struct Provisioner {
    volumes: BTreeMap<String, ProvisionedVolume>,
    /// How long a claim must be missing before its volume is released, in microseconds.
    grace: Time,
}

impl Provisioner {
    /// A machine that continues from these records. Shows the volumes that exist.
    #[must_use]
    pub fn restored(records: Vec<ProvisionRecord>) -> (Self, Vec<ProvisionerCommand>) {
        let mut commands = Vec::new();
        let mut volumes = BTreeMap::new();
        for record in records {
            commands.extend(shown(&record).then(|| ProvisionerCommand::Show(Box::new(record.clone()))));
            let may_exist = record.phase == Phase::Asked;
            let volume = ProvisionedVolume { kept: true, may_exist, ..ProvisionedVolume::new(record) };
            volumes.insert(volume.record.name.clone(), volume);
        }
        (Self { volumes, grace: 0 }, commands)
    }

    /// Keeps the volume of a claim that is missing for this many microseconds.
    #[must_use]
    pub fn with_grace(self, grace: Time) -> Self {
        Self { grace, ..self }
    }

    /// The records as they are now, by name.
    pub fn records(&self) -> impl Iterator<Item = &ProvisionRecord> {
        self.volumes.values().map(|volume| &volume.record)
    }

    /// The progress of the volume for this claim: its running job, and why the last try failed.
    #[must_use]
    pub fn progress(&self, claim: &ClaimName) -> Option<(Option<RunningJob>, Option<&str>)> {
        let volume = self.volumes.values().find(|volume| volume.is_for(claim))?;
        Some((volume.running.map(doing), volume.problem.as_deref()))
    }

    /// Why the last try for the volume of this name failed, if it did.
    #[must_use]
    pub fn problem(&self, name: &str) -> Option<&str> {
        let volume = self.volumes.get(name)?;
        volume.problem.as_deref().or(volume.missing_message.as_deref())
    }

    /// When to look again without an event.
    #[must_use]
    pub fn next_wake(&self) -> Option<Time> {
        self.volumes.values().filter_map(ProvisionedVolume::next_wake).min()
    }

    /// Whether volumes wait for pods to let go of them.
    #[must_use]
    pub fn waits_for_pods(&self) -> bool {
        self.volumes.values().any(|volume| volume.reported_used)
    }

    /// Whatever waits for its next try need not wait longer.
    pub fn retry_now(&mut self) {
        for volume in self.volumes.values_mut() {
            volume.retry_at = None;
        }
    }

    /// Lets what waits for its next try by this provisioner be tried at once.
    pub fn retry_provisioner_now(&mut self, provisioner: &str) {
        for volume in self.volumes.values_mut().filter(|volume| volume.record.terms.provisioner == provisioner) {
            volume.retry_at = None;
        }
    }

    /// The name of a new volume for this claim: `pvc-UID`, with a number if an earlier volume of
    /// the claim has the name.
    #[must_use]
    pub fn name_for(&self, claim: &ClaimName) -> String {
        if let Some(volume) = self.volumes.values().find(|volume| volume.is_for(claim)) {
            return volume.record.name.clone();
        }
        let first = format!("pvc-{}", claim.uid);
        let numbered = (2_u64..).map(|number| format!("{first}-{number}"));
        std::iter::once(first.clone()).chain(numbered).find(|name| !self.volumes.contains_key(name)).unwrap_or(first)
    }

    /// Forgets a released volume: it stays in the storage, and its record says only that its name
    /// was used.
    ///
    /// # Errors
    /// [`ForgetError`].
    pub fn forget(&mut self, name: &str) -> Result<Vec<ProvisionerCommand>, ForgetError> {
        let Some(volume) = self.volumes.get_mut(name).filter(|volume| volume.record.phase != Phase::Forgotten) else {
            return Err(ForgetError::Unknown { volume: name.to_owned() });
        };
        match (&volume.record.phase, volume.record.terms.reclaim) {
            (Phase::Released(_), Reclaim::Retain) if volume.running.is_none() => {
                volume.record.phase = Phase::Forgotten;
                volume.kept = false;
                Ok(vec![ProvisionerCommand::Hide(name.to_owned())])
            }
            (Phase::Released(_), Reclaim::Retain) => Err(ForgetError::Busy { volume: name.to_owned() }),
            (Phase::Released(_), Reclaim::Delete) => Err(ForgetError::BeingDeleted { volume: name.to_owned() }),
            _ => Err(ForgetError::InUse { volume: name.to_owned(), claim: volume.record.claim.full_name() }),
        }
    }

    /// Takes note that the claims of this name were deleted, but for the one with the uid `except`,
    /// which exists. Their volumes are released even if no source mentions them again. Returns
    /// whether there is such a volume.
    pub fn delete_claim(&mut self, namespace: &str, name: &str, except: Option<&str>) -> bool {
        let mut found = false;
        for volume in self.volumes.values_mut() {
            let claim = &volume.record.claim;
            let exists = except == Some(claim.uid.as_str());
            if claim.namespace == namespace && claim.name == name && !exists && volume.is_a_claims() {
                volume.state_deletion();
                found = true;
            }
        }
        found
    }

    /// Takes note of the source that has each claim now: whether it is a manifest, or none for a
    /// claim that is not there.
    pub fn note_sources(&mut self, in_manifest: impl Fn(&ClaimName) -> Option<bool>) {
        // What changes while a job writes the record is noted after it.
        for volume in self.volumes.values_mut().filter(|volume| volume.running.is_none() && volume.is_a_claims()) {
            if let Some(in_manifest) = in_manifest(&volume.record.claim) {
                volume.kept &= volume.record.in_manifest == in_manifest;
                volume.record.in_manifest = in_manifest;
            }
        }
    }

    /// Examines all volumes, and starts the jobs that are due. `wants` are the claims for which a
    /// volume is to be created.
    pub fn look(
        &mut self,
        now: Time,
        wants: Vec<PendingClaim>,
        claim_state: impl Fn(&ProvisionRecord) -> ClaimState,
    ) -> Vec<ProvisionerCommand> {
        let mut commands = Vec::new();
        for want in wants {
            self.take(want);
        }
        let mut running: BTreeMap<String, usize> = BTreeMap::new();
        for volume in self.volumes.values().filter(|volume| volume.running.is_some()) {
            *running.entry(volume.record.terms.provisioner.clone()).or_default() += 1;
        }
        for volume in self.volumes.values_mut() {
            let at_once = running.entry(volume.record.terms.provisioner.clone()).or_default();
            let waits = volume.retry_at.is_some_and(|at| at > now);
            if volume.running.is_some() || waits {
                continue;
            }
            volume.retry_at = None;
            volume.missing.begin_look();
            let claim_state = volume.judged(now, self.grace, claim_state(&volume.record), &mut commands);
            if *at_once >= MOST_AT_ONCE {
                // The end of a job causes another look.
                continue;
            }
            volume.reported_used &= matches!(claim_state, ClaimState::Gone { in_use: true });
            if let Some(step) = volume.next(claim_state, &mut commands) {
                volume.running = Some(step);
                *at_once += 1;
                commands.push(ProvisionerCommand::Run(Box::new(Job { record: volume.record.clone(), step })));
            }
        }
        commands
    }

    fn take(&mut self, want: PendingClaim) {
        if let Some(volume) = self.volumes.values_mut().find(|volume| volume.is_for(&want.claim)) {
            // What was never asked for can still be asked for otherwise.
            if volume.record.phase == Phase::Asked && !volume.may_exist && volume.running.is_none() {
                let changed = volume.record.terms != want.terms || volume.record.wanted != want.wanted;
                (volume.record.terms, volume.record.wanted) = (want.terms, want.wanted);
                if changed {
                    volume.retry_at = None;
                }
            }
            return;
        }
        let name = self.name_for(&want.claim);
        let record = ProvisionRecord::new(name.clone(), want);
        self.volumes.insert(name, ProvisionedVolume::new(record));
    }

    /// Takes note of what became of the job for the volume of this name.
    pub fn ended(&mut self, now: Time, name: &str, outcome: JobOutcome) -> Vec<ProvisionerCommand> {
        let mut commands = Vec::new();
        let other = match &outcome {
            JobOutcome::Created(made) => self.other_with(name, &made.id),
            _ => None,
        };
        let Some(volume) = self.volumes.get_mut(name) else { return commands };
        let Some(step) = volume.running.take() else { return commands };
        let outcome = match (outcome, other) {
            (JobOutcome::Created(made), Some(other)) => JobOutcome::Failed(format!(
                "the storage answers with the handle {:?}, which is that of volume {other}; it is left alone",
                made.id
            )),
            (outcome, _) => outcome,
        };
        if volume.took(now, step, outcome, &mut commands) {
            self.volumes.remove(name);
            commands.push(ProvisionerCommand::Hide(name.to_owned()));
        }
        commands
    }

    /// Another volume of the same storage that has this handle.
    fn other_with(&self, name: &str, id: &str) -> Option<String> {
        let provisioner = &self.volumes.get(name)?.record.terms.provisioner;
        let has = |volume: &&ProvisionedVolume| {
            volume.record.name != name
                && volume.record.terms.provisioner == *provisioner
                && volume.record.made().is_some_and(|made| made.id == id)
        };
        self.volumes.values().find(has).map(|volume| volume.record.name.clone())
    }
}

fn doing(step: JobStep) -> RunningJob {
    match step {
        JobStep::Create => RunningJob::Creating,
        JobStep::Keep | JobStep::Forget => RunningJob::Keeping,
        JobStep::Grow(_) => RunningJob::Growing,
        JobStep::Delete => RunningJob::Deleting,
    }
}
