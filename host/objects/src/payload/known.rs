//! The known objects, in the form that volumes show.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::certificates::v1beta1::ClusterTrustBundle;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use volhost_model::objects::{Bytes, KeyedObject, ObjectError};

use super::selector::Selector;
use crate::{Kind, Object, ObjectContent, ObjectKey, derived_uid};

/// The objects.
#[derive(Default)]
pub(super) struct PayloadObjects {
    keyed: BTreeMap<ObjectKey, KeyedObject>,
    secret_types: BTreeMap<ObjectKey, String>,
    accounts: BTreeMap<ObjectKey, String>,
    bundles: BTreeMap<String, Bundle>,
    /// `spec` of CSIDriver objects, as JSON.
    drivers: BTreeMap<String, String>,
    /// Changes with `drivers`, and with `complete`.
    pub(super) revision: u64,
    /// Unknown objects do not exist.
    pub(super) complete: bool,
    /// But for objects of an earlier run, which are known by the stems of their files alone.
    pub(super) lost: BTreeSet<String>,
}

struct Bundle {
    signer: String,
    labels: BTreeMap<String, String>,
    certificates: Vec<String>,
}

impl PayloadObjects {
    pub(super) fn keep(&mut self, key: &ObjectKey, object: Option<&Object>) {
        if !self.lost.is_empty() {
            self.lost.remove(&key.file_stem());
        }
        match object.map(|object| &object.content) {
            Some(ObjectContent::ConfigMap(map)) => drop(self.keyed.insert(key.clone(), of_config_map(map))),
            Some(ObjectContent::Secret(secret)) => {
                self.keyed.insert(key.clone(), of_secret(secret));
                self.secret_types.insert(key.clone(), secret.type_.clone().unwrap_or_default());
            }
            Some(ObjectContent::ServiceAccount(_)) => {
                let uid = object.map(|object| object.uid.clone()).unwrap_or_default();
                self.accounts.insert(key.clone(), uid);
            }
            Some(ObjectContent::ClusterTrustBundle(bundle)) => {
                drop(self.bundles.insert(key.name.clone(), of_bundle(bundle)))
            }
            Some(ObjectContent::CsiDriver(driver)) => {
                let spec = serde_json::to_string(&driver.spec).unwrap_or_default();
                self.drivers.insert(key.name.clone(), spec);
                self.revision += 1;
            }
            Some(
                ObjectContent::Pod(_)
                | ObjectContent::PersistentVolume(_)
                | ObjectContent::Claim(_)
                | ObjectContent::VolumeAttachment(_)
                | ObjectContent::StorageClass(_)
                | ObjectContent::VolumeSnapshot(_)
                | ObjectContent::VolumeSnapshotContent(_),
            ) => {}
            None => {
                self.keyed.remove(key);
                self.secret_types.remove(key);
                self.accounts.remove(key);
                if key.kind == Kind::CsiDriver && self.drivers.remove(&key.name).is_some() {
                    self.revision += 1;
                }
                if key.kind == Kind::ClusterTrustBundle {
                    self.bundles.remove(&key.name);
                }
            }
        }
    }

    /// Whether the object was added by request to an earlier run and is not known now.
    pub(super) fn is_lost(&self, key: &ObjectKey) -> bool {
        !self.lost.is_empty() && self.lost.contains(&key.file_stem())
    }

    pub(super) fn keyed(&self, key: &ObjectKey) -> Result<KeyedObject, ObjectError> {
        self.keyed.get(key).cloned().ok_or_else(|| self.missing(key))
    }

    pub(super) fn typed_secret(&self, key: &ObjectKey) -> Result<(String, KeyedObject), ObjectError> {
        Ok((self.secret_types.get(key).cloned().unwrap_or_default(), self.keyed(key)?))
    }

    /// The service account's uid; the one it would have when no manifest names it.
    pub(super) fn account_uid(&self, namespace: &str, name: &str) -> String {
        let key = ObjectKey::new(Kind::ServiceAccount, namespace, name);
        self.accounts.get(&key).cloned().unwrap_or_else(|| derived_uid(&key))
    }

