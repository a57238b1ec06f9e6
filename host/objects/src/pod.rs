//! A pod's manifest, checked: what the populator needs of it and nothing more, since a node may
//! have thousands.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1 as k8s;
use serde_json::{Map, Value};
use volhost_model::selinux::SelinuxChangePolicy;
use volhost_model::{FsGroupChangePolicy, OuterName, Pod, PodUid};

use super::environment::ContainerEnvironment;
use super::error::{FieldError, FieldProblem};
use super::pod_volume::{PodVolume, VolumeUse};
use super::volume_uses::{used_volumes, uses};
use super::written_source::WrittenSource;
use super::{limits, nested_mounts, pod_resources, selinux};

/// Linux keeps the highest 32-bit id for "no change".
const MAX_ID: u32 = u32::MAX - 1;

/// A pod of a source.
#[derive(Debug, Clone, PartialEq)]
pub struct PodObject {
    /// The pod as the host and the plugins use it.
    pub pod: Arc<Pod>,
    /// The uid was given, not derived.
    pub uid_given: bool,
    /// The file it was read from, for messages.
    pub file: Arc<str>,
    /// `spec.volumes`.
    pub volumes: Vec<PodVolume>,
    /// Every place where a container names a volume.
    pub uses: Vec<VolumeUse>,
    /// The environments of the containers that have a `subPathExpr`, by the container's name.
    pub environments: BTreeMap<String, ContainerEnvironment>,
    /// `spec.securityContext.seLinuxChangePolicy`.
    pub selinux_change_policy: Option<SelinuxChangePolicy>,
    /// `spec.nodeName`; empty when the pod names none.
    pub node_name: String,
    /// `spec.runtimeClassName`; empty when the pod names none.
    pub runtime_class: String,
    /// `status.phase`; empty when the manifest has none.
    pub phase: String,
    /// It has a `metadata.deletionTimestamp`.
    pub deleting: bool,
    /// It has a status, and every container in it has ended.
    pub containers_ended: bool,
}

impl PodObject {
    /// The volume of this name.
    pub fn volume(&self, name: &OuterName) -> Option<(usize, &PodVolume)> {
        self.volumes.iter().enumerate().find(|(_, volume)| volume.name == *name)
    }
}

/// Checks a pod. `raw_volumes` is `spec.volumes` as written; `line_of` finds a field's line.
pub(super) fn check(
    typed: k8s::Pod,
    uid: &str,
    uid_given: bool,
    namespace: String,
    file: &Arc<str>,
    raw_volumes: Vec<Map<String, Value>>,
    line_of: &dyn Fn(&str) -> u32,
) -> Result<PodObject, FieldError> {
    let k8s::Pod { metadata, spec, status } = typed;
    let spec = spec.ok_or_else(|| FieldError::other("spec", "is missing"))?;
    if spec.containers.is_empty() {
        return Err(FieldError::other("spec.containers", "is empty; a pod has at least one container"));
    }
    limits::check_containers(&spec)?;
    let uid = PodUid::new(uid).map_err(|e| FieldError::new("metadata.uid", e))?;
    let volumes = volumes(raw_volumes, line_of)?;
    let (uses, environments) = uses(&spec, line_of)?;
    let security = spec.security_context.clone().unwrap_or_default();
    let fs_group = security.fs_group.map(|id| group_id("spec.securityContext.fsGroup", id)).transpose()?;
    let fs_group_change_policy = change_policy(security.fs_group_change_policy.as_deref())?;
    let selinux_change_policy = selinux::change_policy(security.se_linux_change_policy.as_deref())?;
    let supplemental_groups = security.supplemental_groups.unwrap_or_default();
    for (index, id) in supplemental_groups.iter().enumerate() {
        group_id(&format!("spec.securityContext.supplementalGroups[{index}]"), *id)?;
    }
    let pod = Pod {
        uid,
        namespace,
        name: metadata.name.unwrap_or_default(),
        service_account: spec.service_account_name.clone().or_else(|| spec.service_account.clone()).unwrap_or_default(),
        image_pull_secrets: image_pull_secrets(&spec),
        labels: metadata.labels.unwrap_or_default(),
        annotations: metadata.annotations.unwrap_or_default(),
        fs_group,
        fs_group_change_policy,
        fs_user: run_as_user(&spec)?,
        supplemental_groups,
        memory_limit: pod_resources::memory_limit(&spec)?,
        ephemeral_storage_limit: pod_resources::ephemeral_storage_limit(&spec)?,
        used_volumes: used_volumes(&volumes, &uses),
        containers: pod_resources::containers(&spec),
        resources: pod_resources::of_pod(&spec),
        nested_mounts: nested_mounts::find(&spec),
    };
    Ok(PodObject {
        pod: Arc::new(pod),
        uid_given,
        file: Arc::clone(file),
        volumes,
        uses,
        environments,
        selinux_change_policy,
        node_name: spec.node_name.unwrap_or_default(),
        runtime_class: spec.runtime_class_name.unwrap_or_default(),
        containers_ended: status.as_ref().is_some_and(containers_ended),
        phase: status.and_then(|status| status.phase).unwrap_or_default(),
        deleting: metadata.deletion_timestamp.is_some(),
    })
}

