//! A run for people.

use super::outcome::{CaseReport, Outcome, Report};

pub(super) fn case(case: &CaseReport) -> String {
    let CaseReport { name, sentence, says, outcome, .. } = case;
    match outcome {
        Outcome::Passed => format!("passed          {name}"),
        Outcome::NotApplicable { why } => format!("not applicable  {name}: {why}"),
        Outcome::Failed { did, expected, happened } => format!(
            "FAILED          {name}\n    contract {sentence}: {says}\n    done:     {did}\n    expected: {expected}\n    happened: {happened}"
        ),
    }
}

pub(super) fn summary(report: &Report) -> String {
    let (passed, failed, not_applicable) = report.counts();
    format!("{} {}: {passed} passed, {failed} failed, {not_applicable} not applicable", report.plugin, report.version)
}
