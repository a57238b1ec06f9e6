//! The tables: how the state of an attachment, a device mount or a pod's mount changes with an
//! outcome, and what a wanted volume needs next. Nothing else changes a [`MountState`].

use serde::{Deserialize, Serialize};
use volhost_model::{Failure, FailureClass};

use crate::event::DeviceReport;

/// Whether something exists in the real world, as far as known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Presence {
    /// It does not.
    Absent,
    /// It does.
    Present,
    /// It may (rule R1).
    Uncertain,
}

/// How an operation ended, as the tables see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutcomeClass {
    /// It succeeded.
    Done,
    /// It is not done.
    Final,
    /// It may be.
    Uncertain,
    /// It never began.
    Transient,
}

impl OutcomeClass {
    /// Of an operation's result.
    pub(crate) const fn of(result: &Result<(), Failure>) -> Self {
        match result {
            Ok(()) => Self::Done,
            Err(failure) => match failure.class {
                FailureClass::Final => Self::Final,
                FailureClass::Uncertain => Self::Uncertain,
                FailureClass::Transient => Self::Transient,
            },
        }
    }
}

/// The state of an attachment, a device mount or a pod's mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MountState {
    /// As far as known.
    presence: Presence,
    /// Recovery found it and no operation has confirmed or removed it since: a failed mount proves
    /// nothing about what existed before.
    recovered: bool,
}

impl MountState {
    /// It does not exist.
    pub(crate) const ABSENT: Self = Self { presence: Presence::Absent, recovered: false };
    /// It exists.
    pub(crate) const PRESENT: Self = Self { presence: Presence::Present, recovered: false };
    /// Recovery found it.
    pub(crate) const RECOVERED: Self = Self { presence: Presence::Uncertain, recovered: true };

    /// Returns whether it exists, as far as known.
    pub(crate) const fn presence(self) -> Presence {
        self.presence
    }

    /// Recovery found it, and no operation has confirmed or removed it since.
    pub(crate) const fn is_recovered(self) -> bool {
        self.recovered
    }

    /// It exists, or may.
    pub(crate) const fn may_exist(self) -> bool {
        !matches!(self.presence, Presence::Absent)
    }

    /// It exists for certain.
    pub(crate) const fn is_present(self) -> bool {
        matches!(self.presence, Presence::Present)
    }

    /// Returns the state after an attempt to attach, stage or mount it.
    #[must_use]
    pub(crate) const fn after_creation(self, outcome: OutcomeClass) -> Self {
        match (outcome, self.presence) {
            (OutcomeClass::Done, _) => Self::PRESENT,
            // It has ended and did not happen; but an earlier process's doing, or a good mount that
            // a refresh failed on, stays.
            (OutcomeClass::Final, Presence::Uncertain) if !self.recovered => Self::ABSENT,
            (OutcomeClass::Uncertain, Presence::Absent) => Self { presence: Presence::Uncertain, recovered: false },
            (OutcomeClass::Final | OutcomeClass::Uncertain | OutcomeClass::Transient, _) => self,
        }
    }

    /// Returns the state after an attempt to detach, unstage or unmount it. An attempt that failed
    /// half-way leaves something, whatever the class of its failure.
    #[must_use]
    pub(crate) const fn after_removal(self, outcome: OutcomeClass) -> Self {
        match (outcome, self.presence) {
            (OutcomeClass::Done, _) => Self::ABSENT,
            (OutcomeClass::Transient, _) | (_, Presence::Absent) => self,
            (OutcomeClass::Final | OutcomeClass::Uncertain, _) => {
                Self { presence: Presence::Uncertain, recovered: self.recovered }
            }
        }
    }

    /// Returns the state after a mount operation has reported the device mount.
    #[must_use]
    pub(crate) const fn after_report(self, report: DeviceReport) -> Self {
        self.after_creation(match report {
            DeviceReport::Mounted => OutcomeClass::Done,
            DeviceReport::Uncertain => OutcomeClass::Uncertain,
            DeviceReport::Unmounted => OutcomeClass::Final,
        })
    }
}

/// The next need of a wanted volume of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Nothing.
    Nothing,
    /// Its attachment, before anything else.
    Attach,
    /// Its mount, for the first time or because it is uncertain.
    Mount,
    /// Its mount again, with fresh content.
    Remount,
    /// A larger file system.
    Expand,
}

