//! Dynamic provisioning without Kubernetes: which volume a claim gets, when it is created, expanded
//! and deleted, and its record.
//!
//! Pure: no I/O, no clock, no thread. [`Provisioner::look`] takes the state of claims and answers
//! with [`ProvisionerCommand`]s;
//! [`Provisioner::ended`] takes the outcome of a job. The caller runs the jobs, and writes a job's record to disk before anything else.
//!
//! ```text
//!                 claim                ok                    written
//!  (nothing) ──────────────► Asked ───────────► CreatedStorage ──────────────────► shown as a PersistentVolume
//!                            │  ▲                │  ▲                        │
//!             final, and the │  │ deleted again  │  └── grown ───────────────┤
//!             claim is gone  │  │                │ too small                 │ the claim is gone, and no pod has the volume
//!                            ▼  └── Undoing ◄────┘                           ▼
//!                        (nothing) ◄────────────── ok ── DeleteVolume ◄── Released ──► stays (Retain)
//! ```
//!
//! # Guarantees
//! - The record of a request is on disk before the storage is asked, and a crash repeats it under
//!   the same name: one volume.
//! - A volume is deleted only when its record says `Released`, which is on disk before the storage
//!   is asked. A claim that comes back meanwhile gets another volume.
//! - No volume is released unless the claim is known to be gone, or while a pod of this node uses
//!   or wants it.
//! - A claim is gone when its deletion was stated, or when it was missing from all sources for
//!   longer than the grace period. The record has the time when it was first missing, so that the
//!   grace period continues after a restart.
//! - A volume that may have been created is asked for until its state is known, even if its claim
//!   is gone: none is leaked.
//!
//! | module | its job |
//! |---|---|
//! | [`terms`] | the parameters of a StorageClass |
//! | [`secret_names`] | names of secrets with templates |
//! | [`record`] | the record of a volume |
//! | [`machine`] | [`Provisioner`]: all volumes |
//! | `volume` | one volume: the states above |
//! | `missing` | the grace period of a missing claim |
//! | [`command`] | inputs and commands |
#![forbid(unsafe_code)]

pub mod command;
pub mod machine;
mod missing;
pub mod record;
pub mod secret_names;
pub mod terms;
mod volume;

#[cfg(test)]
mod tests;

pub use command::{ClaimState, Job, JobOutcome, JobStep, ProvisionerCommand, RunningJob, Severity};
pub use machine::Provisioner;
pub use record::{
    ClaimName, ClaimRequest, CreatedStorage, InitialContent, PendingClaim, Phase, ProvisionRecord, RecordContentError,
};
pub use secret_names::SecretName;
pub use terms::{Reclaim, SecretNames, Terms, TermsError};

/// Microseconds since a fixed moment.
pub type Time = u64;
