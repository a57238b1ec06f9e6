//! What came of a run, and how it is shown.

mod junit;
mod outcome;
mod text;

pub use outcome::{CaseOutcome, CaseReport, Report};

impl Report {
    /// As JUnit XML.
    #[must_use]
    pub fn to_junit(&self) -> String {
        junit::write(self)
    }

    /// The last line of a run, for people.
    #[must_use]
    pub fn summary(&self) -> String {
        text::summary(self)
    }
}

impl CaseReport {
    /// The case on one line, and below it, if it failed, what was done, expected, and happened.
    #[must_use]
    pub fn to_text(&self) -> String {
        text::case(self)
    }
}
