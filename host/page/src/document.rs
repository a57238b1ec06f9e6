//! The page's data.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use volhost_explain::NodeFacts;
use volhost_explain::reason;
use volhost_explain::sentences::of_pod;
use volhost_explain::timeline::{TimelineParts, timeline};
use volhost_model::view::{
    ClaimView, EventView, OperationView, PastOperationView, PersistentVolumeView, PluginView, PodPhase, PodView,
    VolumeState, VolumeView,
};
use volhost_model::visible::visible_unseen;

use crate::query::{PageQuery, Words};

/// The most pods, and the most volumes, in an answer: those that wait come first. A browser shows
/// thousands of rows slowly, and a person reads none of them.
const MAX_ROWS: usize = 500;
/// The most volumes whose wait is explained: those below would be out of sight.
const MAX_EXPLAINED: usize = 20;
/// The most entries of a timeline: the last ones.
const MAX_ENTRIES: usize = 500;

/// What the page shows, at one moment.
#[derive(Debug, Clone, Default)]
pub struct NodeState {
    /// The daemon's version.
    pub version: String,
    /// The root folder.
    pub root: String,
    /// The node is drained.
    pub is_drained: bool,
    /// Every source of pods has been read.
    pub is_synced: bool,
    /// Manifest files that cannot be used, with their messages.
    pub manifest_problems: Vec<(String, Vec<String>)>,
    /// All pods.
    pub pods: Vec<PodView>,
    /// Volumes that no pod uses.
    pub unused_volumes: Vec<VolumeView>,
    /// All plugins.
    pub plugins: Vec<PluginView>,
    /// Operations that run or wait.
    pub operations: Vec<OperationView>,
    /// All claims.
    pub claims: Vec<ClaimView>,
    /// All PersistentVolumes.
    pub persistent_volumes: Vec<PersistentVolumeView>,
    /// The last events, oldest first.
    pub events: Vec<EventView>,
    /// The last operations that have ended, oldest first.
    pub past: Vec<PastOperationView>,
}

impl NodeState {
    /// The data as JSON. `now_us` is the time in microseconds since the Unix epoch.
    pub fn document(&self, query: &PageQuery, now_us: u64) -> String {
        let facts = NodeFacts {
            claims: self.claims.clone(),
            persistent_volumes: self.persistent_volumes.clone(),
            plugins: self.plugins.clone(),
            operations: self.operations.clone(),
            is_drained: self.is_drained,
        };
        let named = query.pod.as_deref().map(|name| {
            match self.pods.iter().find(|pod| pod.uid == name || full_name(pod) == name) {
                Some(pod) => self.whole_pod(pod, now_us),
                None => json!({"name": name, "gone": true}),
            }
        });
        let words = Words::of(&query.find);
        let (all_pods, all_volumes) = (self.pods_first_waiting(), self.volumes_first_waiting());
        let pods: Vec<&PodView> = all_pods.into_iter().filter(|pod| words.has_pod(pod)).collect();
        let volumes: Vec<&VolumeView> = all_volumes.iter().copied().filter(|volume| words.has_volume(volume)).collect();
        let document = json!({
            "now": now_us,
            "version": self.version,
            "root": self.root,
            "drained": self.is_drained,
            "synced": self.is_synced,
            "manifestProblems": self.manifest_problems.iter().map(|(file, messages)| {
                json!({"file": file, "messages": messages})
            }).collect::<Vec<_>>(),
            "counts": {
                "pods": counts(self.pods.iter().map(|pod| pod.phase.as_str())),
                "volumes": counts(all_volumes.iter().map(|volume| volume.state.as_str())),
                "plugins": counts(self.plugins.iter().map(|plugin| plugin.state.as_str())),
            },
            "pods": pods.iter().take(MAX_ROWS).map(|pod| pod_row(pod)).collect::<Vec<_>>(),
            "volumes": volumes.iter().take(MAX_ROWS).enumerate().map(|(at, volume)| {
                let why = if at < MAX_EXPLAINED && !is_well(volume) { facts.of_volume(volume, now_us) } else { Vec::new() };
                volume_row(volume, &why)
            }).collect::<Vec<_>>(),
            "plugins": self.plugins.iter().map(plugin_row).collect::<Vec<_>>(),
            "hidden": {
                "pods": pods.len().saturating_sub(MAX_ROWS),
                "volumes": volumes.len().saturating_sub(MAX_ROWS),
                "waits": volumes.iter().filter(|volume| !is_well(volume)).count().saturating_sub(MAX_EXPLAINED),
            },
            "pod": named,
        });
        visible(document).to_string()
    }

