//! Where capacity is asked for: a class, and a topology segment of the driver.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::storage::v1::{CSIStorageCapacity, StorageClass};
use volhost_proto::csi::Topology;

use crate::caches::Caches;
use crate::driver::{Can, Driver};
use crate::provision::segments;

/// The binding mode by which the scheduler asks for capacity.
const WAITS: &str = "WaitForFirstConsumer";

/// One class in one topology segment.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Place {
    class: String,
    segment: BTreeMap<String, String>,
}

impl Place {
    /// The place that an object is for. `None` if it selects nodes in another way than this program.
    pub(super) fn of(object: &CSIStorageCapacity) -> Option<Self> {
        let topology = object.node_topology.as_ref()?;
        let is_plain = topology.match_expressions.as_ref().is_none_or(Vec::is_empty);
        let segment = topology.match_labels.clone().filter(|_| is_plain)?;
        Some(Self { class: object.storage_class_name.clone(), segment })
    }

    /// The class.
    pub(super) fn class(&self) -> &str {
        &self.class
    }

    /// The segment.
    pub(super) fn segment(&self) -> &BTreeMap<String, String> {
        &self.segment
    }

    /// Whether a volume that is reachable from one of these is in this place. No topology:
    /// everywhere.
    pub(crate) fn has(&self, reachable: &[BTreeMap<String, String>]) -> bool {
        let is_within =
            |wider: &BTreeMap<String, String>| wider.iter().all(|(key, value)| self.segment.get(key) == Some(value));
        reachable.is_empty() || reachable.iter().any(is_within)
    }

    /// As CSI writes it.
    pub(super) fn topology(&self) -> Topology {
        Topology { segments: self.segment.clone().into_iter().collect() }
    }

    /// The name of its object: always the same for a driver, so that two programs make one.
    pub(super) fn object_name(&self, driver: &str) -> String {
        let labels = self.segment.iter().flat_map(|(key, value)| [key.as_str(), value.as_str()]);
        let words = [driver, &self.class].into_iter().chain(labels);
        // No byte of a name or label is 0: other words are another text.
        let bytes = words.flat_map(|word| word.bytes().chain([0]));
        format!("csisc-{:016x}", bytes.fold(FNV_BASIS, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME)))
    }
}

/// Of the hash FNV-1a in 64 bits.
const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
/// Of the same.
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// All places of a driver, if the scheduler is to know its capacity: its CSIDriver object says so.
/// Classes that bind at once have none, because the scheduler does not ask for theirs.
pub(super) fn all(driver: &Driver, caches: &Caches) -> BTreeSet<Place> {
    let object = caches.driver_object();
    let is_asked = object.is_some_and(|object| object.spec.storage_capacity == Some(true));
    if !is_asked || !driver.can(Can::GetCapacity) || !driver.has_topology() {
        return BTreeSet::new();
    }
    let segments = segments(caches, driver.name());
    let classes = caches.classes();
    let waiting = classes
        .iter()
        .filter(|class| class.provisioner == driver.name() && class.volume_binding_mode.as_deref() == Some(WAITS));
    let places = |class: &StorageClass| {
        let class = class.metadata.name.clone().unwrap_or_default();
        segments.iter().map(move |segment| Place { class: class.clone(), segment: segment.clone() }).collect::<Vec<_>>()
    };
    waiting.flat_map(|class| places(class)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(class: &str, segment: &[(&str, &str)]) -> Place {
        let segment = segment.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Place { class: class.to_owned(), segment }
    }

    #[test]
    fn each_place_has_an_object_of_its_own() {
        let name = place("fast", &[("zone", "a")]).object_name("d");
        assert_eq!(name, place("fast", &[("zone", "a")]).object_name("d"));
        let others = [
            place("fast", &[("zone", "b")]).object_name("d"),
            place("slow", &[("zone", "a")]).object_name("d"),
            place("fast", &[("zone", "a")]).object_name("e"),
            place("fas", &[("tzone", "a")]).object_name("d"),
        ];
        assert!(!others.contains(&name), "{others:?}");
    }

    #[test]
    fn a_volume_is_in_the_places_that_reach_it() {
        let rack = place("fast", &[("rack", "1"), ("zone", "a")]);
        let of = |labels: &[(&str, &str)]| place("", labels).segment;
        assert!(rack.has(&[]));
        assert!(rack.has(&[of(&[("zone", "b")]), of(&[("zone", "a")])]));
        assert!(!rack.has(&[of(&[("zone", "a"), ("rack", "2")])]));
    }

    #[test]
    fn an_object_that_selects_nodes_by_expressions_has_no_place() {
        let object = |topology: &str| -> CSIStorageCapacity {
            let text = format!(r#"{{"metadata": {{}}, "storageClassName": "fast", "nodeTopology": {topology}}}"#);
            serde_json::from_str(&text).unwrap()
        };
        assert_eq!(Place::of(&object(r#"{"matchLabels": {"zone": "a"}}"#)), Some(place("fast", &[("zone", "a")])));
        assert_eq!(Place::of(&object("null")), None);
        let expression = r#"{"matchExpressions": [{"key": "zone", "operator": "Exists"}], "matchLabels": {}}"#;
        assert_eq!(Place::of(&object(expression)), None);
    }
}
