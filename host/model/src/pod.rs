//! A pod, as far as its volumes are concerned.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::names::{OuterName, PodUid};

/// When a volume's files are given to the pod's group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum FsGroupChangePolicy {
    /// Each time it is mounted for the pod.
    #[default]
    Always,
    /// Only when the volume's root folder does not have the group and its mode already.
    OnRootMismatch,
}

/// A pod, as far as the host and the plugins use it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pod {
    /// Its identity: a pod deleted and made again under the same name is another pod.
    pub uid: PodUid,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// `spec.serviceAccountName`; empty when the pod names none.
    pub service_account: String,
    /// The names of `spec.imagePullSecrets`.
    #[serde(default)]
    pub image_pull_secrets: Vec<String>,
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// `metadata.annotations`.
    pub annotations: BTreeMap<String, String>,
    /// `spec.securityContext.fsGroup`.
    pub fs_group: Option<u32>,
    /// `spec.securityContext.fsGroupChangePolicy`.
    #[serde(default)]
    pub fs_group_change_policy: FsGroupChangePolicy,
    /// `runAsUser`, when every container has the same.
    pub fs_user: Option<u32>,
    /// `spec.securityContext.supplementalGroups`.
    pub supplemental_groups: Vec<i64>,
    /// The sum of the containers' memory limits in bytes; none when a container has no limit.
    pub memory_limit: Option<u64>,
    /// The limit of all its containers together on the node's disk, in bytes; none without a limit.
    #[serde(default)]
    pub ephemeral_storage_limit: Option<u64>,
    /// The volumes that containers use, by outer name: what
    /// [`volumeMounts`](https://kubernetes.io/docs/concepts/storage/volumes/) or `volumeDevices` of
    /// any container name. A pod is mounted when all of these are.
    pub used_volumes: Vec<OuterName>,
    /// The requests and limits of its containers and init containers.
    #[serde(default)]
    pub containers: Vec<ContainerResources>,
    /// The requests and limits of the pod itself (`spec.resources`), for all its containers
    /// together; without a name.
    #[serde(default)]
    pub resources: ContainerResources,
    /// For a volume that a container mounts: the folders in it, as relative paths, on which
    /// containers mount other volumes. Only the uppermost ones; what is nested deeper lies in
    /// another volume.
    #[serde(default)]
    pub nested_mounts: BTreeMap<OuterName, BTreeSet<String>>,
}

/// `resources` of one container, the quantities as they were written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerResources {
    /// The container's name.
    pub name: String,
    /// `resources.limits`.
    pub limits: BTreeMap<String, String>,
    /// `resources.requests`.
    pub requests: BTreeMap<String, String>,
}

impl Pod {
    /// A pod of which only the uid is known.
    pub fn unknown(uid: PodUid) -> Self {
        Self {
            namespace: "unknown".to_owned(),
            name: uid.to_string(),
            uid,
            service_account: String::new(),
            image_pull_secrets: Vec::new(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            fs_group: None,
            fs_group_change_policy: FsGroupChangePolicy::default(),
            fs_user: None,
            supplemental_groups: Vec::new(),
            memory_limit: None,
            ephemeral_storage_limit: None,
            used_volumes: Vec::new(),
            containers: Vec::new(),
            resources: ContainerResources::default(),
            nested_mounts: BTreeMap::new(),
        }
    }

    /// `namespace/name`, as users write it.
    pub fn full_name(&self) -> String {
        // Each event of the pod has it: formatting takes three times as long.
        [self.namespace.as_str(), "/", self.name.as_str()].concat()
    }
}
