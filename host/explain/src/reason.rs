//! Why something is not as it should be, in the one word that its event has: the kubelet's, where
//! the kubelet has one.

use volhost_model::view::{PodView, VolumeState, VolumeView};

/// The reasons of the events about failed steps, by how the step begins.
const OF_STEPS: [(&str, &str); 9] = [
    ("AttachVolume", "FailedAttachVolume"),
    ("DetachVolume", "FailedDetachVolume"),
    ("MountVolume", "FailedMount"),
    ("MapVolume", "FailedMapVolume"),
    ("UnmountVolume", "FailedUnmount"),
    ("UnmapVolume", "FailedUnmount"),
    ("UnmountDevice", "FailedUnmountDevice"),
    ("UnmapDevice", "FailedUnmountDevice"),
    ("NodeExpandVolume", "VolumeResizeFailed"),
];

/// The reason of a failed step; none for a step that no operation has.
pub fn of_step(step: &str) -> Option<&'static str> {
    OF_STEPS.iter().find(|(begin, _)| step.starts_with(begin)).map(|(_, reason)| *reason)
}

/// Why the volume is not as it should be; none if it is, or is on its way.
pub fn of_volume(volume: &VolumeView) -> Option<&'static str> {
    match (volume.state, &volume.failure) {
        (VolumeState::Unresolved, _) => Some("UnresolvedVolume"),
        (_, Some(failure)) => Some(of_step(&failure.step).unwrap_or("UnresolvedVolume")),
        (_, None) if !volume.pending_edit.is_empty() => Some("VolumeEditPending"),
        (_, None) => None,
    }
}

/// The reasons of the pod's volumes, each once, with commas between; none if there is none.
pub fn of_pod(pod: &PodView) -> Option<String> {
    let mut reasons: Vec<&str> = Vec::new();
    for reason in pod.volumes.iter().filter_map(of_volume) {
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    (!reasons.is_empty()).then(|| reasons.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_has_the_reason_of_its_event() {
        for (step, reason) in [
            ("MountVolume.WaitForAttach", Some("FailedMount")),
            ("MountVolume.MountDevice", Some("FailedMount")),
            ("UnmountVolume.TearDown", Some("FailedUnmount")),
            ("UnmountDevice.CheckReferences", Some("FailedUnmountDevice")),
            ("UnmapDevice", Some("FailedUnmountDevice")),
            ("AttachVolume.Attach", Some("FailedAttachVolume")),
            ("NodeExpandVolume.WaitForAttach", Some("VolumeResizeFailed")),
            ("resolve", None),
        ] {
            assert_eq!(of_step(step), reason, "{step}");
        }
    }
}
