//! The machine's inputs and commands.

use crate::record::{CreatedStorage, ProvisionRecord};

/// The state of a volume's claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimState {
    /// It is not known whether the claim exists: nothing irreversible is done.
    Unknown,
    /// Not every source has been read since the start, and the claim was not found so far: nothing
    /// is started.
    Unread,
    /// The claim exists, and has this volume or none.
    Wants {
        /// The size that it requests now, in bytes.
        bytes: u64,
        /// Its class allows expansion.
        may_grow: bool,
    },
    /// No source has the claim, all sources are known, and its deletion was not stated; or it has
    /// another volume now.
    Missing {
        /// A pod of this node uses the volume, or wants it.
        in_use: bool,
    },
    /// Its deletion was stated.
    Gone {
        /// A pod of this node uses the volume, or wants it.
        in_use: bool,
    },
}

/// What a job does, after its record was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobStep {
    /// Asks the storage for the volume.
    Create,
    /// Nothing more: only the record is written.
    Keep,
    /// Expands the volume to so many bytes.
    Grow(u64),
    /// Has the storage delete the volume, and removes the record.
    Delete,
    /// Removes the record.
    Forget,
}

/// One thing to be done for a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// To be written before anything else, so that it survives a crash.
    pub record: ProvisionRecord,
    /// The step after that.
    pub step: JobStep,
}

/// The outcome of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobOutcome {
    /// The volume was created.
    Created(CreatedStorage),
    /// The volume was expanded to so many bytes.
    Grown(u64),
    /// Done.
    Done,
    /// It failed, and the storage has changed nothing.
    Failed(String),
    /// It failed, and the storage may have done it.
    Uncertain(String),
    /// It was not started.
    NotBegun(String),
}

/// A running job, for display.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunningJob {
    /// The volume is being created.
    Creating,
    /// The record is being written.
    Keeping,
    /// The volume is being expanded.
    Growing,
    /// The volume is being deleted.
    Deleting,
}

/// The severity of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Worth knowing.
    Normal,
    /// Worth acting on.
    Warning,
}

/// What the caller does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProvisionerCommand {
    /// Run the job.
    Run(Box<Job>),
    /// Show the volume as a PersistentVolume, as its record is now.
    Show(Box<ProvisionRecord>),
    /// Hide it.
    Hide(String),
    /// Emit an event.
    Emit {
        /// Its severity.
        severity: Severity,
        /// One CamelCase word.
        reason: &'static str,
        /// `claim NAMESPACE/NAME` or `volume NAME`.
        object: String,
        /// What happened.
        message: String,
    },
}
