//! What a plugin that was let in may reach, and how much it may use: its grant, as the host
//! functions ask for it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use thiserror::Error;

use super::fuse::FuseServer;
use super::servers::{FcTargets, Portals, Servers};
use super::words::{EVERY_DRIVER, EVERY_REGISTRY};
use crate::settings::Values;

/// A word that the plugin may not mount with.
#[derive(Debug, Error)]
pub(crate) enum MountNotGranted {
    /// The type of a file system.
    #[error(
        "the file system {fs_type:?} is not granted to this plugin ({}); see `filesystems` under [grants] in the configuration",
        listed(.granted)
    )]
    FileSystem {
        /// The type.
        fs_type: String,
        /// Those that are granted.
        granted: BTreeSet<String>,
    },
    /// An option of a mount.
    #[error(
        "the mount option {option:?} is not granted to this plugin ({}); see `mount-options` under [grants] in the configuration",
        listed(.granted)
    )]
    MountOption {
        /// The option.
        option: String,
        /// Those that are granted.
        granted: BTreeSet<String>,
    },
}

fn listed(granted: &BTreeSet<String>) -> String {
    let granted: Vec<&str> = granted.iter().map(String::as_str).collect();
    if granted.is_empty() { "none is".to_owned() } else { format!("granted: {}", granted.join(", ")) }
}

/// The plugin has as many loop devices as it may.
#[derive(Debug, Error)]
#[error(
    "this plugin has {has} loop devices, and {granted} are granted; see `loop-devices` under [grants] in the configuration"
)]
pub(crate) struct TooManyLoopDevices {
    has: usize,
    granted: usize,
}

/// A server that the plugin may not mount from.
#[derive(Debug, Error)]
#[error(
    "the server {server:?} is not granted to this plugin; see `network-servers` under [grants] in the configuration"
)]
pub(crate) struct ServerNotGranted {
    server: String,
}

/// The bounds of one plugin.
#[derive(Debug, Default)]
pub(crate) struct Reach {
    /// Folders within which it may open paths.
    pub(crate) host_paths: Vec<PathBuf>,
    /// Folders within which it may keep image files and make loop devices over them.
    pub(crate) loop_files: Vec<PathBuf>,
    /// Folders whose image files it may mount.
    pub(crate) image_files: Vec<PathBuf>,
    /// Servers that it may mount from.
    pub(crate) network_servers: Vec<Servers>,
    /// Portals of iSCSI targets that it may log in to.
    pub(crate) iscsi_portals: Vec<Portals>,
    /// Ports and units of Fibre Channel targets that it may use.
    pub(crate) fc_targets: Vec<FcTargets>,
    /// Registries that it may take images from; `*` for all.
    pub(crate) image_registries: Vec<String>,
    /// Folders within which it may use image layouts.
    pub(crate) image_layouts: Vec<PathBuf>,
    /// The most that an image may have on disk in bytes, in place of the usual.
    pub(crate) image_size: Option<u64>,
    /// Block devices it may open, or folders within which it may open them.
    pub(crate) block_devices: Vec<PathBuf>,
    /// Names of drivers that it may call, `*` for all.
    pub(crate) csi_drivers: Vec<String>,
    /// Drivers outside that it may run; `*` for all.
    pub(crate) flex_drivers: Vec<String>,
    /// Programs that may serve file systems for it, by name.
    pub(crate) fuse_servers: BTreeMap<String, FuseServer>,
    /// The only types of file systems that it may make and mount, if that is bounded.
    pub(crate) filesystems: Option<BTreeSet<String>>,
    /// The only options that it may mount with, if that is bounded.
    pub(crate) mount_options: Option<BTreeSet<String>>,
    /// How many loop devices it may have at once, if that is bounded.
    pub(crate) loop_devices: Option<usize>,
    /// The images that it is known to have loop devices over.
    pub(crate) looped: Mutex<BTreeSet<String>>,
    /// Linear memory of one call in bytes, in place of the usual.
    pub(crate) memory: Option<usize>,
    /// How long its own code may run in one call, in place of the usual.
    pub(crate) call_time: Option<Duration>,
    /// How many of its operations may run at once, if it is fewer than of others.
    pub(crate) concurrency: Option<usize>,
    /// The values that the operator gives it.
    pub(crate) settings: Values,
}

/// Every mount may be made read-only: that takes something away.
const READ_ONLY: &str = "ro";

impl Reach {
    /// Returns whether the plugin may call the driver of this name.
    pub(crate) fn calls(&self, driver: &str) -> bool {
        self.csi_drivers.iter().any(|granted| granted == driver || granted == EVERY_DRIVER)
    }

