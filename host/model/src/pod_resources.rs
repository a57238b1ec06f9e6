//! The requests and limits of a container as text, by the names of `resourceFieldRef`.

use thiserror::Error;

use crate::pod::{ContainerResources, Pod};
use crate::quantity::{QuantityError, parse_thousandths};

/// The resources that a node gives to pods: the limit of a container without one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Allocatable {
    /// Processors, in thousandths.
    pub cpu_thousandths: u64,
    /// Memory, in bytes.
    pub memory: u64,
    /// Disk for pods' own data, in bytes.
    pub ephemeral_storage: u64,
}

/// Why a resource was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PodResourceError {
    /// No such resource.
    #[error(
        "{0:?} is no resource that a volume can show; there is limits.NAME and requests.NAME with NAME cpu, memory, ephemeral-storage or hugepages-SIZE"
    )]
    Unknown(String),
    /// The pod has no such container.
    #[error("the pod has no container {name:?}; it has {known}")]
    Container {
        /// The one that was asked for.
        name: String,
        /// Those there are.
        known: String,
    },
    /// The divisor is none that Kubernetes allows for this resource.
    #[error("divisor {divisor:?} is not allowed for {resource}; write one of {allowed}")]
    Divisor {
        /// The one that was asked for.
        divisor: String,
        /// The resource.
        resource: String,
        /// Those there are.
        allowed: &'static str,
    },
    /// The container's own quantity cannot be read.
    #[error("container {container}: {field}: {source}")]
    Quantity {
        /// The container.
        container: String,
        /// `limits.cpu`
        field: String,
        /// Why.
        source: QuantityError,
    },
}

