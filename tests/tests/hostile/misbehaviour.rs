//! Plugins that use up, crash and lie, in every call that there is. Each ends its own sandbox with
//! an error that says why, leaves nothing, and delays no other: a well-behaved plugin's volume is
//! mounted meanwhile.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use serde_json::json;
use volhost_kernel::Entry;
use volhost_runtime::{CallError, Plugin};

use super::host::{Host, pod, spec};

const TIMEOUT: Duration = Duration::from_secs(60);

/// What must become of a call.
#[derive(Debug, Clone, Copy)]
enum Ends {
    /// As the plugin's own crash.
    Trap,
    /// At its deadline.
    Deadline,
    /// By a limit whose words these are.
    Limit(&'static str),
    /// Because it handed over too much.
    Oversized,
    /// Because it broke the contract, in these words.
    Breach(&'static str),
    /// Found out.
    Lie,
    /// As an error of its own, in these words.
    Error(&'static str),
    /// Done: what was too much is cut off.
    Done,
}

impl Ends {
    fn fits(self, outcome: &Result<(), CallError>) -> bool {
        let said = |error: &CallError, words: &str| error.message().contains(words);
        match (self, outcome) {
            (Self::Done, Ok(()))
            | (Self::Trap, Err(CallError::Trap { .. }))
            | (Self::Deadline, Err(CallError::Deadline { .. }))
            | (Self::Oversized, Err(CallError::OversizedAnswer { .. }))
            | (Self::Lie, Err(CallError::Lied { .. })) => true,
            (Self::Limit(words), Err(error @ CallError::LimitExceeded { .. }))
            | (Self::Breach(words), Err(error @ CallError::BrokeContract { .. }))
            | (Self::Error(words), Err(error @ CallError::Plugin(_))) => said(error, words),
            _ => false,
        }
    }
}

const MEMORY: Ends = Ends::Limit("more than 64 MiB of memory");

const IN_IDENTIFY: &[(&str, Ends)] = &[
    ("loop", Ends::Deadline),
    ("call-loop", Ends::Limit("more host calls")),
    ("panic", Ends::Trap),
    ("stack", Ends::Trap),
    ("memory", MEMORY),
    ("huge-answer", Ends::Oversized),
    ("log-flood", Ends::Done),
    ("event-flood", Ends::Done),
    ("huge-line", Ends::Oversized),
    ("leak", Ends::Breach("it called tmpfs.create in identify")),
    ("long-name", Ends::Breach("1025 bytes")),
    ("bad-name", Ends::Breach("control characters")),
];

const IN_SET_UP: &[(&str, Ends)] = &[
    ("loop", Ends::Deadline),
    ("call-loop", Ends::Limit("more host calls")),
    ("panic", Ends::Trap),
    ("stack", Ends::Trap),
    ("memory", MEMORY),
    ("huge-answer", Ends::Oversized),
    ("huge-line", Ends::Oversized),
    ("lie", Ends::Lie),
    ("leak", Ends::Error("not attached")),
    ("handles", Ends::Limit("more handles at once")),
    ("log-flood", Ends::Done),
    ("event-flood", Ends::Done),
    ("attach-then-panic", Ends::Trap),
    ("attach-then-loop", Ends::Deadline),
    ("attach-then-uncertain", Ends::Error("asked for it")),
    ("attach-then-folder-flood", Ends::Limit("more than 1024 new folders in one call")),
    ("attach-then-deep-folder", Ends::Limit("more than 1024 new folders in one call")),
    ("attach-then-change-flood", Ends::Limit("more than 4096 host calls that change something")),
];

const IN_TEAR_DOWN: &[(&str, Ends)] = &[
    ("loop", Ends::Deadline),
    ("call-loop", Ends::Limit("more host calls")),
    ("panic", Ends::Trap),
    ("stack", Ends::Trap),
    ("memory", MEMORY),
    ("huge-answer", Ends::Oversized),
    ("lie", Ends::Lie),
    ("detach-then-panic", Ends::Trap),
];

/// What a volume may be left as that was mounted before the plugin ended badly: recorded as
/// uncertain and undone by the host.
fn may_exist(how: &str) -> bool {
    how.starts_with("attach-then") || how.ends_with("-flood")
}

fn check(host: &Host, how: &str, ends: Ends, outcome: &Result<(), CallError>, before: usize) {
    assert!(ends.fits(outcome), "{how}: expected {ends:?}, and it was {outcome:?}");
    assert_eq!(host.machine().detached_count(), 0, "{how}: a detached mount was left");
    let (flood, lines) = (how.ends_with("-flood"), host.lines());
    assert!(!flood || lines.len() <= 202, "{how}: {} lines", lines.len());
    assert!(host.said.events.lock().unwrap().drain(..).count() <= 20, "{how}");
    assert!(
        before.abs_diff(host.machine().mounts().len()) <= usize::from(may_exist(how) || how.starts_with("detach")),
        "{how}"
    );
}

#[test]
fn in_identify() {
    let host = Host::new();
    let plugin = host.fixture("fixture-misbehaving");
    for (how, ends) in IN_IDENTIFY {
        let before = host.machine().mounts().len();
        let outcome = plugin.identify(&host.call(), &spec(json!({ "at": "identify", "how": how }))).map(drop);
        check(&host, how, *ends, &outcome, before);
    }
}

#[test]
fn in_set_up() {
    let host = Host::new();
    let plugin = host.fixture("fixture-misbehaving");
    for (how, ends) in IN_SET_UP {
        let before = host.machine().mounts().len();
        let outcome = host.publish(&plugin, how, json!({ "at": "publish", "how": how }));
        check(&host, how, *ends, &outcome, before);
        let exists = host.entry(how) != Entry::Absent;
        assert_eq!(exists, may_exist(how), "{how}: {outcome:?}");
        let changed = matches!(&outcome, Err(error) if error.class() == volhost_model::FailureClass::Uncertain);
        assert_eq!(
            changed,
            how.starts_with("attach-then"),
            "{how}: what may be mounted is uncertain, and nothing else is"
        );
    }
}

#[test]
fn in_tear_down() {
    let host = Host::new();
    let plugin = host.fixture("fixture-misbehaving");
    for (how, ends) in IN_TEAR_DOWN {
        host.publish(&plugin, how, json!({})).unwrap();
        let before = host.machine().mounts().len();
        let mut target = host.target(how);
        target.spec_name = volhost_model::SpecName::new(format!("unpublish-{how}")).unwrap();
        let outcome = plugin.unpublish(&host.call(), target);
        check(&host, how, *ends, &outcome, before);
        assert_eq!(host.entry(how) == Entry::Absent, how.starts_with("detach"), "{how}: {outcome:?}");
        plugin.unpublish(&host.call(), host.target(how)).unwrap();
        assert_eq!(host.entry(how), Entry::Absent, "{how}: the host can undo it");
    }
}

#[test]
fn in_describe_it_is_not_even_loaded() {
    let host = Host::new();
    for (fixture, words) in [
        ("fixture-describe-loop", "was stopped"),
        ("fixture-describe-panic", "crashed in describe"),
        ("fixture-describe-nothing", "describe"),
        ("fixture-describe-bad-name", "describes itself badly"),
        ("fixture-ungranted", "it imports host-paths, which is not granted"),
        ("fixture-wrong-shape", "wrong-shape"),
    ] {
        let message = host.load(&volhost_tests::artifacts::fixture(fixture)).unwrap_err().message();
        assert!(message.contains(words), "{fixture}: {message}");
    }
}

#[test]
fn no_other_volume_waits_for_one_that_runs_for_ever() {
    let host = Arc::new(Host::new());
    let bad = host.fixture("fixture-misbehaving");
    let good = host.fixture("fixture-well-behaved");
    // Both run for as long as they may, while the good one is called again and again.
    let (begun, running) = channel();
    let (ended, end) = channel();
    let threads: Vec<_> = ["loop", "call-loop", "memory", "loop"]
        .into_iter()
        .enumerate()
        .map(|(index, how)| {
            let (host, bad, begun, ended): (_, Arc<Plugin>, _, _) =
                (host.clone(), bad.clone(), begun.clone(), ended.clone());
            std::thread::spawn(move || {
                begun.send(()).unwrap();
                let target = format!("bad-{index}");
                host.publish(&bad, &target, json!({ "at": "publish", "how": how })).unwrap_err();
                ended.send(()).unwrap();
            })
        })
        .collect();
    (0..threads.len()).for_each(|_| running.recv_timeout(TIMEOUT).unwrap());
    let mut publish = 0;
    // The two that loop need two seconds of their own time; until the last of them has ended, the
    // others' volumes come and go.
    let mut over = 0;
    while over < threads.len() {
        let target = format!("good-{publish}");
        good.publish(&host.call(), &spec(json!({})), &pod(), host.target(&target)).unwrap();
        good.unpublish(&host.call(), host.target(&target)).unwrap();
        publish += 1;
        over += end.try_iter().count();
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(publish >= 20, "only {publish} volumes were set up beside plugins that run for ever: they wait in line");
}