fn volumes(raw: Vec<Map<String, Value>>, line_of: &dyn Fn(&str) -> u32) -> Result<Vec<PodVolume>, FieldError> {
    let mut first: BTreeMap<OuterName, usize> = BTreeMap::new();
    let mut volumes = Vec::with_capacity(raw.len());
    for (index, mut source) in raw.into_iter().enumerate() {
        let path = format!("spec.volumes[{index}].name");
        let name = match source.remove("name") {
            Some(Value::String(name)) => name,
            _ => String::new(),
        };
        let name = OuterName::new(name).map_err(|e| FieldError::new(&path, e))?;
        if let Some(first) = first.insert(name.clone(), index) {
            return Err(FieldError::other(
                path,
                format!("the name \"{name}\" is taken by spec.volumes[{first}]; rename one of them"),
            ));
        }
        let line = line_of(&format!("spec.volumes[{index}]"));
        volumes.push(PodVolume { name, line, source: WrittenSource::new(source) });
    }
    Ok(volumes)
}

/// The secrets with logins for the pod's images. Names are optional in the API, and none is no secret.
fn image_pull_secrets(spec: &k8s::PodSpec) -> Vec<String> {
    let named = spec.image_pull_secrets.iter().flatten().map(|secret| secret.name.clone());
    named.filter(|name| !name.is_empty()).collect()
}

/// The user that all containers run as, if each says so and all say the same.
fn run_as_user(spec: &k8s::PodSpec) -> Result<Option<u32>, FieldError> {
    let of_pod = spec.security_context.as_ref().and_then(|context| context.run_as_user);
    let own = |context: &Option<k8s::SecurityContext>| context.as_ref().and_then(|context| context.run_as_user);
    let init = spec
        .init_containers
        .iter()
        .flatten()
        .enumerate()
        .map(|(i, c)| (format!("spec.initContainers[{i}]"), own(&c.security_context)));
    let regular =
        spec.containers.iter().enumerate().map(|(i, c)| (format!("spec.containers[{i}]"), own(&c.security_context)));
    let ephemeral = spec
        .ephemeral_containers
        .iter()
        .flatten()
        .enumerate()
        .map(|(i, c)| (format!("spec.ephemeralContainers[{i}]"), own(&c.security_context)));

    if let Some(id) = of_pod {
        group_id("spec.securityContext.runAsUser", id)?;
    }
    let mut users = BTreeSet::new();
    for (path, user) in init.chain(regular).chain(ephemeral) {
        let checked =
            user.or(of_pod).map(|id| group_id(&format!("{path}.securityContext.runAsUser"), id)).transpose()?;
        users.insert(checked);
    }
    let only = users.pop_first().flatten();
    Ok(only.filter(|_| users.is_empty()))
}

fn group_id(path: &str, id: i64) -> Result<u32, FieldError> {
    u32::try_from(id)
        .ok()
        .filter(|id| *id <= MAX_ID)
        .ok_or_else(|| FieldError::new(path, FieldProblem::OutOfRange { value: id, limit: MAX_ID }))
}

/// `fsGroupChangePolicy`; absent is `Always`, as Kubernetes' default.
fn change_policy(policy: Option<&str>) -> Result<FsGroupChangePolicy, FieldError> {
    match policy {
        None | Some("Always") => Ok(FsGroupChangePolicy::Always),
        Some("OnRootMismatch") => Ok(FsGroupChangePolicy::OnRootMismatch),
        Some(other) => Err(FieldError::other(
            "spec.securityContext.fsGroupChangePolicy",
            format!("{other:?} is no policy; there are Always and OnRootMismatch"),
        )),
    }
}

fn containers_ended(status: &k8s::PodStatus) -> bool {
    let mut statuses =
        [&status.init_container_statuses, &status.container_statuses, &status.ephemeral_container_statuses]
            .into_iter()
            .flatten()
            .flatten()
            .peekable();
    statuses.peek().is_some() && statuses.all(|one| one.state.as_ref().is_some_and(|state| state.terminated.is_some()))
}
