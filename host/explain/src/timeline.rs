//! A pod from its arrival until it is ready: operations, waits, retries and events, in order.

use std::collections::BTreeSet;

use volhost_model::view::{EventKind, EventView, OperationView, PastOperationView, PodView};

/// What an entry is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// The host heard of the pod, or all of its volumes are ready.
    Milestone,
    /// An operation that has succeeded.
    Done,
    /// An operation that has failed.
    Failed,
    /// An operation that runs.
    Running,
    /// A time in which nothing ran on a volume because the last operation had failed.
    Waiting,
    /// An event that is no failure.
    Event,
    /// A warning.
    Warning,
}

impl EntryKind {
    /// The word for programs.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Milestone => "milestone",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Event => "event",
            Self::Warning => "warning",
        }
    }
}

/// An entry. Times are microseconds since the Unix epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// When it began, or happened.
    pub at: u64,
    /// When it ended; none for a moment, and for what goes on.
    pub until: Option<u64>,
    /// What it is about.
    pub kind: EntryKind,
    /// The volume, by its name in the pod; empty if it is about the pod.
    pub volume: String,
    /// What happened, in words.
    pub text: String,
}

/// What a timeline is made of.
#[derive(Debug, Clone, Copy)]
pub struct TimelineParts<'a> {
    /// The pod.
    pub pod: &'a PodView,
    /// Operations that have ended, oldest first.
    pub past: &'a [PastOperationView],
    /// Operations that run or wait.
    pub operations: &'a [OperationView],
    /// Events, oldest first.
    pub events: &'a [EventView],
    /// The time.
    pub now_us: u64,
}

/// The timeline of a pod, oldest first. What the host no longer remembers is missing.
pub fn timeline(parts: &TimelineParts<'_>) -> Vec<Entry> {
    let pod = parts.pod;
    let name = name_of(pod);
    let mut entries = vec![milestone(pod.since, format!("volhost learned of pod {name}."))];
    if let Some(at) = pod.ready_at {
        entries.push(milestone(at, format!("All {} volumes that its containers use are ready.", pod.total)));
    }
    entries.extend(operations(parts, &name));
    entries.extend(events(parts, &name));
    // Of the same moment, what began first in the list stays first.
    entries.sort_by_key(|entry| entry.at);
    entries
}

fn name_of(pod: &PodView) -> String {
    if pod.name.is_empty() { pod.uid.clone() } else { format!("{}/{}", pod.namespace, pod.name) }
}

fn milestone(at: u64, text: String) -> Entry {
    Entry { at, until: None, kind: EntryKind::Milestone, volume: String::new(), text }
}

/// The operations for the pod, those on its volumes alone, and the waits between them.
fn operations(parts: &TimelineParts<'_>, name: &str) -> Vec<Entry> {
    let pod = parts.pod;
    let is_its_own = |of: &str| of == name || of == pod.uid;
    let known: BTreeSet<&str> = pod.volumes.iter().map(|volume| volume.unique_name.as_str()).collect();
    // An attachment that ended before the pod came is no part of its story.
    let is_shared = |of: &str, volume: &str, ended: u64| of.is_empty() && known.contains(volume) && ended >= pod.since;
    let past: Vec<&PastOperationView> =
        parts.past.iter().filter(|one| is_its_own(&one.pod) || is_shared(&one.pod, &one.volume, one.ended)).collect();
    let now: Vec<&OperationView> = parts
        .operations
        .iter()
        .filter(|one| is_its_own(&one.pod) || is_shared(&one.pod, &one.volume, parts.now_us))
        .collect();
    let mut entries = Vec::new();
    for (at, one) in past.iter().enumerate() {
        let (kind, outcome) = match &one.failure {
            None => (EntryKind::Done, String::new()),
            Some(failure) => {
                let earlier = past.get(..at).unwrap_or_default().iter().rev();
                let before = earlier.into_iter().find(|earlier| earlier.volume == one.volume);
                let is_same = before.is_some_and(|before| before.failure.as_ref() == Some(failure));
                let why = if is_same { " failed again, as before".to_owned() } else { format!(" failed: {failure}") };
                (EntryKind::Failed, why)
            }
        };
        let volume = volume_name(pod, &one.volume);
        entries.push(Entry {
            at: one.began,
            until: Some(one.ended),
            kind,
            volume: volume.clone(),
            text: format!("{} by plugin {}{outcome}", one.name, one.plugin),
        });
        if one.failure.is_some() {
            let later = past.get(at + 1..).unwrap_or_default();
            let again = later.iter().find(|next| next.volume == one.volume).map(|next| next.began);
            let runs = now.iter().find(|next| next.running && next.volume == one.volume).map(|next| next.since);
            entries.extend(wait(one, volume, again.or(runs), &now, parts.now_us));
        }
    }
    entries.extend(now.iter().filter(|one| one.running).map(|one| {
        let step = if one.step.is_empty() { String::new() } else { format!(", at: {}", one.step) };
        let overdue = if one.overdue { ", past its deadline" } else { "" };
        Entry {
            at: one.since,
            until: None,
            kind: EntryKind::Running,
            volume: volume_name(pod, &one.volume),
            text: format!("{} by plugin {} runs{overdue}{step}", one.name, one.plugin),
        }
    }));
    entries
}

