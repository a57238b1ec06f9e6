//! The columns of each kind of object. The first are always shown, the others with `-o wide`.

use volhost_model::view::{
    ClaimView, DriverState, DriverView, EventKind, EventView, OperationView, PersistentVolumeView, PluginView,
    PodPhase, PodView, VolumeState, VolumeView,
};

use super::format::{age, size, took, until};
use super::list::View;
use super::reason;
use super::usage::{trouble, used};
use volhost_api::pb::Kind;
use volhost_table::{Cell, Colour};

/// Characters of a digest that distinguish plugins.
const SHORT_DIGEST: usize = 12;

/// The names of a kind's columns: those always shown, and the wide ones.
pub(super) const fn names(kind: Kind) -> (&'static [&'static str], &'static [&'static str]) {
    match kind {
        Kind::Pods => (&["NAMESPACE", "NAME", "STATUS", "READY", "TOOK", "AGE", "REASON"], &["UID", "ERRORS"]),
        Kind::Volumes => (
            &["POD", "VOLUME", "PLUGIN", "STATE", "TOOK", "AGE", "REASON"],
            &[
                "UNIQUE NAME",
                "PATH",
                "CLAIM",
                "CAPACITY",
                "USED",
                "AVAILABLE",
                "INODES USED",
                "STORAGE",
                "RETRY",
                "MESSAGE",
            ],
        ),
        Kind::Plugins => (
            &["NAME", "VERSION", "STATE", "SOURCES", "VOLUMES", "WAITS FOR"],
            &["DIGEST", "FILE", "ABI", "EXPORTS", "IMPORTS", "ERROR"],
        ),
        Kind::Drivers => (
            &["NAME", "KIND", "PLUGIN", "VERSION", "STATE", "AGE"],
            &["LIMIT", "TOPOLOGY", "CAPABILITIES", "LOCATION", "ERROR"],
        ),
        Kind::Operations => (
            &["OPERATION", "VOLUME", "POD", "STATE", "SINCE", "FAILURES", "RETRY IN", "MESSAGE"],
            &["PLUGIN", "STEP", "ID"],
        ),
        Kind::Claims => (
            &["NAMESPACE", "NAME", "STATUS", "VOLUME", "CAPACITY", "STORAGECLASS", "MESSAGE"],
            &["REQUESTED", "ACCESS MODES"],
        ),
        Kind::PersistentVolumes => (
            &["NAME", "CAPACITY", "RECLAIM POLICY", "STATUS", "CLAIM", "STORAGECLASS", "MESSAGE"],
            &["PROVISIONER", "ACCESS MODES"],
        ),
        Kind::Events => (&["LAST SEEN", "TYPE", "REASON", "OBJECT", "COUNT", "MESSAGE"], &["SEQUENCE"]),
        Kind::Unspecified => (&[], &[]),
    }
}

/// The cells of an object, wide ones included. `gone`: a watch has seen it removed.
pub(super) fn cells(view: &View, gone: bool, now_us: u64) -> Vec<Cell> {
    match view {
        View::Pod(pod) => pod_cells(pod, gone, now_us),
        View::Volume(volume) => volume_cells(volume, gone, now_us),
        View::Plugin(plugin) => plugin_cells(plugin, gone),
        View::Driver(driver) => driver_cells(driver, gone, now_us),
        View::Operation(operation) => operation_cells(operation, gone, now_us),
        View::Claim(claim) => claim_cells(claim, gone),
        View::PersistentVolume(volume) => persistent_volume_cells(volume, gone),
        View::Event(event) => event_cells(event, now_us),
    }
}

/// The time since a moment.
fn age_cell(since: u64, now_us: u64) -> Cell {
    Cell::new(age(since, now_us)).ordered(Some(now_us.saturating_sub(since)).filter(|_| since > 0))
}

/// The time from one moment to the other.
fn took_cell(since: u64, ready_at: Option<u64>) -> Cell {
    Cell::new(took(since, ready_at)).ordered(ready_at.map(|ready| ready.saturating_sub(since)))
}

/// The state shown for an object that a watch has seen removed.
fn gone_cell() -> Cell {
    Cell::new("Gone")
}

