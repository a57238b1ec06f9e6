#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod path_type;
mod source;
#[cfg(test)]
mod tests;

use source::Source;
use volhost_plugin_sdk::prelude::*;

/// The plugin `kubernetes.io/host-path`.
#[derive(Debug)]
pub struct HostPath;

/// Binds the mounts below the path too, as container runtimes do.
const RECURSIVE: bool = true;

impl VolumePlugin for HostPath {
    fn describe(about: &mut Description) {
        about.name("kubernetes.io/host-path").version(env!("CARGO_PKG_VERSION")).serves("hostPath");
    }

    /// Sets no name: each pod has a bind of its own.
    fn identify(volume: &Volume, _id: &mut Identity) -> Result<()> {
        Source::read(volume).map(|_| ())
    }

    fn publish(volume: &Volume, _pod: &Pod, target: &MountTarget) -> Result<()> {
        let source = Source::read(volume)?;
        if target.is_mounted()? {
            return Ok(());
        }
        let mount =
            source.open()?.bind(RECURSIVE).with_context(|| format!("hostPath.path: binding {}", source.path))?;
        if volume.read_only() {
            mount.set_options(&["ro"], RECURSIVE)?;
        }
        target.attach(mount)
    }

    fn unpublish(target: &MountTarget) -> Result<()> {
        target.detach()
    }
}

export_plugin!(HostPath);
