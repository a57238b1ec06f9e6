//! How an operation failed, and what that says of the state it leaves.
//!
//! The class is a field, not a guess from the text or the type of a wrapped error: [`Failure::at`]
//! adds context and keeps it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The state that a failed operation leaves (rule R1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureClass {
    /// It ended, and what it was to do is not done.
    Final,
    /// It may have happened, or be happening still.
    Uncertain,
    /// It never began: what it needs (a plugin, a driver, a secret) is missing for now. No state
    /// changes.
    Transient,
}

/// A failed operation, for events, `describe` and waiting callers. Never contains a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The state that it leaves.
    pub class: FailureClass,
    /// The step that failed, in the operation's own words: `MountVolume.SetUp`.
    pub step: String,
    /// The plugin that was asked, `vendor/name`; empty when none was.
    pub plugin: String,
    /// The cause: the plugin's or the kernel's own words, and the way out.
    pub message: String,
}

impl Failure {
    /// A failure of this class at this step.
    pub fn new(class: FailureClass, step: impl Into<String>, message: impl Into<String>) -> Self {
        Self { class, step: step.into(), plugin: String::new(), message: message.into() }
    }

    /// Names the plugin that was asked.
    #[must_use]
    pub fn by(mut self, plugin: impl Into<String>) -> Self {
        self.plugin = plugin.into();
        self
    }

    /// Says at which larger step it happened; the class stays.
    #[must_use]
    pub fn at(mut self, step: &str) -> Self {
        self.message = format!("{}: {}", self.step, self.message);
        step.clone_into(&mut self.step);
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed", self.step)?;
        if !self.plugin.is_empty() {
            write!(f, " (plugin {})", self.plugin)?;
        }
        write!(f, ": {}", self.message)?;
        if self.class == FailureClass::Uncertain {
            write!(f, " (uncertain: it may have happened; it will be repeated or undone)")?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adding_context_keeps_the_class() {
        let failure =
            Failure::new(FailureClass::Uncertain, "deadline", "no answer after 10 s").at("MountVolume.SetUp").by("a/b");
        assert_eq!(failure.class, FailureClass::Uncertain);
        assert!(
            failure.to_string().starts_with("MountVolume.SetUp failed (plugin a/b): deadline: no answer after 10 s")
        );
    }
}