    /// Pods that wait, then the others, each in the list's order.
    fn pods_first_waiting(&self) -> Vec<&PodView> {
        let is_well = |pod: &&PodView| pod.phase == PodPhase::Mounted && reason::of_pod(pod).is_none();
        let (well, waiting): (Vec<&PodView>, Vec<&PodView>) = self.pods.iter().partition(is_well);
        [waiting, well].concat()
    }

    /// Volumes likewise.
    fn volumes_first_waiting(&self) -> Vec<&VolumeView> {
        let all = self.pods.iter().flat_map(|pod| &pod.volumes).chain(&self.unused_volumes);
        let (well, waiting): (Vec<&VolumeView>, Vec<&VolumeView>) = all.partition(|volume| is_well(volume));
        [waiting, well].concat()
    }

    fn whole_pod(&self, pod: &PodView, now_us: u64) -> Value {
        let parts = TimelineParts { pod, past: &self.past, operations: &self.operations, events: &self.events, now_us };
        let entries = timeline(&parts);
        let skipped = entries.len().saturating_sub(MAX_ENTRIES);
        json!({
            "name": full_name(pod),
            "gone": false,
            "summary": of_pod(pod),
            "skipped": skipped,
            "timeline": entries.iter().skip(skipped).map(|entry| json!({
                "at": entry.at,
                "until": entry.until,
                "kind": entry.kind.word(),
                "volume": entry.volume,
                "text": entry.text,
            })).collect::<Vec<_>>(),
        })
    }
}

/// The same with the characters that a reader does not see as escapes: a browser would obey them.
fn visible(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(visible_unseen(&text).into_owned()),
        Value::Array(list) => Value::Array(list.into_iter().map(visible).collect()),
        Value::Object(map) => Value::Object(
            map.into_iter().map(|(key, value)| (visible_unseen(&key).into_owned(), visible(value))).collect(),
        ),
        other => other,
    }
}

fn is_well(volume: &VolumeView) -> bool {
    volume.state == VolumeState::Mounted && volume.failure.is_none()
}

pub(crate) fn full_name(pod: &PodView) -> String {
    if pod.name.is_empty() { pod.uid.clone() } else { format!("{}/{}", pod.namespace, pod.name) }
}

pub(crate) fn volume_name(volume: &VolumeView) -> &str {
    if volume.name.is_empty() { &volume.spec_name } else { &volume.name }
}

fn counts<'a>(states: impl Iterator<Item = &'a str>) -> BTreeMap<&'a str, usize> {
    let mut counts = BTreeMap::new();
    for state in states {
        *counts.entry(state).or_default() += 1;
    }
    counts
}

fn pod_row(pod: &PodView) -> Value {
    json!({
        "uid": pod.uid,
        "name": full_name(pod),
        "phase": pod.phase.as_str(),
        "ready": pod.ready,
        "total": pod.total,
        "since": pod.since,
        "readyAt": pod.ready_at,
        "reason": reason::of_pod(pod),
    })
}

fn volume_row(volume: &VolumeView, sentences: &[String]) -> Value {
    json!({
        "pod": volume.pod,
        "name": volume_name(volume),
        "uniqueName": volume.unique_name,
        "plugin": volume.plugin,
        "state": volume.state.as_str(),
        "since": volume.since,
        "failures": volume.failures,
        "sentences": sentences,
    })
}

