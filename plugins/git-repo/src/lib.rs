#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

#[cfg(test)]
mod tests;

use volhost_plugin_sdk::prelude::*;

/// The plugin `kubernetes.io/git-repo`.
#[derive(Debug)]
pub struct GitRepo;

const REFUSAL: &str = "gitRepo: volumes of this kind are not served: a repository could run programs as root on the node that \
                       clones it (CVE-2024-10220, CVE-2025-1767); use an emptyDir, and an init container that clones into it";

impl VolumePlugin for GitRepo {
    fn describe(about: &mut Description) {
        about.name("kubernetes.io/git-repo").version(env!("CARGO_PKG_VERSION")).serves("gitRepo");
    }

    fn identify(_volume: &Volume, _id: &mut Identity) -> Result<()> {
        Err(Error::unsupported(REFUSAL))
    }

    fn publish(_volume: &Volume, _pod: &Pod, _target: &MountTarget) -> Result<()> {
        Err(Error::unsupported(REFUSAL))
    }

    /// Nothing is ever mounted; this removes an empty mount point.
    fn unpublish(target: &MountTarget) -> Result<()> {
        target.detach()
    }
}

export_plugin!(GitRepo);
