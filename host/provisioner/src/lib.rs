//! Volumes for claims, without Kubernetes: which volume a claim gets, when it is made, grown and deleted, and what is remembered of it.
//!
//! Pure: no I/O, no clock, no thread. [`Provisioner::look`] is told how claims stand now and answers with [`Command`]s;
//! [`Provisioner::ended`] is told what became of a job. Whoever drives it runs the jobs, and writes a job's record to disk before anything else.
//!
//! ```text
//!                 claim                ok                    written
//!  (nothing) ──────────────► Asked ───────────► Made ──────────────────► shown as a PersistentVolume
//!                            │  ▲                │  ▲                        │
//!             final, and the │  │ deleted again  │  └── grown ───────────────┤
//!             claim is gone  │  │                │ too small                 │ the claim is gone, and no pod has the volume
//!                            ▼  └── Undoing ◄────┘                           ▼
//!                        (nothing) ◄────────────── ok ── DeleteVolume ◄── Released ──► stays (Retain)
//! ```
//!
//! # Guarantees
//! - The record of what is asked for is on disk before the storage is asked, and the same name is asked for again after a crash: one volume.
//! - A volume is deleted only when its record says `Released`, which is on disk before the storage is asked. A claim that comes back meanwhile
//!   gets another volume.
//! - Nothing is released while it is not known that the claim is gone, or while a pod of this node has the volume or wants it.
//! - A claim is gone when its deletion was stated, or when it was missing from everything that sources say for longer than the grace.
//!   When it was first missing is in the record, so that the grace goes on after a restart.
//! - What may have been made is asked for until it is known what became of it, also when its claim is gone: nothing is leaked.
//!
//! | module | holds |
//! |---|---|
//! | [`terms`] | what a StorageClass says |
//! | [`secret_names`] | names of secrets with templates |
//! | [`record`] | what is remembered of a volume |
//! | [`machine`] | [`Provisioner`]: all volumes |
//! | `volume` | one volume: the states above |
//! | `missing` | how long the volume of a missing claim is kept |
//! | [`command`] | what it is told and what it answers |
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

pub use command::{Command, Doing, Job, Outcome, Severity, Standing, Step, Want};
pub use machine::Provisioner;
pub use record::{ClaimName, Made, Phase, Record, RecordError, Source, Wanted};
pub use secret_names::SecretName;
pub use terms::{Reclaim, Secrets, Terms, TermsError};

/// Microseconds since some moment that stays the same.
pub type Time = u64;
