#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod call;
mod device;
mod note;
mod place;
mod source;

#[cfg(test)]
mod tests;

use call::{Caller, Said, mount_options};
use note::{Confirmed, Note};
use place::{undone, unmount};
use source::Source;
use volhost_plugin_sdk::driver_exec::Arguments;
use volhost_plugin_sdk::driver_mounts::Leaf;
use volhost_plugin_sdk::prelude::*;

/// What is mounted below the volume is the driver's own.
const RECURSIVE: bool = false;

struct FlexVolume;

impl VolumePlugin for FlexVolume {
    fn describe(about: &mut Description) {
        about.name("volhost.io/flex-volume").version(env!("CARGO_PKG_VERSION")).serves("flexVolume");
    }

    /// Whether the volume is attached is what its driver said to `init`, so the driver must be
    /// there.
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
        if !place::stands(target, "unmount")? {
            // Before the driver does anything: whatever ends this call, it is known who may have
            // mounted here.
            Note::begin(target, &source.driver)?;
            let confirmed = mount(volume, pod, target, &source, &driver)?;
            Note::confirm(target, &source.driver, confirmed)?;
        }
        if volume.read_only() || !driver.can("fsGroup", true) || mounted_read_only(target)? {
            return Ok(());
        }
        // Again, too: it may have been interrupted.
        target.apply_fs_group(pod, false)
    }

    fn unpublish(target: &MountTarget) -> Result<()> {
        let Some(note) = Note::read(target)? else {
            // Nobody knows whose it was; a mount is a mount.
            return target.detach();
        };
        unmount(target, &note.driver, "unmount")
    }
}

/// Whether nobody can write what the driver has mounted, whatever the volume says. The volume
/// stands by now, whatever the answer.
fn mounted_read_only(target: &MountTarget) -> Result<bool> {
    let options = target.mounted_options().map_err(|error| Error::uncertain(error.message().to_owned()))?;
    Ok(options.iter().any(|option| option == "ro"))
}

/// Has the driver mount the volume for a pod; where it leaves that to the host, binds the node's
/// own mount.
fn mount(volume: &Volume, pod: &Pod, target: &MountTarget, source: &Source, driver: &Caller) -> Result<Confirmed> {
    let options = mount_options(volume, pod, source, driver)?;
    let place = driver_mounts::prepare(target, Leaf::Folder)?;
    place.may_be_folder();
    match driver.call("mount", Arguments::new("mount").text(&place.path())?.json(&options)) {
        Ok(Said::Done(_)) => place::confirmed(target, &place, &source.driver, "mount"),
        Ok(Said::NotSupported) => match target.staging_mount()? {
            Some(node) => {
                let mount = node.bind(RECURSIVE)?;
                if volume.read_only() {
                    mount.set_options(&["ro"], RECURSIVE)?;
                }
                target.attach(mount)?;
                Ok(Confirmed::Mount)
            }
            None => undone(
                target,
                Error::unsupported(format!(
                    "driver {} does not support mount, and nothing is mounted for the node that could be bound in its place",
                    source.driver
                )),
            ),
        },
        // What is mounted then is not known: the host calls again, and `place::stands` takes it
        // back, or the host unmounts the volume.
        Err(error @ Error::Uncertain(_)) => Err(error),
        Err(error) => undone(target, error),
    }
}

export_plugin!(FlexVolume, Attacher, Stager, Expander);
