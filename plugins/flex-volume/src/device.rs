//! Volumes that a driver attaches and stages.

use volhost_plugin_sdk::driver_exec::Arguments;
use volhost_plugin_sdk::driver_mounts::Leaf;
use volhost_plugin_sdk::prelude::*;

use crate::FlexVolume;
use crate::call::{Caller, Reply, options};
use crate::note::{Confirmed, Note};
use crate::place::{self, rolled_back, unmount};
use crate::source::{Source, driver_and_name};

/// The attachment of a volume whose driver names no device.
const NO_DEVICE: &str = "(no device)";
/// The default file system of a blank device, as with the kubelet.
const DEFAULT_FS: &str = "ext4";
/// The present size of a volume, as drivers get it.
const SIZE_BEFORE: &str = "0";
/// The empty tmpfs at the staging target of a volume that has nothing to stage.
const PLACEHOLDER_BYTES: u64 = 4096;

impl Attacher for FlexVolume {
    fn attach(volume: &Volume) -> Result<String> {
        let source = Source::read(volume)?;
        let driver = Caller::open(&source.driver)?;
        let options = options(volume, &source)?;
        let node = node::name();
        // The kubelet calls it, checks that it succeeds, and uses its own name.
        if let Reply::Done(named) = driver.call("getvolumename", Arguments::new("getvolumename").json(&options))?
            && let Some(name) = named.field("volumeName").filter(|name| *name != source.name)
        {
            log::debug(format_args!("driver {} calls the volume {}", source.driver, quoted(&name)));
        }
        let device = match driver.call("attach", Arguments::new("attach").json(&options).text(&node)?)? {
            Reply::Done(attached) => attached.field("device").filter(|device| !device.is_empty()),
            Reply::NotSupported => None,
        };
        match driver.call("isattached", Arguments::new("isattached").json(&options).text(&node)?) {
            Ok(Reply::Done(reply)) if reply.field("attached").as_deref() == Some("false") => {
                return Err(Error::uncertain(format!(
                    "driver {} answered \"Success\" to attach, and to isattached that it is not attached",
                    source.driver
                )));
            }
            Ok(_) => {}
            // Many drivers do not really implement it.
            Err(error) => log::warn(format_args!("the driver did not report whether it is attached: {error}")),
        }
        Ok(device.unwrap_or_else(|| NO_DEVICE.to_owned()))
    }

    fn detach(volume_name: &str) -> Result<()> {
        let (driver, name) = driver_and_name(volume_name)?;
        let arguments = Arguments::new("detach").text(name)?.text(&node::name())?;
        Caller::open(&driver)?.call("detach", arguments).map(drop)
    }

