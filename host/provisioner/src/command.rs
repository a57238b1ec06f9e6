//! What the machine is told, and what it answers.

use crate::record::{ClaimName, Made, Record, Wanted};
use crate::terms::Terms;

/// A claim that is to have a volume made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Want {
    /// The claim.
    pub claim: ClaimName,
    /// By which terms.
    pub terms: Terms,
    /// What it asks for.
    pub wanted: Wanted,
    /// It stands in a manifest, and was not added by request.
    pub in_manifest: bool,
}

/// How the claim of a volume stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Nobody knows yet whether it is there: nothing that cannot be undone is done.
    Unknown,
    /// Not every source has been read since the start, and it was not found so far: nothing is begun.
    Unread,
    /// It is there, and has this volume or no other.
    Wants {
        /// The size that it asks for now, in bytes.
        bytes: u64,
        /// Its class lets volumes grow.
        may_grow: bool,
    },
    /// No source has it, all sources are known, and nobody said that it was deleted; or it has another volume now.
    Missing {
        /// A pod of this node has the volume, or wants it.
        in_use: bool,
    },
    /// Its deletion was stated.
    Gone {
        /// A pod of this node has the volume, or wants it.
        in_use: bool,
    },
}

/// What a job does, after its record was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Asks the storage for the volume.
    Create,
    /// Nothing more: the record was to be kept.
    Keep,
    /// Gives the volume so many bytes.
    Grow(u64),
    /// Has the storage delete the volume, and removes the record.
    Delete,
    /// Removes the record.
    Forget,
}

/// One thing to be done for a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// To be written before anything else; a machine that ends suddenly afterwards still has it.
    pub record: Record,
    /// What then.
    pub step: Step,
}

/// What became of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The volume was made.
    Created(Made),
    /// The volume has so many bytes.
    Grown(u64),
    /// Done.
    Done,
    /// It failed, and the storage is as if it had never been asked.
    Failed(String),
    /// It failed, and may have happened.
    Uncertain(String),
    /// It was not begun; what was before still is.
    NotBegun(String),
}

/// What a job was about, for those who look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// It is being made.
    Creating,
    /// It is being written down.
    Keeping,
    /// It is growing.
    Growing,
    /// It is being deleted.
    Deleting,
}

/// Whether an event is worth acting on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Worth knowing.
    Normal,
    /// Worth acting on.
    Warning,
}

/// What whoever drives the machine does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Run the job.
    Run(Box<Job>),
    /// Show the volume as a PersistentVolume, as its record is now.
    Show(Box<Record>),
    /// Show it no longer.
    Hide(String),
    /// Tell users.
    Tell {
        /// How bad.
        severity: Severity,
        /// One CamelCase word.
        reason: &'static str,
        /// `claim NAMESPACE/NAME` or `volume NAME`.
        object: String,
        /// What happened.
        message: String,
    },
}
