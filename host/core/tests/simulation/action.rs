//! The actions of a run. An action is numbers alone, valid in every state: so any part of a run is
//! a run, and can be tried alone when a failing one is made short.

use crate::kinds::{KINDS, PLUGINS, PODS, PodId, SIZES, VARIANTS};
use crate::random::Random;

/// How an operation is to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OperationEnd {
    Done,
    Final,
    /// The device fails, before the pod's mount is tried.
    FinalAtDevice,
    Uncertain,
    /// The device's state is not known, and the pod's mount is not tried.
    UncertainAtDevice,
    Transient,
    /// It says that it is done, and it is not.
    Lie,
}

/// A source's new report on one kind of a pod's volumes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    Keep,
    Drop,
    Unresolve(u8),
    Take { handle: u8, variant: u8, size: u8 },
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Action {
    /// A source reports a pod.
    ReportPod {
        pod: PodId,
        choices: [Choice; KINDS.len()],
        label: u8,
    },
    Gone {
        pod: PodId,
    },
    /// One of the running operations ends.
    End {
        pick: u16,
        fate: OperationEnd,
        luck: u8,
    },
    /// The late effect of an operation of uncertain end happens now.
    Late {
        pick: u16,
    },
    Overdue {
        pick: u16,
    },
    /// An operation does not end until it is released, or the host dies.
    Hang {
        pick: u16,
    },
    Release,
    /// The armed timer goes off.
    Timer,
    Pass {
        micros: u32,
    },
    /// The clock jumps.
    Jump {
        back: bool,
        seconds: u16,
    },
    SourceChanged {
        pod: PodId,
    },
    /// A plugin is quarantined or unloaded, or comes back.
    Quarantine {
        plugin: usize,
    },
    PluginChanged {
        plugin: usize,
    },
    Wait {
        pod: PodId,
        mounted: bool,
        seconds: u8,
    },
    Cancel {
        pick: u16,
    },
    /// The node's status is written.
    Status,
    /// The controller attaches what is in use and detaches the rest, one volume at a time, and
    /// perhaps reports it.
    Controller {
        pick: u16,
    },
    Report,
    /// Another node takes the volume, or gives it back.
    Elsewhere {
        pick: u16,
    },
    /// Another process unmounts a pod's mount, and the host notices.
    Vanish {
        pick: u16,
    },
    /// Another process unmounts a staging mount, and the host notices.
    VanishDevice {
        pick: u16,
    },
    /// A plugin does not find an attachment, which has gone or has not.
    NotAttached {
        pick: u16,
        gone: bool,
    },
    /// After a start: the next source reports a pod, or that there are no more.
    Source,
    Crash {
        luck: u64,
    },
    Drain,
    DrainEnded,
    /// An event that changes nothing.
    Idle,
    /// Answers without a question.
    Echo {
        pick: u16,
    },
    /// An observer looks at everything.
    Look,
}

/// An action, and the time that passes before it, in microseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Timed {
    pub after: u32,
    pub action: Action,
}

fn small(random: &mut Random, limit: u8) -> u8 {
    u8::try_from(random.below(u64::from(limit))).unwrap()
}

fn index(random: &mut Random, limit: usize) -> usize {
    usize::try_from(random.below(limit as u64)).unwrap()
}

fn any_fate(random: &mut Random, lies: bool) -> OperationEnd {
    match random.below(100) {
        0..=7 => OperationEnd::Final,
        8..=13 => OperationEnd::FinalAtDevice,
        14..=27 => OperationEnd::Uncertain,
        28..=33 => OperationEnd::UncertainAtDevice,
        34..=41 => OperationEnd::Transient,
        42..=43 if lies => OperationEnd::Lie,
        _ => OperationEnd::Done,
    }
}

fn any_choice(random: &mut Random) -> Choice {
    match random.below(100) {
        0..=7 => Choice::Unresolve(small(random, 2)),
        8..=57 => Choice::Keep,
        58..=79 => Choice::Drop,
        _ => Choice::Take { handle: small(random, 2), variant: small(random, VARIANTS), size: small(random, SIZES) },
    }
}

impl Timed {
    /// The next thing that happens; plugins of some runs lie.
    pub fn any(random: &mut Random, lies: bool) -> Self {
        let after = u32::try_from(random.below(50_000)).unwrap();
        Self { after, action: any_action(random, lies) }
    }
}

fn any_action(random: &mut Random, lies: bool) -> Action {
    let pod = index(random, PODS);
    let plugin = index(random, PLUGINS);
    let pick = u16::try_from(random.below(1 << 16)).unwrap();
    match random.below(1000) {
        0..=89 => {
            Action::ReportPod { pod, choices: std::array::from_fn(|_| any_choice(random)), label: small(random, 2) }
        }
        90..=129 => Action::Gone { pod },
        130..=529 => Action::End { pick, fate: any_fate(random, lies), luck: small(random, u8::MAX) },
        530..=559 => Action::Late { pick },
        560..=574 => Action::Overdue { pick },
        575..=579 => Action::Hang { pick },
        580..=583 => Action::Release,
        584..=683 => Action::Timer,
        684..=703 => Action::Pass { micros: u32::try_from(random.below(2_000_000)).unwrap() },
        704..=708 => Action::Jump { back: random.chance(50), seconds: u16::try_from(random.below(600)).unwrap() },
        709..=733 => Action::SourceChanged { pod },
        734..=738 => Action::Quarantine { plugin },
        739..=743 => Action::PluginChanged { plugin },
        744..=793 => Action::Wait { pod, mounted: random.chance(60), seconds: small(random, 124) },
        794..=803 => Action::Cancel { pick },
        804..=833 => Action::Status,
        834..=873 => Action::Controller { pick },
        874..=893 => Action::Report,
        894..=897 => Action::Elsewhere { pick },
        898..=937 => Action::Source,
        938..=944 => Action::Crash { luck: random.next() },
        945 if random.chance(30) => Action::Drain,
        946 if random.chance(60) => Action::DrainEnded,
        946..=975 => Action::Idle,
        976..=985 => Action::Echo { pick },
        986..=990 => Action::Look,
        991..=993 => Action::Vanish { pick },
        994..=996 => Action::VanishDevice { pick },
        _ => Action::NotAttached { pick, gone: random.chance(70) },
    }
}
