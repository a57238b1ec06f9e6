//! The mounts that existed at one moment, to find those that have appeared since.

use std::collections::BTreeSet;

use crate::types::MountId;

/// The mounts that a process saw at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountSnapshot(Seen);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Seen {
    /// Every mount whose id is at most this one: the kernel counts ids up and uses none again.
    UpTo(MountId),
    /// These.
    These(BTreeSet<MountId>),
}

impl MountSnapshot {
    /// The mounts up to the one that was created last. For a kernel with unique ids alone.
    pub fn up_to(last: MountId) -> Self {
        Self(Seen::UpTo(last))
    }

    /// These mounts.
    pub fn of(ids: impl IntoIterator<Item = MountId>) -> Self {
        Self(Seen::These(ids.into_iter().collect()))
    }

    /// Returns whether the mount existed then.
    #[must_use]
    pub fn contains(&self, id: MountId) -> bool {
        match &self.0 {
            Seen::UpTo(last) => id <= *last,
            Seen::These(ids) => ids.contains(&id),
        }
    }

    /// The id after which mounts that are not contained begin, in the order of ids.
    #[must_use]
    pub fn last(&self) -> Option<MountId> {
        match &self.0 {
            Seen::UpTo(last) => Some(*last),
            Seen::These(_) => None,
        }
    }
}
