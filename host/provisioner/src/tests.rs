//! The machine against a storage that fails, lies and dies in every way that it can.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests may panic")]

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

mod missing;

const MIB: u64 = 1 << 20;

fn claim(name: &str) -> ClaimName {
    ClaimName { namespace: "default".to_owned(), name: name.to_owned(), uid: format!("uid-{name}") }
}

fn want(name: &str, bytes: u64, reclaim: Reclaim) -> PendingClaim {
    PendingClaim {
        claim: claim(name),
        terms: Terms {
            class: "fast".to_owned(),
            provisioner: "csi.example.com".to_owned(),
            parameters: BTreeMap::new(),
            fs_type: None,
            reclaim,
            mount_options: Vec::new(),
            places: Vec::new(),
            secrets: SecretNames::default(),
        },
        wanted: ClaimRequest {
            bytes,
            limit: None,
            as_device: false,
            access_modes: vec!["ReadWriteOnce".to_owned()],
            source: None,
        },
        in_manifest: false,
    }
}

const SECOND: Time = 1_000_000;
const HOUR: Time = 3_600 * SECOND;
const MISSING: ClaimState = ClaimState::Missing { in_use: false };

fn made(id: &str, capacity: u64) -> CreatedStorage {
    CreatedStorage { id: id.to_owned(), capacity, attributes: BTreeMap::new(), reachable_from: Vec::new() }
}

fn jobs(commands: &[ProvisionerCommand]) -> Vec<(String, JobStep)> {
    let job = |command: &ProvisionerCommand| match command {
        ProvisionerCommand::Run(job) => Some((job.record.name.clone(), job.step)),
        _ => None,
    };
    commands.iter().filter_map(job).collect()
}

fn reasons(commands: &[ProvisionerCommand]) -> Vec<&'static str> {
    let reason = |command: &ProvisionerCommand| match command {
        ProvisionerCommand::Emit { reason, .. } => Some(*reason),
        _ => None,
    };
    commands.iter().filter_map(reason).collect()
}

const WANTS: ClaimState = ClaimState::Wants { bytes: MIB, may_grow: true };
const GONE: ClaimState = ClaimState::Gone { in_use: false };
const USED: ClaimState = ClaimState::Gone { in_use: true };
const NAME: &str = "pvc-uid-data";

/// A machine that has been asked for a volume, and one that has made it.
fn asked(reclaim: Reclaim) -> Provisioner {
    let mut machine = Provisioner::default();
    let commands = machine.look(0, vec![want("data", MIB, reclaim)], |_| WANTS);
    assert_eq!(jobs(&commands), [(NAME.to_owned(), JobStep::Create)]);
    machine
}

fn bound(reclaim: Reclaim) -> Provisioner {
    let mut machine = asked(reclaim);
    machine.ended(0, NAME, JobOutcome::Created(made("id", MIB)));
    assert_eq!(jobs(&machine.look(0, Vec::new(), |_| WANTS)), [(NAME.to_owned(), JobStep::Keep)]);
    let shown = machine.ended(0, NAME, JobOutcome::Done);
    assert!(
        matches!(&shown[..], [ProvisionerCommand::Show(record)] if record.phase == Phase::Made(made("id", MIB))),
        "{shown:?}"
    );
    machine
}

#[test]
fn the_record_says_whether_the_claim_is_in_a_manifest_now() {
    let mut machine = bound(Reclaim::Delete);
    for now in [Some(true), None, Some(false), Some(false)] {
        let before = machine.records().next().unwrap().in_manifest;
        machine.note_sources(|_| now);
        let wanted = now.unwrap_or(before);
        assert_eq!(machine.records().next().unwrap().in_manifest, wanted);
        let written = if wanted == before { vec![] } else { vec![(NAME.to_owned(), JobStep::Keep)] };
        assert_eq!(jobs(&look(&mut machine, 0, WANTS)), written, "{now:?}");
    }
}

