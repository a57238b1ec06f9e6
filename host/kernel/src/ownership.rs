//! Ownership of whole volumes: a pod's fsGroup, by a walk over the files, or at once by mapping the
//! ids of a mount.

use std::ffi::OsStr;
use std::ops::ControlFlow;

use crate::error::{KernelError, Result};
use crate::handle::{DetachedMount, Directory};

/// When a volume's files are walked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OwnershipPolicy {
    /// Every time.
    Always,
    /// Not if the volume's root folder has the group and the mode already. It gets them last, so
    /// they mark a finished walk.
    OnRootMismatch,
}

/// The wanted ownership of a volume's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnershipRequest {
    /// The group of every file, folder and link.
    pub group: u32,
    /// When to walk.
    pub policy: OwnershipPolicy,
    /// The group may read; without, also write.
    pub read_only: bool,
    /// How many threads walk; 0: one a processor.
    pub threads: usize,
}

/// How far a walk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnershipProgress {
    /// Files, folders and links looked at so far.
    pub visited: u64,
    /// How many of them were changed.
    pub changed: u64,
}

/// The result of a finished walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OwnershipReport {
    /// Files, folders and links looked at.
    pub visited: u64,
    /// How many of them were changed.
    pub changed: u64,
    /// Nothing was looked at but the root folder: it matched, and the policy lets that do.
    pub skipped: bool,
}

/// A range of ids of an id-mapped mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IdRange {
    /// The first id in the file system.
    pub stored: u32,
    /// The id it is seen as through the mount.
    pub seen: u32,
    /// How many.
    pub count: u32,
}

/// How an id-mapped mount shows the ids of its file system. An id in no range is shown as the
/// overflow id, and can't be written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IdMap {
    /// Of users.
    pub users: Vec<IdRange>,
    /// Of groups.
    pub groups: Vec<IdRange>,
}

/// Ids of all users and groups; the last one means none.
const ALL_IDS: u32 = u32::MAX;

impl IdMap {
    /// Every id as it is, but for two groups that change places; none for the id that no group can
    /// have.
    #[must_use]
    pub fn swapping_groups(one: u32, other: u32) -> Option<Self> {
        let (low, high) = (one.min(other), one.max(other));
        if high == ALL_IDS {
            return None;
        }
        let range = |stored, seen, count| IdRange { stored, seen, count };
        let users = vec![range(0, 0, ALL_IDS)];
        if low == high {
            return Some(Self { users: users.clone(), groups: users });
        }
        let groups = [
            range(0, 0, low),
            range(low, high, 1),
            range(low + 1, low + 1, high - low - 1),
            range(high, low, 1),
            range(high + 1, high + 1, ALL_IDS - high - 1),
        ];
        Some(Self { users, groups: groups.into_iter().filter(|range| range.count > 0).collect() })
    }
}

/// Hears how far a walk is, from any of its threads, every few thousand files. A storage that hangs
/// is silent. `Break` ends the walk with `Cancelled`.
pub type OnProgress<'a> = &'a (dyn Fn(OwnershipProgress) -> ControlFlow<()> + Sync);

/// The ownership of volumes.
pub trait Ownership {
    /// Gives the volume at a name, a folder or a mount, to a group, as the kubelet applies an
    /// fsGroup: every file gets the group and the mode bits 0660 (0440 if read-only) beside its
    /// own, a folder also 0110 and setgid, a symbolic link only the group.
    ///
    /// # Guarantees
    /// - Only what differs is changed. No link is followed, no mount is crossed or touched.
    /// - The root folder comes last, and only if all else is done: a walk that crashed or failed is
    ///   not taken for finished.
    /// - What vanishes during the walk is no error.
    ///
    /// # Errors
    /// `Cancelled` when `progress` broke the walk off: a part was done, and the root folder was
    /// not. `OwnershipIncomplete` with the first failures and their number: everything else was
    /// done. `InvalidPath` for group 4294967295; `SymbolicLink`, `WrongType` if no folder is there;
    /// `Failed`.
    fn apply_ownership(
        &self,
        directory: &Directory,
        name: &OsStr,
        request: &OwnershipRequest,
        progress: OnProgress<'_>,
    ) -> Result<OwnershipReport>;

    /// The group of what is at a name: of the mount's root, if it is a mount. A link is not
    /// followed.
    ///
    /// # Errors
    /// `Failed` (`NotFound`).
    fn group_at(&self, directory: &Directory, name: &OsStr) -> Result<u32>;

    /// The group of the root of a detached mount.
    ///
    /// # Errors
    /// `Failed`.
    fn group_of_mount(&self, mount: &DetachedMount) -> Result<u32>;

    /// Makes a detached mount show its files under other ids, in constant time. Nothing is written.
    ///
    /// # Errors
    /// `FilesystemLacks` if the file system can't be id-mapped, or this mount is already;
    /// `InvalidPath` for a map without ranges, with an empty range or one that runs over the last
    /// id; `Failed`.
    fn idmapped(&self, mount: &DetachedMount, map: &IdMap) -> Result<()>;
}

/// The group's access to a file, and the additional bits of a folder: entering, and that new files
/// get its group.
const READ: u32 = 0o440;
const READ_AND_WRITE: u32 = 0o660;
const FOLDER: u32 = 0o2110;

/// The mode that something has after it was given to the group.
pub fn wanted_mode(mode: u32, folder: bool, read_only: bool) -> u32 {
    let access = if read_only { READ } else { READ_AND_WRITE };
    mode | access | if folder { FOLDER } else { 0 }
}

/// Refuses a map that the kernel would not take, naming the range.
pub fn check_map(map: &IdMap) -> Result<()> {
    let refused = |path, rule| Err(KernelError::InvalidPath { path, rule });
    for (of, ranges) in [("users", &map.users), ("groups", &map.groups)] {
        if ranges.is_empty() {
            return refused(of.to_owned(), "an id map has a range of users and one of groups");
        }
        for range in ranges {
            let fits = |first: u32| first.checked_add(range.count).is_some();
            if range.count == 0 || !fits(range.stored) || !fits(range.seen) {
                let text = format!("{of} {} {} {}", range.stored, range.seen, range.count);
                return refused(text, "a range has at least one id, and ends before 4294967295");
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_groups_change_places_and_every_other_id_stays() {
        for (one, other) in [(0, 5), (5, 0), (0, 1), (7, 7), (3, u32::MAX - 1), (0, u32::MAX - 1)] {
            let map = IdMap::swapping_groups(one, other).unwrap();
            check_map(&map).unwrap();
            let seen = |stored: u32| {
                let mut ranges = map.groups.iter().filter(|range| stored.wrapping_sub(range.stored) < range.count);
                let range = ranges.next().unwrap();
                assert!(ranges.next().is_none(), "{stored} is in two ranges");
                range.seen + (stored - range.stored)
            };
            assert_eq!((seen(one), seen(other)), (other, one));
            for same in [2, 100, 1_000_000, u32::MAX - 2] {
                assert_eq!(seen(same), same);
            }
        }
        assert_eq!(IdMap::swapping_groups(1, u32::MAX), None);
    }
}
