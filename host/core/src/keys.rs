//! The scope of an operation's key, and the wait of a failed key.

use volhost_model::BackOff;
use volhost_model::names::UniqueVolumeName;

use crate::event::Time;
use crate::identity::PodId;

/// The waits of failed keys, before they are spread.
const BACK_OFF: BackOff = BackOff::KUBELET;
/// The part of a wait by which the waits of different keys differ: a quarter.
const SPREAD: Time = 4;

/// The scope of an operation on a volume.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    /// Every pod's: the volume itself.
    Volume,
    /// One pod's.
    Pod(PodId),
}

impl Scope {
    /// Returns the scope of the pod's use; without a pod, the volume's.
    pub(crate) fn of(pod: Option<PodId>) -> Self {
        pod.map_or(Self::Volume, Self::Pod)
    }

    /// Returns the pod, unless it is the volume's.
    pub(crate) const fn pod(&self) -> Option<&PodId> {
        match self {
            Self::Volume => None,
            Self::Pod(pod) => Some(pod),
        }
    }

    /// Whether operations with these scopes exclude each other.
    pub(crate) fn matches(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Pod(a), Self::Pod(b)) => a == b,
            _ => true,
        }
    }
}

/// Returns the wait of one key after this many failures in a row.
///
/// Keys that failed together, because their storage is down, are tried again one after another:
/// each wait is longer than that of [`BackOff`] by up to a quarter, and at the longest wait shorter
/// by up to a quarter. The key alone decides by how much, so that a simulation can be repeated.
pub(crate) fn wait(volume: &UniqueVolumeName, scope: &Scope, failures: u32) -> Time {
    let (wait, longest) = (BACK_OFF.micros(failures), BACK_OFF.longest_micros());
    let share = hash(volume, scope, failures) % (wait / SPREAD);
    if wait == longest { wait - share } else { (wait + share).min(longest) }
}

/// FNV-1a: the same on every machine and in every build.
fn hash(volume: &UniqueVolumeName, scope: &Scope, failures: u32) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let pod = scope.pod().map_or("", |pod| pod.name().as_str());
    let bytes = volume.as_str().bytes().chain([0]).chain(pod.bytes()).chain(failures.to_le_bytes());
    let hash = bytes.fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME));
    // The low bits of FNV differ little between names that differ in the last character.
    hash ^ (hash >> 32)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use volhost_model::names::PodUid;

    use super::*;
    use crate::identity::Names;

    #[test]
    fn the_waits_of_keys_that_failed_together_are_spread_within_a_quarter() {
        let volume = |n: u32| UniqueVolumeName::new(format!("kubernetes.io/csi/driver^volume-{n}")).unwrap();
        for failures in 1..=12 {
            let longest = BACK_OFF.longest_micros();
            let before = BACK_OFF.micros(failures);
            let bounds = if before == longest { before - before / 4..=before } else { before..=before + before / 4 };
            let waits: BTreeSet<Time> = (0..1000).map(|n| wait(&volume(n), &Scope::Volume, failures)).collect();
            assert!(waits.iter().all(|wait| bounds.contains(wait)), "{failures}");
            assert!(waits.len() > 900, "{} different waits after {failures} failures", waits.len());
            // Every tenth of the window has its part.
            let tenth = (bounds.end() - bounds.start()) / 10;
            for part in 0..10 {
                let from = bounds.start() + part * tenth;
                let there = waits.range(from..from + tenth).count();
                assert!((40..200).contains(&there), "{there} of 1000 in part {part} after {failures} failures");
            }
            assert_eq!(wait(&volume(1), &Scope::Volume, failures), wait(&volume(1), &Scope::Volume, failures));
        }
    }

    #[test]
    fn keys_match_when_a_pod_is_equal_or_one_is_the_volumes() {
        let mut names = Names::default();
        let mut pod = |uid: &str| Scope::Pod(names.id(&PodUid::new(uid).unwrap()));
        for (left, right, expected) in [
            (Scope::Volume, Scope::Volume, true),
            (Scope::Volume, pod("a"), true),
            (pod("a"), Scope::Volume, true),
            (pod("a"), pod("a"), true),
            (pod("a"), pod("b"), false),
        ] {
            assert_eq!(left.matches(&right), expected, "{left:?} {right:?}");
        }
    }
}
