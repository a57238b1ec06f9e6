//! The spec of a pod's volume, and the plugin that serves it.

use std::sync::Arc;

use volhost_model::spec::VolumeMode;
use volhost_model::{OuterName, SpecName, VolumeSpec};

use super::catalog::{NoChoice, PluginCatalog, PluginChoice};
use super::error::{ResolveError, known_volumes, place};
use super::node::NodeIdentity;
use super::{claim, source};
use crate::migrated;
use crate::references::{CLAIM_SOURCE, EPHEMERAL_SOURCE};
use crate::{ObjectStore, PodObject, PodVolume};

/// Returns the spec of the pod's volume, and the plugin that serves it.
pub(super) fn identify(
    pod: &PodObject,
    name: &OuterName,
    store: &ObjectStore,
    catalog: &dyn PluginCatalog,
    node: &NodeIdentity,
) -> Result<(Arc<VolumeSpec>, PluginChoice), NoChoice> {
    let mut spec = Arc::new(spec_of(pod, name, store, node)?);
    let choice = catalog.choose(&spec).map_err(|why| with_driver(pod, name, store, why))?;
    if choice.read_only {
        Arc::make_mut(&mut spec).read_only = true;
    }
    Ok((spec, choice))
}

/// Says of a former in-tree volume which CSI driver serves it, for the user wrote no such name.
fn with_driver(pod: &PodObject, name: &OuterName, store: &ObjectStore, why: NoChoice) -> NoChoice {
    let Some(origin) = migrated::origin(pod, name, store) else { return why };
    NoChoice { reason: format!("{origin}: {}", why.reason), ..why }
}

/// Returns the spec of the pod's volume.
pub(super) fn spec_of(
    pod: &PodObject,
    name: &OuterName,
    store: &ObjectStore,
    node: &NodeIdentity,
) -> Result<VolumeSpec, ResolveError> {
    let (index, volume) = pod.volume(name).ok_or_else(|| missing(pod, name))?;
    let spec = match source::of_pod_volume(pod, index, volume)? {
        (CLAIM_SOURCE, source) => claim::named(pod, volume, source, store, node)?,
        (EPHEMERAL_SOURCE, _) => claim::ephemeral(pod, volume, store, node)?,
        (field, fields) => {
            let (read_only, spec_name) = (source::is_read_only(fields), SpecName::new(name.as_str())?);
            match migrated::inline(name, field, fields, &pod.pod.namespace) {
                Some(migrated) => {
                    let refused = |error| source::untranslatable_inline(pod, index, volume, field, error);
                    migrated.map_err(refused)?.inline_spec(spec_name, read_only)
                }
                None => VolumeSpec {
                    selinux_label: None,
                    name: spec_name,
                    source: field.to_owned(),
                    read_only,
                    fields: fields.clone(),
                    persistent_volume: None,
                },
            }
        }
    };
    check_mode(pod, volume, &spec)?;
    Ok(spec)
}

/// A container names a volume that the pod lacks.
fn missing(pod: &PodObject, name: &OuterName) -> ResolveError {
    let used = pod.uses.iter().find(|used| used.volume == *name);
    let place = used.map_or_else(|| pod.file.to_string(), |used| place(pod, used).to_string());
    ResolveError::Missing { place, name: name.clone(), known: known_volumes(pod) }
}

/// File systems go with `volumeMounts`, devices with `volumeDevices`.
fn check_mode(pod: &PodObject, volume: &PodVolume, spec: &VolumeSpec) -> Result<(), ResolveError> {
    let name = &volume.name;
    let used = |as_device: bool| pod.uses.iter().find(|used| used.volume == *name && used.is_device() == as_device);
    let mode = spec.persistent_volume.as_ref().map(|persistent| persistent.volume_mode);
    let (used, problem, remedy) = match (mode, used(false), used(true)) {
        (Some(VolumeMode::Block), Some(used), _) => {
            (used, "has volumeMode Block, but is specified in volumeMounts", "list it in volumeDevices")
        }
        (Some(VolumeMode::Filesystem), _, Some(used)) => {
            (used, "has volumeMode Filesystem, but is specified in volumeDevices", "list it in volumeMounts")
        }
        (None, _, Some(used)) => {
            (used, "is specified in volumeDevices, which takes only volumes with a claim", "list it in volumeMounts")
        }
        _ => return Ok(()),
    };
    Err(ResolveError::Mode { name: name.clone(), problem, place: place(pod, used), remedy })
}
