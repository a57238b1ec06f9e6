//! Volumes for claims: what the provisioner is told of the world, and what becomes of its commands.
#![deny(clippy::disallowed_methods)]

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tracing::warn;
use volhost_model::view::EventKind;
use volhost_provisioner::{ClaimName, Command, Job, Outcome, Phase, Provisioner, Record, Severity, Standing, Time};

use super::executor::FromOperation;
use super::requests::RequestError;
use super::serve::Engine;
use super::sources::Sources;
use super::world::World;
use crate::provision::{self, Asked, NotAsked, Runner};
use volhost_model::clock::micros;
use volhost_objects::binding::Unbound;
use volhost_objects::populate::{PodStanding, standing};
use volhost_objects::{Content, Kind, ObjectKey, Source};
use volhost_volume_ops::worker_pool::WorkerPool;

/// How many volumes are made or deleted at once. A driver that hangs holds a thread for each of its
/// volumes.
const MAKERS: usize = 32;

/// What makes volumes for claims on this node.
#[derive(Debug)]
pub struct Provisioning {
    pub(super) machine: Provisioner,
    runner: Arc<Runner>,
    /// The threads of its jobs.
    makers: WorkerPool,
    outcomes: mpsc::UnboundedSender<FromOperation>,
    /// Something may have changed since the last look.
    due: bool,
    /// Why claims get no volume for now, as users were told.
    told: BTreeMap<ObjectKey, NotAsked>,
    /// Users were told that volumes are held.
    told_held: bool,
    restored: Vec<Command>,
    problems: Vec<String>,
}

/// Reports how a job has ended, also if its thread unwinds.
struct Promise {
    name: String,
    outcome: Option<Outcome>,
    outcomes: mpsc::UnboundedSender<FromOperation>,
}

impl Promise {
    fn fulfil(mut self, outcome: Outcome) {
        self.outcome = Some(outcome);
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        let outcome = self.outcome.take().unwrap_or_else(|| {
            Outcome::Uncertain("its thread ended early, or there was none for it; see the log".to_owned())
        });
        let name = std::mem::take(&mut self.name);
        // Nobody listens any more only when the process ends.
        let _ = self.outcomes.send(FromOperation::Provisioned { name, outcome });
    }
}

impl Provisioning {
    /// Goes on with what the records say; jobs report to `outcomes`. The volumes of missing claims are kept for `grace`. Blocks on
    /// the disk.
    ///
    /// # Errors
    /// That the records cannot be read, in words.
    pub fn restore(
        runner: Runner,
        grace: Duration,
        outcomes: mpsc::UnboundedSender<FromOperation>,
    ) -> Result<Self, String> {
        let (records, problems) = runner.records().all().map_err(|error| error.to_string())?;
        let (machine, restored) = Provisioner::restored(records);
        let machine = machine.with_grace(micros(grace));
        let problems = problems.iter().map(ToString::to_string).collect();
        let (runner, told) = (Arc::new(runner), BTreeMap::new());
        let makers = WorkerPool::eager(MAKERS);
        Ok(Self { machine, makers, runner, outcomes, due: true, told, told_held: false, restored, problems })
    }

    fn run(&self, job: Job) {
        let runner = Arc::clone(&self.runner);
        let promise = Promise { name: job.record.name.clone(), outcome: None, outcomes: self.outcomes.clone() };
        let work = move || promise.fulfil(runner.run(&job));
        // A job that is dropped answers for itself.
        if let Err((_, error)) = self.makers.push(Box::new(work)) {
            warn!(%error, "no thread can be started to make or delete a volume; it is tried again");
        }
    }
}

impl Engine {
    /// Shows the volumes of an earlier run, before sources are read.
    pub(super) fn begin_provisioning(&mut self) {
        let Some(mut provisioning) = self.provisioning.take() else { return };
        for problem in std::mem::take(&mut provisioning.problems) {
            let object = format!("path {}", provision::FOLDER);
            self.world.tell(EventKind::Warning, "RecoveryProblem", &object, &problem);
        }
        let restored = std::mem::take(&mut provisioning.restored);
        self.carry_out_provisioning(&provisioning, restored);
        self.provisioning = Some(provisioning);
    }

