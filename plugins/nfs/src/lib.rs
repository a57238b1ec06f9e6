#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod controller;
mod folder;
mod handle;
mod made;
mod mount;
mod options;
mod parameters;
#[cfg(test)]
mod provisioning_tests;
mod record;
mod source;
#[cfg(test)]
mod tests;
mod version;

use mount::mount_newest;
use source::Source;
use volhost_plugin_sdk::prelude::*;

/// The plugin `kubernetes.io/nfs`.
#[derive(Debug)]
pub struct Nfs;

/// Mounts below belong to the server's other exports; the kernel makes them when they are used.
const RECURSIVE: bool = false;
/// The event's reason when a pod gets an older version than the newest.
const OLDER_VERSION: &str = "OlderNfsVersion";

impl VolumePlugin for Nfs {
    fn describe(about: &mut Description) {
        about
            .name("kubernetes.io/nfs")
            .version(env!("CARGO_PKG_VERSION"))
            .serves("nfs")
            .serves(source::MADE)
            .accepts_mount_options()
            .setting(controller::SHARES, SettingKind::Texts, controller::SHARES_HELP);
    }

    /// Sets no name: each pod has a mount of its own, and the kernel shares the connection.
    fn identify(volume: &Volume, _id: &mut Identity) -> Result<()> {
        Source::read(volume).map(|_| ())
    }

    fn publish(volume: &Volume, _pod: &Pod, target: &MountTarget) -> Result<()> {
        let source = Source::read(volume)?;
        if target.is_mounted()? {
            return Ok(());
        }
        let (mount, older) = mount_newest(&source)?;
        if let Some(older) = older {
            let text = older.message(&source);
            events::normal(OLDER_VERSION, &text);
            log::info(&text);
        }
        let mut flags: Vec<&str> = source.options.of_mount.iter().map(String::as_str).collect();
        if source.read_only {
            flags.push("ro");
        }
        mount.set_options(&flags, RECURSIVE).context("spec.mountOptions")?;
        target.attach(mount)
    }

    fn unpublish(target: &MountTarget) -> Result<()> {
        target.detach()
    }
}

export_plugin!(Nfs, Controller);
