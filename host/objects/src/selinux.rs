//! `seLinuxOptions` and `seLinuxChangePolicy` of a pod's manifest, checked.

use k8s_openapi::api::core::v1 as k8s;
use volhost_model::selinux::{SelinuxChangePolicy, SelinuxOptions};

use super::error::FieldError;

/// Those of the pod, for containers that have none of their own.
pub(super) fn of_pod(spec: &k8s::PodSpec) -> Result<Option<SelinuxOptions>, FieldError> {
    let options = spec.security_context.as_ref().and_then(|security| security.se_linux_options.as_ref());
    options.map(|options| checked(options, "spec")).transpose()
}

/// Those of a container, which take the place of all of the pod's.
pub(super) fn of_container(
    security: Option<&k8s::SecurityContext>,
    path: &str,
) -> Result<Option<SelinuxOptions>, FieldError> {
    let options = security.and_then(|security| security.se_linux_options.as_ref());
    options.map(|options| checked(options, path)).transpose()
}

/// `spec.securityContext.seLinuxChangePolicy`; none where the pod does not say.
pub(super) fn change_policy(policy: Option<&str>) -> Result<Option<SelinuxChangePolicy>, FieldError> {
    match policy {
        None => Ok(None),
        Some("MountOption") => Ok(Some(SelinuxChangePolicy::MountOption)),
        Some("Recursive") => Ok(Some(SelinuxChangePolicy::Recursive)),
        Some(other) => Err(FieldError::other(
            "spec.securityContext.seLinuxChangePolicy",
            format!("{other:?} is no policy; there are MountOption and Recursive"),
        )),
    }
}

fn checked(options: &k8s::SELinuxOptions, path: &str) -> Result<SelinuxOptions, FieldError> {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let options = SelinuxOptions {
        user: text(&options.user),
        role: text(&options.role),
        process_type: text(&options.type_),
        level: text(&options.level),
    };
    match options.check() {
        Ok(()) => Ok(options),
        Err((field, why)) => Err(FieldError::new(format!("{path}.securityContext.seLinuxOptions.{field}"), why)),
    }
}
