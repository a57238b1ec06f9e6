#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod call;
mod device;
mod source;

#[cfg(test)]
mod tests;

use call::{Caller, Said, mount_options};
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

    /// Whether the volume is attached is what its driver said to `init`, so the driver must be there.
    fn identify(volume: &Volume, id: &mut Identity) -> Result<()> {
        let source = Source::read(volume)?;
        // Its texts are checked here, before anything runs.
        call::options(volume, &source)?;
        let attaches = Caller::open(&source.driver)?.can("attach", true);
        id.attachable(attaches);
        id.device_mountable(attaches);
        id.name(&source.unique_name(volume)?);
        Ok(())
    }

    fn set_up(volume: &Volume, pod: &Pod, target: &MountTarget) -> Result<()> {
        let source = Source::read(volume)?;
        let driver = Caller::open(&source.driver)?;
        if !target.is_mounted()? {
            // Before the driver does anything: whatever ends this call, it is known who may have mounted here.
            driver_mounts::keep_note(target, &source.driver)?;
            mount(volume, pod, target, &source, &driver)?;
        }
        if volume.read_only() || !driver.can("fsGroup", true) || mounted_read_only(target)? {
            return Ok(());
        }
        // Again, too: it may have been interrupted.
        target.apply_fs_group(pod, false)
    }

    fn tear_down(target: &MountTarget) -> Result<()> {
        let Some(driver) = driver_mounts::note(target)? else {
            // Nobody knows whose it was; a mount is a mount.
            return target.detach();
        };
        unmount(target, &driver, "unmount")
    }
}

/// Whether nobody can write what the driver has mounted, whatever the volume says. The volume stands by now, whatever the answer.
fn mounted_read_only(target: &MountTarget) -> Result<bool> {
    let options = target.mounted_options().map_err(|error| Error::uncertain(error.message().to_owned()))?;
    Ok(options.iter().any(|option| option == "ro"))
}

/// Has the driver mount the volume for a pod; where it leaves that to the host, binds the node's own mount.
fn mount(volume: &Volume, pod: &Pod, target: &MountTarget, source: &Source, driver: &Caller) -> Result<()> {
    let options = mount_options(volume, pod, source)?;
    let place = driver_mounts::prepare(target, Leaf::Folder)?;
    match driver.call("mount", Arguments::new("mount").text(&place.path())?.json(&options)) {
        Ok(Said::Done(_)) => match place.take_over() {
            Ok(_) => Ok(()),
            Err(error) => {
                undone(target, error.context(format_args!("driver {} answered \"Success\" to mount", source.driver)))
            }
        },
        Ok(Said::NotSupported) => match target.device_mount()? {
            Some(node) => {
                let mount = node.bind(RECURSIVE)?;
                if volume.read_only() {
                    mount.set_options(&["ro"], RECURSIVE)?;
                }
                target.attach(mount)
            }
            None => undone(
                target,
                Error::unsupported(format!(
                    "driver {} does not support mount, and does not attach either, so that nothing can be mounted",
                    source.driver
                )),
            ),
        },
        // What stands then nobody knows: the host repeats the call, or takes the volume away.
        Err(error @ Error::Uncertain(_)) => Err(error),
        Err(error) => undone(target, error),
    }
}

/// Takes away what a call that failed has left, so that a pod never finds half a volume.
fn undone(target: &MountTarget, error: Error) -> Result<()> {
    match target.detach() {
        Ok(()) => Err(error),
        Err(left) => {
            Err(Error::uncertain(error.and(&left.context("what it left could not be taken away")).to_string()))
        }
    }
}

/// Has the driver unmount what it mounted, and takes away what it leaves.
fn unmount(target: &MountTarget, driver: &str, call: &str) -> Result<()> {
    let was_mounted = match target.state()? {
        TargetState::Absent => return Ok(()),
        TargetState::Plain => false,
        TargetState::Mounted => true,
    };
    let answer = Caller::open(driver).and_then(|caller| {
        let place = driver_mounts::prepare(target, Leaf::Folder)?;
        caller.call(call, Arguments::new(call).text(&place.path())?)
    });
    match answer {
        Ok(Said::NotSupported) => {}
        Ok(Said::Done(_)) if target.is_mounted()? => events::warning(
            "DriverLeftMount",
            format_args!(
                "driver {driver} answered \"Success\" to {call} and left its mount; volhost has taken it away"
            ),
        ),
        Ok(Said::Done(_)) => {}
        Err(Error::NotFound(why)) => events::warning(
            "DriverMissing",
            format_args!("{why}; volhost takes its mount away without it, and what else it made may be left"),
        ),
        // It never mounted here, and says so in its way.
        Err(Error::Retryable(why)) if !was_mounted => log::info(format_args!("nothing is mounted, and {why}")),
        Err(error) => return Err(error),
    }
    target.detach()
}

export_plugin!(FlexVolume, Attacher, DeviceMounter, Expander);
