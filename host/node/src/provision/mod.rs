//! Volumes for claims, without Kubernetes: what [`volhost_provisioner`] decides, carried out.
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

pub use records::{FOLDER, OBJECTS, ProvisionRecordError, ProvisionRecords};
pub use runner::Runner;
pub use volume::object;
pub use wants::{Asked, NotAsked, wants};