#[test]
fn a_volume_is_shown_only_when_its_record_is_kept() {
    let mut machine = asked(Reclaim::Delete);
    let commands = machine.ended(0, NAME, JobOutcome::Created(made("id", 2 * MIB)));
    assert_eq!(reasons(&commands), ["ProvisioningSucceeded"]);
    assert!(!commands.iter().any(|command| matches!(command, ProvisionerCommand::Show(_))));
    machine.look(0, Vec::new(), |_| WANTS);
    let failed = machine.ended(0, NAME, JobOutcome::NotBegun("the disk is full".to_owned()));
    assert_eq!(reasons(&failed), ["VolumeNotRecorded"]);
    assert_eq!(jobs(&machine.look(1, Vec::new(), |_| WANTS)), []);
    assert_eq!(jobs(&machine.look(500_000, Vec::new(), |_| WANTS)), [(NAME.to_owned(), JobStep::Keep)]);
}

#[test]
fn a_failure_that_left_nothing_is_tried_again_and_forgotten_with_its_claim() {
    let mut machine = asked(Reclaim::Delete);
    let commands = machine.ended(0, NAME, JobOutcome::Failed("no room".to_owned()));
    assert_eq!(reasons(&commands), ["ProvisioningFailed"]);
    assert_eq!(machine.progress(&claim("data")), Some((None, Some("no room"))));
    assert_eq!(machine.next_wake(), Some(500_000));
    assert_eq!(jobs(&machine.look(500_000, Vec::new(), |_| GONE)), [(NAME.to_owned(), JobStep::Forget)]);
    machine.ended(500_000, NAME, JobOutcome::Done);
    assert_eq!(machine.records().count(), 0);
}

#[test]
fn what_may_have_been_made_is_asked_for_until_it_is_known_and_deleted_then() {
    let mut machine = asked(Reclaim::Delete);
    machine.ended(0, NAME, JobOutcome::Uncertain("no answer".to_owned()));
    assert_eq!(jobs(&machine.look(500_000, Vec::new(), |_| GONE)), [(NAME.to_owned(), JobStep::Create)]);
    machine.ended(500_000, NAME, JobOutcome::NotBegun("the driver is gone".to_owned()));
    assert_eq!(jobs(&machine.look(9_000_000, Vec::new(), |_| GONE)), [(NAME.to_owned(), JobStep::Create)]);
    machine.ended(9_000_000, NAME, JobOutcome::Created(made("id", MIB)));
    assert_eq!(jobs(&machine.look(9_000_000, Vec::new(), |_| GONE)), [(NAME.to_owned(), JobStep::Keep)]);
    machine.ended(9_000_000, NAME, JobOutcome::Done);
    assert_eq!(jobs(&machine.look(9_000_000, Vec::new(), |_| GONE)), [(NAME.to_owned(), JobStep::Delete)]);
}

#[test]
fn a_call_that_was_never_begun_leaves_nothing_to_look_for() {
    let mut machine = asked(Reclaim::Delete);
    machine.ended(0, NAME, JobOutcome::NotBegun("no driver".to_owned()));
    assert_eq!(jobs(&machine.look(500_000, Vec::new(), |_| GONE)), [(NAME.to_owned(), JobStep::Forget)]);
    // After a restart it is not known whether it was begun.
    let record = ProvisionRecord::new(NAME.to_owned(), want("data", MIB, Reclaim::Delete));
    let (mut machine, _) = Provisioner::restored(vec![record]);
    assert_eq!(jobs(&machine.look(0, Vec::new(), |_| GONE)), [(NAME.to_owned(), JobStep::Create)]);
}

#[test]
fn a_volume_that_is_too_small_is_deleted_and_asked_for_again() {
    let mut machine = asked(Reclaim::Retain);
    let commands = machine.ended(0, NAME, JobOutcome::Created(made("id", MIB - 1)));
    assert_eq!(reasons(&commands), ["ProvisioningFailed"]);
    assert_eq!(jobs(&machine.look(0, Vec::new(), |_| WANTS)), [(NAME.to_owned(), JobStep::Delete)]);
    machine.ended(0, NAME, JobOutcome::Done);
    assert_eq!(jobs(&machine.look(0, Vec::new(), |_| WANTS)), [], "not at once: it would be as small");
    assert_eq!(jobs(&machine.look(500_000, Vec::new(), |_| WANTS)), [(NAME.to_owned(), JobStep::Create)]);
}

