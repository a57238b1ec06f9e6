//! A node whose pods come and go, and whose operations succeed, fail, hang and end uncertain, by
//! seed.

use std::sync::Arc;

use volhost_core::{
    Config, Core, CoreCommand, DesiredPod, Event, OperationId, OperationReport, Time, UnresolvedVolume,
};
use volhost_model::{Failure, FailureClass};
use volhost_recording::Recorder;

use crate::kit::{MS, outer, plain, pod, raw, shared, staged, uid};

/// The pods that come and go.
const PODS: u64 = 12;

/// What takes the steps: the state machine, or one in which a rule is broken.
pub type Step<'a> = &'a mut dyn FnMut(Time, Event) -> Vec<CoreCommand>;

pub struct Churn {
    state: u64,
    now: Time,
    running: Vec<OperationId>,
    armed: Option<Time>,
    waiters: u64,
}

impl Churn {
    pub fn new(seed: u64) -> Self {
        Self {
            state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            now: 1_700_000_000_000 * MS,
            running: vec![],
            armed: None,
            waiters: 0,
        }
    }

    /// A number below the bound.
    fn below(&mut self, bound: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state % bound
    }

    /// Takes so many steps.
    pub fn run(&mut self, steps: u64, step: Step<'_>) {
        for _ in 0..steps {
            self.now += self.below(300) * MS;
            let event = self.event();
            for command in step(self.now, event) {
                match command {
                    CoreCommand::Start(operation) => self.running.push(operation.id),
                    CoreCommand::ArmTimer(at) => self.armed = Some(at),
                    CoreCommand::Publish(_) | CoreCommand::Answer { .. } => {}
                }
            }
        }
    }

    fn event(&mut self) -> Event {
        if let Some(at) = self.armed.filter(|at| *at <= self.now) {
            self.armed = None;
            self.now = self.now.max(at);
            return Event::Timer;
        }
        match self.below(20) {
            0..8 if !self.running.is_empty() => {
                let at = usize::try_from(self.below(self.running.len() as u64)).unwrap();
                Event::OperationDone { id: self.running.remove(at), report: self.report() }
            }
            8 if !self.running.is_empty() => {
                Event::OperationOverdue { id: self.running[0], message: "mkfs".to_owned() }
            }
            9 => Event::SourcesSynced,
            10 => {
                self.waiters += 1;
                let deadline = self.now + 2_000 * MS;
                Event::WaitMounted { waiter: self.waiters, uid: uid(&self.pod()), deadline }
            }
            11 => Event::SourceChanged { uid: uid(&self.pod()) },
            12..15 => Event::PodGone { uid: uid(&self.pod()) },
            _ => self.desired(),
        }
    }

    fn pod(&mut self) -> String {
        format!("pod-{}", self.below(PODS))
    }

    fn desired(&mut self) -> Event {
        let name = self.pod();
        let all = [plain(&name, "cache"), shared("data"), staged("media"), raw("disk"), plain(&name, "scratch")];
        let volumes: Vec<_> = all.into_iter().filter(|_| self.below(3) > 0).collect();
        let missing = self.below(6) == 0;
        let unresolved = missing.then(|| UnresolvedVolume::new(outer("lost"), "claim is not bound"));
        let mut used: Vec<_> = volumes.iter().map(|volume| volume.outer_name.clone()).collect();
        used.extend(unresolved.iter().map(|volume| volume.outer_name.clone()));
        let unresolved = unresolved.into_iter().collect();
        Event::PodDesired(DesiredPod { pod: pod(&name, used), volumes, unresolved })
    }

    fn report(&mut self) -> OperationReport {
        let class = match self.below(9) {
            0 => FailureClass::Final,
            1 => FailureClass::Uncertain,
            2 => FailureClass::Transient,
            _ => return OperationReport { device_path: Some("/dev/sdx".to_owned()), ..OperationReport::done() },
        };
        OperationReport::failed(Failure::new(class, "MountVolume.SetUp", "disk on fire"))
    }
}

/// Records so many steps of the state machine.
pub fn recorded(seed: u64, steps: u64) -> (Recorder, Core) {
    let mut core = Core::new(Config::default().with_host_attaches(true));
    let mut recorder = Recorder::new(core.clone());
    record(&mut recorder, &mut Churn::new(seed), steps, &mut |at, event| core.step(at, event));
    (recorder, core)
}

/// Records so many steps of whatever takes them.
pub fn record(recorder: &mut Recorder, churn: &mut Churn, steps: u64, step: Step<'_>) {
    churn.run(steps, &mut |at, event| {
        let commands = step(at, event.clone());
        if let Some(work) = recorder.record(at, event, Arc::new(commands.clone())) {
            work.run();
        }
        commands
    });
}