    /// Returns whether the plugin may take images from the registry of this host.
    pub(crate) fn takes_images_from(&self, host: &str) -> bool {
        self.image_registries.iter().any(|granted| granted == host || granted == EVERY_REGISTRY)
    }

    /// Checks a file system's type and the names of options against what the plugin may mount.
    ///
    /// # Errors
    /// The word that is not granted, and where it can be.
    pub(crate) fn may_mount<'a>(
        &self,
        fs_type: Option<&str>,
        options: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), MountNotGranted> {
        if let (Some(fs_type), Some(granted)) = (fs_type, &self.filesystems)
            && !granted.contains(fs_type)
        {
            return Err(MountNotGranted::FileSystem { fs_type: fs_type.to_owned(), granted: granted.clone() });
        }
        if let Some(granted) = &self.mount_options
            && let Some(other) = options.into_iter().find(|option| *option != READ_ONLY && !granted.contains(*option))
        {
            return Err(MountNotGranted::MountOption { option: other.to_owned(), granted: granted.clone() });
        }
        Ok(())
    }

    /// Returns those addresses of a server that the plugin may mount from.
    ///
    /// # Errors
    /// None of them is granted.
    pub(crate) fn granted_addresses(&self, server: &str, found: &[IpAddr]) -> Result<Vec<IpAddr>, ServerNotGranted> {
        let granted = |address: &IpAddr| self.network_servers.iter().any(|servers| servers.include(server, *address));
        let granted: Vec<IpAddr> = found.iter().copied().filter(granted).collect();
        if granted.is_empty() { Err(ServerNotGranted { server: server.to_owned() }) } else { Ok(granted) }
    }

    /// Takes note of a loop device over this image that the plugin is to have.
    ///
    /// # Errors
    /// The plugin has as many as it may.
    pub(crate) fn take_loop(&self, image: &str) -> Result<(), TooManyLoopDevices> {
        let mut looped = self.looped.lock().unwrap_or_else(PoisonError::into_inner);
        match self.loop_devices {
            Some(most) if looped.len() >= most && !looped.contains(image) => {
                Err(TooManyLoopDevices { has: looped.len(), granted: most })
            }
            _ => {
                looped.insert(image.to_owned());
                Ok(())
            }
        }
    }

    /// The plugin has no loop device over this image any more.
    pub(crate) fn give_loop_back(&self, image: &str) {
        self.looped.lock().unwrap_or_else(PoisonError::into_inner).remove(image);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(list: &[&str]) -> Option<BTreeSet<String>> {
        Some(list.iter().map(|word| (*word).to_owned()).collect())
    }

    #[test]
    fn without_bounds_everything_may_be_mounted() {
        let reach = Reach::default();
        reach.may_mount(Some("ext4"), ["noatime"]).unwrap();
        (0..100).for_each(|n| reach.take_loop(&n.to_string()).unwrap());
    }

    #[test]
    fn what_is_not_granted_is_refused_by_its_name_and_read_only_never_is() {
        let reach = Reach { filesystems: words(&["ext4"]), mount_options: words(&["noatime"]), ..Reach::default() };
        reach.may_mount(Some("ext4"), ["noatime", "ro"]).unwrap();
        reach.may_mount(None, []).unwrap();
        let refused = reach.may_mount(Some("xfs"), []).unwrap_err().to_string();
        assert!(refused.contains("\"xfs\"") && refused.contains("granted: ext4"), "{refused}");
        let refused = reach.may_mount(Some("ext4"), ["ro", "suid"]).unwrap_err().to_string();
        assert!(refused.contains("\"suid\"") && refused.contains("mount-options"), "{refused}");
    }

    #[test]
    fn only_the_granted_addresses_of_a_server_are_used() {
        let network = Servers::try_from("192.0.2.0/24".to_owned()).unwrap();
        let reach = Reach { network_servers: vec![network], ..Reach::default() };
        let (inside, outside) = (IpAddr::from([192, 0, 2, 7]), IpAddr::from([198, 51, 100, 7]));
        assert_eq!(reach.granted_addresses("nas", &[outside, inside]).unwrap(), [inside]);
        let refused = reach.granted_addresses("nas", &[outside]).unwrap_err().to_string();
        assert!(refused.contains("\"nas\"") && refused.contains("network-servers"), "{refused}");
        assert!(Reach::default().granted_addresses("nas", &[inside]).is_err());
    }

    #[test]
    fn loop_devices_are_counted_by_image() {
        let reach = Reach { loop_devices: Some(2), ..Reach::default() };
        for image in ["a", "b", "a"] {
            reach.take_loop(image).unwrap();
        }
        assert!(reach.take_loop("c").unwrap_err().to_string().contains("2 are granted"));
        reach.give_loop_back("a");
        reach.take_loop("c").unwrap();
    }
}