#[test]
fn the_handle_of_another_volume_is_refused_and_that_volume_is_left_alone() {
    let mut machine = bound(Reclaim::Delete);
    let commands = machine.look(0, vec![want("other", MIB, Reclaim::Delete)], |_| WANTS);
    assert_eq!(jobs(&commands), [("pvc-uid-other".to_owned(), JobStep::Create)]);
    let commands = machine.ended(0, "pvc-uid-other", JobOutcome::Created(made("id", MIB)));
    assert_eq!(reasons(&commands), ["ProvisioningFailed"]);
    let claim_state = |record: &ProvisionRecord| if record.name == NAME { WANTS } else { GONE };
    assert_eq!(jobs(&machine.look(900_000, Vec::new(), claim_state)), [("pvc-uid-other".to_owned(), JobStep::Forget)]);
}

#[test]
fn nothing_is_released_while_it_is_used_or_nobody_knows() {
    let mut machine = bound(Reclaim::Delete);
    assert_eq!(jobs(&machine.look(0, Vec::new(), |_| ClaimState::Unknown)), []);
    assert_eq!(reasons(&look(&mut machine, 0, USED)), ["VolumeStillUsed"]);
    assert_eq!(machine.look(0, Vec::new(), |_| USED), [], "it is reported once");
    // The claim comes back: it has its volume.
    assert_eq!(reasons(&look(&mut machine, 0, WANTS)), ["ClaimFound"]);
    assert_eq!(jobs(&machine.look(0, Vec::new(), |_| GONE)), [(NAME.to_owned(), JobStep::Delete)]);
    // Too late now: another one is made.
    let commands = machine.look(0, vec![want("data", MIB, Reclaim::Delete)], |_| WANTS);
    assert_eq!(jobs(&commands), [("pvc-uid-data-2".to_owned(), JobStep::Create)]);
    let failed = machine.ended(0, NAME, JobOutcome::Failed("busy".to_owned()));
    assert_eq!(reasons(&failed), ["VolumeFailedDelete"]);
    assert_eq!(jobs(&machine.look(500_000, Vec::new(), |_| WANTS)), [(NAME.to_owned(), JobStep::Delete)]);
    let deleted = machine.ended(500_000, NAME, JobOutcome::Done);
    assert!(deleted.contains(&ProvisionerCommand::Hide(NAME.to_owned())));
}

/// What is on disk after a daemon died, and a machine that goes on with it.
fn restarted(machine: &Provisioner) -> Provisioner {
    let records =
        machine.records().map(|record| ProvisionRecord::read(&record.name, &record.write().unwrap()).unwrap());
    Provisioner::restored(records.collect()).0.with_grace(HOUR)
}

/// Looks, and lets a record be written: what comes of it then included.
fn look(machine: &mut Provisioner, now: Time, claim_state: ClaimState) -> Vec<ProvisionerCommand> {
    let mut commands = machine.look(now, Vec::new(), |_| claim_state);
    if jobs(&commands) == [(NAME.to_owned(), JobStep::Keep)] {
        machine.ended(now, NAME, JobOutcome::Done);
        commands.extend(machine.look(now, Vec::new(), |_| claim_state));
    }
    commands
}

/// Whether the storage is asked to delete the volume.
fn deletes(commands: &[ProvisionerCommand]) -> bool {
    jobs(commands).contains(&(NAME.to_owned(), JobStep::Delete))
}

#[test]
fn a_restart_neither_begins_the_grace_anew_nor_ends_it() {
    let mut machine = bound(Reclaim::Delete).with_grace(HOUR);
    look(&mut machine, 0, MISSING);
    assert_eq!(reasons(&look(&mut machine, HOUR / 2, MISSING)), ["ClaimMissing"]);
    let mut machine = restarted(&machine);
    let start = 10 * HOUR;
    let first = look(&mut machine, start, MISSING);
    assert_eq!(reasons(&first), ["ClaimMissing"]);
    let Some(ProvisionerCommand::Emit { message, .. }) = first.first() else { panic!("{first:?}") };
    assert!(message.contains("since 1970-01-01 00:00:00 UTC") && message.contains("(in 30m0s)"), "{message}");
    assert!(!deletes(&look(&mut machine, start + HOUR / 2 - 1, MISSING)));
    // The time in which volhost could not know does not count.
    look(&mut machine, start + HOUR / 2 - 1, ClaimState::Unknown);
    assert!(!deletes(&look(&mut machine, start + HOUR, MISSING)));
    assert!(!deletes(&look(&mut machine, start + HOUR + 60 * SECOND - 1, MISSING)));
    assert!(deletes(&look(&mut machine, start + HOUR + 60 * SECOND, MISSING)));
}

