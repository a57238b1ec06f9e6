//! What one object says of itself.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use sha2::{Digest as _, Sha256};
use volhost_explain::times;

/// The last event of an object that says why something did not work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Warning {
    /// In a word, as `FailedMount`.
    pub(crate) reason: String,
    /// In words.
    pub(crate) message: String,
    at: Option<Timestamp>,
    count: i32,
}

impl Warning {
    /// The last warning among these events with one of these reasons; with any, if there is none.
    pub(crate) fn last(events: &[Event], reasons: &[&str]) -> Option<Self> {
        let warnings = events.iter().filter(|event| event.type_.as_deref() == Some("Warning"));
        let meant = warnings
            .filter(|event| reasons.is_empty() || event.reason.as_deref().is_some_and(|own| reasons.contains(&own)));
        meant.map(Self::of).max_by_key(|warning| warning.at)
    }

    fn of(event: &Event) -> Self {
        let series = event.series.as_ref();
        let at = series
            .and_then(|series| series.last_observed_time.as_ref().map(|time| time.0))
            .or_else(|| event.last_timestamp.as_ref().map(|time| time.0))
            .or_else(|| event.event_time.as_ref().map(|time| time.0))
            .or_else(|| event.metadata.creation_timestamp.as_ref().map(|time| time.0));
        Self {
            reason: event.reason.clone().unwrap_or_default(),
            message: event.message.clone().unwrap_or_default(),
            at,
            count: series.and_then(|series| series.count).or(event.count).unwrap_or(1),
        }
    }

    /// As a sentence: `FailedMount, 3 times, last 12s ago: ...`.
    pub(crate) fn words(&self, now: Timestamp) -> String {
        let times = if self.count > 1 { format!(", {} times, last", self.count) } else { String::new() };
        let ago = self.at.map(|at| format!(" {} ago", since(at, now))).unwrap_or_default();
        let message = self.message.trim();
        if times.is_empty() && !ago.is_empty() {
            return format!("{},{ago}: {message}", self.reason);
        }
        format!("{}{times}{ago}: {message}", self.reason)
    }
}

/// The time since then, as kubectl's AGE.
pub(crate) fn since(then: Timestamp, now: Timestamp) -> String {
    let micros = |time: Timestamp| u64::try_from(time.as_microsecond()).unwrap_or_default();
    // No time is 0, which means none there.
    times::age(micros(then).max(1), micros(now))
}

/// The age of an object. Empty for one without a time.
pub(crate) fn age(meta: &ObjectMeta, now: Timestamp) -> String {
    meta.creation_timestamp.as_ref().map(|time| since(time.0, now)).unwrap_or_default()
}

/// How long ago this was, zero for a time to come.
pub(crate) fn elapsed(then: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(then)).unwrap_or_default()
}

/// Which replica of a controller works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Leader {
    /// The one of this name.
    Works(String),
    /// None: the Lease is free, or was not renewed in time.
    None,
}

impl Leader {
    /// By the Lease.
    pub(crate) fn of(lease: &Lease, now: Timestamp) -> Self {
        let Some(spec) = &lease.spec else { return Self::None };
        let duration =
            Duration::from_secs(spec.lease_duration_seconds.unwrap_or_default().max(0).unsigned_abs().into());
        // Clocks of two machines differ by some seconds.
        let renewed = spec.renew_time.as_ref().is_some_and(|time| elapsed(time.0, now) <= duration.saturating_mul(2));
        match &spec.holder_identity {
            Some(holder) if !holder.is_empty() && renewed => Self::Works(holder.clone()),
            _ => Self::None,
        }
    }
}

/// Whether the volumes of a pod are mounted: a pod's sandbox is made after them (Kubernetes 1.29,
/// condition `PodReadyToStartContainers`).
pub(crate) fn has_volumes(pod: &Pod) -> bool {
    let Some(status) = &pod.status else { return false };
    let ready = status.conditions.iter().flatten();
    let ready = ready.filter(|one| one.type_ == "PodReadyToStartContainers").any(|one| one.status == "True");
    let containers = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    let mut states = containers.filter_map(|container| container.state.as_ref());
    ready || states.any(|state| state.running.is_some() || state.terminated.is_some())
}

