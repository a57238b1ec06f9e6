//! The limits of a pod: memory, as the kubelet sets it on the pod's cgroup, and the node's disk, as
//! it watches it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as k8s;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use volhost_model::ContainerResources;
use volhost_model::quantity::parse_bytes;

use super::error::FieldError;

/// The requests and limits of containers and init containers, as written.
pub(super) fn containers(spec: &k8s::PodSpec) -> Vec<ContainerResources> {
    let all = spec.init_containers.iter().flatten().chain(&spec.containers);
    all.map(|container| resources(&container.name, container.resources.as_ref())).collect()
}

/// The requests and limits of the pod itself, as written.
pub(super) fn of_pod(spec: &k8s::PodSpec) -> ContainerResources {
    resources("", spec.resources.as_ref())
}

fn resources(name: &str, written: Option<&k8s::ResourceRequirements>) -> ContainerResources {
    let text = |quantities: Option<&BTreeMap<String, Quantity>>| {
        quantities.into_iter().flatten().map(|(name, quantity)| (name.clone(), quantity.0.clone())).collect()
    };
    ContainerResources {
        name: name.to_owned(),
        limits: text(written.and_then(|resources| resources.limits.as_ref())),
        requests: text(written.and_then(|resources| resources.requests.as_ref())),
    }
}

const MEMORY: &str = "memory";
const EPHEMERAL_STORAGE: &str = "ephemeral-storage";

/// The pod's limit in bytes: its own if it has one, else what its containers may use together. Init
/// containers run one by one, before the others and beside the sidecars started before them. None
/// when a container has no limit. `spec.overhead` is added.
pub(super) fn memory_limit(spec: &k8s::PodSpec) -> Result<Option<u64>, FieldError> {
    let overhead = match spec.overhead.as_ref() {
        Some(overhead) => amount(overhead, MEMORY, "spec.overhead")?.unwrap_or(0),
        None => 0,
    };
    let mut unlimited = false;
    let mut sidecars = 0_u64;
    let mut peak = 0_u64;
    for (index, container) in spec.init_containers.iter().flatten().enumerate() {
        let Some(limit) = limit_of(container, MEMORY, &format!("spec.initContainers[{index}]"))? else {
            unlimited = true;
            continue;
        };
        let with_sidecars = sidecars.saturating_add(limit);
        peak = peak.max(with_sidecars);
        if container.restart_policy.as_deref() == Some("Always") {
            sidecars = with_sidecars;
        }
    }
    let mut running = sidecars;
    for (index, container) in spec.containers.iter().enumerate() {
        match limit_of(container, MEMORY, &format!("spec.containers[{index}]"))? {
            Some(limit) => running = running.saturating_add(limit),
            None => unlimited = true,
        }
    }
    if let Some(limits) = spec.resources.as_ref().and_then(|resources| resources.limits.as_ref())
        && let Some(limit) = amount(limits, MEMORY, "spec.resources.limits")?
    {
        return Ok(Some(limit.saturating_add(overhead)));
    }
    Ok((!unlimited).then(|| peak.max(running).saturating_add(overhead)))
}

/// Returns the disk limit of the pod's containers together, in bytes. As with memory, but a
/// container without a limit adds nothing; none when no container has one.
pub(super) fn ephemeral_storage_limit(spec: &k8s::PodSpec) -> Result<Option<u64>, FieldError> {
    let (mut sidecars, mut peak) = (0_u64, 0_u64);
    for (index, container) in spec.init_containers.iter().flatten().enumerate() {
        let limit = limit_of(container, EPHEMERAL_STORAGE, &format!("spec.initContainers[{index}]"))?.unwrap_or(0);
        let with_sidecars = sidecars.saturating_add(limit);
        peak = peak.max(with_sidecars);
        if container.restart_policy.as_deref() == Some("Always") {
            sidecars = with_sidecars;
        }
    }
    let mut running = sidecars;
    for (index, container) in spec.containers.iter().enumerate() {
        let limit = limit_of(container, EPHEMERAL_STORAGE, &format!("spec.containers[{index}]"))?.unwrap_or(0);
        running = running.saturating_add(limit);
    }
    let overhead = match spec.overhead.as_ref() {
        Some(overhead) => amount(overhead, EPHEMERAL_STORAGE, "spec.overhead")?.unwrap_or(0),
        None => 0,
    };
    Ok(Some(peak.max(running)).filter(|limit| *limit > 0).map(|limit| limit.saturating_add(overhead)))
}

fn limit_of(container: &k8s::Container, resource: &str, path: &str) -> Result<Option<u64>, FieldError> {
    match container.resources.as_ref().and_then(|resources| resources.limits.as_ref()) {
        Some(limits) => amount(limits, resource, &format!("{path}.resources.limits")),
        None => Ok(None),
    }
}

/// Zero is no limit, as in Kubernetes.
fn amount(quantities: &BTreeMap<String, Quantity>, resource: &str, path: &str) -> Result<Option<u64>, FieldError> {
    let Some(quantity) = quantities.get(resource) else { return Ok(None) };
    let bytes = parse_bytes(&quantity.0).map_err(|e| FieldError::new(format!("{path}.{resource}"), e))?;
    Ok(Some(bytes).filter(|bytes| *bytes > 0))
}
