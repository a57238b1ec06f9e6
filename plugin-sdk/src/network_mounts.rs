//! What servers export over the network.
//!
//! A plugin that calls this needs the grant `network-servers`; one that does not call it does not
//! request it.
//!
//! ```
//! use volhost_plugin_sdk::prelude::*;
//! # let host = volhost_plugin_sdk::testing::TestHost::new();
//! # host.share("nas.example.com", "/export/home", &["4.2"]);
//! # let target = host.target("home");
//! # let target = target.handle();
//! let options = [("vers", Some("4.2")), ("soft", None)];
//! target.attach(network_mounts::mount("nfs", "nas.example.com", "/export/home", &options)?)?;
//! # Ok::<(), Error>(())
//! ```

use crate::backend::{self, FsOption};
use crate::error::Result;
use crate::files::Content;
use crate::mounts::DetachedMount;

/// Mounts the folder `path` that `server` exports, as a detached mount. The types are `nfs` and
/// `cifs`, which is SMB. `server` is a host name or an address, IPv6 without brackets; `path` is absolute.
///
/// The options are the file system's own, by mount(8)'s names, none of which names an address;
/// per-mount options are set on the result. Nothing is negotiated: name the version of the
/// protocol.
///
/// # Errors
/// [`Unsupported`](crate::Error::Unsupported) for a version that the server does not speak,
/// [`Retryable`](crate::Error::Retryable) when it cannot be reached,
/// [`NotFound`](crate::Error::NotFound) when it does not export the folder,
/// [`PermissionDenied`](crate::Error::PermissionDenied) for a server that is not granted and when
/// the server refuses this node; else the kernel's error.
pub fn mount(fs_type: &str, server: &str, path: &str, options: &[(&str, Option<&str>)]) -> Result<DetachedMount> {
    backend::network_mounts::mount(fs_type, server, path, &listed(options))
        .map(DetachedMount::new)
        .map_err(backend::error_in)
}

/// As [`mount`], with options whose values are contents of a secret: for `cifs` `username`,
/// `password` and `domain`. The host gives them to the kernel, and shows them nowhere.
///
/// ```
/// use volhost_plugin_sdk::objects::{Keyed, Secret};
/// use volhost_plugin_sdk::prelude::*;
///
/// # let host = volhost_plugin_sdk::testing::TestHost::new();
/// # host.share("nas", "/share", &["3.1.1"]).secret("login", &[("password", b"x")]);
/// # let volume = Volume::builder("mine").field("secretRef.name", "login");
/// # let volume = &volume.handle();
/// let secret = Secret::of_mount(volume, "secretRef")?;
/// if let Some(password) = secret.content("password") {
///     let (options, secrets) = ([("vers", Some("3.1.1"))], [("password", &password)]);
///     network_mounts::mount_with_secrets("cifs", "nas", "/share", &options, &secrets)?;
/// }
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
/// As [`mount`], and [`InvalidArgument`](crate::Error::InvalidArgument) for a value that is not
/// one line of text, or an option that takes no secret;
/// [`PermissionDenied`](crate::Error::PermissionDenied) when the server does not accept them.
pub fn mount_with_secrets(
    fs_type: &str,
    server: &str,
    path: &str,
    options: &[(&str, Option<&str>)],
    secrets: &[(&str, &Content)],
) -> Result<DetachedMount> {
    let secrets: Vec<_> = secrets.iter().map(|(key, value)| backend::secret_option(key, value.handle())).collect();
    backend::network_mounts::mount_with_secrets(fs_type, server, path, &listed(options), &secrets)
        .map(DetachedMount::new)
        .map_err(backend::error_in)
}

fn listed(options: &[(&str, Option<&str>)]) -> Vec<FsOption> {
    options.iter().map(|(key, value)| FsOption { key: (*key).to_owned(), value: value.map(str::to_owned) }).collect()
}