#[test]
fn what_is_not_written_down_as_missing_is_not_deleted() {
    let mut machine = bound(Reclaim::Delete).with_grace(HOUR);
    assert_eq!(jobs(&machine.look(0, Vec::new(), |_| MISSING)), [(NAME.to_owned(), JobStep::Keep)]);
    machine.ended(0, NAME, JobOutcome::NotBegun("the disk is full".to_owned()));
    assert_eq!(jobs(&machine.look(2 * HOUR, Vec::new(), |_| MISSING)), [(NAME.to_owned(), JobStep::Keep)]);
    machine.ended(2 * HOUR, NAME, JobOutcome::Done);
    assert_eq!(jobs(&machine.look(2 * HOUR, Vec::new(), |_| MISSING)), [(NAME.to_owned(), JobStep::Delete)]);
}

#[test]
fn a_stated_deletion_needs_no_grace_and_is_remembered_while_pods_use_the_volume() {
    let mut machine = bound(Reclaim::Delete).with_grace(HOUR);
    // It is not reported before it is on disk.
    let first = machine.look(0, Vec::new(), |_| USED);
    assert_eq!((reasons(&first), jobs(&first)), (Vec::new(), vec![(NAME.to_owned(), JobStep::Keep)]));
    machine.ended(0, NAME, JobOutcome::Done);
    assert_eq!(reasons(&machine.look(0, Vec::new(), |_| USED)), ["VolumeStillUsed"]);
    let mut machine = restarted(&machine);
    look(&mut machine, 0, ClaimState::Missing { in_use: true });
    assert_eq!(jobs(&look(&mut machine, 0, MISSING)), [(NAME.to_owned(), JobStep::Delete)]);

    let mut machine = bound(Reclaim::Delete).with_grace(HOUR);
    look(&mut machine, 0, MISSING);
    assert!(!machine.delete_claim("default", "other", None));
    assert!(!machine.delete_claim("default", "data", Some("uid-data")), "that one exists");
    assert!(machine.delete_claim("default", "data", Some("uid-of-another")));
    assert!(deletes(&look(&mut machine, 0, MISSING)));
    assert!(!machine.delete_claim("default", "data", None), "it is no claim's any more");
}

#[test]
fn a_retained_volume_stays_until_it_is_forgotten_and_its_name_is_used_up() {
    let mut machine = bound(Reclaim::Retain);
    assert!(machine.forget(NAME).unwrap_err().to_string().contains("default/data"));
    assert_eq!(jobs(&machine.look(0, Vec::new(), |_| GONE)), [(NAME.to_owned(), JobStep::Keep)]);
    machine.ended(0, NAME, JobOutcome::Done);
    assert_eq!(machine.look(0, Vec::new(), |_| GONE), []);
    assert_eq!(machine.forget(NAME).unwrap(), [ProvisionerCommand::Hide(NAME.to_owned())]);
    assert_eq!(jobs(&machine.look(0, Vec::new(), |_| GONE)), [(NAME.to_owned(), JobStep::Keep)]);
    machine.ended(0, NAME, JobOutcome::Done);
    assert_eq!(machine.name_for(&claim("data")), "pvc-uid-data-2");
    assert!(machine.forget(NAME).is_err() && machine.forget("none").is_err());
}

