//! The uses of a pod's volumes by its containers.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1 as k8s;
use volhost_model::OuterName;

use super::environment::ContainerEnvironment;
use super::error::FieldError;
use super::pod_volume::{DeviceUse, PodVolume, VolumeUse};
use super::{selinux, volume_mounts};

/// The fields that containers and ephemeral containers share here.
struct Container<'a> {
    path: String,
    of: volume_mounts::CheckedContainer<'a>,
    mounts: &'a [k8s::VolumeMount],
    security: Option<&'a k8s::SecurityContext>,
    devices: &'a [k8s::VolumeDevice],
    env: Option<&'a [k8s::EnvVar]>,
    env_from: Option<&'a [k8s::EnvFromSource]>,
}

/// Every place where a container names a volume, and the environments of the containers that have a
/// `subPathExpr`.
pub(super) fn uses(
    spec: &k8s::PodSpec,
    line_of: &dyn Fn(&str) -> u32,
) -> Result<(Vec<VolumeUse>, BTreeMap<String, ContainerEnvironment>), FieldError> {
    let name = |path: &str, field: &str, name: &str| {
        let path = format!("{path}.{field}");
        OuterName::new(name).map_err(|e| FieldError::new(path, e))
    };
    let mut uses = Vec::new();
    let mut environments = BTreeMap::new();
    // Two containers of one name would share the folder of their sub-paths.
    let mut with_parts: BTreeMap<&str, String> = BTreeMap::new();
    let of_pod = selinux::of_pod(spec)?;
    for container in containers(spec) {
        let mut parts = false;
        let labels = selinux::of_container(container.security, &container.path)?.or_else(|| of_pod.clone());
        for (index, mount) in container.mounts.iter().enumerate() {
            let path = format!("{}.volumeMounts[{index}]", container.path);
            let line = line_of(&path);
            let volume = name(&path, "name", &mount.name)?;
            let mount = volume_mounts::check(mount, container.of, index, &path)?;
            parts |= mount.mount.sub_path.is_some() || mount.sub_path_expr.is_some();
            if mount.sub_path_expr.is_some() {
                environments
                    .entry(container.of.container.to_owned())
                    .or_insert_with(|| ContainerEnvironment::new(container.env, container.env_from));
            }
            uses.push(VolumeUse { volume, path, line, selinux: labels.clone(), mount: Some(mount), device: None });
        }
        for (index, device) in container.devices.iter().enumerate() {
            let path = format!("{}.volumeDevices[{index}]", container.path);
            let line = line_of(&path);
            let volume = name(&path, "name", &device.name)?;
            let device = DeviceUse {
                container: container.of.container.to_owned(),
                index: u32::try_from(index).unwrap_or(u32::MAX),
                device_path: device.device_path.clone(),
            };
            uses.push(VolumeUse { volume, path, line, selinux: None, mount: None, device: Some(device) });
        }
        if parts && let Some(first) = with_parts.insert(container.of.container, container.path.clone()) {
            return Err(FieldError::other(
                format!("{}.name", container.path),
                format!("the name {:?} is taken by {first}; rename one of them", container.of.container),
            ));
        }
    }
    Ok((uses, environments))
}

fn containers(spec: &k8s::PodSpec) -> impl Iterator<Item = Container<'_>> {
    fn privileged(context: Option<&k8s::SecurityContext>) -> bool {
        context.and_then(|context| context.privileged).unwrap_or_default()
    }
    fn of<'a>(list: &str, index: usize, one: &'a k8s::Container) -> Container<'a> {
        let privileged = privileged(one.security_context.as_ref());
        Container {
            path: format!("spec.{list}[{index}]"),
            of: volume_mounts::CheckedContainer { container: &one.name, privileged, ephemeral: false },
            mounts: one.volume_mounts.as_deref().unwrap_or_default(),
            security: one.security_context.as_ref(),
            devices: one.volume_devices.as_deref().unwrap_or_default(),
            env: one.env.as_deref(),
            env_from: one.env_from.as_deref(),
        }
    }
    fn of_ephemeral(index: usize, one: &k8s::EphemeralContainer) -> Container<'_> {
        let privileged = privileged(one.security_context.as_ref());
        Container {
            path: format!("spec.ephemeralContainers[{index}]"),
            of: volume_mounts::CheckedContainer { container: &one.name, privileged, ephemeral: true },
            mounts: one.volume_mounts.as_deref().unwrap_or_default(),
            security: one.security_context.as_ref(),
            devices: one.volume_devices.as_deref().unwrap_or_default(),
            env: one.env.as_deref(),
            env_from: one.env_from.as_deref(),
        }
    }
    let init = spec.init_containers.iter().flatten().enumerate();
    let regular = spec.containers.iter().enumerate();
    let ephemeral = spec.ephemeral_containers.iter().flatten().enumerate();
    init.map(|(index, one)| of("initContainers", index, one))
        .chain(regular.map(|(index, one)| of("containers", index, one)))
        .chain(ephemeral.map(|(index, one)| of_ephemeral(index, one)))
}

/// The volumes that containers name: the pod's own in their order, then those it lacks.
pub(super) fn used_volumes(volumes: &[PodVolume], uses: &[VolumeUse]) -> Vec<OuterName> {
    let mut used: BTreeSet<&OuterName> = uses.iter().map(|used| &used.volume).collect();
    let mut names: Vec<OuterName> =
        volumes.iter().filter(|volume| used.remove(&volume.name)).map(|volume| volume.name.clone()).collect();
    names.extend(used.into_iter().cloned());
    names
}
