//! The class of a snapshot: which one, and its parameters.

use std::collections::HashMap;
use std::sync::Arc;

use super::failure::{ClassError, SnapshotError};
use super::names::IS_DEFAULT;
use crate::snapshots::SnapshotCaches;
use crate::snapshots::VolumeSnapshotClass;

/// Parameters with this prefix are for controllers, not for the driver.
const PREFIX: &str = "csi.storage.k8s.io/";
/// The parameters with the prefix that there are.
const KNOWN: [&str; 8] = [
    "snapshotter-secret-name",
    "snapshotter-secret-namespace",
    "snapshotter-list-secret-name",
    "snapshotter-list-secret-namespace",
    "group-snapshotter-secret-name",
    "group-snapshotter-secret-namespace",
    "group-snapshotter-get-secret-name",
    "group-snapshotter-get-secret-namespace",
];

/// The class of this name, or the driver's default class.
///
/// # Errors
/// There is none, or there are several default ones.
pub(super) fn of(
    known: &SnapshotCaches,
    named: Option<&str>,
    driver: &str,
) -> Result<Arc<VolumeSnapshotClass>, SnapshotError> {
    if let Some(name) = named {
        return known.class(name).ok_or_else(|| SnapshotError::NoClass(name.to_owned()));
    }
    let mut defaults = known.classes();
    defaults.retain(|class| class.driver() == driver && is_default(class));
    match defaults.pop() {
        Some(only) if defaults.is_empty() => Ok(only),
        Some(_) => Err(SnapshotError::NoDefaultClass { found: defaults.len().saturating_add(1) }),
        None => Err(SnapshotError::NoDefaultClass { found: 0 }),
    }
}

fn is_default(class: &VolumeSnapshotClass) -> bool {
    class.metadata.annotations.as_ref().and_then(|all| all.get(IS_DEFAULT)).is_some_and(|value| value == "true")
}

/// The class's parameters for the driver.
///
/// # Errors
/// One with the prefix that is not known.
pub(super) fn parameters(class: &VolumeSnapshotClass) -> Result<HashMap<String, String>, ClassError> {
    let mut passed = HashMap::new();
    for (key, value) in class.parameters()? {
        match key.strip_prefix(PREFIX) {
            Some(known) if KNOWN.contains(&known) => {}
            Some(_) => return Err(ClassError::Parameter(key.clone())),
            None => drop(passed.insert(key.clone(), value.clone())),
        }
    }
    Ok(passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(parameters: &str) -> VolumeSnapshotClass {
        serde_json::from_str(&format!(r#"{{"metadata": {{"name": "a"}}, "parameters": {parameters}}}"#)).unwrap()
    }

    #[test]
    fn the_driver_is_passed_what_is_not_reserved() {
        let mixed = class(r#"{"colour": "red", "csi.storage.k8s.io/snapshotter-secret-name": "keys"}"#);
        assert_eq!(parameters(&mixed).unwrap(), HashMap::from([("colour".to_owned(), "red".to_owned())]));
        assert_eq!(parameters(&class("null")).unwrap(), HashMap::new());
        let unknown = parameters(&class(r#"{"csi.storage.k8s.io/color": "red"}"#)).unwrap_err();
        assert!(unknown.to_string().contains("csi.storage.k8s.io/color"), "{unknown}");
        assert!(parameters(&class(r#"{"a": 1}"#)).is_err());
    }
}
