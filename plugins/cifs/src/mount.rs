//! Mounting a share with the secret that the volume names.

use volhost_plugin_sdk::files::Content;
use volhost_plugin_sdk::network_mounts;
use volhost_plugin_sdk::objects::{Keyed, Secret};
use volhost_plugin_sdk::prelude::*;

use crate::source::Source;

/// The type of file system.
const CIFS: &str = "cifs";
/// The keys of the secret, which are the options' names, and whether it must have them.
const KEYS: [(&str, bool); 3] = [("username", true), ("password", true), ("domain", false)];

/// Mounts the share for a pod.
///
/// # Errors
/// `precondition` for a secret that lacks a key; the host's.
pub(crate) fn mount(source: &Source, volume: &Volume, pod: &Pod) -> Result<DetachedMount> {
    let credentials = credentials(source, volume)?;
    let secrets: Vec<(&str, &Content)> = credentials.iter().map(|(key, content)| (*key, content)).collect();
    let owners = source.options.owners(pod.fs_user(), pod.fs_group());
    let mut options = source.options.of_cifs();
    options.extend(owners.iter().map(|(key, value)| (*key, Some(value.as_str()))));
    network_mounts::mount_with_secrets(CIFS, &source.server, &source.path, &options, &secrets).context(CIFS)
}

fn credentials(source: &Source, volume: &Volume) -> Result<Vec<(&'static str, Content)>> {
    let Some(field) = source.secret else { return Ok(Vec::new()) };
    let secret = Secret::of_mount(volume, field).with_context(|| volume.place(field))?;
    let mut found = Vec::new();
    for (key, is_required) in KEYS {
        match secret.content(key) {
            Some(content) => found.push((key, content)),
            None if is_required => {
                return Err(Error::precondition(format!("{} has no key {key}", secret.label())));
            }
            None => {}
        }
    }
    Ok(found)
}
