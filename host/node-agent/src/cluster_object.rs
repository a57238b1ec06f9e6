//! One object as the API server has it.

use std::sync::Arc;

use kube::api::DynamicObject;
use sha2::{Digest as _, Sha256};
use volhost_model::text::lower_hex;
use volhost_objects::{Kind, Object, ObjectContent, ObjectKey, PersistentVolumeObject, parse};

use crate::growth::ClaimGrowth;

/// Where objects come from, in messages.
const ORIGIN: &str = "API server";

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
}

impl std::fmt::Debug for ClusterObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.key, self.resource_version)
    }
}

impl ClusterObject {
    /// Reads an object of this kind. None for one without a name, which no API server has.
    pub(crate) fn read(kind: Kind, mut object: DynamicObject) -> Option<Self> {
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
                let parsed = parse(ORIGIN, &text).map_err(|error| error.to_string());
                let one = parsed.and_then(|parsed| {
                    parsed.objects.into_iter().next().ok_or_else(|| "there is nothing in it".into())
                });
                (text, one)
            }
            Err(error) => (String::new(), Err(error.to_string())),
        };
        Some(Self {
            key: ObjectKey::new(kind, namespace, name),
            uid: uid.unwrap_or_default(),
            resource_version: version.unwrap_or_default(),
            text,
            object: parsed,
            growth,
        })
    }

    /// The PersistentVolume, if it is one that can be read.
    pub(crate) fn persistent_volume(&self) -> Option<&PersistentVolumeObject> {
        match &self.object.as_ref().ok()?.content {
            ObjectContent::PersistentVolume(volume) => Some(volume),
            _ => None,
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

/// A volume of a CSI driver, and how it is attached to a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CsiVolume {
    pub(crate) driver: String,
    pub(crate) handle: String,
}

impl CsiVolume {
    /// The CSI volume behind a PersistentVolume; none for other kinds.
    pub(crate) fn of(volume: &PersistentVolumeObject) -> Option<Self> {
        let source = volume.source.fields_of("csi")?;
        let text = |field: &str| source.get(field)?.as_str().map(str::to_owned);
        Some(Self { driver: text("driver")?, handle: text("volumeHandle")? })
    }

    /// The unique name, as in `status.volumesInUse` of a node.
    pub(crate) fn unique_name(&self) -> String {
        format!("kubernetes.io/csi/{}^{}", self.driver, self.handle)
    }

    /// The VolumeAttachment of the volume for a node. Every attach/detach controller gives it this
    /// name, by which the kubelet looks for it, too.
    pub(crate) fn attachment(&self, node: &str) -> ObjectKey {
        let digest = Sha256::digest(format!("{}{}{node}", self.handle, self.driver));
        ObjectKey::new(Kind::VolumeAttachment, "", format!("csi-{}", lower_hex(digest.iter())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attachment_has_the_name_that_kubernetes_gives_it() {
        let volume = CsiVolume { driver: "hostpath.csi.k8s.io".into(), handle: "vol-1".into() };
        // printf 'vol-1hostpath.csi.k8s.ionode-1' | sha256sum
        assert_eq!(
            volume.attachment("node-1").name,
            "csi-a5a2e67339ab5660a390dc86be397e784322823ff01f40cf2c01a72c3cab1374"
        );
        assert_eq!(volume.unique_name(), "kubernetes.io/csi/hostpath.csi.k8s.io^vol-1");
    }
}
