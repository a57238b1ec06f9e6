//! A pod's container mounts of one of its volumes, with expanded sub-paths.

use std::sync::Arc;

use thiserror::Error;
use volhost_model::{ContainerMount, OuterName};

use super::node::NodeIdentity;
use super::sub_path_expr::{self, ExpansionError};
use crate::sub_path::{SubPathError, check_descends, plain};
use crate::{MountUse, PodObject, VolumeUse};

/// A `subPathExpr` that cannot be used, with its place in the manifest.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{file}:{line}: {path}.subPathExpr {expression:?} cannot be used: {problem}")]
pub(super) struct SubPathExprError {
    file: Arc<str>,
    line: u32,
    path: String,
    expression: String,
    #[source]
    problem: SubPathExprProblem,
}

/// The reason why a `subPathExpr` cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
enum SubPathExprProblem {
    /// It cannot be expanded.
    #[error(transparent)]
    Expansion(#[from] ExpansionError),
    /// The result is no path in a volume.
    #[error("the result {0}")]
    Result(#[source] SubPathError),
}

/// Returns the container mounts of the volume, in the manifest's order.
///
/// # Errors
/// The first `subPathExpr` that cannot be used.
pub(super) fn of(
    pod: &PodObject,
    volume: &OuterName,
    node: &NodeIdentity,
) -> Result<Arc<[ContainerMount]>, Box<SubPathExprError>> {
    let uses = pod.uses.iter().filter(|used| used.volume == *volume);
    let mounts = uses.filter_map(|used| used.mount.as_ref().map(|mount| resolved(pod, used, mount, node)));
    mounts.collect()
}

fn resolved(
    pod: &PodObject,
    used: &VolumeUse,
    MountUse { mount, sub_path_expr }: &MountUse,
    node: &NodeIdentity,
) -> Result<ContainerMount, Box<SubPathExprError>> {
    let Some(expression) = sub_path_expr else {
        return Ok(mount.clone());
    };
    let refused = |problem| {
        Box::new(SubPathExprError {
            file: Arc::clone(&pod.file),
            line: used.line,
            path: used.path.clone(),
            expression: expression.clone(),
            problem,
        })
    };
    let environment = pod.environments.get(&mount.container).cloned().unwrap_or_default();
    let path = sub_path_expr::expand(expression, &environment, &pod.pod, &node.name);
    let path = path.map_err(|error| refused(error.into()))?;
    check_descends(&path).map_err(|error| refused(SubPathExprProblem::Result(error)))?;
    // An empty result means the whole volume, as for the kubelet.
    let sub_path = (!path.is_empty()).then(|| plain(&path));
    Ok(ContainerMount { sub_path, ..mount.clone() })
}