    /// Something that volumes for claims may depend on has changed.
    pub(super) fn provisioning_is_due(&mut self) {
        if let Some(provisioning) = &mut self.provisioning {
            provisioning.due = true;
        }
    }

    /// What waits for its next try is tried at once: a driver or a plugin is there.
    pub(super) fn hurry_provisioning(&mut self) {
        if let Some(provisioning) = &mut self.provisioning {
            provisioning.machine.hurry();
            provisioning.due = true;
        }
    }

    /// Tries at once what waits for its next try by this driver.
    pub(super) fn hurry_provisioning_by(&mut self, driver: &str) {
        if let Some(provisioning) = &mut self.provisioning {
            provisioning.machine.hurry_by(driver);
            provisioning.due = true;
        }
    }

    /// When the provisioner is to be asked although nothing happens.
    pub(super) fn next_provisioning(&self) -> Option<Time> {
        let provisioning = self.provisioning.as_ref().filter(|_| self.plugins_complete);
        provisioning.and_then(|provisioning| provisioning.machine.next_wake())
    }

    /// Takes what became of a job.
    pub(super) fn provisioned(&mut self, name: &str, outcome: Outcome) {
        let Some(mut provisioning) = self.provisioning.take() else { return };
        let commands = provisioning.machine.ended(self.world.clock.now(), name, outcome);
        provisioning.due = true;
        self.carry_out_provisioning(&provisioning, commands);
        self.provisioning = Some(provisioning);
    }

    /// Looks at all claims, if something may have changed or a try is due. Until every source has been
    /// read, only volumes are worked on that are known to be wanted.
    pub(super) fn provision(&mut self) {
        let Some(mut provisioning) = self.provisioning.take() else { return };
        let now = self.world.clock.now();
        let timed = provisioning.machine.next_wake().is_some_and(|at| at <= now);
        let freed = self.world.has_changed() && provisioning.machine.waits_for_pods();
        if (provisioning.due || timed || freed) && self.plugins_complete {
            provisioning.due = false;
            let store = self.sources.store();
            provisioning.machine.note_sources(|claim| {
                let key = ObjectKey::new(Kind::PersistentVolumeClaim, &claim.namespace, &claim.name);
                let is_there = store.get(&key).is_some_and(|object| object.uid == claim.uid);
                store.source(&key).filter(|_| is_there).map(|source| source == Source::Manifest)
            });
            // Pods may be missing that were added by request before the machine restarted; claims are not.
            let is_complete = self.sources_complete;
            let machine = &provisioning.machine;
            let mut asked =
                provision::wants(self.sources.store(), self.sources.node(), |claim| machine.name_for(claim));
            if !is_complete {
                let is_known = |claim: &ClaimName| machine.progress(claim).is_some();
                asked.leave_out_unknown(self.sources.unread_manifests(), is_known);
            }
            let Asked { wants, not_asked } = asked;
            let (world, sources) = (&self.world, &self.sources);
            let situation = Situation { world, sources, is_complete, on_node: OnceCell::new() };
            let commands = provisioning.machine.look(now, wants, |record| situation.standing(record));
            let held = provisioning.machine.records().find(|record| is_complete && situation.is_held(record)).cloned();
            self.carry_out_provisioning(&provisioning, commands);
            self.tell_not_asked(&mut provisioning, not_asked);
            self.tell_held(&mut provisioning, held);
        }
        self.provisioning = Some(provisioning);
    }

