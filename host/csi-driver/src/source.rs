//! A volume of a request as the plugin sees it: the source that the plugin serves, filled from the
//! handle and the context.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use volhost_model::spec::{PersistentVolume, VolumeMode};
use volhost_model::text::lower_hex;
use volhost_model::{Pod, PodUid, SpecName, VolumeSpec};

use crate::refusal::{Refusal, Result};
use crate::usage::RequestedUsage;

/// Keys of a context that begin so are the CO's own, and no fields of the volume.
const COS_OWN: [&str; 2] = ["csi.storage.k8s.io/", "storage.kubernetes.io/"];
const POD: &str = "csi.storage.k8s.io/pod.";
/// What CSI sources are called.
const CSI: &str = "csi";
/// How much of a digest names a volume, in bytes.
const NAME_BYTES: usize = 16;

/// The volume source of the plugin that is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ServedSource {
    /// `csi` with this driver: the handle is `volumeHandle`, and the context `volumeAttributes`.
    Csi(String),
    /// Another field of a volume: the context's entries are its fields.
    Field(String),
}

impl ServedSource {
    /// The source of this name, as the plugin says it.
    pub(crate) fn read(name: &str) -> Self {
        match name.split_once(':') {
            Some((CSI, driver)) => Self::Csi(driver.to_owned()),
            _ => Self::Field(name.to_owned()),
        }
    }

    /// The volume of this handle.
    ///
    /// # Errors
    /// [`Refusal::Field`].
    pub(crate) fn spec(&self, asked: &RequestedVolume<'_>) -> Result<VolumeSpec> {
        let own: BTreeMap<&String, &String> =
            asked.context.iter().filter(|(key, _)| !COS_OWN.iter().any(|begin| key.starts_with(begin))).collect();
        let (source, fields) = match self {
            Self::Csi(driver) => (CSI.to_owned(), csi_fields(driver, asked, &own).into()),
            Self::Field(name) => {
                (name.clone(), own.iter().map(|(key, value)| ((*key).clone(), value_of(value))).collect())
            }
        };
        let name =
            SpecName::new(name_of(asked.volume_id)).map_err(|error| Refusal::field("volume_id", error.to_string()))?;
        let claim =
            |part: &str| asked.context.get(&format!("csi.storage.k8s.io/pvc/{part}")).map_or("", String::as_str);
        let persistent_volume = PersistentVolume {
            name: name.as_str().to_owned(),
            claim: format!("{}/{}", claim("namespace"), claim("name")),
            capacity: None,
            claim_capacity: None,
            access_modes: vec![asked.usage.kubernetes_mode().to_owned()],
            mount_options: asked.usage.mount_flags.clone(),
            volume_mode: if asked.usage.block { VolumeMode::Block } else { VolumeMode::Filesystem },
            node_affinity: None,
            gid: None,
            annotations: BTreeMap::new(),
        };
        Ok(VolumeSpec {
            name,
            source,
            fields,
            read_only: asked.read_only || asked.usage.is_read_only(),
            selinux_label: asked.usage.selinux_label.clone(),
            persistent_volume: Some(Box::new(persistent_volume)),
        })
    }
}

/// What a request says of a volume.
#[derive(Debug)]
pub(crate) struct RequestedVolume<'a> {
    pub(crate) volume_id: &'a str,
    pub(crate) context: &'a HashMap<String, String>,
    pub(crate) usage: &'a RequestedUsage,
    /// The publication is read-only.
    pub(crate) read_only: bool,
}

fn csi_fields(driver: &str, asked: &RequestedVolume<'_>, own: &BTreeMap<&String, &String>) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("driver".to_owned(), Value::from(driver));
    fields.insert("volumeHandle".to_owned(), Value::from(asked.volume_id));
    if !asked.usage.fs_type.is_empty() {
        fields.insert("fsType".to_owned(), Value::from(asked.usage.fs_type.as_str()));
    }
    if asked.usage.is_read_only() {
        fields.insert("readOnly".to_owned(), Value::from(true));
    }
    if !own.is_empty() {
        let attributes = own.iter().map(|(key, value)| ((*key).clone(), Value::from(value.as_str())));
        fields.insert("volumeAttributes".to_owned(), Value::Object(attributes.collect()));
    }
    fields
}

/// Whether a pod describes the volume itself: the CO publishes it and never stages it.
pub(crate) fn is_ephemeral(context: &HashMap<String, String>) -> bool {
    context.get("csi.storage.k8s.io/ephemeral").is_some_and(|value| value == "true")
}

