//! A StorageClass's manifest, checked: how volumes are made for claims.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::storage::v1 as k8s;
use volhost_csi_translation::{Migration, TranslationError, class_to_csi};
use volhost_provisioner::terms::ClassParameters;
use volhost_provisioner::{Reclaim, TermsError};

use super::error::{FieldError, shorten};

/// The annotation of the class for claims that name none.
const DEFAULT_ANNOTATION: &str = "storageclass.kubernetes.io/is-default-class";
/// The provisioner of a class without provisioning.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";
/// The longest name of a driver, in bytes, as CSI has it.
const PROVISIONER_BYTES: usize = 63;
/// The most bytes of all parameters together, as Kubernetes has it.
const PARAMETERS_BYTES: usize = 256 << 10;

/// A StorageClass of a source.
#[derive(Debug, Clone, PartialEq)]
pub struct StorageClassObject {
    /// Its name.
    pub name: String,
    /// The file it was read from, for messages.
    pub file: Arc<str>,
    /// `provisioner`; none for a class without provisioning.
    pub provisioner: Option<String>,
    /// `parameters`, sorted by whom they are for.
    pub parameters: ClassParameters,
    /// `reclaimPolicy`.
    pub reclaim: Reclaim,
    /// `mountOptions`, each by itself, and none that a volume may not ask for.
    pub mount_options: Vec<String>,
    /// `allowVolumeExpansion`.
    pub may_grow: bool,
    /// `volumeBindingMode` is `WaitForFirstConsumer`.
    pub waits_for_pod: bool,
    /// `allowedTopologies`.
    pub places: Vec<BTreeMap<String, Vec<String>>>,
    /// It is for claims that name no class.
    pub is_default: bool,
}

/// Checks a StorageClass. One of a former in-tree plugin becomes one of its CSI driver.
pub(super) fn check(typed: k8s::StorageClass, name: String, file: &Arc<str>) -> Result<StorageClassObject, FieldError> {
    let typed = match Migration::of_plugin(&typed.provisioner) {
        Some(_) => class_to_csi(&typed).map_err(untranslatable)?,
        None => typed,
    };
    let annotations = typed.metadata.annotations.unwrap_or_default();
    let reclaim = match typed.reclaim_policy.as_deref() {
        None | Some("Delete") => Reclaim::Delete,
        Some("Retain") => Reclaim::Retain,
        Some(other) => {
            let message = format!("{:?} is no policy; there are Delete and Retain", shorten(other));
            return Err(FieldError::other("reclaimPolicy", message));
        }
    };
    let waits_for_pod = match typed.volume_binding_mode.as_deref() {
        None | Some("Immediate") => false,
        Some("WaitForFirstConsumer") => true,
        Some(other) => {
            let message = format!("{:?} is no mode; there are Immediate and WaitForFirstConsumer", shorten(other));
            return Err(FieldError::other("volumeBindingMode", message));
        }
    };
    let all = typed.parameters.unwrap_or_default();
    let bytes: usize = all.iter().map(|(key, value)| key.len().saturating_add(value.len())).sum();
    if bytes > PARAMETERS_BYTES {
        return Err(FieldError::other("parameters", format!("has {bytes} bytes, {PARAMETERS_BYTES} at most")));
    }
    let mount_options = volhost_model::mount_options::split(&typed.mount_options.unwrap_or_default())
        .map_err(|(index, why)| FieldError::new(format!("mountOptions[{index}]"), why))?;
    Ok(StorageClassObject {
        name,
        file: Arc::clone(file),
        provisioner: provisioner(typed.provisioner)?,
        parameters: ClassParameters::read(&all).map_err(refused)?,
        reclaim,
        mount_options,
        may_grow: typed.allow_volume_expansion.unwrap_or(false),
        waits_for_pod,
        places: places(typed.allowed_topologies.unwrap_or_default())?,
        is_default: annotations.get(DEFAULT_ANNOTATION).is_some_and(|value| value == "true"),
    })
}

