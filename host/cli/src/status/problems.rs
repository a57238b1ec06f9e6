//! What keeps a node from being healthy.

use std::path::Path;

use volhost_model::view::{DriverState, DriverView, OperationView, PluginView, PodView, VolumeState, VolumeView};

use crate::client::Client;
use crate::error::CliError;
use crate::format::{age, now_us, until};
use crate::list::{self, Query, View};
use volhost_api::pb;
use volhost_api::pb::Kind;

/// The node's lists.
#[derive(Debug, Default)]
pub(super) struct NodeLists {
    pub(super) pods: Vec<PodView>,
    pub(super) volumes: Vec<VolumeView>,
    pub(super) plugins: Vec<PluginView>,
    pub(super) drivers: Vec<DriverView>,
    pub(super) operations: Vec<OperationView>,
}

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    /// `volume default/web/data`, `manifest web.yaml`.
    pub(super) object: String,
    pub(super) message: String,
}

impl NodeLists {
    /// Reads the lists.
    ///
    /// # Errors
    /// The daemon's refusal, or that the connection broke.
    pub(super) async fn read(client: &mut Client, socket: &Path) -> Result<Self, CliError> {
        let mut lists = Self::default();
        for kind in [Kind::Pods, Kind::Volumes, Kind::Plugins, Kind::Drivers, Kind::Operations] {
            for view in list::all(client, socket, Query::new(kind, None, None)).await? {
                match view {
                    View::Pod(pod) => lists.pods.push(pod),
                    View::Volume(volume) => lists.volumes.push(*volume),
                    View::Plugin(plugin) => lists.plugins.push(plugin),
                    View::Driver(driver) => lists.drivers.push(driver),
                    View::Operation(operation) => lists.operations.push(operation),
                    View::Claim(_) | View::PersistentVolume(_) | View::Event(_) => {}
                }
            }
        }
        Ok(lists)
    }
}

/// What is wrong now. A volume on its way, without a failure, is not; nor is a plugin that was
/// retired.
pub(super) fn problems(status: &pb::StatusResponse, lists: &NodeLists) -> Vec<Problem> {
    let now = now_us();
    let mut problems = Vec::new();
    let mut add = |object: String, message: String| problems.push(Problem { object, message });
    if status.draining {
        add("node".to_owned(), "it is drained: nothing is mounted until `volhost uncordon`".to_owned());
    }
    if !status.synced {
        add(
            "node".to_owned(),
            "not every source of pods has been read yet; nothing of unnamed pods is removed".to_owned(),
        );
    }
    for problem in &status.manifest_problems {
        for message in &problem.messages {
            add(format!("manifest {}", problem.file), message.clone());
        }
    }
    for plugin in &lists.plugins {
        if let Some(message) = of_plugin(plugin) {
            add(format!("plugin {}", plugin.name), message);
        }
    }
    for driver in &lists.drivers {
        if driver.state != DriverState::Ready {
            add(format!("driver {}", driver.name), stated(driver.state.as_str(), &driver.error));
        }
    }
    for volume in &lists.volumes {
        if let Some(message) = of_volume(volume, now) {
            add(format!("volume {}", name(volume)), message);
        }
    }
    for operation in lists.operations.iter().filter(|operation| operation.overdue) {
        let step = if operation.step.is_empty() { "no step reported" } else { &operation.step };
        let running = age(operation.since, now);
        add(
            format!("volume {}", operation.volume),
            format!("{} has passed its deadline: it runs for {running}, at: {step}", operation.name),
        );
    }
    problems
}

fn name(volume: &VolumeView) -> String {
    match (volume.pod.as_str(), volume.name.as_str()) {
        ("", _) => volume.unique_name.clone(),
        (pod, "") => format!("{pod}/{}", volume.spec_name),
        (pod, name) => format!("{pod}/{name}"),
    }
}

fn of_volume(volume: &VolumeView, now: u64) -> Option<String> {
    let next = until(volume.retry_at, now);
    let next = match next.as_str() {
        "" => String::new(),
        "now" => "; next try now".to_owned(),
        next => format!("; next try in {next}"),
    };
    match (&volume.failure, volume.state) {
        (Some(failure), VolumeState::Unresolved) => Some(failure.message.clone()),
        (Some(failure), _) => Some(format!("{failure}{next}")),
        (None, VolumeState::Unresolved) => Some("it is not resolved".to_owned()),
        (None, VolumeState::Uncertain) => Some(format!("it may be mounted: the last operation did not report{next}")),
        (None, _) => None,
    }
}

fn of_plugin(plugin: &PluginView) -> Option<String> {
    match plugin.state.as_str() {
        "Ready" | "Retired" => None,
        state if plugin.waits_for.is_empty() => Some(stated(state, &plugin.error)),
        state => Some(format!("{state}: it waits for {}", plugin.waits_for.join(", "))),
    }
}

