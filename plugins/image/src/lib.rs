#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod source;
#[cfg(test)]
mod tests;

use source::{PullPolicy, Source};
use volhost_plugin_sdk::oci_images::Image;
use volhost_plugin_sdk::prelude::*;

/// The plugin `kubernetes.io/image`.
#[derive(Debug)]
pub struct ImageVolume;

/// The layers have no mounts in them.
const RECURSIVE: bool = false;
/// The options of every mount: those of the kubelet's image volumes, and no devices and setuid
/// programs of a stranger's.
const ALWAYS: [&str; 4] = ["ro", "noexec", "nodev", "nosuid"];

impl VolumePlugin for ImageVolume {
    fn describe(about: &mut Description) {
        about.name("kubernetes.io/image").version(env!("CARGO_PKG_VERSION")).serves("image").read_only();
    }

    /// Checks every field. Each pod's volume is one of its own: another pod may get another image
    /// of the same name.
    fn identify(volume: &Volume, _id: &mut Identity) -> Result<()> {
        Source::read(volume).map(drop)
    }

    fn publish(volume: &Volume, pod: &Pod, target: &MountTarget) -> Result<()> {
        let source = Source::read(volume)?;
        if target.is_mounted()? {
            return Ok(());
        }
        let mount = image(&source, pod)?.mount().with_context(|| source.reference.clone())?;
        mount.set_options(&ALWAYS, RECURSIVE)?;
        target.attach(mount)
    }

    /// The image stays on the node.
    fn unpublish(target: &MountTarget) -> Result<()> {
        target.detach()
    }
}

/// The image as the pull policy says, with the events of the kubelet.
fn image(source: &Source, pod: &Pod) -> Result<Image> {
    let reference = &source.reference;
    if source.policy != PullPolicy::Always {
        if let Some(image) = oci_images::find(reference, pod)? {
            events::normal("Pulled", format_args!("Container image \"{reference}\" already present on machine"));
            return Ok(image);
        }
        if source.policy == PullPolicy::Never {
            let why = format!("Container image \"{reference}\" is not present with pull policy of Never");
            events::warning("ErrImageNeverPull", &why);
            return Err(Error::precondition(why));
        }
    }
    events::normal("Pulling", format_args!("Pulling image \"{reference}\""));
    let image = oci_images::pull(reference, pod).inspect_err(|error| {
        events::warning("Failed", format_args!("Failed to pull image \"{reference}\": {error}"));
    })?;
    let (digest, size) = (image.digest(), image.size());
    events::normal(
        "Pulled",
        format_args!("Successfully pulled image \"{reference}\" ({digest}). Image size: {size} bytes."),
    );
    Ok(image)
}

export_plugin!(ImageVolume);