/// A pod's state.
pub(super) fn phase(phase: PodPhase) -> Cell {
    match phase {
        PodPhase::Mounting => Cell::coloured("Mounting", Some(Colour::Yellow)),
        PodPhase::Mounted => Cell::coloured("Mounted", Some(Colour::Green)),
        PodPhase::Unmounting => Cell::coloured("Unmounting", Some(Colour::Yellow)),
    }
}

/// A volume's state in a word.
pub(super) const fn state(state: VolumeState) -> (&'static str, Option<Colour>) {
    match state {
        VolumeState::Unresolved => ("Unresolved", Some(Colour::Red)),
        VolumeState::Pending => ("Pending", Some(Colour::Yellow)),
        VolumeState::Attaching => ("Attaching", Some(Colour::Yellow)),
        VolumeState::Mounting => ("Mounting", Some(Colour::Yellow)),
        VolumeState::Mounted => ("Mounted", Some(Colour::Green)),
        VolumeState::Uncertain => ("Uncertain", Some(Colour::Red)),
        VolumeState::Unmounting => ("Unmounting", Some(Colour::Yellow)),
        VolumeState::Unused => ("Unused", None),
    }
}

fn pod_cells(pod: &PodView, gone: bool, now_us: u64) -> Vec<Cell> {
    vec![
        Cell::new(&pod.namespace),
        Cell::new(&pod.name),
        if gone { gone_cell() } else { phase(pod.phase) },
        Cell::new(format!("{}/{}", pod.ready, pod.total)).ordered(u64::from(pod.ready)),
        took_cell(pod.since, pod.ready_at),
        age_cell(pod.since, now_us),
        Cell::new(reason::of_pod(pod).unwrap_or_default()),
        Cell::new(&pod.uid),
        Cell::new(pod.errors.join("; ")),
    ]
}

fn volume_cells(volume: &VolumeView, gone: bool, now_us: u64) -> Vec<Cell> {
    let name = if volume.name.is_empty() { &volume.spec_name } else { &volume.name };
    let (word, colour) = state(volume.state);
    let usage = volume.usage.clone().unwrap_or_default();
    let trouble = volume.usage.as_ref().and_then(|usage| trouble(usage, now_us));
    vec![
        Cell::new(&volume.pod),
        Cell::new(name),
        Cell::new(&volume.plugin),
        if gone { gone_cell() } else { Cell::coloured(word, colour) },
        took_cell(volume.since, volume.ready_at),
        age_cell(volume.since, now_us),
        Cell::new(reason::of_volume(volume).unwrap_or_default()),
        Cell::new(&volume.unique_name),
        Cell::new(&volume.path),
        Cell::new(&volume.claim),
        Cell::new(usage.capacity.map(size).unwrap_or_default()).ordered(usage.capacity),
        Cell::new(used(&usage)).ordered(usage.used),
        Cell::new(usage.available.map(size).unwrap_or_default()).ordered(usage.available),
        Cell::new(usage.inodes_used.map(|used| used.to_string()).unwrap_or_default()).ordered(usage.inodes_used),
        Cell::coloured(trouble.unwrap_or_default(), Some(Colour::Red).filter(|_| volume.usage.is_some())),
        Cell::new(until(volume.retry_at, now_us)).ordered(volume.retry_at),
        Cell::new(volume.failure.as_ref().map(ToString::to_string).unwrap_or_default()),
    ]
}

/// The phase of a claim or of a PersistentVolume.
fn claim_phase(phase: &str, gone: bool) -> Cell {
    if gone {
        return gone_cell();
    }
    let colour = match phase {
        "Bound" | "Available" => Some(Colour::Green),
        "Lost" => Some(Colour::Red),
        _ => Some(Colour::Yellow),
    };
    Cell::coloured(phase, colour)
}

fn bytes(bytes: u64) -> Cell {
    Cell::new(if bytes == 0 { String::new() } else { size(bytes) }).ordered(Some(bytes).filter(|bytes| *bytes > 0))
}

fn claim_cells(claim: &ClaimView, gone: bool) -> Vec<Cell> {
    vec![
        Cell::new(&claim.namespace),
        Cell::new(&claim.name),
        claim_phase(&claim.phase, gone),
        Cell::new(&claim.volume),
        bytes(claim.capacity),
        Cell::new(&claim.storage_class),
        Cell::new(&claim.reason),
        bytes(claim.requested),
        Cell::new(claim.access_modes.join(",")),
    ]
}

