//! `volumeMounts` of a container, checked as Kubernetes' API server checks them.

use k8s_openapi::api::core::v1 as k8s;
use volhost_model::names::check_dns_label;
use volhost_model::{ContainerMount, MountPropagation, RecursiveReadOnly};

use super::error::FieldError;
use super::pod_volume::MountUse;
use super::sub_path::{check_descends, plain};

/// The container of a volume mount, for its checks.
#[derive(Debug, Clone, Copy)]
pub(super) struct CheckedContainer<'a> {
    /// The container's name.
    pub(super) container: &'a str,
    /// It is privileged.
    pub(super) privileged: bool,
    /// It is an ephemeral container.
    pub(super) ephemeral: bool,
}

/// Checks one entry; `path` is its field.
pub(super) fn check(
    mount: &k8s::VolumeMount,
    of: CheckedContainer<'_>,
    index: usize,
    path: &str,
) -> Result<MountUse, FieldError> {
    let field = |name: &str| format!("{path}.{name}");
    let sub_path = mount.sub_path.as_deref().filter(|text| !text.is_empty());
    let sub_path_expr = mount.sub_path_expr.as_deref().filter(|text| !text.is_empty());
    if sub_path.is_some() && sub_path_expr.is_some() {
        return Err(FieldError::other(
            field("subPathExpr"),
            "subPath and subPathExpr are mutually exclusive; write one of them",
        ));
    }
    let given = sub_path.map(|text| ("subPath", text)).or(sub_path_expr.map(|text| ("subPathExpr", text)));
    if let Some((name, text)) = given {
        check_descends(text).map_err(|error| FieldError::new(field(name), error))?;
        if of.ephemeral {
            return Err(FieldError::other(field(name), "cannot be set for an ephemeral container"));
        }
        // The name becomes a folder's.
        check_dns_label("container name", of.container).map_err(|e| FieldError::new(field(name), e))?;
    }
    let read_only = mount.read_only.unwrap_or_default();
    let propagation = propagation(mount, of, &field)?;
    let recursive_read_only = recursive_read_only(mount, read_only, propagation, &field)?;
    Ok(MountUse {
        mount: ContainerMount {
            container: of.container.to_owned(),
            index: u32::try_from(index).unwrap_or(u32::MAX),
            mount_path: mount.mount_path.clone(),
            sub_path: sub_path.map(plain),
            read_only,
            recursive_read_only,
            propagation,
        },
        sub_path_expr: sub_path_expr.map(str::to_owned),
    })
}

fn propagation(
    mount: &k8s::VolumeMount,
    of: CheckedContainer<'_>,
    field: &dyn Fn(&str) -> String,
) -> Result<MountPropagation, FieldError> {
    const FIELD: &str = "mountPropagation";
    match mount.mount_propagation.as_deref() {
        None | Some("None") => Ok(MountPropagation::None),
        Some("HostToContainer") => Ok(MountPropagation::HostToContainer),
        Some("Bidirectional") if of.privileged => Ok(MountPropagation::Bidirectional),
        Some("Bidirectional") => {
            Err(FieldError::other(field(FIELD), "Bidirectional mount propagation is for privileged containers alone"))
        }
        Some(other) => Err(FieldError::other(
            field(FIELD),
            format!("{other:?} is no propagation; there are None, HostToContainer and Bidirectional"),
        )),
    }
}

fn recursive_read_only(
    mount: &k8s::VolumeMount,
    read_only: bool,
    propagation: MountPropagation,
    field: &dyn Fn(&str) -> String,
) -> Result<RecursiveReadOnly, FieldError> {
    const FIELD: &str = "recursiveReadOnly";
    let wanted = match mount.recursive_read_only.as_deref() {
        None | Some("Disabled") => return Ok(RecursiveReadOnly::Disabled),
        Some("IfPossible") => RecursiveReadOnly::IfPossible,
        Some("Enabled") => RecursiveReadOnly::Enabled,
        Some(other) => {
            return Err(FieldError::other(
                field(FIELD),
                format!("{other:?} is no such setting; there are Disabled, IfPossible and Enabled"),
            ));
        }
    };
    if !read_only {
        return Err(FieldError::other(field(FIELD), "may only be set together with readOnly: true"));
    }
    if propagation != MountPropagation::None {
        return Err(FieldError::other(field(FIELD), "may only be set when mountPropagation is None or not set"));
    }
    Ok(wanted)
}