    pub(super) fn trust_bundle(&self, name: &str) -> Result<Bytes, ObjectError> {
        let bundle = self.bundles.get(name);
        bundle
            .map(|bundle| pem([bundle]))
            .ok_or_else(|| self.missing(&ObjectKey::new(Kind::ClusterTrustBundle, "", name)))
    }

    pub(super) fn trust_bundles(&self, signer: &str, label_selector: Option<&str>) -> Result<Bytes, ObjectError> {
        let selector = label_selector.map(Selector::parse).transpose();
        let selector = selector.map_err(|error| ObjectError::Invalid(error.to_string()))?;
        let matching: Vec<&Bundle> = self
            .bundles
            .values()
            .filter(|bundle| bundle.signer == signer && selector.as_ref().is_some_and(|s| s.matches(&bundle.labels)))
            .collect();
        if matching.is_empty() {
            return Err(self.unknown(&format!("ClusterTrustBundle of signer {signer} with these labels")));
        }
        Ok(pem(matching))
    }

    pub(super) fn csi_driver(&self, name: &str) -> Result<Option<String>, ObjectError> {
        let key = ObjectKey::new(Kind::CsiDriver, "", name);
        match self.drivers.get(name) {
            Some(spec) => Ok(Some(spec.clone())),
            None if self.complete && !self.is_lost(&key) => Ok(None),
            None => Err(self.missing(&key)),
        }
    }

    fn missing(&self, key: &ObjectKey) -> ObjectError {
        if !self.is_lost(key) {
            return self.unknown(&key.to_string());
        }
        let why = match key.kind {
            Kind::Secret => "secrets that were added by request are kept in memory only, and volhost was started since",
            _ => "it was added by request, and what was kept of it cannot be read",
        };
        ObjectError::Unknown(format!("{key} is not known: {why}; add it again (volhost apply)"))
    }

    fn unknown(&self, what: &str) -> ObjectError {
        if self.complete {
            ObjectError::NotFound(format!("there is no {what}; add its manifest"))
        } else {
            ObjectError::Unknown(format!(
                "{what} is not known, and not every manifest could be read yet, so it may exist; `volhost events` names the files"
            ))
        }
    }
}

fn of_config_map(map: &ConfigMap) -> KeyedObject {
    let texts = map.data.iter().flatten().map(|(key, text)| (key.clone(), Arc::from(text.as_bytes())));
    let binary = map.binary_data.iter().flatten().map(|(key, bytes)| (key.clone(), Arc::from(bytes.0.as_slice())));
    KeyedObject::new(texts.chain(binary).collect())
}

/// `stringData` counts where both have a key, as the API server merges them.
fn of_secret(secret: &Secret) -> KeyedObject {
    let data = secret.data.iter().flatten().map(|(key, bytes)| (key.clone(), Arc::from(bytes.0.as_slice())));
    let texts = secret.string_data.iter().flatten().map(|(key, text)| (key.clone(), Arc::from(text.as_bytes())));
    KeyedObject::new(data.chain(texts).collect())
}

fn of_bundle(bundle: &ClusterTrustBundle) -> Bundle {
    Bundle {
        signer: bundle.spec.signer_name.clone().unwrap_or_default(),
        labels: bundle.metadata.labels.clone().unwrap_or_default(),
        // It was checked when it was read.
        certificates: crate::trust_bundle::certificates(&bundle.spec.trust_bundle).unwrap_or_default(),
    }
}

/// Returns all certificates, each once. Kubernetes shuffles them so that no program relies on their
/// order. Here the order is stable, so that a refresh without changes writes nothing.
fn pem<'a>(bundles: impl IntoIterator<Item = &'a Bundle>) -> Bytes {
    let all: BTreeSet<&String> = bundles.into_iter().flat_map(|bundle| &bundle.certificates).collect();
    let text: String = all.into_iter().map(String::as_str).collect();
    Arc::from(text.as_bytes())
}
