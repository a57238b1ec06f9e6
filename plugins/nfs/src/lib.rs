#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod options;
mod source;
#[cfg(test)]
mod tests;
mod version;

use source::Source;
use version::Version;
use volhost_plugin_sdk::network_mounts;
use volhost_plugin_sdk::prelude::*;

/// The plugin `kubernetes.io/nfs`.
#[derive(Debug)]
pub struct Nfs;

/// The type of file system.
const NFS: &str = "nfs";
/// Mounts below belong to the server's other exports; the kernel makes them when they are used.
const RECURSIVE: bool = false;
/// The event's reason when a pod gets an older version than the newest.
const OLDER_VERSION: &str = "OlderNfsVersion";

impl VolumePlugin for Nfs {
    fn describe(about: &mut Description) {
        about.name("kubernetes.io/nfs").version(env!("CARGO_PKG_VERSION")).serves("nfs").accepts_mount_options();
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
        let mount = mount(&source)?;
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

/// Mounts with the first version that the server speaks, and says so if it is not the newest.
fn mount(source: &Source) -> Result<DetachedMount> {
    let mut refused: Vec<Version> = Vec::new();
    let mut last = Error::unsupported("no version of NFS is asked for");
    for &version in &source.options.versions {
        match network_mounts::mount(NFS, &source.server, &source.path, &source.options.of_version(version)) {
            Ok(mount) => {
                if !refused.is_empty() {
                    let text = format!(
                        "{source} is mounted by NFS {version}: the server does not speak {}{}",
                        listed(&refused),
                        source.options.warning(version)
                    );
                    events::normal(OLDER_VERSION, &text);
                    log::info(&text);
                }
                return Ok(mount);
            }
            Err(Error::Unsupported(why)) => {
                refused.push(version);
                last = Error::unsupported(why);
            }
            Err(error) => return Err(error.context(NFS)),
        }
    }
    Err(last.context(format!("nfs: {source} can't be mounted by NFS {}", listed(&refused))))
}

/// Versions as words: `4.2, 4.1`.
fn listed(versions: &[Version]) -> String {
    versions.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

export_plugin!(Nfs);
