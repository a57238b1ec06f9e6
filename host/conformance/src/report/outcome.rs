//! What came of a run and of each case.

use serde::Serialize;

/// What came of one case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "outcome")]
pub enum CaseOutcome {
    /// The plugin keeps the sentence, as far as the case can see.
    Passed,
    /// It does not.
    #[serde(rename_all = "camelCase")]
    Failed {
        /// What was done.
        did: String,
        /// What the contract has happen then.
        expected: String,
        /// What happened.
        happened: String,
    },
    /// The case says nothing of this plugin, or of this volume.
    #[serde(rename_all = "camelCase")]
    NotApplicable {
        /// Why.
        why: String,
    },
}

/// One case and what came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CaseReport {
    /// Its stable name, such as `publish/idempotent`.
    pub name: String,
    /// The number of the sentence that it checks.
    pub sentence: String,
    /// The sentence.
    pub says: String,
    /// What came of it.
    #[serde(flatten)]
    pub outcome: CaseOutcome,
    /// How long it took, in milliseconds.
    pub milliseconds: u64,
}

/// A whole run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The plugin, as it says.
    pub plugin: String,
    /// Its version, as it says.
    pub version: String,
    /// Its file's SHA-256.
    pub digest: String,
    /// The cases, in the order in which they ran.
    pub cases: Vec<CaseReport>,
}

impl Report {
    /// How many passed, failed, and did not apply.
    #[must_use]
    pub fn counts(&self) -> (usize, usize, usize) {
        let mut counts = (0, 0, 0);
        for case in &self.cases {
            match case.outcome {
                CaseOutcome::Passed => counts.0 += 1,
                CaseOutcome::Failed { .. } => counts.1 += 1,
                CaseOutcome::NotApplicable { .. } => counts.2 += 1,
            }
        }
        counts
    }

    /// Whether no case failed, and one passed at least.
    #[must_use]
    pub fn is_good(&self) -> bool {
        let (passed, failed, _) = self.counts();
        failed == 0 && passed > 0
    }

    /// The cases that failed.
    pub fn failures(&self) -> impl Iterator<Item = &CaseReport> {
        self.cases.iter().filter(|case| matches!(case.outcome, CaseOutcome::Failed { .. }))
    }

    /// As JSON, on several lines.
    ///
    /// # Errors
    /// None that is known; what the encoder says.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self)
    }
}
