//! How a pod's containers use one of its volumes, the paths in it expanded.

use std::sync::Arc;

use volhost_model::{ContainerMount, OuterName};

use super::{NodeIdentity, sub_path_expr};
use crate::volume_mounts::{check_descends, plain};
use crate::{MountUse, PodObject, VolumeUse};

/// Every use of the volume by a container, in the manifest's order.
///
/// # Errors
/// The first `subPathExpr` that cannot be expanded, or leads nowhere in a volume: its place in the manifest, and why.
pub(super) fn of(pod: &PodObject, volume: &OuterName, node: &NodeIdentity) -> Result<Arc<[ContainerMount]>, String> {
    let uses = pod.uses.iter().filter(|used| used.volume == *volume);
    let mounts = uses.filter_map(|used| used.mount.as_ref().map(|mount| resolved(pod, used, mount, node)));
    mounts.collect()
}

fn resolved(
    pod: &PodObject,
    used: &VolumeUse,
    MountUse { mount, sub_path_expr }: &MountUse,
    node: &NodeIdentity,
) -> Result<ContainerMount, String> {
    let Some(expression) = sub_path_expr else {
        return Ok(mount.clone());
    };
    let refused = |why: String| {
        format!("{}:{}: {}.subPathExpr {expression:?} cannot be used: {why}", pod.file, used.line, used.path)
    };
    let environment = pod.environments.get(&mount.container).cloned().unwrap_or_default();
    let path = sub_path_expr::expand(expression, &environment, &pod.pod, &node.name).map_err(refused)?;
    check_descends(&path).map_err(|why| refused(format!("the result {why}")))?;
    // An empty result means the whole volume, as for the kubelet.
    let sub_path = (!path.is_empty()).then(|| plain(&path));
    Ok(ContainerMount { sub_path, ..mount.clone() })
}
