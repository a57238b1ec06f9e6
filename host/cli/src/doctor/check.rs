//! A check and its outcome.

use serde::Serialize;

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Outcome {
    /// As it should be.
    Ok,
    /// volhost works, and something is missing or near its limit.
    Warning,
    /// volhost does not work, or not for every volume.
    Problem,
}

impl Outcome {
    /// The word in the first column.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Check {
    /// What was checked.
    pub(super) name: String,
    /// How it ended.
    pub(super) outcome: Outcome,
    /// What was found.
    pub(super) found: String,
    /// Why it matters; empty if it is ok.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) why: String,
    /// What to do; empty if it is ok.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) action: String,
}

/// The checks in their order.
#[derive(Debug, Default)]
pub(super) struct Checks(Vec<Check>);

impl Checks {
    /// Adds a check that found what it should.
    pub(super) fn ok(&mut self, name: &str, found: impl Into<String>) {
        self.add(name, Outcome::Ok, found.into(), "", String::new());
    }

    /// Adds a warning: what was found, why it matters, and what to do.
    pub(super) fn warning(
        &mut self,
        name: &str,
        found: impl Into<String>,
        why: impl Into<String>,
        action: impl Into<String>,
    ) {
        self.add(name, Outcome::Warning, found.into(), why, action.into());
    }

    /// Adds a problem: what was found, why it matters, and what to do.
    pub(super) fn problem(
        &mut self,
        name: &str,
        found: impl Into<String>,
        why: impl Into<String>,
        action: impl Into<String>,
    ) {
        self.add(name, Outcome::Problem, found.into(), why, action.into());
    }

    fn add(&mut self, name: &str, outcome: Outcome, found: String, why: impl Into<String>, action: String) {
        self.0.push(Check { name: name.to_owned(), outcome, found, why: why.into(), action });
    }

    /// All checks.
    pub(super) fn all(&self) -> &[Check] {
        &self.0
    }

    /// How many ended so.
    pub(super) fn count(&self, outcome: Outcome) -> usize {
        self.0.iter().filter(|check| check.outcome == outcome).count()
    }
}