const CPU_DIVISORS: &[&str] = &["1m", "1"];
const BYTE_DIVISORS: &[&str] = &["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

impl Pod {
    /// A container's `limits.NAME` or `requests.NAME` divided by `divisor` (one if none or zero is
    /// given), rounded up to a whole number. Kubernetes' rules: a limit that is missing or zero is
    /// what the node gives to pods; a request that is missing is the limit as it was written, or 0;
    /// huge pages have no such stand-in.
    ///
    /// # Errors
    /// [`PodResourceError`] names what was asked for and what there is.
    pub fn resource_value(
        &self,
        container: &str,
        resource: &str,
        divisor: Option<&str>,
        node: &Allocatable,
    ) -> Result<String, PodResourceError> {
        let unknown = || PodResourceError::Unknown(resource.chars().take(128).collect());
        let (group, name) = resource.split_once('.').ok_or_else(unknown)?;
        let stand_in = match name {
            "cpu" => u128::from(node.cpu_thousandths),
            "memory" => u128::from(node.memory) * 1_000,
            "ephemeral-storage" => u128::from(node.ephemeral_storage) * 1_000,
            pages if pages.strip_prefix("hugepages-").is_some_and(|size| !size.is_empty()) => 0,
            _ => return Err(unknown()),
        };
        let found = self.container(container)?;
        let read = |group: &str, text: Option<&String>| {
            text.map(|text| parse_thousandths(text)).transpose().map_err(|source| PodResourceError::Quantity {
                container: container.to_owned(),
                field: format!("{group}.{name}"),
                source,
            })
        };
        let limit = read("limits", found.limits.get(name))?;
        let value = match group {
            "limits" => limit.filter(|limit| *limit > 0).unwrap_or(stand_in),
            "requests" => read("requests", found.requests.get(name))?.or(limit).unwrap_or(0),
            _ => return Err(unknown()),
        };
        Ok(value.div_ceil(divide_by(resource, name, divisor)?).to_string())
    }

    fn container(&self, name: &str) -> Result<&ContainerResources, PodResourceError> {
        self.containers.iter().find(|container| container.name == name).ok_or_else(|| {
            let known: Vec<&str> = self.containers.iter().map(|container| container.name.as_str()).collect();
            PodResourceError::Container { name: name.chars().take(128).collect(), known: known.join(", ") }
        })
    }
}

/// The divisor in thousandths; never zero.
fn divide_by(resource: &str, name: &str, divisor: Option<&str>) -> Result<u128, PodResourceError> {
    let divisor = divisor.filter(|text| !matches!(*text, "" | "0")).unwrap_or("1");
    let (allowed, listed) = if name == "cpu" {
        (CPU_DIVISORS, "1m, 1")
    } else {
        (BYTE_DIVISORS, "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei")
    };
    let refused = || PodResourceError::Divisor {
        divisor: divisor.chars().take(64).collect(),
        resource: resource.to_owned(),
        allowed: listed,
    };
    if !allowed.contains(&divisor) {
        return Err(refused());
    }
    parse_thousandths(divisor).ok().filter(|divisor| *divisor > 0).ok_or_else(refused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::PodUid;

    const NODE: Allocatable = Allocatable { cpu_thousandths: 4000, memory: 8 << 30, ephemeral_storage: 100 << 30 };

    fn pod() -> Pod {
        let map = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let full = ContainerResources {
            name: "full".into(),
            limits: map(&[
                ("cpu", "1250m"),
                ("memory", "64Mi"),
                ("hugepages-2Mi", "4Mi"),
                ("ephemeral-storage", "1.5G"),
            ]),
            requests: map(&[("cpu", "250m")]),
        };
        let empty = ContainerResources { name: "empty".into(), ..ContainerResources::default() };
        let bad =
            ContainerResources { name: "bad".into(), limits: map(&[("cpu", "x")]), ..ContainerResources::default() };
        Pod {
            uid: PodUid::new("uid-1").unwrap(),
            namespace: "shop".into(),
            name: "web".into(),
            service_account: String::new(),
            image_pull_secrets: Vec::new(),
            labels: [].into(),
            annotations: [].into(),
            fs_group: None,
            fs_group_change_policy: Default::default(),
            fs_user: None,
            supplemental_groups: Vec::new(),
            memory_limit: None,
            ephemeral_storage_limit: None,
            used_volumes: Vec::new(),
            containers: vec![full, empty, bad],
            resources: Default::default(),
            nested_mounts: [].into(),
        }
    }

    #[test]
    fn resources_are_divided_and_rounded_up() {
        for (container, resource, divisor, value) in [
            ("full", "limits.cpu", None, "2"),
            ("full", "limits.cpu", Some("1m"), "1250"),
            ("full", "requests.cpu", Some("1m"), "250"),
            ("full", "requests.cpu", Some("0"), "1"),
            ("full", "limits.memory", None, "67108864"),
            ("full", "limits.memory", Some("1Mi"), "64"),
            ("full", "limits.memory", Some("1Gi"), "1"),
            ("full", "requests.memory", Some("1Mi"), "64"),
            ("full", "limits.hugepages-2Mi", Some("1Mi"), "4"),
            ("full", "limits.ephemeral-storage", Some("1M"), "1500"),
            ("empty", "limits.cpu", None, "4"),
            ("empty", "limits.memory", Some("1Gi"), "8"),
            ("empty", "limits.ephemeral-storage", Some("1Gi"), "100"),
            ("empty", "limits.hugepages-1Gi", None, "0"),
            ("empty", "requests.cpu", None, "0"),
            ("empty", "requests.memory", None, "0"),
        ] {
            let found = pod().resource_value(container, resource, divisor, &NODE);
            assert_eq!(found.as_deref(), Ok(value), "{container} {resource} {divisor:?}");
        }
    }

    #[test]
    fn what_cannot_be_said_names_what_can() {
        for (container, resource, divisor, words) in [
            ("full", "limits.gpu", None, "no resource"),
            ("full", "cpu", None, "no resource"),
            ("full", "status.cpu", None, "no resource"),
            ("full", "limits.hugepages-", None, "no resource"),
            ("other", "limits.cpu", None, "it has full, empty, bad"),
            ("full", "limits.cpu", Some("1Mi"), "one of 1m, 1"),
            ("full", "limits.memory", Some("2Mi"), "not allowed for limits.memory"),
            ("bad", "limits.cpu", None, "container bad: limits.cpu: \"x\" is not a quantity"),
        ] {
            let error = pod().resource_value(container, resource, divisor, &NODE).unwrap_err().to_string();
            assert!(error.contains(words), "{container} {resource}: {error}");
        }
    }
}
