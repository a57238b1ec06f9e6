//! A VolumePlugin's status: counts, and conditions that name the node, the cause and the way out.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use volhost_cluster_client::plugins::{
    NodeCounts, PluginReport, PluginState, StoredRevision, VolumePlugin, VolumePluginStatus,
};

use super::plan::{Plan, PlanNode};

/// The most nodes that a message names.
const NAMED: usize = 3;
/// The longest message, in bytes: the API server takes 32 KiB.
const MESSAGE_BYTES: usize = 4096;

/// Shows a VolumePlugin that is to be removed.
pub(super) fn removing(plugin: &VolumePlugin, reports: &[(&str, &PluginReport)], new: &mut VolumePluginStatus) {
    begin(plugin, new);
    new.nodes = NodeCounts::default();
    new.phase = "Removing".to_owned();
    let message = match reports {
        [] => "no node has the plugin any more".to_owned(),
        reports => format!(
            "{} still have it; {}",
            nodes_of(reports.len()),
            named(reports, |report| match report.message.as_str() {
                "" => "it is being removed".to_owned(),
                message => message.to_owned(),
            })
        ),
    };
    set(new, "Ready", false, "Removing", message);
    set(
        new,
        "Progressing",
        !reports.is_empty(),
        "Removing",
        "the plugin is removed where no volume uses it".to_owned(),
    );
}

/// Shows a VolumePlugin whose plugin another one installs.
pub(super) fn taken(plugin: &VolumePlugin, rival: &str, new: &mut VolumePluginStatus) {
    begin(plugin, new);
    new.nodes = NodeCounts::default();
    new.phase = "NameConflict".to_owned();
    let name = &plugin.spec.revision.plugin;
    let message = format!(
        "VolumePlugin {rival}, which is older, installs the plugin {name}; delete one of the two, or change spec.plugin"
    );
    set(new, "Ready", false, "NameConflict", message.clone());
    set(new, "Progressing", false, "NameConflict", message.clone());
    set(new, "Degraded", true, "NameConflict", message);
}

/// Shows how far the rollout is.
pub(super) fn rolling_out(
    plugin: &VolumePlugin,
    wanted: &StoredRevision,
    nodes: &[PlanNode],
    plan: &Plan,
    reports: &[(&str, &PluginReport)],
    new: &mut VolumePluginStatus,
) {
    begin(plugin, new);
    if plan.is_complete && new.current.as_ref() != Some(wanted) {
        new.previous = new.current.replace(wanted.clone());
    }
    new.rolled_back.clone_from(&plan.failure);
    let on_wanted: Vec<&PlanNode> = nodes.iter().filter(|node| node.has(&wanted.revision)).collect();
    let of_state = |state: PluginState| -> Vec<(&str, &PluginReport)> {
        let is_of = |node: &str| nodes.iter().any(|one| one.name == node && is_in(one, state));
        reports.iter().filter(|(node, _)| is_of(node)).copied().collect()
    };
    let (failed, ungranted) = (of_state(PluginState::Failed), of_state(PluginState::GrantNeeded));
    let ready = on_wanted.iter().filter(|node| node.is_ready()).count();
    new.nodes = NodeCounts {
        desired: count(nodes.len()),
        updated: count(on_wanted.len()),
        ready: count(ready),
        failed: count(failed.len()),
    };
    let is_ready = ready == nodes.len() && plan.failure.is_none();
    let progress = format!("{ready} of {} have revision {} ready", nodes_of(nodes.len()), wanted.revision);
    let paused = plugin.spec.rollout.paused && !is_ready;
    new.phase = match (&plan.failure, ungranted.is_empty()) {
        _ if nodes.is_empty() => "NoNodes",
        (Some(_), _) if new.current.is_some() => "RolledBack",
        (Some(_), _) => "Failed",
        (None, false) => "GrantNeeded",
        (None, true) if is_ready => "Ready",
        (None, true) if paused => "Paused",
        (None, true) if failed.is_empty() => "RollingOut",
        (None, true) => "Degraded",
    }
    .to_owned();
    let phase = new.phase.clone();

    let message = if nodes.is_empty() {
        "no node that takes plugins from the cluster has the labels of spec.nodeSelector; a node takes them if its daemon runs with cluster-plugins = true".to_owned()
    } else {
        progress.clone()
    };
    set(new, "Ready", is_ready && !nodes.is_empty(), &phase, message);
    let is_progressing = !is_ready && !paused && plan.failure.is_none() && ungranted.is_empty();
    set(new, "Progressing", is_progressing, &phase, progress);
    let broken = named(&failed, |report| report.message.clone());
    let degraded = if broken.is_empty() { "no node reports a failure".to_owned() } else { broken };
    set(new, "Degraded", !failed.is_empty() || plan.failure.is_some(), &phase, degraded);
    set_grant_needed(plugin, &ungranted, new);
    set_rolled_back(plan, new);
}