#[test]
fn a_claim_that_asks_for_more_grows_where_its_class_lets_it() {
    let mut machine = bound(Reclaim::Delete);
    let more = |may_grow| ClaimState::Wants { bytes: 3 * MIB, may_grow };
    assert_eq!(reasons(&machine.look(0, Vec::new(), |_| more(false))), ["VolumeResizeFailed"]);
    assert_eq!(machine.look(0, Vec::new(), |_| more(false)), [], "it is reported once");
    assert_eq!(jobs(&machine.look(0, Vec::new(), |_| more(true))), [(NAME.to_owned(), JobStep::Grow(3 * MIB))]);
    assert_eq!(reasons(&machine.ended(0, NAME, JobOutcome::Failed("no room".to_owned()))), ["VolumeResizeFailed"]);
    assert_eq!(jobs(&machine.look(500_000, Vec::new(), |_| more(true))), [(NAME.to_owned(), JobStep::Grow(3 * MIB))]);
    assert_eq!(reasons(&machine.ended(500_000, NAME, JobOutcome::Grown(4 * MIB))), ["VolumeResizeSuccessful"]);
    assert_eq!(jobs(&machine.look(500_000, Vec::new(), |_| more(true))), [(NAME.to_owned(), JobStep::Keep)]);
    let shown = machine.ended(500_000, NAME, JobOutcome::Done);
    assert!(matches!(&shown[..], [ProvisionerCommand::Show(record)] if record.made().unwrap().capacity == 4 * MIB));
}

#[test]
fn a_driver_that_does_not_answer_holds_so_many_threads_and_no_more() {
    let mut machine = Provisioner::default();
    let wants: Vec<PendingClaim> = (0..20).map(|n| want(&n.to_string(), MIB, Reclaim::Delete)).collect();
    assert_eq!(jobs(&machine.look(0, wants, |_| WANTS)).len(), 8);
    assert_eq!(jobs(&machine.look(0, Vec::new(), |_| WANTS)).len(), 0);
}

#[test]
fn a_record_is_read_as_it_was_written_and_nothing_else_is() {
    let machine = bound(Reclaim::Retain);
    let record = machine.records().next().unwrap();
    let bytes = record.write().unwrap();
    assert_eq!(ProvisionRecord::read(NAME, &bytes).unwrap(), *record);
    assert!(ProvisionRecord::read("other", &bytes).is_err());
    for length in [0, 1, bytes.len() / 2, bytes.len() - 1] {
        assert!(ProvisionRecord::read(NAME, &bytes[..length]).is_err());
    }
    let text = String::from_utf8(bytes).unwrap();
    for (old, new) in
        [("\"version\": 1", "\"version\": 2"), ("\"id\": \"id\"", "\"id\": \"\""), ("\"wanted\"", "\"x\"")]
    {
        assert!(ProvisionRecord::read(NAME, text.replace(old, new).as_bytes()).is_err(), "{old}");
    }
}

/// The storage, and the disk of the daemon, both of which outlive it.
#[derive(Default)]
struct Outside {
    storage: BTreeMap<String, u64>,
    disk: BTreeMap<String, ProvisionRecord>,
}

/// How a job goes.
#[derive(Debug, Clone, Copy)]
enum JobFate {
    Well,
    /// It is answered that it failed, and it did.
    Fails,
    /// It is done, and no answer comes.
    DoneUnanswered,
    /// It is not done, and no answer comes.
    LostUnanswered,
    /// The daemon dies before the record is written.
    DiesBefore,
    /// After the record, before the storage is asked.
    DiesBetween,
    /// After the storage has done it.
    DiesAfter,
    TooSmall,
}

fn fates() -> impl Strategy<Value = JobFate> {
    prop_oneof![
        4 => Just(JobFate::Well),
        1 => Just(JobFate::Fails),
        1 => Just(JobFate::DoneUnanswered),
        1 => Just(JobFate::LostUnanswered),
        1 => Just(JobFate::DiesBefore),
        1 => Just(JobFate::DiesBetween),
        1 => Just(JobFate::DiesAfter),
        1 => Just(JobFate::TooSmall),
    ]
}

