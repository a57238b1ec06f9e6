//! One volume, resolved: the inline source of a pod's volume, or the PersistentVolume behind its
//! claim.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::fields::Fields;
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

/// Volume sources of Kubernetes that only a pod can have, and no PersistentVolume: their data is
/// deleted with the pod.
const POD_SOURCES: [&str; 9] = [
    "configMap",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "gitRepo",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

/// Returns whether only a pod can have a volume of this source, and no PersistentVolume.
pub fn is_pod_source(source: &str) -> bool {
    POD_SOURCES.contains(&source)
}

/// The type of a field of a volume's source: one of JSON's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    /// A string.
    Text,
    /// A number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// A list.
    List,
    /// A map.
    Map,
}

/// A volume with everything known that a plugin may ask.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumeSpec {
    /// The name in the pod's folder.
    pub name: SpecName,
    /// The source's field name (`emptyDir`), which selects the plugin.
    pub source: String,
    /// The source's fields.
    pub fields: Fields,
    /// The pod's claim says read-only, or the source does.
    pub read_only: bool,
    /// The SELinux label that it is mounted with, if it is mounted with one.
    #[serde(default)]
    pub selinux_label: Option<String>,
    /// The PersistentVolume, if the volume comes from one. Boxed: most volumes have none.
    pub persistent_volume: Option<Box<PersistentVolume>>,
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
    /// `status.capacity.storage` of the bound claim in bytes: the size that the volume had when the
    /// cluster last said so. A larger [`capacity`](Self::capacity) was asked for since.
    #[serde(default)]
    pub claim_capacity: Option<u64>,
    /// `spec.accessModes`, in Kubernetes' spelling.
    pub access_modes: Vec<String>,
    /// `spec.mountOptions`, in the order given.
    pub mount_options: Vec<String>,
    /// `spec.volumeMode`.
    pub volume_mode: VolumeMode,
    /// `spec.nodeAffinity.required`; none means any node.
    pub node_affinity: Option<NodeAffinity>,
    /// Annotation `pv.beta.kubernetes.io/gid`, a supplemental group for the pod; none when absent
    /// or not a number.
    pub gid: Option<i64>,
    /// Its annotations whose keys begin with [`ANNOTATION_PREFIX`]: what its owner says to volhost.
    /// Others come and go by many hands.
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
}

/// The prefix of the annotations for volhost.
pub const ANNOTATION_PREFIX: &str = "volhost.io/";

/// `nodeAffinity.required`: the node must match one of the terms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeAffinity {
    /// Alternatives.
    pub terms: Vec<NodeSelectorTerm>,
}

/// One alternative: every requirement must match. A term without requirements matches nothing, as
/// in Kubernetes.
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
    /// The values that `operator` compares with.
    pub values: Vec<String>,
}

impl NodeAffinity {
    /// Whether a node of this name and these labels satisfies the affinity.
    pub fn matches(&self, node_name: &str, labels: &BTreeMap<String, String>) -> bool {
        self.terms.iter().any(|term| {
            (!term.labels.is_empty() || !term.fields.is_empty())
                && term.labels.iter().all(|r| r.matches(labels.get(&r.key).map(String::as_str)))
                && term.fields.iter().all(|r| r.key == "metadata.name" && r.matches(Some(node_name)))
        })
    }
}

