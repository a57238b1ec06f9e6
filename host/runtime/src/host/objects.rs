//! `config-maps`, `secrets`, `service-account-tokens` and `cluster-trust-bundles`: objects that the
//! volume names, as contents that the plugin cannot see.

use std::sync::Arc;

use volhost_model::VolumeSpec;
use wasmtime::component::Resource;

use super::State;
use crate::bindings::HostError;
use crate::bindings::volhost::plugin::{
    cluster_trust_bundles, config_maps, csi_driver_objects, secrets, service_account_tokens, types,
};
use crate::handles::{ConfigMap, Content, PodHandle, Secret, VolumeHandle};
use crate::text::tame;
use crate::token_expiry::expiry;
use volhost_model::objects::{Bytes, KeyedObject, ObjectError, TokenRequest};

/// How much of a name a message shows, in bytes.
const SHOWN_BYTES: usize = 256;

impl From<ObjectError> for HostError {
    fn from(error: ObjectError) -> Self {
        Self::Plugin(match error {
            ObjectError::NotFound(text) => types::Error::NotFound(text),
            ObjectError::Unknown(text) => types::Error::Retryable(text),
            ObjectError::Unusable(text) => types::Error::Precondition(text),
            ObjectError::Invalid(text) => types::Error::InvalidArgument(text),
        })
    }
}

/// A plugin may open only what its volume names: the author of the pod decides what it shows.
fn check_named(spec: &VolumeSpec, kind: &str, name: &str) -> Result<(), HostError> {
    if spec.names(name) {
        return Ok(());
    }
    let text =
        format!("{kind} {}: the volume does not name it, so its plugin may not open it", tame(name, SHOWN_BYTES));
    Err(HostError::Plugin(types::Error::PermissionDenied(text)))
}

impl State {
    /// The volume and the pod's namespace, for an object that the volume names.
    fn object(
        &mut self,
        volume: &Resource<VolumeHandle>,
        pod: &Resource<PodHandle>,
        kind: &str,
        name: &str,
    ) -> Result<String, HostError> {
        self.count()?;
        check_named(&self.table.get(volume)?.0, kind, name)?;
        Ok(self.table.get(pod)?.0.namespace.clone())
    }

    fn keys(&mut self, object: KeyedObject) -> wasmtime::Result<Vec<String>> {
        self.count()?;
        Ok(object.keys().cloned().collect())
    }

    fn content(&mut self, identity: String, bytes: Option<Bytes>) -> wasmtime::Result<Option<Resource<Content>>> {
        self.count()?;
        Ok(bytes.map(|bytes| self.push(Content::of_object(identity, bytes))).transpose()?)
    }
}

impl config_maps::Host for State {
    fn open(
        &mut self,
        volume: Resource<VolumeHandle>,
        pod: Resource<PodHandle>,
        name: String,
    ) -> Result<Resource<ConfigMap>, HostError> {
        let namespace = self.object(&volume, &pod, "config map", &name)?;
        let object = self.call.environment().objects().config_map(&namespace, &name)?;
        Ok(self.push(ConfigMap { name: format!("{namespace}/{name}"), object })?)
    }
}

impl config_maps::HostConfigMap for State {
    fn keys(&mut self, map: Resource<ConfigMap>) -> wasmtime::Result<Vec<String>> {
        let object = self.table.get(&map)?.object.clone();
        State::keys(self, object)
    }

    fn content(&mut self, map: Resource<ConfigMap>, key: String) -> wasmtime::Result<Option<Resource<Content>>> {
        let map = self.table.get(&map)?;
        let (identity, bytes) = (format!("config map {} {key}", map.name), map.object.get(&key).cloned());
        State::content(self, identity, bytes)
    }

    fn drop(&mut self, map: Resource<ConfigMap>) -> wasmtime::Result<()> {
        self.table.delete(map)?;
        Ok(())
    }
}

impl secrets::Host for State {
    fn open(
        &mut self,
        volume: Resource<VolumeHandle>,
        pod: Resource<PodHandle>,
        name: String,
    ) -> Result<Resource<Secret>, HostError> {
        let namespace = self.object(&volume, &pod, "secret", &name)?;
        let object = self.call.environment().objects().secret(&namespace, &name)?;
        Ok(self.push(Secret { name: format!("{namespace}/{name}"), object })?)
    }

    fn referenced(&mut self, volume: Resource<VolumeHandle>, field: String) -> Result<Resource<Secret>, HostError> {
        self.count()?;
        let spec = Arc::clone(&self.table.get(&volume)?.0);
        let shown = tame(&field, SHOWN_BYTES);
        if spec.persistent_volume.is_none() {
            let text = format!("{shown}: a volume of a pod names secrets of its own namespace, and no other's");
            return Err(HostError::Plugin(types::Error::PermissionDenied(text)));
        }
        let part = |name: &str| spec.parameter(&format!("{field}.{name}")).filter(|text| !text.is_empty());
        let (Some(namespace), Some(name)) = (part("namespace"), part("name")) else {
            let text = format!("{shown}: it must name a secret by `name` and `namespace`");
            return Err(HostError::Plugin(types::Error::InvalidArgument(text)));
        };
        let object = self.call.environment().objects().secret(&namespace, &name)?;
        Ok(self.push(Secret { name: format!("{namespace}/{name}"), object })?)
    }

