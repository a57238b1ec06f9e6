//! Pods as users type them.

use super::error::CliError;
use volhost_api::pb;

/// A pod's `NS/NAME`; without a namespace, the one given with `-n`, else `default`.
///
/// # Errors
/// [`CliError::Usage`] when it is neither.
pub(super) fn pod(text: &str, namespace: Option<&str>) -> Result<pb::PodSelector, CliError> {
    let (namespace, name) = match text.split_once('/') {
        Some((found, name)) => (found, name),
        None => (namespace.unwrap_or("default"), text),
    };
    if namespace.is_empty() || name.is_empty() || name.contains('/') {
        return Err(CliError::Usage(format!("{text:?} names no pod; write NAMESPACE/NAME")));
    }
    Ok(pb::PodSelector { uid: String::new(), namespace: namespace.to_owned(), name: name.to_owned() })
}

/// A pod's volume, `NS/POD/VOLUME`, or `POD/VOLUME` in the namespace `default`.
///
/// # Errors
/// [`CliError::Usage`] when it is neither.
pub(super) fn volume(text: &str) -> Result<(pb::PodSelector, String), CliError> {
    let unnamed = || CliError::Usage(format!("{text:?} names no pod's volume; write NAMESPACE/POD/VOLUME"));
    let (of_pod, volume) = text.rsplit_once('/').ok_or_else(unnamed)?;
    if volume.is_empty() {
        return Err(unnamed());
    }
    Ok((pod(of_pod, None).map_err(|_| unnamed())?, volume.to_owned()))
}

/// An object of events as typed (`pod/NS/NAME`), as events write it (`pod NS/NAME`).
///
/// # Errors
/// [`CliError::Usage`] when it is none.
pub(super) fn event_object(text: &str) -> Result<String, CliError> {
    match text.split_once('/') {
        Some(("pod" | "pods" | "po", name)) if name.split('/').count() == 1 && !name.is_empty() => {
            Ok(format!("pod default/{name}"))
        }
        Some(("pod" | "pods" | "po", name)) if name.split('/').filter(|part| !part.is_empty()).count() == 2 => {
            Ok(format!("pod {name}"))
        }
        Some(("claim" | "pvc", name)) if !name.is_empty() => {
            let full = if name.contains('/') { name.to_owned() } else { format!("default/{name}") };
            Ok(format!("claim {full}"))
        }
        Some((kind @ ("volume" | "plugin" | "driver" | "file"), name)) if !name.is_empty() => {
            Ok(format!("{kind} {name}"))
        }
        _ => Err(CliError::Usage(format!(
            "{text:?} names nothing that events are about; write pod/NAMESPACE/NAME, claim/NAMESPACE/NAME, volume/NAME, plugin/VENDOR/NAME, driver/NAME or file/NAME"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_named_with_or_without_a_namespace() {
        let named = |text, namespace| pod(text, namespace).map(|pod| format!("{}/{}", pod.namespace, pod.name)).ok();
        assert_eq!(named("web", None).as_deref(), Some("default/web"));
        assert_eq!(named("web", Some("shop")).as_deref(), Some("shop/web"));
        assert_eq!(named("a/web", Some("shop")).as_deref(), Some("a/web"));
        for bad in ["", "/", "a/", "/b", "a/b/c"] {
            assert_eq!(named(bad, None), None, "{bad}");
        }
    }

    #[test]
    fn events_are_selected_by_kind_and_name() {
        assert_eq!(event_object("pod/shop/web").unwrap(), "pod shop/web");
        assert_eq!(event_object("pod/web").unwrap(), "pod default/web");
        assert_eq!(event_object("claim/shop/data").unwrap(), "claim shop/data");
        assert_eq!(event_object("pvc/data").unwrap(), "claim default/data");
        assert_eq!(event_object("plugin/a.b/c").unwrap(), "plugin a.b/c");
        for bad in ["web", "pod/", "pod/a/b/c", "node/a", ""] {
            assert!(event_object(bad).is_err(), "{bad}");
        }
    }
}
