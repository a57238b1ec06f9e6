//! Mounting a share by the newest version that its server speaks.

use volhost_plugin_sdk::network_mounts;
use volhost_plugin_sdk::prelude::*;

use crate::source::Source;
use crate::version::Version;

/// The type of file system.
const NFS: &str = "nfs";

/// A version that is not the newest, and how it came to be used.
#[derive(Debug)]
pub(crate) struct Older {
    used: Version,
    refused: Vec<Version>,
}

impl Older {
    /// The event's text.
    pub(crate) fn message(&self, source: &Source) -> String {
        format!(
            "{source} is mounted by NFS {}: the server does not speak {}{}",
            self.used,
            listed(&self.refused),
            source.options.warning(self.used)
        )
    }
}

/// Mounts with the first version that the server speaks, and says so if it is not the newest.
///
/// # Errors
/// The host's.
pub(crate) fn mount_newest(source: &Source) -> Result<(DetachedMount, Option<Older>)> {
    let mut refused: Vec<Version> = Vec::new();
    let mut last = Error::unsupported("no version of NFS is asked for");
    for &version in &source.options.versions {
        match network_mounts::mount(NFS, &source.server, &source.path, &source.options.of_version(version)) {
            Ok(mount) => {
                let older = (!refused.is_empty()).then_some(Older { used: version, refused });
                return Ok((mount, older));
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
