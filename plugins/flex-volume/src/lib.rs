#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod call;
mod device;
mod note;
mod place;
mod source;

#[cfg(test)]
mod tests;

use call::{Caller, Reply, mount_options};
use note::{Confirmed, Note};
use place::{rolled_back, unmount};
use source::Source;
use volhost_plugin_sdk::driver_exec::Arguments;
use volhost_plugin_sdk::driver_mounts::Leaf;
use volhost_plugin_sdk::prelude::*;

/// Mounts below the volume belong to the driver and are not bound.
const RECURSIVE: bool = false;

struct FlexVolume;

impl VolumePlugin for FlexVolume {
    fn describe(about: &mut Description) {
        about.name("volhost.io/flex-volume").version(env!("CARGO_PKG_VERSION")).serves("flexVolume");
    }

    /// Reads the driver's answer to `init`, which decides whether the volume is attached, so the
    /// driver must be installed.
    fn identify(volume: &Volume, id: &mut Identity) -> Result<()> {
        let source = Source::read(volume)?;
        // Its texts are checked here, before anything runs.
        call::options(volume, &source)?;
        let attaches = Caller::open(&source.driver)?.attaches();
        id.attachable(attaches);
        id.stageable(attaches);
        id.name(&source.unique_name(volume)?);
        Ok(())
    }

    fn publish(volume: &Volume, pod: &Pod, target: &MountTarget) -> Result<()> {
        let source = Source::read(volume)?;
        let driver = Caller::open(&source.driver)?;
        if !place::is_confirmed(target, "unmount")? {
            // Before the driver does anything: whatever ends this call, the note names the driver
            // that may have mounted here.
            Note::begin(target, &source.driver)?;
            let confirmed = mount(volume, pod, target, &source, &driver)?;
            Note::confirm(target, &source.driver, confirmed)?;
        }
        if volume.read_only() || !driver.can("fsGroup", true) || mounted_read_only(target)? {
            return Ok(());
        }
        // Repeated calls do this, too: an earlier one may have been interrupted.
        target.apply_fs_group(pod, false)
    }

    fn unpublish(target: &MountTarget) -> Result<()> {
        let Some(note) = Note::read(target)? else {
            // Without a note the driver is not known; the host unmounts any mount.
            return target.detach();
        };
        unmount(target, &note.driver, "unmount")
    }
}

/// Whether the driver's mount is read-only, whatever the volume requests. The volume is mounted
/// already, so a failure is uncertain.
fn mounted_read_only(target: &MountTarget) -> Result<bool> {
    let options = target.mounted_options().map_err(|error| Error::uncertain(error.message().to_owned()))?;
    Ok(options.iter().any(|option| option == "ro"))
}

/// Has the driver mount the volume for a pod; where it leaves that to the host, binds the staging
/// mount.
fn mount(volume: &Volume, pod: &Pod, target: &MountTarget, source: &Source, driver: &Caller) -> Result<Confirmed> {
    let options = mount_options(volume, pod, source, driver)?;
    let place = driver_mounts::prepare(target, Leaf::Folder)?;
    place.may_be_folder();
    match driver.call("mount", Arguments::new("mount").text(&place.path())?.json(&options)) {
        Ok(Reply::Done(_)) => place::confirmed(target, &place, &source.driver, "mount"),
        Ok(Reply::NotSupported) => match target.staging_mount()? {
            Some(node) => {
                let mount = node.bind(RECURSIVE)?;
                if volume.read_only() {
                    mount.set_options(&["ro"], RECURSIVE)?;
                }
                target.attach(mount)?;
                Ok(Confirmed::Mount)
            }
            None => rolled_back(
                target,
                Error::unsupported(format!(
                    "driver {} does not support mount, and the volume has no staging mount that could be bound in its place",
                    source.driver
                )),
            ),
        },
        // The result is not known then: the host calls again, and `place::is_confirmed` rolls it
        // back, or the host unmounts the volume.
        Err(error @ Error::Uncertain(_)) => Err(error),
        Err(error) => rolled_back(target, error),
    }
}

export_plugin!(FlexVolume, Attacher, Stager, Expander);
