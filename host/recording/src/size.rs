//! How much memory a step takes, rounded up. What a command shares with its event, or with the
//! state machine, does not count: an operation's pod and spec, and every name.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use volhost_core::{CoreCommand, DesiredPod, Event, OperationReport};
use volhost_model::{ContainerMount, Failure, NeededVolume, Pod, VolumeSpec};

use crate::recorder::RecordedStep;

/// What an allocation takes besides its content, in bytes.
const ALLOCATION: usize = 16;
/// An entry of a map takes up to twice its size: nodes are half full at least.
const MAP_SLACK: usize = 2;

/// The memory of the step, in bytes.
pub(crate) fn step_bytes(step: &RecordedStep) -> usize {
    let commands: usize = step.commands.iter().map(command_bytes).sum();
    let room = step.commands.capacity() * size_of::<CoreCommand>();
    size_of::<RecordedStep>() + 2 * ALLOCATION + event_bytes(&step.event) + commands + room
}

fn event_bytes(event: &Event) -> usize {
    match event {
        Event::PodDesired(desired) => desired_bytes(desired),
        Event::Recovered(found) => {
            let spec = found.spec.as_deref().map_or(0, spec_bytes);
            let pod = found.known_pod.as_deref().map_or(0, pod_bytes);
            spec + pod + container_mounts_bytes(&found.container_mounts) + size_of_val::<[NeededVolume]>(&found.needs)
        }
        Event::RecoveredDevice(found) => found.spec.as_deref().map_or(0, spec_bytes),
        Event::OperationDone { report, .. } => report_bytes(report),
        Event::OperationOverdue { message, .. } => text(message),
        Event::NodeAttachments(attached) | Event::AttachmentsSoFar(attached) | Event::AttachFailures(attached) => {
            size_of_val(attached.as_slice()) + attached.iter().map(|(_, with)| text(with)).sum::<usize>()
        }
        Event::StorageAnswers(names) | Event::ReportedInUse(names) | Event::NotAttached(names) => {
            size_of_val(names.as_slice())
        }
        Event::PodGone { .. }
        | Event::SourcesSynced
        | Event::PluginChanged { .. }
        | Event::Timer
        | Event::WaitMounted { .. }
        | Event::WaitUnmounted { .. }
        | Event::WaitCancelled { .. }
        | Event::Vanished { .. }
        | Event::DeviceVanished { .. }
        | Event::SourceChanged { .. }
        | Event::Refresh
        | Event::Drain
        | Event::DrainEnded => 0,
    }
}

fn command_bytes(command: &CoreCommand) -> usize {
    match command {
        CoreCommand::Start(operation) => operation.device_path.as_deref().map_or(0, text),
        CoreCommand::ArmTimer(_) => 0,
        CoreCommand::Publish(notice) => text(&notice.pod) + text(&notice.message),
        CoreCommand::Answer { result, .. } => result.as_ref().err().map_or(0, |failure| {
            let volumes = failure.volumes.iter().map(|one| {
                size_of_val(one)
                    + text(&one.name)
                    + text(&one.step)
                    + text(&one.reason)
                    + one.failure.as_ref().map_or(0, failure_bytes)
            });
            text(&failure.pod) + volumes.sum::<usize>()
        }),
    }
}

fn desired_bytes(desired: &DesiredPod) -> usize {
    let volumes = desired.volumes.iter().map(|volume| {
        size_of_val(volume)
            + spec_bytes(&volume.spec)
            + volume.declared.as_deref().map_or(0, spec_bytes)
            + volume.blocked.as_deref().map_or(0, text)
            + volume.attach_limit_of.as_ref().map_or(0, |limit| text(&limit.names))
            + container_mounts_bytes(&volume.container_mounts)
            + size_of_val::<[NeededVolume]>(&volume.needs)
    });
    let unresolved = desired.unresolved.iter().map(|volume| {
        size_of_val(volume)
            + text(&volume.reason)
            + volume.spec.as_deref().map_or(0, spec_bytes)
            + volume.claim.as_deref().map_or(0, text)
    });
    pod_bytes(&desired.pod) + volumes.sum::<usize>() + unresolved.sum::<usize>()
}

fn report_bytes(report: &OperationReport) -> usize {
    let failure = report.result.as_ref().err().map_or(0, failure_bytes);
    failure + report.device_path.as_deref().map_or(0, text) + report.other_node.as_deref().map_or(0, text)
}

fn failure_bytes(failure: &Failure) -> usize {
    text(&failure.step) + text(&failure.plugin) + text(&failure.message)
}

fn pod_bytes(pod: &Pod) -> usize {
    let nested = pod.nested_mounts.values().map(|folders: &BTreeSet<String>| {
        folders.iter().map(|folder| MAP_SLACK * size_of::<String>() + text(folder)).sum::<usize>()
    });
    let resources = pod.containers.iter().chain([&pod.resources]);
    let resources = resources.map(|one| size_of_val(one) + text(&one.name) + map(&one.limits) + map(&one.requests));
    size_of::<Pod>()
        + text(&pod.namespace)
        + text(&pod.name)
        + text(&pod.service_account)
        + map(&pod.labels)
        + map(&pod.annotations)
        + size_of_val(pod.supplemental_groups.as_slice())
        + size_of_val(pod.used_volumes.as_slice())
        + resources.sum::<usize>()
        + nested.sum::<usize>()
}

fn spec_bytes(spec: &VolumeSpec) -> usize {
    let of_volume = spec.persistent_volume.as_ref().map_or(0, |volume| {
        let terms = volume.node_affinity.iter().flat_map(|affinity| &affinity.terms);
        let requirements = terms.flat_map(|term| term.labels.iter().chain(&term.fields));
        let affinity = requirements.map(|one| {
            size_of_val(one)
                + text(&one.key)
                + text(&one.operator)
                + one.values.iter().map(|value| listed(value)).sum::<usize>()
        });
        text(&volume.name)
            + text(&volume.claim)
            + volume.access_modes.iter().chain(&volume.mount_options).map(|one| listed(one)).sum::<usize>()
            + affinity.sum::<usize>()
            + map(&volume.annotations)
    });
    let fields = spec.fields.iter().map(|(key, value)| field(key, value));
    let label = spec.selinux_label.as_deref().map_or(0, text);
    size_of::<VolumeSpec>() + text(&spec.source) + fields.sum::<usize>() + label + of_volume
}

fn container_mounts_bytes(mounts: &[ContainerMount]) -> usize {
    let one = |mount: &ContainerMount| {
        text(&mount.container) + text(&mount.mount_path) + mount.sub_path.as_deref().map_or(0, text)
    };
    size_of_val(mounts) + mounts.iter().map(one).sum::<usize>()
}

fn field(key: &str, value: &Value) -> usize {
    MAP_SLACK * (size_of::<String>() + size_of::<Value>()) + text(key) + value_bytes(value)
}

fn value_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(string) => text(string),
        Value::Array(values) => values.iter().map(|value| size_of::<Value>() + value_bytes(value)).sum(),
        Value::Object(fields) => fields.iter().map(|(key, value)| field(key, value)).sum(),
    }
}

fn map(map: &BTreeMap<String, String>) -> usize {
    map.iter().map(|(key, value)| MAP_SLACK * 2 * size_of::<String>() + text(key) + text(value)).sum()
}

fn listed(string: &str) -> usize {
    size_of::<String>() + text(string)
}

const fn text(string: &str) -> usize {
    if string.is_empty() { 0 } else { ALLOCATION + string.len() }
}
