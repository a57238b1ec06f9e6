//! The names by which programs that work on groups know each other's work: those of upstream's
//! snapshot-controller and csi-snapshotter.

use sha2::{Digest as _, Sha256};

/// Keeps a group until its content, which is to be deleted with it, is gone.
pub(super) const BOUND: &str = "groupsnapshot.storage.kubernetes.io/volumegroupsnapshot-bound-protection";
/// Keeps a content until the driver's snapshots are deleted.
pub(super) const CONTENT_BOUND: &str =
    "groupsnapshot.storage.kubernetes.io/volumegroupsnapshotcontent-bound-protection";
/// The content's group is deleted: the driver may delete its snapshots.
pub(super) const BEING_DELETED: &str = "groupsnapshot.storage.kubernetes.io/volumegroupsnapshot-being-deleted";
/// The driver may have been asked for the group, and its answer is not known.
pub(crate) const BEING_CREATED: &str = "groupsnapshot.storage.kubernetes.io/volumegroupsnapshot-being-created";
/// The value of both.
pub(super) const YES: &str = "yes";
/// The Secret for the driver, on a content: its class may be gone later.
pub(super) const SECRET_NAME: &str = "groupsnapshot.storage.kubernetes.io/deletion-secret-name";
/// The Secret's namespace.
pub(super) const SECRET_NAMESPACE: &str = "groupsnapshot.storage.kubernetes.io/deletion-secret-namespace";
/// On the class for groups that name none: `true`.
pub(super) const IS_DEFAULT: &str = "groupsnapshot.storage.kubernetes.io/is-default-class";

/// The name of the content of the group with this UID.
pub(super) fn content(uid: &str) -> String {
    format!("groupsnapcontent-{uid}")
}

/// The driver's name for the group with this UID.
pub(super) fn of_driver(uid: &str) -> String {
    format!("groupsnapshot-{uid}")
}

/// The names of the snapshot of a volume in the group with this UID, and of its content: who restores
/// a group finds the snapshot of each volume by them.
pub(super) fn of_member(uid: &str, volume: &str) -> (String, String) {
    let mut hash = Sha256::new();
    hash.update(uid);
    hash.update(volume);
    let hash: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    (format!("snapshot-{hash}"), format!("snapcontent-{hash}"))
}