    fn of_mount(&mut self, volume: Resource<VolumeHandle>, field: String) -> Result<Resource<Secret>, HostError> {
        self.count()?;
        let spec = Arc::clone(&self.table.get(&volume)?.0);
        let shown = tame(&field, SHOWN_BYTES);
        let part = |name: &str| spec.parameter(&format!("{field}.{name}")).filter(|text| !text.is_empty());
        let Some(name) = part("name") else {
            let text = format!("{shown}: it must name a secret by `name`");
            return Err(HostError::Plugin(types::Error::InvalidArgument(text)));
        };
        // Only who makes PersistentVolumes may name another namespace than the pod's.
        let namespace = match (part("namespace"), &spec.persistent_volume) {
            (Some(_), None) => {
                let text = format!("{shown}.namespace: a volume of a pod names secrets of its own namespace");
                return Err(HostError::Plugin(types::Error::PermissionDenied(text)));
            }
            (Some(namespace), Some(_)) => namespace,
            (None, _) => self.call.mount_namespace().map(str::to_owned).ok_or_else(|| {
                let text = format!("{shown}: the volume is not being mounted for a pod, whose namespace would count");
                HostError::Plugin(types::Error::Precondition(text))
            })?,
        };
        let object = self.call.environment().objects().secret(&namespace, &name)?;
        Ok(self.push(Secret { name: format!("{namespace}/{name}"), object })?)
    }
}

impl secrets::HostSecret for State {
    fn keys(&mut self, secret: Resource<Secret>) -> wasmtime::Result<Vec<String>> {
        let object = self.table.get(&secret)?.object.clone();
        State::keys(self, object)
    }

    fn content(&mut self, secret: Resource<Secret>, key: String) -> wasmtime::Result<Option<Resource<Content>>> {
        let secret = self.table.get(&secret)?;
        let (name, bytes) = (secret.name.clone(), secret.object.get(&key).cloned());
        let identity = format!("secret {name} {key}");
        if let Some(bytes) = &bytes {
            *self.secrets_used.entry(name).or_default() += 1;
            self.secrets.use_value(bytes);
        }
        State::content(self, identity, bytes)
    }

    fn drop(&mut self, secret: Resource<Secret>) -> wasmtime::Result<()> {
        self.table.delete(secret)?;
        Ok(())
    }
}

impl service_account_tokens::Host for State {
    fn request(
        &mut self,
        pod: Resource<PodHandle>,
        audience: Option<String>,
        expiration_seconds: u64,
    ) -> Result<Resource<Content>, HostError> {
        self.step("service-account-tokens.request", |state| {
            let pod = Arc::clone(&state.table.get(&pod)?.0);
            let identity = format!("token {expiration_seconds} {audience:?}");
            let token =
                state.call.environment().objects().token(&pod, &TokenRequest { audience, expiration_seconds })?;
            state.secrets.use_value(&token);
            Ok(state.push(Content::of_token(identity, token))?)
        })
    }

    fn expires(&mut self, token: Resource<Content>) -> wasmtime::Result<Option<String>> {
        self.count()?;
        Ok(expiry(&self.table.get(&token)?.bytes))
    }
}

impl csi_driver_objects::Host for State {
    fn spec(&mut self, name: String) -> Result<Option<String>, HostError> {
        self.count()?;
        Ok(self.call.environment().objects().csi_driver(&name)?)
    }
}

impl cluster_trust_bundles::Host for State {
    fn named(&mut self, volume: Resource<VolumeHandle>, name: String) -> Result<Resource<Content>, HostError> {
        self.count()?;
        check_named(&self.table.get(&volume)?.0, "ClusterTrustBundle", &name)?;
        let bundle = self.call.environment().objects().trust_bundle(&name)?;
        Ok(self.push(Content::of_object(format!("bundle {name}"), bundle))?)
    }

    fn signed_by(
        &mut self,
        volume: Resource<VolumeHandle>,
        signer: String,
        label_selector: Option<String>,
    ) -> Result<Resource<Content>, HostError> {
        self.count()?;
        check_named(&self.table.get(&volume)?.0, "signer", &signer)?;
        let bundle = self.call.environment().objects().trust_bundles(&signer, label_selector.as_deref())?;
        Ok(self.push(Content::of_object(format!("bundles {signer} {label_selector:?}"), bundle))?)
    }
}
