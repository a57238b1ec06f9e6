//! Objects that a volume's source names: config maps, secrets, tokens, certificates. Each kind
//! needs a grant of its own.
//!
//! A plugin can open only an object of the pod's namespace whose name is in the volume's source,
//! and it sees the keys, never their values: see [`Content`].
//!
//! [`NotFound`](crate::Error::NotFound) means that the object is known not to exist, so that an
//! optional one is left out. While the host does not know, the answer is
//! [`Retryable`](crate::Error::Retryable): return it, and the mounted content stays as it is.
//!
//! ```
//! use volhost_plugin_sdk::prelude::*;
//! use volhost_plugin_sdk::FileSet;
//! use volhost_plugin_sdk::objects::{self, ConfigMap, Keyed, Secret};
//!
//! /// Shows every key of the config map that the volume names, and a token.
//! fn show(volume: &Volume, pod: &Pod, target: &MountTarget) -> Result<()> {
//!     let files = FileSet::for_pod(pod);
//!     let map = ConfigMap::open(volume, pod, &volume.required("name")?)?;
//!     for key in map.keys() {
//!         if let Some(content) = map.content(&key) {
//!             files.add_content(&key, &content, 0o644)?;
//!         }
//!     }
//!     log::debug(format_args!("{} is published", map.label()));
//!     let token = objects::service_account_token(pod, Some("vault"), 3600)?;
//!     log::debug(format_args!("the token expires at {:?}", objects::token_expires(&token)));
//!     files.add_private("token", &token, 0o400)?;
//!     files.add_content("ca.crt", &objects::trust_bundle(volume, "ca")?, 0o444)?;
//!     files.show_in_memory(volume, pod, target)
//! }
//!
//! # let host = volhost_plugin_sdk::testing::TestHost::new();
//! # host.config_map("app", &[("a.conf", b"x")]).issues_tokens().trust_bundle("ca", None, "PEM");
//! # let pod = Pod::builder();
//! # let volume = Volume::builder("mine").field("name", "app").field("ca", "ca");
//! # let place = host.target("mine");
//! # let shown = show(&volume.handle(), &pod.handle(), &place.handle());
//! // A plugin may not open objects that the volume does not name; it may read every CSIDriver object.
//! assert!(Secret::open(&volume.handle(), &pod.handle(), "other").is_err());
//! assert!(Secret::referenced(&volume.handle(), "secretRef").is_err());
//! assert!(Secret::of_mount(&volume.handle(), "secretRef").is_err());
//! assert!(objects::trust_bundles(&volume.handle(), "example.com/signer", None).is_err());
//! assert_eq!(objects::csi_driver_spec("csi.example.com")?, None);
//! # Ok::<(), Error>(())
//! ```

use std::fmt;

use crate::backend;
use crate::error::Result;
use crate::files::Content;
use crate::pod::Pod;
use crate::volume::Volume;

/// An object that has keys: a [`ConfigMap`] or a [`Secret`].
pub trait Keyed {
    /// Its kind and name for messages: `config map "app"`.
    fn label(&self) -> String;
    /// The keys, sorted.
    fn keys(&self) -> Vec<String>;
    /// The value of a key; none when there is no such key.
    fn content(&self, key: &str) -> Option<Content>;
}

