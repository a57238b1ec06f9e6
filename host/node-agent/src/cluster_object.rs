//! One object as the API server has it.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube::api::DynamicObject;
use sha2::{Digest as _, Sha256};
use volhost_config::{PodMarks, PodScope};
use volhost_model::text::lower_hex;
use volhost_objects::{CsiVolumeName, Kind, Object, ObjectContent, ObjectKey, parse_quietly, references};

use crate::growth::ClaimGrowth;

/// Where objects come from, in messages.
const ORIGIN: &str = "API server";
/// What the unique names of CSI volumes begin with.
const PLUGIN: &str = "kubernetes.io/csi/";

/// One object as the API server has it. Its debug text shows no content: it may be a secret.
pub(crate) struct ClusterObject {
    pub(crate) key: ObjectKey,
    pub(crate) uid: String,
    pub(crate) resource_version: String,
    /// As JSON.
    pub(crate) text: String,
    /// As the daemon will read it, or why it cannot.
    pub(crate) object: Result<Arc<Object>, String>,
    /// How a claim's volume grows; none for one that has grown, and for other kinds.
    pub(crate) growth: Option<Box<ClaimGrowth>>,
    /// The objects that it names, VolumeAttachments aside. Found once: plans ask for them often.
    pub(crate) references: BTreeSet<ObjectKey>,
    /// The volumes of CSI drivers whose attachment to this node counts: of a PersistentVolume, or
    /// those that a pod names itself by a former in-tree source.
    pub(crate) csi_volumes: Vec<CsiVolume>,
}

impl std::fmt::Debug for ClusterObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.key, self.resource_version)
    }
}

impl ClusterObject {
    /// Reads an object of this kind for this node. None for one without a name, which no API server
    /// has.
    pub(crate) fn read(kind: Kind, mut object: DynamicObject, node: &str) -> Option<Self> {
        // Who has written which field is nothing that volumes need, and often the largest part.
        object.metadata.managed_fields = None;
        let name = object.metadata.name.clone()?;
        let namespace = object.metadata.namespace.clone().unwrap_or_default();
        let growth = (kind == Kind::PersistentVolumeClaim).then(|| ClaimGrowth::of(&object)).flatten().map(Box::new);
        let (uid, version) = (object.metadata.uid.clone(), object.metadata.resource_version.clone());
        // A list has them once, for all its items.
        object.types =
            Some(kube::core::TypeMeta { api_version: kind.api_version().to_owned(), kind: kind.name().to_owned() });
        let (text, parsed) = match serde_json::to_string(&object) {
            Ok(text) => {
                // The daemon reports fields that the kind lacks.
                let parsed = parse_quietly(ORIGIN, &text).map_err(|error| error.to_string());
                let one = parsed.and_then(|parsed| {
                    parsed.objects.into_iter().next().ok_or_else(|| "there is nothing in it".into())
                });
                (text, one)
            }
            Err(error) => (String::new(), Err(error.to_string())),
        };
        let references = parsed.as_deref().map(references::of).unwrap_or_default();
        let csi_volumes = parsed.as_deref().map(|object| CsiVolume::of(object, node)).unwrap_or_default();
        Some(Self {
            key: ObjectKey::new(kind, namespace, name),
            uid: uid.unwrap_or_default(),
            resource_version: version.unwrap_or_default(),
            text,
            object: parsed,
            growth,
            references,
            csi_volumes,
        })
    }

    /// Whether the scope includes it: a pod by its marks, any other object in any case. One that
    /// cannot be read is in no scope but the whole node.
    pub(crate) fn is_in(&self, scope: &PodScope) -> bool {
        match self.object.as_ref().map(|object| &object.content) {
            Ok(ObjectContent::Pod(pod)) => scope.includes(PodMarks {
                labels: &pod.pod.labels,
                annotations: &pod.pod.annotations,
                runtime_class: &pod.runtime_class,
            }),
            _ => self.key.kind != Kind::Pod || scope.is_whole_node(),
        }
    }

    /// Whether a controller attaches the volumes of this CSI driver. Its default is that one does.
    pub(crate) fn requires_attach(&self) -> bool {
        match self.object.as_ref().map(|object| &object.content) {
            Ok(ObjectContent::CsiDriver(driver)) => driver.spec.attach_required.unwrap_or(true),
            _ => true,
        }
    }
}

/// A volume of a CSI driver on this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CsiVolume {
    pub(crate) driver: String,
    /// As in `status.volumesInUse` of a node.
    pub(crate) unique_name: String,
    /// The VolumeAttachment of the volume for this node. Every attach/detach controller gives it
    /// this name, by which the kubelet looks for it, too.
    pub(crate) attachment: ObjectKey,
}

impl CsiVolume {
    /// The volume of this driver and handle.
    pub(crate) fn new(driver: &str, handle: &str, node: &str) -> Self {
        let digest = Sha256::digest(format!("{handle}{driver}{node}"));
        Self {
            driver: driver.to_owned(),
            unique_name: format!("{PLUGIN}{driver}^{handle}"),
            attachment: ObjectKey::new(Kind::VolumeAttachment, "", format!("csi-{}", lower_hex(digest.iter()))),
        }
    }

    fn of(object: &Object, node: &str) -> Vec<Self> {
        let named = |name: CsiVolumeName| Self::new(&name.driver, &name.handle, node);
        match &object.content {
            ObjectContent::PersistentVolume(volume) => volume.csi_volume().map(named).into_iter().collect(),
            ObjectContent::Pod(pod) => pod.inline_csi_volumes().map(named).collect(),
            _ => Vec::new(),
        }
    }

    /// The volume of this unique name; none for one of another plugin.
    pub(crate) fn of_unique_name(name: &str, node: &str) -> Option<Self> {
        let (driver, handle) = name.strip_prefix(PLUGIN)?.split_once('^')?;
        Some(Self::new(driver, handle, node))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attachment_has_the_name_that_kubernetes_gives_it() {
        let volume = CsiVolume::new("hostpath.csi.k8s.io", "vol-1", "node-1");
        // printf 'vol-1hostpath.csi.k8s.ionode-1' | sha256sum
        assert_eq!(volume.attachment.name, "csi-a5a2e67339ab5660a390dc86be397e784322823ff01f40cf2c01a72c3cab1374");
        assert_eq!(volume.unique_name, "kubernetes.io/csi/hostpath.csi.k8s.io^vol-1");
        assert_eq!(CsiVolume::of_unique_name(&volume.unique_name, "node-1"), Some(volume));
        assert_eq!(CsiVolume::of_unique_name("volhost.io/loop/x", "node-1"), None);
    }
}
