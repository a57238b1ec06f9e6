//! The description of a volume, alone and in its pod's description.

use volhost_model::FailureClass;
use volhost_model::view::{ContainerMountView, UsageView, VolumeView};

use super::super::columns::state;
use super::super::format::{age, printable, size, took, until};
use super::super::list::View;
use super::super::text::Text;
use super::super::usage;
use volhost_table::Cell;

/// One use by a container, as a row.
fn container_mount(mount: &ContainerMountView) -> Vec<Cell> {
    let access = match (mount.read_only, mount.recursive_read_only) {
        (false, _) => "read-write",
        (true, false) => "read-only",
        (true, true) => "read-only, and all in it",
    };
    let index = format!("volumeMounts[{}]", mount.index);
    let sub_path = match mount.sub_path.as_deref() {
        None => "-",
        Some("") => ".",
        Some(path) => path,
    };
    let path = if mount.path.is_empty() { "not ready" } else { &mount.path };
    [&mount.container, index.as_str(), &mount.mount_path, sub_path, access, &mount.propagation, path]
        .into_iter()
        .map(Cell::new)
        .collect()
}

/// The operations that run on volumes now: step and start of each.
pub(super) fn running(text: &mut Text, operations: &[View]) {
    let running = operations.iter().filter_map(|view| match view {
        View::Operation(operation) if operation.running => Some(operation),
        _ => None,
    });
    let now = text.now_us;
    let lines: Vec<String> = running
        .map(|operation| {
            let step = if operation.step.is_empty() { "no step reported" } else { &operation.step };
            let overdue = if operation.overdue { ", past its deadline" } else { "" };
            format!("{} for {}{overdue}, at: {step}", operation.name, age(operation.since, now))
        })
        .collect();
    if !lines.is_empty() {
        text.block("Running", |text| lines.iter().for_each(|line| text.line(&printable(line))));
    }
}

/// The fields, without the name.
pub(super) fn fields(text: &mut Text, volume: &VolumeView) {
    let now = text.now_us;
    text.field("State", state(volume.state).0);
    if !volume.pod.is_empty() {
        text.field("Pod", &volume.pod);
    }
    text.field("Plugin", &volume.plugin);
    text.field("Unique name", &volume.unique_name);
    text.field("Path", &volume.path);
    if !volume.claim.is_empty() {
        text.field("Claim", &volume.claim);
    }
    if !volume.attached_by.is_empty() {
        let at = if volume.attached_as.is_empty() { String::new() } else { format!(", as {}", volume.attached_as) };
        text.field("Attached by", &format!("the {}{at}", volume.attached_by));
    }
    if !volume.attached_elsewhere.is_empty() {
        text.field("Attached to", &format!("node {}, or may be", volume.attached_elsewhere));
    }
    if !volume.selinux_label.is_empty() {
        text.field("SELinux label", &volume.selinux_label);
    }
    if !volume.pending_edit.is_empty() {
        text.field("Edited", &format!("{}; applies at the next mount", volume.pending_edit));
    }
    text.field("Read-only", if volume.read_only { "yes" } else { "no" });
    if !volume.made_of.is_empty() {
        text.field("Made of", &volume.made_of.join(", "));
    }
    if !volume.container_mounts.is_empty() {
        let rows = volume.container_mounts.iter().map(container_mount);
        let names = ["CONTAINER", "MOUNT", "AT", "SUB-PATH", "ACCESS", "PROPAGATION", "HOST PATH"];
        text.cells("Used by", &names, &rows.collect::<Vec<_>>());
    }
    if volume.since > 0 {
        text.field("Wanted since", &age(volume.since, now));
    }
    if volume.ready_at.is_some() {
        text.field("Took", &took(volume.since, volume.ready_at));
    }
    if let Some(usage) = &volume.usage {
        usage_block(text, usage);
    }
    if let Some(failure) = &volume.failure {
        text.block("Last error", |text| {
            text.field("Step", &failure.step);
            if !failure.plugin.is_empty() {
                text.field("Plugin", &failure.plugin);
            }
            text.field("Cause", &failure.message);
            text.field(
                "Outcome",
                match failure.class {
                    FailureClass::Final => "not done, nothing was left behind",
                    FailureClass::Uncertain => "uncertain: it may have happened; it will be repeated or undone",
                    FailureClass::Transient => "not started: something it needs is missing for now",
                },
            );
            text.field("Failures", &format!("{} in a row", volume.failures));
        });
    }
    if volume.retry_at.is_some() {
        let next = until(volume.retry_at, now);
        text.field("Next try", &if next == "now" { next } else { format!("in {next}") });
    }
}

/// The usage of the volume, as a block.
fn usage_block(text: &mut Text, usage: &UsageView) {
    let now = text.now_us;
    text.block("Usage", |text| {
        if let Some(capacity) = usage.capacity {
            text.field("Capacity", &size(capacity));
        }
        if usage.used.is_some() {
            text.field("Used", &usage::used(usage));
        }
        if let Some(available) = usage.available {
            text.field("Available", &size(available));
        }
        match (usage.inodes_used, usage.inodes) {
            (Some(used), Some(all)) => text.field("Inodes", &format!("{used} of {all}")),
            (Some(used), None) => text.field("Inodes", &used.to_string()),
            (None, _) => {}
        }
        if let Some(at) = usage.measured_at {
            text.field("Measured", &format!("{} ago", age(at, now)));
        }
        if let Some(trouble) = usage::trouble(usage, now) {
            text.field("Storage", &trouble);
        }
    });
}