fn provisioner(name: String) -> Result<Option<String>, FieldError> {
    if name == NO_PROVISIONER {
        return Ok(None);
    }
    let known = |c: char| c.is_ascii_alphanumeric() || "-._/".contains(c);
    if name.is_empty() || name.len() > PROVISIONER_BYTES || !name.chars().all(known) {
        let message = format!(
            "{:?} must be a CSI driver's name: 1 to {PROVISIONER_BYTES} letters, digits, `-`, `_` and `.`",
            shorten(&name)
        );
        return Err(FieldError::other("provisioner", message));
    }
    Ok(Some(name))
}

/// The path is the message's beginning, here too.
fn untranslatable(error: TranslationError) -> FieldError {
    let text = error.to_string();
    match text.split_once(": ") {
        Some((path, message)) => FieldError::other(path, message),
        None => FieldError::other("provisioner", text),
    }
}

/// The path is the message's beginning, as with every other field.
fn refused(error: TermsError) -> FieldError {
    let text = error.to_string();
    match text.split_once(": ") {
        Some((path, message)) => FieldError::other(path, message),
        None => FieldError::other("parameters", text),
    }
}

fn places(terms: Vec<core::TopologySelectorTerm>) -> Result<Vec<BTreeMap<String, Vec<String>>>, FieldError> {
    let mut places = Vec::with_capacity(terms.len());
    for (index, term) in terms.into_iter().enumerate() {
        let mut place = BTreeMap::new();
        for (inner, label) in term.match_label_expressions.unwrap_or_default().into_iter().enumerate() {
            let path = format!("allowedTopologies[{index}].matchLabelExpressions[{inner}]");
            if label.key.is_empty() || label.values.is_empty() {
                return Err(FieldError::other(path, "must have a key, and a value at least"));
            }
            if place.insert(label.key.clone(), label.values).is_some() {
                return Err(FieldError::other(format!("{path}.key"), format!("{:?} is there twice", label.key)));
            }
        }
        places.push(place);
    }
    Ok(places)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{objects, refusal};
    use super::*;
    use crate::ObjectContent;

    fn class(text: &str) -> Arc<StorageClassObject> {
        let head = "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: { name: fast }\n";
        let all = objects(&format!("{head}{text}"));
        match &all[0].content {
            ObjectContent::StorageClass(class) => class.clone(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_class_without_more_is_as_in_kubernetes() {
        let class = class("provisioner: csi.example.com\n");
        assert_eq!(class.provisioner.as_deref(), Some("csi.example.com"));
        assert!(!class.waits_for_pod && !class.may_grow && !class.is_default);
        assert_eq!(class.reclaim, Reclaim::Delete);
    }

    #[test]
    fn each_wrong_field_is_named() {
        for (text, words) in [
            ("provisioner: ''", "provisioner"),
            ("provisioner: 'a b'", "provisioner"),
            ("provisioner: a\nreclaimPolicy: Recycle", "reclaimPolicy"),
            ("provisioner: a\nvolumeBindingMode: Later", "volumeBindingMode"),
            ("provisioner: a\nparameters: { csi.storage.k8s.io/size: x }", "parameters.csi.storage.k8s.io/size"),
            (
                "provisioner: a\nparameters: { csi.storage.k8s.io/provisioner-secret-name: x }",
                "parameters.csi.storage.k8s.io/provisioner-secret-namespace: is missing",
            ),
            (
                "provisioner: a\nallowedTopologies: [{ matchLabelExpressions: [{ key: zone, values: [] }] }]",
                "allowedTopologies[0].matchLabelExpressions[0]",
            ),
        ] {
            let head = "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: { name: fast }\n";
            let refused = refusal(&format!("{head}{text}\n"));
            assert!(refused.contains(words) && refused.contains("test.yaml:"), "{refused}");
        }
    }
}