fn set_grant_needed(plugin: &VolumePlugin, ungranted: &[(&str, &PluginReport)], new: &mut VolumePluginStatus) {
    if ungranted.is_empty() {
        return set(new, "GrantNeeded", false, "Granted", "no node waits for a grant".to_owned());
    }
    let missing: BTreeSet<&str> =
        ungranted.iter().flat_map(|(_, report)| &report.missing).map(String::as_str).collect();
    let missing: Vec<&str> = missing.into_iter().collect();
    let name = plugin.metadata.name.as_deref().unwrap_or_default();
    let message = format!(
        "{} wait; missing: {}. {}. To grant it, add it to spec.grants: kubectl edit volumeplugin {name}",
        nodes_of(ungranted.len()),
        missing.join(", "),
        named(ungranted, |report| report.message.clone())
    );
    let reason = ungranted.first().map(|(_, report)| report.reason.as_str()).filter(|reason| !reason.is_empty());
    set(new, "GrantNeeded", true, reason.unwrap_or("NotGranted"), message);
}

fn set_rolled_back(plan: &Plan, new: &mut VolumePluginStatus) {
    let Some(failure) = &plan.failure else {
        return set(new, "RolledBack", false, "NoFailure", "the wanted revision has not failed".to_owned());
    };
    let outcome = match &new.current {
        Some(current) => format!("nodes go back to revision {} ({})", current.revision, current.content.short_digest()),
        None => "there is no earlier revision to go back to, so that no further node gets it".to_owned(),
    };
    let message = format!(
        "revision {} failed on node {}: {}; {outcome}. It is tried again when the spec asks for another revision",
        failure.revision, failure.node, failure.message
    );
    let has_gone_back = new.current.is_some();
    set(new, "RolledBack", has_gone_back, &failure.reason, message);
}

fn is_in(node: &PlanNode, state: PluginState) -> bool {
    node.current_report().is_some_and(|report| report.state == state)
}

fn begin(plugin: &VolumePlugin, new: &mut VolumePluginStatus) {
    new.observed_generation = plugin.metadata.generation.unwrap_or_default();
    new.short_digest = plugin.spec.revision.short_digest();
}

fn count(nodes: usize) -> u32 {
    u32::try_from(nodes).unwrap_or(u32::MAX)
}

fn nodes_of(number: usize) -> String {
    if number == 1 { "1 node".to_owned() } else { format!("{number} nodes") }
}

/// The first nodes, each with what is to be said of it.
fn named(reports: &[(&str, &PluginReport)], words: impl Fn(&PluginReport) -> String) -> String {
    let some: Vec<String> =
        reports.iter().take(NAMED).map(|(node, report)| format!("{node}: {}", words(report))).collect();
    let rest = reports.len().saturating_sub(NAMED);
    let more = if rest == 0 { String::new() } else { format!("; and {} more", nodes_of(rest)) };
    format!("{}{more}", some.join("; "))
}

/// Sets a condition. Its time changes with its status alone.
fn set(status: &mut VolumePluginStatus, kind: &str, is_true: bool, reason: &str, message: String) {
    let state = if is_true { "True" } else { "False" };
    let generation = Some(status.observed_generation);
    let message = shortened(message);
    let reason = if reason.is_empty() { "Unknown" } else { reason }.to_owned();
    match status.conditions.iter_mut().find(|condition| condition.type_ == kind) {
        Some(condition) => {
            if condition.status != state {
                condition.last_transition_time = now();
            }
            state.clone_into(&mut condition.status);
            condition.reason = reason;
            condition.message = message;
            condition.observed_generation = generation;
        }
        None => status.conditions.push(Condition {
            last_transition_time: now(),
            message,
            observed_generation: generation,
            reason,
            status: state.to_owned(),
            type_: kind.to_owned(),
        }),
    }
}

fn shortened(mut message: String) -> String {
    if message.len() > MESSAGE_BYTES {
        let end = (0..=MESSAGE_BYTES).rev().find(|at| message.is_char_boundary(*at)).unwrap_or_default();
        message.truncate(end);
    }
    message
}

/// In whole seconds, as Kubernetes keeps it.
fn now() -> Time {
    let now = Timestamp::now();
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}
