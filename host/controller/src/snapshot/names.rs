//! The names by which programs that work on snapshots know each other's work: those of upstream's
//! snapshot-controller and csi-snapshotter.

/// Keeps a snapshot while a volume may be made of it.
pub(super) const AS_SOURCE: &str = "snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection";
/// Keeps a snapshot until its content, which is to be deleted with it, is gone.
pub(super) const BOUND: &str = "snapshot.storage.kubernetes.io/volumesnapshot-bound-protection";
/// Keeps a snapshot while its group exists.
pub(crate) const IN_GROUP: &str = "snapshot.storage.kubernetes.io/volumesnapshot-in-group-protection";
/// Keeps a content until the driver's snapshot is deleted.
pub(super) const CONTENT_BOUND: &str = "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection";
/// Keeps a claim while a snapshot is taken of it.
pub(super) const CLAIM_AS_SOURCE: &str = "snapshot.storage.kubernetes.io/pvc-as-source-protection";
/// The content's snapshot is deleted: the driver may delete its own.
pub(super) const BEING_DELETED: &str = "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted";
/// The driver may have been asked for the snapshot, and its answer is not known.
pub(crate) const BEING_CREATED: &str = "snapshot.storage.kubernetes.io/volumesnapshot-being-created";
/// The value of both.
pub(super) const YES: &str = "yes";
/// The Secret for the driver, on a content: its class may be gone later.
pub(super) const SECRET_NAME: &str = "snapshot.storage.kubernetes.io/deletion-secret-name";
/// The Secret's namespace.
pub(super) const SECRET_NAMESPACE: &str = "snapshot.storage.kubernetes.io/deletion-secret-namespace";
/// On the content of a snapshot in a group.
pub(crate) const GROUP_HANDLE: &str = "groupsnapshot.storage.k8s.io/volumeGroupSnapshotHandle";
/// On the class for snapshots that name none: `true`.
pub(super) const IS_DEFAULT: &str = "snapshot.storage.kubernetes.io/is-default-class";

/// The name of the content of the snapshot with this UID.
pub(super) fn content(uid: &str) -> String {
    format!("snapcontent-{uid}")
}

/// The driver's name for the snapshot with this UID.
pub(super) fn of_driver(uid: &str) -> String {
    format!("snapshot-{uid}")
}