/// The time after a failed operation until the next one on the volume; none if there is no other.
fn wait(
    failed: &PastOperationView,
    volume: String,
    next: Option<u64>,
    now: &[&OperationView],
    now_us: u64,
) -> Option<Entry> {
    let due = now.iter().find(|one| !one.running && one.volume == failed.volume).and_then(|one| one.retry_at);
    let (until, text) = match (next, due) {
        (Some(next), _) => (Some(next), "waited for the next try".to_owned()),
        (None, Some(due)) if due > now_us => {
            (None, format!("waits for the next try, which is in {}", { super::times::until(Some(due), now_us) }))
        }
        (None, Some(_)) => (None, "waits for the next try, which is due".to_owned()),
        (None, None) => return None,
    };
    Some(Entry { at: failed.ended, until, kind: EntryKind::Waiting, volume, text })
}

fn events(parts: &TimelineParts<'_>, name: &str) -> Vec<Entry> {
    let about = [format!("pod {name}"), format!("pod {}", parts.pod.uid)];
    let of_pod = |object: &str| {
        about
            .iter()
            .any(|own| object.strip_prefix(own.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with(' ')))
    };
    let of_volume = |object: &str| {
        let unique = object.strip_prefix("volume ");
        unique.and_then(|unique| parts.pod.volumes.iter().find(|volume| volume.unique_name == unique))
    };
    let mut entries = Vec::new();
    for event in parts.events {
        let volume = of_volume(&event.object).filter(|_| event.at >= parts.pod.since);
        if !of_pod(&event.object) && volume.is_none() {
            continue;
        }
        let times =
            if event.count > 1 { format!(" ({} times, the last one here)", event.count) } else { String::new() };
        entries.push(Entry {
            at: event.at,
            until: None,
            kind: if event.kind == EventKind::Warning { EntryKind::Warning } else { EntryKind::Event },
            volume: volume.map(|volume| volume.name.clone()).unwrap_or_default(),
            text: format!("{}: {}{times}", event.reason, event.message),
        });
    }
    entries
}

/// A volume's name in the pod; its unique name if the pod no longer has it.
fn volume_name(pod: &PodView, unique: &str) -> String {
    let found = pod.volumes.iter().find(|volume| volume.unique_name == unique);
    found.map(|volume| volume.name.clone()).filter(|name| !name.is_empty()).unwrap_or_else(|| unique.to_owned())
}

#[cfg(test)]
mod tests {
    use volhost_model::{Failure, FailureClass};

    use super::*;

    fn pod() -> PodView {
        serde_json::from_value(serde_json::json!({
            "uid": "u", "namespace": "shop", "name": "web", "phase": "Mounted", "ready": 1, "total": 1, "since": 100,
            "ready_at": 1_000_700, "errors": [], "volumes": [{
                "name": "data", "spec_name": "data", "unique_name": "a.b/c/d", "plugin": "a.b/c", "pod": "shop/web",
                "pod_uid": "u", "state": "Mounted", "path": "", "claim": "", "read_only": false, "since": 100,
                "ready_at": 1_000_700, "failure": null, "retry_at": null, "failures": 0,
            }],
        }))
        .unwrap()
    }

