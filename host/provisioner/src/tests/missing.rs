//! The volumes of claims that are missing, and the times at which the machine wants to be woken.

use super::*;

/// Fails if the machine wants to be woken at a time that has passed: its loop would not rest.
fn assert_rests(machine: &Provisioner, now: Time) {
    assert!(machine.next_wake().is_none_or(|at| at > now), "at {now} it wakes at {:?}", machine.next_wake());
}

#[test]
fn the_volume_of_a_missing_claim_is_deleted_only_after_the_grace() {
    let mut machine = bound(Reclaim::Delete).with_grace(HOUR);
    let first = look(&mut machine, 0, MISSING);
    assert_eq!(reasons(&first), ["ClaimMissing"]);
    let Some(ProvisionerCommand::Emit { message, object, .. }) = first.first() else { panic!("{first:?}") };
    assert_eq!(object, "claim default/data");
    for words in
        [NAME, "since 1970-01-01 00:00:00 UTC", "at 1970-01-01 01:00:00 UTC", "volhost delete pvc default/data"]
    {
        assert!(message.contains(words), "{message}");
    }
    assert!(machine.problem(NAME).unwrap().contains("missing since"));
    assert_eq!(machine.next_wake(), Some(HOUR / 2));
    assert_eq!(reasons(&look(&mut machine, HOUR / 2, MISSING)), ["ClaimMissing"], "it is reported again");
    assert!(!deletes(&look(&mut machine, HOUR - 1, MISSING)));
    assert!(deletes(&look(&mut machine, HOUR, MISSING)));
}

#[test]
fn a_claim_that_comes_back_within_the_grace_keeps_its_volume_and_begins_a_new_one() {
    let mut machine = bound(Reclaim::Delete).with_grace(HOUR);
    look(&mut machine, 0, MISSING);
    assert_eq!(reasons(&look(&mut machine, HOUR - 1, WANTS)), ["ClaimFound"]);
    assert_eq!(machine.problem(NAME), None);
    assert_eq!(machine.records().next().unwrap().missing_since, None);
    look(&mut machine, HOUR, MISSING);
    assert!(!deletes(&look(&mut machine, 2 * HOUR - 1, MISSING)));
    assert!(deletes(&look(&mut machine, 2 * HOUR, MISSING)));
}

#[test]
fn the_time_in_which_volhost_did_not_run_is_no_absence() {
    // The claim's file was removed just before the machine was switched off.
    let mut record = bound(Reclaim::Delete).records().next().unwrap().clone();
    record.missing_since = Some(0);
    let mut machine = Provisioner::restored(vec![record]).0.with_grace(HOUR);
    let start = 10 * HOUR;
    look(&mut machine, start, MISSING);
    assert!(!deletes(&look(&mut machine, start + 61 * SECOND, MISSING)));
    assert!(!deletes(&look(&mut machine, start + HOUR - 1, MISSING)));
    assert!(deletes(&look(&mut machine, start + HOUR, MISSING)));
}

#[test]
fn a_clock_that_was_set_between_two_runs_changes_nothing_of_the_grace() {
    for (before, after) in [(24 * HOUR, 0), (0, 500_000 * HOUR)] {
        let mut machine = bound(Reclaim::Delete).with_grace(HOUR);
        look(&mut machine, before, MISSING);
        let mut machine = restarted(&machine);
        look(&mut machine, after, MISSING);
        assert!(machine.records().next().unwrap().missing_since.unwrap() <= after);
        assert!(!deletes(&look(&mut machine, after + HOUR - 1, MISSING)));
        assert!(deletes(&look(&mut machine, after + HOUR, MISSING)));
    }
}

#[test]
fn a_missing_claim_of_a_driver_that_hangs_does_not_keep_the_machine_awake() {
    let mut machine = bound(Reclaim::Delete).with_grace(HOUR);
    look(&mut machine, 0, MISSING);
    let wants: Vec<PendingClaim> = (0..8).map(|n| want(&n.to_string(), MIB, Reclaim::Delete)).collect();
    let claim_state = |record: &ProvisionRecord| if record.name == NAME { MISSING } else { WANTS };
    assert_eq!(jobs(&machine.look(1, wants, claim_state)).len(), 8);
    for now in [1, HOUR / 2, HOUR / 2 + 1, HOUR, 2 * HOUR] {
        assert!(!deletes(&machine.look(now, Vec::new(), claim_state)));
        assert_rests(&machine, now);
    }
    // The next end of a job lets it go on.
    machine.ended(2 * HOUR, "pvc-uid-0", JobOutcome::Failed("no room".to_owned()));
    let commands = machine.look(2 * HOUR, Vec::new(), claim_state);
    assert_eq!(jobs(&commands), [(NAME.to_owned(), JobStep::Keep)], "the counted time is written down first");
    machine.ended(2 * HOUR, NAME, JobOutcome::Done);
    assert!(deletes(&machine.look(2 * HOUR, Vec::new(), claim_state)));
}

#[test]
fn a_claim_whose_deletion_is_stated_while_it_is_missing_leaves_no_reminder() {
    for reclaim in [Reclaim::Delete, Reclaim::Retain] {
        for claim_state in [MISSING, ClaimState::Missing { in_use: true }] {
            let mut machine = bound(reclaim).with_grace(HOUR);
            look(&mut machine, 0, MISSING);
            assert!(machine.delete_claim("default", "data", None));
            for now in [1, 2, HOUR / 2, HOUR] {
                look(&mut machine, now, claim_state);
                assert_rests(&machine, now);
            }
        }
    }
}

#[test]
fn nothing_is_begun_for_a_claim_that_was_not_read_since_the_start() {
    let made = made("id", MIB);
    for phase in [Phase::Asked, Phase::Made(made.clone()), Phase::Undoing(made.clone()), Phase::Released(made)] {
        let mut record = bound(Reclaim::Delete).records().next().unwrap().clone();
        record.phase = phase;
        record.missing_since = Some(0);
        record.missing_for = HOUR;
        let mut machine = Provisioner::restored(vec![record]).0.with_grace(HOUR);
        for now in [0, HOUR] {
            assert_eq!(machine.look(now, Vec::new(), |_| ClaimState::Unread), []);
            assert_eq!(machine.next_wake(), None);
        }
    }
}

proptest! {
    /// Claims are missing, found, deleted, or not known, jobs end or hang: a look leaves no wake-up
    /// in the past.
    #[test]
    fn a_look_leaves_nothing_to_wake_for_that_has_passed(
        steps in proptest::collection::vec((0_u64..2_000, 0_usize..6, any::<bool>(), any::<bool>()), 1..60)
    ) {
        let mut machine = bound(Reclaim::Retain).with_grace(HOUR);
        let claim_states = [MISSING, ClaimState::Missing { in_use: true }, WANTS, ClaimState::Unknown, USED, MISSING];
        let mut now = 0;
        for (seconds, claim_state, ends, fails) in steps {
            now += seconds * SECOND;
            let claim_state = claim_states[claim_state];
            machine.look(now, vec![want("data", MIB, Reclaim::Retain)], |_| claim_state);
            prop_assert!(machine.next_wake().is_none_or(|at| at > now), "{:?} at {}", machine.next_wake(), now);
            let names: Vec<String> = machine.records().map(|record| record.name.clone()).collect();
            for name in names.iter().filter(|_| ends) {
                let outcome = if fails { JobOutcome::NotBegun("it cannot".to_owned()) } else { JobOutcome::Done };
                machine.ended(now, name, outcome);
            }
        }
    }
}
