//! One volume, resolved: the inline source of a pod's volume, or the PersistentVolume behind its claim.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::names::SpecName;

/// File system or raw block, `spec.volumeMode` of a PersistentVolume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum VolumeMode {
    /// Mounted as a file system.
    #[default]
    Filesystem,
    /// Handed to the container as a device.
    Block,
}

/// A volume with everything known that a plugin may ask.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumeSpec {
    /// The name in the pod's folder.
    pub name: SpecName,
    /// The source's field name (`emptyDir`), which selects the plugin.
    pub source: String,
    /// The source's fields.
    pub fields: serde_json::Map<String, serde_json::Value>,
    /// The pod's claim says read-only, or the source does.
    pub read_only: bool,
    /// The PersistentVolume, if the volume comes from one.
    pub persistent_volume: Option<PersistentVolume>,
}

/// The parts of a PersistentVolume that matter to mounting it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PersistentVolume {
    /// Its name.
    pub name: String,
    /// The bound claim, `namespace/name`.
    pub claim: String,
    /// `spec.capacity.storage` in bytes.
    pub capacity: Option<u64>,
    /// `spec.accessModes`, in Kubernetes' spelling.
    pub access_modes: Vec<String>,
    /// `spec.mountOptions`, in the order given.
    pub mount_options: Vec<String>,
    /// `spec.volumeMode`.
    pub volume_mode: VolumeMode,
    /// `spec.nodeAffinity.required`; none means any node.
    pub node_affinity: Option<NodeAffinity>,
    /// Annotation `pv.beta.kubernetes.io/gid`, a supplemental group for the pod; none when absent or not a number.
    pub gid: Option<i64>,
}

/// `nodeAffinity.required`: the node must match one of the terms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeAffinity {
    /// Alternatives.
    pub terms: Vec<NodeSelectorTerm>,
}

/// One alternative: every requirement must hold. A term without requirements matches nothing, as in Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeSelectorTerm {
    /// On the node's labels.
    pub labels: Vec<NodeRequirement>,
    /// On the node's fields; only `metadata.name` exists.
    pub fields: Vec<NodeRequirement>,
}

/// One requirement on a label or field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRequirement {
    /// The label or field.
    pub key: String,
    /// `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt`, `Lt`; another operator matches nothing.
    pub operator: String,
    /// What `operator` compares with.
    pub values: Vec<String>,
}

impl NodeAffinity {
    /// Whether a node of this name and these labels satisfies the affinity.
    pub fn matches(&self, node_name: &str, labels: &BTreeMap<String, String>) -> bool {
        self.terms.iter().any(|term| {
            (!term.labels.is_empty() || !term.fields.is_empty())
                && term.labels.iter().all(|r| r.holds(labels.get(&r.key).map(String::as_str)))
                && term.fields.iter().all(|r| r.key == "metadata.name" && r.holds(Some(node_name)))
        })
    }
}

impl NodeRequirement {
    fn holds(&self, value: Option<&str>) -> bool {
        let number = |text: &str| text.parse::<i64>().ok();
        let compare = |wanted: fn(i64, i64) -> bool| match (
            value.and_then(number),
            self.values.first().and_then(|v| number(v)),
        ) {
            (Some(have), Some(bound)) => wanted(have, bound),
            _ => false,
        };
        match self.operator.as_str() {
            "In" => value.is_some_and(|v| self.values.iter().any(|w| w == v)),
            "NotIn" => value.is_none_or(|v| self.values.iter().all(|w| w != v)),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            "Gt" => compare(|have, bound| have > bound),
            "Lt" => compare(|have, bound| have < bound),
            _ => false,
        }
    }
}

impl VolumeSpec {
    /// Whether the volume is handed over as a device.
    pub fn is_block(&self) -> bool {
        self.persistent_volume.as_ref().is_some_and(|pv| pv.volume_mode == VolumeMode::Block)
    }

    /// Whether only one pod on the node may use the volume: ReadWriteOncePod is its one access mode.
    pub fn is_single_pod(&self) -> bool {
        self.persistent_volume.as_ref().is_some_and(|pv| pv.access_modes.as_slice() == ["ReadWriteOncePod"])
    }

    /// One field of the source by its dotted path (`csi.driver`, `items.0.key`): a string as it is, a number or boolean in JSON's
    /// spelling, an object or list as JSON text; none when absent or null.
    pub fn parameter(&self, path: &str) -> Option<String> {
        let (first, rest) = path.split_once('.').map_or((path, None), |(a, b)| (a, Some(b)));
        let mut value = self.fields.get(first)?;
        for part in rest.into_iter().flat_map(|rest| rest.split('.')) {
            value = match value {
                serde_json::Value::Object(map) => map.get(part)?,
                serde_json::Value::Array(list) => list.get(part.parse::<usize>().ok()?)?,
                _ => return None,
            };
        }
        match value {
            serde_json::Value::Null => None,
            serde_json::Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requirement(operator: &str, values: &[&str]) -> NodeAffinity {
        let requirement = NodeRequirement {
            key: "zone".into(),
            operator: operator.into(),
            values: values.iter().map(|v| (*v).to_owned()).collect(),
        };
        NodeAffinity { terms: vec![NodeSelectorTerm { labels: vec![requirement], fields: vec![] }] }
    }

    #[test]
    fn every_affinity_operator_is_honoured() {
        let labels = BTreeMap::from([("zone".to_owned(), "7".to_owned())]);
        let none = BTreeMap::new();
        for (operator, values, with, without) in [
            ("In", &["7", "8"][..], true, false),
            ("NotIn", &["7"][..], false, true),
            ("Exists", &[][..], true, false),
            ("DoesNotExist", &[][..], false, true),
            ("Gt", &["6"][..], true, false),
            ("Lt", &["7"][..], false, false),
            ("Like", &["7"][..], false, false),
        ] {
            let affinity = requirement(operator, values);
            assert_eq!(affinity.matches("node-1", &labels), with, "{operator} with the label");
            assert_eq!(affinity.matches("node-1", &none), without, "{operator} without the label");
        }
        assert!(
            !NodeAffinity { terms: vec![NodeSelectorTerm { labels: vec![], fields: vec![] }] }
                .matches("node-1", &labels)
        );
    }

    #[test]
    fn parameters_are_found_by_path() {
        let fields = serde_json::json!({"a": {"b": [1, "two", null]}, "flag": true});
        let spec = VolumeSpec {
            name: SpecName::new("v").unwrap(),
            source: "x".into(),
            fields: fields.as_object().unwrap().clone(),
            read_only: false,
            persistent_volume: None,
        };
        assert_eq!(spec.parameter("a.b.1").as_deref(), Some("two"));
        assert_eq!(spec.parameter("a.b.0").as_deref(), Some("1"));
        assert_eq!(spec.parameter("flag").as_deref(), Some("true"));
        assert_eq!(spec.parameter("a.b.2"), None);
        assert_eq!(spec.parameter("a.b.x"), None);
        assert_eq!(spec.parameter("a.b.1.z"), None);
        assert_eq!(spec.parameter("a.b").as_deref(), Some("[1,\"two\",null]"));
    }
}
