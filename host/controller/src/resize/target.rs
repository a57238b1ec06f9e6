//! What size a claim's volume is to have, and who has to act.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;

use volhost_cluster_client::quantity;

/// Who has to act, and the size in bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// No one.
    Nothing,
    /// The driver.
    Driver(u64),
    /// The node: the volume has the size, and the claim is not known to have it.
    Node(u64),
}

/// Decides for a claim whose volume has this size in bytes.
pub(super) fn target(claim: &PersistentVolumeClaim, volume: u64) -> Target {
    let resources = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    let requested = quantity::storage(resources.and_then(|resources| resources.requests.as_ref())).unwrap_or_default();
    let status = claim.status.as_ref();
    let has = quantity::storage(status.and_then(|status| status.capacity.as_ref())).unwrap_or_default();
    let state = status
        .and_then(|status| status.allocated_resource_statuses.as_ref())
        .and_then(|all| all.get("storage"))
        .map(String::as_str)
        .unwrap_or_default();
    let allocated = quantity::storage(status.and_then(|status| status.allocated_resources.as_ref()));
    // An attempt for more that may have succeeded, or may succeed still.
    let may_succeed = !state.is_empty() && state != "ControllerResizeInfeasible";
    let wanted = match allocated {
        Some(allocated) if may_succeed => requested.max(allocated),
        _ => requested,
    };
    if wanted <= has {
        Target::Nothing
    } else if volume < wanted {
        Target::Driver(wanted)
    } else if matches!(state, "NodeResizePending" | "NodeResizeInProgress" | "NodeResizeInfeasible") {
        Target::Nothing
    } else {
        Target::Node(volume)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::{
        PersistentVolumeClaimSpec, PersistentVolumeClaimStatus, VolumeResourceRequirements,
    };
    use std::collections::BTreeMap;

    fn claim(requested: u64, has: u64, attempt: Option<(u64, &str)>) -> PersistentVolumeClaim {
        let storage = |bytes| BTreeMap::from([("storage".to_owned(), quantity::of_bytes(bytes))]);
        PersistentVolumeClaim {
            spec: Some(PersistentVolumeClaimSpec {
                resources: Some(VolumeResourceRequirements {
                    requests: Some(storage(requested)),
                    ..VolumeResourceRequirements::default()
                }),
                ..PersistentVolumeClaimSpec::default()
            }),
            status: Some(PersistentVolumeClaimStatus {
                capacity: Some(storage(has)),
                allocated_resources: attempt.map(|(bytes, _)| storage(bytes)),
                allocated_resource_statuses: attempt
                    .map(|(_, state)| BTreeMap::from([("storage".to_owned(), state.to_owned())])),
                ..PersistentVolumeClaimStatus::default()
            }),
            ..PersistentVolumeClaim::default()
        }
    }

    #[test]
    fn a_claim_that_asks_for_no_more_is_left_alone() {
        assert_eq!(target(&claim(10, 10, None), 10), Target::Nothing);
        assert_eq!(target(&claim(5, 10, None), 10), Target::Nothing);
    }

    #[test]
    fn the_driver_grows_the_volume_before_the_node_does() {
        assert_eq!(target(&claim(20, 10, None), 10), Target::Driver(20));
        assert_eq!(target(&claim(20, 10, Some((20, "ControllerResizeInProgress"))), 10), Target::Driver(20));
        assert_eq!(target(&claim(20, 10, Some((20, "ControllerResizeInProgress"))), 20), Target::Node(20));
        assert_eq!(target(&claim(20, 10, Some((20, "NodeResizePending"))), 20), Target::Nothing);
        assert_eq!(target(&claim(20, 10, None), 32), Target::Node(32));
    }

    #[test]
    fn a_smaller_request_waits_for_an_attempt_that_may_succeed() {
        assert_eq!(target(&claim(15, 10, Some((20, "ControllerResizeInProgress"))), 10), Target::Driver(20));
        assert_eq!(target(&claim(15, 10, Some((20, "ControllerResizeInfeasible"))), 10), Target::Driver(15));
        assert_eq!(target(&claim(30, 10, Some((20, "NodeResizePending"))), 20), Target::Driver(30));
        assert_eq!(target(&claim(10, 10, Some((20, "ControllerResizeInfeasible"))), 10), Target::Nothing);
    }
}
