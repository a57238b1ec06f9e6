//! What the machine is told once, at its beginning.

use crate::event::Time;

/// How long a caller waits for a pod's volumes if it does not say: 2 min 3 s, the kubelet's figure, a second more than the longest
/// back-off, so that at least one more try falls into the wait.
pub const WAIT_DEFAULT: Time = 123_000_000;

/// The machine's settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Config {
    /// The host attaches volumes itself. Otherwise a controller does, and the host waits for its report.
    pub host_attaches: bool,
    /// A rule to break, so that tests can show that they notice.
    #[cfg(feature = "mutants")]
    #[doc(hidden)]
    pub mutation: Option<Mutation>,
}

impl Config {
    /// With the host attaching volumes itself, or not.
    #[must_use]
    pub const fn with_host_attaches(mut self, host_attaches: bool) -> Self {
        self.host_attaches = host_attaches;
        self
    }
}

/// One broken rule.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutation {
    /// R1: an uncertain mount is taken for absent.
    ForgetUncertain,
    /// R1: an uncertain device is taken for absent.
    ForgetUncertainDevice,
    /// R1: a failed tear-down is taken for a successful one.
    ForgetFailedTearDown,
    /// R1: what recovery found incomplete is taken over as if it were complete.
    TakeOverBroken,
    /// R2: what recovery found is taken away before every source has spoken.
    UnmountBeforeSynced,
    /// R2: what may be an unresolved volume is taken away.
    UnmountUnresolved,
    /// R2: what is staged or attached for an unresolved volume is taken away.
    ReleaseAwaited,
    /// R3: keys are not looked at.
    IgnoreKeys,
    /// R3: failed keys are tried again at once.
    IgnoreBackoff,
    /// R3: every failure counts as the first.
    NeverDoubles,
    /// R3: pods of one volume are served by name, not by who waited longest.
    Unfair,
    /// R3: the end of a back-off starts nothing.
    SleepThroughRetry,
    /// R4: devices nobody uses stay.
    LeaveDevice,
    /// R4: volumes nobody uses are never forgotten.
    LeaveVolume,
    /// R4: what a pod leaves behind is not looked at when it goes.
    IgnoreGone,
    /// A device is unmounted under its pods.
    DeviceBeforePod,
    /// An attachment is given up under its device.
    DetachBeforeDevice,
    /// That another node has a volume is believed after it was attached here.
    KeepElsewhere,
    /// A volume is mounted before it is attached.
    MountBeforeAttach,
    /// A volume is mounted from the source it had before.
    MountStrangers,
    /// A second pod gets a volume for one pod alone.
    ShareSinglePod,
    /// A pod gets a volume that the node has mounted with another label.
    ShareLabels,
    /// R1: a mount that others took away is believed to stand.
    IgnoreVanished,
    /// R1: a mount of the node that others took away is believed to stand.
    IgnoreDeviceVanished,
    /// R1: an attachment that nobody finds is believed to be there.
    BelieveAttached,
    /// R1: an attachment that a plugin did not find is forgotten.
    ForgetNotAttached,
    /// A volume counts as ready without its parts.
    ForgetParts,
    /// More volumes are attached than may be.
    IgnoreLimit,
    /// Who waits for a place is not looked at when one is free.
    ForgetPlace,
    /// A volume is mounted before those that it is made of.
    TopBeforeBase,
    /// What a volume is made of is unmounted below it.
    BaseBeforeTop,
    /// Who waits for an unmount is told that it is done while it is uncertain.
    AnswerTooEarly,
    /// Who waits until the deadline is never answered.
    LoseWaiter,
    /// A failed unmount is told to nobody.
    KeepQuiet,
    /// A failure is told twice.
    PublishTwice,
    /// No timer is armed for a retry.
    ForgetTimer,
    /// The timer is armed again at every step.
    Restless,
}

#[cfg(feature = "mutants")]
impl Mutation {
    /// Every one.
    pub const ALL: [Self; 37] = [
        Self::ForgetUncertain,
        Self::ForgetUncertainDevice,
        Self::ForgetFailedTearDown,
        Self::TakeOverBroken,
        Self::UnmountBeforeSynced,
        Self::UnmountUnresolved,
        Self::ReleaseAwaited,
        Self::IgnoreKeys,
        Self::IgnoreBackoff,
        Self::NeverDoubles,
        Self::Unfair,
        Self::SleepThroughRetry,
        Self::LeaveDevice,
        Self::LeaveVolume,
        Self::IgnoreGone,
        Self::DeviceBeforePod,
        Self::DetachBeforeDevice,
        Self::KeepElsewhere,
        Self::MountBeforeAttach,
        Self::MountStrangers,
        Self::ShareSinglePod,
        Self::ShareLabels,
        Self::IgnoreVanished,
        Self::IgnoreDeviceVanished,
        Self::BelieveAttached,
        Self::ForgetNotAttached,
        Self::ForgetParts,
        Self::IgnoreLimit,
        Self::ForgetPlace,
        Self::TopBeforeBase,
        Self::BaseBeforeTop,
        Self::AnswerTooEarly,
        Self::LoseWaiter,
        Self::KeepQuiet,
        Self::PublishTwice,
        Self::ForgetTimer,
        Self::Restless,
    ];
}

impl crate::Core {
    /// Whether this rule is broken on purpose.
    #[cfg(feature = "mutants")]
    pub(crate) fn mutated(&self, mutation: Mutation) -> bool {
        self.config.mutation == Some(mutation)
    }

    /// Outside tests every rule holds.
    #[cfg(not(feature = "mutants"))]
    #[expect(clippy::unused_self, reason = "the twin for tests reads the settings")]
    pub(crate) const fn mutated(&self, _: Mutation) -> bool {
        false
    }
}