impl NodeRequirement {
    fn matches(&self, value: Option<&str>) -> bool {
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
    /// A key that two specs of one volume share: the PersistentVolume's name, or the inline source
    /// with its fields.
    pub fn source_key(&self) -> String {
        match &self.persistent_volume {
            Some(pv) => format!("pv/{}", pv.name),
            None => format!("{}/{}", self.source, self.fields.to_value()),
        }
    }

    /// Returns the size that the PersistentVolume should have, in bytes.
    pub fn capacity(&self) -> Option<u64> {
        self.persistent_volume.as_ref()?.capacity
    }

    /// Whether the volume is handed over as a device.
    pub fn is_block(&self) -> bool {
        self.persistent_volume.as_ref().is_some_and(|pv| pv.volume_mode == VolumeMode::Block)
    }

    /// Whether only one pod on the node may use the volume: ReadWriteOncePod is its one access
    /// mode.
    pub fn is_single_pod(&self) -> bool {
        self.persistent_volume.as_ref().is_some_and(|pv| pv.access_modes.as_slice() == ["ReadWriteOncePod"])
    }

    /// Whether the volume may be attached to several nodes at once: an inline one, or one whose
    /// access modes are not said or allow many nodes.
    pub fn allows_multi_attach(&self) -> bool {
        self.persistent_volume.as_ref().is_none_or(|pv| {
            pv.access_modes.is_empty()
                || pv.access_modes.iter().any(|mode| matches!(mode.as_str(), "ReadWriteMany" | "ReadOnlyMany"))
        })
    }

    /// One field of the source by its dotted path (`csi.driver`, `items.0.key`): a string as it is,
    /// a number or boolean in JSON's spelling, an object or list as JSON text; none when absent or
    /// null.
    pub fn parameter(&self, path: &str) -> Option<String> {
        match self.value(path)? {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        }
    }

    /// Returns the type of the source's field at this path; none when absent or null.
    pub fn kind(&self, path: &str) -> Option<FieldKind> {
        match self.value(path)? {
            Value::Null => None,
            Value::String(_) => Some(FieldKind::Text),
            Value::Number(_) => Some(FieldKind::Number),
            Value::Bool(_) => Some(FieldKind::Boolean),
            Value::Array(_) => Some(FieldKind::List),
            Value::Object(_) => Some(FieldKind::Map),
        }
    }

    /// The names of the fields of the map at this path, sorted, or the indices of the list; empty
    /// for anything else. The empty path is the source itself.
    pub fn fields_at(&self, path: &str) -> Vec<String> {
        if path.is_empty() {
            return self.fields.keys().cloned().collect();
        }
        match self.value(path) {
            Some(Value::Object(map)) => {
                let mut names: Vec<String> = map.keys().cloned().collect();
                names.sort();
                names
            }
            Some(Value::Array(list)) => (0..list.len()).map(|index| index.to_string()).collect(),
            _ => Vec::new(),
        }
    }

    /// The fields of the map at this path; none when there is no map.
    pub fn map_at(&self, path: &str) -> Option<&Map<String, Value>> {
        self.value(path)?.as_object()
    }

    /// Whether some text in the source, at any depth, is exactly this one: what a volume does not
    /// name, its plugin may not open.
    pub fn names(&self, text: &str) -> bool {
        fn contains(value: &Value, text: &str) -> bool {
            match value {
                Value::String(found) => found == text,
                Value::Array(list) => list.iter().any(|value| contains(value, text)),
                Value::Object(map) => map.values().any(|value| contains(value, text)),
                Value::Null | Value::Bool(_) | Value::Number(_) => false,
            }
        }
        self.fields.values().any(|value| contains(value, text))
    }

    fn value(&self, path: &str) -> Option<&Value> {
        let (first, rest) = path.split_once('.').map_or((path, None), |(a, b)| (a, Some(b)));
        let mut value = self.fields.get(first)?;
        for part in rest.into_iter().flat_map(|rest| rest.split('.')) {
            value = match value {
                Value::Object(map) => map.get(part)?,
                Value::Array(list) => list.get(part.parse::<usize>().ok()?)?,
                _ => return None,
            };
        }
        Some(value)
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
            fields: fields.as_object().unwrap().clone().into(),
            read_only: false,
            selinux_label: None,
            persistent_volume: None,
        };
        assert_eq!(spec.parameter("a.b.1").as_deref(), Some("two"));
        assert_eq!(spec.parameter("a.b.0").as_deref(), Some("1"));
        assert_eq!(spec.parameter("flag").as_deref(), Some("true"));
        assert_eq!(spec.parameter("a.b.2"), None);
        assert_eq!(spec.parameter("a.b.x"), None);
        assert_eq!(spec.parameter("a.b.1.z"), None);
        assert_eq!(spec.parameter("a.b").as_deref(), Some("[1,\"two\",null]"));
        for (path, kind) in [
            ("a", Some(FieldKind::Map)),
            ("a.b", Some(FieldKind::List)),
            ("a.b.0", Some(FieldKind::Number)),
            ("a.b.1", Some(FieldKind::Text)),
            ("a.b.2", None),
            ("flag", Some(FieldKind::Boolean)),
            ("", None),
        ] {
            assert_eq!(spec.kind(path), kind, "{path}");
        }
        assert_eq!(spec.fields_at(""), ["a", "flag"]);
        assert_eq!(spec.fields_at("a"), ["b"]);
        assert_eq!(spec.fields_at("a.b"), ["0", "1", "2"]);
        assert!(spec.fields_at("a.b.1").is_empty() && spec.fields_at("none").is_empty());
        assert!(spec.names("two") && !spec.names("b") && !spec.names("tw"));
    }
}
