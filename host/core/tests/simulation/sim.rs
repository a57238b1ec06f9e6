//! The driver: chooses what happens next, hands it to the machine, and carries out what the machine answers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use volhost_core::config::Mutation;
use volhost_core::{
    BACKOFF_INITIAL, Command, Config, Core, DesiredPod, Event, Operation, OperationId, OperationReport, Time, WaiterId,
};
use volhost_model::names::{PodUid, UniqueVolumeName};

use crate::brief::brief;
use crate::random::Random;
use crate::truth::{Fate, Place, Truth, any_fate};
use crate::volumes::{KINDS, desired, outer, plugin, pod, uid, unresolved};

const PODS: u64 = 6;
const TRACE_LINES: usize = 80;
const SECOND: Time = 1_000_000;

#[derive(Clone, Copy)]
pub struct Settings {
    pub seed: u64,
    pub steps: u64,
    pub mutation: Option<Mutation>,
}

/// One run. Everything that a crash of the host destroys is in `life`.
pub struct Sim {
    pub settings: Settings,
    pub random: Random,
    pub config: Config,
    pub now: Time,
    pub truth: Truth,
    /// What sources would say now.
    pub live: BTreeMap<PodUid, DesiredPod>,
    /// How often each pod's source has changed.
    pub versions: BTreeMap<PodUid, u64>,
    pub draining: bool,
    pub next_waiter: WaiterId,
    pub life: Life,
    trace: VecDeque<String>,
}

/// The machine, and what it was told and asked since it began.
pub struct Life {
    pub core: Core,
    pub running: BTreeMap<OperationId, (Operation, u64)>,
    pub last_id: OperationId,
    pub told: BTreeMap<PodUid, DesiredPod>,
    pub synced: bool,
    /// Recovery is feeding in what it finds.
    pub recovering: bool,
    pub armed: Option<Time>,
    /// Whom each waits for, and whether until it is mounted.
    pub waiting: BTreeMap<WaiterId, (PodUid, bool)>,
    /// Places recovery found and nothing has settled: not to be taken away before every source has spoken.
    pub unsettled: BTreeSet<Place>,
    /// Of those, the ones that may be taken over, with the spec's variant.
    pub intact: BTreeMap<Place, u64>,
    pub failed_at: BTreeMap<(UniqueVolumeName, Option<PodUid>, &'static str), Time>,
}

impl Life {
    pub fn new(config: Config) -> Self {
        Self {
            core: Core::new(config),
            running: BTreeMap::new(),
            last_id: 0,
            told: BTreeMap::new(),
            synced: false,
            recovering: false,
            armed: None,
            waiting: BTreeMap::new(),
            unsettled: BTreeSet::new(),
            intact: BTreeMap::new(),
            failed_at: BTreeMap::new(),
        }
    }

