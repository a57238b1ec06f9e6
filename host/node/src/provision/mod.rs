//! Volumes for claims, without Kubernetes: executes the decisions of [`volhost_provisioner`].
//!
//! ```text
//!  ObjectStore --wants--> Provisioner --Job--> runner: record on disk, then the plugin's controller
//!       ^                      |  ^                                   |
//!       '-- PersistentVolume --'  '------------- Outcome -------------'
//! ```

mod records;
mod runner;
mod volume;
mod wants;

pub(crate) use records::{FOLDER, OBJECTS, ProvisionRecordError, ProvisionRecords};
pub(crate) use runner::Runner;
pub(crate) use volume::object;
pub(crate) use wants::{ClaimBlockedReason, PendingClaims, wants};
