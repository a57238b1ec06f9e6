//! A pod's volume as what is attached for it.

use k8s_openapi::api::core::v1::{
    FCVolumeSource, ISCSIPersistentVolumeSource, PersistentVolume, PersistentVolumeSpec, Volume,
};
use k8s_openapi::api::storage::v1::VolumeAttachmentSource;
use volhost_csi_translation::{Migration, inline_to_csi};

use super::names;
use super::objects::{PersistentVolumeClaim, Pod};
use crate::migrated;

/// What is attached.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Source {
    /// The volume's unique name.
    pub(super) volume: String,
    /// Its name in events: that of the PersistentVolume.
    pub(super) name: String,
    /// How it is attached.
    pub(super) through: Through,
    /// Whether one node at a time may have it.
    pub(super) is_exclusive: bool,
}

/// How a volume is attached.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Through {
    /// A CSI driver does it, for a VolumeAttachment.
    Driver {
        /// `spec.attacher`.
        driver: String,
        /// `spec.source`.
        source: Box<VolumeAttachmentSource>,
    },
    /// The node does it, once the volume is in `status.volumesAttached`.
    Node,
}

/// A pod's volume.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Resolved {
    /// It is attached as this.
    Attached(Source),
    /// It is not attached.
    NotAttached,
    /// A FlexVolume driver may attach it, by a program that only the nodes have.
    Flex(Flex),
    /// Objects are missing. What they may stand for must stay attached.
    Unknown(Unknown),
}

/// A volume of a FlexVolume driver.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Flex {
    /// The driver: `VENDOR/NAME`.
    pub(super) driver: String,
    /// The volume's name in events: that of the PersistentVolume, or of the pod's volume.
    pub(super) name: String,
}

/// What is known of a pod's volume whose objects are missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unknown {
    /// The claim, in the pod's namespace.
    Claim(String),
    /// The PersistentVolume.
    Volume(String),
}

/// Where the objects are found.
pub(super) trait Objects {
    /// The claim of this namespace and name.
    fn claim(&self, namespace: &str, name: &str) -> Option<&PersistentVolumeClaim>;
    /// The PersistentVolume of this name.
    fn volume(&self, name: &str) -> Option<&PersistentVolume>;
    /// `spec.attachRequired` of this driver's CSIDriver; true without one.
    fn requires_attach(&self, driver: &str) -> bool;
}

/// Whether a pod's volume may be one that is attached.
pub(super) fn may_attach(volume: &Volume) -> bool {
    claims(volume)
        || volume.iscsi.is_some()
        || volume.fc.is_some()
        || volume.flex_volume.is_some()
        || Migration::of_inline(volume).is_some()
}

fn claims(volume: &Volume) -> bool {
    volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some()
}

/// Returns the name of the claim of a pod's volume.
pub(super) fn claim_name(pod: &Pod, volume: &Volume) -> Option<String> {
    if let Some(claim) = &volume.persistent_volume_claim {
        return Some(claim.claim_name.clone());
    }
    volume.ephemeral.as_ref()?;
    Some(format!("{}-{}", pod.metadata.name.as_deref()?, volume.name))
}

/// Finds what is attached for a pod's volume.
pub(super) fn resolve(pod: &Pod, volume: &Volume, objects: &impl Objects) -> Resolved {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    if let Some(name) = claim_name(pod, volume) {
        return of_claim(pod, volume, name, objects);
    }
    if let Some(iscsi) = &volume.iscsi {
        let target = target(&iscsi.target_portal, &iscsi.iqn, iscsi.lun);
        return Resolved::Attached(by_node(target, &volume.name, false));
    }
    if let Some(fc) = &volume.fc {
        return match fibre_channel(fc) {
            Some(disk) => Resolved::Attached(by_node(disk, &volume.name, false)),
            None => Resolved::NotAttached,
        };
    }
    if let Some(flex) = &volume.flex_volume {
        return Resolved::Flex(Flex { driver: flex.driver.clone(), name: volume.name.clone() });
    }
    if Migration::of_inline(volume).is_none() {
        return Resolved::NotAttached;
    }
    // One that cannot be translated is mounted by no node either.
    let Ok(translated) = inline_to_csi(volume, namespace) else { return Resolved::NotAttached };
    let spec = translated.spec.unwrap_or_default();
    let source = VolumeAttachmentSource { inline_volume_spec: Some(spec.clone()), persistent_volume_name: None };
    of_csi(&spec, translated.metadata.name.as_deref().unwrap_or_default(), source, objects)
}

