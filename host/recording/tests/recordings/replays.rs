//! What is recorded is replayed equal, and what is decided otherwise is found.

use std::sync::Arc;

use volhost_core::{Config, Core};
use volhost_core_mutants as copy;
use volhost_recording::recorder::MAX_BYTES;
use volhost_recording::{Difference, Recorder, RecordingFile, Replay, ReplayedStep};

use crate::churn::{Churn, record, recorded};

fn file(recorder: &mut Recorder) -> RecordingFile {
    RecordingFile::read(&recorder.recording().file("test", 1).unwrap()).unwrap()
}

fn replayed(file: &RecordingFile) -> Vec<ReplayedStep> {
    Replay::new(file).unwrap().map(Result::unwrap).collect()
}

#[test]
fn what_was_recorded_is_decided_again() {
    for seed in 0..20 {
        let (mut recorder, core) = recorded(seed, 500);
        let file = file(&mut recorder);
        let steps = replayed(&file);
        assert_eq!(steps.len(), 500);
        for step in &steps {
            assert_eq!(step.difference, None, "seed {seed}, step {}", step.number);
        }
        assert!(steps.iter().any(|step| step.commands.len() > 2), "seed {seed} decides something");
        assert_eq!(recorder.recording().machine().pods(), core.pods());
    }
}

#[test]
fn old_steps_leave_the_memory_and_the_rest_is_replayed_equal() {
    let (mut recorder, core) = recorded(7, 60_000);
    let file = file(&mut recorder);
    assert!(file.header().first_step > 0, "all {} steps are kept", file.len());
    assert!(file.len() > 5_000, "only {} steps are kept", file.len());
    let steps = replayed(&file);
    assert_eq!(steps.last().unwrap().number, 59_999);
    let differs = steps.iter().find(|step| step.difference.is_some());
    assert!(differs.is_none(), "{differs:?}");
    assert_eq!(recorder.recording().machine().pods(), core.pods());
}

#[test]
fn steps_that_leave_are_not_lost_while_no_thread_takes_them() {
    let mut core = Core::new(Config::default());
    let mut recorder = Recorder::new(core.clone());
    let mut works = Vec::new();
    Churn::new(3).run(40_000, &mut |at, event| {
        let commands = core.step(at, event.clone());
        works.extend(recorder.record(at, event, Arc::new(commands.clone())));
        commands
    });
    assert_eq!(works.len(), 1, "one thread at a time");
    let file = file(&mut recorder);
    assert!(replayed(&file).iter().all(|step| step.difference.is_none()));
    drop(works);
    // Another thread is asked for again.
    let mut churn = Churn::new(4);
    while works_of(&mut recorder, &mut core, &mut churn) == 0 {}
}

fn works_of(recorder: &mut Recorder, core: &mut Core, churn: &mut Churn) -> usize {
    let mut works = 0;
    churn.run(1_000, &mut |at, event| {
        let commands = core.step(at, event.clone());
        works += usize::from(recorder.record(at, event, Arc::new(commands.clone())).is_some());
        commands
    });
    works
}

/// The heap is not measured here: the sum that the recorder keeps is checked against the file,
/// where each step is text.
#[test]
fn the_memory_of_the_steps_is_bounded() {
    let (mut recorder, _) = recorded(9, 60_000);
    let text = recorder.recording().file("test", 1).unwrap().len();
    assert!(text < 8 * MAX_BYTES, "{text} bytes");
}

#[test]
fn a_broken_rule_is_found_with_both_sides() {
    let rules = [copy::Mutation::ForgetUncertain, copy::Mutation::ForgetFailedTearDown];
    for rule in rules {
        let found = (0..8).find_map(|seed| difference(rule, seed));
        let found = found.unwrap_or_else(|| panic!("{rule:?} is not found"));
        assert!(found.place.starts_with("commands["), "{found:?}");
        assert!(found.recorded != found.replayed, "{found:?}");
    }
}

/// Records a machine in which the rule is broken, and replays that with the state machine.
fn difference(rule: copy::Mutation, seed: u64) -> Option<Difference> {
    let config = Config::default().with_host_attaches(true);
    copy::choose(Some(rule));
    let mut core = copy::Core::new(config);
    let mut recorder = Recorder::new(Core::new(config));
    record(&mut recorder, &mut Churn::new(seed), 300, &mut |at, event| core.step(at, event));
    copy::choose(None);
    let file = file(&mut recorder);
    Replay::new(&file).unwrap().find_map(|step| step.unwrap().difference)
}