    fn wait_for_attach(volume: &Volume, attached: &Attachment) -> Result<Option<BlockDevice>> {
        let source = Source::read(volume)?;
        let device = found_device(volume, &source, &Caller::open(&source.driver)?, &attached.attached_as())?;
        match block_devices::open(&device) {
            Ok(device) => Ok(Some(device)),
            // A text of the driver's own or the path of its image file, which it gets back when it
            // mounts.
            Err(Error::NotFound(_) | Error::Conflict(_) | Error::InvalidArgument(_) | Error::PermissionDenied(_)) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Unsupported: a driver needs the volume's options, which are not known here.
    fn are_attached(_volume_names: &[String]) -> Result<Vec<bool>> {
        Err(Error::unsupported("FlexVolume drivers cannot look up volumes by their names"))
    }
}

/// The device as the driver names it once it exists; empty when it names none.
fn found_device(volume: &Volume, source: &Source, driver: &Caller, attached_as: &str) -> Result<String> {
    let device = if attached_as == NO_DEVICE { "" } else { attached_as };
    let arguments = Arguments::new("waitforattach").text(device)?.json(&options(volume, source)?);
    Ok(match driver.call("waitforattach", arguments)? {
        Reply::Done(found) => found.field("device").filter(|found| !found.is_empty()),
        Reply::NotSupported => None,
    }
    .unwrap_or_else(|| device.to_owned()))
}

/// The device as the driver gets it: its path, or the driver's own text for anything but a block
/// device, such as an image file; empty for a volume that is not attached.
fn device_of(volume: &Volume, source: &Source, driver: &Caller, attached: Option<&Attachment>) -> Result<String> {
    let Some(attached) = attached else { return Ok(String::new()) };
    match attached.device_path() {
        Some(path) => Ok(path),
        None => found_device(volume, source, driver, &attached.attached_as()),
    }
}

impl Stager for FlexVolume {
    fn stage(volume: &Volume, attached: Option<&Attachment>, target: &MountTarget) -> Result<()> {
        if place::is_confirmed(target, "unmountdevice")? {
            return Ok(());
        }
        let source = Source::read(volume)?;
        let driver = Caller::open(&source.driver)?;
        let device = device_of(volume, &source, &driver, attached)?;
        let options = options(volume, &source)?;
        Note::begin(target, &source.driver)?;
        let place = driver_mounts::prepare(target, Leaf::Folder)?;
        place.may_be_folder();
        let arguments = Arguments::new("mountdevice").text(&place.path())?.text(&device)?.json(&options);
        let confirmed = match driver.call("mountdevice", arguments) {
            Ok(Reply::Done(_)) => place::confirmed(target, &place, &source.driver, "mountdevice")?,
            Ok(Reply::NotSupported) => {
                mount_by_host(volume, &source, &device, target)?;
                Confirmed::Mount
            }
            Err(error @ Error::Uncertain(_)) => return Err(error),
            Err(error) => return rolled_back(target, error),
        };
        Note::confirm(target, &source.driver, confirmed)
    }

    fn unstage(volume_name: &str, target: &MountTarget) -> Result<()> {
        let (driver, _) = driver_and_name(volume_name)?;
        unmount(target, &driver, "unmountdevice")
    }
}

/// Does the kubelet's part for a driver that does not support mountdevice: formats the device if it
/// is blank, and mounts it. Without a device it mounts nothing, and the driver mounts for each pod.
fn mount_by_host(volume: &Volume, source: &Source, device: &str, target: &MountTarget) -> Result<()> {
    if device.is_empty() {
        let nothing = Tmpfs::new().size(PLACEHOLDER_BYTES).mode(0o750).create()?;
        nothing.set_options(&["ro", "nosuid", "nodev", "noexec"], false)?;
        return target.attach(nothing);
    }
    let fs_type = source.fs_type.as_deref().unwrap_or(DEFAULT_FS);
    let opened = block_devices::open(device).with_context(|| format!("the device of driver {}", source.driver))?;
    if filesystems::probe(&opened)?.is_none() {
        if volume.read_only() {
            return Err(Error::precondition(format!("{device} is blank, and a read-only volume is not formatted")));
        }
        log::info(format_args!("formatting {device} with {fs_type}"));
        filesystems::format(&opened, fs_type, &filesystems::FormatOptions::new())?;
    }
    target.attach(filesystems::mount(&opened, fs_type, &[], volume.read_only())?)
}

impl Expander for FlexVolume {
    /// The host calls it only when the volume's capacity was raised, as the kubelet does. The
    /// volume's present size is not known here; drivers get 0.
    fn expand(volume: &Volume, attached: Option<&Attachment>, target: Option<&MountTarget>, to: u64) -> Result<u64> {
        let Some(target) = target else { return Ok(to) };
        let source = Source::read(volume)?;
        grow(volume, &source, attached, target, to)?;
        Ok(to)
    }
}

fn grow(volume: &Volume, source: &Source, attached: Option<&Attachment>, target: &MountTarget, to: u64) -> Result<()> {
    let driver = Caller::open(&source.driver)?;
    let options = options(volume, source)?;
    let path = driver_mounts::prepare(target, Leaf::Folder)?.path();
    let size = to.to_string();
    let arguments = Arguments::new("expandvolume").json(&options).text(&path)?.text(&size)?.text(SIZE_BEFORE)?;
    driver.call("expandvolume", arguments)?;
    if !driver.can("requiresFSResize", true) {
        return Ok(());
    }
    let device = device_of(volume, source, &driver, attached)?;
    let arguments =
        Arguments::new("expandfs").json(&options).text(&device)?.text(&path)?.text(&size)?.text(SIZE_BEFORE)?;
    if let Reply::NotSupported = driver.call("expandfs", arguments)?
        && let Some(attached) = attached.filter(|attached| attached.device_path().is_some())
    {
        filesystems::grow(&attached.open()?, target)?;
    }
    Ok(())
}
