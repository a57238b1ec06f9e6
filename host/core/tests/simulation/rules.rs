//! The rules, by name, and what it means that one is broken.

/// Each is checked after every step, or at the start of every operation; the last at the end of a
/// run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Rule {
    /// R1: every mount that exists, or may, is known.
    NothingForgotten,
    /// R1: every certain mount exists.
    NothingImagined,
    /// R2: incomplete knowledge unmounts nothing.
    HalfKnowledge,
    /// R3: one operation at a time on a key.
    OneAtATime,
    /// R3: a failed key waits exactly as long as it should, and its failures are counted while it
    /// is needed.
    BackOff,
    /// R3: no pod is served twice while another waits for the same volume.
    FairTurns,
    /// Every due operation is started.
    Progress,
    /// R4: when nothing disturbs any more, the world becomes what is desired.
    Convergence,
    /// A device goes after the last pod's mount, and while no pod wants it.
    DeviceInUse,
    /// An attachment goes after the device.
    AttachmentInUse,
    /// Nothing is mounted before it is attached.
    AttachFirst,
    /// No more volumes of a plugin are attached, or may be, than may be.
    WithinLimit,
    /// The other node that has a volume is known from when that is found out until it is attached
    /// here.
    KnownElsewhere,
    /// The base of a volume is mounted, as it is wanted, before the volume.
    BaseFirst,
    /// The base of a volume stays until the volume is unmounted.
    BaseLast,
    /// A volume that is reported as mounted has every part that its containers name.
    AllParts,
    /// A volume for one pod alone has one pod, and a folder one volume.
    OnePodOneFolder,
    /// All pods of a volume see it with the one label that each of them wants.
    OneLabel,
    /// No unwanted volume is mounted.
    OnlyWanted,
    /// Who waits is answered when it is true, at the deadline at the latest, and once.
    Answers,
    /// Every failure is reported once to every pod it concerns, and nothing else is.
    Notices,
    /// A timer is armed exactly when something will be due.
    Timer,
    /// An event that changes nothing is answered with nothing.
    Quiet,
}

pub const RULES: [Rule; 23] = [
    Rule::NothingForgotten,
    Rule::NothingImagined,
    Rule::HalfKnowledge,
    Rule::OneAtATime,
    Rule::BackOff,
    Rule::FairTurns,
    Rule::Progress,
    Rule::Convergence,
    Rule::DeviceInUse,
    Rule::AttachmentInUse,
    Rule::AttachFirst,
    Rule::WithinLimit,
    Rule::KnownElsewhere,
    Rule::BaseFirst,
    Rule::BaseLast,
    Rule::AllParts,
    Rule::OnePodOneFolder,
    Rule::OneLabel,
    Rule::OnlyWanted,
    Rule::Answers,
    Rule::Notices,
    Rule::Timer,
    Rule::Quiet,
];

/// A broken rule, and how.
#[derive(Debug, Clone)]
pub struct Broken {
    pub rule: Rule,
    pub what: String,
}

pub type Check<T = ()> = Result<T, Broken>;

pub fn broken<T>(rule: Rule, what: impl Into<String>) -> Check<T> {
    Err(Broken { rule, what: what.into() })
}

/// Breaks the rule unless `is_kept`; the text is only made then.
pub fn ensure(is_kept: bool, rule: Rule, what: impl FnOnce() -> String) -> Check {
    if is_kept { Ok(()) } else { broken(rule, what()) }
}