fn stated(state: &str, error: &str) -> String {
    if error.is_empty() { state.to_owned() } else { format!("{state}: {error}") }
}

#[cfg(test)]
mod tests {
    use volhost_model::view::DriverKind;
    use volhost_model::{Failure, FailureClass};

    use super::*;

    fn healthy() -> pb::StatusResponse {
        pb::StatusResponse { synced: true, ..pb::StatusResponse::default() }
    }

    fn plugin(state: &str) -> PluginView {
        PluginView {
            name: "a.b/c".into(),
            version: String::new(),
            state: state.into(),
            file: String::new(),
            digest: String::new(),
            abi: String::new(),
            sources: vec![],
            exports: vec![],
            imports: vec![],
            volumes: 0,
            error: if state == "Failed" { "it is no component".into() } else { String::new() },
            waits_for: vec![],
            pending_digest: String::new(),
        }
    }

    fn texts(status: &pb::StatusResponse, lists: &NodeLists) -> Vec<String> {
        problems(status, lists).into_iter().map(|one| format!("{}: {}", one.object, one.message)).collect()
    }

    #[test]
    fn a_node_that_has_everything_is_healthy() {
        let lists = NodeLists { plugins: vec![plugin("Ready"), plugin("Retired")], ..NodeLists::default() };
        assert_eq!(texts(&healthy(), &lists), Vec::<String>::new());
    }

    #[test]
    fn a_drain_unread_sources_and_manifest_errors_are_problems() {
        let problem = pb::ManifestProblem { file: "a.yaml".into(), messages: vec!["a.yaml:3: no".into()] };
        let status = pb::StatusResponse { draining: true, manifest_problems: vec![problem], ..Default::default() };
        let texts = texts(&status, &NodeLists::default());
        assert!(texts[0].starts_with("node: it is drained") && texts[1].contains("not every source"), "{texts:?}");
        assert_eq!(texts[2], "manifest a.yaml: a.yaml:3: no");
    }

    #[test]
    fn plugins_and_drivers_that_do_not_serve_are_problems() {
        let waits = PluginView { waits_for: vec!["tmpfs".into(), "approval".into()], ..plugin("PendingApproval") };
        let driver = DriverView {
            name: "csi.test".into(),
            kind: DriverKind::Csi,
            plugin: String::new(),
            version: String::new(),
            state: DriverState::Failed,
            error: "it has died".into(),
            since: 1,
            capabilities: vec![],
            location: String::new(),
            node_id: String::new(),
            volume_limit: None,
            topology: Default::default(),
        };
        let plugins = vec![plugin("Failed"), plugin("Quarantined"), waits];
        let lists = NodeLists { plugins, drivers: vec![driver], ..NodeLists::default() };
        assert_eq!(
            texts(&healthy(), &lists),
            [
                "plugin a.b/c: Failed: it is no component",
                "plugin a.b/c: Quarantined",
                "plugin a.b/c: PendingApproval: it waits for tmpfs, approval",
                "driver csi.test: Failed: it has died",
            ]
        );
    }

    #[test]
    fn volumes_that_failed_and_operations_that_hang_are_problems() {
        let volume = |name: &str, state, failure| -> VolumeView {
            serde_json::from_value(serde_json::json!({
                "name": name, "spec_name": "", "unique_name": "u", "plugin": "", "pod": "default/web", "pod_uid": "",
                "state": "Mounted", "path": "", "claim": "", "read_only": false, "since": 1, "ready_at": null,
                "failure": null, "retry_at": null, "failures": 0,
            }))
            .map(|volume: VolumeView| VolumeView { state, failure, ..volume })
            .unwrap()
        };
        let failure = |step: &str| Some(Failure::new(FailureClass::Final, step, "no"));
        let volumes = vec![
            volume("a", VolumeState::Mounted, None),
            volume("b", VolumeState::Mounting, None),
            volume("c", VolumeState::Pending, failure("MountVolume.SetUp")),
            volume("d", VolumeState::Unresolved, failure("resolve")),
            volume("e", VolumeState::Uncertain, None),
        ];
        let operation = OperationView {
            id: 1,
            name: "volume_mount".into(),
            volume: "u".into(),
            pod: String::new(),
            plugin: String::new(),
            running: true,
            step: "mount-target.attach".into(),
            since: now_us() - 90_000_000,
            overdue: true,
            failures: 0,
            retry_at: None,
            failure: None,
        };
        let texts = texts(&healthy(), &NodeLists { volumes, operations: vec![operation], ..NodeLists::default() });
        assert_eq!(texts.len(), 4, "{texts:?}");
        assert_eq!(texts[0], "volume default/web/c: MountVolume.SetUp failed: no");
        assert_eq!(texts[1], "volume default/web/d: no");
        assert!(texts[2].starts_with("volume default/web/e: it may be mounted"), "{texts:?}");
        assert!(texts[3].contains("passed its deadline") && texts[3].ends_with("at: mount-target.attach"), "{texts:?}");
    }
}