    fn past(pod: &str, began: u64, ended: u64, failed: bool) -> PastOperationView {
        PastOperationView {
            name: "volume_mount".into(),
            volume: "a.b/c/d".into(),
            pod: pod.into(),
            plugin: "a.b/c".into(),
            began,
            ended,
            failure: failed.then(|| Failure::new(FailureClass::Final, "MountVolume.SetUp", "No such device")),
        }
    }

    fn event(object: &str, at: u64, count: u32) -> EventView {
        EventView {
            sequence: at,
            at,
            kind: EventKind::Warning,
            reason: "FailedMount".into(),
            object: object.into(),
            message: "No such device".into(),
            count,
        }
    }

    #[test]
    fn a_pod_is_told_from_its_arrival_over_a_retry_until_it_is_ready() {
        let pod = pod();
        let past = [
            past("shop/other", 50, 60, true),
            // Of the volume alone, before the pod came.
            past("", 10, 20, false),
            past("shop/web", 200, 400, true),
            past("shop/web", 500_400, 1_000_600, false),
        ];
        let events = [event("pod shop/web volume data", 410, 2), event("pod shop/webb", 420, 1), event("node", 1, 1)];
        let parts = TimelineParts { pod: &pod, past: &past, operations: &[], events: &events, now_us: 2_000_000 };
        let entries = timeline(&parts);
        let shown: Vec<(u64, Option<u64>, &str)> =
            entries.iter().map(|entry| (entry.at, entry.until, entry.kind.word())).collect();
        assert_eq!(
            shown,
            [
                (100, None, "milestone"),
                (200, Some(400), "failed"),
                (400, Some(500_400), "waiting"),
                (410, None, "warning"),
                (500_400, Some(1_000_600), "done"),
                (1_000_700, None, "milestone"),
            ]
        );
        assert!(entries[1].text.contains("No such device"), "{entries:?}");
        assert_eq!(entries[1].volume, "data");
        assert!(entries[3].text.ends_with("(2 times, the last one here)"), "{entries:?}");
    }

    #[test]
    fn a_failure_that_repeats_is_told_once() {
        let pod = pod();
        let past = [past("shop/web", 200, 300, true), past("shop/web", 400, 500, true)];
        let parts = TimelineParts { pod: &pod, past: &past, operations: &[], events: &[], now_us: 600 };
        let entries = timeline(&parts);
        let failed: Vec<&str> =
            entries.iter().filter(|entry| entry.kind == EntryKind::Failed).map(|entry| entry.text.as_str()).collect();
        assert!(failed[0].contains("No such device"), "{failed:?}");
        assert_eq!(failed[1], "volume_mount by plugin a.b/c failed again, as before");
    }

    #[test]
    fn what_runs_or_waits_now_has_no_end() {
        let pod = PodView { ready_at: None, ..pod() };
        let mut operation = OperationView {
            id: 1,
            name: "volume_mount".into(),
            volume: "a.b/c/d".into(),
            pod: "shop/web".into(),
            plugin: "a.b/c".into(),
            running: false,
            step: String::new(),
            since: 400,
            overdue: false,
            failures: 1,
            retry_at: Some(3_000_000),
            failure: None,
        };
        let past = [past("shop/web", 200, 400, true)];
        let told = |operation: &OperationView| {
            let operations = std::slice::from_ref(operation);
            let parts = TimelineParts { pod: &pod, past: &past, operations, events: &[], now_us: 1_000_000 };
            timeline(&parts).pop().unwrap()
        };
        let waits = told(&operation);
        assert_eq!((waits.kind, waits.until), (EntryKind::Waiting, None));
        assert!(waits.text.ends_with("in 2s"), "{}", waits.text);
        operation.running = true;
        operation.step = "mount-target.attach".into();
        operation.since = 500;
        let runs = told(&operation);
        assert_eq!((runs.kind, runs.at, runs.until), (EntryKind::Running, 500, None));
        assert!(runs.text.ends_with("at: mount-target.attach"), "{}", runs.text);
    }
}