macro_rules! keyed {
    ($(#[$doc:meta])* $type:ident, $module:ident, $word:literal, $grant:literal) => {
        $(#[$doc])*
        pub struct $type {
            name: String,
            handle: backend::$module::$type,
        }

        impl $type {
            #[doc = concat!("Opens the ", $word, " of this name in the pod's namespace. Needs the grant `", $grant, "`.")]
            ///
            /// # Errors
            /// [`NotFound`](crate::Error::NotFound) when there is none,
            /// [`Retryable`](crate::Error::Retryable) while the host does not know,
            /// [`PermissionDenied`](crate::Error::PermissionDenied) when the volume does not name
            /// it.
            pub fn open(volume: &Volume, pod: &Pod, name: &str) -> Result<Self> {
                let handle =
                    backend::$module::open(volume.handle(), pod.handle(), name).map_err(backend::error_in)?;
                Ok(Self { name: name.to_owned(), handle })
            }
        }

        impl Keyed for $type {
            fn label(&self) -> String {
                format!(concat!($word, " {}"), crate::quote::quoted(&self.name))
            }

            fn keys(&self) -> Vec<String> {
                self.handle.keys()
            }

            fn content(&self, key: &str) -> Option<Content> {
                self.handle.content(key).map(Content::new)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.label())
            }
        }
    };
}

keyed!(
    /// A snapshot of a config map: it does not change while the handle exists.
    ConfigMap, config_maps, "config map", "config-maps"
);
keyed!(
    /// A snapshot of a secret: it does not change while the handle exists.
    Secret, secrets, "secret", "secrets"
);

impl Secret {
    /// The secret that a field of a PersistentVolume's source refers to by `name` and `namespace`
    /// (`nodeStageSecretRef`). Needs the grant `secrets`.
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound) when there is none,
    /// [`Retryable`](crate::Error::Retryable) while the host does not know,
    /// [`InvalidArgument`](crate::Error::InvalidArgument) when the field is no such reference,
    /// [`PermissionDenied`](crate::Error::PermissionDenied) for a volume that a pod itself
    /// describes.
    pub fn referenced(volume: &Volume, field: &str) -> Result<Self> {
        let handle = backend::secrets::referenced(volume.handle(), field).map_err(backend::error_in)?;
        Ok(Self { name: field.to_owned(), handle })
    }

    /// The secret that a field of the source refers to by `name`, in the namespace of the pod for
    /// which the volume is published or staged now; a PersistentVolume's field may name another
    /// `namespace`. Needs the grant `secrets`.
    ///
    /// # Errors
    /// As [`Secret::referenced`], and [`Precondition`](crate::Error::Precondition) when there is no
    /// such pod.
    pub fn of_mount(volume: &Volume, field: &str) -> Result<Self> {
        let handle = backend::secrets::of_mount(volume.handle(), field).map_err(backend::error_in)?;
        Ok(Self { name: field.to_owned(), handle })
    }
}

impl Secret {
    /// A secret of a call; `whose` is for messages.
    pub(crate) fn of_call(whose: &str, handle: backend::secrets::Secret) -> Self {
        Self { name: whose.to_owned(), handle }
    }
}

/// `spec` of the CSIDriver object of this name, as JSON; none when there is no such object. Needs
/// the grant `csi-driver-objects`.
///
/// # Errors
/// [`Retryable`](crate::Error::Retryable) while the host does not know.
pub fn csi_driver_spec(name: &str) -> Result<Option<String>> {
    backend::csi_driver_objects::spec(name).map_err(backend::error_in)
}

/// When a token of [`service_account_token`] expires, as RFC 3339 in UTC; none for a content that
/// is not a token.
#[must_use]
pub fn token_expires(token: &Content) -> Option<String> {
    backend::service_account_tokens::expires(token.handle())
}

/// Returns a token of the pod's service account that is bound to the pod, for this audience (the
/// issuer's own when none). The host calls `publish` again in time for the next one. Needs the
/// grant `service-account-tokens`.
///
/// # Errors
/// [`Precondition`](crate::Error::Precondition) when the node has no issuer of tokens.
pub fn service_account_token(pod: &Pod, audience: Option<&str>, expiration_seconds: u64) -> Result<Content> {
    backend::service_account_tokens::request(pod.handle(), audience, expiration_seconds)
        .map(Content::new)
        .map_err(backend::error_in)
}

/// The certificates of the ClusterTrustBundle of this name, in PEM, each once. Needs the grant
/// `cluster-trust-bundles`.
///
/// # Errors
/// [`NotFound`](crate::Error::NotFound) when there is none.
pub fn trust_bundle(volume: &Volume, name: &str) -> Result<Content> {
    backend::cluster_trust_bundles::named(volume.handle(), name).map(Content::new).map_err(backend::error_in)
}

/// The certificates of every ClusterTrustBundle of this signer whose labels match the selector, in
/// PEM, each once. The selector is the JSON of a LabelSelector: none matches nothing, an empty one
/// everything. Needs the grant `cluster-trust-bundles`.
///
/// # Errors
/// [`NotFound`](crate::Error::NotFound) when no bundle matches.
pub fn trust_bundles(volume: &Volume, signer: &str, label_selector: Option<&str>) -> Result<Content> {
    backend::cluster_trust_bundles::signed_by(volume.handle(), signer, label_selector)
        .map(Content::new)
        .map_err(backend::error_in)
}
