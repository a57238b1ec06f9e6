//! The objects that a case file gives to the plugin.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use volhost_model::Pod;
use volhost_model::objects::{Bytes, KeyedObject, ObjectError, Objects, TokenRequest};

use crate::case_file::ObjectsSection;

/// The objects of a case file; they can be made to vanish.
#[derive(Debug, Default)]
pub(crate) struct CaseObjects {
    said: ObjectsSection,
    gone: AtomicBool,
}

impl CaseObjects {
    pub(crate) fn new(said: ObjectsSection) -> Self {
        Self { said, gone: AtomicBool::new(false) }
    }

    /// From now on none of them exists, or all do again.
    pub(crate) fn set_gone(&self, gone: bool) {
        self.gone.store(gone, Ordering::Relaxed);
    }

    fn find<'a, T>(&self, what: &str, name: &str, among: &'a BTreeMap<String, T>) -> Result<&'a T, ObjectError> {
        let found = if self.gone.load(Ordering::Relaxed) { None } else { among.get(name) };
        found.ok_or_else(|| ObjectError::NotFound(format!("there is no {what} {name}")))
    }

    fn keyed(
        &self,
        what: &str,
        namespace: &str,
        name: &str,
        among: &BTreeMap<String, BTreeMap<String, String>>,
    ) -> Result<KeyedObject, ObjectError> {
        let data = self.find(what, &format!("{namespace}/{name}"), among)?;
        let entries = data.iter().map(|(key, text)| (key.clone(), Bytes::from(text.as_bytes())));
        Ok(KeyedObject::new(entries.collect()))
    }
}

impl Objects for CaseObjects {
    fn config_map(&self, namespace: &str, name: &str) -> Result<KeyedObject, ObjectError> {
        self.keyed("config map", namespace, name, &self.said.config_maps)
    }

    fn secret(&self, namespace: &str, name: &str) -> Result<KeyedObject, ObjectError> {
        self.keyed("secret", namespace, name, &self.said.secrets)
    }

    fn token(&self, pod: &Pod, request: &TokenRequest) -> Result<Bytes, ObjectError> {
        if !self.said.tokens {
            return Err(ObjectError::Unusable("the case file issues no tokens".into()));
        }
        let audience = request.audience.as_deref().unwrap_or("none");
        Ok(Bytes::from(format!("token of {} for {audience}", pod.uid.as_str()).as_bytes()))
    }

    fn trust_bundle(&self, name: &str) -> Result<Bytes, ObjectError> {
        self.find("trust bundle", name, &self.said.trust_bundles).map(|text| Bytes::from(text.as_bytes()))
    }

    fn trust_bundles(&self, signer: &str, _: Option<&str>) -> Result<Bytes, ObjectError> {
        self.find("trust bundle of the signer", signer, &self.said.trust_bundles)
            .map(|text| Bytes::from(text.as_bytes()))
    }

    fn csi_driver(&self, name: &str) -> Result<Option<String>, ObjectError> {
        Ok(self.said.csi_drivers.get(name).map(ToString::to_string))
    }
}
