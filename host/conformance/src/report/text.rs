//! A run for people.

use super::outcome::{CaseOutcome, CaseReport, Report};

pub(super) fn case(case: &CaseReport) -> String {
    let CaseReport { name, sentence, says, outcome, .. } = case;
    match outcome {
        CaseOutcome::Passed => format!("passed          {name}"),
        CaseOutcome::NotApplicable { why } => format!("not applicable  {name}: {why}"),
        CaseOutcome::Failed { did, expected, happened } => format!(
            "FAILED          {name}\n    contract {sentence}: {says}\n    done:     {did}\n    expected: {expected}\n    happened: {happened}"
        ),
    }
}

pub(super) fn summary(report: &Report) -> String {
    let (passed, failed, not_applicable) = report.counts();
    format!("{} {}: {passed} passed, {failed} failed, {not_applicable} not applicable", report.plugin, report.version)
}
