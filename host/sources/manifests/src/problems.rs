//! What is wrong with the files of the folder.

use std::collections::{BTreeMap, BTreeSet};

use volhost_objects::changes::{Problem, ProblemKind};

/// The problems of each file; the folder's own under its path.
#[derive(Debug, Default)]
pub(super) struct FileProblems(BTreeMap<String, OfFile>);

#[derive(Debug, Default, PartialEq, Eq)]
struct OfFile {
    messages: Vec<String>,
    kinds: BTreeSet<ProblemKind>,
}

impl FileProblems {
    /// Adds a problem of a file.
    pub(super) fn add(&mut self, file: &str, kind: ProblemKind, message: String) {
        let of_file = self.0.entry(file.to_owned()).or_default();
        of_file.messages.push(message);
        of_file.kinds.insert(kind);
    }

    /// Every problem, by file.
    pub(super) fn all(&self) -> impl Iterator<Item = Problem> + '_ {
        self.0.iter().map(|(file, problems)| problem(file, problems))
    }

    /// The files that have other problems than `before`.
    pub(super) fn other_than(&self, before: &Self) -> Vec<Problem> {
        let other = self.0.iter().filter(|(file, problems)| before.0.get(*file) != Some(problems));
        other.map(|(file, problems)| problem(file, problems)).collect()
    }

    /// The files that have problems here, and none in `others`.
    pub(super) fn without(&self, others: &Self) -> Vec<String> {
        self.0.keys().filter(|file| !others.0.contains_key(*file)).cloned().collect()
    }
}

fn problem(file: &str, OfFile { messages, kinds }: &OfFile) -> Problem {
    Problem { file: file.to_owned(), messages: messages.clone(), kinds: kinds.clone() }
}