fn persistent_volume_cells(volume: &PersistentVolumeView, gone: bool) -> Vec<Cell> {
    vec![
        Cell::new(&volume.name),
        bytes(volume.capacity),
        Cell::new(&volume.reclaim_policy),
        claim_phase(&volume.phase, gone),
        Cell::new(&volume.claim),
        Cell::new(&volume.storage_class),
        Cell::new(&volume.reason),
        Cell::new(&volume.provisioner),
        Cell::new(volume.access_modes.join(",")),
    ]
}

fn plugin_cells(plugin: &PluginView, gone: bool) -> Vec<Cell> {
    let colour = match plugin.state.as_str() {
        "Ready" => Some(Colour::Green),
        "Failed" | "Quarantined" => Some(Colour::Red),
        _ => Some(Colour::Yellow),
    };
    vec![
        Cell::new(&plugin.name),
        Cell::new(&plugin.version),
        if gone { gone_cell() } else { Cell::coloured(&plugin.state, colour) },
        Cell::new(plugin.sources.join(",")),
        Cell::new(plugin.volumes.to_string()).ordered(u64::from(plugin.volumes)),
        Cell::new(plugin.waits_for.join(",")),
        Cell::new(plugin.digest.chars().take(SHORT_DIGEST).collect::<String>()),
        Cell::new(&plugin.file),
        Cell::new(&plugin.abi),
        Cell::new(plugin.exports.join(",")),
        Cell::new(plugin.imports.join(",")),
        Cell::new(&plugin.error),
    ]
}

/// A driver's topology of this node: `zone=a,rack=7`.
pub(super) fn topology(driver: &DriverView, between: &str) -> String {
    let segments: Vec<String> = driver.topology.iter().map(|(key, value)| format!("{key}={value}")).collect();
    segments.join(between)
}

fn driver_cells(driver: &DriverView, gone: bool, now_us: u64) -> Vec<Cell> {
    let colour = match driver.state {
        DriverState::Ready => Colour::Green,
        DriverState::Starting => Colour::Yellow,
        DriverState::Failed | DriverState::Gone => Colour::Red,
    };
    vec![
        Cell::new(&driver.name),
        Cell::new(driver.kind.as_str()),
        Cell::new(&driver.plugin),
        Cell::new(&driver.version),
        if gone { gone_cell() } else { Cell::coloured(driver.state.as_str(), Some(colour)) },
        age_cell(driver.since, now_us),
        Cell::new(driver.volume_limit.map(|limit| limit.to_string()).unwrap_or_default()),
        Cell::new(topology(driver, ",")),
        Cell::new(driver.capabilities.join(",")),
        Cell::new(&driver.location),
        Cell::new(&driver.error),
    ]
}

fn operation_cells(operation: &OperationView, gone: bool, now_us: u64) -> Vec<Cell> {
    let (word, colour) = match (operation.running, operation.overdue) {
        (true, true) => ("Overdue", Colour::Red),
        (true, false) => ("Running", Colour::Green),
        (false, _) => ("Waiting", Colour::Yellow),
    };
    vec![
        Cell::new(&operation.name),
        Cell::new(&operation.volume),
        Cell::new(&operation.pod),
        if gone { gone_cell() } else { Cell::coloured(word, Some(colour)) },
        age_cell(operation.since, now_us),
        Cell::new(operation.failures.to_string()).ordered(u64::from(operation.failures)),
        Cell::new(until(operation.retry_at, now_us)).ordered(operation.retry_at),
        Cell::new(operation.failure.as_ref().map(ToString::to_string).unwrap_or_default()),
        Cell::new(&operation.plugin),
        Cell::new(&operation.step),
        Cell::new(if operation.running { operation.id.to_string() } else { String::new() }),
    ]
}

fn event_cells(event: &EventView, now_us: u64) -> Vec<Cell> {
    let kind = match event.kind {
        EventKind::Normal => Cell::new("Normal"),
        EventKind::Warning => Cell::coloured("Warning", Some(Colour::Yellow)),
    };
    vec![
        age_cell(event.at, now_us),
        kind,
        Cell::new(&event.reason),
        Cell::new(&event.object),
        Cell::new(event.count.to_string()).ordered(u64::from(event.count)),
        Cell::new(&event.message),
        Cell::new(event.sequence.to_string()),
    ]
}