/// Reads a value of a context, which has only strings: a string that is other JSON is read as that.
fn value_of(text: &str) -> Value {
    match serde_json::from_str(text) {
        Ok(Value::Null) | Err(_) => Value::from(text),
        Ok(value) => value,
    }
}

/// Returns a volume's name where its handle is not allowed: the beginning of its digest.
pub(crate) fn name_of(volume_id: &str) -> String {
    let digest = Sha256::digest(volume_id);
    format!("csi-{}", lower_hex(digest.iter().take(NAME_BYTES)))
}

/// Returns the pod that a volume is published for, as far as the CO names it (`podInfoOnMount`).
/// Without a name, each target counts as another pod.
///
/// # Errors
/// [`Refusal::Field`] for a uid that is no name of a folder.
pub(crate) fn pod(context: &HashMap<String, String>, target: &str) -> Result<Pod> {
    let named = |what: &str| context.get(&format!("{POD}{what}")).cloned().unwrap_or_default();
    let uid = match named("uid") {
        none if none.is_empty() => name_of(target),
        uid => uid,
    };
    let uid = PodUid::new(uid).map_err(|error| Refusal::field("volume_context", error.to_string()))?;
    Ok(Pod {
        uid,
        namespace: named("namespace"),
        name: named("name"),
        service_account: context.get("csi.storage.k8s.io/serviceAccount.name").cloned().unwrap_or_default(),
        image_pull_secrets: Vec::new(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        fs_group: None,
        fs_group_change_policy: volhost_model::FsGroupChangePolicy::default(),
        fs_user: None,
        supplemental_groups: Vec::new(),
        memory_limit: None,
        ephemeral_storage_limit: None,
        used_volumes: Vec::new(),
        containers: Vec::new(),
        resources: volhost_model::ContainerResources::default(),
        nested_mounts: BTreeMap::new(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;
    use volhost_proto::csi::VolumeCapability;
    use volhost_proto::csi::volume_capability::{AccessMode, AccessType, MountVolume};

    fn usage(fs_type: &str) -> RequestedUsage {
        let mount = MountVolume { fs_type: fs_type.to_owned(), ..MountVolume::default() };
        RequestedUsage::read(Some(&VolumeCapability {
            access_type: Some(AccessType::Mount(mount)),
            access_mode: Some(AccessMode { mode: 1 }),
        }))
        .unwrap()
    }

    fn context(entries: &[(&str, &str)]) -> HashMap<String, String> {
        entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_csi_source_has_the_handle_and_the_context_without_what_is_the_cos_own() {
        let context = context(&[("folder", "/srv"), ("storage.kubernetes.io/csiProvisionerIdentity", "x")]);
        let asked = RequestedVolume { volume_id: "a/b", context: &context, usage: &usage("xfs"), read_only: true };
        let spec = ServedSource::read("csi:loop.volhost.io").spec(&asked).unwrap();
        let fields = serde_json::json!({
            "driver": "loop.volhost.io", "volumeHandle": "a/b", "fsType": "xfs", "volumeAttributes": { "folder": "/srv" }
        });
        assert_eq!((spec.source.as_str(), spec.fields.to_value()), ("csi", fields));
        assert!(spec.read_only && spec.name.as_str().starts_with("csi-"));
    }

    #[test]
    fn another_source_has_the_contexts_entries_as_fields() {
        let context = context(&[("path", "/srv"), ("deep", "{\"a\":[1]}"), ("on", "true"), ("word", "null")]);
        let asked = RequestedVolume { volume_id: "v", context: &context, usage: &usage(""), read_only: false };
        let spec = ServedSource::read("hostPath").spec(&asked).unwrap();
        let fields = serde_json::json!({ "path": "/srv", "deep": { "a": [1] }, "on": true, "word": "null" });
        assert_eq!((spec.source.as_str(), spec.fields.to_value()), ("hostPath", fields));
    }

    #[test]
    fn a_pod_is_who_the_co_says_or_the_target() {
        let named =
            pod(&context(&[("csi.storage.k8s.io/pod.uid", "u-1"), ("csi.storage.k8s.io/pod.name", "web")]), "/t")
                .unwrap();
        assert_eq!((named.uid.as_str(), named.name.as_str()), ("u-1", "web"));
        assert_ne!(pod(&HashMap::new(), "/a").unwrap().uid, pod(&HashMap::new(), "/b").unwrap().uid);
        assert!(pod(&context(&[("csi.storage.k8s.io/pod.uid", "../x")]), "/t").is_err());
    }
}
