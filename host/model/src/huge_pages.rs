//! The huge pages that a pod asks for.

use std::collections::BTreeMap;

use crate::pod::{ContainerResources, Pod};
use crate::quantity::parse_bytes;

/// The prefix of a huge-page resource, before the size of a page.
const PREFIX: &str = "hugepages-";

impl Pod {
    /// The bytes of huge pages that the pod may have, by the size of a page in bytes. The pod's own
    /// limit, or else the sum of its containers; Kubernetes lets request and limit of huge pages
    /// not differ, so either will do. A quantity that cannot be read asks for nothing.
    #[must_use]
    pub fn huge_page_limits(&self) -> BTreeMap<u64, u64> {
        let mut sum = BTreeMap::new();
        for container in &self.containers {
            for (size, bytes) in of(container) {
                let so_far: &mut u64 = sum.entry(size).or_default();
                *so_far = so_far.saturating_add(bytes);
            }
        }
        sum.extend(of(&self.resources));
        sum
    }
}

fn of(resources: &ContainerResources) -> BTreeMap<u64, u64> {
    let all = resources.requests.iter().chain(&resources.limits);
    all.filter_map(|(name, bytes)| {
        let size = parse_bytes(name.strip_prefix(PREFIX)?).ok()?;
        Some((size, parse_bytes(bytes).ok()?))
    })
    .filter(|(size, bytes)| *size > 0 && *bytes > 0)
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod_fields::tests::pod;

    fn asks(requests: &[(&str, &str)], limits: &[(&str, &str)]) -> ContainerResources {
        let map = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        ContainerResources { name: "main".into(), limits: map(limits), requests: map(requests) }
    }

    #[test]
    fn containers_are_added_up_by_the_size_of_a_page_unless_the_pod_speaks_for_them() {
        let mut pod = pod();
        assert!(pod.huge_page_limits().is_empty());
        pod.containers = vec![
            asks(&[("hugepages-2Mi", "4Mi")], &[("hugepages-2Mi", "4Mi")]),
            asks(&[], &[("hugepages-2Mi", "2Mi"), ("hugepages-1Gi", "1Gi"), ("memory", "1Gi")]),
            asks(&[("hugepages-x", "1"), ("hugepages-64Ki", "many"), ("hugepages-1Mi", "0")], &[]),
        ];
        assert_eq!(pod.huge_page_limits(), BTreeMap::from([(2 << 20, 6 << 20), (1 << 30, 1 << 30)]));
        pod.resources = asks(&[("hugepages-2Mi", "8Mi")], &[]);
        assert_eq!(pod.huge_page_limits(), BTreeMap::from([(2 << 20, 8 << 20), (1 << 30, 1 << 30)]));
    }
}
