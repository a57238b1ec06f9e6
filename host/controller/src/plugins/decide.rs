//! What is to be written, from all that is known. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use volhost_cluster_client::plugins::{
    AssignedPlugin, FINALIZER, NodePlugins, PluginReport, PluginState, StoredRevision, VolumePlugin, VolumePluginStatus,
};

use super::cluster::NodeFacts;
use super::plan::{Plan, PlanInput, PlanNode, PlanReport, Target, plan};
use super::status;
use crate::finalizers;

/// The most plugins of one node: the bound in the definition of NodePlugins.
const MOST_PLUGINS: usize = 64;

/// What is to be written.
#[derive(Debug, Default)]
pub(super) struct Decisions {
    /// VolumePlugins that get the finalizer.
    pub(super) kept: BTreeSet<String>,
    /// VolumePlugins whose finalizer is removed.
    pub(super) released: BTreeSet<String>,
    /// Statuses that change, by VolumePlugin.
    pub(super) statuses: BTreeMap<String, VolumePluginStatus>,
    /// What changes on nodes, by node.
    pub(super) nodes: BTreeMap<String, Vec<AssignedPlugin>>,
    /// When something is to be decided again, if nothing changes before.
    pub(super) due: Option<Timestamp>,
}

/// The plugins of a node, by the names of the VolumePlugins.
type Assigned = BTreeMap<String, AssignedPlugin>;

/// Decides what is to be written now.
pub(super) fn decide(
    plugins: &[Arc<VolumePlugin>],
    facts: &BTreeMap<String, NodeFacts>,
    on_nodes: &[Arc<NodePlugins>],
    now: Timestamp,
) -> Decisions {
    let mut decisions = Decisions::default();
    let nodes: Vec<NodeView<'_>> = on_nodes.iter().filter_map(|object| NodeView::new(object, facts)).collect();
    let mut assigned: BTreeMap<String, Assigned> =
        nodes.iter().map(|node| (node.name.to_owned(), BTreeMap::new())).collect();
    for (plugin, rival) in by_age(plugins) {
        let name = plugin.metadata.name.clone().unwrap_or_default();
        let has_finalizer = finalizers::has(&plugin.metadata, FINALIZER);
        let reports = reports(on_nodes, &name);
        let (mut new, mut due) = (plugin.status.clone(), None);
        if plugin.metadata.deletion_timestamp.is_some() {
            if has_finalizer && reports.is_empty() {
                decisions.released.insert(name.clone());
            }
            status::removing(&plugin, &reports, &mut new);
        } else if let Some(rival) = rival {
            status::taken(&plugin, &rival, &mut new);
        } else if !has_finalizer {
            // No node has it before it is certain that its removal is seen.
            decisions.kept.insert(name.clone());
            continue;
        } else {
            let planned = roll_out(&plugin, &name, &nodes, &mut assigned, now, &mut new);
            due = planned.due;
        }
        decisions.due = decisions.due.into_iter().chain(due).min();
        if new != plugin.status {
            decisions.statuses.insert(name, new);
        }
    }
    for node in &nodes {
        let mut list: Vec<AssignedPlugin> = assigned.remove(node.name).unwrap_or_default().into_values().collect();
        list.truncate(MOST_PLUGINS);
        if node.object.spec.plugins.as_ref() != Some(&list) {
            decisions.nodes.insert(node.name.to_owned(), list);
        }
    }
    decisions
}

/// The VolumePlugins, the oldest first, each with the older one that has the same plugin.
fn by_age(plugins: &[Arc<VolumePlugin>]) -> Vec<(Arc<VolumePlugin>, Option<String>)> {
    let mut plugins = plugins.to_vec();
    plugins.sort_by_cached_key(|plugin| {
        let made = plugin.metadata.creation_timestamp.as_ref().map(|time| time.0);
        (made, plugin.metadata.name.clone())
    });
    let mut owners: BTreeMap<String, String> = BTreeMap::new();
    let with_rival = |plugin: Arc<VolumePlugin>| {
        let name = plugin.metadata.name.clone().unwrap_or_default();
        let owner = owners.entry(plugin.spec.revision.plugin.clone()).or_insert_with(|| name.clone());
        let rival = (*owner != name).then(|| owner.clone());
        (plugin, rival)
    };
    plugins.into_iter().map(with_rival).collect()
}

