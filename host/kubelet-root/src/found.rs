//! One thing in a kubelet's root folder.

use std::path::PathBuf;

/// What becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// `volhost run` cannot take it over, and would damage or lose it: nothing is adopted while it
    /// is there.
    Blocks,
    /// `volhost run` finds it, keeps it for its pod, and unmounts it when the pod is gone.
    Adopt,
    /// A mark of the kubelet's own: it is removed.
    Clean,
    /// No volume, or nothing that can be used: it stays as it is.
    Leave,
}

impl Fate {
    /// Returns the word that users see.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Blocks => "blocks",
            Self::Adopt => "adopt",
            Self::Clean => "clean",
            Self::Leave => "leave",
        }
    }
}

/// One thing that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Where, below the root folder.
    pub path: PathBuf,
    /// What it is.
    pub what: String,
    /// What becomes of it.
    pub fate: Fate,
    /// Why, or how it goes on.
    pub why: String,
}

/// All that was found, and what could not be looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings(Vec<Found>);

impl Findings {
    /// Returns everything, in the order of the paths.
    pub fn all(&self) -> &[Found] {
        &self.0
    }

    /// Returns what has this fate.
    pub fn with(&self, fate: Fate) -> impl Iterator<Item = &Found> {
        self.0.iter().filter(move |found| found.fate == fate)
    }

    pub(crate) fn add(&mut self, path: PathBuf, what: impl Into<String>, fate: Fate, why: impl Into<String>) {
        self.0.push(Found { path, what: what.into(), fate, why: why.into() });
    }

    pub(crate) fn sort(&mut self) {
        self.0.sort_by(|one, other| one.path.cmp(&other.path));
    }
}