/// Whether a container of the pod uses the volume: the node leaves one alone that none does.
pub(crate) fn is_used(pod: &Pod, volume: &str) -> bool {
    let Some(spec) = &pod.spec else { return false };
    spec.containers.iter().chain(spec.init_containers.iter().flatten()).any(|container| {
        container.volume_mounts.iter().flatten().any(|mount| mount.name == volume)
            || container.volume_devices.iter().flatten().any(|device| device.name == volume)
    })
}

/// Whether a pod has ended, and so needs no volume.
pub(crate) fn has_ended(pod: &Pod) -> bool {
    matches!(pod.status.as_ref().and_then(|status| status.phase.as_deref()), Some("Succeeded" | "Failed"))
}

/// The name of the VolumeAttachment that Kubernetes makes for a driver's volume on a node.
pub(crate) fn attachment_name(handle: &str, driver: &str, node: &str) -> String {
    let digest = Sha256::new().chain_update(handle).chain_update(driver).chain_update(node).finalize();
    format!("csi-{}", digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

/// Why an attachment is not as it should be, in the driver's words.
pub(crate) fn attachment_error(attachment: &VolumeAttachment) -> Option<&str> {
    let status = attachment.status.as_ref()?;
    let error = if attachment.metadata.deletion_timestamp.is_some() {
        status.detach_error.as_ref()
    } else {
        status.attach_error.as_ref()
    };
    error.and_then(|error| error.message.as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn attachments_have_the_names_that_kubernetes_gives_them() {
        // As kube-controller-manager named one in a cluster.
        assert_eq!(attachment_name("vol", "d.test", "n"), format!("csi-{:x}", Sha256::digest(b"vold.testn")));
    }

    #[test]
    fn the_last_warning_that_is_meant_is_shown_with_its_age() {
        let event = |reason: &str, message: &str, time: &str| -> Event {
            serde_json::from_value(json!({
                "metadata": {}, "involvedObject": {}, "type": "Warning", "reason": reason, "message": message,
                "lastTimestamp": time, "count": 3,
            }))
            .unwrap()
        };
        let events = [
            event("FailedMount", "late", "2026-01-01T00:00:20Z"),
            event("FailedMount", "early", "2026-01-01T00:00:10Z"),
            event("BackOff", "other", "2026-01-01T00:00:30Z"),
        ];
        let now = at("2026-01-01T00:01:00Z");
        let last = Warning::last(&events, &["FailedMount"]).unwrap();
        assert_eq!(last.words(now), "FailedMount, 3 times, last 40s ago: late");
        assert_eq!(Warning::last(&events, &[]).unwrap().message, "other");
        assert_eq!(Warning::last(&events, &["Nothing"]), None);
    }

    #[test]
    fn a_lease_that_was_not_renewed_has_no_leader() {
        let lease = |holder: &str, renewed: &str| -> Lease {
            serde_json::from_value(json!({
                "metadata": {},
                "spec": { "holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed },
            }))
            .unwrap()
        };
        let now = at("2026-01-01T00:01:00Z");
        assert_eq!(Leader::of(&lease("a", "2026-01-01T00:00:50.000000Z"), now), Leader::Works("a".to_owned()));
        assert_eq!(Leader::of(&lease("a", "2026-01-01T00:00:20.000000Z"), now), Leader::None);
        assert_eq!(Leader::of(&lease("", "2026-01-01T00:00:59.000000Z"), now), Leader::None);
    }

    #[test]
    fn a_pod_has_its_volumes_once_its_sandbox_is_made() {
        let pod = |status: serde_json::Value| -> Pod {
            serde_json::from_value(json!({ "metadata": {}, "status": status })).unwrap()
        };
        let condition =
            |status: &str| json!({ "conditions": [{ "type": "PodReadyToStartContainers", "status": status }] });
        assert!(has_volumes(&pod(condition("True"))));
        assert!(!has_volumes(&pod(condition("False"))));
        let container = |state: serde_json::Value| json!({ "containerStatuses": [{ "name": "a", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state }] });
        assert!(has_volumes(&pod(container(json!({ "running": {} })))));
        assert!(!has_volumes(&pod(container(json!({ "waiting": { "reason": "ContainerCreating" } })))));
    }
}