    fn carry_out_provisioning(&mut self, provisioning: &Provisioning, commands: Vec<Command>) {
        let (mut shown, mut hidden) = (Vec::new(), Vec::new());
        for command in commands {
            match command {
                Command::Run(job) => provisioning.run(*job),
                Command::Show(record) => match provision::object(&record) {
                    Ok(object) => shown.push(object),
                    Err(why) => {
                        let message =
                            format!("what {} says of it makes no PersistentVolume: {why}", record.terms.provisioner);
                        let object = format!("volume {}", record.name);
                        self.world.tell(EventKind::Warning, "ProvisioningFailed", &object, &message);
                    }
                },
                Command::Hide(name) => hidden.push(ObjectKey::persistent_volume(name)),
                Command::Tell { severity, reason, object, message } => {
                    let kind = match severity {
                        Severity::Normal => EventKind::Normal,
                        Severity::Warning => EventKind::Warning,
                    };
                    self.world.tell(kind, reason, &object, &message);
                }
            }
        }
        if !shown.is_empty() || !hidden.is_empty() {
            let effects = self.sources.provide(shown, hidden);
            self.carry_out(effects);
        }
    }

    /// Tells, once, that volumes stay although their claims aren't there.
    fn tell_held(&mut self, provisioning: &mut Provisioning, held: Option<Record>) {
        let Some(record) = held.filter(|_| !std::mem::replace(&mut provisioning.told_held, true)) else { return };
        let message = format!(
            "no manifest was there since the start, so claim {} and others of manifests are not known to be gone: their volumes stay. Mount the manifest folder, or put any manifest into it, and their reclaim policies decide",
            record.claim.full_name()
        );
        self.world.tell(EventKind::Warning, "VolumesHeld", &format!("volume {}", record.name), &message);
    }

    /// Tells, once, why claims get no volume for now; pods that wait for them show it, too.
    fn tell_not_asked(&mut self, provisioning: &mut Provisioning, not_asked: BTreeMap<ObjectKey, NotAsked>) {
        for (claim, why) in &not_asked {
            if provisioning.told.get(claim) == Some(why) {
                continue;
            }
            let (kind, reason) = match why {
                NotAsked::Waits(_) => (EventKind::Normal, "WaitForFirstConsumer"),
                NotAsked::Wrong(_) => (EventKind::Warning, "ProvisioningFailed"),
                NotAsked::NotRead(_) => (EventKind::Warning, "ManifestsNotRead"),
            };
            self.world.tell(kind, reason, &format!("claim {}", claim.full_name()), why.text());
        }
        let mut notes: BTreeMap<ObjectKey, String> =
            not_asked.iter().map(|(claim, why)| (claim.clone(), why.text().to_owned())).collect();
        for record in provisioning.machine.records() {
            let claim = &record.claim;
            if let Some((_, problem)) = provisioning.machine.progress(claim) {
                let note = match problem {
                    Some(problem) => format!("volume {} could not be made: {problem}", record.name),
                    None => format!("{} is asked for volume {}", record.terms.provisioner, record.name),
                };
                let key = ObjectKey::new(Kind::PersistentVolumeClaim, &claim.namespace, &claim.name);
                notes.insert(key, note);
            }
        }
        provisioning.told = not_asked;
        if let Some(effects) = self.sources.set_notes(notes) {
            self.carry_out(effects);
        }
    }

    /// Forgets a volume that was made here, by request. None when it is not one; else what happens now, in words.
    pub(super) fn forget_made(&mut self, key: &ObjectKey) -> Option<Result<String, RequestError>> {
        let made = self.provisioning.as_ref().and_then(|all| all.machine.records().find(|one| one.name == key.name));
        if key.kind == Kind::PersistentVolume && made.is_some() {
            let mut provisioning = self.provisioning.take()?;
            let forgotten = provisioning.machine.forget(&key.name);
            provisioning.due = true;
            let outcome = forgotten.map_err(RequestError::Conflict).map(|commands| {
                self.carry_out_provisioning(&provisioning, commands);
                "forgotten; what it holds stays in the storage".to_owned()
            });
            self.provisioning = Some(provisioning);
            return Some(outcome);
        }
        None
    }