    /// Whatever failed on the volume may be tried at once again.
    pub fn forgive(&mut self, concerned: impl Fn(&UniqueVolumeName) -> bool) {
        self.failed_at.retain(|(volume, _, _), _| !concerned(volume));
    }
}

impl Sim {
    pub fn new(settings: Settings) -> Self {
        let mut random = Random::new(settings.seed);
        let config = Config { host_attaches: random.chance(50), mutation: settings.mutation };
        Self {
            settings,
            random,
            config,
            now: 1_700_000_000 * SECOND,
            truth: Truth::default(),
            live: BTreeMap::new(),
            versions: BTreeMap::new(),
            draining: false,
            next_waiter: 1,
            life: Life::new(config),
            trace: VecDeque::new(),
        }
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// The rule that was broken, with the last lines of the trace.
    pub fn run(&mut self) -> Result<(), String> {
        let result = (0..self.settings.steps).try_for_each(|_| self.act()).and_then(|()| self.converge());
        result.map_err(|failure| {
            let trace: Vec<String> = self.trace.drain(..).collect();
            format!("seed {} ({:?}):\n{}\n=> {failure}", self.settings.seed, self.config, trace.join("\n"))
        })
    }

    pub fn note(&mut self, line: String) {
        if self.trace.len() == TRACE_LINES {
            self.trace.pop_front();
        }
        let at = self.now % (100_000 * SECOND);
        self.trace.push_back(format!("{:>12.3} {line}", at as f64 / 1e6));
    }

    fn act(&mut self) -> Result<(), String> {
        self.now += self.random.below(50_000);
        let number = self.random.below(PODS);
        let uid = uid(number);
        match self.random.below(100) {
            0..=13 => self.tell_pod(&uid),
            14..=19 => self.pod_gone(&uid),
            20..=54 => self.end_any(),
            55..=57 => self.overdue(),
            58..=69 => self.advance(),
            70..=73 => self.source_changed(&uid),
            74 => self.plugin_changed(),
            75..=80 => self.wait(uid),
            81..=82 => self.cancel(),
            83..=89 => self.controller_speaks(),
            90..=95 => self.sources_go_on(),
            96..=97 => self.crash(),
            98 if self.random.chance(3) => self.drain(),
            _ => self.nonsense(),
        }
    }

    /// A pod with any volumes; much of it as before, so that things also stay.
    fn tell_pod(&mut self, uid: &PodUid) -> Result<(), String> {
        let before = self.live.get(uid).cloned();
        let mut told = DesiredPod { pod: pod(uid, vec![]), volumes: vec![], unresolved: vec![] };
        let mut used = vec![];
        for kind in &KINDS {
            let name = outer(kind);
            let old = before.as_ref().and_then(|pod| pod.volumes.iter().find(|volume| volume.outer_name == name));
            match (old, self.random.below(100)) {
                (_, 0..=9) => told.unresolved.push(unresolved(kind, self.random.below(2))),
                (Some(old), 10..=69) => told.volumes.push(old.clone()),
                (_, 10..=49) => {
                    let (variant, capacity) = (self.random.below(2), 10 + self.random.below(3));
                    told.volumes.push(desired(kind, uid, variant, capacity));
                }
                _ => continue,
            }
            used.push(name);
        }
        told.pod = pod(uid, used);
        self.live.insert(uid.clone(), told.clone());
        self.tell(told)
    }

    pub fn tell(&mut self, told: DesiredPod) -> Result<(), String> {
        let uid = told.pod.uid.clone();
        self.forgive_pod(&uid);
        for volume in &told.volumes {
            let place = (uid.clone(), volume.unique_name.clone());
            if self.life.intact.get(&place).is_some_and(|variant| *variant == crate::volumes::variant_of(&volume.spec))
                && !self.draining
            {
                self.life.unsettled.remove(&place);
            }
        }
        self.life.told.insert(uid.clone(), told.clone());
        self.forgive_pod(&uid);
        self.step(Event::PodDesired(told))
    }

    fn pod_gone(&mut self, uid: &PodUid) -> Result<(), String> {
        self.forgive_pod(uid);
        self.live.remove(uid);
        self.life.told.remove(uid);
        self.step(Event::PodGone { uid: uid.clone() })
    }

    fn forgive_pod(&mut self, uid: &PodUid) {
        let mounts = self.truth.mounts.keys().filter(|(pod, _)| pod == uid).map(|(_, volume)| volume.clone());
        let mut volumes: BTreeSet<UniqueVolumeName> = mounts.collect();
        volumes.extend(
            self.life.told.get(uid).into_iter().flat_map(|told| &told.volumes).map(|volume| volume.unique_name.clone()),
        );
        volumes.extend(
            self.life
                .core
                .possibly_mounted_volumes_of(uid)
                .iter()
                .map(|v| UniqueVolumeName::new(&*v.unique_name).unwrap()),
        );
        self.life.forgive(|volume| volumes.contains(volume));
    }

    fn end_any(&mut self) -> Result<(), String> {
        let ids: Vec<OperationId> = self.life.running.keys().copied().collect();
        let Some(id) = self.random.pick(&ids).copied() else {
            return self.advance();
        };
        let fate = any_fate(&mut self.random);
        self.end(id, fate)
    }

    pub fn end(&mut self, id: OperationId, fate: Fate) -> Result<(), String> {
        let (operation, version) = self.life.running.remove(&id).unwrap();
        let report = self.truth.end(&operation, version, fate, &mut self.random);
        let key = (operation.volume.clone(), operation.pod_uid.clone(), operation.kind.name());
        if report.result.is_ok() {
            self.life.forgive(|volume| *volume == operation.volume);
            if let Some(pod) = &operation.pod_uid {
                self.life.unsettled.remove(&(pod.clone(), operation.volume.clone()));
            }
        } else {
            self.life.failed_at.insert(key, self.now);
        }
        self.step(Event::OperationDone { id, report })
    }

    fn overdue(&mut self) -> Result<(), String> {
        let ids: Vec<OperationId> = self.life.running.keys().copied().collect();
        let Some(id) = self.random.pick(&ids).copied() else {
            return Ok(());
        };
        self.step(Event::OperationOverdue { id, message: "it hangs".to_owned() })
    }

    fn advance(&mut self) -> Result<(), String> {
        match self.life.armed.take() {
            Some(at) => {
                self.now = self.now.max(at);
                self.step(Event::Timer)
            }
            None => {
                self.now += self.random.below(SECOND);
                Ok(())
            }
        }
    }

    fn source_changed(&mut self, uid: &PodUid) -> Result<(), String> {
        *self.versions.entry(uid.clone()).or_default() += 1;
        self.step(Event::SourceChanged { uid: uid.clone() })
    }

    fn plugin_changed(&mut self) -> Result<(), String> {
        self.life.forgive(|_| true);
        self.step(Event::PluginChanged { plugin: plugin() })
    }

    fn wait(&mut self, uid: PodUid) -> Result<(), String> {
        let waiter = self.next_waiter;
        self.next_waiter += 1;
        let deadline = self.now + self.random.below(123 * SECOND);
        let mounted = self.random.chance(60);
        self.life.waiting.insert(waiter, (uid.clone(), mounted));
        if mounted {
            self.step(Event::WaitMounted { waiter, uid, deadline })
        } else {
            self.step(Event::WaitUnmounted { waiter, uid, deadline })
        }
    }

    fn cancel(&mut self) -> Result<(), String> {
        let waiting: Vec<WaiterId> = self.life.waiting.keys().copied().collect();
        let Some(waiter) = self.random.pick(&waiting).copied() else {
            return Ok(());
        };
        self.life.waiting.remove(&waiter);
        self.step(Event::WaitCancelled { waiter })
    }

    /// The node's status is written, or the controller reports; it attaches what is in use, and detaches the rest.
    pub fn controller_speaks(&mut self) -> Result<(), String> {
        let in_use = self.life.core.volumes_in_use();
        self.life.forgive(|_| true);
        self.step(Event::ReportedInUse(in_use.clone()))?;
        if self.config.host_attaches || self.random.chance(30) {
            return Ok(());
        }
        self.truth.attached = in_use.into_iter().collect();
        let report = self.truth.attached.iter().map(|name| (name.clone(), "/dev/sim".to_owned())).collect();
        self.life.forgive(|_| true);
        self.step(Event::NodeAttachments(report))
    }

    /// After a start, sources tell of one pod after the other, and then that they have told all.
    pub fn sources_go_on(&mut self) -> Result<(), String> {
        let untold = self.live.iter().find(|(uid, _)| !self.life.told.contains_key(*uid)).map(|(_, told)| told.clone());
        if let Some(told) = untold {
            return self.tell(told);
        }
        self.life.synced = true;
        self.life.forgive(|_| true);
        self.step(Event::SourcesSynced)
    }

    fn drain(&mut self) -> Result<(), String> {
        self.draining = true;
        self.life.forgive(|_| true);
        self.step(Event::Drain)
    }

    /// Answers and timers that nobody asked for change nothing; a clock that runs backwards is not believed.
    fn nonsense(&mut self) -> Result<(), String> {
        // What has come due meanwhile is not to be blamed on the nonsense.
        self.step(Event::WaitCancelled { waiter: 0 })?;
        let id = self.life.last_id + self.random.below(5) + 1;
        let ended = self.random.below(self.life.last_id + 1);
        let id = if self.life.running.contains_key(&ended) { id } else { ended };
        let before = (self.life.core.pods(), self.life.core.operations());
        self.step(Event::OperationDone { id, report: OperationReport::done() })?;
        self.step(Event::OperationOverdue { id, message: String::new() })?;
        if before != (self.life.core.pods(), self.life.core.operations()) {
            return Err(format!("an answer for operation {id}, which does not run, changed something"));
        }
        let (now, past) = (self.now, self.now - 3 * SECOND);
        self.now = past;
        let result = self.step(Event::WaitCancelled { waiter: 0 });
        self.now = now;
        result
    }

    /// Hands the machine one event, checks its answers one by one, then the whole.
    pub fn step(&mut self, event: Event) -> Result<(), String> {
        self.note(format!("  {}", brief(&event)));
        let timer = event == Event::Timer;
        if timer {
            self.life.armed = None;
        }
        for command in self.life.core.step(self.now, event) {
            match command {
                Command::Start(operation) => {
                    let pod = operation.pod_uid.as_ref().map(ToString::to_string).unwrap_or_default();
                    self.note(format!("      start {} {:?} {} {pod}", operation.id, operation.kind, operation.volume));
                    self.check_start(&operation)?;
                    self.life.last_id = operation.id;
                    let slot = (operation.volume.clone(), operation.pod_uid.clone());
                    self.life.failed_at.retain(|(volume, pod, name), _| {
                        (volume, pod) != (&slot.0, &slot.1) || *name == operation.kind.name()
                    });
                    let version =
                        operation.pod_uid.as_ref().and_then(|pod| self.versions.get(pod)).copied().unwrap_or(0);
                    self.life.running.insert(operation.id, (operation, version));
                }
                Command::ArmTimer(at) => {
                    if self.life.armed.is_some_and(|armed| armed <= at) {
                        return Err(format!("the timer was armed again for {at}, which is not earlier"));
                    }
                    self.life.armed = Some(at);
                }
                Command::Answer { waiter, result } => {
                    self.note(format!("      answer {waiter} {}", if result.is_ok() { "ok" } else { "failed" }));
                    let Some((uid, mounted)) = self.life.waiting.remove(&waiter) else {
                        return Err(format!("waiter {waiter} was answered though it does not wait"));
                    };
                    if result.is_ok() {
                        self.check_answer(&uid, mounted)?;
                    }
                }
                Command::Publish(_) => {}
            }
        }
        self.check_world()
    }

    /// The wait that a failed key has at least.
    pub fn shortest_wait() -> Time {
        BACKOFF_INITIAL
    }
}
