//! How much of the manifest folder has been read, and what is wrong with it.

use std::collections::BTreeMap;

use volhost_objects::{Problem, ProblemKind};

/// How much of the manifest folder has been read.
#[derive(Debug, Default)]
pub(super) struct ManifestFolderState {
    /// Every manifest has been read once, or there is no manifest folder.
    complete: bool,
    /// A manifest was read since the start.
    has_seen_manifests: bool,
    /// The last reading left out manifests that it could not read.
    has_unread_manifests: bool,
    /// The files that have never been read without error.
    unread: Vec<String>,
    /// What is wrong with the files that cannot be used, by name.
    problems: BTreeMap<String, Problem>,
}

impl ManifestFolderState {
    /// Notes a reading of the folder. Returns whether it is the first complete one.
    pub(super) fn read(&mut self, has_manifests: bool, complete: bool, unread: Vec<String>) -> bool {
        self.has_seen_manifests |= has_manifests;
        self.has_unread_manifests = !complete;
        self.unread = unread;
        let is_first = complete && !self.complete;
        self.complete |= complete;
        is_first
    }

    /// Notes which files have other problems than before, and which have none any more.
    pub(super) fn note_problems(&mut self, changed: &[Problem], cleared: &[String]) {
        for file in cleared {
            self.problems.remove(file);
        }
        for problem in changed {
            self.problems.insert(problem.file.clone(), problem.clone());
        }
    }

    /// Lists what is wrong with the files that cannot be used, by name.
    pub(super) fn problems(&self) -> Vec<Problem> {
        self.problems.values().cloned().collect()
    }

    /// Counts the files with a problem of each kind; a file with two kinds counts for both.
    pub(super) fn problem_counts(&self) -> BTreeMap<ProblemKind, u64> {
        let mut counts: BTreeMap<ProblemKind, u64> = ProblemKind::ALL.into_iter().map(|kind| (kind, 0)).collect();
        for kind in self.problems.values().flat_map(|problem| &problem.kinds) {
            *counts.entry(*kind).or_default() += 1;
        }
        counts
    }

    /// Notes that there is no manifest folder.
    pub(super) const fn set_complete(&mut self) {
        self.complete = true;
    }

    /// Whether every manifest has been read once.
    pub(super) const fn is_complete(&self) -> bool {
        self.complete
    }

    /// Whether a manifest was read since the start.
    pub(super) const fn has_seen_manifests(&self) -> bool {
        self.has_seen_manifests
    }

    /// Whether the last reading left out manifests that it could not read.
    pub(super) const fn has_unread_manifests(&self) -> bool {
        self.has_unread_manifests
    }

    /// Returns the files that have never been read without error.
    pub(super) fn unread(&self) -> &[String] {
        &self.unread
    }
}
