//! Every rule has a mutant: a copy of the machine with that rule broken on purpose. The simulation
//! has to notice each, by the rule it breaks.

use volhost_core_mutants::{Mutation, NOT_APPLIED};

use crate::rules::{RULES, Rule};
use crate::{Campaign, Findings, STEPS_A_MUTANT};

/// The rule that each mutant breaks.
const MUTANTS: [(Mutation, Rule); 37] = [
    (Mutation::ForgetUncertain, Rule::NothingForgotten),
    (Mutation::ForgetUncertainDevice, Rule::NothingForgotten),
    (Mutation::ForgetFailedTearDown, Rule::NothingForgotten),
    (Mutation::TakeOverBroken, Rule::NothingImagined),
    (Mutation::UnmountBeforeSynced, Rule::HalfKnowledge),
    (Mutation::UnmountUnresolved, Rule::HalfKnowledge),
    (Mutation::ReleaseAwaited, Rule::HalfKnowledge),
    (Mutation::IgnoreKeys, Rule::OneAtATime),
    (Mutation::IgnoreBackoff, Rule::BackOff),
    (Mutation::NeverDoubles, Rule::BackOff),
    (Mutation::Unfair, Rule::FairTurns),
    (Mutation::SleepThroughRetry, Rule::Progress),
    (Mutation::IgnoreGone, Rule::Progress),
    (Mutation::LeaveDevice, Rule::Progress),
    (Mutation::LeaveVolume, Rule::Convergence),
    (Mutation::DeviceBeforePod, Rule::DeviceInUse),
    (Mutation::DetachBeforeDevice, Rule::AttachmentInUse),
    (Mutation::MountBeforeAttach, Rule::AttachFirst),
    (Mutation::IgnoreVanished, Rule::NothingImagined),
    (Mutation::IgnoreDeviceVanished, Rule::NothingImagined),
    (Mutation::BelieveAttached, Rule::NothingImagined),
    (Mutation::ForgetNotAttached, Rule::NothingForgotten),
    (Mutation::KeepElsewhere, Rule::KnownElsewhere),
    (Mutation::IgnoreLimit, Rule::WithinLimit),
    (Mutation::ForgetPlace, Rule::Progress),
    (Mutation::TopBeforeBase, Rule::BaseFirst),
    (Mutation::BaseBeforeTop, Rule::BaseLast),
    (Mutation::ForgetParts, Rule::AllParts),
    (Mutation::ShareSinglePod, Rule::OnePodOneFolder),
    (Mutation::ShareLabels, Rule::OneLabel),
    (Mutation::MountStrangers, Rule::OnlyWanted),
    (Mutation::AnswerTooEarly, Rule::Answers),
    (Mutation::LoseWaiter, Rule::Answers),
    (Mutation::KeepQuiet, Rule::Notices),
    (Mutation::PublishTwice, Rule::Notices),
    (Mutation::ForgetTimer, Rule::Timer),
    (Mutation::Restless, Rule::Quiet),
];

#[test]
fn every_rule_has_a_mutant_and_every_mutant_is_noticed() {
    assert!(NOT_APPLIED.is_empty(), "not found in the source, or more than once: {NOT_APPLIED:?}");
    let mut table = vec![format!("{:<22} {:<18} {:>6} {:>9}", "mutant", "rule it breaks", "seed", "steps")];
    let mut missed = Vec::new();
    for (mutation, rule) in MUTANTS {
        let campaign = Campaign { mutation: Some(mutation), rule: Some(rule), steps: STEPS_A_MUTANT };
        let Findings { failed: found, steps, .. } = campaign.run();
        let seed = found.map_or_else(|| "-".to_owned(), |found| found.to_string());
        table.push(format!("{:<22} {:<18} {seed:>6} {steps:>9}", format!("{mutation:?}"), format!("{rule:?}")));
        if found.is_none() {
            missed.push(mutation);
        }
    }
    eprintln!("{}", table.join("\n"));
    assert!(missed.is_empty(), "unnoticed: {missed:?}\n{}", table.join("\n"));
    for rule in RULES {
        assert!(MUTANTS.iter().any(|(_, breaks)| *breaks == rule), "no mutant breaks {rule:?}");
    }
    for mutation in Mutation::ALL {
        assert!(MUTANTS.iter().any(|(mutant, _)| *mutant == mutation), "{mutation:?} has no rule");
    }
}
