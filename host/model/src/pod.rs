//! A pod, as far as its volumes are concerned.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::names::{OuterName, PodUid};

/// What the host and the plugins need to know of a pod.
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
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// `metadata.annotations`.
    pub annotations: BTreeMap<String, String>,
    /// `spec.securityContext.fsGroup`.
    pub fs_group: Option<u32>,
    /// `runAsUser`, when every container has the same.
    pub fs_user: Option<u32>,
    /// `spec.securityContext.supplementalGroups`.
    pub supplemental_groups: Vec<i64>,
    /// The sum of the containers' memory limits in bytes; none when a container has no limit.
    pub memory_limit: Option<u64>,
    /// The volumes that containers use, by outer name: what [`volumeMounts`](https://kubernetes.io/docs/concepts/storage/volumes/)
    /// or `volumeDevices` of any container name. A pod is mounted when all of these are.
    pub used_volumes: Vec<OuterName>,
}

impl Pod {
    /// `namespace/name`, as users write it.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}