/// What nodes report of a plugin, by node.
fn reports<'a>(on_nodes: &'a [Arc<NodePlugins>], plugin: &str) -> Vec<(&'a str, &'a PluginReport)> {
    let of_node = |node: &'a Arc<NodePlugins>| {
        let report = node.status.plugins.iter().find(|report| report.name == plugin)?;
        Some((node.metadata.name.as_deref().unwrap_or_default(), report))
    };
    on_nodes.iter().filter_map(of_node).collect()
}

/// A node that takes plugins from the cluster.
struct NodeView<'a> {
    name: &'a str,
    object: &'a NodePlugins,
    facts: &'a NodeFacts,
}

impl<'a> NodeView<'a> {
    /// None for a node that takes none, or is not known: what it has stays.
    fn new(object: &'a NodePlugins, facts: &'a BTreeMap<String, NodeFacts>) -> Option<Self> {
        let name = object.metadata.name.as_deref()?;
        let facts = facts.get(name).filter(|_| object.status.accepts_plugins)?;
        Some(Self { name, object, facts })
    }

    fn assigned(&self, plugin: &str) -> Option<&'a AssignedPlugin> {
        self.object.spec.plugins.iter().flatten().find(|assigned| assigned.name == plugin)
    }

    fn plan_node(&self, plugin: &str) -> PlanNode {
        let assigned = self.assigned(plugin).map(|assigned| (assigned.revision.revision.clone(), assigned.since.0));
        // A plugin that is being removed was not assigned when the node said so.
        let reports = self.object.status.plugins.iter();
        let report =
            reports.filter(|report| report.state != PluginState::Removing).find(|report| report.name == plugin);
        let report = report.map(|report| PlanReport {
            revision: report.revision.clone(),
            state: report.state,
            reason: report.reason.clone(),
            message: report.message.clone(),
            since: report.since.as_ref().map(|time| time.0),
        });
        PlanNode { name: self.name.to_owned(), is_live: self.facts.is_live, assigned, report }
    }
}

