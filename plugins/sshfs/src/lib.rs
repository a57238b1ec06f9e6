#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod source;
#[cfg(test)]
mod tests;

use source::Source;
use volhost_plugin_sdk::objects::{Keyed, Secret};
use volhost_plugin_sdk::prelude::*;

/// The plugin `volhost.io/sshfs`.
#[derive(Debug)]
pub struct Sshfs;

/// The name of the FUSE server in the grant.
const SERVER: &str = "sshfs";
/// The keys of the secret: that of Kubernetes' type `kubernetes.io/ssh-auth`, and ssh's file of
/// hosts.
const PRIVATE_KEY: &str = "ssh-privatekey";
const KNOWN_HOSTS: &str = "known_hosts";

impl VolumePlugin for Sshfs {
    fn describe(about: &mut Description) {
        about.name("volhost.io/sshfs").version(env!("CARGO_PKG_VERSION")).serves("csi:sshfs.volhost.io");
    }

    /// Sets no name: each pod has a server of its own, with the secret of its own namespace.
    fn identify(volume: &Volume, _id: &mut Identity) -> Result<()> {
        Source::read(volume).map(|_| ())
    }

    fn publish(volume: &Volume, pod: &Pod, target: &MountTarget) -> Result<()> {
        let source = Source::read(volume)?;
        if target.is_mounted()? {
            return Ok(());
        }
        let mount = serve(&source, volume, pod).with_context(|| format!("sshfs: {source}"))?;
        target.attach(mount)
    }

    /// Returns when sshfs has ended: then the server has all that was written.
    fn unpublish(target: &MountTarget) -> Result<()> {
        target.detach()
    }
}

/// Starts sshfs, and returns its mount once the server has answered.
fn serve(source: &Source, volume: &Volume, pod: &Pod) -> Result<DetachedMount> {
    let secret = Secret::of_mount(volume, source::SECRET).with_context(|| volume.place(source::SECRET))?;
    let value = |key: &str, why: &str| {
        let missing = || Error::precondition(format!("{} has no key {key}: {why}", secret.label()));
        secret.content(key).ok_or_else(missing)
    };
    let key = value(PRIVATE_KEY, "sshfs authenticates by a key alone")?;
    let hosts = value(KNOWN_HOSTS, "the host key of the server is always checked against it")?;

    let server = FuseServer::open(SERVER)?;
    let set = |slot: &str, field: &str, text: &str| server.set(slot, text).with_context(|| volume.place(field));
    set("user", source::USER, &source.user)?;
    set("server", source::SERVER, &source.server)?;
    set("path", source::PATH, &source.path)?;
    if let Some(port) = source.port {
        set("port", source::PORT, &port.to_string())?;
    }
    if let Some(uid) = source.uid.or_else(|| pod.fs_user()) {
        set("uid", source::UID, &uid.to_string())?;
    }
    if let Some(gid) = source.gid.or_else(|| pod.fs_group()) {
        set("gid", source::GID, &gid.to_string())?;
    }
    server.set_secret("key", &key)?;
    server.set_secret("known-hosts", &hosts)?;
    server.serve(source.read_only)
}

export_plugin!(Sshfs);
