//! A case file, read: the volume and what it needs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Map, Value};
use volhost_model::objects::{Bytes, KeyedObject};
use volhost_model::spec::{PersistentVolume, VolumeMode};
use volhost_model::{
    ContainerResources, Fields, FsGroupChangePolicy, OuterName, Pod, PodUid, SpecName, VolumeSpec, mount_options,
    quantity,
};
use volhost_runtime::{GrantPolicy, NodeFacts, PluginInfo, ShippedPlugins};

use crate::case_error::{CaseError, CaseFieldError};

/// The size of a volume that a case file does not describe, in bytes: any file system fits, and
/// making one takes no time.
const DEFAULT_CAPACITY: &str = "64Mi";
/// Memory that the scratch node gives to pods unless the case file says otherwise.
const DEFAULT_MEMORY: u64 = 4 << 30;

/// The placeholder of a made volume's handle in `controller.modify.shows`.
pub(crate) const VOLUME: &str = "${volume}";

/// A case file, read for one scratch file system.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct CaseFile {
    pub(crate) files: Vec<SetUpFile>,
    pub(crate) grants: Option<Value>,
    pub(crate) settings: Option<Value>,
    node: NodeSection,
    pod: PodSection,
    pub(crate) objects: ObjectsSection,
    pub(crate) volume: Option<Map<String, Value>>,
    persistent_volume: Option<PersistentVolumeSection>,
    other: Option<Map<String, Value>>,
    /// Names of nodes beside `node` that the storage knows.
    pub(crate) other_nodes: Vec<String>,
    /// What volumes the plugin makes, if it does.
    pub(crate) controller: Option<ControllerSection>,
    pub(crate) expect: Expectations,
}

/// A file or folder that the plugin needs.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SetUpFile {
    pub(crate) folder: Option<PathBuf>,
    pub(crate) file: Option<PathBuf>,
    #[serde(default)]
    pub(crate) content: String,
    pub(crate) size: Option<String>,
    pub(crate) mode: Option<u32>,
    /// A program and its arguments, run with the scratch file system as its place.
    pub(crate) run: Option<Vec<String>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct NodeSection {
    name: Option<String>,
    labels: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct PodSection {
    namespace: Option<String>,
    service_account: String,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    run_as_user: Option<u32>,
}

/// The objects that the volume names.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct ObjectsSection {
    /// By `namespace/name`, their `data`.
    pub(crate) config_maps: BTreeMap<String, BTreeMap<String, String>>,
    /// Likewise, in plain text.
    pub(crate) secrets: BTreeMap<String, BTreeMap<String, String>>,
    /// By name, `spec` of CSIDriver objects.
    pub(crate) csi_drivers: BTreeMap<String, Value>,
    /// By name, certificates.
    pub(crate) trust_bundles: BTreeMap<String, String>,
    /// Tokens are issued.
    pub(crate) tokens: bool,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PersistentVolumeSection {
    capacity: Option<String>,
    access_modes: Vec<String>,
    mount_options: Vec<String>,
    annotations: BTreeMap<String, String>,
    /// The source, under its field's name.
    #[serde(flatten)]
    source: Map<String, Value>,
}

/// The volumes that a plugin with `controller` is asked to make.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct ControllerSection {
    size: Option<String>,
    /// As in a StorageClass.
    pub(crate) parameters: BTreeMap<String, String>,
    pub(crate) fs_type: Option<String>,
    /// What comes with each call that is about them.
    secrets: BTreeMap<String, String>,
    /// How they are changed, if the plugin can.
    pub(crate) modify: Option<ModifySection>,
}

/// How the volumes are changed that a plugin with `modifier` has made.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct ModifySection {
    /// Mutable parameters that they can have, and have not at first.
    pub(crate) to: BTreeMap<String, String>,
    /// Values that they cannot have.
    pub(crate) refused: BTreeMap<String, String>,
    /// A program and its arguments that shows what of a volume can be changed. [`VOLUME`] is
    /// replaced by the volume's handle.
    pub(crate) shows: Vec<String>,
}

impl ModifySection {
    /// Whether it makes sense by itself.
    fn check(&self) -> Result<(), CaseFieldError> {
        let wrong = |field: &str, reason| Err(CaseFieldError::new(format!("controller.modify.{field}"), reason));
        if self.to.is_empty() {
            return wrong("to", CaseError::NoParameter);
        }
        if !self.shows.is_empty() && !self.shows.iter().any(|word| word.contains(VOLUME)) {
            return wrong("shows", CaseError::NoHandle(VOLUME));
        }
        match self.refused.iter().find(|(key, value)| self.to.get(*key) == Some(value)) {
            Some((key, _)) => wrong("refused", CaseError::SameValue(key.clone())),
            None => Ok(()),
        }
    }
}

