//! The secrets of a request: handed to the plugin with the calls that the request leads to, and
//! kept nowhere (rule R10).

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::json;
use volhost_model::objects::{Bytes, KeyedObject, NoObjects, ObjectError, Objects, TokenRequest};
use volhost_model::{Pod, VolumeSpec};
use volhost_runtime::Plugin;

use crate::check;
use crate::refusal::Result;

/// The import that reads secrets which a volume refers to.
const IMPORT: &str = "secrets";
/// What a volume's field calls the request's secrets. No object of a cluster has such names.
const NAMESPACE: &str = "(csi)";
const NAME: &str = "(request)";

/// The secrets of one request. Its debug text shows their keys alone.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestSecrets(KeyedObject);

impl RequestSecrets {
    /// Reads the field `secrets` of a request.
    ///
    /// # Errors
    /// [`crate::refusal::Refusal::Field`], which shows no value.
    pub(crate) fn read(secrets: &HashMap<String, String>) -> Result<Self> {
        check::map("secrets", secrets)?;
        let entries = secrets.iter().map(|(key, value)| (key.clone(), Bytes::from(value.as_bytes())));
        Ok(Self(KeyedObject::new(entries.collect())))
    }

    /// What `provisioning.call-secret` finds.
    pub(crate) fn of_call(&self) -> KeyedObject {
        self.0.clone()
    }

    /// The volume with a reference to them in this field of a `csi` source (`nodeStageSecretRef`),
    /// as a PersistentVolume has it, for a plugin that reads such references; any other plugin
    /// knows no such field.
    pub(crate) fn referred(&self, plugin: &Plugin, spec: &VolumeSpec, field: &str) -> Arc<VolumeSpec> {
        let mut spec = spec.clone();
        let reads = plugin.info().imports.iter().any(|import| import == IMPORT);
        if spec.source == "csi" && reads && self.0.keys().next().is_some() {
            spec.fields.insert(field.to_owned(), json!({ "name": NAME, "namespace": NAMESPACE }));
        }
        Arc::new(spec)
    }
}

impl Objects for RequestSecrets {
    fn config_map(&self, namespace: &str, name: &str) -> std::result::Result<KeyedObject, ObjectError> {
        NoObjects.config_map(namespace, name)
    }

    fn secret(&self, namespace: &str, name: &str) -> std::result::Result<KeyedObject, ObjectError> {
        if (namespace, name) == (NAMESPACE, NAME) { Ok(self.of_call()) } else { NoObjects.secret(namespace, name) }
    }

    fn token(&self, pod: &Pod, request: &TokenRequest) -> std::result::Result<Bytes, ObjectError> {
        NoObjects.token(pod, request)
    }

    fn trust_bundle(&self, name: &str) -> std::result::Result<Bytes, ObjectError> {
        NoObjects.trust_bundle(name)
    }

    fn trust_bundles(&self, signer: &str, label_selector: Option<&str>) -> std::result::Result<Bytes, ObjectError> {
        NoObjects.trust_bundles(signer, label_selector)
    }

    fn csi_driver(&self, name: &str) -> std::result::Result<Option<String>, ObjectError> {
        NoObjects.csi_driver(name)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    fn secrets(entries: &[(&str, &str)]) -> HashMap<String, String> {
        entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_secret_is_found_by_its_reference_and_shown_nowhere() {
        let handed = RequestSecrets::read(&secrets(&[("password", "hunter2")])).unwrap();
        let found = handed.secret(NAMESPACE, NAME).unwrap();
        assert_eq!(found.get("password").unwrap().as_ref(), b"hunter2");
        assert!(handed.secret("default", NAME).is_err());
        assert_eq!(format!("{handed:?}"), r#"RequestSecrets({"password"})"#);
        let refused = RequestSecrets::read(&secrets(&[("key", "hunter2\0")])).unwrap_err().to_string();
        assert!(refused.starts_with("secrets: ") && !refused.contains("hunter2"), "{refused}");
    }
}
