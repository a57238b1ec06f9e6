//! `oci-images`: images of registries and layouts within the operator's grant. The store does the
//! work; the pod's pull secrets go from its objects to the store, and never to the plugin.

use std::sync::Arc;

use volhost_model::Pod;
use volhost_model::images::{ImageError, ImagePull, PullSecret, PullWatch};
use volhost_model::objects::ObjectError;
use volhost_model::oci::ImageLocation;
use wasmtime::component::Resource;

use super::State;
use super::mounts::dropped;
use crate::abort::Abort;
use crate::bindings::HostError;
use crate::bindings::volhost::plugin::oci_images::{Host, HostImage};
use crate::bindings::volhost::plugin::types;
use crate::call::Call;
use crate::handles::{DetachedMount, ImageHandle, PodHandle};
use crate::sink::LogLevel;
use crate::text::tame;

/// How much of a reference a message shows, in bytes.
const SHOWN_BYTES: usize = 512;
/// The most that an image has on disk unless the grant says otherwise, in bytes.
const MOST_BYTES: u64 = 32 << 30;
/// The keys of Secrets that have logins, by the types `kubernetes.io/dockerconfigjson` and
/// `kubernetes.io/dockercfg`.
const CONFIG_KEY: &str = ".dockerconfigjson";
const LEGACY_KEY: &str = ".dockercfg";

impl From<ImageError> for HostError {
    fn from(error: ImageError) -> Self {
        Self::Plugin(match error {
            ImageError::NotFound(text) => types::Error::NotFound(text),
            ImageError::Refused(text) => types::Error::PermissionDenied(text),
            ImageError::NotReady(text) => types::Error::Precondition(text),
            ImageError::Unsupported(text) => types::Error::Unsupported(text),
            ImageError::Corrupt(text) => types::Error::Corrupt(text),
            ImageError::DiskFull(text) | ImageError::Retryable(text) => types::Error::Retryable(text),
            ImageError::Cancelled => return Abort::Cancelled.into(),
        })
    }
}

/// Shows a pull as the call's step, and ends it with the call.
struct Watch<'a>(&'a Call);

impl PullWatch for Watch<'_> {
    fn progress(&self, step: String) {
        self.0.progress().enter(step);
    }

    fn is_cancelled(&self) -> bool {
        self.0.cancellation().is_cancelled()
    }
}

impl State {
    /// Reads a reference, which must be granted.
    fn image_location(&self, reference: &str) -> Result<ImageLocation, HostError> {
        let location: ImageLocation =
            reference.parse().map_err(|error| HostError::Plugin(types::Error::InvalidArgument(format!("{error}"))))?;
        let (granted, place, key) = match &location {
            ImageLocation::Registry(reference) => {
                let host = reference.host();
                (self.reach.takes_images_from(host), format!("the registry {host}"), "image-registries")
            }
            ImageLocation::Layout { folder, .. } => (
                self.reach.image_layouts.iter().any(|root| folder.starts_with(root)),
                format!("the image layout {}", tame(&folder.to_string_lossy(), SHOWN_BYTES)),
                "image-layouts",
            ),
        };
        if granted {
            return Ok(location);
        }
        let text = format!("{place} is not granted to this plugin; see `{key}` under [grants] in the configuration");
        Err(HostError::Plugin(types::Error::PermissionDenied(text)))
    }

    /// The pod's logins. A secret that does not exist may not be needed: as with the kubelet, the
    /// pull goes on without it.
    fn pull_secrets(&mut self, pod: &Pod) -> Result<Vec<PullSecret>, HostError> {
        let mut found = Vec::new();
        for name in &pod.image_pull_secrets {
            let full = format!("{}/{}", pod.namespace, tame(name, SHOWN_BYTES));
            let object = match self.call.environment().objects().secret(&pod.namespace, name) {
                Ok(object) => object,
                Err(ObjectError::NotFound(why)) => {
                    let line = format!("imagePullSecrets: {full} is not used: {why}");
                    self.call.sink().log(LogLevel::Warn, &tame(&line, SHOWN_BYTES));
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let config = object.get(CONFIG_KEY).map(|bytes| (bytes, PullSecret::Config(Arc::clone(bytes))));
            let legacy = || object.get(LEGACY_KEY).map(|bytes| (bytes, PullSecret::Legacy(Arc::clone(bytes))));
            let Some((bytes, secret)) = config.or_else(legacy) else {
                let line = format!("imagePullSecrets: {full} is not used: it has no {CONFIG_KEY}");
                self.call.sink().log(LogLevel::Warn, &line);
                continue;
            };
            self.secrets.use_value(bytes);
            *self.secrets_used.entry(full).or_default() += 1;
            found.push(secret);
        }
        Ok(found)
    }
}

impl Host for State {
    fn find(
        &mut self,
        reference: String,
        pod: Resource<PodHandle>,
    ) -> Result<Option<Resource<ImageHandle>>, HostError> {
        let location = self.image_location(&reference)?;
        self.step(format!("oci-images.find {}", tame(&reference, SHOWN_BYTES)), |state| {
            let pod = Arc::clone(&state.table.get(&pod)?.0);
            let found = state.call.environment().images().find(&location, &pod.namespace)?;
            Ok(found.map(|image| state.push(ImageHandle(image))).transpose()?)
        })
    }

    fn pull(&mut self, reference: String, pod: Resource<PodHandle>) -> Result<Resource<ImageHandle>, HostError> {
        let location = self.image_location(&reference)?;
        self.step(format!("oci-images.pull {}", tame(&reference, SHOWN_BYTES)), |state| {
            let pod = Arc::clone(&state.table.get(&pod)?.0);
            let secrets = state.pull_secrets(&pod)?;
            let pull = ImagePull {
                location: &location,
                namespace: &pod.namespace,
                secrets: &secrets,
                layouts: &state.reach.image_layouts,
                most_bytes: state.reach.image_size.unwrap_or(MOST_BYTES),
            };
            let image = state.call.environment().images().pull(pull, &Watch(&state.call))?;
            Ok(state.push(ImageHandle(image))?)
        })
    }

    fn is_latest(&mut self, reference: String) -> Result<bool, HostError> {
        self.count()?;
        Ok(self.image_location(&reference)?.is_latest())
    }
}

impl HostImage for State {
    fn digest(&mut self, image: Resource<ImageHandle>) -> wasmtime::Result<String> {
        self.count()?;
        Ok(self.table.get(&image)?.0.digest.to_string())
    }

    fn size(&mut self, image: Resource<ImageHandle>) -> wasmtime::Result<u64> {
        self.count()?;
        Ok(self.table.get(&image)?.0.bytes)
    }

    fn mount(&mut self, image: Resource<ImageHandle>) -> Result<Resource<DetachedMount>, HostError> {
        self.step("image.mount", |state| {
            let image = state.table.get(&image)?.0.clone();
            let folders =
                image.layers.iter().map(|layer| state.kernel.open_host_path(layer, std::slice::from_ref(layer)));
            let folders = folders.collect::<Result<Vec<_>, _>>()?;
            let mount = state.kernel.layers(&folders.iter().collect::<Vec<_>>(), &image.mount_source)?;
            // Until the mount is seen at its place, only this keeps the image.
            state.images_kept.push(image.lease);
            Ok(state.push(DetachedMount(mount))?)
        })
    }

    fn drop(&mut self, image: Resource<ImageHandle>) -> wasmtime::Result<()> {
        dropped(self, image)
    }
}
