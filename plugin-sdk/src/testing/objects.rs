//! Objects of the double.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::files::Content;
use super::pod::Pod;
use super::volume::Volume;
use super::world::{World, current};
use crate::error::{Error, Result};

/// A config map or secret.
pub(crate) type Data = Rc<BTreeMap<String, Vec<u8>>>;

/// All objects. Config maps and secrets by namespace and name.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    pub(crate) config_maps: BTreeMap<(String, String), Data>,
    pub(crate) secrets: BTreeMap<(String, String), Data>,
    pub(crate) issues_tokens: bool,
    pub(crate) trust_bundles: BTreeMap<String, TrustBundle>,
    /// `spec` of CSIDriver objects, as JSON.
    pub(crate) csi_drivers: BTreeMap<String, String>,
}

#[derive(Debug)]
pub(crate) struct TrustBundle {
    pub(crate) signer: Option<String>,
    pub(crate) pem: String,
}

fn named(volume: &Volume, kind: &str, name: &str) -> Result<()> {
    if volume.names(name) {
        return Ok(());
    }
    Err(Error::permission_denied(format!("{kind} {name}: the volume does not name it, so its plugin may not open it")))
}

macro_rules! keyed {
    ($module:ident, $field:ident, $type:ident, $call:literal, $kind:literal) => {
        pub(crate) mod $module {
            use super::*;

            #[derive(Debug)]
            pub(crate) struct $type(pub(in crate::testing) Data);

            pub(crate) fn open(volume: &Volume, pod: &Pod, name: &str) -> Result<$type> {
                let world = current();
                world.borrow_mut().called($call)?;
                named(volume, $kind, name)?;
                let world: &World = &world.borrow();
                let found = world.objects.$field.get(&(pod.namespace(), name.to_owned()));
                found
                    .cloned()
                    .map($type)
                    .ok_or_else(|| Error::not_found(format!("there is no {} {}/{name}", $kind, pod.namespace())))
            }

            impl $type {
                pub(crate) fn keys(&self) -> Vec<String> {
                    self.0.keys().cloned().collect()
                }

                pub(crate) fn content(&self, key: &str) -> Option<Content> {
                    self.0.get(key).map(|bytes| Content(bytes.as_slice().into()))
                }
            }
        }
    };
}

keyed!(config_maps, config_maps, ConfigMap, "config-maps.open", "config map");
keyed!(secrets_by_name, secrets, Secret, "secrets.open", "secret");

pub(crate) mod secrets {
    pub(crate) use super::secrets_by_name::{Secret, open};
    use super::*;

    pub(crate) fn referenced(volume: &Volume, field: &str) -> Result<Secret> {
        let world = current();
        world.borrow_mut().called("secrets.referenced")?;
        if volume.persistent_volume().is_none() {
            return Err(Error::permission_denied(format!(
                "{field}: a pod's own volume names secrets of its namespace"
            )));
        }
        let part = |name: &str| volume.parameter(&format!("{field}.{name}")).filter(|text| !text.is_empty());
        let (Some(namespace), Some(name)) = (part("namespace"), part("name")) else {
            return Err(Error::invalid_argument(format!("{field}: it must name a secret by `name` and `namespace`")));
        };
        let found = world.borrow().objects.secrets.get(&(namespace.clone(), name.clone())).cloned();
        found.map(Secret).ok_or_else(|| Error::not_found(format!("there is no secret {namespace}/{name}")))
    }

    /// The namespace of the double's pods.
    const POD_NAMESPACE: &str = "default";

    pub(crate) fn of_mount(volume: &Volume, field: &str) -> Result<Secret> {
        let world = current();
        world.borrow_mut().called("secrets.of-mount")?;
        let part = |name: &str| volume.parameter(&format!("{field}.{name}")).filter(|text| !text.is_empty());
        let name = part("name");
        let name = name.ok_or_else(|| Error::invalid_argument(format!("{field}: it must name a secret by `name`")))?;
        let namespace = part("namespace");
        if namespace.is_some() && volume.persistent_volume().is_none() {
            let text = format!("{field}.namespace: a volume of a pod names secrets of its own namespace");
            return Err(Error::permission_denied(text));
        }
        let namespace = namespace.unwrap_or_else(|| POD_NAMESPACE.to_owned());
        let found = world.borrow().objects.secrets.get(&(namespace.clone(), name.clone())).cloned();
        found.map(Secret).ok_or_else(|| Error::not_found(format!("there is no secret {namespace}/{name}")))
    }
}

pub(crate) mod csi_driver_objects {
    use super::*;

    pub(crate) fn spec(name: &str) -> Result<Option<String>> {
        let world = current();
        world.borrow_mut().called("csi-driver-objects.spec")?;
        Ok(world.borrow().objects.csi_drivers.get(name).cloned())
    }
}

pub(crate) mod service_account_tokens {
    use super::*;

    pub(crate) fn request(pod: &Pod, audience: Option<&str>, expiration_seconds: u64) -> Result<Content> {
        let world = current();
        world.borrow_mut().called("service-account-tokens.request")?;
        if !world.borrow().objects.issues_tokens {
            return Err(Error::precondition("this node has no issuer of tokens"));
        }
        let text = format!(
            "token of {}/{} for {} during {expiration_seconds} s",
            pod.namespace(),
            pod.service_account(),
            audience.unwrap_or("the issuer")
        );
        Ok(Content(text.as_bytes().into()))
    }

    /// The time at which every token of the double expires.
    pub(crate) fn expires(_token: &Content) -> Option<String> {
        Some("2030-01-02T03:04:05Z".to_owned())
    }
}

pub(crate) mod cluster_trust_bundles {
    use super::*;

    pub(crate) fn named(volume: &Volume, name: &str) -> Result<Content> {
        let world = current();
        world.borrow_mut().called("cluster-trust-bundles.named")?;
        super::named(volume, "ClusterTrustBundle", name)?;
        let world: &World = &world.borrow();
        let found = world.objects.trust_bundles.get(name);
        found
            .map(|bundle| Content(bundle.pem.as_bytes().into()))
            .ok_or_else(|| Error::not_found(format!("there is no ClusterTrustBundle {name}")))
    }

    /// The double does not read selectors: one matches everything, none matches nothing.
    pub(crate) fn signed_by(volume: &Volume, signer: &str, label_selector: Option<&str>) -> Result<Content> {
        let world = current();
        world.borrow_mut().called("cluster-trust-bundles.signed-by")?;
        super::named(volume, "signer", signer)?;
        let world: &World = &world.borrow();
        let bundles = world.objects.trust_bundles.values();
        let of_signer = bundles.filter(|bundle| bundle.signer.as_deref() == Some(signer) && label_selector.is_some());
        let pem: String = of_signer.map(|bundle| bundle.pem.as_str()).collect();
        if pem.is_empty() {
            return Err(Error::not_found(format!("no ClusterTrustBundle of signer {signer} matches")));
        }
        Ok(Content(pem.as_bytes().into()))
    }
}