impl ControllerSection {
    /// What comes with each call that is about them.
    pub(crate) fn secrets(&self) -> KeyedObject {
        let entries = self.secrets.iter().map(|(key, text)| (key.clone(), Bytes::from(text.as_bytes())));
        KeyedObject::new(entries.collect())
    }

    /// Their size in bytes.
    ///
    /// # Errors
    /// [`CaseError::Quantity`].
    pub(crate) fn bytes(&self) -> Result<u64, CaseError> {
        Ok(quantity::parse_bytes(self.size.as_deref().unwrap_or(DEFAULT_CAPACITY))?)
    }
}

/// What the suite cannot know of a volume by itself.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Expectations {
    /// What is in the pod's folder: `folder`, `mount of ext4`.
    pub(crate) kind: Option<String>,
    /// Files that the volume shows from the beginning, with their content.
    pub(crate) files: BTreeMap<PathBuf, String>,
    /// Pods can write to it; yes unless it says no.
    pub(crate) writable: Option<bool>,
    /// What pods write outlives their volume's unpublish.
    pub(crate) keeps_data: Option<bool>,
    /// A volume of this kind can be asked for read-only: yes for PersistentVolumes, else no, unless
    /// it says.
    pub(crate) read_only: Option<bool>,
    /// The pod's `fsGroup` gets to use the volume; yes unless it says no.
    pub(crate) fs_group: Option<bool>,
    /// It can be handed over as a device, as far as its plugin can; yes unless it says no.
    pub(crate) block: Option<bool>,
    /// Two pods may have it at once; yes unless it says no.
    pub(crate) shared: Option<bool>,
    /// An external driver unpublishes the volume, and says in its own words that it is in use.
    pub(crate) busy_in_own_words: bool,
    /// Fields of the source into which the suite puts no values of its own.
    pub(crate) leave_fields: Vec<String>,
}

impl CaseFile {
    /// Whether it makes sense by itself.
    ///
    /// # Errors
    /// The field, and what is wrong with it.
    pub(crate) fn check(&self) -> Result<(), CaseFieldError> {
        if self.volume.is_some() && self.persistent_volume.is_some() {
            return Err(CaseFieldError::new("volume", CaseError::TwoVolumes));
        }
        for (at, file) in self.files.iter().enumerate() {
            let kinds = [file.folder.is_some(), file.file.is_some(), file.run.is_some()];
            if kinds.iter().filter(|given| **given).count() != 1 {
                return Err(CaseFieldError::new(format!("files[{at}]"), CaseError::FileKind));
            }
            if let Some(size) = &file.size {
                quantity::parse_bytes(size).map_err(|error| CaseFieldError::new(format!("files[{at}].size"), error))?;
            }
        }
        let volume = |field: &str, source: &Map<String, Value>| {
            one_source(source).map(|_| ()).map_err(|reason| CaseFieldError::new(field, reason))
        };
        if let Some(source) = &self.volume {
            volume("volume", source)?;
        }
        if let Some(source) = &self.other {
            volume("other", source)?;
        }
        if let Some(of) = &self.controller {
            of.bytes().map_err(|reason| CaseFieldError::new("controller.size", reason))?;
            if let Some(modify) = &of.modify {
                modify.check()?;
            }
        }
        let mut names = BTreeSet::from([self.node().name]);
        if let Some(at) = self.other_nodes.iter().position(|name| name.is_empty() || !names.insert(name.clone())) {
            return Err(CaseFieldError::new(format!("otherNodes[{at}]"), CaseError::NodeName));
        }
        let Some(of) = &self.persistent_volume else { return Ok(()) };
        volume("persistentVolume", &of.source)?;
        if let Some(capacity) = &of.capacity {
            quantity::parse_bytes(capacity).map_err(|error| CaseFieldError::new("persistentVolume.capacity", error))?;
        }
        mount_options::split(&of.mount_options)
            .map_err(|(at, error)| CaseFieldError::new(format!("persistentVolume.mountOptions[{at}]"), error))?;
        Ok(())
    }

    /// The volume; what a plugin without a case file gets is of its first source, without fields.
    pub(crate) fn spec(&self, plugin: &PluginInfo) -> Result<VolumeSpec, CaseError> {
        let on_node = ["attacher", "stager", "block-mapper"];
        let default = || default_source(plugin);
        if let Some(of) = &self.persistent_volume {
            return of.spec(&of.source);
        }
        match &self.volume {
            Some(source) => pod_spec(source),
            None if plugin.exports.iter().any(|export| on_node.contains(&export.as_str())) => {
                PersistentVolumeSection { capacity: Some(DEFAULT_CAPACITY.into()), ..Default::default() }
                    .spec(&default())
            }
            None => pod_spec(&default()),
        }
    }

    /// Another volume, of other storage; none when the case file names none.
    pub(crate) fn other(&self) -> Result<Option<VolumeSpec>, CaseError> {
        let Some(source) = &self.other else { return Ok(None) };
        match &self.persistent_volume {
            Some(of) => of.spec(source).map(Some),
            None => pod_spec(source).map(Some),
        }
    }