/// The kubelet's decision order (`PodExistsInVolume`): mount, then content, then size. A volume
/// that is mounted as wanted needs nothing, not even a certain attachment.
pub(crate) const fn need(mount: Presence, attached: bool, remount: bool, grow: bool) -> Need {
    match (mount, attached, remount, grow) {
        (Presence::Present, _, false, false) => Need::Nothing,
        (_, false, _, _) => Need::Attach,
        (Presence::Absent | Presence::Uncertain, true, _, _) => Need::Mount,
        (Presence::Present, true, true, _) => Need::Remount,
        (Presence::Present, true, false, true) => Need::Expand,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRESENCES: [Presence; 3] = [Presence::Absent, Presence::Present, Presence::Uncertain];

    fn state(presence: Presence, recovered: bool) -> MountState {
        MountState { presence, recovered }
    }

    #[test]
    fn every_state_and_outcome_of_a_creation() {
        use Presence::{Absent, Present, Uncertain};
        // presence, recovered, then after done, final, uncertain, transient
        let table = [
            (Absent, false, [Present, Absent, Uncertain, Absent]),
            (Present, false, [Present, Present, Present, Present]),
            (Uncertain, false, [Present, Absent, Uncertain, Uncertain]),
            (Uncertain, true, [Present, Uncertain, Uncertain, Uncertain]),
        ];
        for (presence, recovered, after) in table {
            for (outcome, expected) in
                [OutcomeClass::Done, OutcomeClass::Final, OutcomeClass::Uncertain, OutcomeClass::Transient]
                    .into_iter()
                    .zip(after)
            {
                let end = state(presence, recovered).after_creation(outcome);
                assert_eq!(end.presence, expected, "{presence:?} recovered={recovered} {outcome:?}");
                assert_eq!(end.recovered, recovered && outcome != OutcomeClass::Done, "{presence:?} {outcome:?}");
            }
        }
    }

    #[test]
    fn every_state_and_outcome_of_a_removal() {
        use Presence::{Absent, Present, Uncertain};
        let table = [
            (Absent, [Absent, Absent, Absent, Absent]),
            (Present, [Absent, Uncertain, Uncertain, Present]),
            (Uncertain, [Absent, Uncertain, Uncertain, Uncertain]),
        ];
        for (presence, after) in table {
            for (outcome, expected) in
                [OutcomeClass::Done, OutcomeClass::Final, OutcomeClass::Uncertain, OutcomeClass::Transient]
                    .into_iter()
                    .zip(after)
            {
                assert_eq!(
                    state(presence, false).after_removal(outcome).presence,
                    expected,
                    "{presence:?} {outcome:?}"
                );
            }
        }
        assert!(MountState::RECOVERED.after_removal(OutcomeClass::Final).recovered);
        assert!(!MountState::RECOVERED.after_removal(OutcomeClass::Done).recovered);
    }

    #[test]
    fn a_mount_operation_reports_the_device() {
        use DeviceReport as Report;
        assert_eq!(MountState::ABSENT.after_report(Report::Mounted), MountState::PRESENT);
        assert_eq!(MountState::ABSENT.after_report(Report::Uncertain).presence, Presence::Uncertain);
        assert_eq!(MountState::PRESENT.after_report(Report::Uncertain), MountState::PRESENT);
        assert_eq!(MountState::PRESENT.after_report(Report::Unmounted), MountState::PRESENT);
        assert_eq!(state(Presence::Uncertain, false).after_report(Report::Unmounted), MountState::ABSENT);
        assert_eq!(MountState::RECOVERED.after_report(Report::Unmounted), MountState::RECOVERED);
    }

    #[test]
    fn every_need() {
        for presence in PRESENCES {
            for bits in 0..8_u8 {
                let (attached, remount, grow) = (bits & 1 != 0, bits & 2 != 0, bits & 4 != 0);
                let expected = if presence == Presence::Present && !remount && !grow {
                    Need::Nothing
                } else if !attached {
                    Need::Attach
                } else if presence != Presence::Present {
                    Need::Mount
                } else if remount {
                    Need::Remount
                } else {
                    Need::Expand
                };
                assert_eq!(need(presence, attached, remount, grow), expected, "{presence:?} {bits:03b}");
            }
        }
    }
}