fn plugin_row(plugin: &PluginView) -> Value {
    json!({
        "name": plugin.name,
        "version": plugin.version,
        "state": plugin.state,
        "sources": plugin.sources,
        "volumes": plugin.volumes,
        "error": plugin.error,
        "waitsFor": plugin.waits_for,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, state: &str) -> PodView {
        let failure = (state != "Mounted").then(|| {
            json!({
                "class": "final", "step": "MountVolume.SetUp", "plugin": "", "message": "<script>alert(1)</script>",
            })
        });
        serde_json::from_value(json!({
            "uid": format!("uid-{name}"), "namespace": "shop", "name": name, "since": 100, "errors": [],
            "phase": if state == "Mounted" { "Mounted" } else { "Mounting" }, "ready": 0, "total": 1, "ready_at": null,
            "volumes": [{
                "name": "data", "spec_name": "data", "unique_name": format!("a.b/c/{name}"), "plugin": "a.b/c",
                "pod": format!("shop/{name}"), "pod_uid": format!("uid-{name}"), "state": state, "path": "",
                "claim": "", "read_only": false, "since": 100, "ready_at": null, "failure": failure,
                "retry_at": null, "failures": 1,
            }],
        }))
        .unwrap()
    }

    fn read(state: &NodeState, pod: Option<&str>) -> Value {
        found(state, pod, "")
    }

    fn found(state: &NodeState, pod: Option<&str>, find: &str) -> Value {
        let query = PageQuery { pod: pod.map(str::to_owned), find: find.to_owned() };
        serde_json::from_str(&state.document(&query, 200)).unwrap()
    }

    #[test]
    fn what_waits_comes_first_with_its_sentences() {
        let state = NodeState { pods: vec![pod("a", "Mounted"), pod("b", "Pending")], ..NodeState::default() };
        let document = read(&state, None);
        assert_eq!(document["pods"][0]["name"], "shop/b");
        assert_eq!(document["pods"][0]["reason"], "FailedMount");
        assert_eq!(document["volumes"][0]["sentences"][0], "Volume data of pod shop/b is not mounted.");
        assert_eq!(document["volumes"][1]["sentences"], json!([]));
        assert_eq!(document["counts"]["volumes"], json!({"Mounted": 1, "Pending": 1}));
        assert!(document["pod"].is_null());
    }

    #[test]
    fn one_pod_has_its_timeline_by_name_or_uid() {
        let state = NodeState { pods: vec![pod("b", "Pending")], ..NodeState::default() };
        for name in ["shop/b", "uid-b"] {
            let document = read(&state, Some(name));
            assert_eq!(document["pod"]["timeline"][0]["text"], "volhost learned of pod shop/b.");
            assert_eq!(document["pod"]["summary"], "Pod shop/b is not mounted: 0 of 1 volumes ready.");
        }
        assert_eq!(read(&state, Some("<b>"))["pod"], json!({"name": "<b>", "gone": true}));
    }

    #[test]
    fn an_answer_is_bounded_and_invisible_characters_are_escapes() {
        let mut pods: Vec<PodView> = (0..600).map(|number| pod(&format!("p{number}"), "Mounted")).collect();
        pods.push(pod("x\u{202e}y", "Pending"));
        let state = NodeState { pods, ..NodeState::default() };
        let document = read(&state, None);
        assert_eq!(document["pods"].as_array().unwrap().len(), MAX_ROWS);
        assert_eq!(document["hidden"], json!({"pods": 101, "volumes": 101, "waits": 0}));
        assert_eq!(document["pods"][0]["name"], "shop/x\\u{202e}y");
    }

    #[test]
    fn the_first_of_many_volumes_that_wait_are_explained_and_the_others_counted() {
        let pods = (0..100).map(|number| pod(&format!("p{number}"), "Pending")).collect();
        let document = read(&NodeState { pods, ..NodeState::default() }, None);
        let volumes = document["volumes"].as_array().unwrap();
        let explained = volumes.iter().filter(|volume| volume["sentences"] != json!([])).count();
        assert_eq!((volumes.len(), explained), (100, MAX_EXPLAINED));
        assert_eq!(document["hidden"]["waits"], 80);
    }

    #[test]
    fn a_search_looks_at_all_rows_and_changes_no_count() {
        let mut pods: Vec<PodView> = (0..2000).map(|number| pod(&format!("p{number}"), "Mounted")).collect();
        pods.push(pod("last", "Pending"));
        let state = NodeState { pods, ..NodeState::default() };
        let names = |find: &str| -> Vec<String> {
            let document = found(&state, None, find);
            assert_eq!(document["counts"]["pods"], json!({"Mounted": 2000, "Mounting": 1}));
            let pods = document["pods"].as_array().unwrap();
            assert_eq!(document["volumes"].as_array().unwrap().len(), pods.len());
            pods.iter().map(|pod| pod["name"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(names("P1999"), ["shop/p1999"]);
        assert_eq!(names("  uid-last "), ["shop/last"]);
        assert_eq!(names("pending shop"), ["shop/last"]);
        assert_eq!(names("a.b/c p1234"), ["shop/p1234"]);
        assert_eq!(names("p1234 p1235"), [""; 0]);
        assert_eq!(names("").len(), MAX_ROWS);
        assert_eq!(found(&state, None, "mounted")["hidden"]["pods"], 2000 - MAX_ROWS);
    }
}