    /// What happens after an object was removed by request, in words.
    pub(super) fn removal(&self, key: &ObjectKey) -> String {
        match key.kind {
            Kind::PersistentVolumeClaim if self.provisioning.is_some() => {
                "removed; a volume that was made for it goes by its reclaim policy, when no pod uses it".to_owned()
            }
            _ => "removed; no storage is deleted".to_owned(),
        }
    }
}

impl Engine {
    /// Takes note that a claim of this name that no source has was deleted. Returns whether a volume was made for one.
    pub(super) fn delete_missing_claim(&mut self, key: &ObjectKey) -> bool {
        let Some(provisioning) = self.provisioning.as_mut().filter(|_| key.kind == Kind::PersistentVolumeClaim) else {
            return false;
        };
        let existing = self.sources.store().get(key).map(|object| object.uid.as_str());
        provisioning.due = true;
        provisioning.machine.delete_claim(&key.namespace, &key.name, existing)
    }
}

/// How claims stand, for the provisioner.
struct Situation<'a> {
    world: &'a World,
    sources: &'a Sources,
    /// Every source has been read since the start.
    is_complete: bool,
    /// The names of the volumes that the node has or is to have.
    on_node: OnceCell<BTreeSet<String>>,
}

impl Situation<'_> {
    fn standing(&self, record: &Record) -> Standing {
        match self.standing_in_sources(record) {
            wants @ Standing::Wants { .. } if self.is_complete || !matches!(record.phase, Phase::Released(_)) => wants,
            standing if self.is_complete => standing,
            _ => Standing::Unread,
        }
    }

    /// Returns the state of the claim according to what has been read.
    fn standing_in_sources(&self, record: &Record) -> Standing {
        let store = self.sources.store();
        let claim = &record.claim;
        let key = ObjectKey::new(Kind::PersistentVolumeClaim, &claim.namespace, &claim.name);
        let Some(object) = store.get(&key) else {
            let wanted = store.users_of(&key).filter_map(|pod| store.pod(pod));
            let mut wanted = wanted.map(|pod| standing(pod, self.sources.node()) == PodStanding::Runs);
            let in_use = self.is_on_node(record) || wanted.any(|runs| runs);
            // What was stated counts, whatever else cannot be read.
            if record.deletion_stated {
                return Standing::Gone { in_use };
            }
            if self.sources.may_miss_claim(&key) || self.is_held(record) {
                return Standing::Unknown;
            }
            return Standing::Missing { in_use };
        };
        let Content::Claim(found) = &object.content else { return Standing::Unknown };
        let other = match store.volume_of_claim(&key) {
            Some(Ok(volume)) => volume.name.as_str() != record.name,
            // It names another volume, or one that another claim has.
            Some(Err(Unbound::MissingVolume(name))) => *name != record.name,
            _ => false,
        };
        if found.uid == claim.uid && found.deleted {
            return Standing::Gone { in_use: self.is_on_node(record) };
        }
        if found.uid != claim.uid || other {
            return Standing::Missing { in_use: self.is_on_node(record) };
        }
        let may_grow = store.storage_classes().any(|class| class.name == record.terms.class && class.may_grow);
        Standing::Wants { bytes: found.request, may_grow }
    }

    /// Whether the claim was in a manifest and was not deleted, and no manifest at all was seen since.
    fn is_held(&self, record: &Record) -> bool {
        record.in_manifest && !record.deletion_stated && !self.sources.has_seen_manifests()
    }

    /// Whether the volume is mounted, staged or attached here, or may be, or is to be.
    fn is_on_node(&self, record: &Record) -> bool {
        let names = self.on_node.get_or_init(|| {
            let pods = self.world.core.pods().into_iter().flat_map(|pod| pod.volumes);
            pods.chain(self.world.core.unused_volumes()).map(|volume| volume.spec_name).collect()
        });
        names.contains(&record.name)
    }
}