impl Outside {
    /// Carries a job out; none when the daemon has died over it.
    fn run(&mut self, job: &Job, fate: JobFate) -> Option<JobOutcome> {
        let name = job.record.name.clone();
        if matches!(fate, JobFate::DiesBefore) {
            return None;
        }
        if job.step == JobStep::Forget {
            assert!(!self.storage.contains_key(&name), "{name} is forgotten and there");
            self.disk.remove(&name);
            return Some(JobOutcome::Done);
        }
        self.disk.insert(name.clone(), job.record.clone());
        let change = |outside: &mut Self| match job.step {
            JobStep::Create => {
                let size = if matches!(fate, JobFate::TooSmall) { MIB / 2 } else { job.record.wanted.bytes };
                let size = *outside.storage.entry(name.clone()).or_insert(size);
                JobOutcome::Created(made(&name, size))
            }
            JobStep::Delete => {
                assert!(matches!(job.record.phase, Phase::Undoing(_) | Phase::Released(_)), "{name} has an owner");
                outside.storage.remove(&name);
                JobOutcome::Done
            }
            JobStep::Grow(bytes) => {
                outside.storage.insert(name.clone(), bytes);
                JobOutcome::Grown(bytes)
            }
            JobStep::Keep | JobStep::Forget => JobOutcome::Done,
        };
        let outcome = match (fate, job.step) {
            (JobFate::DiesBetween, _) => return None,
            (JobFate::DiesAfter, _) => {
                change(self);
                return None;
            }
            (JobFate::Well | JobFate::TooSmall, _) | (_, JobStep::Keep) => change(self),
            (JobFate::DoneUnanswered, _) => {
                change(self);
                JobOutcome::Uncertain("no answer".to_owned())
            }
            (JobFate::Fails, _) => {
                // What fails for good has left nothing of what it was to make.
                if job.step == JobStep::Create {
                    self.storage.remove(&name);
                }
                JobOutcome::Failed("it cannot".to_owned())
            }
            (JobFate::LostUnanswered | JobFate::DiesBefore, _) => JobOutcome::Uncertain("no answer".to_owned()),
        };
        if job.step == JobStep::Delete && outcome == JobOutcome::Done {
            self.disk.remove(&name);
        }
        Some(outcome)
    }
}

proptest! {
    /// Claims come and go, pods use volumes, the storage fails, the daemon dies: in the end each
    /// claim has one volume, and nothing else is there.
    #[test]
    fn in_the_end_every_claim_has_one_volume_and_nothing_is_left(
        steps in proptest::collection::vec((any::<bool>(), any::<bool>(), 0_u64..3, fates()), 1..60)
    ) {
        let mut outside = Outside::default();
        let mut machine = Provisioner::default();
        let mut now = 0;
        let last = steps.last().map(|step| step.0).unwrap_or_default();
        let calm = std::iter::repeat_n((last, false, 0, JobFate::Well), 40);
        for (wanted, used, more, fate) in steps.into_iter().chain(calm) {
            now += 200_000_000;
            let bytes = MIB + more;
            let claimed = |machine: &Provisioner| {
                machine.records().filter(|one| matches!(one.phase, Phase::Made(_))).map(|one| one.name.clone()).collect::<Vec<_>>()
            };
            let had = claimed(&machine);
            // Only what is the claim's can be used by pods.
            let in_use = |record: &ProvisionRecord| used && matches!(record.phase, Phase::Made(_));
            let claim_state = |record: &ProvisionRecord| if wanted && !matches!(record.phase, Phase::Released(_)) {
                ClaimState::Wants { bytes, may_grow: true }
            } else {
                ClaimState::Gone { in_use: in_use(record) }
            };
            let wants = if wanted { vec![want("data", bytes, Reclaim::Delete)] } else { Vec::new() };
            let commands = machine.look(now, wants, claim_state);
            if used {
                prop_assert_eq!(&had, &claimed(&machine), "a volume was released while it was used");
            }
            let mut died = false;
            for command in commands {
                let ProvisionerCommand::Run(job) = command else { continue };
                match outside.run(&job, fate) {
                    Some(outcome) => drop(machine.ended(now, &job.record.name, outcome)),
                    None => { died = true; break; }
                }
            }
            if died {
                machine = Provisioner::restored(outside.disk.values().cloned().collect()).0;
            }
        }
        prop_assert_eq!(outside.storage.len(), usize::from(last), "{:?}", outside.storage);
        prop_assert_eq!(outside.disk.len(), usize::from(last), "{:?}", outside.disk);
    }
}