fn of_claim(pod: &Pod, volume: &Volume, name: String, objects: &impl Objects) -> Resolved {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let Some(claim) = objects.claim(namespace, &name) else { return Resolved::Unknown(Unknown::Claim(name)) };
    let mut owners = claim.metadata.owner_references.iter().flatten();
    let is_owned = owners.any(|owner| owner.controller == Some(true) && Some(&owner.uid) == pod.metadata.uid.as_ref());
    if volume.ephemeral.is_some() && !is_owned {
        // Another claim has the name.
        return Resolved::NotAttached;
    }
    let Some(volume) = claim.volume() else { return Resolved::Unknown(Unknown::Claim(name)) };
    let unknown = || Resolved::Unknown(Unknown::Volume(volume.to_owned()));
    let Some(volume) = objects.volume(volume).filter(|_| claim.is_bound()) else { return unknown() };
    let bound = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
    if bound.is_none_or(|bound| bound.uid != claim.metadata.uid) {
        return unknown();
    }
    of_volume(volume, objects)
}

/// Finds what is attached for a PersistentVolume.
pub(super) fn of_volume(volume: &PersistentVolume, objects: &impl Objects) -> Resolved {
    let name = volume.metadata.name.as_deref().unwrap_or_default();
    let Ok(translated) = migrated::as_csi(volume) else { return Resolved::Unknown(Unknown::Volume(name.to_owned())) };
    let none = PersistentVolumeSpec::default();
    let spec = translated.spec.as_ref().unwrap_or(&none);
    if let Some(iscsi) = &spec.iscsi {
        let ISCSIPersistentVolumeSource { target_portal, iqn, lun, .. } = iscsi;
        return Resolved::Attached(by_node(target(target_portal, iqn, *lun), name, is_exclusive(spec)));
    }
    if let Some(disk) = spec.fc.as_ref().and_then(fibre_channel) {
        return Resolved::Attached(by_node(disk, name, is_exclusive(spec)));
    }
    if let Some(flex) = &spec.flex_volume {
        return Resolved::Flex(Flex { driver: flex.driver.clone(), name: name.to_owned() });
    }
    let source = VolumeAttachmentSource { inline_volume_spec: None, persistent_volume_name: Some(name.to_owned()) };
    of_csi(spec, name, source, objects)
}

/// Returns the unique name of a PersistentVolume of a CSI driver.
pub(super) fn csi_name(spec: &PersistentVolumeSpec) -> Option<String> {
    let csi = spec.csi.as_ref()?;
    Some(names::csi_volume(&csi.driver, &csi.volume_handle))
}

fn of_csi(spec: &PersistentVolumeSpec, name: &str, source: VolumeAttachmentSource, objects: &impl Objects) -> Resolved {
    let Some((csi, volume)) = spec.csi.as_ref().zip(csi_name(spec)) else { return Resolved::NotAttached };
    if !objects.requires_attach(&csi.driver) {
        return Resolved::NotAttached;
    }
    let through = Through::Driver { driver: csi.driver.clone(), source: Box::new(source) };
    Resolved::Attached(Source { volume, name: name.to_owned(), through, is_exclusive: is_exclusive(spec) })
}

/// As Kubernetes: without access modes, nothing is known against several nodes.
fn is_exclusive(spec: &PersistentVolumeSpec) -> bool {
    let modes = spec.access_modes.as_deref().unwrap_or_default();
    !modes.is_empty() && !modes.iter().any(|mode| mode == "ReadWriteMany" || mode == "ReadOnlyMany")
}

fn by_node(volume: String, name: &str, is_exclusive: bool) -> Source {
    Source { volume, name: name.to_owned(), through: Through::Node, is_exclusive }
}

fn target(portal: &str, iqn: &str, lun: i32) -> String {
    format!("kubernetes.io/iscsi/{portal}:{iqn}:{lun}")
}

fn fibre_channel(source: &FCVolumeSource) -> Option<String> {
    let listed = |names: &[String]| format!("[{}]", names.join(" "));
    let (targets, disks) = (source.target_wwns.as_deref(), source.wwids.as_deref());
    match (targets.unwrap_or_default(), source.lun, disks.unwrap_or_default()) {
        (targets @ [_, ..], Some(lun), _) => Some(format!("kubernetes.io/fc/{}:{lun}", listed(targets))),
        (_, _, disks @ [_, ..]) => Some(format!("kubernetes.io/fc/{}", listed(disks))),
        _ => None,
    }
}