    /// The pods that have the volume.
    pub(crate) fn pod(&self, name: &str) -> Result<Pod, CaseError> {
        let of = &self.pod;
        Ok(Pod {
            uid: PodUid::new(format!("uid-{name}"))?,
            namespace: of.namespace.clone().unwrap_or_else(|| "default".into()),
            name: name.to_owned(),
            service_account: of.service_account.clone(),
            image_pull_secrets: Vec::new(),
            labels: of.labels.clone(),
            annotations: of.annotations.clone(),
            fs_group: None,
            fs_group_change_policy: FsGroupChangePolicy::Always,
            fs_user: of.run_as_user,
            supplemental_groups: Vec::new(),
            memory_limit: None,
            ephemeral_storage_limit: None,
            used_volumes: vec![OuterName::new("volume")?],
            containers: Vec::new(),
            resources: ContainerResources::default(),
            nested_mounts: BTreeMap::new(),
        })
    }

    /// The scratch node.
    pub(crate) fn node(&self) -> NodeFacts {
        NodeFacts {
            name: self.node.name.clone().unwrap_or_else(|| "conformance".into()),
            allocatable_memory: DEFAULT_MEMORY,
            labels: self.node.labels.clone(),
            ..NodeFacts::default()
        }
    }

    /// Every plugin's grants, with the case file's grants and settings for this one. The user has
    /// named the file, so it may have any name.
    pub(crate) fn policy(&self, plugin: &PluginInfo) -> Result<GrantPolicy, CaseError> {
        let builtin = GrantPolicy::builtin(ShippedPlugins::Known([plugin.digest.clone()].into()));
        let table = |value: &Option<Value>| match value {
            Some(value) => serde_json::json!({ plugin.name.as_str(): value }),
            None => serde_json::json!({}),
        };
        let own: GrantPolicy = serde_json::from_value(table(&self.grants)).map_err(CaseError::Grants)?;
        let settings = serde_json::from_value(table(&self.settings)).map_err(CaseError::Settings)?;
        Ok(builtin.overridden_by(own.with_settings(settings)))
    }
}

/// The source that a plugin says it serves, with what belongs to such a source in any case.
fn default_source(plugin: &PluginInfo) -> Map<String, Value> {
    let source = plugin.sources.first().map_or("", String::as_str);
    let (field, fields) = match source.split_once(':') {
        Some(("csi", driver)) => ("csi", serde_json::json!({ "driver": driver, "volumeHandle": "conformance" })),
        Some((field, driver)) => (field, serde_json::json!({ "driver": driver })),
        None => (source, serde_json::json!({})),
    };
    Map::from_iter([(field.to_owned(), fields)])
}

fn pod_spec(source: &Map<String, Value>) -> Result<VolumeSpec, CaseError> {
    let (source, fields) = one_source(source)?;
    let fields = Fields::from(fields);
    let read_only = fields.get("readOnly") == Some(&Value::Bool(true));
    let name = SpecName::new("volume")?;
    Ok(VolumeSpec { name, source, fields, read_only, selinux_label: None, persistent_volume: None })
}

impl PersistentVolumeSection {
    fn spec(&self, source: &Map<String, Value>) -> Result<VolumeSpec, CaseError> {
        let capacity = self.capacity.as_deref().map(quantity::parse_bytes).transpose();
        let persistent_volume = PersistentVolume {
            name: "conformance".into(),
            claim: "default/conformance".into(),
            capacity: capacity?,
            claim_capacity: None,
            access_modes: if self.access_modes.is_empty() {
                vec!["ReadWriteOnce".into()]
            } else {
                self.access_modes.clone()
            },
            mount_options: mount_options::split(&self.mount_options).map_err(|(_, error)| error)?,
            volume_mode: VolumeMode::Filesystem,
            node_affinity: None,
            gid: None,
            annotations: self.annotations.clone(),
        };
        let name = SpecName::new("conformance")?;
        let spec = pod_spec(source)?;
        Ok(VolumeSpec { name, persistent_volume: Some(Box::new(persistent_volume)), ..spec })
    }
}

/// A source's field and what is in it.
fn one_source(source: &Map<String, Value>) -> Result<(String, Map<String, Value>), CaseError> {
    let mut all = source.iter();
    match (all.next(), all.next()) {
        (Some((field, Value::Object(fields))), None) => Ok((field.clone(), fields.clone())),
        (Some((field, Value::Null)), None) => Ok((field.clone(), Map::new())),
        (Some((field, _)), None) => Err(CaseError::NotAMap(field.clone())),
        (None, _) => Err(CaseError::NoSource),
        (Some((first, _)), Some((second, _))) => Err(CaseError::SeveralSources(first.clone(), second.clone())),
    }
}