fn roll_out(
    plugin: &VolumePlugin,
    name: &str,
    nodes: &[NodeView<'_>],
    assigned: &mut BTreeMap<String, Assigned>,
    now: Timestamp,
    new: &mut VolumePluginStatus,
) -> Plan {
    let selected: Vec<&NodeView<'_>> =
        nodes.iter().filter(|node| node.facts.matches(&plugin.spec.node_selector)).collect();
    let wanted = StoredRevision::from(plugin.spec.revision.clone());
    let current = plugin.status.current.clone();
    let plan_nodes: Vec<PlanNode> = selected.iter().map(|node| node.plan_node(name)).collect();
    let planned = plan(&PlanInput {
        wanted: &wanted.revision,
        current: current.as_ref().map(|current| current.revision.as_str()),
        failed: plugin.status.rolled_back.as_ref(),
        paused: plugin.spec.rollout.paused,
        max_unavailable: &plugin.spec.rollout.max_unavailable,
        deadline: plugin.spec.rollout.deadline(),
        now,
        nodes: &plan_nodes,
    });
    for node in &selected {
        let kept = node.assigned(name).cloned();
        let next = match planned.assign.get(node.name) {
            None => kept,
            Some(Target::Wanted) => Some(AssignedPlugin::new(name.to_owned(), wanted.clone())),
            Some(Target::Current) => current.clone().map(|current| AssignedPlugin::new(name.to_owned(), current)),
        };
        if let (Some(next), Some(list)) = (next, assigned.get_mut(node.name)) {
            list.insert(name.to_owned(), next);
        }
    }
    let reports: Vec<(&str, &PluginReport)> = selected
        .iter()
        .filter_map(|node| Some((node.name, node.object.status.plugins.iter().find(|report| report.name == name)?)))
        .collect();
    status::rolling_out(plugin, &wanted, &plan_nodes, &planned, &reports, new);
    planned
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn plugin(name: &str, digest: &str, more: Value) -> Arc<VolumePlugin> {
        let mut object = json!({
            "metadata": { "name": name, "generation": 3, "finalizers": [FINALIZER], "creationTimestamp": "2026-01-01T00:00:00Z" },
            "spec": { "plugin": "example.com/archive", "image": "r.example/archive", "digest": digest },
        });
        for (key, value) in more.as_object().unwrap() {
            object[key] = value.clone();
        }
        Arc::new(serde_json::from_value(object).unwrap())
    }

    fn node(name: &str, spec: Value, reports: Value) -> Arc<NodePlugins> {
        Arc::new(
            serde_json::from_value(json!({
                "metadata": { "name": name }, "spec": spec,
                "status": { "acceptsPlugins": true, "plugins": reports },
            }))
            .unwrap(),
        )
    }

    fn facts(names: &[&str]) -> BTreeMap<String, NodeFacts> {
        let live = NodeFacts { labels: BTreeMap::new(), is_live: true };
        names.iter().map(|name| ((*name).to_owned(), live.clone())).collect()
    }

    fn condition(status: &VolumePluginStatus, kind: &str) -> (String, String, String) {
        let found = status.conditions.iter().find(|condition| condition.type_ == kind).unwrap();
        (found.status.clone(), found.reason.clone(), found.message.clone())
    }

    #[test]
    fn a_plugin_gets_the_finalizer_before_any_node_gets_the_plugin() {
        let mut fresh = (*plugin("archive", "sha256:1", json!({}))).clone();
        fresh.metadata.finalizers = None;
        let nodes = [node("a", json!({}), json!([]))];
        let decided = decide(&[Arc::new(fresh)], &facts(&["a"]), &nodes, Timestamp::UNIX_EPOCH);
        assert_eq!(decided.kept.len(), 1);
        assert!(decided.nodes["a"].is_empty());
        let decided =
            decide(&[plugin("archive", "sha256:1", json!({}))], &facts(&["a"]), &nodes, Timestamp::UNIX_EPOCH);
        assert_eq!(decided.nodes["a"][0].revision.content.digest, "sha256:1");
        let status = &decided.statuses["archive"];
        assert_eq!((status.observed_generation, status.nodes.desired, status.phase.as_str()), (3, 1, "RollingOut"));
    }

    #[test]
    fn nodes_that_take_no_plugins_or_are_not_known_keep_what_they_have() {
        let mut closed = (*node("b", json!({ "plugins": [] }), json!([]))).clone();
        closed.status.accepts_plugins = false;
        let nodes = [node("gone", json!({}), json!([])), Arc::new(closed)];
        let decided =
            decide(&[plugin("archive", "sha256:1", json!({}))], &facts(&["b"]), &nodes, Timestamp::UNIX_EPOCH);
        assert!(decided.nodes.is_empty());
        assert_eq!(decided.statuses["archive"].nodes.desired, 0);
    }

    #[test]
    fn a_node_without_the_labels_loses_the_plugin() {
        let had = StoredRevision::from(plugin("archive", "sha256:1", json!({})).spec.revision.clone());
        let assigned = AssignedPlugin::new("archive".into(), had);
        let nodes = [node("a", json!({ "plugins": [assigned] }), json!([]))];
        let spec = json!({ "spec": { "plugin": "p/q", "digest": "sha256:1", "nodeSelector": { "zone": "x" } } });
        let decided = decide(&[plugin("archive", "sha256:1", spec)], &facts(&["a"]), &nodes, Timestamp::UNIX_EPOCH);
        assert!(decided.nodes["a"].is_empty());
    }

    #[test]
    fn a_deleted_plugin_stays_until_no_node_has_it_and_says_who_uses_it() {
        let deleted = json!({ "metadata": {
            "name": "archive", "finalizers": [FINALIZER], "deletionTimestamp": "2026-01-01T00:00:00Z",
        } });
        let used = json!([{ "name": "archive", "state": "Removing", "message": "volume default/web/data uses it" }]);
        let nodes = [node("a", json!({ "plugins": [] }), used)];
        let decided =
            decide(&[plugin("archive", "sha256:1", deleted.clone())], &facts(&["a"]), &nodes, Timestamp::UNIX_EPOCH);
        assert!(decided.released.is_empty() && decided.nodes.is_empty());
        let status = &decided.statuses["archive"];
        assert_eq!(status.phase, "Removing");
        assert!(condition(status, "Ready").2.contains("a: volume default/web/data uses it"), "{status:?}");
        let nodes = [node("a", json!({ "plugins": [] }), json!([]))];
        let decided = decide(&[plugin("archive", "sha256:1", deleted)], &facts(&["a"]), &nodes, Timestamp::UNIX_EPOCH);
        assert!(decided.released.contains("archive"));
    }

    #[test]
    fn of_two_objects_for_one_plugin_the_older_one_counts() {
        let mut younger = (*plugin("aaa", "sha256:2", json!({}))).clone();
        younger.metadata.creation_timestamp = serde_json::from_value(json!("2026-02-01T00:00:00Z")).unwrap();
        let nodes = [node("a", json!({}), json!([]))];
        let plugins = [Arc::new(younger), plugin("archive", "sha256:1", json!({}))];
        let decided = decide(&plugins, &facts(&["a"]), &nodes, Timestamp::UNIX_EPOCH);
        assert_eq!(decided.nodes["a"].iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["archive"]);
        assert_eq!(decided.statuses["aaa"].phase, "NameConflict");
        assert!(condition(&decided.statuses["aaa"], "Ready").2.contains("VolumePlugin archive"));
    }

    #[test]
    fn a_missing_grant_is_a_condition_that_names_it_and_the_way_out() {
        let wanted = plugin("archive", "sha256:1", json!({}));
        let revision = StoredRevision::from(wanted.spec.revision.clone());
        let report = json!([{
            "name": "archive", "revision": revision.revision, "state": "GrantNeeded", "reason": "NotGranted",
            "message": "it asks for host-paths", "missing": ["host-paths"],
        }]);
        let nodes = [node("a", json!({ "plugins": [AssignedPlugin::new("archive".into(), revision)] }), report)];
        let decided = decide(&[wanted], &facts(&["a"]), &nodes, Timestamp::UNIX_EPOCH);
        let status = &decided.statuses["archive"];
        let (state, _, message) = condition(status, "GrantNeeded");
        assert_eq!((state.as_str(), status.phase.as_str()), ("True", "GrantNeeded"));
        assert!(message.contains("host-paths") && message.contains("kubectl edit volumeplugin archive"), "{message}");
    }

    #[test]
    fn a_finished_rollout_becomes_the_current_revision_and_nothing_is_written_twice() {
        let wanted = plugin("archive", "sha256:2", json!({ "status": { "current": { "revision": "old" } } }));
        let revision = StoredRevision::from(wanted.spec.revision.clone());
        let report = json!([{ "name": "archive", "revision": revision.revision, "state": "Ready" }]);
        let nodes =
            [node("a", json!({ "plugins": [AssignedPlugin::new("archive".into(), revision.clone())] }), report)];
        let decided = decide(&[Arc::clone(&wanted)], &facts(&["a"]), &nodes, Timestamp::UNIX_EPOCH);
        let status = decided.statuses["archive"].clone();
        assert_eq!(status.current.as_ref(), Some(&revision));
        assert_eq!(status.previous.as_ref().map(|one| one.revision.as_str()), Some("old"));
        assert_eq!((status.phase.as_str(), condition(&status, "Ready").0.as_str()), ("Ready", "True"));
        let written = Arc::new(wanted.with_status(status));
        let again = decide(&[written], &facts(&["a"]), &nodes, Timestamp::UNIX_EPOCH);
        assert!(again.statuses.is_empty() && again.nodes.is_empty(), "{again:?}");
    }
}
