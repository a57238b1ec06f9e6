//! Limits of one manifest. An accepted manifest stays in memory while its pod exists, and
//! every volume becomes operations.

use k8s_openapi::api::core::v1 as k8s;

use super::error::FieldError;

/// Volumes of one pod. Nodes attach some hundred volumes at most; an honest pod has ten.
pub(super) const VOLUMES_PER_POD: usize = 1024;
/// Containers of one pod, of each kind (`containers`, `initContainers`, `ephemeralContainers`).
const CONTAINERS_PER_POD: usize = 256;
/// Entries of `volumeMounts`, and of `volumeDevices`, of one container.
const MOUNTS_PER_CONTAINER: usize = 1024;
/// Entries of `volumeMounts` and `volumeDevices` of one pod, all containers together: each may be a
/// mount of its own (`subPath`).
const MOUNTS_PER_POD: usize = 8192;
/// Objects in one file or request. A node has a hundred pods; this leaves room for a whole small
/// cluster.
pub(super) const OBJECTS_PER_FILE: usize = 20_000;

/// Refuses a list that is too long.
pub(super) fn check_count(path: &str, what: &str, count: usize, limit: usize) -> Result<(), FieldError> {
    if count <= limit {
        return Ok(());
    }
    Err(FieldError::other(path, format!("has {count} {what}, {limit} at most; use several pods")))
}

/// Refuses a pod of too many containers or mounts.
pub(super) fn check_containers(spec: &k8s::PodSpec) -> Result<(), FieldError> {
    type Lists<'a> = (&'a Option<Vec<k8s::VolumeMount>>, &'a Option<Vec<k8s::VolumeDevice>>);
    let init: Vec<Lists<'_>> =
        spec.init_containers.iter().flatten().map(|one| (&one.volume_mounts, &one.volume_devices)).collect();
    let regular = spec.containers.iter().map(|one| (&one.volume_mounts, &one.volume_devices)).collect();
    let ephemeral =
        spec.ephemeral_containers.iter().flatten().map(|one| (&one.volume_mounts, &one.volume_devices)).collect();
    let mut all = 0;
    for (list, containers) in [("initContainers", init), ("containers", regular), ("ephemeralContainers", ephemeral)] {
        check_count(&format!("spec.{list}"), "containers", containers.len(), CONTAINERS_PER_POD)?;
        for (index, (mounts, devices)) in containers.into_iter().enumerate() {
            let (mounts, devices) = (mounts.as_ref().map_or(0, Vec::len), devices.as_ref().map_or(0, Vec::len));
            let path = |field: &str| format!("spec.{list}[{index}].{field}");
            check_count(&path("volumeMounts"), "volume mounts", mounts, MOUNTS_PER_CONTAINER)?;
            check_count(&path("volumeDevices"), "volume devices", devices, MOUNTS_PER_CONTAINER)?;
            all += mounts + devices;
        }
    }
    check_count("spec", "volume mounts and devices in all its containers", all, MOUNTS_PER_POD)
}
